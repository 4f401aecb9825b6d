package db_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/db/dbtest"
)

// Several programs that share a database, and several workers of each, take
// turns on a pull request; those of others go on meanwhile.
func TestTurnsAreOnePerPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn)
	var inside, turns atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		for _, d := range []*world{w, {DB: other}} {
			all.Go(func() {
				for range 5 {
					err := d.InTurn(t.Context(), w.repo.ID, 7, func(context.Context) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d have the turn at once", n)
						}
						// Another's turn is had meanwhile, whoever waits for this one.
						err := d.InTurn(t.Context(), w.repo.ID, turns.Add(1)+100, func(context.Context) error { return nil })
						inside.Add(-1)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if n := turns.Load(); n != 40 {
		t.Errorf("there were %d turns, want 40", n)
	}
	if n := w.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7446274
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("%d locks are left when nobody has a turn", n)
	}
}

func TestATurnIsWaitedForAsLongAsTheContextLasts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn)
	err := w.InTurn(t.Context(), w.repo.ID, 7, func(context.Context) error {
		for _, d := range []*world{w, {DB: other}} {
			ctx, cancel := context.WithCancel(t.Context())
			waits := make(chan error, 1)
			go func() {
				waits <- d.InTurn(ctx, w.repo.ID, 7, func(context.Context) error { return errors.New("two have the turn") })
			}()
			cancel()
			if err := <-waits; !errors.Is(err, context.Canceled) {
				t.Errorf("waiting ended with %v, want that the context was cancelled", err)
			}
		}
		return nil
	})
	w.must(err)
	w.must(other.InTurn(t.Context(), w.repo.ID, 7, func(context.Context) error { return nil }))
}

// A turn is only as good as the connection that holds it.
func TestATurnIsLostWithItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn)
	err := w.InTurn(t.Context(), w.repo.ID, 7, func(ctx context.Context) error {
		if n := w.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7446274
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 1 {
			t.Errorf("%d connections hold the turn, want one", n)
		}
		// It is free for others; and whoever asks for a turn here finds out.
		w.must(other.InTurn(t.Context(), w.repo.ID, 7, func(context.Context) error { return nil }))
		if err := w.InTurn(t.Context(), w.repo.ID, 8, func(context.Context) error { return nil }); err == nil {
			t.Error("a turn was given on a connection that is broken")
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err == nil {
		t.Error("whoever had the turn did not hear that it is lost")
	}
	w.must(w.InTurn(t.Context(), w.repo.ID, 7, func(context.Context) error { return nil }))
}
