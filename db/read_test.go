package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// What people read about an end names the checks that failed, so the newest
// run that tested the pull request is there; not an older one, not one of an
// earlier submission, and not one that only includes it.
func TestReadingWhatHasEndedBringsTheRunThatTestedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failed, again, active, untested := entry(1), entry(2), entry(3), entry(4)
	failed.State, failed.Reason = queue.Failed, queue.RequiredStatusFailed
	again.State, again.Reason, again.Submission = queue.Cancelled, queue.PRClosed, 2
	untested.State, untested.Reason = queue.Failed, queue.MergeConflict
	var runs []queue.Run
	var moves []queue.Move
	tested := func(id queue.RunID, e queue.Entry, submission int64, members ...queue.EntryID) {
		r := liveRun(id, queue.GroupID(len(runs)+1), "c-"+string(id), "b-"+string(id))
		r.State, r.Members = queue.RunFailed, members
		r.Checks = map[string]queue.Report{"status\x1fci": {Kind: queue.CommitStatus, Name: "ci", Result: "failure"}}
		runs = append(runs, r)
		moves = append(moves, queue.Move{Entry: e.ID, PR: e.Number, Submission: submission, From: queue.Testing, To: queue.Pending,
			At: epoch, Reason: queue.TestsRestartedByUser, Run: id})
	}
	tested("older", failed, 1, failed.ID)
	tested("newest", failed, 1, active.ID, failed.ID)
	tested("proof", failed, 1, active.ID)
	tested("before", again, 1, again.ID)
	tested("live", active, 1, active.ID)
	w.store(func(p *queue.Plan) {
		p.Entries, p.Runs, p.Moves = []queue.Entry{failed, again, active, untested}, runs, moves
	})
	for _, tt := range []struct {
		pr   int64
		want string
	}{{1, "[newest]"}, {2, "[]"}, {3, "[]"}, {4, "[]"}, {5, "[]"}} {
		s, err := w.Read(t.Context(), w.queue.ID, tt.pr)
		w.must(err)
		got := []queue.RunID{}
		for id := range s.Runs {
			got = append(got, id)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("#%d: runs %v, want %s", tt.pr, got, tt.want)
		}
		if r := s.Runs["newest"]; r != nil && len(r.Checks) != 1 {
			t.Errorf("its checks: %v", r.Checks)
		}
	}
}

func TestReadingSaysHowLongTestsTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	typical := func() time.Duration {
		s, err := w.Read(t.Context(), w.queue.ID)
		w.must(err)
		return s.TypicalTest
	}
	if got := typical(); got != 0 {
		t.Errorf("without history: %s", got)
	}
	n := 0
	add := func(count int, took, ago time.Duration, change func(r *queue.Run)) {
		t.Helper()
		w.store(func(p *queue.Plan) {
			for range count {
				n++
				r := liveRun(queue.RunID(fmt.Sprint(n)), queue.GroupID(n), fmt.Sprint("c", n), fmt.Sprint("b", n))
				r.State, r.EndedAt = queue.RunPassed, epoch.Add(-ago)
				r.StartedAt = r.EndedAt.Add(-took)
				change(&r)
				p.Runs = append(p.Runs, r)
			}
		})
	}
	as := func(*queue.Run) {}
	add(9, time.Hour, time.Minute, func(r *queue.Run) { r.State = queue.RunFailed })
	add(9, time.Hour, time.Minute, func(r *queue.Run) { r.Kind = queue.BisectionRun })
	add(9, time.Hour, 8*24*time.Hour, as)
	if got := typical(); got != 0 {
		t.Errorf("with runs that do not count: %s", got)
	}
	add(1, 10*time.Minute, time.Hour, as)
	add(1, 20*time.Minute, 2*time.Hour, as)
	add(1, 90*time.Minute, 3*time.Hour, as)
	if diff := cmp.Diff(20*time.Minute, typical()); diff != "" {
		t.Errorf("the median of three: %s", diff)
	}
	add(50, 5*time.Minute, time.Second, as) // only the last fifty count
	if got := typical(); got != 5*time.Minute {
		t.Errorf("after tests became faster: %s", got)
	}
}

// A page that shows a queue knows by its turn whether it has changed, and has
// all of it at one moment.
func TestAPageKnowsWhetherItsQueueHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newQueue("other")
	before, err := w.Turns(t.Context())
	w.must(err)
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{notReady(1), notReady(2)} })
	after, err := w.Turns(t.Context())
	w.must(err)
	if after[w.queue.ID] <= before[w.queue.ID] || after[other.ID] != before[other.ID] {
		t.Errorf("turns were %v and are %v", before, after)
	}
	s, err := w.Whole(t.Context(), w.queue.ID)
	w.must(err)
	if len(s.Entries) != 2 {
		t.Errorf("the whole queue has %d entries, not 2", len(s.Entries))
	}
}
