package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// starts gives free slots away: first to groups of the line that wait for one,
// in line order, then to new groups of free entries, in their order.
func (d *decision) starts() bool {
	q := &d.s.Queue
	if !q.State.Retests() {
		return false
	}
	return d.startParts() || d.targetKnown() && d.startGroup()
}

// startGroup gives one free slot of the line away.
func (d *decision) startGroup() bool {
	q := &d.s.Queue
	for _, g := range d.line() {
		if d.waits(g) && d.takeHedge(g) {
			return true
		}
	}
	if d.freeSlots() <= 0 {
		return false
	}
	for _, g := range d.line() {
		if d.waits(g) && d.startable(g) {
			d.start(g)
			return true
		}
	}
	if !q.State.StartsNew() {
		return false
	}
	if e := d.direct(); e != nil {
		d.group(len(d.s.Line), e).Direct = true
		return true
	}
	if members := d.form(); len(members) > 0 {
		g := d.group(len(d.s.Line), members...)
		if d.standsApart(g) {
			d.putApart(g)
		}
		return true // the group is started next time around, if nothing holds it
	}
	return false
}

// waits reports whether a group of the line waits for a run.
func (d *decision) waits(g *Group) bool { return g.Run == "" && g.Proof == 0 && !g.Direct }

// targetKnown reports whether a chain can begin now. While somebody may have
// moved the target nothing new begins on what it was: the read takes a moment.
func (d *decision) targetKnown() bool {
	t := &d.s.Queue.Target
	return t.Commit != "" && !t.Doubted && !t.Missing
}

// freeSlots are the slots of the line that no group's live run holds. Hedges give way:
// see spareSlots.
func (d *decision) freeSlots() int64 {
	free := d.s.Queue.Concurrency
	for _, g := range d.line() {
		if r := d.s.run(g); r != nil && r.State.Live() {
			free--
		}
	}
	return free
}

// startable reports whether a waiting group can begin: its pause is over, and
// nothing that it is tested on top of holds it up.
func (d *decision) startable(g *Group) bool {
	return d.due(g.NotBefore) && d.allBuilt(d.ahead(g))
}

// built reports whether the branch of a group is, or is built in this same decision.
func (d *decision) built(g *Group) bool {
	r := d.s.run(g)
	if r == nil {
		return g.Proof != 0 || g.Direct
	}
	return r.State != Building || d.asked(r)
}

// asked reports whether a run's build is asked for in this very decision.
func (d *decision) asked(r *Run) bool {
	for _, b := range d.builds {
		if b.Run == r.ID {
			return true
		}
	}
	return false
}

// conflictUndecided reports whether an entry still waits for the end of one
// that it does not merge with, and forgets a conflict that has been decided.
func (d *decision) conflictUndecided(e *Entry) bool {
	if e.ConflictsWith == "" {
		return false
	}
	if other := d.s.Entries[e.ConflictsWith]; other != nil && other.Active() {
		return true
	}
	e.ConflictsWith = ""
	return false
}

// group makes a group of entries at that place of the line.
func (d *decision) group(place int, members ...*Entry) *Group {
	q := &d.s.Queue
	q.Groups++
	d.lineChanged()
	g := &Group{ID: GroupID(q.Groups), FormedAt: d.now}
	for _, e := range members {
		g.Members = append(g.Members, e.ID)
		e.Group, e.BoundTargets = g.ID, e.Targets
	}
	d.s.Groups[g.ID] = g
	line := make([]GroupID, 0, len(d.s.Line)+1)
	line = append(line, d.s.Line[:place]...)
	line = append(line, g.ID)
	d.s.Line = append(line, d.s.Line[place:]...)
	d.overtake(g)
	return g
}

// start asks for a run of a group on top of all that is ahead.
func (d *decision) start(g *Group) { d.startOn(g, d.ahead(g)) }

// startOn asks for a run of a group: the entries of groups ahead, then its own, on top
// of the run directly ahead where that one's chain is the beginning of this one's.
func (d *decision) startOn(g *Group, ahead []*Group) *Run {
	q := &d.s.Queue
	base := Base{Commit: q.Target.Commit, Tree: q.Target.Tree, Epoch: q.Target.Epoch, Seq: q.LandedSeq()}
	prefix := d.steps(ahead...)
	if len(ahead) > 0 {
		// One that is built in this same decision is built first, by the same job:
		// its steps are taken as they will be, so that one commit serves all.
		if r := d.s.run(ahead[len(ahead)-1]); r != nil && (r.State != Building || d.asked(r)) {
			if rest, current := d.unlanded(r); current && sameSteps(rest, prefix) && d.missesNothing(r) {
				// One whose build is asked for once more does not know as what it had the
				// steps that have landed meanwhile.
				if behind := r.baseOf(rest, q.LandedSeq()); behind.Commit != "" {
					base, prefix = behind, rest
				}
			}
		}
	}
	r := d.run(g, MainRun, base, append(append([]Step{}, prefix...), d.steps(g)...))
	r.Narrow = !d.closed(ahead)
	return r
}

// missesNothing reports whether all that has landed since a run's chain began
// is in that chain. In parallel mode other lanes land in between. The run has
// nothing to do with those, but a group behind it may have, if it overlaps both:
// it would be tested without what is on the target already.
func (d *decision) missesNothing(r *Run) bool {
	return !slices.ContainsFunc(d.landedSince(r.Base.Seq), func(l Landed) bool {
		return !slices.ContainsFunc(r.Chain, l.is)
	})
}

// baseOf is where the rest of a chain begins: behind the steps that landed.
func (r *Run) baseOf(rest []Step, seq int64) Base {
	landed := len(r.Chain) - len(rest)
	if landed == 0 {
		return r.Base
	}
	last := r.Chain[landed-1]
	return Base{Commit: last.Commit, Tree: last.Tree, Epoch: r.Base.Epoch, Seq: seq}
}

// run makes a run and asks for its branch.
func (d *decision) run(g *Group, kind RunKind, base Base, chain []Step) *Run {
	q := &d.s.Queue
	q.Runs++
	id := uuid.NewSHA1(uuid.MustParse(q.Key), []byte("run "+itoa(q.Runs))).String()
	if kind == BisectionRun {
		id += "-bisection"
	}
	r := &Run{
		ID: RunID(id), Group: g.ID, Kind: kind, State: Building, Members: append([]EntryID{}, g.Members...),
		Base: base, Chain: chain,
		Branch:      fmt.Sprintf("signalbox/pr-%d/%s", d.s.Entries[g.Members[0]].Number, id),
		MergeMethod: q.MergeMethod, LandingMode: q.LandingMode(),
		AskedAt: d.now, Deadline: d.now.Add(buildDeadline),
	}
	q.Stamp = max(q.Stamp+1, d.now.Unix())
	for i := range r.Own() {
		r.Own()[i].Stamp = q.Stamp
	}
	d.s.Runs[r.ID] = r
	g.Run = r.ID
	d.builds = append(d.builds, d.buildOf(r))
	return r
}

// buildOf is what a builder needs to know to make a run's branch.
func (d *decision) buildOf(r *Run) BuildRun {
	b := BuildRun{Run: r.ID, Branch: r.Branch, Target: d.s.Queue.Branch, Method: r.MergeMethod, Base: r.Base, Own: len(r.Members)}
	for _, step := range r.Chain {
		b.Chain = append(b.Chain, d.spec(step))
	}
	return b
}

// spec is a step with the words that its commit is made of.
func (d *decision) spec(step Step) StepSpec {
	spec := StepSpec{Step: step}
	if e := d.s.Entries[step.Entry]; e != nil {
		spec.Title, spec.CommitTitle, spec.Author, spec.URL = e.Title, cmp.Or(e.StackTitle, e.CommitTitle), e.Author, e.URL
		spec.Stack, spec.On = e.under(), e.on(len(e.Stack))
	}
	return spec
}

// build looks at a run that is being built: what came of it, or whether its
// job has vanished.
func (d *decision) build(g *Group, r *Run) bool {
	if r.NotBuilt != nil {
		d.notBuilt(g, r, *r.NotBuilt)
		return true
	}
	if !d.due(r.Deadline) {
		return false
	}
	if g.BuildTries+1 >= buildTriesMax {
		d.notBuilt(g, r, RunNotBuilt{Run: r.ID, Trouble: TroubleTransient, Message: "Nobody told what became of its test branch."})
		return true
	}
	g.BuildTries++
	r.Deadline = d.now.Add(buildDeadline)
	d.builds = append(d.builds, d.buildOf(r))
	d.wakeAt(r.Deadline)
	return false
}

// notBuilt decides what follows from a build that did not succeed.
func (d *decision) notBuilt(g *Group, r *Run, f RunNotBuilt) {
	r.State, r.EndedAt, r.Message, r.NotBuilt = Stopped, d.now, f.Message, nil
	d.discard(g)
	switch f.Trouble {
	case TroubleConflict:
		d.conflict(g, r, f)
	case TroubleStale, TroubleTransient:
		if g.BuildTries+1 < buildTriesMax {
			d.again(g, r, f)
			return
		}
		d.fault(g, r, f, StartRetriesExhausted)
	case TroubleConfig:
		d.fault(g, r, f, ConfigInvalid)
	case TroubleNoRequired:
		d.fault(g, r, f, NoRequiredStatuses)
	case TroubleDraft:
		d.noDrafts(true)
		d.fault(g, r, f, DraftPRsNotAllowed)
	default:
		d.fault(g, r, f, TestBranchRefused)
	}
}

// again has a build repeated after a pause. When the world moved, what we know
// of it is read again first.
func (d *decision) again(g *Group, r *Run, f RunNotBuilt) {
	g.BuildTries++
	g.NotBefore = d.now.Add(backoff(g.BuildTries, 2*time.Second, 5*time.Minute))
	for _, id := range g.Members {
		if e := d.s.Entries[id]; e != nil {
			e.Message = f.Message // what people wait for meanwhile
		}
	}
	if f.Trouble != TroubleStale {
		return
	}
	if e := d.s.Entries[f.Entry]; e != nil {
		e.Doubted = true
	} else {
		d.s.Queue.Target.Doubted = true
	}
}

// conflict decides about an entry that does not merge. Onto the target, or
// onto what has passed or landed, it fails; onto something undecided it steps
// out and waits for that to be decided. So it does onto what has passed with more
// ahead of it than is here.
func (d *decision) conflict(g *Group, r *Run, f RunNotBuilt) {
	e, with := d.s.Entries[f.Entry], d.s.Entries[f.With]
	if e != nil && e.Group != g.ID && g.Part == nil && with != nil && with.Active() && with.Group != g.ID && with.Group != e.Group {
		d.between(g, e, with)
		return
	}
	if e == nil || e.Group != g.ID { // somebody ahead: its own build will say so
		d.again(g, r, f)
		if e != nil && e.State == PendingFailure { // which waits for those on top, and they cannot be built
			d.restart(d.s.Groups[e.Group], GroupChanged, f.Message+" It is tested again.", Actor{})
		}
		return
	}
	if g.Part != nil { // the line finds out whose conflict it is
		d.undecided(g, "It does not merge with others of the failed batch.")
		return
	}
	if with == nil || !with.Active() || with.State == TestsPassed && !r.Narrow {
		d.end(e, ending{to: Failed, why: MergeConflict, message: f.Message, run: r.ID})
		return
	}
	d.leaveGroup(e)
	e.ConflictsWith = with.ID
	e.Message = fmt.Sprintf("It conflicts with #%d, which is ahead and not decided yet: it waits for that.", with.Number)
}

// between decides about a group of which two that are ahead do not merge with each
// other, because they are of different lanes: its members step out and wait until one of
// the two is decided. In the line it could not be built, and failures that wait for what
// those behind them say would wait for it.
func (d *decision) between(g *Group, e, with *Entry) {
	for _, m := range d.s.members(g) {
		d.leaveGroup(m)
		m.ConflictsWith = e.ID
		m.Message = fmt.Sprintf("#%d does not merge with #%d, and it overlaps both: it waits until that is decided.", e.Number, with.Number)
	}
}

// fault decides about a build that failed for a reason that may be a change's
// own. While something undecided is ahead, it may be that one's: wait.
func (d *decision) fault(g *Group, r *Run, f RunNotBuilt, why Reason) {
	if g.Part != nil {
		d.undecided(g, "Its part of the failed batch could not be built: "+f.Message)
		return
	}
	if len(d.ahead(g)) > 0 && f.Entry == "" {
		d.again(g, r, f)
		return
	}
	d.blame(g, f.Entry, why, f.Message, r.ID)
}
