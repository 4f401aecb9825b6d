package queue

import (
	"hash/fnv"
	"slices"
)

// TargetSet is what a pull request impacts, as its CI uploaded it: a set of
// names, kept as sorted 64-bit hashes, or everything. Two different names
// with one hash make two pull requests wait for each other, no more.
type TargetSet struct {
	All    bool
	Hashes []uint64 // sorted, each once
}

// Everything is the set that overlaps every other.
var Everything = TargetSet{All: true}

// NewTargetSet hashes names.
func NewTargetSet(names []string) TargetSet {
	hashes := make([]uint64, len(names))
	for i, name := range names {
		h := fnv.New64a()
		h.Write([]byte(name))
		hashes[i] = h.Sum64()
	}
	slices.Sort(hashes)
	return TargetSet{Hashes: slices.Compact(hashes)}
}

// Overlaps reports whether two sets share a target or one of them is
// everything. The empty set overlaps nothing but everything.
func (s TargetSet) Overlaps(o TargetSet) bool {
	if s.All || o.All {
		return true
	}
	small, large := s.Hashes, o.Hashes
	if len(small) > len(large) {
		small, large = large, small
	}
	for _, h := range small {
		i, found := slices.BinarySearch(large, h)
		if found {
			return true
		}
		large = large[i:]
	}
	return false
}

// targetsOf is the set that counts for an entry: in a group, the one known
// when that was formed; else the newest. Unknown counts as everything.
func (d *decision) targetsOf(e *Entry) TargetSet {
	id := e.Targets
	if e.Group != 0 {
		id = e.BoundTargets
	}
	if set, known := d.s.Targets[id]; known && id != 0 {
		return set
	}
	return Everything
}

// entriesOverlap is the mode of the queue, and all that it means: in single
// mode the order of any two entries matters, in parallel mode that of those
// that share a target.
func (d *decision) entriesOverlap(a, b *Entry) bool {
	return d.s.Queue.Mode == Single || d.targetsOf(a).Overlaps(d.targetsOf(b))
}

// overlap reports whether the order of two groups matters.
func (d *decision) overlap(a, b *Group) bool {
	if d.s.Queue.Mode == Single {
		return true
	}
	for _, x := range d.s.members(a) {
		if d.overlapsAny(x, d.s.members(b)) {
			return true
		}
	}
	return false
}

func (d *decision) overlapsAny(e *Entry, others []*Entry) bool {
	return slices.ContainsFunc(others, func(o *Entry) bool { return d.entriesOverlap(e, o) })
}

// ahead are the groups of the line that come before g and that it must be
// tested on top of, in line order: those it overlaps, those they overlap, and
// so on.
func (d *decision) ahead(g *Group) []*Group {
	line := d.s.line()
	at := slices.IndexFunc(line, func(o *Group) bool { return o.ID == g.ID })
	if at < 0 {
		return nil
	}
	lane := d.lane(g, line[:at], true)
	slices.Reverse(lane)
	return lane
}

// aheadOf are the groups that free entries would have ahead of them at the end
// of the line.
func (d *decision) aheadOf(members []*Entry) []*Group {
	g := &Group{}
	for _, e := range members {
		g.Members = append(g.Members, e.ID)
	}
	return d.lane(g, d.s.line(), true)
}

// behind are the groups of the line that must be tested on top of g, in line order.
func (d *decision) behind(g *Group) []*Group {
	line := d.s.line()
	at := slices.IndexFunc(line, func(o *Group) bool { return o.ID == g.ID })
	if at < 0 {
		return nil
	}
	return d.lane(g, line[at+1:], false)
}

// lane walks away from g and collects what overlaps g or anything collected.
func (d *decision) lane(g *Group, groups []*Group, backwards bool) []*Group {
	if d.s.Queue.Mode == Single && !backwards {
		return slices.Clone(groups)
	}
	var lane []*Group
	for i := range groups {
		other := groups[i]
		if backwards {
			other = groups[len(groups)-1-i]
		}
		if d.overlap(g, other) || slices.ContainsFunc(lane, func(l *Group) bool { return d.overlap(l, other) }) {
			lane = append(lane, other)
		}
	}
	return lane
}

// steps are the changes of groups in order, as a chain that is not built yet.
func (d *decision) steps(groups ...*Group) []Step {
	var steps []Step
	for _, g := range groups {
		for _, e := range d.s.members(g) {
			steps = append(steps, stepOf(e))
		}
	}
	return steps
}

func stepOf(e *Entry) Step {
	return Step{Entry: e.ID, Submission: e.Submission, PR: e.Number, Head: e.BoundHead}
}

// sameSteps reports whether two chains are the same changes in the same order.
func sameSteps(a, b []Step) bool { return slices.EqualFunc(a, b, Step.same) }
