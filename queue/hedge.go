package queue

import (
	"cmp"
	"maps"
	"slices"
)

// This file hedges: on slots that nobody else wants, a group in the lanes of an
// adaptive queue is also tested without one that is ahead of it and may well fail.
// When that fails, the group need not start anew: it takes the run over.

const (
	// hedgeFrom is the chance of failing from which on others are also tested
	// without a group.
	hedgeFrom = 0.1
	// hedgesEach is how many hedges a group has at most.
	hedgesEach = 3
)

// hedges notes what came of hedges, ends those of which nothing can come any more,
// and begins new ones.
func (d *decision) hedges() bool { return d.endHedges() || d.beginHedge() }

// hedged are the groups that have hedges, with those in the order in which they were begun.
func (d *decision) hedged() map[GroupID][]*Run {
	if d.known.hedged == nil {
		d.known.hedged = map[GroupID][]*Run{}
		for _, r := range d.s.Runs {
			if r.hedges() {
				d.known.hedged[r.Group] = append(d.known.hedged[r.Group], r)
			}
		}
		for _, runs := range d.known.hedged {
			slices.SortFunc(runs, (*Run).after)
		}
	}
	return d.known.hedged
}

// hedgesOf are the hedges of a group.
func (d *decision) hedgesOf(g *Group) []*Run { return d.hedged()[g.ID] }

// hedgesChanged forgets who has which hedges.
func (d *decision) hedgesChanged() { d.known.hedged = nil }

// hedges reports whether a run is a hedge that its group may yet take over.
func (r *Run) hedges() bool { return r.Hedge != "" && r.State != Stopped }

// after orders runs as they were asked for: no two have one stamp.
func (r *Run) after(o *Run) int { return cmp.Compare(r.Own()[0].Stamp, o.Own()[0].Stamp) }

// endHedges notes the end of one hedge, or ends one.
func (d *decision) endHedges() bool {
	var newest *Run
	for _, id := range slices.Sorted(maps.Keys(d.hedged())) {
		_, inLine := d.lineup().place[id]
		for _, r := range d.hedged()[id] {
			if d.hedgeOver(r) {
				return true
			}
			if !inLine || !d.mayServe(d.s.Groups[id], r) {
				d.dropHedge(r)
				return true
			}
			if r.State.Live() && (newest == nil || r.after(newest) > 0) {
				newest = r
			}
		}
	}
	if newest == nil || d.spareSlots() >= 0 {
		return false
	}
	d.dropHedge(newest)
	return true
}

// hedgeOver notes that a live hedge has ended.
func (d *decision) hedgeOver(r *Run) bool {
	switch {
	case !r.State.Live():
		return false
	case r.NotBuilt != nil:
		d.hedgeForNothing(r, r.NotBuilt.Message)
		return true
	case r.Spoilt != "", d.due(r.Deadline):
		d.hedgeForNothing(r, cmp.Or(r.Spoilt, "Nobody told in time what became of it."))
		return true
	case r.State == Building:
		return false
	}
	j := r.judge(d.now, d.s.TestChecks)
	switch j.verdict {
	case VerdictPassed:
		r.State, r.EndedAt, r.Cleared = RunPassed, d.now, j.cleared
	case VerdictFailed:
		r.State, r.EndedAt, r.Why, r.Message = RunFailed, d.now, RequiredStatusFailed, d.failedText(r, j.names)
	case VerdictInterrupted:
		d.hedgeForNothing(r, list(j.names)+" was cancelled.")
	default:
		d.wakeAt(j.until)
		return d.readChecks(r)
	}
	return true
}

// hedgeForNothing ends a hedge of which nothing follows: it could not be built, or somebody
// else ended it. It is remembered while it would be one, so that it is not begun again and
// again.
func (d *decision) hedgeForNothing(r *Run, why string) {
	d.drop(r)
	r.State, r.Message, r.NotBuilt = Interrupted, why, nil
}

// mayServe reports whether a group may yet want a hedge: it tests what the group would
// be tested on if the one that it leaves out were not there, or is not there any more.
func (d *decision) mayServe(g *Group, r *Run) bool {
	if !d.narrow() || r.Base.Epoch != d.s.Queue.Target.Epoch {
		return false
	}
	ahead := d.ahead(g)
	if g.Run != "" {
		without := d.inLine(r.Hedge)
		if without == nil || d.passedBy(g) || !slices.Contains(ahead, without) || r.State.Live() && d.doubts()[without.ID] == 0 {
			return false
		}
		ahead = except(ahead, without)
	}
	return d.isChain(r.Chain, r.Base.Seq, append(ahead[:len(ahead):len(ahead)], g)...)
}

// passedBy reports whether somebody that a suspect overlaps was started without it. When
// it is tested again it takes its place behind them.
func (d *decision) passedBy(g *Group) bool {
	if g.Probation != Suspect {
		return false
	}
	var own crowd
	d.join(&own, d.s.members(g)...)
	return slices.ContainsFunc(d.line()[d.lineup().place[g.ID]+1:], func(o *Group) bool {
		return !o.apart() && d.meets(&own, d.s.members(o)...)
	})
}

// inLine is the group of an entry, nil if it is in none of the line.
func (d *decision) inLine(id EntryID) *Group {
	if e := d.s.Entries[id]; e != nil && e.Group != 0 {
		if g := d.s.Groups[e.Group]; g != nil && g.Part == nil {
			return g
		}
	}
	return nil
}

// except is a list of groups without one.
func except(groups []*Group, g *Group) []*Group {
	return slices.DeleteFunc(slices.Clone(groups), func(o *Group) bool { return o == g })
}

// dropHedge ends a hedge that nobody will take over.
func (d *decision) dropHedge(r *Run) {
	if r.State != Interrupted { // else that was done
		d.drop(r)
	}
	r.State = Stopped // whatever came of it means nothing
	d.hedgesChanged()
}

// serving is a hedge of a group that waits for a run, which tests exactly what would begin
// now; nil if there is none.
func (d *decision) serving(g *Group) *Run {
	for _, r := range d.hedgesOf(g) {
		if r.State != Interrupted && r.MergeMethod == d.s.Queue.MergeMethod && d.mayServe(g, r) && d.sawLandings(r) {
			return r
		}
	}
	return nil
}

// takeHedge has a group that waits for a run take over a hedge that serves.
func (d *decision) takeHedge(g *Group) bool {
	r := d.serving(g)
	if r == nil {
		return false
	}
	g.Run, r.Hedge = r.ID, ""
	d.hedgesChanged()
	if r.State == Building {
		return true
	}
	with := d.testedWith(r) + " That had been begun in case it would be needed."
	for _, e := range d.s.members(g) {
		d.move(e, Testing, TestRunStarted, with, Actor{}, r.ID)
	}
	switch r.State {
	case RunPassed:
		d.hasPassed(g, r)
	case RunFailed:
		d.hasFailed(g, r)
	}
	return true
}

// landsBeside looks at the runs that lack an entry which lands now. Hedges that would
// have to be tested with it are dropped: those that leave out this very one, and those of
// a suspect, which what it overlaps need not wait for. The run that counts has all that
// lands before its group and overlaps it, because that was ahead, and a suspect that is
// tested again begins with the rest. Where others in a run are tested with it from now
// on, and were not when the run began, the run is narrow.
func (d *decision) landsBeside(e *Entry) {
	if !d.narrow() {
		return
	}
	var lands crowd
	d.join(&lands, e)
	beside := map[*Group]bool{} // who overlaps what lands
	for _, g := range d.line() {
		beside[g] = d.meets(&lands, d.s.members(g)...)
	}
	overlaps := func(g *Group) bool { return beside[g] }
	for _, g := range d.line() {
		for _, r := range append(slices.Clip(d.hedgesOf(g)), d.s.run(g)) {
			switch {
			case r == nil || r.Includes(e):
			case r.Hedge != "" && overlaps(g):
				d.dropHedge(r)
			case slices.ContainsFunc(d.ahead(g), overlaps):
				r.Narrow = true
			}
		}
	}
}

// sawLandings reports whether whoever landed something since a hedge began knew hedges: a
// program that does not drops none that others have passed by.
func (d *decision) sawLandings(r *Run) bool {
	return !slices.ContainsFunc(d.landedSince(r.Base.Seq), func(l Landed) bool {
		return !l.Hedged && !slices.ContainsFunc(r.Chain, l.is)
	})
}

// spareSlots are the free slots that no hedge holds. Hedges give way to everybody, so
// there may be less than none for a moment.
func (d *decision) spareSlots() int64 {
	spare := d.freeSlots()
	for _, runs := range d.hedged() {
		for _, r := range runs {
			if r.State.Live() {
				spare--
			}
		}
	}
	return spare
}

// beginHedge gives a spare slot to the group that most probably will need a hedge.
func (d *decision) beginHedge() bool {
	if !d.narrow() || !d.s.Queue.State.Retests() || !d.targetKnown() || d.spareSlots() <= 0 {
		return false
	}
	var group, without *Group
	most := hedgeFrom
	for _, g := range d.line() {
		if d.groupLands(g.ID) || !d.tested(g) || len(d.hedgesOf(g)) >= hedgesEach || d.passedBy(g) {
			continue
		}
		for _, a := range d.ahead(g) {
			if p := d.doubts()[a.ID]; (p > most || without == nil && p == most) && !d.hedgedAgainst(a, g) && d.allBuilt(except(d.ahead(g), a)) {
				group, without, most = g, a, p
			}
		}
	}
	if group == nil {
		return false
	}
	run := group.Run
	ahead := except(d.ahead(group), without)
	r := d.startOn(group, ahead)
	group.Run, r.Hedge, r.Narrow = run, without.Members[0], !d.closed(ahead, without)
	d.builds[len(d.builds)-1].Hedge = true
	d.hedgesChanged()
	return true
}

// tested reports whether CI is at work on a group's run, or has failed it.
func (d *decision) tested(g *Group) bool {
	state := d.state(g)
	return state == Testing || state == PendingFailure
}

// hedgedAgainst reports whether a group has a hedge against the failure of another.
func (d *decision) hedgedAgainst(without, g *Group) bool {
	return slices.ContainsFunc(d.hedgesOf(g), func(r *Run) bool { return slices.Contains(without.Members, r.Hedge) })
}

func (d *decision) allBuilt(groups []*Group) bool {
	return !slices.ContainsFunc(groups, func(g *Group) bool { return !d.built(g) })
}

// doubts are the chances that groups of the line fail, by all that is known now. Before
// anything is known that is the estimate of chance.go, but nobody is surer than those of
// the queue are on average: an estimate says little of those who break only together.
// One on top of which somebody has passed is not doubted. A run that failed lets
// everybody in it be doubted more, the more so the less likely the others explain it.
func (d *decision) doubts() map[GroupID]float64 {
	if d.known.doubts != nil {
		return d.known.doubts
	}
	prior := d.priors()
	odds := make(map[GroupID]float64, len(prior))
	for id, p := range prior {
		odds[id] = oddsOf(p)
	}
	for _, g := range d.line() {
		if d.state(g) != PendingFailure {
			continue
		}
		all := 1 - prior[g.ID] // that everybody in the run is good
		for _, a := range d.ahead(g) {
			all *= 1 - prior[a.ID]
		}
		for _, a := range d.ahead(g) {
			const least = 0.01 // runs fail for no reason, too
			odds[a.ID] /= max(1-all/(1-prior[a.ID]), least)
		}
	}
	for id, o := range odds {
		odds[id] = o / (1 + o)
	}
	d.known.doubts = odds
	return odds
}

// priors are the chances that groups of the line fail, before failed runs are counted.
func (d *decision) priors() map[GroupID]float64 {
	const most = 0.99
	prior := map[GroupID]float64{}
	for _, g := range d.line() {
		pass := 1.0
		for _, e := range d.s.members(g) {
			pass *= 1 - d.doubtful(e)
		}
		prior[g.ID] = min(1-pass, most)
	}
	for _, g := range d.line() {
		switch {
		case g.Direct:
			prior[g.ID] = 0
		case d.state(g) == TestsPassed:
			prior[g.ID] = 0
			for _, a := range d.ahead(g) {
				prior[a.ID] = 0
			}
		}
	}
	return prior
}
