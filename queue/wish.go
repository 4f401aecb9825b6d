package queue

import (
	"fmt"
	"time"
)

// This file learns what people and programs want. What comes of it is decided
// by the stages; only what can be seen to be too late is refused here.

func (d *decision) submitted(f Submitted) Answer {
	d.orderChanged()
	pr := f.PullRequest
	switch {
	case pr.Merged:
		return Answer{RefusedMerged, fmt.Sprintf("Pull request #%d is merged already.", pr.Number)}
	case !pr.Open:
		return Answer{RefusedClosed, fmt.Sprintf("Pull request #%d is closed. Reopen it, then submit it.", pr.Number)}
	}
	if len(f.Stack) > 0 || d.stackWith(pr.Number) != nil {
		if no, refused := d.s.QueuedAlready(f); refused {
			return no
		}
	}
	e := d.byPR(pr.Number)
	switch {
	case e == nil:
		e = &Entry{ID: f.ID, PullRequest: pr}
		d.s.Entries[e.ID] = e
		d.known.pulls[e.Number] = e
	case !e.SubmittedAt.Before(f.At): // a repetition, or older than what we have
		return Answer{}
	case e.Active():
		d.resubmitted(e, f)
		return Answer{}
	}
	d.enter(e, f)
	return Answer{}
}

// resubmitted is a submission of an active entry: it changes how the entry is
// handled from its next group on, and nothing else.
func (d *decision) resubmitted(e *Entry, f Submitted) {
	e.Priority, e.PriorityGiven, e.NoBatch = f.Priority, f.PriorityGiven, f.NoBatch
	e.Forced = e.Forced || f.Force
	e.Cancel = nil
	if len(f.Stack) > 0 && e.State == NotReady { // once admitted it is tested as it is
		e.Stack, e.StackTitle, e.Direct = layers(f.Stack), f.Title, ""
		d.stacksChanged()
	}
	d.see(e, PullRequestSeen{PullRequest: f.PullRequest, Read: true})
	e.Doubted = true
}

// enter begins a submission. What was known of the pull request is kept only
// where it is newer.
func (d *decision) enter(e *Entry, f Submitted) {
	pr := f.PullRequest
	if e.UpdatedAt.After(pr.UpdatedAt) && e.Open {
		pr = e.PullRequest
	}
	if e.Stacked() || len(f.Stack) > 0 {
		d.stacksChanged()
	}
	*e = Entry{
		ID: e.ID, Submission: e.Submission + 1, State: e.State, Version: e.Version,
		PullRequest: pr, BoundHead: pr.Head,
		Mergeability: MergeabilityUnspecified, Doubted: true,
		SubmittedBy: f.By, Via: f.Via, SubmittedAt: f.At,
		Priority: f.Priority, PriorityGiven: f.PriorityGiven, NoBatch: f.NoBatch, Forced: f.Force,
		Stack: layers(f.Stack), StackTitle: f.Title,
	}
	d.move(e, NotReady, f.Via.requested(), fmt.Sprintf("Submitted %s.", f.Via.by(f.By)), f.By, "")
}

// wished finds the entry that a wish is about. A wish older than the present
// submission was meant for an earlier one.
func (d *decision) wished(pr int64, at time.Time) (*Entry, Answer) {
	e := d.byPR(pr)
	switch {
	case e == nil:
		return nil, Answer{RefusedNotSubmitted, fmt.Sprintf("Pull request #%d was never submitted to this queue.", pr)}
	case !e.Active() || at.Before(e.SubmittedAt):
		return nil, Answer{RefusedFinal, fmt.Sprintf("Pull request #%d is not in the queue: it ended as %s.", pr, e.State)}
	default:
		return e, Answer{}
	}
}

func (d *decision) cancelRequested(f CancelRequested) Answer {
	e, refusal := d.wished(f.PR, f.At)
	if e == nil {
		return refusal
	}
	e.Cancel = &Wish{By: f.By, Via: f.Via, At: f.At}
	if d.isLanding(e) {
		return Answer{RefusedLanding, fmt.Sprintf("Pull request #%d is landing at this moment. If it does not land, it leaves the queue.", f.PR)}
	}
	return Answer{}
}

func (d *decision) restartRequested(f RestartRequested) Answer {
	e, refusal := d.wished(f.PR, f.At)
	switch {
	case e == nil:
		return refusal
	case e.State != Testing && e.State != PendingFailure:
		return Answer{RefusedNotTesting, fmt.Sprintf("Pull request #%d is %s: only tests that run or have just failed can be restarted.", f.PR, e.State)}
	}
	e.Restart = &Wish{By: f.By, Via: f.Via, At: f.At}
	return Answer{}
}

func (d *decision) changeRequested(f ChangeRequested) Answer {
	q, c := &d.s.Queue, f.Change
	switching := q.WantedMode != ""
	if switching && (c.Mode != nil && *c.Mode != q.WantedMode || c.State != nil && *c.State == Draining) {
		return Answer{RefusedSwitching, fmt.Sprintf("The queue is switching to %s mode. It can be paused and resumed, but not drained or switched again, until the groups that are in it have left.", q.WantedMode)}
	}
	q.Settings = q.Settings.With(c)
	if c.changesSetUp() {
		d.wantPreflight(d.now)
	}
	if c.Mode != nil && !switching && *c.Mode != q.Mode {
		q.WantedMode = *c.Mode
		if q.State != Paused {
			q.State = SwitchingModes
		}
	}
	if c.State != nil {
		q.State, q.StateWhy = *c.State, ""
		if q.State == Running && q.WantedMode != "" {
			q.State = SwitchingModes
		}
	}
	return Answer{}
}

// ReportedMode is the mode that people are shown: during a switch, the new one.
func (q *Queue) ReportedMode() Mode {
	if q.WantedMode != "" {
		return q.WantedMode
	}
	return q.Mode
}
