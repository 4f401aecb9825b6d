package rest

import (
	"context"
	"testing"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// newPostgresWorld is a world on the real store, with a loop that decides
// while something waits for a decision.
func newPostgresWorld(t *testing.T) *world {
	w := &world{t: t, clock: newClock()}
	store := dbtest.New(t, func(cfg *db.Config) { cfg.Now = w.clock.now })
	ctx := context.Background()
	var orgs []account.Organization
	for _, slug := range []string{"acme", "globex"} {
		org, err := store.CreateOrganization(ctx, slug)
		if err != nil {
			t.Fatal(err)
		}
		orgs = append(orgs, org)
	}
	for _, token := range testTokens(orgs[0], orgs[1], w.clock.now()) {
		made, err := store.CreateToken(ctx, token.Org, token.Name, token.Scope, account.Hash(token.Name), token.ExpiresAt)
		if err == nil && !token.RevokedAt.IsZero() {
			err = store.RevokeToken(ctx, token.Org.ID, made.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.during = func(serve func()) {
		ctx, stop := context.WithCancel(ctx)
		wake, err := store.Wakeups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range wake {
				w.decideDue(store)
			}
		}()
		serve()
		stop()
		<-done
		w.decideDue(store) // what was appended and nobody waited for
	}
	w.begin(store, nil)
	return w
}

// decideDue makes the decisions that are due.
func (w *world) decideDue(store *db.DB) {
	if err := store.Route(context.Background(), w.clock.now()); err != nil {
		w.t.Errorf("route: %v", err)
	}
	for {
		_, due, err := store.UpdateDue(context.Background(), w.clock.now(), w.decide)
		if err != nil {
			w.t.Errorf("decide: %v", err)
			return
		}
		if !due {
			return
		}
	}
}
