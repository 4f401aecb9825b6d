package db_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// fill makes the world's database one that has been used for a year: its queue
// has 50,000 entries of which 1,000 are active, most of them free.
func (w *world) fill() {
	w.t.Helper()
	one, run := entry(1), liveRun("template", 1, "template", "template")
	run.State, run.Members = queue.RunPassed, []queue.EntryID{one.ID}
	run.StartedAt, run.EndedAt = epoch.Add(-time.Hour), epoch.Add(-time.Minute)
	run.Checks = map[string]queue.Report{"k": {Kind: queue.CommitStatus, Name: "ci", Result: "success"}}
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{one}, []queue.Run{run} })
	for _, statement := range []string{
		`INSERT INTO entries SELECT r.* FROM entries e, generate_series(2, 50000) n,
			LATERAL json_populate_record(e, json_build_object('id', gen_random_uuid(), 'pr', n, 'head', 'head' || n, 'bound_head', 'head' || n,
				'title', repeat('x', 200), 'reason', 'PR_CLOSED', 'submitted_at', e.submitted_at - n * interval '1 minute',
				'refresh_due', CASE WHEN n % 50 = 0 THEN NULL ELSE e.submitted_at + n * interval '1 hour' END,
				'state', CASE WHEN n % 50 <> 0 THEN 'cancelled' WHEN n % 200 = 0 THEN 'not_ready' ELSE 'pending' END)) r
			WHERE e.pr = 1`,
		`INSERT INTO runs SELECT x.* FROM runs r, generate_series(1, 50000) n,
			LATERAL json_populate_record(r, json_build_object('id', 'run' || n, 'group_id', n + 1, 'commit', 'commit' || n, 'branch', 'branch' || n,
				'ended_at', r.ended_at - n * interval '1 minute')) x`,
		`INSERT INTO checks SELECT x.* FROM checks c, generate_series(1, 50000) n, LATERAL json_populate_record(c, json_build_object('run_id', 'run' || n)) x`,
		`INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message, actor_login, actor_id, actor_bot, run_id)
			SELECT e.queue_id, e.id, e.pr, 1, '', 'not_ready', e.submitted_at, 'API_REQUESTED', '', '', 0, false, 'run' || e.pr FROM entries e, generate_series(1, 2)`,
		`INSERT INTO deliveries SELECT 'old ' || n, now() FROM generate_series(1, 50000) n`,
		`INSERT INTO inbox (repository_id, kind, pr, everybody, body, received_at, routed_at, commit, waits)
			SELECT r.id, 'pull_request_doubted', n, false, '{}', now(), CASE WHEN n % 10 > 0 THEN now() END, 'unknown' || n, n % 10 = 0
			FROM repositories r, generate_series(1, 50000) n`,
		`INSERT INTO impacted_targets (repository_id, pr, head, everything, count, hashes, names, created_at)
			SELECT r.id, n, 'head' || n, true, 0, '', '', now() FROM repositories r, generate_series(1, 50000) n`,
		`INSERT INTO queue_hours_counted SELECT q.id, (SELECT max(id) FROM timeline) FROM queues q`,
		`INSERT INTO queue_hours SELECT q.id, date_trunc('hour', now()) - n * interval '1 hour', 'merged', 5, 1 FROM queues q, generate_series(1, 20000) n`,
		`ANALYZE`,
	} {
		_, err := w.SQL().Exec(statement)
		w.must(err)
	}
}

// What happens all the time reads no large table from end to end. Postgres
// itself counts what it read that way, so what is judged is each statement as
// it is run.
func TestNothingThatHappensOftenScansALargeTable(t *testing.T) {
	if testing.Short() {
		t.Skip("350,000 rows")
	}
	t.Parallel()
	w := newWorld(t, func(c *db.Config) { c.MaxIdle = 1 }) // so that it has one connection
	w.fill()
	ctx := t.Context()
	append := func(d *db.DB, q queue.ID, facts ...queue.Fact) error { return d.Append(ctx, w.repo.ID, q, facts...) }
	decide := func(d *db.DB) error {
		_, ok, err := d.UpdateDue(ctx, epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			if len(s.Entries) > 2000 {
				t.Errorf("the window has %d entries", len(s.Entries))
			}
			for _, e := range s.Entries { // as good as any
				e.Version++
				p.Entries = []queue.Entry{*e}
				break
			}
			p.Runs = []queue.Run{liveRun("new", 99999, "unknown50", "new")}
			return p
		})
		if err == nil && !ok {
			return fmt.Errorf("the queue was not due")
		}
		return err
	}
	tests := []struct {
		name string
		do   func(d *db.DB) error
	}{
		{"receive", func(d *db.DB) error {
			_, err := d.Receive(ctx, "new", host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 50}}, nil)
			return err
		}},
		{"route a pull request, a commit, a branch", func(d *db.DB) error {
			if err := append(d, 0, queue.PullRequestDoubted{PR: 50}, queue.CheckReported{Commit: "commit7"}, queue.CheckReported{Commit: "head50"},
				queue.CheckReported{Commit: "nobody's"}, queue.TestBranchMoved{Branch: "branch7"}); err != nil {
				return err
			}
			return d.Route(ctx, epoch)
		}},
		{"decide on what was routed", decide},
		{"decide on a wish", func(d *db.DB) error {
			if err := append(d, w.queue.ID, queue.CancelRequested{PR: 50}); err != nil {
				return err
			}
			return decide(d)
		}},
		{"find who is due", func(d *db.DB) error { _, err := d.NextWake(ctx); return err }},
		{"list what is enqueued", func(d *db.DB) error { _, err := d.Listed(ctx, w.queue); return err }},
		{"find an entry", func(d *db.DB) error { _, err := d.Entry(ctx, w.queue.ID, 50); return err }},
		{"read an active entry", func(d *db.DB) error { _, err := d.Read(ctx, w.queue.ID, 50); return err }},
		{"read one that has ended", func(d *db.DB) error { _, err := d.Read(ctx, w.queue.ID, 51); return err }},
		{"read a timeline", func(d *db.DB) error { _, err := d.Timeline(ctx, w.queue.ID, 50); return err }},
		{"read a run", func(d *db.DB) error { _, _, err := d.Run(ctx, w.queue.ID, "run50"); return err }},
		{"find the queues of a pull request", func(d *db.DB) error { _, err := d.QueuesWith(ctx, w.repo.ID, 50); return err }},
		{"store impacted targets", func(d *db.DB) error { return d.SetImpactedTargets(ctx, w.repo.ID, 50, "head50", []string{"a"}, false) }},
		{"read impacted targets", func(d *db.DB) error {
			_, _, _, err := d.ImpactedTargets(ctx, w.repo.ID, []queue.Step{{PR: 50, Head: "head50"}, {PR: 51, Head: "head51"}})
			return err
		}},
		{"read the health of an hour", func(d *db.DB) error {
			_, err := d.Tallies(ctx, w.queue.ID, epoch.Add(-time.Hour), epoch, false)
			return err
		}},
		{"list the endings of an hour", func(d *db.DB) error {
			_, err := d.EndedBetween(ctx, w.queue.ID, epoch.Add(-time.Hour), epoch, 100)
			return err
		}},
		{"list the runs of a pull request", func(d *db.DB) error { _, err := d.RunsOf(ctx, w.queue.ID, 50, 20); return err }},
		{"see whether there is anything to count", func(d *db.DB) error { _, err := d.CountHours(ctx); return err }},
		{"read the turns of queues", func(d *db.DB) error { _, err := d.Turns(ctx); return err }},
		{"decide in parallel mode, with batches", func(d *db.DB) error {
			if _, err := w.SQL().Exec(`UPDATE queues SET mode = 'parallel', batch = true, concurrency = 5`); err != nil {
				return err
			}
			if err := append(d, w.queue.ID, queue.PullRequestDoubted{PR: 50}); err != nil {
				return err
			}
			return decide(d)
		}},
	}
	for _, tt := range tests {
		before := w.scanned()
		d := dbtest.Open(t, w.dsn, atEpoch)
		if err := tt.do(d); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		// A connection that ends tells what it has counted.
		w.must(d.Close())
		eventually(t, "its connections ended", func() bool {
			return w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`) == 0
		})
		for table, rows := range w.scanned() {
			if n := rows - before[table]; n > 5000 {
				t.Errorf("%s: %d rows of %s were read one after the other", tt.name, n, table)
			}
		}
	}
}

// scanned is how many rows of each table were read by scans from end to end.
func (w *world) scanned() map[string]int64 {
	w.t.Helper()
	rows, err := w.SQL().Query(`SELECT relname, seq_tup_read FROM pg_stat_user_tables`)
	w.must(err)
	defer rows.Close()
	read := map[string]int64{}
	for rows.Next() {
		var table string
		var n int64
		w.must(rows.Scan(&table, &n))
		read[table] = n
	}
	w.must(rows.Err())
	return read
}
