package db_test

import (
	"errors"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// Whoever has signed in is known by the secret in their browser, until they
// sign out or the session expires. The database has no secret.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, ada := t.Context(), queue.Actor{Login: "ada", ID: 7}
	w.must(w.NewSession(ctx, account.Hash("one"), ada, epoch, epoch.Add(time.Hour)))
	w.must(w.NewSession(ctx, account.Hash("two"), ada, epoch, epoch.Add(time.Hour)))
	missing := func(secret string, at time.Time) {
		t.Helper()
		if who, err := w.Session(ctx, account.Hash(secret), at); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("session %q at %s: %v, %v", secret, at, who, err)
		}
	}
	who, err := w.Session(ctx, account.Hash("one"), epoch.Add(time.Hour-time.Second))
	if w.must(err); who != ada {
		t.Errorf("signed in is %+v", who)
	}
	missing("three", epoch)
	missing("one", epoch.Add(time.Hour))
	w.must(w.EndSession(ctx, account.Hash("one")))
	w.must(w.EndSession(ctx, account.Hash("one")))
	missing("one", epoch)
	w.must(w.Maintain(ctx, epoch.Add(2*time.Hour)))
	if n := w.count(`SELECT count(*) FROM sessions`); n != 0 {
		t.Errorf("%d sessions are kept after they have expired", n)
	}
}
