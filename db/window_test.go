package db_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// window is what a decision at a moment sees, when these facts wait: the pull
// requests in it.
func (w *world) window(now time.Time, facts ...queue.Fact) (*queue.Snapshot, []int64) {
	w.t.Helper()
	w.must(w.Append(w.t.Context(), w.repo.ID, w.queue.ID, append(facts, queue.ResyncEnded{})...))
	var seen *queue.Snapshot
	_, _, err := w.UpdateDue(w.t.Context(), now, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		seen = s
		return unchanged(s)
	})
	w.must(err)
	var prs []int64
	for _, e := range seen.Entries {
		prs = append(prs, e.Number)
	}
	slices.Sort(prs)
	return seen, prs
}

// put saves entries, and settings if they are given.
func (w *world) put(settings func(*queue.Settings), entries ...queue.Entry) {
	w.t.Helper()
	w.store(func(p *queue.Plan) {
		if settings != nil {
			settings(&p.Queue.Settings)
		}
		p.Entries = entries
	})
}

func notReady(pr int64) queue.Entry {
	e := entry(pr)
	e.State, e.AdmittedAt, e.Mergeability = queue.NotReady, time.Time{}, queue.NotMergeable
	e.RefreshAfter = epoch.Add(time.Hour)
	return e
}

func TestAWindowHoldsWhatFactsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// #1 to #6 are not ready and nothing to move; #7 has ended. #6 waits for
	// #5 because they conflict.
	var entries []queue.Entry
	for pr := range int64(7) {
		e := notReady(pr + 1)
		e.Head = fmt.Sprintf("head %d", pr+1)
		e.BoundHead = fmt.Sprintf("bound %d", pr+1)
		entries = append(entries, e)
	}
	entries[6].State, entries[6].Reason = queue.Cancelled, queue.PRClosed
	entries[5].ConflictsWith = entries[4].ID
	run := liveRun("old", 4, "tested", "signalbox/old")
	run.State, run.EndedAt = queue.RunFailed, epoch
	run.Chain = []queue.Step{{Entry: entries[0].ID}, {Entry: entries[1].ID}}
	w.put(nil, entries...)
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{run} })
	seen := func(pr int64) queue.Fact {
		return queue.PullRequestSeen{PullRequest: queue.PullRequest{Number: pr}}
	}
	tests := []struct {
		name string
		fact queue.Fact
		want []int64
	}{
		{"nobody", queue.TargetRead{}, nil},
		{"a pull request", seen(3), []int64{3}},
		{"an ended one", seen(7), []int64{7}},
		{"one that is being submitted again", queue.Submitted{PullRequest: queue.PullRequest{Number: 7}, ID: newID(), Via: queue.ViaAPI}, []int64{7}},
		{"one to cancel", queue.CancelRequested{PR: 2}, []int64{2}},
		{"one to restart", queue.RestartRequested{PR: 2}, []int64{2}},
		{"one that others wait for", seen(5), []int64{5, 6}},
		{"one that waits for others", seen(6), []int64{5, 6}},
		{"a head", queue.CheckReported{Commit: "head 4"}, []int64{4}},
		{"a bound head", queue.ChecksDoubted{Commit: "bound 4"}, []int64{4}},
		{"the head of an ended one", queue.CheckReported{Commit: "head 7"}, nil},
		{"a run by its commit", queue.CheckReported{Commit: "tested"}, []int64{1, 2}},
		{"a run by its branch", queue.TestBranchMoved{Branch: "signalbox/old"}, []int64{1, 2}},
		{"a run by its id", queue.RunBuilt{Run: "old"}, []int64{1, 2}},
		{"a conflict", queue.RunNotBuilt{Run: "x", Entry: entries[2].ID, With: entries[3].ID}, []int64{3, 4}},
		{"what landed", queue.LandingEnded{Landed: []queue.LandedStep{{Entry: entries[6].ID}}, Entry: entries[0].ID}, []int64{1, 7}},
		{"an id that is none", queue.RunNotBuilt{Run: "x", Entry: "'; DROP TABLE entries"}, nil},
		{"everybody", queue.RulesChanged{}, []int64{1, 2, 3, 4, 5, 6}},
	}
	for _, tt := range tests {
		s, got := w.window(epoch, tt.fact)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if !s.Waiting {
			t.Errorf("%s: nobody is said to wait", tt.name)
		}
	}
}

func TestAWindowHoldsTheWholeLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, ahead, ended := entry(1), entry(2), entry(3), entry(4)
	one.State, one.Group = queue.Testing, 1
	two.State, two.Group = queue.Testing, 2
	ahead.State, ahead.LandedCommit = queue.Merged, "c" // landed, but in the chain
	ended.State, ended.Reason = queue.Failed, queue.MergeConflict
	passed := liveRun("passed", 1, "c1", "b1")
	passed.State, passed.Chain = queue.RunPassed, []queue.Step{{Entry: ahead.ID}, {Entry: one.ID}}
	older := liveRun("older", 1, "c0", "b0")
	older.State, older.Chain = queue.Stopped, []queue.Step{{Entry: ended.ID}}
	w.put(nil, one, two, ahead, ended)
	w.store(func(p *queue.Plan) {
		p.Groups = []queue.Group{
			{ID: 1, Members: []queue.EntryID{one.ID}, Run: "passed", FormedAt: epoch},
			{ID: 2, Members: []queue.EntryID{two.ID}, FormedAt: epoch, Part: &queue.Part{Bisection: 1}},
		}
		p.Line, p.Parts = []queue.GroupID{1}, []queue.GroupID{2}
		p.Runs = []queue.Run{passed, older}
	})
	s, prs := w.window(epoch)
	if diff := cmp.Diff([]int64{1, 2, 3}, prs); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(s.Groups) != 2 || len(s.Runs) != 1 || s.Runs["passed"] == nil {
		t.Errorf("groups %v, runs %v", s.Groups, s.Runs)
	}
	// A group that is gone takes nothing else with it.
	w.store(func(p *queue.Plan) { p.Line, p.Parts, p.Gone = nil, nil, []queue.GroupID{1, 2} })
	s, prs = w.window(epoch)
	if len(s.Groups) != 0 || prs != nil {
		t.Errorf("after the groups went: %v, %v", s.Groups, prs)
	}
	if run, _, err := w.Run(t.Context(), w.queue.ID, "passed"); err != nil || run.Group != 1 {
		t.Errorf("their run: %+v, %v", run, err)
	}
}

func TestAWindowHoldsTheFirstFreeEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var entries []queue.Entry
	for pr := range int64(9) {
		e := entry(pr + 1)
		e.AdmittedAt = epoch.Add(time.Duration(pr) * time.Second)
		entries = append(entries, e)
	}
	entries[8].Priority = queue.Urgent
	entries[0].ConflictsWith = entries[7].ID // which is undecided
	ended := entry(20)
	ended.State, ended.Reason = queue.Failed, queue.MergeConflict
	entries[1].ConflictsWith = ended.ID
	w.put(func(s *queue.Settings) { s.Concurrency = 3 }, append(entries, ended)...)
	s, prs := w.window(epoch)
	if diff := cmp.Diff([]int64{2, 3, 9, 20}, prs); diff != "" || !s.More {
		t.Errorf("three slots (-want +got), more %v:\n%s", s.More, diff)
	}
	w.put(func(s *queue.Settings) { s.Batch, s.BatchingMinSize = true, 2 })
	if _, prs = w.window(epoch); len(prs) != 7 {
		t.Errorf("three slots for batches of two: %v", prs)
	}
	w.put(func(s *queue.Settings) { s.Concurrency, s.BatchingMinSize = queue.MaxNumber, queue.MaxNumber })
	if s, prs = w.window(epoch); len(prs) != 10 || s.More {
		t.Errorf("slots without end: %v, more %v", prs, s.More)
	}
}

func TestAWindowHoldsThoseThatAreReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ready := func(pr int64, change func(e *queue.Entry)) queue.Entry {
		e := notReady(pr)
		e.Mergeability = queue.Mergeable
		change(&e)
		return e
	}
	w.put(nil,
		ready(1, func(e *queue.Entry) {}),
		ready(2, func(e *queue.Entry) { e.Open = false }),
		ready(3, func(e *queue.Entry) { e.Draft = true }),
		ready(4, func(e *queue.Entry) { e.Base = "release" }),
		ready(5, func(e *queue.Entry) { e.Mergeability = queue.MergeabilityInProgress }),
		ready(6, func(e *queue.Entry) { e.Mergeability, e.Forced = queue.NotMergeable, true }),
		ready(7, func(e *queue.Entry) {}),
	)
	w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 7, "head7", []string{"docs"}, false))
	check := func(what string, want []int64, facts ...queue.Fact) {
		t.Helper()
		if _, got := w.window(epoch, facts...); !cmp.Equal(want, got) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("running", []int64{1, 6, 7})
	w.store(func(p *queue.Plan) { p.Queue.State = queue.Paused })
	check("paused", nil)
	running := queue.Running
	check("paused until now", []int64{1, 6, 7}, queue.ChangeRequested{Change: queue.Change{State: &running}, At: epoch})
	w.store(func(p *queue.Plan) { p.Queue.State, p.Queue.Mode = queue.Running, queue.Parallel })
	check("in parallel mode, where targets must be known", []int64{7})
	w.store(func(p *queue.Plan) {
		p.Queue.Mode = queue.Single
		for pr := range int64(queue.AdmitAtOnce) {
			p.Entries = append(p.Entries, ready(1000+pr, func(*queue.Entry) {}))
		}
	})
	s, prs := w.window(epoch)
	if len(prs) != queue.AdmitAtOnce || !s.More {
		t.Errorf("of very many, %d are there, more %v", len(prs), s.More)
	}
}

// What package queue asks for of an entry that nothing else happens to, the
// window must bring at that moment, and not before.
func TestAWindowHoldsThoseWhoseTimeHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		name   string
		change func(e *queue.Entry)
	}{
		{"not mergeable: read again", func(e *queue.Entry) {}},
		{"nobody knows: read now", func(e *queue.Entry) { e.Mergeability, e.RefreshAfter = queue.MergeabilityUnspecified, time.Time{} }},
		{"the host still computes", func(e *queue.Entry) {
			e.Mergeability, e.RefreshAfter = queue.MergeabilityInProgress, epoch.Add(7*time.Second)
		}},
		{"doubted", func(e *queue.Entry) { e.Doubted, e.RefreshAfter = true, epoch.Add(time.Second) }},
		{"asked, and no answer", func(e *queue.Entry) { e.RefreshAsked = epoch }},
		{"admitted and doubted", func(e *queue.Entry) {
			e.State, e.AdmittedAt, e.Doubted, e.RefreshAfter = queue.Pending, epoch, true, epoch.Add(9*time.Second)
		}},
		{"admitted and sure", func(e *queue.Entry) { e.State, e.AdmittedAt = queue.Pending, epoch }},
	}
	for i, tt := range tests {
		e := notReady(int64(i) + 1)
		e.MergeabilityFor = e.Head
		tt.change(&e)
		asks := func(now time.Time) bool {
			s := queue.NewSnapshot(w.queue)
			s.Queue.Target = queue.Target{Commit: "c", Tree: "t"}
			s.Queue.State = queue.Paused // nothing else shall happen
			copied := e
			s.Entries[e.ID] = &copied
			for _, a := range queue.Reconcile(s, nil, now).Actions {
				if _, ok := a.(queue.RefreshPR); ok {
					return true
				}
			}
			return false
		}
		w.store(func(p *queue.Plan) {
			p.Queue.State = queue.Paused
			p.Entries = []queue.Entry{e}
		})
		const day = 24 * time.Hour
		due := time.Duration(0)
		for due <= day && !asks(epoch.Add(due)) {
			due += time.Second
		}
		for _, at := range []time.Duration{due - time.Second, due} {
			s, prs := w.window(epoch.Add(at))
			is, want := slices.Contains(prs, e.Number), at == due && due <= day
			// Free entries are in every window.
			if is != want && e.State == queue.NotReady && at >= 0 {
				t.Errorf("%s: after %s in the window %v, want %v", tt.name, at, is, want)
			}
			if at >= 0 && at < due && due <= day && !s.NextDue.Equal(epoch.Add(due)) && e.State == queue.NotReady {
				t.Errorf("%s: the next is due at %s, want %s", tt.name, s.NextDue, epoch.Add(due))
			}
		}
		w.store(func(p *queue.Plan) {
			e.State, e.Reason, e.Version = queue.Cancelled, queue.PRClosed, e.Version+1
			p.Entries = []queue.Entry{e}
		})
	}
}

func TestAWindowHoldsThoseOutOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, young := notReady(1), notReady(2)
	old.SubmittedAt, young.SubmittedAt = epoch.Add(-3*time.Hour), epoch.Add(-time.Hour)
	old.RefreshAfter, young.RefreshAfter = epoch.AddDate(1, 0, 0), epoch.AddDate(1, 0, 0)
	w.put(func(s *queue.Settings) { s.NotReadyTimeoutHours = 3 }, old, young)
	if s, prs := w.window(epoch); !cmp.Equal([]int64{1}, prs) || !s.NextDue.Equal(epoch.Add(2*time.Hour)) {
		t.Errorf("in time %v, the next is due at %s", prs, s.NextDue)
	}
	w.put(func(s *queue.Settings) { s.NotReadyTimeoutHours = queue.MaxNumber })
	if s, prs := w.window(epoch); prs != nil {
		t.Errorf("without end: %v, next %s", prs, s.NextDue)
	}
}
