package queue

// This file answers what people ask of a picture of the queue. It uses the
// rules by which the queue decides, and decides nothing.

// Ahead says for every group of the line which groups it must be tested on top
// of, in line order: in single mode all before it, in parallel mode those that
// it overlaps and, unless the queue is adaptive, those that they overlap, and so on.
// Without a group's targets in the snapshot it overlaps everybody.
func Ahead(s *Snapshot) map[GroupID][]GroupID {
	d := &decision{s: s, before: s}
	all := map[GroupID][]GroupID{}
	for _, g := range d.line() {
		for _, a := range d.ahead(g) {
			all[g.ID] = append(all[g.ID], a.ID)
		}
	}
	return all
}

// Forecast says which free pending entries of the snapshot will be tested
// together if nothing changes, in the order in which they would start: the
// first most of them. Entries that wait for one they conflict with are in none.
func Forecast(s *Snapshot, most int) [][]EntryID {
	d := &decision{s: s, before: s}
	free := d.sorted(func(e *Entry) bool {
		other := s.Entries[e.ConflictsWith]
		return e.Free() && (other == nil || !other.Active())
	})
	size := d.batchSize(free)
	free = free[:min(len(free), most)]
	var groups [][]EntryID
	for len(free) > 0 {
		batch := free[:1:1]
		if d.batched(free[0]) {
			batch, _ = d.batch(d.mates(free), 0, size, &crowd{})
		}
		taken := map[EntryID]bool{}
		ids := make([]EntryID, len(batch))
		for i, e := range batch {
			taken[e.ID], ids[i] = true, e.ID
		}
		groups = append(groups, ids)
		rest := free[1:]
		if len(batch) > 1 {
			rest = nil
			for _, e := range free {
				if !taken[e.ID] {
					rest = append(rest, e)
				}
			}
		}
		free = rest
	}
	return groups
}
