package queue

import (
	"fmt"
	"slices"
)

// This file decides whose failure it is, and what a pass proves.

// proofs clears what a passed run of a later group includes: with optimistic
// merging it is the proof of everything ahead that it was tested with.
func (d *decision) proofs() bool {
	if !d.s.Queue.CanOptimisticallyMerge {
		return false
	}
	for _, g := range d.line() {
		r := d.s.run(g)
		if r == nil || r.State != RunPassed || d.state(g) != TestsPassed || !d.provesAhead(g, r) {
			continue
		}
		for _, a := range d.landsWithAhead(g) {
			if state := d.state(a); (state == Testing || state == PendingFailure) && !d.groupLands(a.ID) {
				d.prove(a, g, r)
				return true
			}
		}
	}
	return false
}

// provesAhead reports whether the passed run of a group shows those ahead of it to be
// good, too. Where chains are narrow it must have all that they were tested with, and as
// the very trees: else they could not land together, and would wait for that for ever.
func (d *decision) provesAhead(g *Group, r *Run) bool {
	return !d.narrow() || !r.Narrow && d.landsWith(d.ahead(g), g, r)
}

// landsWithAhead are the groups ahead that could land in one landing with a
// group: none from before one that lands by itself, because what is proven lands
// together with its proof.
func (d *decision) landsWithAhead(g *Group) []*Group {
	ahead := d.ahead(g)
	if g.OneByOne {
		return nil
	}
	for i, a := range slices.Backward(ahead) {
		if a.OneByOne {
			return ahead[i+1:]
		}
	}
	return ahead
}

// prove passes a group by the run of one behind it.
func (d *decision) prove(g, by *Group, r *Run) {
	d.discard(g)
	g.Proof = by.ID
	for _, e := range d.s.members(g) {
		e.VerifiedBy = r.ID
		d.move(e, TestsPassed, SuccessorTestRunPassed, fmt.Sprintf("The tests of %s, which include it, passed on %s.", pullRequests(r.Own()), short(r.Commit)), Actor{}, r.ID)
	}
}

// holds decides the first failure that nothing can explain away any more: one
// entry fails, several are bisected.
func (d *decision) holds() bool {
	for _, g := range d.line() {
		if d.groupLands(g.ID) || d.state(g) != PendingFailure || len(d.ahead(g)) > 0 {
			continue
		}
		if held, started := d.heldByDepth(g); held || started {
			if started {
				return true
			}
			continue
		}
		switch r := d.s.run(g); {
		case d.unconfirmed(g, r):
			d.confirm(g, r)
		case len(g.Members) > 1:
			d.bisect(g, r)
		default:
			d.blame(g, "", r.Why, r.Message, r.ID)
		}
		return true
	}
	return d.bisections()
}

// heldByDepth reports whether the failure of a group waits for the results of
// the groups behind it. A group that could join those is given its slot first. Where
// nobody is tested on top of it, nobody can clear it.
func (d *decision) heldByDepth(g *Group) (held, started bool) {
	depth := d.s.Queue.PendingFailureDepth
	if depth == 0 || g.apart() {
		return false, false
	}
	behind := d.behind(g)
	if int64(len(behind)) < depth && (d.urgent() || d.starts()) {
		return true, true
	}
	for _, b := range behind[:min(int64(len(behind)), depth)] {
		r := d.s.run(b)
		if b.Proof == 0 && (r == nil || r.State.Live()) {
			return true, false
		}
	}
	return false, false
}

// blame makes a group's fault one entry's. The named entry leaves; where
// nobody is named and there are several, each is tested alone.
func (d *decision) blame(g *Group, named EntryID, why Reason, message string, run RunID) {
	if len(g.Members) == 1 {
		named = g.Members[0]
	}
	if slices.Contains(g.Members, named) {
		d.end(d.s.Entries[named], ending{to: Failed, why: why, message: message, run: run})
		return
	}
	members := d.s.members(g)
	d.wait(g, GroupChanged, "The group could not be told apart: each of its pull requests is tested alone.", Actor{}, run)
	d.dissolve(g)
	for _, e := range members {
		e.Group, e.Alone = 0, true
	}
}
