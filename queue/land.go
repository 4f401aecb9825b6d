package queue

import (
	"fmt"
	"slices"
	"time"
)

// land begins a landing: the longest beginning of the line that has passed and
// whose runs agree on what lands. One landing is in flight at a time.
func (d *decision) land() bool {
	q := &d.s.Queue
	if q.Landing != nil {
		return d.landAgain()
	}
	if !q.State.Lands() || q.Target.Commit == "" || q.Target.Missing {
		return false
	}
	groups := d.landable()
	if len(groups) == 0 {
		return false
	}
	q.Landings++
	q.Target.Version++ // a read that is under way may see half of it
	l := &Landing{ID: q.Landings, Attempt: 1, Asked: d.now, Land: d.landing(groups)}
	for _, g := range groups {
		l.Groups = append(l.Groups, g.ID)
	}
	q.Landing = l
	d.actions = append(d.actions, l.Land)
	return true
}

// landAgain repeats a landing whose attempt ended without an answer, or never
// ended. The repetition first finds out what the attempt before it did. There
// is no last attempt: while nobody knows what has landed, nothing else can be
// decided.
func (d *decision) landAgain() bool {
	l := d.s.Queue.Landing
	when := l.Retry
	if when.IsZero() {
		when = l.Asked.Add(landDeadline)
	}
	if !d.due(when) {
		return false
	}
	l = d.landingNow()
	l.Attempt++
	l.Asked, l.Retry = d.now, time.Time{}
	d.actions = append(d.actions, l.Land)
	return true
}

// landable are the groups that can land together now, in line order: one with a
// run of its own and all that is ahead of it, as far back as the chain allows.
// Lanes land one at a time, the first that can first; none waits for another.
func (d *decision) landable() []*Group {
	var groups []*Group
	for _, g := range d.line() {
		ahead := d.ahead(g)
		if g.Direct && len(groups) == 0 && len(ahead) == 0 && d.due(g.NotBefore) {
			return []*Group{g}
		}
		if !among(groups, ahead) {
			continue // of another lane, or not tested on all of them
		}
		if d.landsBehind(ahead, g) {
			groups = append(ahead[:len(ahead):len(ahead)], g)
		}
	}
	return groups
}

// landsBehind reports whether a group can land by its own run, in one landing
// with all that is ahead of it.
func (d *decision) landsBehind(ahead []*Group, g *Group) bool {
	r := d.s.run(g)
	if r == nil || !d.willing(g, len(ahead) > 0) || !d.closed(ahead) {
		return false
	}
	for _, a := range ahead {
		if !d.willing(a, true) {
			return false
		}
	}
	return d.landsWith(ahead, g, r) && d.proven(append(ahead[:len(ahead):len(ahead)], g))
}

// willing reports whether a group has passed and nothing keeps it from landing
// now, together with others or not.
func (d *decision) willing(g *Group, together bool) bool {
	return d.state(g) == TestsPassed && !(together && g.OneByOne) && d.due(g.NotBefore)
}

// proven reports whether the proof of each group is among them.
func (d *decision) proven(groups []*Group) bool {
	return !slices.ContainsFunc(groups, func(g *Group) bool {
		return g.Proof != 0 && !slices.ContainsFunc(groups, func(p *Group) bool { return p.ID == g.Proof })
	})
}

// landsWith reports whether the chain of a group's run is exactly what the
// groups before it tested, then its own, built and landed in the same way.
func (d *decision) landsWith(groups []*Group, g *Group, r *Run) bool {
	rest, current := d.unlanded(r)
	if !current || !d.isChain(rest, d.s.Queue.LandedSeq(), append(groups[:len(groups):len(groups)], g)...) {
		return false
	}
	at := 0
	for _, before := range groups {
		at += len(before.Members)
		own := d.s.run(before)
		if own == nil { // passed by proof
			continue
		}
		if own.MergeMethod != r.MergeMethod || own.LandingMode != r.LandingMode || own.Tree != rest[at-1].Tree {
			return false
		}
	}
	return true
}

// landing is what is asked of the host to land groups: the steps of the last
// one's chain that have not landed.
func (d *decision) landing(groups []*Group) Land {
	q := &d.s.Queue
	if groups[0].Direct {
		return d.directLanding(groups[0])
	}
	last := d.s.run(groups[len(groups)-1])
	rest, _ := d.unlanded(last)
	land := Land{Queue: q.ID, Landing: q.Landings, Branch: q.Branch, Mode: last.LandingMode, Method: last.MergeMethod, Expect: q.Target.Commit}
	for _, step := range rest {
		land.Steps = append(land.Steps, d.spec(step))
		if e := d.s.Entries[step.Entry]; e.Forced {
			land.Forced = append(land.Forced, e.ID)
		}
	}
	if d.betweenLanded(last, rest) { // the host merges on what is there now
		land.Mode, land.Recompute = LandHost, true
	}
	for _, g := range groups {
		if r := d.s.run(g); r != nil && r.DraftPR != 0 {
			land.Drafts = append(land.Drafts, r.DraftPR)
		}
	}
	return land
}

// betweenLanded reports whether something else landed since a chain began, so
// that its commits and trees no longer extend the target: another lane's steps
// in parallel mode. What is expected then is the merge on the new head.
func (d *decision) betweenLanded(r *Run, rest []Step) bool {
	if d.s.Queue.Mode == Single {
		return false
	}
	before := r.Base.Tree
	if n := len(r.Chain) - len(rest); n > 0 {
		if !sameSteps(r.Chain[n:], rest) {
			return true
		}
		before = r.Chain[n-1].Tree
	}
	return before != d.s.Queue.Target.Tree
}

// landed decides on the result of the landing in flight: what is on the target
// is merged, and what stopped the rest is dealt with.
func (d *decision) landed() bool {
	q := &d.s.Queue
	if q.Landing == nil || q.Landing.Ended == nil {
		return false
	}
	l, f := q.Landing, *q.Landing.Ended
	blind := d.blindSince(l, f)
	if f.Trouble == TroubleTransient || l.unseen(f) && d.now.Before(blind.Add(blindForGood)) {
		again := d.landingNow() // whatever is known to have landed, more may have
		again.Ended, again.Blind = nil, blind
		again.Retry = d.now.Add(backoff(l.Attempt, 2*time.Second, 5*time.Minute))
		return true
	}
	q.Landing = nil
	on := l.Land.Expect
	for _, step := range f.Landed {
		d.merged(l, step, on)
		on = step.Commit
	}
	d.explainTarget(f)
	d.giveUp(l, f)
	d.stopped(l, f)
	return true
}

// unseen reports whether an attempt ended without a look at the target although
// something may have landed, by this attempt or by one before it of which nobody
// heard: the target does not exist, or the host does not let us look. Of a first
// attempt that the host did not let begin it is known that nothing has landed.
func (l *Landing) unseen(f LandingEnded) bool {
	return f.Missing || f.Commit == "" && f.Trouble != "" && l.Attempt > 1
}

// blindSince is since when nobody can look at the target, by what came of an
// attempt; zero if somebody could. What has landed is unknown until then, or until
// it has been so for too long.
func (d *decision) blindSince(l *Landing, f LandingEnded) time.Time {
	switch {
	case f.Commit != "":
		return time.Time{}
	case l.unseen(f) && f.Trouble != TroubleTransient && l.Blind.IsZero():
		return d.now
	default: // as it was
		return l.Blind
	}
}

// merged records one step of a landing that is on the target, on the commit on.
func (d *decision) merged(l *Landing, step LandedStep, on string) {
	q := &d.s.Queue
	e := d.s.Entries[step.Entry]
	if e == nil || e.State != TestsPassed && !d.isDirect(e) || e.Submission != step.Submission {
		return
	}
	q.Landed = append(q.Landed[:len(q.Landed):len(q.Landed)], Landed{
		Seq: q.LandedSeq() + 1, Entry: e.ID, Submission: e.Submission, PR: e.Number, Commit: step.Commit, Tree: step.Tree, Hedged: true,
	})
	d.known.landed = nil
	d.landsBeside(e)
	e.LandedCommit = step.Commit
	d.receipt(l, step, e.VerifiedBy, on)
	why := MergedByQueue
	if d.isDirect(e) {
		why = DirectMerge
	}
	how := ending{to: Merged, why: why, run: e.VerifiedBy,
		message: fmt.Sprintf("Landed on %s as %s.", q.Branch, short(step.Commit))}
	if step.Differs != "" {
		how.why = LandedTreeMismatch
		how.message = fmt.Sprintf("Landed on %s as %s, but what landed is not what was tested: %s", q.Branch, short(step.Commit), step.Differs)
		q.Target.Epoch++ // nothing was tested on this
		q.State = Paused
		q.StateWhy = fmt.Sprintf("The queue paused itself: #%d landed as something else than what was tested. %s Look at %s, then set the queue running again.", e.Number, step.Differs, short(step.Commit))
	}
	d.forgetGivenUp(e.Number)
	d.end(e, how)
}

// explainTarget takes over the target's head after a landing. A head that is
// none of the landed steps was put there by somebody else.
func (d *decision) explainTarget(f LandingEnded) {
	t := &d.s.Queue.Target
	t.Version++
	if n := len(f.Landed); n > 0 {
		t.Commit, t.Tree = f.Landed[n-1].Commit, f.Landed[n-1].Tree
	}
	if f.Commit != "" && f.Commit != t.Commit {
		d.targetIs(f.Commit, f.Tree)
	}
	var unexplained []string
	for _, hint := range t.Hints {
		if hint != t.Commit && !d.landedHere(hint) {
			unexplained = append(unexplained, hint)
		}
	}
	t.Hints = unexplained
	t.Doubted = len(unexplained) > 0 || f.Commit == ""
}

// stopped decides what follows for the groups that did not land.
func (d *decision) stopped(l *Landing, f LandingEnded) {
	var left []*Group
	for _, id := range l.Groups {
		if g := d.s.Groups[id]; g != nil {
			left = append(left, g)
		}
	}
	if len(left) == 0 || f.Trouble == "" {
		return
	}
	first := left[0]
	switch f.Trouble {
	case TroubleConflict:
		first.Direct = false
		d.restart(first, LandingConflict, f.Message, Actor{})
	case TroubleStale:
		first.LandTries++
		first.NotBefore = d.now.Add(backoff(first.LandTries, time.Second, 5*time.Minute))
		d.s.Queue.Target.Doubted = true
		for _, e := range d.s.members(first) {
			e.Doubted = true
		}
	default:
		d.refused(left, f)
	}
}

// refused decides about a landing that the host will not do, for good. An
// entry that cannot land never blocks the queue.
func (d *decision) refused(left []*Group, f LandingEnded) {
	message := "The host refused to land it: " + f.Message
	if e := d.s.Entries[f.Entry]; e != nil && (e.State == TestsPassed || d.isDirect(e)) {
		d.end(e, ending{to: Failed, why: LandingRefused, message: message, run: e.VerifiedBy})
		return
	}
	if len(left) > 1 { // find out whose: land them one after the other
		for _, g := range left {
			g.OneByOne = true
			if g.Proof != 0 { // alone it has no proof any more: it needs tests of its own
				d.restart(g, ProofLost, "The host refused to land it together with what proved it: it is tested by itself.", Actor{})
			}
		}
		return
	}
	d.blame(left[0], "", LandingRefused, message, left[0].Run)
}

// mode ends a mode switch when the line is empty.
func (d *decision) mode() bool {
	q := &d.s.Queue
	if q.WantedMode == "" || len(d.s.Line) > 0 {
		return false
	}
	q.Mode, q.WantedMode = q.WantedMode, ""
	if q.State == SwitchingModes {
		q.State = Running
	}
	return true
}
