package queue

// This file lands without a run what was tested already: a pull request whose
// head contains the target's head and has passed everything there. Merging it
// gives the very tree that was tested, as long as nothing lands in between: so
// it goes only when nothing that it overlaps is in the queue, and its landing
// is bound to that target like every other.

// direct finds a free entry that can land without a run, nil if there is none.
func (d *decision) direct() *Entry {
	q := &d.s.Queue
	if q.DirectMergeMode != DirectMergeAlways || !q.State.Lands() {
		return nil
	}
	var before crowd
	for _, g := range d.line() {
		d.join(&before, d.s.members(g)...)
	}
	for _, e := range d.sorted((*Entry).Free) {
		if e.Direct == q.Target.Commit && e.Direct != "" && !d.meets(&before, e) && !d.conflictUndecided(e) {
			return e
		}
		d.join(&before, e)
	}
	return nil
}

// directLost makes a group that was to land without a run one like any other
// when the target is no longer the one that it was tested on.
func (d *decision) directLost(g *Group) {
	if g.Direct && d.s.Entries[g.Members[0]].Direct != d.s.Queue.Target.Commit {
		g.Direct = false
	}
}

// isDirect reports whether an entry is to land without a run.
func (d *decision) isDirect(e *Entry) bool {
	g := d.s.Groups[e.Group]
	return g != nil && g.Direct
}

// directLanding has the host merge a pull request. The tree to expect is that
// of the merge, which is that of its head.
func (d *decision) directLanding(g *Group) Land {
	q := &d.s.Queue
	e := d.s.Entries[g.Members[0]]
	land := Land{Queue: q.ID, Landing: q.Landings, Branch: q.Branch, Mode: LandHost, Method: q.MergeMethod, Expect: q.Target.Commit,
		Recompute: true, Steps: []StepSpec{d.spec(stepOf(e))}}
	if e.Forced {
		land.Forced = append(land.Forced, e.ID)
	}
	return land
}
