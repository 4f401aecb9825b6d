package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/queue"
)

// ofRun is a check that came for the run of newGathering.
func ofRun(id int64) queue.CheckReported {
	return queue.CheckReported{Commit: "live", Report: queue.Report{Kind: queue.CheckRun, Name: "unit", ID: id, Status: "queued"}}
}

// newGathering is a world with a run under test, where facts gather after each
// decision that lets them, and where one has.
func newGathering(t *testing.T, lasts time.Duration) *world {
	t.Helper()
	w := newWorld(t)
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{liveRun("r", 1, "live", "b")} })
	db.GatherFor(w.DB, lasts)
	w.comes(ofRun(1))
	w.folds("the first", 1)
	return w
}

// comes has a webhook bring a fact.
func (w *world) comes(fact queue.CheckReported) {
	w.t.Helper()
	_, err := w.Receive(w.t.Context(), fact.Commit+string(rune('a'+fact.ID)), host, hostID, []queue.Fact{fact}, nil)
	w.must(err)
}

// folds makes one decision, that changes nothing, which is to have so many facts; of
// none there is to be no decision.
func (w *world) folds(what string, want int) {
	w.t.Helper()
	got := 0
	id, _, err := w.UpdateDue(w.t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
		got = len(facts)
		return unchanged(s)
	})
	w.must(err)
	if got != want || (id != 0) != (want > 0) {
		w.t.Errorf("%s: a decision on queue %d with %d facts, want %d", what, id, got, want)
	}
}

// After a decision that changed nothing facts gather, and what people and jobs
// have to say is decided on with them at once.
func TestReportsThatChangeNothingGather(t *testing.T) {
	t.Parallel()
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		w := newGathering(t, time.Hour)
		w.comes(ofRun(2))
		w.comes(ofRun(3))
		w.folds("they gather", 0)
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{Resync: 1}))
		w.folds("a job has ended", 3)
	})
	t.Run("not for other queues", func(t *testing.T) {
		t.Parallel()
		w := newGathering(t, time.Hour)
		w.newQueue("release")
		_, err := w.Receive(t.Context(), "push", host, hostID, []queue.Fact{queue.TargetMoved{Branch: "release", After: "c"}}, nil)
		w.must(err)
		w.folds("a push to another", 1)
	})
	t.Run("not when time has come", func(t *testing.T) {
		t.Parallel()
		w := newGathering(t, time.Hour)
		w.comes(ofRun(2))
		_, err := w.SQL().Exec(`UPDATE queues SET wake_at = $1`, epoch)
		w.must(err)
		w.folds("it wakes", 1)
	})
	t.Run("not after one that moved something", func(t *testing.T) {
		t.Parallel()
		w := newGathering(t, time.Hour)
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{Resync: 1}))
		_, _, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			p.Actions = []queue.Action{queue.SyncPR{PR: 5}}
			return p
		})
		w.must(err)
		w.comes(ofRun(2))
		w.folds("the next", 1)
	})
	t.Run("not for whoever waits for an answer", func(t *testing.T) {
		t.Parallel()
		w := newGathering(t, time.Hour)
		w.comes(ofRun(2))
		w.Patient()
		answered := make(chan error, 1)
		go func() {
			_, _, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.CancelRequested{PR: 5})
			answered <- err
		}()
		eventually(t, "the wish waits", func() bool { return w.Wishing() == 1 })
		w.folds("a wish", 2)
		w.must(<-answered)
	})
}

// Whoever decides is woken at the end, and not before.
func TestTheEndOfGatheringWakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{liveRun("r", 1, "live", "b")} })
	wake, err := w.Wakeups(t.Context())
	w.must(err)
	hears := func(want queue.News) {
		t.Helper()
		for news := range wake {
			if news.Has(want) {
				return
			}
		}
		t.Fatal("the channel was closed")
	}
	w.comes(ofRun(1))
	hears(queue.FactsWait)
	db.GatherFor(w.DB, time.Nanosecond)
	w.folds("the first", 1)
	hears(queue.FactsWait)
	db.GatherFor(w.DB, time.Hour)
	w.comes(ofRun(2))
	w.folds("the second", 1)
	for len(wake) > 0 { // the decision's own
		<-wake
	}
	w.comes(ofRun(3))
	select {
	case news := <-wake:
		if news.Has(queue.FactsWait) {
			t.Errorf("news of facts that gather: %b", news)
		}
	default:
	}
}
