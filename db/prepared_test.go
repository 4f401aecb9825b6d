package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"signalbox/db"
)

func TestAConnectionPreparesAStatementOnceAndSurvivesManyAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *db.Config) { c.MaxOpen = 1 })
	pool := w.SQL()
	ask := func(query string, arg any) (got string, err error) {
		err = pool.QueryRow(query, arg).Scan(&got)
		return got, err
	}
	for range 10 {
		if got, err := ask(`SELECT 'prepared ' || $1::text`, "once"); err != nil || got != "prepared once" {
			t.Fatal(got, err)
		}
	}
	if n := w.count(`SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE $1`, `SELECT 'prepared '%`); n != 1 {
		t.Errorf("%d statements are prepared, want 1", n)
	}
	// More than it keeps.
	for i := range 400 {
		if got, err := ask(fmt.Sprintf(`SELECT '%d' || $1::text`, i), "!"); err != nil || got != fmt.Sprint(i, "!") {
			t.Fatal(got, err)
		}
	}
	if n := w.count(`SELECT count(*) FROM pg_prepared_statements WHERE $1`, true); n > 256 {
		t.Errorf("%d statements are kept", n)
	}
	// A failure in a transaction, a cancelled query and a changed table leave
	// what is prepared as good as new.
	tx, err := pool.Begin()
	w.must(err)
	if _, err := tx.Exec(`INSERT INTO organizations (slug, created_at) VALUES ($1, now())`, "Not lower"); err == nil {
		t.Error("a constraint was broken")
	}
	w.must(tx.Rollback())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.ExecContext(ctx, `SELECT pg_sleep($1)`, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose caller has gone: %v", err)
	}
	if got, err := ask(`SELECT slug FROM organizations WHERE slug = $1`, "acme"); err != nil || got != "acme" {
		t.Error(got, err)
	}
	_, err = pool.Exec(`ALTER TABLE organizations ADD COLUMN later text`)
	w.must(err)
	if got, err := ask(`SELECT slug FROM organizations WHERE slug = $1`, "acme"); err != nil || got != "acme" {
		t.Errorf("after a migration: %q, %v", got, err)
	}
}
