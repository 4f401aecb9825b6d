package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// epoch is when tests happen: a moment that Postgres keeps exactly.
var epoch = time.Date(2026, 11, 27, 20, 7, 41, 331_000_000, time.UTC)

// world is a database with one connected repository and its queue of main.
type world struct {
	*db.DB
	t     testing.TB
	dsn   string
	org   account.Organization
	repo  queue.Repo
	queue queue.Queue
}

const (
	host   = "github.com"
	hostID = 77
)

func newWorld(t testing.TB, options ...func(*db.Config)) *world {
	t.Helper()
	w := &world{t: t, dsn: dbtest.DSN(t)}
	options = append([]func(*db.Config){func(c *db.Config) { c.Now = func() time.Time { return epoch } }}, options...)
	w.DB = dbtest.Open(t, w.dsn, options...)
	w.must(w.Connect(t.Context(), connection("acme", 5, repository("acme", "app", hostID))))
	var err error
	w.org, err = w.CreateOrganization(t.Context(), "acme")
	w.must(err)
	w.repo, err = w.Repository(t.Context(), w.org.ID, host, "acme", "app")
	w.must(err)
	w.queue = w.newQueue("main")
	return w
}

func connection(login string, id int64, repos ...account.Repository) account.Connection {
	return account.Connection{Installation: account.Installation{ID: id, Host: host, Account: login}, Added: repos}
}

func repository(owner, name string, id int64) account.Repository {
	return account.Repository{Host: host, Owner: owner, Name: name, HostID: id, DefaultBranch: "main"}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newQueue(branch string) queue.Queue {
	w.t.Helper()
	q, err := w.CreateQueue(w.t.Context(), w.org.ID, host, "acme", "app", branch, queue.DefaultSettings(), epoch)
	w.must(err)
	w.quiet()
	q.Preflight = queue.Preflight{}
	return q
}

// quiet makes the new queues ones whose set-up nobody wants to look at, so that
// they are due when a test makes them so.
func (w *world) quiet() {
	w.t.Helper()
	_, err := w.SQL().ExecContext(w.t.Context(), `UPDATE queues SET wake_at = NULL, preflight = '{}' WHERE preflight ? 'due'`)
	w.must(err)
}

// update makes one decision on whatever is due.
func (w *world) update(decide func(*queue.Snapshot, []queue.Received) queue.Plan) (queue.ID, bool) {
	w.t.Helper()
	id, ok, err := w.UpdateDue(w.t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
		return decide(s, facts)
	})
	w.must(err)
	return id, ok
}

// store saves a plan for the world's queue as a decision does.
func (w *world) store(change func(p *queue.Plan)) {
	w.t.Helper()
	w.must(w.Append(w.t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	id, ok := w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
		p := unchanged(s)
		change(&p)
		return p
	})
	if !ok || id != w.queue.ID {
		w.t.Fatalf("queue %d was due (%v), not %d", id, ok, w.queue.ID)
	}
}

// unchanged is the plan that wants nothing.
func unchanged(s *queue.Snapshot) queue.Plan {
	return queue.Plan{Queue: s.Queue, Line: s.Line, Parts: s.Parts}
}

func newID() queue.EntryID { return queue.EntryID(uuid.NewString()) }

// entry is a plain free pending entry.
func entry(pr int64) queue.Entry {
	return queue.Entry{
		ID: newID(), Submission: 1, State: queue.Pending, Reason: queue.NowReady, Via: queue.ViaUser, Priority: queue.Medium,
		PullRequest:  queue.PullRequest{Number: pr, Head: "head" + string(rune('0'+pr%10)), Base: "main", Open: true},
		Mergeability: queue.Mergeable, SubmittedAt: epoch, AdmittedAt: epoch, StateChangedAt: epoch, Version: 1,
	}
}

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 10 * time.Minute

// eventually waits until ask says yes.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ask() {
		select {
		case <-ctx.Done():
			t.Fatalf("still not so: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
