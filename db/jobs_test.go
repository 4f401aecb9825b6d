package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/queue"
)

// A telling that waits tells of later changes too, so there is one job of it;
// one that was started, or that is being started, may have read already, and the
// change needs another.
func TestATellingThatWaitsMakesAnotherUnnecessary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := queue.SyncPR{Queue: w.queue.ID, Entry: newID(), PR: 1}, queue.SyncPR{Queue: w.queue.ID, Entry: newID(), PR: 2}
	want := func(what string, jobs int, actions ...queue.Action) {
		t.Helper()
		w.store(func(p *queue.Plan) { p.Actions = actions })
		if got := w.count(`SELECT count(*) FROM river_job`); got != jobs {
			t.Errorf("%s: %d jobs, want %d", what, got, jobs)
		}
	}
	exec := func(statement string) {
		t.Helper()
		_, err := w.SQL().Exec(statement)
		w.must(err)
	}
	want("the first", 1, one)
	want("while it waits", 1, one)
	want("of another pull request, and other work", 3, one, two, queue.ReadTarget{Queue: w.queue.ID, Branch: "main"})
	want("other work again", 4, queue.ReadTarget{Queue: w.queue.ID, Branch: "main"})
	exec(`UPDATE river_job SET state = 'running' WHERE kind = 'sync_pr'`)
	want("while it is at work", 6, one, two)
	want("and another waits", 6, one, two)
	exec(`UPDATE river_job SET state = 'retryable' WHERE kind = 'sync_pr' AND state = 'available'`)
	want("while it waits for another try, which may be late", 7, one)

	tx, err := w.SQL().Begin() // as River does to start jobs
	w.must(err)
	defer tx.Rollback()
	_, err = tx.Exec(`SELECT id FROM river_job WHERE state = 'available' FOR UPDATE SKIP LOCKED`)
	w.must(err)
	want("while it is being started", 8, one)
}

// What passes is told after a calm, once for all that follows; an ending is told
// at once, whatever waits.
func TestWhatPassesIsToldAfterACalm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *db.Config) { c.Calm = time.Hour })
	passing := queue.SyncPR{Queue: w.queue.ID, Entry: newID(), PR: 1, Passing: true}
	ended := passing
	ended.Passing = false
	want := func(what string, now, later int, a queue.Action) {
		t.Helper()
		w.store(func(p *queue.Plan) { p.Actions = []queue.Action{a} })
		if got := w.count(`SELECT count(*) FROM river_job WHERE state = 'available' AND scheduled_at <= now()`); got != now {
			t.Errorf("%s: %d jobs can be started, want %d", what, got, now)
		}
		if got := w.count(`SELECT count(*) FROM river_job WHERE state = 'scheduled' AND scheduled_at > now() + interval '59 minutes'`); got != later {
			t.Errorf("%s: %d jobs wait, want %d", what, got, later)
		}
	}
	want("the first", 0, 1, passing)
	want("more that passes", 0, 1, passing)
	want("the ending", 1, 1, ended)
	want("more, which the ending's telling tells", 1, 1, passing)
}

// A telling that makes another unnecessary is not started before the change
// that relies on it is committed.
func TestATellingThatIsReliedOnIsNotStartedTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sync := queue.SyncPR{Queue: w.queue.ID, Entry: newID(), PR: 1}
	w.store(func(p *queue.Plan) { p.Actions = []queue.Action{sync} })
	startable := func() (n int) {
		w.must(w.SQL().QueryRow(`SELECT count(*) FROM (SELECT id FROM river_job WHERE state = 'available' FOR UPDATE SKIP LOCKED) j`).Scan(&n))
		return n
	}
	if got := startable(); got != 1 {
		t.Fatalf("%d jobs can be started, want 1", got)
	}
	w.must(w.Inserting(t.Context(), []queue.Action{sync}, func() {
		if got := startable(); got != 0 {
			t.Errorf("%d jobs can be started before the commit, want none", got)
		}
	}))
	if got := startable(); got != 1 {
		t.Errorf("%d jobs can be started after the commit, want 1", got)
	}
}
