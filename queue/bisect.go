package queue

import (
	"fmt"
	"slices"
)

// This file finds the culprit of a batch that failed. The group steps out of
// the line; its halves, or more parts, form a line of their own on the very base
// of the run that failed, the first, then the second on top of the first, and so on
// until one entry fails with nothing uncertain ahead of it. A bisection never
// lands anything: what passes in it goes back to be tested by the main line.

// returnedShift leaves room for the place of an entry within its bisection.
const returnedShift = 20

// behindAll is the place of those that come back from a probation: behind the
// members of the newest bisection, and among each other as they were.
const behindAll = 1<<returnedShift - 2

// bisect takes a failed group out of the line and splits it.
func (d *decision) bisect(g *Group, r *Run) {
	q := &d.s.Queue
	q.Bisected++
	base := r.Base
	if ahead := r.Ahead(); len(ahead) > 0 {
		last := ahead[len(ahead)-1]
		base.Commit, base.Tree = last.Commit, last.Tree
	}
	steps := d.steps(g)
	b := Bisection{ID: q.Bisected, Base: base, Steps: steps, Failed: [][]Step{steps}, Members: slices.Clone(g.Members)}
	q.Bisections = append(slices.Clone(q.Bisections), b)
	members := d.s.members(g)
	d.wait(g, BisectionRequired, "The batch failed: it is split to find out which pull request is to blame.", Actor{}, r.ID)
	d.dissolve(g)
	d.s.Parts = append(slices.Clone(d.s.Parts), d.parts(b.ID, members)...)
}

// parts makes parts of entries, the first ones the larger by one at most: two, and
// in an adaptive queue one more than searches have slots. The culprit is in the
// first that fails, or in the last if those before it pass; so with k slots what
// is left is a part of k+1 after the time of one test.
func (d *decision) parts(bisection int64, members []*Entry) (ids []GroupID) {
	n := 2
	if d.adaptive() {
		n = int(min(d.s.Queue.BisectionConcurrency+1, mostParts))
	}
	for n = min(n, len(members)); n > 0; n-- {
		size := (len(members) + n - 1) / n
		ids = append(ids, d.part(bisection, members[:size]).ID)
		members = members[size:]
	}
	return ids
}

func (d *decision) part(bisection int64, members []*Entry) *Group {
	d.s.Queue.Groups++
	g := &Group{ID: GroupID(d.s.Queue.Groups), Part: &Part{Bisection: bisection}, FormedAt: d.now}
	for _, e := range members {
		g.Members = append(g.Members, e.ID)
		e.Group = g.ID
	}
	d.s.Groups[g.ID] = g
	return g
}

// bisection finds the bisection of a part, and makes it ours to change.
func (d *decision) bisection(g *Group) *Bisection {
	d.s.Queue.Bisections = slices.Clone(d.s.Queue.Bisections)
	return d.searchOf(g)
}

// searchOf finds the bisection of a part, to be read.
func (d *decision) searchOf(g *Group) *Bisection {
	for i := range d.s.Queue.Bisections {
		if b := &d.s.Queue.Bisections[i]; b.ID == g.Part.Bisection {
			return b
		}
	}
	panic(fmt.Sprintf("queue: group %d is part of bisection %d, which is not there", g.ID, g.Part.Bisection))
}

// chain is what a part's branch is made of: everything before it in the old
// order that has not left, then its own.
func (b *Bisection) chain(g *Group) []Step {
	last := g.Members[len(g.Members)-1]
	at := slices.IndexFunc(b.Steps, func(s Step) bool { return s.Entry == last })
	return b.Steps[:at+1]
}

// knownToFail reports whether this very chain has failed.
func (b *Bisection) knownToFail(chain []Step) bool {
	return slices.ContainsFunc(b.Failed, func(f []Step) bool { return sameSteps(f, chain) })
}

// builtOnFailure reports whether what a part would be built on has failed.
func (b *Bisection) builtOnFailure(chain []Step, own int) bool {
	return slices.ContainsFunc(b.Failed, func(f []Step) bool {
		return len(f) <= len(chain)-own && sameSteps(f, chain[:len(f)])
	})
}

// partsOf are the parts of one bisection in order.
func (d *decision) partsOf(id int64) []*Group {
	var parts []*Group
	for _, g := range d.s.groups(d.s.Parts) {
		if g.Part.Bisection == id {
			parts = append(parts, g)
		}
	}
	return parts
}

// bisections takes one step in the first bisection where there is one to take.
func (d *decision) bisections() bool {
	for _, b := range d.s.Queue.Bisections {
		parts := d.partsOf(b.ID)
		if len(parts) == 0 {
			d.innocent(b)
			return true
		}
		for i, g := range parts {
			if d.judgePart(g, i == 0) {
				return true
			}
		}
	}
	return false
}

// judgePart decides on a part that passed, failed, or need not be run. certain
// says that nothing ahead of it is undecided.
func (d *decision) judgePart(g *Group, certain bool) bool {
	b := d.searchOf(g)
	r := d.s.run(g)
	chain := b.chain(g)
	switch {
	case r != nil && r.State == RunPassed:
		d.giveBack(g, "It passed in the search for the culprit of a failed batch.")
		return true
	case r != nil && r.State == RunFailed:
		if !b.knownToFail(chain) {
			b = d.bisection(g)
			b.Failed = append(slices.Clone(b.Failed), slices.Clone(chain))
			return true
		}
		return certain && d.culprit(g, r.Why, r.Message, r.ID)
	case r != nil && r.State.Live() && b.builtOnFailure(chain, len(g.Members)):
		d.restart(g, BisectionRequired, "What it was tested on top of has failed.", Actor{})
		return true
	case (r == nil || r.State.Live()) && d.s.Queue.OptimizationMode == BisectionSkipRedundantTests && b.knownToFail(chain):
		if len(g.Members) > 1 {
			d.split(g)
			return true
		}
		return certain && d.culprit(g, FailedByOptimization, "With everything ahead of it the tests pass, and with it they failed: this is the tree of the batch that failed, which is not tested twice.", "")
	}
	return false
}

// culprit acts on a part that is known to be at fault: several entries are
// split, one fails and ends the search.
func (d *decision) culprit(g *Group, why Reason, message string, run RunID) bool {
	if len(g.Members) > 1 {
		d.split(g)
		return true
	}
	id := g.Part.Bisection
	d.end(d.s.Entries[g.Members[0]], ending{to: Failed, why: why, message: message, run: run})
	for _, other := range d.partsOf(id) {
		d.giveBack(other, "The culprit of the failed batch is found, and it is another one.")
	}
	d.forget(id)
	return true
}

// split puts smaller parts in the place of one.
func (d *decision) split(g *Group) {
	members, id, run := d.s.members(g), g.Part.Bisection, g.Run
	d.wait(g, BisectionRequired, "This part of the batch failed: it is split further.", Actor{}, run)
	at := slices.Index(d.s.Parts, g.ID)
	d.dissolve(g)
	d.s.Parts = slices.Insert(slices.Clone(d.s.Parts), at, d.parts(id, members)...)
}

// giveBack sends the members of a part to the front of the pending entries.
func (d *decision) giveBack(g *Group, message string) {
	b := d.bisection(g)
	members, run := d.s.members(g), g.Run
	d.wait(g, BisectionPassed, message, Actor{}, run)
	d.dissolve(g)
	d.sendBack(members, b.ID, func(e *Entry) int { return slices.Index(b.Members, e.ID) })
}

// undecided sends a part back that could not be built. Nobody knows whether it passes, so
// it is in the chain of no other part any more.
func (d *decision) undecided(g *Group, message string) {
	for _, e := range d.s.members(g) {
		d.leaveSearch(g, e)
	}
	d.giveBack(g, message)
}

// sendBack puts entries in front of the pending ones, behind those that came back
// under a lower number, each at its place.
func (d *decision) sendBack(entries []*Entry, number int64, place func(*Entry) int) {
	d.orderChanged()
	for _, e := range entries {
		e.Group = 0
		e.Returned = number<<returnedShift | int64(place(e)+1)
	}
}

// innocent ends a bisection that found no culprit: the batch may have failed
// by a flake or by a fault of the set-up, so each is tested alone.
func (d *decision) innocent(b Bisection) {
	for _, id := range b.Members {
		if e := d.s.Entries[id]; e != nil && e.Active() && e.Returned>>returnedShift == b.ID {
			e.Alone = true
		}
	}
	d.forget(b.ID)
}

func (d *decision) forget(id int64) {
	d.s.Queue.Bisections = slices.DeleteFunc(slices.Clone(d.s.Queue.Bisections), func(b Bisection) bool { return b.ID == id })
}

// staleParts restarts the first part whose run is no longer its chain, because
// an entry that it includes has left or was pushed to.
func (d *decision) staleParts() bool {
	for i := range d.s.Queue.Bisections {
		if d.dropLeft(i) {
			return true
		}
		b := &d.s.Queue.Bisections[i]
		for _, g := range d.partsOf(b.ID) {
			r := d.s.run(g)
			switch {
			case r == nil:
			case r.Spoilt != "":
				d.restart(g, GroupChanged, r.Spoilt, Actor{})
				return true
			case !sameSteps(r.Chain, b.chain(g)):
				d.restart(g, GroupChanged, "A pull request that it was tested with left.", Actor{})
				return true
			}
		}
	}
	return false
}

// dropLeft takes entries out of a bisection's order that are no longer what
// they were: those that left without landing, and those that were pushed to.
func (d *decision) dropLeft(i int) bool {
	b := d.s.Queue.Bisections[i]
	stays := func(s Step) bool {
		e := d.s.Entries[s.Entry]
		if e == nil {
			return false
		}
		own := stepOf(e)
		return own.same(&s) && (e.Active() || e.State == Merged)
	}
	if !slices.ContainsFunc(b.Steps, func(s Step) bool { return !stays(s) }) {
		return false
	}
	b.Steps = slices.DeleteFunc(slices.Clone(b.Steps), func(s Step) bool { return !stays(s) })
	d.s.Queue.Bisections = slices.Clone(d.s.Queue.Bisections)
	d.s.Queue.Bisections[i] = b
	return true
}

// leaveSearch takes an entry out of a search that has not decided on it: what others
// failed with on top of it says nothing of them, even where it has landed in another
// way, by hand or late.
func (d *decision) leaveSearch(g *Group, e *Entry) {
	b := d.bisection(g)
	b.Steps = slices.DeleteFunc(slices.Clone(b.Steps), func(s Step) bool { return s.Entry == e.ID })
}

// startParts gives free bisection slots to parts, oldest bisection first.
func (d *decision) startParts() bool {
	q := &d.s.Queue
	free := q.BisectionConcurrency
	parts := d.s.groups(d.s.Parts)
	for _, g := range parts {
		if r := d.s.run(g); r != nil && r.State.Live() {
			free--
		}
	}
	if free <= 0 {
		return false
	}
	for _, g := range parts {
		if g.Run != "" || !d.due(g.NotBefore) {
			continue
		}
		b := d.searchOf(g)
		chain := b.chain(g)
		redundant := q.OptimizationMode == BisectionSkipRedundantTests && b.knownToFail(chain)
		if !redundant && !b.builtOnFailure(chain, len(g.Members)) {
			d.run(g, BisectionRun, b.Base, slices.Clone(chain))
			return true
		}
	}
	return false
}
