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
	if e.Stacked() {
		return Everything
	}
	id := e.countedTargets()
	if set, known := d.s.Targets[id]; known && id != 0 {
		return set
	}
	return Everything
}

// countedTargets names that set.
func (e *Entry) countedTargets() TargetsID {
	if e.Group != 0 {
		return e.BoundTargets
	}
	return e.Targets
}

// crowd is a set of entries of which somebody asks whether he overlaps any: an
// index by target, so that the answer costs as much as he has targets, however
// many there are in the crowd.
type crowd struct {
	anybody    bool
	everything bool        // somebody's set is everything
	has        []bool      // by number of a target
	large      []TargetSet // not worth indexing for one decision
}

// indexedTargets is the size up to which a set is indexed.
const indexedTargets = 1000

func (s TargetSet) indexed() bool { return !s.All && len(s.Hashes) <= indexedTargets }

func (d *decision) add(c *crowd, s impact) {
	c.anybody = true
	switch {
	case s.All:
		c.everything = true
	case !s.indexed():
		c.large = append(c.large, s.TargetSet)
	default:
		if len(c.has) < len(d.known.numbers.targets) {
			c.has = append(c.has, make([]bool, len(d.known.numbers.targets)-len(c.has))...)
		}
		for _, n := range s.numbers {
			c.has[n] = true
		}
	}
}

func (d *decision) overlaps(c *crowd, s impact) bool {
	if !c.anybody || c.everything || s.All {
		return c.anybody
	}
	for _, n := range s.numbers {
		if int(n) < len(c.has) && c.has[n] {
			return true
		}
	}
	if !s.indexed() {
		for n, has := range c.has {
			if !has {
				continue
			}
			if _, found := slices.BinarySearch(s.Hashes, d.known.numbers.targets[n]); found {
				return true
			}
		}
	}
	return slices.ContainsFunc(c.large, s.Overlaps)
}

// join adds entries to a crowd, meets asks whether any of them overlaps it. The
// mode of a queue is decided here, and it is all that it means: in single mode
// the order of any two entries matters, in parallel mode that of those that
// share a target.
func (d *decision) join(c *crowd, entries ...*Entry) {
	for _, e := range entries {
		if d.s.Queue.Mode == Single {
			d.add(c, impact{TargetSet: Everything})
		} else {
			d.add(c, d.impact(e))
		}
	}
}

func (d *decision) meets(c *crowd, entries ...*Entry) bool {
	return slices.ContainsFunc(entries, func(e *Entry) bool {
		return c.everything || c.anybody && d.overlaps(c, d.impact(e))
	})
}

// steps are the changes of groups in order, as a chain that is not built yet.
func (d *decision) steps(groups ...*Group) []Step {
	steps := make([]Step, 0, members(groups))
	for _, g := range groups {
		for _, id := range g.Members {
			steps = append(steps, stepOf(d.s.Entries[id]))
		}
	}
	return steps
}

// members is how many members groups have.
func members(groups []*Group) int {
	n := 0
	for _, g := range groups {
		n += len(g.Members)
	}
	return n
}

// own are the changes of one group.
func (d *decision) own(g *Group) []Step {
	l := d.lineup()
	if at, inLine := l.place[g.ID]; inLine {
		return l.own[at]
	}
	return d.steps(g)
}

func stepOf(e *Entry) Step {
	return Step{Entry: e.ID, Submission: e.Submission, PR: e.Number, Head: e.BoundHead, Targets: e.BoundTargets}
}

// isChain reports whether a chain is exactly the changes of groups, in order, but for
// steps that have landed after seq. What is in the line has not: only what is not
// found there is looked up.
func (d *decision) isChain(chain []Step, seq int64, groups ...*Group) bool {
	at := 0
	for _, g := range groups {
		own := d.own(g)
		for i := range own {
			for at < len(chain) && !chain[at].same(&own[i]) {
				if d.landedAs(chain[at]) <= seq {
					return false
				}
				at++
			}
			if at++; at > len(chain) {
				return false
			}
		}
	}
	return len(d.withoutLanded(chain[at:], seq)) == 0
}

// sameSteps reports whether two chains are the same changes in the same order.
func sameSteps(a, b []Step) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].same(&b[i]) {
			return false
		}
	}
	return true
}
