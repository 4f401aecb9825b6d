package queue

// neighbours finds who overlaps whom among free entries, for batches in parallel
// mode: an index from target to the entries that have it, made once a decision.
type neighbours struct {
	place map[EntryID]int
	sets  []TargetSet
	// first is the newest occurrence of each target, next the one before it.
	first map[uint64]int
	next  []occurrence
	wide  []int // the places whose set is everything or too large to index
}

type occurrence struct{ place, before int }

// neighbours is the index of free entries, made anew when it misses one.
func (d *decision) neighbours(free []*Entry) *neighbours {
	if n := d.known.near; n != nil && n.knows(free) {
		return n
	}
	n := &neighbours{place: make(map[EntryID]int, len(free)), sets: make([]TargetSet, len(free))}
	targets := 0
	for i, e := range free {
		n.place[e.ID], n.sets[i] = i, d.targetsOf(e)
		if n.sets[i].indexed() {
			targets += len(n.sets[i].Hashes)
		}
	}
	n.first, n.next = make(map[uint64]int, targets), make([]occurrence, 1, targets+1)
	for i, s := range n.sets {
		if !s.indexed() {
			n.wide = append(n.wide, i)
			continue
		}
		for _, h := range s.Hashes {
			n.next = append(n.next, occurrence{i, n.first[h]})
			n.first[h] = len(n.next) - 1
		}
	}
	d.known.near = n
	return n
}

func (n *neighbours) knows(free []*Entry) bool {
	for _, e := range free {
		if _, known := n.place[e.ID]; !known {
			return false
		}
	}
	return true
}

// mark marks the places of everybody who overlaps an entry.
func (n *neighbours) mark(near []bool, e *Entry) {
	i := n.place[e.ID]
	s := n.sets[i]
	if !s.indexed() {
		for p, o := range n.sets {
			near[p] = near[p] || s.Overlaps(o)
		}
		return
	}
	for _, h := range s.Hashes {
		for at := n.first[h]; at != 0; at = n.next[at].before {
			near[n.next[at].place] = true
		}
	}
	for _, p := range n.wide {
		near[p] = near[p] || s.Overlaps(n.sets[p])
	}
}
