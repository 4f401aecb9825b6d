package db_test

import (
	"slices"
	"testing"

	"signalbox/queue"

	"github.com/google/go-cmp/cmp"
)

// An adaptive queue's window has how its newest submissions ended, the newest
// first, with whose they were and how much they impacted; what left for other
// reasons is not among them. A fixed queue does not ask.
func TestAnAdaptiveQueueReadsHowOthersEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.upload(1, "h1", "a", "b")
	var moves []queue.Move
	var entries []queue.Entry
	end := func(pr, author int64, from, to queue.EntryState, why queue.Reason) {
		e := entry(pr)
		e.Author.ID, e.Head, e.BoundHead = author, "h1", "h1"
		e.State, e.Reason, e.LandedCommit = to, why, "c"
		entries = append(entries, e)
		moves = append(moves, queue.Move{Entry: e.ID, PR: pr, Submission: 1, From: from, To: to, At: epoch, Reason: why, Message: "m"})
	}
	end(1, 7, queue.TestsPassed, queue.Merged, queue.MergedByQueue)
	end(2, 8, queue.PendingFailure, queue.Failed, queue.RequiredStatusFailed)
	end(3, 8, queue.Pending, queue.Failed, queue.MergeConflict)
	end(4, 8, queue.Pending, queue.Cancelled, queue.PRClosed)
	end(5, 9, queue.Pending, queue.Merged, queue.MergedByHand)
	w.store(func(p *queue.Plan) { p.Moves, p.Entries = moves, entries })
	if s, _ := w.window(epoch); len(s.Recent) != 0 {
		t.Errorf("a fixed queue has read %v", s.Recent)
	}

	w.store(func(p *queue.Plan) { p.Queue.Speculation, p.Queue.Mode = queue.AdaptiveSpeculation, queue.Parallel })
	want := []queue.Ended{{PR: 2, Author: 8, Failed: true}, {PR: 1, Author: 7, Targets: 2}}
	s, _ := w.window(epoch)
	if diff := cmp.Diff(want, s.Recent); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	read, err := w.Read(t.Context(), w.queue.ID)
	w.must(err)
	if !slices.Equal(read.Recent, want) {
		t.Errorf("for people: %v", read.Recent)
	}
}
