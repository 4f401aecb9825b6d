package queue

import (
	"fmt"
	"slices"
	"time"
)

// leave takes out the entries that want or have to go, and restarts the groups
// that a person wants restarted. An entry in the landing in flight stays until
// the result is known.
func (d *decision) leave() bool {
	leavers := d.sorted(func(e *Entry) bool {
		if d.isLanding(e) || !e.Active() && !e.late() {
			return false
		}
		_, leaves := d.leaving(e)
		return leaves
	})
	for _, e := range leavers {
		l, _ := d.leaving(e)
		d.end(e, l)
		if l.why == LandedLate {
			d.landedLate(e)
		}
	}
	return d.restarts() || len(leavers) > 0
}

// ending is how a submission ends.
type ending struct {
	to      EntryState
	why     Reason
	message string
	by      Actor
	run     RunID
}

// leaving judges whether an entry has to go. The order of the questions is the
// order in which a person would want to hear the answer.
func (d *decision) leaving(e *Entry) (ending, bool) {
	gone := func(why Reason, format string, args ...any) (ending, bool) {
		return ending{to: Cancelled, why: why, message: fmt.Sprintf(format, args...)}, true
	}
	switch {
	case e.late():
		return d.lateEnding(e), true
	case e.Merged:
		return ending{to: Merged, why: MergedByHand, message: "The pull request was merged by hand."}, true
	case e.Removed != "":
		return gone(RepositoryRemoved, "%s", e.Removed)
	case !e.Open:
		return gone(PRClosed, "The pull request was closed.")
	case e.Cancel != nil:
		l, _ := gone(e.Cancel.Via.requested(), "Cancelled %s.", e.Cancel.Via.by(e.Cancel.By))
		l.by = e.Cancel.By
		return l, true
	}
	if l, left := d.layerLeft(e); left {
		return l, true
	}
	switch {
	case e.State == NotReady:
		return d.waitedTooLong(e)
	case !d.baseFits(e):
		return gone(PRBaseBranchChanged, "The pull request now targets %s. Submit it to that branch's queue.", e.Base)
	case e.Head != e.BoundHead:
		return gone(PRPushedTo, "A push changed the head from %s to %s after the pull request was queued. Submit it again to queue the new commit.", short(e.BoundHead), short(e.Head))
	case e.Draft:
		return gone(PRConvertedToDraft, "The pull request was converted to a draft.")
	}
	return ending{}, false
}

func (d *decision) waitedTooLong(e *Entry) (ending, bool) {
	limit := d.s.Queue.NotReadyTimeoutHours
	if limit == 0 || !d.due(e.SubmittedAt.Add(hours(limit))) {
		return ending{}, false
	}
	return ending{to: Cancelled, why: NotReadyTimeout, message: fmt.Sprintf("The pull request was not ready within %d hours. %s", limit, d.missing(e))}, true
}

// end ends a submission and takes the entry out of its group.
func (d *decision) end(e *Entry, l ending) {
	d.leaveGroup(e)
	e.Cancel, e.Restart, e.Removed, e.ConflictsWith = nil, nil, "", ""
	e.Alone, e.Returned, e.Doubted = false, 0, false
	e.RefreshAsked, e.RefreshAfter, e.RefreshTries = time.Time{}, time.Time{}, 0
	d.move(e, l.to, l.why, l.message, l.by, l.run)
	if l.why == MergedByHand || l.why == LandedLate { // the target has moved, whatever we were told of it
		d.s.Queue.Target.Doubted = true
	}
}

// leaveGroup takes an entry out of its group. A group that empties is gone;
// one that does not has a run that no longer tests it, which the stale stage
// sees by itself.
func (d *decision) leaveGroup(e *Entry) {
	g := d.s.Groups[e.Group]
	d.lineChanged()
	e.Group, e.BoundTargets = 0, 0
	if g == nil {
		return
	}
	if g.Part != nil {
		d.leaveSearch(g, e)
	}
	g.Members = slices.DeleteFunc(slices.Clone(g.Members), func(id EntryID) bool { return id == e.ID })
	g.Interrupted, g.BuildTries = 0, 0
	if len(g.Members) == 0 {
		d.dissolve(g)
	}
}

// dissolve ends a group; its entries are where the caller put them.
func (d *decision) dissolve(g *Group) {
	d.discard(g)
	for _, r := range d.hedgesOf(g) {
		d.dropHedge(r)
	}
	d.lineChanged()
	d.s.Line = slices.DeleteFunc(d.s.Line, func(id GroupID) bool { return id == g.ID })
	d.s.Parts = slices.DeleteFunc(d.s.Parts, func(id GroupID) bool { return id == g.ID })
	delete(d.s.Groups, g.ID)
	if d.before.Groups[g.ID] != nil {
		d.gone = append(d.gone, g.ID)
	}
}

// discard parts a group from its run, for whatever reason.
func (d *decision) discard(g *Group) {
	r := d.s.run(g)
	g.Run = ""
	if r != nil {
		d.drop(r)
	}
}

// drop stops a run that is live, and has its branch removed. It is the one place
// where that is asked for.
func (d *decision) drop(r *Run) {
	live := r.State.Live()
	if live {
		r.State, r.EndedAt = Stopped, d.now
	}
	for i, b := range d.builds { // asked for in this very decision: unask
		if b.Run == r.ID {
			d.builds = slices.Delete(d.builds, i, i+1)
			return
		}
	}
	d.actions = append(d.actions, StopRun{Queue: d.s.Queue.ID, Run: r.ID, Branch: r.Branch, DraftPR: r.DraftPR, Commit: r.Commit, Cancel: live})
}

// restart takes a group's run away and makes its entries wait for another.
// The group keeps its place.
func (d *decision) restart(g *Group, why Reason, message string, by Actor) {
	run := g.Run
	d.discard(g)
	g.Proof = 0
	g.BuildTries, g.NotBefore = 0, time.Time{}
	d.wait(g, why, message, by, run)
}

// wait makes the members of a group pending, those that are not already.
func (d *decision) wait(g *Group, why Reason, message string, by Actor, run RunID) {
	for _, e := range d.s.members(g) {
		e.VerifiedBy = ""
		if e.State != Pending {
			d.move(e, Pending, why, message, by, run)
		}
	}
}

// restarts performs the restarts that people asked for. A wish whose moment
// has passed is dropped.
func (d *decision) restarts() bool {
	for _, e := range d.sorted(func(e *Entry) bool { return e.Restart != nil }) {
		if d.isLanding(e) {
			continue
		}
		wish := *e.Restart
		e.Restart = nil
		if g := d.s.Groups[e.Group]; g != nil && (e.State == Testing || e.State == PendingFailure) {
			d.restart(g, wish.Via.restart(), fmt.Sprintf("Tests restarted %s.", wish.Via.by(wish.By)), wish.By)
		}
		return true
	}
	return false
}

// isLanding reports whether an entry is in the landing in flight.
func (d *decision) isLanding(e *Entry) bool {
	return e.Group != 0 && d.groupLands(e.Group)
}

func (d *decision) groupLands(id GroupID) bool {
	l := d.s.Queue.Landing
	return l != nil && slices.Contains(l.Groups, id)
}

// short is a commit as people write it.
func short(commit string) string { return commit[:min(len(commit), 7)] }
