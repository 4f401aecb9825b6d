package queue

import "iter"

// neighbours finds who overlaps whom among free entries, for batches in parallel
// mode: an index from target to the entries that have it, made once a decision.
type neighbours struct {
	place map[EntryID]int
	sets  []TargetSet
	by    byTarget // of indexed sets
	wide  []int    // the places whose set is everything or too large to index
}

// byTarget tells for each target at which places it is. The list holds them all, each
// with the one of the same target before it, so that the index is two allocations.
type byTarget struct {
	newest map[uint64]int
	all    []occurrence // the first is none
}

type occurrence struct{ place, before int }

// newByTarget has room for so many targets.
func newByTarget(targets int) byTarget {
	return byTarget{newest: make(map[uint64]int, targets), all: make([]occurrence, 1, targets+1)}
}

// add puts the targets of an indexed set at a place.
func (b *byTarget) add(s TargetSet, place int) {
	for _, h := range s.Hashes {
		b.all = append(b.all, occurrence{place, b.newest[h]})
		b.newest[h] = len(b.all) - 1
	}
}

// places are those of a target, the last added first.
func (b *byTarget) places(h uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := b.newest[h]; at != 0; at = b.all[at].before {
			if !yield(b.all[at].place) {
				return
			}
		}
	}
}

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
	n.by = newByTarget(targets)
	for i, s := range n.sets {
		if s.indexed() {
			n.by.add(s, i)
		} else {
			n.wide = append(n.wide, i)
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
		for p := range n.by.places(h) {
			near[p] = true
		}
	}
	for _, p := range n.wide {
		near[p] = near[p] || s.Overlaps(n.sets[p])
	}
}
