package db_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// statements counts, from now on, the statements that insert into a table.
func (w *world) statements(table string) (count func() int) {
	w.t.Helper()
	_, err := w.SQL().Exec(`
		CREATE SEQUENCE statements;
		CREATE FUNCTION count_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('statements'); RETURN NULL; END $$;
		CREATE TRIGGER counted AFTER INSERT ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION count_statement()`)
	w.must(err)
	return func() int { return w.count(`SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM statements`) }
}

// hold keeps the writers of d busy, and returns a function that lets them go
// on: until then everything that is received waits.
func (w *world) hold(d *db.DB) (release func()) {
	w.t.Helper()
	tx, err := w.SQL().Begin()
	w.must(err)
	w.t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.Exec(`LOCK TABLE deliveries IN EXCLUSIVE MODE`)
	w.must(err)
	var first sync.WaitGroup
	for i := range writers {
		first.Go(func() {
			_, _ = d.Receive(w.t.Context(), fmt.Sprint("first ", i), host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 1}}, nil)
		})
		eventually(w.t, "a writer is stuck", func() bool {
			return w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'deliveries'::regclass
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == i+1
		})
	}
	return func() {
		w.must(tx.Rollback())
		first.Wait()
	}
}

// writers is how many there are.
const writers = 2

// What comes while the writers are busy shares the next commit. One that was
// sent twice meanwhile counts once.
func TestDeliveriesShareACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	statements := w.statements("deliveries")
	release := w.hold(w.DB)
	const deliveries = 100
	var fresh atomic.Int64
	var all sync.WaitGroup
	for i := range deliveries + 1 {
		all.Go(func() {
			id := fmt.Sprint("delivery ", i%deliveries)
			isFresh, err := w.Receive(t.Context(), id, host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 1}}, nil)
			if err != nil {
				t.Error(err)
			}
			if isFresh {
				fresh.Add(1)
			}
		})
	}
	eventually(t, "everybody waits", func() bool { return w.Inbound() == deliveries+1 })
	release()
	all.Wait()
	if n := w.count(`SELECT count(*) FROM inbox`); n != deliveries+writers || fresh.Load() != deliveries {
		t.Errorf("%d facts, %d fresh, of %d deliveries", n, fresh.Load(), deliveries)
	}
	if n := statements(); n > writers+3 { // those of the first, one for all, one for the repeated, and one if they were split
		t.Errorf("%d statements for %d deliveries", n, deliveries)
	}
}

// A delivery that comes alone waits for nobody, and one that cannot be stored
// harms nobody else.
func TestADeliveryThatFailsTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.SQL().Exec(`
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
		CREATE TRIGGER poisoned BEFORE INSERT ON deliveries FOR EACH ROW WHEN (NEW.id = 'poison') EXECUTE FUNCTION refuse()`)
	w.must(err)
	release := w.hold(w.DB)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id := fmt.Sprint("delivery ", i)
			if i == 7 {
				id = "poison"
			}
			_, err := w.Receive(t.Context(), id, host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 1}}, nil)
			if failed := err != nil && strings.Contains(err.Error(), "poison"); failed != (id == "poison") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	eventually(t, "everybody waits", func() bool { return w.Inbound() == 20 })
	release()
	all.Wait()
	if n := w.count(`SELECT count(*) FROM inbox`); n != 19+writers {
		t.Errorf("%d facts", n)
	}
}

// Whoever waits for a writer when the database is closed is told so.
func TestClosingLeavesNoSenderBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn, atEpoch)
	w.hold(other)
	failures := make(chan error, 10)
	for i := range cap(failures) {
		go func() {
			_, err := other.Receive(t.Context(), fmt.Sprint("delivery ", i), host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 1}}, nil)
			failures <- err
		}()
	}
	eventually(t, "everybody waits", func() bool { return other.Inbound() == cap(failures) })
	w.must(other.Close())
	for range cap(failures) {
		select {
		case err := <-failures:
			if err == nil {
				t.Error("a delivery was stored although nobody could write")
			}
		case <-time.After(patience):
			t.Fatal(errors.New("somebody still waits"))
		}
	}
}

// The inbox's rows stay in their page: what a webhook comes to is small, even
// with the longest names that GitHub allows.
func TestRowsOfTheInboxAreSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 255)
	facts := []queue.Fact{
		queue.PullRequestSeen{PullRequest: queue.PullRequest{
			Number: queue.MaxNumber, Title: long, URL: "https://github.com/" + long[:100], Author: queue.Actor{Login: long[:39], ID: 1 << 40},
			Head: long[:40], HeadRef: long, Base: long, Open: true, Labels: []string{long[:50], long[:50], long[:50], long[:50]}, CommitTitle: long, UpdatedAt: epoch,
		}},
		queue.CheckReported{Commit: long[:40], Report: queue.Report{Kind: queue.CheckRun, Name: long, URL: "https://ci.example/" + long, Status: "completed", Result: "success", At: epoch}},
		queue.CommandAsked{PR: queue.MaxNumber, By: queue.Actor{Login: long[:39]}, At: epoch, Command: queue.Command{Verb: queue.VerbInvalid, Problem: long, Text: long}},
	}
	_, err := w.Receive(t.Context(), "d", host, hostID, facts, nil)
	w.must(err)
	if n := w.count(`SELECT max(pg_column_size(i.*)) FROM inbox i`); n >= 2000 {
		t.Errorf("a row takes %d bytes", n)
	}
}
