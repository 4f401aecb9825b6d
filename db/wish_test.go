package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"signalbox/db/dbtest"
	"signalbox/queue"
)

// answering decides as an engine does: refuses the pull request 13, grants
// everything else, one of them without a word.
func answering(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
	p := unchanged(s)
	p.Answers = map[int64]queue.Answer{}
	for _, f := range facts {
		if c, ok := f.Fact.(queue.CancelRequested); ok && c.PR == 13 {
			p.Answers[f.ID] = queue.Answer{Refused: queue.RefusedLanding, Message: "It is landing."}
		} else if ok && c.PR%2 == 0 {
			p.Answers[f.ID] = queue.Answer{}
		}
	}
	return p
}

func TestWishesAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// One engine in this program, or one in another that is heard of by
	// notification.
	for name, engine := range map[string]interface {
		Wakeups(context.Context) (<-chan struct{}, error)
		UpdateDue(context.Context, time.Time, func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan) (queue.ID, bool, error)
	}{"here": w.DB, "elsewhere": dbtest.Open(t, w.dsn, atEpoch)} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			wake, err := engine.Wakeups(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			running.Go(func() {
				for {
					// Until LISTEN stands a notification can be missed: an engine polls, too.
					select {
					case _, open := <-wake:
						if !open {
							return
						}
					case <-time.After(50 * time.Millisecond):
					}
					for {
						_, ok, err := engine.UpdateDue(ctx, epoch, answering)
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
						if !ok {
							break
						}
					}
				}
			})
			var asking sync.WaitGroup
			for pr := range int64(20) {
				asking.Go(func() {
					a, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.CancelRequested{PR: pr + 1, At: epoch})
					if want := pr+1 == 13; err != nil || (a.Refused != "") != want {
						t.Errorf("the wish about #%d: %+v, %v", pr+1, a, err)
					}
				})
			}
			asking.Wait()
			stop()
			running.Wait() // the channel is closed when ctx ends
		})
	}
}

func TestAWishThatNobodyDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cancelled := queue.CancelRequested{PR: 1, At: epoch}
	result := make(chan error)
	wish := func(ctx context.Context) {
		_, err := w.Wish(ctx, w.repo.ID, w.queue.ID, cancelled)
		result <- err
	}
	unread := func(want int) {
		t.Helper()
		eventually(t, "the wish is unread", func() bool {
			var n int
			w.must(w.SQL().QueryRow(`SELECT count(*) FROM inbox_routes`).Scan(&n))
			return n == want
		})
	}
	// Whoever asked goes away while the wish waits.
	ctx, cancel := context.WithCancel(t.Context())
	go wish(ctx)
	unread(1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody waits any more: %v", err)
	}
	if _, err := w.Wish(t.Context(), w.repo.ID, 4711, cancelled); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("for a queue that is not there: %v", err)
	}
	if _, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.Submitted{ID: "7"}); err == nil {
		t.Error("a submission without a UUID is accepted")
	}
	// The queue is deleted while somebody waits.
	go wish(t.Context())
	unread(2)
	w.must(w.DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "main"))
	if err := <-result; !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("when the queue is deleted: %v", err)
	}
}

func TestWakeupsAreHeardAcrossPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn, atEpoch)
	wake, err := other.Wakeups(t.Context())
	w.must(err)
	heard := func(what string, do func()) {
		t.Helper()
		// Until LISTEN stands a notification can be missed: do it again.
		eventually(t, what, func() bool {
			do()
			select {
			case <-wake:
				return true
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
	heard("facts appended elsewhere wake us", func() { w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) })
	// The connection breaks. Afterwards everything is as before.
	_, err = w.SQL().Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
	w.must(err)
	heard("a broken connection is made again", func() { w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) })
	heard("a plan saved elsewhere wakes us", func() { w.store(func(*queue.Plan) {}) })
	w.must(other.Close())
	eventually(t, "the channel is closed with the database", func() bool {
		select {
		case _, open := <-wake:
			return !open
		default:
			return false
		}
	})
}
