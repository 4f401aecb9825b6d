package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// newReported is a world with a run under test that has one check, told by a
// decision of w, which so knows it.
func newReported(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{liveRun("r", 1, "live", "b")} })
	w.reports(w.DB, 1)
	return w
}

// reports has a program decide on a report that gives the run's check an id.
func (w *world) reports(d *db.DB, id int64) {
	w.t.Helper()
	w.decides(d, func(s *queue.Snapshot, p *queue.Plan) {
		r := *s.Runs["r"]
		r.Checks = map[string]queue.Report{"unit": {Kind: queue.CheckRun, Name: "unit", ID: id, Status: "queued", At: epoch}}
		p.Runs = []queue.Run{r}
	})
}

// decides has a program make a decision.
func (w *world) decides(d *db.DB, change func(*queue.Snapshot, *queue.Plan)) {
	w.t.Helper()
	w.must(w.Append(w.t.Context(), w.repo.ID, w.queue.ID, queue.ChecksDoubted{Commit: "live"}))
	id, _, err := d.UpdateDue(w.t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		p := unchanged(s)
		change(s, &p)
		return p
	})
	w.must(err)
	if id != w.queue.ID {
		w.t.Fatalf("queue %d was due", id)
	}
}

// sees is the id of the check that a decision of a program finds.
func (w *world) sees(d *db.DB) (id int64) {
	w.t.Helper()
	w.decides(d, func(s *queue.Snapshot, _ *queue.Plan) { id = s.Runs["r"].Checks["unit"].ID })
	return id
}

// A program reads the reports of a run once. What another one has decided since,
// and what a Postgres that crashed has lost, it reads again.
func TestReportsAreReadWhenTheyAreNotKnown(t *testing.T) {
	t.Parallel()
	t.Run("not after a decision of its own", func(t *testing.T) {
		t.Parallel()
		w := newReported(t)
		_, err := w.SQL().Exec(`UPDATE checks SET report_id = 9`)
		w.must(err)
		if got := w.sees(w.DB); got != 1 {
			t.Errorf("report %d was read, which was known", got)
		}
	})
	t.Run("after one of another program", func(t *testing.T) {
		t.Parallel()
		w := newReported(t)
		other := dbtest.Open(t, w.dsn)
		w.reports(other, 2)
		if got := w.sees(w.DB); got != 2 {
			t.Errorf("report %d is known, want 2", got)
		}
	})
	t.Run("after one that was not committed", func(t *testing.T) {
		t.Parallel()
		w := newReported(t)
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
		if _, _, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			r := *s.Runs["r"]
			r.Checks = map[string]queue.Report{"unit": {Kind: queue.CheckRun, Name: "unit", ID: 3, Status: "queued", At: epoch}}
			p.Runs = []queue.Run{r}
			p.Moves = []queue.Move{{Entry: newID(), From: "nowhere", To: "nowhere"}} // which the timeline refuses
			return p
		}); err == nil {
			t.Fatal("that was saved")
		}
		if got := w.sees(w.DB); got != 1 {
			t.Errorf("report %d is known, want 1", got)
		}
	})
	t.Run("after a connection was made anew", func(t *testing.T) {
		t.Parallel()
		w := newReported(t)
		_, err := w.SQL().Exec(`UPDATE checks SET report_id = 9`)
		w.must(err)
		w.SQL().SetMaxIdleConns(0)
		if got := w.sees(w.DB); got != 9 {
			t.Errorf("report %d is known, want 9", got)
		}
	})
}

// A decision on reports of CI alone, which is made again from the same facts when a
// crash undoes it, does not wait for the disk. Every other one does.
func TestOnlyADecisionThatRepeatsIsNotDurable(t *testing.T) {
	t.Parallel()
	w := newReported(t)
	for _, statement := range []string{
		`CREATE TABLE commits (n bigserial, waits text)`,
		`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO commits (waits) VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`,
		// Deferred, it runs with the commit.
		`CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON queues DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$`,
	} {
		_, err := w.SQL().Exec(statement)
		w.must(err)
	}
	d := dbtest.Open(t, w.dsn)
	for _, tt := range []struct {
		what   string
		fact   queue.Fact
		change func(*queue.Snapshot, *queue.Plan)
		want   string
	}{
		{"reports", queue.ChecksDoubted{Commit: "live"}, func(s *queue.Snapshot, p *queue.Plan) { p.Runs = []queue.Run{*s.Runs["r"]} }, "off"},
		{"nothing", queue.ChecksDoubted{Commit: "live"}, func(*queue.Snapshot, *queue.Plan) {}, "off"},
		{"an action", queue.ChecksDoubted{Commit: "live"}, func(_ *queue.Snapshot, p *queue.Plan) { p.Actions = []queue.Action{queue.SyncPR{PR: 5}} }, "on"},
		{"the queue", queue.ChecksDoubted{Commit: "live"}, func(_ *queue.Snapshot, p *queue.Plan) { p.Queue.Concurrency++ }, "on"},
		{"a wish", queue.CancelRequested{PR: 5}, func(*queue.Snapshot, *queue.Plan) {}, "on"},
	} {
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, tt.fact))
		_, _, err := d.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			tt.change(s, &p)
			return p
		})
		w.must(err)
		var got string
		w.must(w.SQL().QueryRow(`SELECT waits FROM commits ORDER BY n DESC LIMIT 1`).Scan(&got))
		if got != tt.want {
			t.Errorf("%s: synchronous_commit is %s, want %s", tt.what, got, tt.want)
		}
	}
}
