package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// A wish where this program decides: it goes into a decision from memory. The
// inbox has it only when it would wait for too long.

// wisher is a world whose program decides.
type wisher struct{ *world }

func newWisher(t *testing.T, patient bool) *wisher {
	t.Helper()
	w := &wisher{newWorld(t)}
	if patient {
		w.Patient()
	}
	if id, ok := w.update(nil); ok { // from now on it is one that decides
		t.Fatalf("queue %d was due", id)
	}
	return w
}

// heard is what a wish came to.
type heard struct {
	queue.Answer
	s   *queue.Snapshot
	err error
}

// wish has the pull request 1 cancelled, and waits until that waits.
func (w *wisher) wish(ctx context.Context) <-chan heard {
	w.t.Helper()
	result := make(chan heard, 1)
	before := w.Wishing()
	go func() {
		a, s, err := w.Wish(ctx, w.repo.ID, w.queue.ID, queue.CancelRequested{PR: 1, At: epoch})
		result <- heard{a, s, err}
	}()
	eventually(w.t, "the wish waits", func() bool { return w.Wishing() > before || w.inbox() > 0 })
	return result
}

func (w *wisher) inbox() int { return w.count(`SELECT count(*) FROM inbox WHERE $1`, true) }

// refuse answers everything with a refusal.
func refuse(s *queue.Snapshot, facts []queue.Received) queue.Plan {
	p := unchanged(s)
	p.Answers = map[int64]queue.Answer{}
	for _, f := range facts {
		p.Answers[f.ID] = queue.Answer{Refused: queue.RefusedLanding, Message: "It is landing."}
	}
	return p
}

func TestAWishIsDecidedOnFromMemory(t *testing.T) {
	t.Parallel()
	w := newWisher(t, true)
	wake, err := w.Wakeups(t.Context())
	w.must(err)
	results := []<-chan heard{w.wish(t.Context()), w.wish(t.Context())}
	if news := <-wake; news != queue.FactsWait {
		t.Errorf("news are %b", news)
	}
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) // from the inbox, in the same decision
	id, ok := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
		if len(facts) != 3 {
			t.Errorf("%d facts are folded", len(facts))
		}
		return refuse(s, facts)
	})
	if !ok || id != w.queue.ID {
		t.Errorf("queue %d, %v", id, ok)
	}
	first, second := <-results[0], <-results[1]
	if first.err != nil || first.Refused != queue.RefusedLanding || first.s == nil || first.s != second.s {
		t.Errorf("%+v, %+v", first, second)
	}
	if n := w.inbox(); n != 1 {
		t.Errorf("the inbox has %d facts, not the one that was appended", n)
	}
	if id, ok := w.update(refuse); ok {
		t.Errorf("queue %d is due once more", id)
	}
}

// Whatever becomes of a decision, a wish that was in it is not lost.
func TestAWishOutlivesADecisionThatFails(t *testing.T) {
	t.Parallel()
	w := newWisher(t, true)
	result := w.wish(t.Context())
	other := w.newQueue("other")
	_, _, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		p := unchanged(s)
		p.Queue.ID = other.ID
		return p
	})
	if err == nil {
		t.Error("a plan for another queue is saved")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass")
			}
		}()
		w.update(func(*queue.Snapshot, []queue.Received) queue.Plan { panic("on purpose") })
	}()
	if _, ok := w.update(refuse); !ok {
		t.Error("the queue is not due any more")
	}
	if got := <-result; got.err != nil || got.Refused != queue.RefusedLanding {
		t.Errorf("%+v", got)
	}
}

// Who has left is not decided on.
func TestAWishIsForgottenWithItsSender(t *testing.T) {
	t.Parallel()
	w := newWisher(t, true)
	ctx, leave := context.WithCancel(t.Context())
	result := w.wish(ctx)
	leave()
	if got := <-result; !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v", got)
	}
	// One leaves while a decision has its wish, which then fails.
	ctx, leave = context.WithCancel(t.Context())
	result = w.wish(ctx)
	_, _, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
		if len(facts) != 1 {
			t.Errorf("%d facts are folded", len(facts))
		}
		leave()
		<-result
		return queue.Plan{}
	})
	if err == nil {
		t.Error("a plan for no queue is saved")
	}
	if id, ok := w.update(refuse); ok {
		t.Errorf("queue %d is due", id)
	}
}

// Another program has the queue in hand: it gets the wish by way of the inbox.
func TestAWishDoesNotWaitForOtherProgramsInMemory(t *testing.T) {
	t.Parallel()
	w := newWisher(t, false)
	other := dbtest.Open(t, w.dsn, atEpoch)
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	var result <-chan heard
	decide := func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan { return refuse(s, facts) }
	_, ok, err := other.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
		result = w.wish(t.Context())
		if id, ok := w.update(refuse); ok {
			t.Errorf("queue %d is decided on by both", id)
		}
		eventually(t, "the wish is in the inbox", func() bool { return w.inbox() == 2 })
		return decide(s, facts, now)
	})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err := other.UpdateDue(t.Context(), epoch, decide); err != nil || !ok {
		t.Errorf("the other program does not find the wish: %v, %v", ok, err)
	}
	if got := <-result; got.err != nil || got.Refused != queue.RefusedLanding {
		t.Errorf("%+v", got)
	}
}

// The database goes away in the middle: whether it was decided nobody knows,
// and whoever wished is told so at once.
func TestAWishWhoseDecisionIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWisher(t, true)
	wire, dsn := newWire(t, w.dsn)
	store, err := db.Open(t.Context(), db.Config{DSN: dsn, Now: func() time.Time { return epoch }})
	w.must(err)
	defer store.Close()
	w.DB = store
	w.Patient()
	w.update(nil)
	result := w.wish(t.Context())
	_, _, err = w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
		wire.cut()
		return refuse(s, facts)
	})
	if got := <-result; !errors.Is(err, queue.ErrUnavailable) || !errors.Is(got.err, queue.ErrUnavailable) {
		t.Errorf("the decision: %v; the wish: %v", err, got.err)
	}
}

// News are told when what they are about can be seen, and only then.
func TestNewsFollowTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Close()) // it has told everybody of the beginning
	w.DB = dbtest.Open(t, w.dsn, atEpoch)
	other := dbtest.Open(t, w.dsn, atEpoch)
	here, err := w.Wakeups(t.Context())
	w.must(err)
	there, err := other.Wakeups(t.Context())
	w.must(err)
	eventually(t, "the other program listens", func() bool {
		return w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%' AND state = 'idle' AND $1`, true) == 2
	})
	for _, step := range []struct {
		what        string
		do          func()
		here, there queue.News
	}{
		{"a fact for a queue", func() { w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) }, queue.FactsWait, queue.FactsWait},
		{"a wish that goes into the inbox", func() {
			told, err := w.StoreWishesTogether(w.repo.ID, queue.CancelRequested{PR: 1, At: epoch}, w.queue.ID)
			w.must(errors.Join(append(told, err)...))
		}, queue.FactsWait, queue.FactsWait},
		{"a decision", func() { w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan { return unchanged(s) }) },
			queue.QueueChanged, queue.QueueChanged | queue.FactsWait | queue.TimesChanged},
		{"targets", func() { w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 1, "head", nil, true)) }, queue.FactsArrived, queue.FactsArrived},
		{"a new queue", func() { w.newQueue("release") }, queue.TimesChanged | queue.QueueChanged, queue.QueueChanged | queue.FactsWait | queue.TimesChanged},
		{"something that failed, then something that did not", func() {
			failed := errors.New("on purpose")
			if err := w.Telling(t.Context(), queue.FactsWait, failed); !errors.Is(err, failed) {
				t.Error(err)
			}
			w.must(w.Telling(t.Context(), queue.FactsArrived, nil))
		}, queue.FactsArrived, queue.FactsArrived},
	} {
		step.do()
		if got := <-here; got != step.here {
			t.Errorf("%s: here %05b is heard, want %05b", step.what, got, step.here)
		}
		if got := <-there; got != step.there {
			t.Errorf("%s: elsewhere %05b is heard, want %05b", step.what, got, step.there)
		}
	}
}
