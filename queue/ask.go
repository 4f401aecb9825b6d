package queue

import (
	"slices"
	"time"
)

// ask asks the host for what is doubted or not known, never twice at once: the
// time of asking is kept, and only an answer or a deadline ends it.
func (d *decision) ask() {
	d.askPreflight()
	d.askTarget()
	for _, e := range d.sorted((*Entry).Active) {
		d.askPullRequest(e)
		d.bringTargets(e)
	}
	d.askAll()
	d.wakeAt(d.s.NextDue)
	if d.s.More && len(d.moves) > 0 || d.mayFillABatch() { // somebody outside the window may follow
		d.wakeAt(d.now)
	}
}

// mayFillABatch reports whether an entry has become free in this decision that
// may be what a batch outside the window waits for: which entries overlap it is
// known only when the window is read again.
func (d *decision) mayFillABatch() bool {
	q := &d.s.Queue
	return q.Batch && q.Mode == Parallel && slices.ContainsFunc(d.moves, func(m Move) bool {
		return m.To == Pending && d.s.Entries[m.Entry].Free()
	})
}

func (d *decision) askTarget() {
	t := &d.s.Queue.Target
	known := t.Commit != "" && !t.Doubted && !t.Missing
	if known || d.s.Queue.Landing != nil || !d.waiting() {
		return
	}
	if !t.ReadAsked.IsZero() && !d.due(t.ReadAsked.Add(readDeadline)) {
		return
	}
	if t.Missing && !t.Doubted { // a resync will see it come back
		return
	}
	t.ReadAsked = d.now
	d.wakeAt(d.now.Add(readDeadline))
	d.actions = append(d.actions, ReadTarget{Queue: d.s.Queue.ID, Branch: d.s.Queue.Branch, Version: t.Version})
}

func (r *Resync) expect(run *Run) {
	if r.Branches == nil {
		r.Branches = map[string]string{}
	}
	r.Branches[run.Branch] = run.Commit
}

func (r *Resync) wait(e *Entry) {
	if r.Waiting == nil {
		r.Waiting = map[int64]string{}
	}
	r.Waiting[e.Number] = e.Head
}

// waiting reports whether anybody waits for anything.
func (d *decision) waiting() bool {
	if d.s.Waiting || len(d.s.Line) > 0 || len(d.s.Parts) > 0 {
		return true
	}
	for _, e := range d.s.Entries {
		if e.Active() {
			return true
		}
	}
	return false
}

// askPullRequest refreshes an entry that something raised a doubt about, or
// whose mergeability nobody knows. One that is not ready is also read now and
// then, in case a message was lost.
func (d *decision) askPullRequest(e *Entry) {
	if due := e.RefreshDue(); d.isLanding(e) || due.IsZero() || !d.due(due) {
		return
	}
	e.Doubted = false
	e.RefreshAsked = d.now
	d.wakeAt(d.now.Add(refreshDeadline))
	ask := RefreshPR{Queue: d.s.Queue.ID, PR: e.Number, Stack: e.layerNumbers(), Try: e.RefreshTries, Branch: d.s.Queue.Branch}
	if q := &d.s.Queue; q.DirectMergeMode == DirectMergeAlways && e.State == NotReady && !e.Stacked() {
		ask.Direct, ask.RequiredStatuses = true, q.RequiredStatuses
	}
	d.actions = append(d.actions, ask)
}

// bringTargets has another decision made at once for an entry whose head is new to
// this one: its targets, which may have been uploaded before, come with the next,
// and nothing else need be the occasion for it.
func (d *decision) bringTargets(e *Entry) {
	was := d.before.Entries[e.ID]
	fresh := was == nil || was.Head != e.Head || was.Submission != e.Submission
	if d.s.Queue.Mode == Parallel && e.State == NotReady && fresh && e.Targets == 0 && e.RefreshAsked.IsZero() {
		d.wakeAt(d.now)
	}
}

// RefreshDue is when an entry that nothing else happens to is to be read from
// the host (again): an answer is overdue, a doubt may be cleared up, or what is
// known gets old. It is zero for one that is left alone. A store uses it to
// find the entries outside a window that time alone brings into it.
//
// A free pending entry that nobody raised a doubt about is left alone: there may be
// ten thousand of them, and each read is a call. Should a message about one have
// been lost, it is found when its group is built, by the resync of the line, or at
// the latest before it lands: it has cost a slot, and nothing wrong has landed.
func (e *Entry) RefreshDue() time.Time {
	var due time.Time
	switch {
	case !e.Active():
		return time.Time{}
	case !e.RefreshAsked.IsZero():
		return e.RefreshAsked.Add(refreshDeadline)
	case e.Doubted || e.State == NotReady && e.uncertain():
		due = e.RefreshAfter
	case e.State == NotReady:
		due = e.RefreshAfter.Add(resyncEvery)
	default:
		return time.Time{}
	}
	if due.Before(e.StateChangedAt) {
		return e.StateChangedAt // long due; the zero time would say never
	}
	return due
}

// askAll has the host read again now and then while something waits, because
// messages get lost: the target, what is in the line, what CI said.
func (d *decision) askAll() {
	q := &d.s.Queue
	if !d.waiting() {
		q.ResyncDue = time.Time{}
		return
	}
	if q.ResyncDue.IsZero() {
		q.ResyncDue = d.now.Add(resyncEvery)
	}
	if q.Landing != nil || !d.due(q.ResyncDue) { // the end of a landing wakes us anyway
		return
	}
	q.ResyncRuns++
	q.ResyncDue = d.now.Add(resyncEvery + readDeadline) // unless its end comes first
	d.wakeAt(q.ResyncDue)
	r := Resync{Queue: q.ID, Resync: q.ResyncRuns, Branch: q.Branch, Version: q.Target.Version}
	for _, id := range slices.Concat(d.s.Line, d.s.Parts) {
		g := d.s.Groups[id]
		for _, e := range d.s.members(g) {
			r.PRs = append(append(r.PRs, e.layerNumbers()...), e.Number)
		}
		for _, run := range append(slices.Clip(d.hedgesOf(g)), d.s.run(g)) {
			if run == nil || run.State != RunTesting {
				continue
			}
			r.Commits = append(r.Commits, run.Commit)
			if d.due(run.StartedAt.Add(branchSettled)) {
				r.expect(run)
			}
		}
	}
	for _, e := range d.s.Entries {
		if e.State == Pending && e.Group == 0 {
			r.wait(e)
		}
	}
	d.actions = append(d.actions, r)
}
