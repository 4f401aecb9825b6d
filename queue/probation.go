package queue

import "slices"

// This file is what an adaptive queue does otherwise: it keeps what will
// probably fail, and what has failed, out of everybody's base, and puts several
// into one run only where slots are scarce.
// What it expects of whom is in chance.go.

// Speculation says by what a queue decides what is tested on top of what.
type Speculation string

// The two ways.
const (
	// FixedSpeculation: everybody is tested on top of all that is ahead.
	FixedSpeculation Speculation = "fixed"
	// AdaptiveSpeculation: on top of what will probably land.
	AdaptiveSpeculation Speculation = "adaptive"
)

// Probation is how a group stands that nobody is tested on top of.
type Probation string

// The states of a probation. A group without one is like any other.
const (
	NoProbation Probation = ""
	// OnProbation: it is tested alone, on what has landed, and nobody that it
	// overlaps has been in line since it began.
	OnProbation Probation = "on"
	// Overtaken: it is tested alone, and others that it overlaps are or were in
	// line. When it passes it takes its place behind them and is tested once more.
	Overtaken Probation = "overtaken"
	// Suspect: it has failed, and what is ahead of it is not decided. Whether or not
	// that is its own fault, nobody waits for the answer: if it is, they did well
	// without it; if not, somebody ahead fails, and they start anew anyway.
	Suspect Probation = "suspect"
)

// The figures of an adaptive queue. The benchmark chose them: docs/simulation.md
// says what others would do.
const (
	// likelyFails is the chance of failing from which on an entry is tested on
	// probation: if it fails it costs only its own run, if not, one run more.
	likelyFails = 0.2
	// leastRisk is the least chance of failing that anybody has: two that pass can
	// break together, which nobody estimates.
	leastRisk = 0.01
	// hopeFloor is the chance that what a group stands behind must have to land as it
	// is. Below it the group is tested alone first: that says something whatever the
	// others do, and a run on top of them probably says nothing.
	hopeFloor = 0.6
	// batchFloor is the chance that a batch must have to pass.
	batchFloor = 0.8
	// likeRisks is how many times as likely to fail as another one may be that is
	// tested together with it.
	likeRisks = 3
	// mostParts bounds how many parts a search makes of what failed.
	mostParts = 8
)

// alone reports whether a group is tested on nothing but what has landed, apart
// whether it is in nobody's base.
func (g *Group) alone() bool { return g.Probation == OnProbation || g.Probation == Overtaken }
func (g *Group) apart() bool { return g.alone() || g.Probation == Suspect }

// inBase are the groups that others may be tested on top of.
func inBase(groups []*Group) []*Group {
	if !slices.ContainsFunc(groups, (*Group).apart) {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), (*Group).apart)
}

func (d *decision) adaptive() bool { return d.s.Queue.Speculation == AdaptiveSpeculation }

// narrow reports whether a group is tested on top of those alone that it overlaps
// itself, and not also on those that they overlap. Else many that wait grow together
// into one lane, in which everybody starts anew with each failure. In single mode
// there is one line anyway.
func (d *decision) narrow() bool { return d.adaptive() && d.s.Queue.Mode == Parallel }

// closed reports whether groups have all that is ahead of each of them among them, but
// for some.
func (d *decision) closed(groups []*Group, but ...*Group) bool {
	return !d.narrow() || !slices.ContainsFunc(groups, func(g *Group) bool {
		ahead := d.ahead(g)
		for _, b := range but {
			ahead = except(ahead, b)
		}
		return !among(ahead, groups)
	})
}

// among reports whether some groups are all in a list. Both are in line order.
func among(some, list []*Group) bool {
	for _, g := range list {
		if len(some) > 0 && some[0] == g {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// confirm has a group tested once more whose failure does not count, now that what was
// ahead of it has landed: alone, on all that has landed, so that this result counts.
func (d *decision) confirm(g *Group, r *Run) {
	why := "It failed, and failures are forgiven here when they are flakes: it is tested once more, on what has landed."
	if r.Narrow {
		why = "It failed, but not everything was there that those ahead of it had been tested with: it is tested once more, on what has landed."
	}
	d.restart(g, GroupChanged, why, Actor{})
	g.Probation, g.Confirming = NoProbation, true
	d.lineChanged()
	d.putApart(g)
}

// risk is the chance that an entry fails, 0 in a queue that does not ask.
func (d *decision) risk(e *Entry) float64 {
	if !d.adaptive() {
		return 0
	}
	if risk, known := d.known.risks[e.ID]; known {
		return risk
	}
	if d.known.risks == nil {
		d.known.risks = map[EntryID]float64{}
	}
	risk := leastRisk
	if e.Returned == 0 { // what came back has passed, by itself or in a search, or others were at fault
		risk = max(d.chance(e).fails, leastRisk)
	}
	d.known.risks[e.ID] = risk
	return risk
}

// doubtful is the chance that an entry fails, by itself or together with others. In lanes
// nobody is surer than those of the queue are on average: an estimate says little of
// those who break only together.
func (d *decision) doubtful(e *Entry) float64 {
	if d.narrow() {
		return max(d.risk(e), d.tally().here.near(imaginedMean, imaginedHere))
	}
	return d.risk(e)
}

// risky reports whether an entry is to be tested on probation.
func (d *decision) risky(e *Entry) bool {
	return e.Priority != Urgent && d.risk(e) >= likelyFails
}

// passes is the chance that a group passes on a base that does.
func (d *decision) passes(g *Group) float64 {
	all := 1.0
	for _, e := range d.s.members(g) {
		all *= 1 - d.risk(e)
	}
	return all
}

// forgiving reports whether the settings want failures forgiven that are flakes.
func (d *decision) forgiving() bool {
	return d.s.Queue.CanOptimisticallyMerge || d.s.Queue.PendingFailureDepth > 0
}

// staysInBase reports whether a failure may be cleared by those behind it, which stay on
// top of it meanwhile. In narrow lanes they seldom have all that it was tested with, and
// could not. Where more wait than there are slots, a failure that is no flake would make all
// behind it fail, too. There it is forgiven by a run of its own: see unconfirmed.
func (d *decision) staysInBase() bool {
	return d.forgiving() && !d.narrow() && !d.full()
}

// unconfirmed reports whether the failure of a group with nothing left ahead does not
// count yet: it may be that of what was left out, or, where flakes are forgiven, a flake
// that nobody behind it can clear. Who was expected to fail is not tested twice. A batch is
// searched at once: testing it again whole would be a run for each real failure.
func (d *decision) unconfirmed(g *Group, r *Run) bool {
	flake := d.forgiving() && len(g.Members) == 1 && !g.Confirming
	return r.Narrow || flake && (g.Probation == Suspect || g.alone() && !d.risky(d.s.Entries[g.Members[0]]))
}

// probations puts one group on probation, or ends one. A suspect that is to be
// tested again is one no more: if it will probably fail it goes on probation anew,
// for others have been started without it.
func (d *decision) probations() bool {
	for _, g := range d.line() {
		if d.groupLands(g.ID) || g.Direct {
			continue
		}
		switch apart := d.standsApart(g); {
		case apart && !g.apart():
			d.putApart(g)
			return true
		case !apart && g.apart() || g.Probation == Suspect && d.state(g) != PendingFailure:
			d.rejoin(g)
			return true
		}
	}
	return false
}

// standsApart reports whether a group of the line belongs into nobody's base: it
// will probably fail, or has failed, or what is ahead of it will probably not land
// as it is.
func (d *decision) standsApart(g *Group) bool {
	switch state := d.state(g); {
	case !d.adaptive() || state == TestsPassed:
		return false
	case state == PendingFailure:
		return g.apart() || !d.staysInBase()
	case g.Run != "" || g.alone(): // as it began, until it has been tested
		return g.apart()
	case g.Urgent, d.serving(g) != nil:
		return false
	default:
		first := d.s.Entries[g.Members[0]]
		return len(g.Members) == 1 && d.risky(first) || first.Returned == 0 && !d.staysInBase() && !d.fills(g) && d.hope(g) < hopeFloor
	}
}

// hope is the chance that all that a group would be tested on top of passes.
func (d *decision) hope(g *Group) float64 {
	hope := 1.0
	for _, a := range d.ahead(g) {
		if d.state(a) != TestsPassed {
			hope *= d.passes(a)
		}
	}
	return hope
}

// fills reports whether a group is a batch that is half full or more. Tested alone
// first it would cost as much as all of its members share, and they would be
// tested once more.
func (d *decision) fills(g *Group) bool {
	return len(g.Members) > 1 && 2*int64(len(g.Members)) >= d.s.Queue.BatchingMinSize
}

// putApart takes a group out of everybody's base.
func (d *decision) putApart(g *Group) {
	switch {
	case d.state(g) == PendingFailure:
		g.Probation = Suspect
	case len(d.ahead(g))+len(d.behind(g)) > 0:
		g.Probation = Overtaken
	default:
		g.Probation = OnProbation
	}
	d.lineChanged()
}

// rejoin ends the probation of a group. One that passed and was overtaken was
// tested without others: it goes to the front of those that wait, to be tested on
// top of them, where slots are scarce together with others. Any other takes its
// place at the end of the line.
func (d *decision) rejoin(g *Group) {
	if g.Probation == Overtaken && d.state(g) == TestsPassed {
		members, run := d.s.members(g), g.Run
		d.wait(g, GroupChanged, "It passed by itself. Others were started without it: it is tested once more, on top of them.", Actor{}, run)
		d.dissolve(g)
		d.sendBack(members, d.s.Queue.Bisected, func(*Entry) int { return behindAll })
		return
	}
	again := g.Probation == Overtaken && g.Run != ""
	g.Probation = NoProbation
	line := slices.DeleteFunc(slices.Clone(d.s.Line), func(id GroupID) bool { return id == g.ID })
	d.s.Line = append(line, g.ID)
	d.lineChanged()
	d.overtake(g)
	if again {
		d.restart(g, GroupChanged, "It is tested on top of what is ahead of it, like any other.", Actor{})
	}
}

// overtake notes for groups on probation that one has come to the line which they
// overlap.
func (d *decision) overtake(g *Group) {
	var c crowd
	d.join(&c, d.s.members(g)...)
	for _, other := range d.line() {
		if other.Probation == OnProbation && other != g && d.meets(&c, d.s.members(other)...) {
			other.Probation = Overtaken
		}
	}
}

// batchSize is how many of free entries a batch takes. In an adaptive queue it is
// one as long as there is a slot for everybody.
func (d *decision) batchSize(free []*Entry) int64 {
	if q := &d.s.Queue; !d.adaptive() || d.crowded(free) {
		return q.BatchingMinSize
	}
	return 1
}

// crowded reports whether more entries are there, free or in the line, than slots.
func (d *decision) crowded(free []*Entry) bool {
	there := int64(0)
	for _, e := range free {
		if d.batched(e) {
			there++
		}
	}
	for _, g := range inBase(d.line()) {
		there += int64(len(g.Members))
	}
	return there > d.s.Queue.Concurrency
}

// full is the same of those that are free now, looked up once while the line stands:
// every group that failed or waits is asked about in every round.
func (d *decision) full() bool {
	if d.known.full == nil {
		full := d.crowded(d.sorted(d.awaits))
		d.known.full = &full
	}
	return *d.known.full
}
