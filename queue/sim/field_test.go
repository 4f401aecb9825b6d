package sim

import (
	"fmt"
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
