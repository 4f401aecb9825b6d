package queue

import "slices"

// This file is what an adaptive queue does otherwise: it keeps what will
// probably fail out of everybody's base, starts nothing on top of what has failed,
// and puts several into one run only where slots are scarce.
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
	// Suspect: it has failed, and that is probably its own fault and not that of
	// what is ahead of it and not decided.
	Suspect Probation = "suspect"
	// PassedProbation: it is like any other again, whatever was expected of it.
	PassedProbation Probation = "passed"
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
	// blameFloor is the chance that a failure must be a group's own to make it Suspect.
	blameFloor = 0.3
	// batchFloor is the chance that a batch must have to pass.
	batchFloor = 0.8
	// lineShare is the share of the slots, one in so many, that batches shall fill.
	lineShare = 3
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
	risk := max(d.chance(e).fails, leastRisk)
	d.known.risks[e.ID] = risk
	return risk
}

// risky reports whether an entry is to be tested on probation.
func (d *decision) risky(e *Entry) bool {
	return e.Priority != Urgent && d.risk(e) >= likelyFails
}

// passes is the chance that a group passes on a base that does.
func (d *decision) passes(g *Group) float64 {
	if g.Probation == PassedProbation {
		return 1 - leastRisk
	}
	all := 1.0
	for _, e := range d.s.members(g) {
		all *= 1 - d.risk(e)
	}
	return all
}

// dooms reports whether a group has failed and so nothing on top of it passes: in
// an adaptive queue nothing is started there, unless failures are forgiven.
func (d *decision) dooms(g *Group) bool {
	return d.adaptive() && !d.forgiving() && d.state(g) == PendingFailure
}

// forgiving reports whether a failure may be cleared by those behind it.
func (d *decision) forgiving() bool {
	return d.s.Queue.CanOptimisticallyMerge || d.s.Queue.PendingFailureDepth > 0
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
// will probably fail, or has failed and that is probably its own fault.
func (d *decision) standsApart(g *Group) bool {
	switch state := d.state(g); {
	case !d.adaptive() || state == TestsPassed:
		return false
	case state == PendingFailure:
		return g.apart() || !d.forgiving() && d.blameworthy(g) >= blameFloor
	case g.Run != "": // it is tested: as it began
		return g.apart()
	default:
		return g.Probation != PassedProbation && len(g.Members) == 1 && !g.Urgent && d.risky(d.s.Entries[g.Members[0]])
	}
}

// blameworthy is the chance that the failure of a group is its own and not that
// of somebody ahead who is not decided.
func (d *decision) blameworthy(g *Group) float64 {
	own, others := 1-d.passes(g), 0.0
	for _, a := range d.ahead(g) {
		if d.state(a) != TestsPassed {
			others += 1 - d.passes(a)
		}
	}
	return own / (own + others)
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

// rejoin puts a group back among the others, at the end of the line. What was
// started without it meanwhile stays as it is; the group is tested again.
func (d *decision) rejoin(g *Group) {
	again := g.Probation == Overtaken && g.Run != ""
	g.Probation = NoProbation
	message := "It is tested on top of what is ahead of it, like any other."
	if d.state(g) == TestsPassed {
		g.Probation = PassedProbation
		message = "It passed by itself. Others were started without it: it is tested once more, on top of them."
	}
	line := slices.DeleteFunc(slices.Clone(d.s.Line), func(id GroupID) bool { return id == g.ID })
	d.s.Line = append(line, g.ID)
	d.lineChanged()
	d.overtake(g)
	if again {
		d.restart(g, GroupChanged, message, Actor{})
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
// one as long as there is a slot for everybody. Beyond that batches are so large
// that all who are there fill a third of the slots: each batch is tested on top of
// fewer that may fail, and there is room for what is tested again.
func (d *decision) batchSize(free []*Entry) int64 {
	q := &d.s.Queue
	if !d.adaptive() {
		return q.BatchingMinSize
	}
	there := int64(0)
	for _, e := range free {
		if d.batched(e) {
			there++
		}
	}
	for _, g := range inBase(d.line()) {
		there += int64(len(g.Members))
	}
	if there <= q.Concurrency {
		return 1
	}
	return min((lineShare*there+q.Concurrency-1)/q.Concurrency, q.BatchingMinSize)
}
