package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

// Cases from the field that need a host which says old things, or messages that
// come in an order that no script has. The test's name has the case's number.

// Somebody pushes and asks to merge at once. The command is handled first, and the
// host still shows the head from before the push: that head never lands.
func TestBC01AnOldHeadAtSubmissionNeverLands(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 0)
	ok(t, w.Open(1, "alice", files{"a": "1"}))
	old := w.host.pulls[1].PullRequest
	ok(t, w.Advance(2*time.Second))
	w.Faults = during("message", lost) // the push comes later than the command
	ok(t, w.Push(1, files{"a": "2"}))
	w.Faults = nil
	w.tell(queue.Submitted{PullRequest: old, ID: "00000000-0000-4000-8000-000000000001", By: old.Author, Via: queue.ViaUser, Priority: queue.Medium, At: w.Now})
	ok(t, w.Settle())
	w.tell(queue.PullRequestSeen{PullRequest: w.host.pulls[1].PullRequest})
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	for _, l := range w.landed {
		if l.steps[0].Head == old.Head {
			t.Error("the head from before the push landed")
		}
	}
	ok(t, Ended(w))
}

// The head of a batch's member moves while it is tested, and the message is lost.
// The landing reads the heads again: the member leaves, the other lands alone.
func TestBC02AHeadThatMovedUnseenIsFoundBeforeLanding(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Batch, s.BatchingMinSize = true, 2
	w := world(t, s, 2)
	ok(t, w.Advance(time.Second))
	w.Faults = during("message", lost)
	ok(t, w.Push(2, files{"x": "2"}))
	w.Faults = nil
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	if len(w.landed) > 0 {
		t.Error("something of that batch landed")
	}
	state(t, w, 2, queue.Cancelled)
	if e := w.Entry(2); e.Reason != queue.PRPushedTo {
		t.Errorf("#2 left because of %s", e.Reason)
	}
	w.Auto = true
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Merged)
}

// Checks that passed on the commit of a run that was stopped say nothing about the
// next one, which tests another commit.
func TestBC10StatusesOfAnEarlierCommitDoNotCount(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 2
	w := world(t, s, 2)
	ok(t, w.Advance(time.Second))
	before := w.RunOf(2).Commit
	w.Cancel(1, "alice")
	ok(t, w.Settle())
	w.Report(before, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 2, queue.Testing)
}

// A landing ends and a build ends at once: one wake-up for both is enough, and
// whichever is told alone is enough too.
func TestBC13OneWakeUpIsEnoughForTwoReasons(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 2
	w := world(t, s, 3)
	ok(t, w.Settle())
	w.Report(w.RunOf(1).Commit, "ci", "success")
	w.Report(w.RunOf(2).Commit, "ci", "success") // folded into one decision
	ok(t, w.Settle())
	state(t, w, 1, queue.Merged)
	state(t, w, 2, queue.Merged)
	state(t, w, 3, queue.Testing)
}

// Two pull requests have the very same head: each is tracked by itself. When one
// has landed, the other has nothing left to change, and lands or leaves by itself.
func TestBC16TwoPullRequestsWithOneHead(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 2
	w := world(t, s, 1)
	twin := *w.host.pulls[1]
	twin.Number = 2
	w.host.pulls[2] = &twin
	ok(t, w.Submit(2, Wish{}))
	w.Auto = true
	w.Report(twin.Head, "ci", "failure") // says nothing about either run
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Merged)
	if e := w.Entry(2); e.Active() {
		t.Errorf("#2 is still %s", e.State)
	}
	ok(t, Ended(w))
}

// The close of a pull request that is being tested is not heard. It leaves within
// the interval, and opening it again queues nothing.
func TestBC34AnUnheardCloseIsSeenWithinTheInterval(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Advance(time.Second))
	w.Faults = during("message", lost)
	ok(t, w.Close(1))
	w.Faults = nil
	ok(t, w.Advance(3*time.Minute))
	state(t, w, 1, queue.Cancelled)
	ok(t, w.Reopen(1))
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Cancelled)
}

// A sparse answer without a mergeability does not erase one that is known for the
// same head.
func TestBC37UnknownNeverReplacesKnown(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 0)
	paused := queue.Paused
	w.Set(queue.Change{State: &paused})
	ok(t, w.Open(1, "alice", files{"a": "1"}))
	ok(t, w.Submit(1, Wish{}))
	ok(t, w.Settle())
	w.tell(queue.MergeabilitySeen{PR: 1, Head: w.host.pulls[1].Head, Value: queue.MergeabilityInProgress})
	ok(t, w.Settle())
	if m := w.Entry(1).Mergeability; m != queue.Mergeable {
		t.Errorf("#1 is %s, was mergeable", m)
	}
}

// Every build of a batch times out: the search ends, and each is tried alone.
func TestBC40BuildsThatAlwaysTimeOutEnd(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Batch, s.BatchingMinSize, s.TestingTimeoutMinutes = true, 4, 10
	w := world(t, s, 4)
	ok(t, w.Advance(12*time.Hour))
	ok(t, Ended(w))
	if n := w.state.Queue.Runs; n > 16 {
		t.Errorf("%d runs for four pull requests", n)
	}
}

// CI passes on the head of a queued pull request, as a try build does: it is not
// the queue's run.
func TestBC56ATryBuildIsNotTheQueuesRun(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	w.Report(w.host.pulls[1].Head, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 1, queue.Testing)
}

// While a test branch cannot be built for a reason that passes (the first copy of a
// large repository is being fetched, the host is away), people read what it is.
func TestAWaitForABuildSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 0)
	ok(t, w.Open(1, "alice", files{"a": "1"}))
	w.Faults = during(queue.BuildRuns{}.Kind(), failed)
	ok(t, w.Merge(1, "alice", Wish{}))
	ok(t, w.Advance(20*time.Second))
	state(t, w, 1, queue.Pending)
	if e := w.Entry(1); e.Message != "The host does not answer." {
		t.Errorf("it says %q", e.Message)
	}
	window, err := w.Window()
	ok(t, err)
	const want = "Its test branch could not be built yet; it is tried again. The host does not answer."
	if x := queue.Explain(window, window.ByPR(1), w.Now); x.WaitsFor != want {
		t.Errorf("people read %q", x.WaitsFor)
	}
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Merged)
}

// The target moves several times a second, and the host begins anew each time to
// compute whether a pull request can be merged: it is told in the end.
func TestATargetThatMovesAllTheTimeKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 0)
	w.host.computing = map[int64]string{}
	ok(t, w.Open(1, "alice", files{"a": "1"}))
	ok(t, w.Submit(1, Wish{}))
	for n := range 100 {
		ok(t, w.Advance(700*time.Millisecond))
		w.PushTarget(files{"m": fmt.Sprint(n)})
	}
	ok(t, w.Settle())
	if e := w.Entry(1); e.State == queue.NotReady {
		t.Errorf("#1 is still %s after %d reads", e.State, e.RefreshTries)
	}
}

// The branch of a batch has the changes of all its members, and its members are
// the commits between the target and its tip.
func TestBC08ABatchTestsAllItsMembers(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Batch, s.BatchingMinSize = true, 3
	w := world(t, s, 3)
	ok(t, w.Settle())
	r := w.RunOf(1)
	tip := w.host.ancestry(r.Commit)
	if base := w.host.ancestry(r.Base.Commit); len(tip) != len(base)+3 || len(r.Members) != 3 {
		t.Errorf("a batch of three has %d members and %d commits", len(r.Members), len(tip)-len(base))
	}
	have := heads(tip)
	for n := int64(1); n <= 3; n++ {
		if have[n] != w.host.pulls[n].Head {
			t.Errorf("the batch is tested without the head of #%d", n)
		}
	}
}

// The process dies between saving that it lands and landing, or between landing
// and hearing of it: what was saved is enough to land once, and to know it.
func TestBC14ACrashAroundALandingLandsOnce(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]int{"before the push": vanished, "after the push": failedAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t, queue.DefaultSettings(), 1)
			c := Checker{Deterministic: true}
			c.Watch(w)
			ok(t, w.Settle())
			w.Faults = during(queue.Land{}.Kind(), fate)
			w.Report(w.RunOf(1).Commit, "ci", "success")
			ok(t, w.Settle())
			if l := w.state.Queue.Landing; l == nil || l.Ended != nil {
				t.Fatal("the landing is not in flight any more")
			}
			w.Faults = nil
			ok(t, w.Advance(time.Hour))
			state(t, w, 1, queue.Merged)
			ok(t, Ended(w))
		})
	}
}

// A report of CI names no pull request and no branch, as for forks: its commit is
// enough, also for what is known of a head.
func TestBC25AReportIsMatchedByItsCommitAlone(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	commit := w.RunOf(1).Commit
	w.tell(queue.CheckReported{Commit: "c000000000000", Report: queue.Report{Kind: queue.CheckRun, Name: "ci", ID: 8, Status: "completed", Result: "failure", At: w.Now}})
	ok(t, w.Settle())
	state(t, w, 1, queue.Testing)
	w.tell(queue.CheckReported{Commit: commit, Report: queue.Report{Kind: queue.CheckRun, Name: "ci", ID: 9, Status: "completed", Result: "success", At: w.Now}})
	ok(t, w.Settle())
	state(t, w, 1, queue.Merged)
}

// Whoever asks again for a restart while one is under way restarts the present
// tests, once, and not the wish before.
func TestBC29ARestartOfARestartEnds(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	for range 3 {
		w.Restart(1, "alice")
		w.Restart(1, "alice")
		ok(t, w.Settle())
		ok(t, w.Advance(time.Second))
	}
	if n := w.state.Queue.Runs; n != 4 {
		t.Errorf("%d runs after three restarts, want 4", n)
	}
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 1, queue.Merged)
}

// A required check runs for some paths only and never reports on others. It is
// named, and the set-up is blamed, not the change. Where the host says that it
// was skipped, that is a pass.
func TestBC32ARequiredCheckThatPathsLeaveOut(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 2)
	w.state.Queue.RequiredStatuses = []string{"ci", "docs-ci"}
	ok(t, w.Settle())
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Advance(31*time.Minute))
	state(t, w, 1, queue.Failed)
	if e := w.Entry(1); e.Reason != queue.ChecksNeverStarted || !strings.Contains(e.Message, "docs-ci") || strings.Contains(e.Message, "ci, docs-ci") {
		t.Errorf("#1 failed because of %s: %s", e.Reason, e.Message)
	}
	w.Report(w.RunOf(2).Commit, "ci", "success")
	w.Report(w.RunOf(2).Commit, "docs-ci", "skipped")
	ok(t, w.Settle())
	state(t, w, 2, queue.Merged)
}

// The target cannot be updated, for three reasons that hosts answer alike. A
// branch that is gone is waited for; one that moved is tested on anew; a rule
// that the host names ends the submission with the host's words.
func TestBC38ThreeReasonsWhyTheTargetIsNotUpdated(t *testing.T) {
	t.Parallel()
	unheard := func(w *World, do func()) {
		w.Faults = during("message", lost)
		do()
		w.Faults = nil
	}
	begin := func(t *testing.T) *World {
		w := world(t, queue.DefaultSettings(), 1)
		ok(t, w.Settle())
		return w
	}
	pass := func(t *testing.T, w *World) {
		w.Auto = true
		w.Report(w.RunOf(1).Commit, "ci", "success")
		ok(t, w.Settle())
	}
	t.Run("it does not exist", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		unheard(w, w.DeleteTarget)
		pass(t, w)
		state(t, w, 1, queue.TestsPassed)
		w.RestoreTarget()
		ok(t, w.Advance(time.Hour))
		state(t, w, 1, queue.Merged)
	})
	t.Run("it moved", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		unheard(w, func() { w.PushTarget(files{"m": "1"}) })
		pass(t, w)
		ok(t, w.Advance(time.Hour))
		state(t, w, 1, queue.Merged)
		if n := w.state.Queue.Runs; n != 2 {
			t.Errorf("%d runs, want one on each head of the target", n)
		}
	})
	t.Run("a rule forbids it", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		ok(t, w.Refuse(1, `Required status check "lint" is expected.`))
		pass(t, w)
		state(t, w, 1, queue.Failed)
		if e := w.Entry(1); e.Reason != queue.LandingRefused || !strings.Contains(e.Message, `"lint"`) {
			t.Errorf("#1 failed because of %s: %s", e.Reason, e.Message)
		}
	})
}

// A set of targets that is uploaded while its run is under way counts for the next
// group: the run's chain still names the one that it was formed with.
func TestARunNamesTheTargetsThatItWasFormedWith(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode = queue.Parallel
	w := world(t, s, 1)
	ok(t, w.Targets(1, []string{"a"}))
	ok(t, w.Settle())
	ok(t, w.Targets(1, []string{"b"}))
	ok(t, w.Settle())
	if r := w.RunOf(1); len(r.Chain) != 1 || r.Chain[0].Targets != 1 {
		t.Errorf("the chain of the run is %+v, want one step with the first set", r.Chain)
	}
}

// BC-44: the target is renamed, so its old name is gone and the queue stands
// still. It says so, keeps its entries for as long as it lasts, and goes on when
// the name is back.
func TestBC44ATargetThatIsGoneKeepsItsEntries(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 1
	w := world(t, s, 2)
	c := Checker{Deterministic: true}
	c.Watch(w)
	ok(t, w.Settle())
	w.DeleteTarget()
	w.Auto = true
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Advance(24*time.Hour))
	for n := int64(1); n <= 2; n++ {
		e := w.Entry(n)
		if !e.Active() {
			t.Fatalf("#%d is %s because of %s, want it kept", n, e.State, e.Reason)
		}
		window, err := w.Window()
		ok(t, err)
		x := queue.Explain(window, window.ByPR(n), w.Now)
		if said := x.WaitsFor + fmt.Sprint(x.Conditions); !strings.Contains(said, "The branch main does not exist on the host") {
			t.Errorf("#%d (%s) does not say what it waits for: %s", n, e.State, said)
		}
	}
	w.RestoreTarget()
	ok(t, w.Advance(2*time.Hour))
	state(t, w, 1, queue.Merged)
	state(t, w, 2, queue.Merged)
	ok(t, Ended(w))
}
