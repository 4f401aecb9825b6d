package queue

import "slices"

// form chooses the members of the next group from the free entries in their
// order, nil when none can go now. A batch that waits for more entries holds
// up those that it overlaps, and only those. So does an entry behind a group
// whose branch is not built: in the line it would hold no slot, and while that
// lasts everybody else would follow it there, out of reach of priorities and
// batches. Entries that came back from a bisection have waited enough.
func (d *decision) form() []*Entry {
	free := d.sorted(func(e *Entry) bool { return e.Free() && !d.conflictUndecided(e) })
	var waiting crowd
	unbuilt := d.unbuilt()
	for i, e := range free {
		if d.meets(&waiting, e) {
			d.join(&waiting, e)
			continue
		}
		batch, closed := free[i:i+1:i+1], true
		if d.batched(e) {
			batch, closed = d.batch(free[i:])
		}
		if d.meets(unbuilt, batch...) {
			d.join(&waiting, batch...)
			continue
		}
		full := int64(len(batch)) >= d.s.Queue.BatchingMinSize
		if full || closed || e.Returned != 0 || d.due(e.AdmittedAt.Add(minutes(d.s.Queue.BatchingMaxWaitTimeMinutes))) {
			return batch
		}
		d.join(&waiting, batch...)
	}
	return nil
}

// unbuilt are the entries of the line on top of which no run can begin now: of
// groups whose branch is not built, and of those that such a group is ahead of.
func (d *decision) unbuilt() *crowd {
	var c crowd
	holdsUp := map[GroupID]bool{}
	for _, g := range d.line() {
		waits := func(a *Group) bool { return holdsUp[a.ID] }
		if !d.built(g) || slices.ContainsFunc(d.ahead(g), waits) {
			holdsUp[g.ID] = true
			d.join(&c, d.s.members(g)...)
		}
	}
	return &c
}

// batched reports whether an entry may be tested together with others.
func (d *decision) batched(e *Entry) bool {
	return d.s.Queue.Batch && !e.NoBatch && !e.Alone && e.Priority != Urgent
}

// batch collects the entries that go together with the first: those that
// overlap it, directly or through one another, in order. closed says that it
// can grow no more, because an entry that goes alone stands behind it.
func (d *decision) batch(free []*Entry) (batch []*Entry, closed bool) {
	batch = free[:1:1]
	overlaps, joins := d.overlapping(free)
	joins(free[0])
	for _, e := range free[1:] {
		if int64(len(batch)) >= d.s.Queue.BatchingMinSize {
			break
		}
		if !overlaps(e) {
			continue
		}
		if !d.batched(e) {
			return batch, true
		}
		joins(e)
		batch = append(batch, e)
	}
	return batch, false
}

// overlapping tells of free entries whether they overlap any that has joined.
func (d *decision) overlapping(free []*Entry) (overlaps func(*Entry) bool, joins func(*Entry)) {
	if d.s.Queue.Mode == Single {
		return func(*Entry) bool { return true }, func(*Entry) {}
	}
	n := d.neighbours(free)
	near := make([]bool, len(n.sets))
	return func(e *Entry) bool { return near[n.place[e.ID]] }, func(e *Entry) { n.mark(near, e) }
}
