package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// What becomes of each action when the host fails: how often it is tried, and
// which facts the queue hears. testdata/failures.txt is the table; it is worth
// reading as one.

var actions = []struct {
	action queue.Action
	calls  []string // of the host, all of which fail
}{
	{queue.BuildRuns{Queue: 1, Runs: []queue.BuildRun{
		{Run: "r1", Branch: "signalbox/pr-7/r1", Target: "main", Chain: []queue.StepSpec{{Step: queue.Step{Entry: "e7", Submission: 1, PR: 7, Head: "h7"}}}, Own: 1},
		{Run: "r2", Branch: "signalbox/pr-8/r2", Target: "main", Chain: []queue.StepSpec{{Step: queue.Step{Entry: "e8", Submission: 1, PR: 8, Head: "h8"}}}, Own: 1},
	}}, []string{"Build"}},
	{queue.StopRun{Queue: 1, Run: "r1", Branch: "signalbox/pr-7/r1"}, []string{"Stop"}},
	{queue.Land{Queue: 1, Landing: 3, Branch: "main", Expect: "m0", Steps: []queue.StepSpec{{Step: queue.Step{Entry: "e7", Submission: 1, PR: 7, Head: "h7", Commit: "c7", Tree: "t7"}}}}, []string{"Land"}},
	{queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, []string{"Comment", "Status", "Notice"}},
	{queue.RefreshPR{Queue: 1, PR: 7}, []string{"Mergeability"}},
	{queue.ReadTarget{Queue: 1, Branch: "main", Version: 4}, []string{"Target"}},
	{queue.ReadChecks{Queue: 1, Run: "r1", Commit: "c7"}, []string{"Checks"}},
	{queue.Resync{Queue: 1, Resync: 2, Branch: "main", Version: 4, PRs: []int64{7, 8}, Commits: []string{"c7"}, Branches: map[string]string{"signalbox/pr-7/r1": "c7"},
		Waiting: map[int64]string{9: "h9"}}, []string{"Target", "Checks", "Mergeability", "OpenPullRequests", "TestBranches"}},
	{queue.RunPreflight{Queue: 1, Branch: "main", Method: queue.Squash}, []string{"Preflight"}},
	{queue.AnswerCommand{Repo: 1, Command: queue.CommandAsked{PR: 7, Comment: 70, By: queue.Actor{Login: "wil", ID: 2}, Command: queue.Command{Verb: queue.VerbMerge}}}, []string{"PullRequest"}},
}

var failures = []struct {
	name  string
	fault fault
}{
	{"transient", fault{err: errors.New("502 with words that nobody checked: token=secret")}},
	{"stale", fault{err: &gitprovider.Error{Kind: gitprovider.Stale, Message: "The branch moved meanwhile."}}},
	{"denied", fault{err: &gitprovider.Error{Kind: gitprovider.Denied, Message: "The App needs the permission contents: write.", Err: errors.New("403")}}},
	{"conflict", fault{err: &gitprovider.Error{Kind: gitprovider.Conflict, Message: "README.md conflicts."}}},
	{"gone", fault{err: errGone}},
	{"panic", fault{panic: true}},
	{"nothing", fault{}},
}

func TestWhatBecomesOfEachActionWhenTheHostFails(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for _, a := range actions {
		fmt.Fprintf(&table, "%s\n", a.action.Kind())
		for _, f := range failures {
			s := staged(t)
			for _, call := range a.calls {
				s.faults[call] = f.fault
			}
			attempts, err := s.perform(a.action)
			outcome := "done"
			if err != nil {
				outcome = "given up"
			}
			fmt.Fprintf(&table, "  %-10s %s after %d of %d attempts\n", f.name, outcome, attempts, MaxAttempts(a.action.Kind()))
			for _, fact := range s.waiting(1) {
				fmt.Fprintf(&table, "             → %s\n", fact)
			}
		}
	}
	got := table.String()
	if strings.Contains(got, "secret") {
		t.Error("a fact holds words of an error that nobody checked")
	}
	golden(t, "failures.txt", got)
}

// The other half of the table: a call that fails once is tried again, and the
// outcome is as if nothing had happened, whether or not the first call did
// what it does before its answer was lost.
func TestAnActionThatFailedOnceEndsAsIfItHadNot(t *testing.T) {
	t.Parallel()
	writes := []string{"build_runs", "land", "sync_pr"} // whose answer can get lost
	for _, a := range actions {
		if a.action.Kind() == (queue.AnswerCommand{}).Kind() {
			continue // see the stories of commands
		}
		for _, lost := range []bool{false, true} {
			if lost && !slices.Contains(writes, a.action.Kind()) {
				continue
			}
			t.Run(fmt.Sprintf("%s, done=%v", a.action.Kind(), lost), func(t *testing.T) {
				t.Parallel()
				smooth, bumpy := staged(t), staged(t)
				if _, err := smooth.perform(a.action); err != nil {
					t.Fatal(err)
				}
				for _, call := range a.calls {
					bumpy.faults[call] = fault{err: errors.New("timeout"), after: lost}
				}
				if err := bumpy.attempt(a.action, 1); err == nil {
					t.Fatal("the failed attempt reported no error, so River would not try again")
				}
				bumpy.faults = map[string]fault{}
				if err := bumpy.attempt(a.action, 2); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(smooth.waiting(1), bumpy.waiting(1)); diff != "" {
					t.Errorf("facts differ (-without failure +with):\n%s", diff)
				}
				if diff := cmp.Diff(smooth.on(7), bumpy.on(7)); diff != "" {
					t.Errorf("comments differ (-without failure +with):\n%s", diff)
				}
			})
		}
	}
}

func TestNewsThatCannotBeStoredIsFetchedAgain(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.breaks("Append", errBroken)
	work := queue.ReadTarget{Queue: 1, Branch: "main", Version: 4}
	if err := s.attempt(work, 1); !errors.Is(err, errBroken) {
		t.Errorf("error = %v, want that of the store, so that River tries again", err)
	}
	s.breaks("Append", nil)
	if err := s.attempt(work, 2); err != nil || len(s.waiting(1)) != 1 {
		t.Errorf("error = %v, facts = %v, want none and the one that was read", err, s.waiting(1))
	}
}

func TestTheNewsOfAnAttemptThatRanOutOfTimeStillArrives(t *testing.T) {
	t.Parallel()
	s := staged(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.during = func(string) { cancel() } // River's time-out, or its hard stop
	work := &worker[queue.Land]{engine: s.e, deed: s.e.land()}
	row := &rivertype.JobRow{Attempt: 1, MaxAttempts: MaxAttempts("land")}
	if err := work.Work(ctx, &river.Job[queue.Land]{JobRow: row, Args: queue.Land{Queue: 1, Landing: 3, Branch: "main"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.waiting(1); len(got) != 1 {
		t.Errorf("facts = %v, want the end of the landing", got)
	}
}

func TestRiverGetsAWorkerForEveryKindOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	workers := river.NewWorkers()
	if err := s.e.AddWorkers(workers); err != nil {
		t.Fatal(err)
	}
	if err := s.e.AddWorkers(workers); err == nil {
		t.Error("adding the workers twice reported no error")
	}
}

func TestARetryWaitsAsTheTableSays(t *testing.T) {
	t.Parallel()
	s := staged(t)
	w := &worker[queue.SyncPR]{engine: s.e}
	job := &river.Job[queue.SyncPR]{JobRow: &rivertype.JobRow{Attempt: 3}}
	l := kinds[job.Args.Kind()]
	if got := w.Timeout(job); got != l.timeout {
		t.Errorf("timeout = %v, want %v", got, l.timeout)
	}
	if wait := w.NextRetry(job).Sub(s.clock.Now()); wait <= l.first || wait > 4*l.first {
		t.Errorf("the wait after the third attempt = %v, want between %v and %v", wait, l.first, 4*l.first)
	}
}

func TestWorkForADeletedQueueIsDropped(t *testing.T) {
	t.Parallel()
	for _, a := range actions {
		s := staged(t)
		s.memory.queues = map[queue.ID]*held{}
		s.memory.repos = map[queue.RepoID]queue.Repo{}
		if err := s.attempt(a.action, 1); err != nil {
			t.Errorf("%s: error = %v, want none: there is nothing to do any more", a.action.Kind(), err)
		}
	}
}

func TestAResyncReadsWhatItCan(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.faults["Checks"] = fault{err: errors.New("500")}
	delete(s.prs, 8)
	if err := s.attempt(queue.Resync{Queue: 1, Resync: 2, Branch: "main", PRs: []int64{7, 8}, Commits: []string{"c7"}}, 1); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, f := range s.memory.queues[1].unread {
		kinds = append(kinds, f.Fact.Kind())
	}
	want := []string{"target_read", "pull_request_seen", "mergeability_seen", "refresh_ended", "resync_ended"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if log := s.log.String(); !strings.Contains(log, "resync could not read one thing") {
		t.Error("the log does not say what could not be read")
	}
}

func TestAResyncTellsWhatIsDifferentAboutBranchesAndWhoWaits(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.branches = map[string]string{"signalbox/pr-7/same": "c7", "signalbox/pr-7/moved": "c8", "signalbox/pr-1/not_ours": "c1"}
	s.prs[7].Head = "h7"
	s.prs[8].Head = "h8 pushed"
	s.prs[9] = &queue.PullRequest{Number: 9, Head: "h9", Base: "main", Open: true, Draft: true}
	s.prs[10] = &queue.PullRequest{Number: 10, Head: "h10", Base: "main"} // closed
	s.prs[11] = &queue.PullRequest{Number: 11, Head: "h11", Base: "main", Open: true}
	work := queue.Resync{Queue: 1, Resync: 2, Branch: "main",
		Branches: map[string]string{"signalbox/pr-7/same": "c7", "signalbox/pr-7/moved": "c7", "signalbox/pr-7/gone": "c7"},
		Waiting:  map[int64]string{7: "h7", 8: "h8", 9: "h9", 10: "h10", 12: "h12"}}
	if err := s.attempt(work, 1); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range s.memory.queues[1].unread {
		switch f := f.Fact.(type) {
		case queue.TestBranchMoved:
			got = append(got, fmt.Sprintf("branch %s at %q", f.Branch, f.After))
		case queue.PullRequestSeen:
			got = append(got, fmt.Sprintf("pr %d, read %v", f.Number, f.Read))
		case queue.RefreshEnded:
			got = append(got, fmt.Sprintf("pr %d gone %v", f.PR, f.Gone))
		}
	}
	want := []string{`branch signalbox/pr-7/gone at ""`, `branch signalbox/pr-7/moved at "c8"`,
		"pr 8, read false", "pr 9, read false", "pr 10, read true", "pr 12 gone true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// Of a repository that was renamed, transferred or taken from the App all seems
// gone. No pull request ends for that: whoever keeps the installations looks.
func TestWhatSeemsGoneBecauseItsRepositoryIsElsewhereIsNotGone(t *testing.T) {
	t.Parallel()
	for _, work := range []queue.Action{
		queue.RefreshPR{Queue: 1, PR: 7},
		queue.ReadTarget{Queue: 1, Branch: "main", Version: 4},
		queue.Resync{Queue: 1, Resync: 2, Branch: "main", PRs: []int64{7}},
	} {
		s := staged(t)
		astray := 0
		s.e.hooks.Astray = func(queue.Repo) { astray++ }
		s.away, s.heads = true, nil
		delete(s.prs, 7)
		if _, err := s.perform(work); err != nil {
			t.Errorf("%s: %v", work.Kind(), err)
		}
		if astray == 0 {
			t.Errorf("%s: nobody was told to look", work.Kind())
		}
		for _, f := range s.memory.queues[1].unread {
			switch f := f.Fact.(type) {
			case queue.RefreshEnded:
				if f.Gone {
					t.Errorf("%s: the pull request is called gone", work.Kind())
				}
			case queue.TargetRead:
				t.Errorf("%s: the target is called missing", work.Kind())
			}
		}
	}
}

// An action that sleeps while the host's limit is reached loses no attempt, and
// knows that it is not the first one.
func TestWhatNobodyWaitsForSleepsUntilTheLimitIsOver(t *testing.T) {
	t.Parallel()
	s := staged(t)
	limit := &gitprovider.Error{Kind: gitprovider.Transient, Message: "The host allows no more calls until 12:00.", After: s.clock.Now().Add(time.Minute)}
	var slept *rivertype.JobSnoozeError
	for _, call := range []string{"Comment", "Status", "Target"} {
		s.faults[call] = fault{err: limit}
	}
	err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1)
	if !errors.As(err, &slept) || slept.Duration != time.Minute {
		t.Errorf("error = %v, want a sleep of a minute", err)
	}
	// What a decision waits for fails, so that the decision asks again.
	var again *rivertype.JobSnoozeError
	if err := s.attempt(queue.ReadTarget{Queue: 1, Branch: "main", Version: 4}, 1); err == nil || errors.As(err, &again) {
		t.Errorf("error = %v, want one that counts as an attempt", err)
	}
	for _, tt := range []struct {
		attempt  int
		metadata string
		want     bool
	}{{1, "", false}, {1, "{}", false}, {1, `{"snoozes":2}`, true}, {2, "{}", true}, {1, "no JSON", false}} {
		if got := repeated(&rivertype.JobRow{Attempt: tt.attempt, Metadata: []byte(tt.metadata)}); got != tt.want {
			t.Errorf("attempt %d with %q is a repetition: %v", tt.attempt, tt.metadata, got)
		}
	}
}

// A decision that waits for an action asks again after a deadline; by then the
// job must be over, or the action would be under way twice.
func TestAllAttemptsFitIntoTheTimeThatADecisionWaits(t *testing.T) {
	t.Parallel()
	longest := time.Duration(0)
	for kind, l := range kinds {
		longest = max(longest, l.timeout)
		if l.fitsDeadline == 0 {
			continue
		}
		// One attempt may lose its process and be found by River's rescuer,
		// which looks every half minute.
		total := RescueStuckAfter + 30*time.Second
		for n := 1; n < l.attempts; n++ {
			total += l.timeout + min(l.first<<(n-1), l.most)
		}
		if total > l.fitsDeadline {
			t.Errorf("%s may take %v, more than the %v that a decision waits", kind, total, l.fitsDeadline)
		}
	}
	if RescueStuckAfter <= longest || RescueStuckAfter > longest+time.Minute {
		t.Errorf("RescueStuckAfter = %v, want just above the longest timeout, %v", RescueStuckAfter, longest)
	}
}

func TestEveryKindOfActionHasLimits(t *testing.T) {
	t.Parallel()
	for _, a := range actions {
		if l := kinds[a.action.Kind()]; l.attempts < 2 || l.timeout <= 0 || l.first <= 0 || l.most < l.first {
			t.Errorf("%s has limits %+v", a.action.Kind(), l)
		}
	}
	if len(actions) != len(kinds) {
		t.Errorf("%d kinds have limits, %d are tested", len(kinds), len(actions))
	}
}

// staged is a stage with two pull requests, one of them in the queue.
func staged(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, nil)
	pr := s.open(7, "main")
	s.open(8, "main")
	s.checks["c7"] = []queue.Report{{Kind: queue.CheckRun, Name: "build", ID: 1, Status: "completed", Result: "success"}}
	s.change(1, func(w *queue.Snapshot) {
		w.Entries["e7"] = &queue.Entry{
			ID: "e7", Submission: 1, State: queue.Failed, Reason: queue.RequiredStatusFailed, Message: "The check build failed.",
			PullRequest: *pr, BoundHead: pr.Head, Priority: queue.Medium, SubmittedBy: pr.Author, Version: 1,
			StateChangedAt: s.clock.Now(),
		}
	})
	return s
}

// waiting are the unread facts of a queue as they are stored.
func (s *stage) waiting(id queue.ID) []string {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	var facts []string
	for _, f := range s.memory.queues[id].unread {
		body, _ := queue.EncodeFact(f.Fact)
		facts = append(facts, f.Fact.Kind()+" "+string(body))
	}
	return facts
}

// BC-47: the host's limit is reached. What may wait sleeps until it is over, and
// that is no attempt; what a decision waits for becomes news, and is asked for
// again; nothing is dropped, and no pull request is blamed.
func TestBC47WorkIsPutOffWhileTheHostsLimitIsReached(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{-time.Minute, 3 * time.Minute, 24 * time.Hour} {
		s := staged(t)
		limited := &gitprovider.Error{Kind: gitprovider.Transient, Message: "The limit is reached.", After: s.clock.Now().Add(after)}
		for _, method := range []string{"Comment", "Status", "Notice", "Land"} {
			s.faults[method] = fault{err: limited}
		}
		telling := queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}
		for _, attempt := range []int{1, MaxAttempts(telling.Kind())} {
			var sleep *river.JobSnoozeError
			want := min(max(after, time.Second), longestPutOff)
			if err := s.attempt(telling, attempt); !errors.As(err, &sleep) || sleep.Duration != want {
				t.Errorf("limit until %v, attempt %d: telling ended with %v, want it put off for %v", after, attempt, err, want)
			}
		}
		land := queue.Land{Queue: 1, Landing: 1, Branch: "main"}
		if _, err := s.perform(land); err == nil {
			t.Error("a landing that the limit kept away counts as done")
		}
		ended := false
		for _, f := range s.memory.queues[1].unread {
			f, ok := f.Fact.(queue.LandingEnded)
			if ended = ended || ok; ok && f.Trouble != queue.TroubleTransient {
				t.Errorf("the landing ended with %q, which blames somebody", f.Trouble)
			}
		}
		if !ended {
			t.Error("the decision does not hear of its landing")
		}
	}
}
