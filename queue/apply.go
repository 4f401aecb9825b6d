package queue

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// This file learns; it chooses nothing. A fact that is known already, or older
// than what is known, changes nothing.

func (d *decision) apply(r Received) {
	var answer Answer
	switch f := r.Fact.(type) {
	case Submitted:
		answer = d.submitted(f)
	case CancelRequested:
		answer = d.cancelRequested(f)
	case RestartRequested:
		answer = d.restartRequested(f)
	case ChangeRequested:
		answer = d.changeRequested(f)
	case PullRequestSeen:
		d.pullRequestSeen(f)
	case MergeabilitySeen:
		d.mergeabilitySeen(f)
	case DirectSeen:
		if e := d.byPR(f.PR); e != nil && e.Active() && f.Head == e.BoundHead {
			e.Direct = f.Target
		}
	case PullRequestDoubted:
		d.doubt(func(e *Entry) bool { return e.Number == f.PR || e.layer(f.PR) >= 0 })
	case RulesChanged:
		d.doubt(func(*Entry) bool { return true })
		d.wantPreflight(d.now.Add(preflightPause))
	case PreflightWanted:
		d.wantPreflight(d.now)
	case PreflightSeen:
		d.preflightSeen(f)
	case RefreshEnded:
		d.refreshEnded(f)
	case RepositoryGone:
		for _, e := range d.s.Entries {
			if e.Active() {
				e.Removed = f.Message
			}
		}
	case TargetMoved:
		d.targetMoved(f)
	case TargetRead:
		d.targetRead(f)
	case CheckReported:
		d.checkReported(f)
	case ChecksDoubted:
		d.checksDoubted(f)
	case TestResults:
		d.testResults(f)
	case TestBranchMoved:
		d.testBranchMoved(f)
	case RunBuilt:
		d.runBuilt(f)
	case RunNotBuilt:
		d.runNotBuilt(f)
	case LandingEnded:
		if l := d.s.Queue.Landing; l != nil && l.ID == f.Landing && l.Ended == nil {
			d.landingNow().Ended = &f
		}
	case ResyncEnded:
		if f.Resync == d.s.Queue.ResyncRuns {
			d.s.Queue.ResyncDue = d.now.Add(resyncEvery)
		}
	}
	d.answers[r.ID] = answer
}

// landingNow is the landing in flight, made ours to change: the snapshot we
// compare with shares the old value.
func (d *decision) landingNow() *Landing {
	l := *d.s.Queue.Landing
	d.s.Queue.Landing = &l
	return &l
}

func (d *decision) pullRequestSeen(f PullRequestSeen) {
	if e := d.byPR(f.Number); e != nil && e.Active() {
		d.see(e, f)
	}
	d.seeLate(f)
	if e := d.stackWith(f.Number); e != nil {
		d.seeLayer(e, e.layer(f.Number), f)
	}
}

// see takes over a newer state of a pull request. GitHub's times are whole
// seconds: of two different states with one time only a read is believed, and
// a message makes us read.
func (d *decision) see(e *Entry, f PullRequestSeen) {
	if f.UpdatedAt.Before(e.UpdatedAt) {
		return
	}
	if f.UpdatedAt.Equal(e.UpdatedAt) && !f.Read {
		if !samePullRequest(f.PullRequest, e.PullRequest) {
			e.Doubted = true
		}
		return
	}
	if f.Head != e.Head || f.Base != e.Base {
		e.Mergeability, e.MergeabilityWhy, e.Doubted = MergeabilityUnspecified, "", true
	} else if f.Draft != e.Draft || f.Open != e.Open { // hosts judge drafts and what is closed otherwise
		e.Doubted = true
	}
	if f.Head != e.Head {
		e.Targets = 0 // what the old head impacts says nothing; the store brings the new head's to the next decision
	}
	e.PullRequest = f.PullRequest
	if e.State == NotReady && e.BoundHead != f.Head { // a push before admission only rebinds
		e.BoundHead, e.Direct = f.Head, ""
	}
}

func samePullRequest(a, b PullRequest) bool {
	return a.Head == b.Head && a.Base == b.Base && a.Draft == b.Draft && a.Open == b.Open &&
		a.Merged == b.Merged && a.Title == b.Title && a.CommitTitle == b.CommitTitle && slices.Equal(a.Labels, b.Labels)
}

func (d *decision) mergeabilitySeen(f MergeabilitySeen) {
	if e := d.stackWith(f.PR); e != nil {
		d.layerMergeable(e, e.layer(f.PR), f)
	}
	e := d.byPR(f.PR)
	if e == nil || !e.Active() {
		return
	}
	e.RefreshAsked = time.Time{}
	if f.Head != e.Head || f.Below != e.below(len(e.Stack)) {
		if f.Head != e.Head || e.State == NotReady { // once admitted it is tested as it is
			e.Doubted = true
			e.RefreshAfter = d.now.Add(refreshPause)
		}
		return
	}
	if f.Value == MergeabilityInProgress || f.Value == MergeabilityUnspecified {
		e.RefreshTries++
		e.RefreshAfter = d.now.Add(stillComputing(e.RefreshTries))
		if e.MergeabilityFor == f.Head && (e.Mergeability == Mergeable || e.Mergeability == NotMergeable) {
			return // unknown never replaces known for the same head
		}
	} else {
		e.RefreshTries = 0
		e.RefreshAfter = d.now.Add(refreshPause)
	}
	e.Mergeability, e.MergeabilityWhy, e.MergeabilityFor = f.Value, f.Why, f.Head
}

func (d *decision) refreshEnded(f RefreshEnded) {
	e := d.byPR(f.PR)
	if e == nil || !e.Active() {
		return
	}
	e.RefreshAsked = time.Time{}
	e.RefreshTries++
	e.RefreshAfter = d.now.Add(backoff(e.RefreshTries, 5*time.Second, 5*time.Minute))
	e.Doubted = true
	if f.Gone {
		e.Removed = fmt.Sprintf("Pull request #%d no longer exists on the host.", f.PR)
	}
}

func (d *decision) doubt(about func(*Entry) bool) {
	for _, e := range d.s.Entries {
		if e.State == NotReady && about(e) {
			e.Doubted = true
		}
	}
}

func (d *decision) targetMoved(f TargetMoved) {
	t := &d.s.Queue.Target
	if f.Branch != d.s.Queue.Branch || f.After == t.Commit || d.landedHere(f.After) {
		return
	}
	t.Doubted = true
	t.Hints = appendNew(t.Hints, f.After)
}

// landedHere reports whether a commit is one that this queue has seen land on its
// target. What the host merged late nobody has: where it is, is found by a read.
func (d *decision) landedHere(commit string) bool {
	return slices.ContainsFunc(d.s.Queue.Landed, func(l Landed) bool { return l.Commit == commit && l.Tree != "" })
}

func (d *decision) targetRead(f TargetRead) {
	q := &d.s.Queue
	t := &q.Target
	t.ReadAsked = time.Time{}
	if f.Version != t.Version || q.Landing != nil {
		t.Doubted = t.Doubted || f.Commit != t.Commit
		return
	}
	t.Doubted, t.Hints, t.Missing = false, nil, f.Missing
	if !f.Missing && f.Commit != t.Commit {
		d.targetIs(f.Commit, f.Tree)
	}
}

// targetIs takes over a head of the target that this queue did not put there.
func (d *decision) targetIs(commit, tree string) {
	t := &d.s.Queue.Target
	t.Commit, t.Tree, t.Missing = commit, tree, false
	t.Version++
	t.Epoch++
}

// checkReported keeps the newest report of each name on a run's commit. For
// any other commit it may be news about a pull request's head.
func (d *decision) checkReported(f CheckReported) {
	if f.Commit == "" { // would be every run that is not built yet
		return
	}
	for _, r := range d.s.Runs {
		if r.Commit != f.Commit || r.State == Stopped {
			continue
		}
		if old, known := r.Checks[f.Key()]; !known || f.Newer(old) {
			report := f.Report
			report.Earlier = 0
			if known {
				report.Earlier = old.Earlier
				if report.replaces(old) {
					report.Earlier++
				}
			}
			d.keepReport(r, f.Key(), report)
		}
	}
	d.doubt(func(e *Entry) bool { return e.hasHead(f.Commit) })
}

// keepReport writes a report into the checks of a run. What a run begins a decision
// with is shared with how it was before, so it is copied: once, however many
// reports a decision has.
func (d *decision) keepReport(r *Run, key string, report Report) {
	if !d.reported[r.ID] {
		d.reported[r.ID] = true
		checks := make(map[string]Report, len(r.Checks)+1)
		maps.Copy(checks, r.Checks)
		r.Checks = checks
	}
	r.Checks[key] = report
}

func (d *decision) checksDoubted(f ChecksDoubted) {
	for _, r := range d.s.Runs {
		if r.Commit == f.Commit && r.State == RunTesting && r.ReadAfter.IsZero() {
			r.ReadAfter = d.now.Add(checksPatience)
		}
	}
	d.doubt(func(e *Entry) bool { return e.hasHead(f.Commit) })
}

// testBranchMoved looks whose branch it is: that of a live run is spoilt, and one
// whose run is over is removed again. Its push may have hung in the network until
// the branch had been removed.
func (d *decision) testBranchMoved(f TestBranchMoved) {
	for _, r := range d.s.Runs {
		switch {
		case r.Branch != f.Branch:
		case d.over(r):
			if f.After != "" && !d.stopping(r) {
				d.actions = append(d.actions, StopRun{Queue: d.s.Queue.ID, Run: r.ID, Branch: r.Branch, Commit: f.After, Cancel: true})
			}
		case r.State != RunTesting || f.After == r.Commit:
		case f.After == "":
			r.Spoilt = fmt.Sprintf("Somebody deleted the test branch %s.", r.Branch)
		default:
			r.Spoilt = fmt.Sprintf("Somebody pushed %s to the test branch %s.", short(f.After), r.Branch)
		}
	}
}

// stopping reports whether this decision has a run taken off the host already.
func (d *decision) stopping(r *Run) bool {
	return slices.ContainsFunc(d.actions, func(a Action) bool {
		stop, ok := a.(StopRun)
		return ok && stop.Run == r.ID
	})
}

func (d *decision) runBuilt(f RunBuilt) {
	r := d.s.Runs[f.Run]
	switch {
	case r == nil || len(f.Chain) != len(r.Chain) || len(f.Chain) == 0:
		return
	case d.over(r): // it was built after all, or once more: take it away again
		d.actions = append(d.actions, StopRun{Queue: d.s.Queue.ID, Run: r.ID, Branch: r.Branch, DraftPR: f.DraftPR,
			Commit: f.Chain[len(f.Chain)-1].Commit, Cancel: true})
		return
	case r.State != Building:
		return
	}
	last := f.Chain[len(f.Chain)-1]
	r.State, r.Chain, r.Commit, r.Tree = RunTesting, f.Chain, last.Commit, last.Tree
	r.Base.Commit, r.Base.Tree = f.Base.Commit, f.Base.Tree
	r.Required, r.RequiredSource, r.DraftPR = f.Required, f.RequiredSource, f.DraftPR
	r.StartedAt, r.Deadline = d.now, d.now.Add(minutes(d.s.Queue.TestingTimeoutMinutes))
	r.NotBuilt = nil
	if f.DraftPR != 0 {
		d.noDrafts(false)
	}
}

// over reports whether a run has ended and nobody needs its branch any more: it has
// been removed, or is about to be. A builder that was killed after its work is done
// again, and makes the branch once more.
func (d *decision) over(r *Run) bool {
	g := d.s.Groups[r.Group]
	return r.State == Stopped || !r.State.Live() && !(r.hedges() && r.State != Interrupted) && (g == nil || g.Run != r.ID)
}

// runNotBuilt keeps the end of a build for the verdicts. One that was stopped
// before may have reached the host all the same: it is taken away again.
func (d *decision) runNotBuilt(f RunNotBuilt) {
	r := d.s.Runs[f.Run]
	switch {
	case r == nil:
	case r.State == Building:
		r.NotBuilt = &f
	case d.over(r) && f.Trouble == TroubleTransient:
		d.actions = append(d.actions, StopRun{Queue: d.s.Queue.ID, Run: r.ID, Branch: r.Branch})
	}
}

func appendNew(list []string, s string) []string {
	const keep = 20
	if slices.Contains(list, s) {
		return list
	}
	list = append(slices.Clone(list), s)
	return list[max(0, len(list)-keep):]
}
