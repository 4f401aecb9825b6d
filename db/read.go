package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// typicalWithin is how old the runs are that say how long tests usually take.
const typicalWithin = 7 * 24 * time.Hour

// Read is a window on a queue at one moment, without a lock: what a decision
// would see, and for people the entries of the pull requests named, whatever
// their state: for one that is free, how many are ahead; of one that has ended,
// the newest run that tested it. It knows how long tests usually take here.
// ErrNotFound: no such queue.
func (db *DB) Read(ctx context.Context, id queue.ID, prs ...int64) (*queue.Snapshot, error) {
	var s *queue.Snapshot
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row queueRow
		err := tx.GetContext(ctx, &row, selectQueue+` WHERE q.id = $1`, int64(id))
		if err != nil {
			return err
		}
		n, now := names{prs: prs, people: true}, db.clock()
		if n.runs, err = lastRuns(ctx, tx, id, prs); err != nil {
			return err
		}
		if s, err = db.readWindow(ctx, tx, row, n, now); err != nil {
			return err
		}
		return db.readForPeople(ctx, tx, s, prs)
	})
	if err != nil {
		return nil, fail(fmt.Sprintf("read queue %d", id), err)
	}
	return s, nil
}

// readForPeople adds to a window what a decision does not need: which targets are
// known in whatever mode, and how many are ahead of the pull requests named.
func (db *DB) readForPeople(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, prs []int64) error {
	if err := attachTargets(ctx, tx, s); err != nil {
		return err
	}
	if (names{}).parallel(s) {
		if err := db.readTargets(ctx, tx, s); err != nil {
			return err
		}
	}
	return countAhead(ctx, tx, s, prs)
}

// Version is the version of a pull request's entry, 0 if it has none in that queue.
func (db *DB) Version(ctx context.Context, id queue.ID, pr int64) (int64, error) {
	var version int64
	err := db.sql.GetContext(ctx, &version, `SELECT version FROM entries WHERE queue_id = $1 AND pr = $2`, int64(id), pr)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, fail(fmt.Sprintf("read the version of pull request %d", pr), err)
}

// lastRuns finds, for the present submission of each pull request that has
// ended, the newest run that tested it. The timeline names it.
func lastRuns(ctx context.Context, tx *sqlx.Tx, q queue.ID, prs []int64) ([]queue.RunID, error) {
	if len(prs) == 0 {
		return nil, nil
	}
	var ids []string
	if err := tx.SelectContext(ctx, &ids, `
		SELECT l.run_id FROM entries e CROSS JOIN LATERAL (
			SELECT t.run_id FROM timeline t JOIN runs r ON r.queue_id = t.queue_id AND r.id = t.run_id
			WHERE t.queue_id = $1 AND t.pr = e.pr AND t.submission = e.submission AND t.run_id <> '' AND e.id = ANY(r.members)
			ORDER BY t.id DESC LIMIT 1) l
		WHERE e.queue_id = $1 AND e.pr = ANY($2) AND e.state IN ('merged', 'failed', 'cancelled')`, int64(q), pq.Array(prs)); err != nil {
		return nil, fmt.Errorf("find the last runs of what has ended: %w", err)
	}
	return retyped[queue.RunID](ids), nil
}

// typicalTest is the median of what the last fifty runs of the line took that
// passed lately; zero when there were none.
func typicalTest(ctx context.Context, tx *sqlx.Tx, q queue.ID, now time.Time) (time.Duration, error) {
	var seconds float64
	if err := tx.GetContext(ctx, &seconds, typicalSeconds("$2"), int64(q), now.Add(-typicalWithin)); err != nil {
		return 0, fmt.Errorf("find out how long tests take: %w", err)
	}
	return typicalOf(seconds), nil
}

// typicalSeconds is the statement of typicalTest, for the queue $1 and the runs
// since a moment.
func typicalSeconds(since string) string {
	return `
		SELECT COALESCE(percentile_cont(0.5) WITHIN GROUP (ORDER BY EXTRACT(epoch FROM took)), 0)::float8 FROM (
			SELECT GREATEST(ended_at - started_at, interval '0') AS took FROM runs
			WHERE queue_id = $1 AND kind = 'main' AND state = 'passed' AND ended_at > ` + since + `
			ORDER BY ended_at DESC LIMIT 50) recent`
}

func typicalOf(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Truncate(time.Microsecond)
}

// enqueued is the statement that reads some columns of every active entry of
// the queue $1, in queue order: those in groups of the line, those in parts of
// bisections, free pending ones, then those that are not ready.
func enqueued(columns string) string {
	return `
		WITH placed AS (
			SELECT m.id AS entry_id, CASE WHEN l.main THEN 0 ELSE 1 END AS rank, l.place, m.place AS inner_place
			FROM queues q
			CROSS JOIN LATERAL (
				SELECT u.id, u.place, true AS main FROM unnest(q.line) WITH ORDINALITY u (id, place)
				UNION ALL SELECT u.id, u.place, false FROM unnest(q.parts) WITH ORDINALITY u (id, place)) l
			JOIN groups g ON g.queue_id = q.id AND g.id = l.id
			CROSS JOIN LATERAL unnest(g.members) WITH ORDINALITY m (id, place)
			WHERE q.id = $1
		)
		SELECT ` + columns + ` FROM entries e LEFT JOIN placed p ON p.entry_id = e.id
		WHERE queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled')
		ORDER BY COALESCE(p.rank, CASE WHEN state = 'not_ready' THEN 3 ELSE 2 END), p.place, p.inner_place,
			(priority <> 0), (returned = 0), returned, priority, admitted_at NULLS FIRST, submitted_at, id`
}

func entriesOf(rows []entryRow) []queue.Entry {
	entries := make([]queue.Entry, len(rows))
	for i, row := range rows {
		entries[i] = row.entry()
	}
	return entries
}

// Entry finds the entry of a pull request, active or ended. ErrNotFound: it
// was never submitted to this queue.
func (db *DB) Entry(ctx context.Context, q queue.ID, pr int64) (queue.Entry, error) {
	var row entryRow
	if err := db.sql.GetContext(ctx, &row, `SELECT `+entryColumns+` FROM entries WHERE queue_id = $1 AND pr = $2`, int64(q), pr); err != nil {
		return queue.Entry{}, fail(fmt.Sprintf("find the entry of #%d", pr), err)
	}
	return row.entry(), nil
}

// RunsOf lists the newest runs that tested a pull request, over all its
// submissions, newest first, limit at most. The timeline names them.
func (db *DB) RunsOf(ctx context.Context, q queue.ID, pr int64, limit int) ([]queue.Run, error) {
	var runs []queue.Run
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var rows []runRow
		if err := tx.SelectContext(ctx, &rows, `
			SELECT `+runColumns+` FROM runs
			WHERE queue_id = $1 AND id = ANY(ARRAY(SELECT DISTINCT run_id FROM timeline WHERE queue_id = $1 AND pr = $2 AND run_id <> ''))
				AND EXISTS (SELECT 1 FROM entries e WHERE e.queue_id = $1 AND e.pr = $2 AND e.id = ANY(members))
			ORDER BY asked_at DESC, id LIMIT $3`, int64(q), pr, limit); err != nil {
			return err
		}
		runs = make([]queue.Run, len(rows))
		byID := map[queue.RunID]*queue.Run{}
		for i, row := range rows {
			runs[i] = row.run()
			byID[runs[i].ID] = &runs[i]
		}
		return attachChecks(ctx, tx, q, byID)
	})
	return runs, fail(fmt.Sprintf("list the test runs of #%d", pr), err)
}

// Run finds a run of the queue, ended or not, and the entries of its chain, in
// the chain's order. ErrNotFound: the queue has no such run.
func (db *DB) Run(ctx context.Context, q queue.ID, id queue.RunID) (queue.Run, []queue.Entry, error) {
	var run queue.Run
	var rows []entryRow
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row runRow
		if err := tx.GetContext(ctx, &row, `SELECT `+runColumns+` FROM runs WHERE queue_id = $1 AND id = $2`,
			int64(q), clean(string(id))); err != nil {
			return err
		}
		run, rows = row.run(), nil
		if err := attachChecks(ctx, tx, q, map[queue.RunID]*queue.Run{run.ID: &run}); err != nil {
			return err
		}
		var n names
		n.addChain(run.Chain)
		return tx.SelectContext(ctx, &rows, `
			SELECT `+entryColumns+` FROM entries WHERE queue_id = $1 AND id = ANY($2::uuid[])
			ORDER BY array_position($2::uuid[], id)`, int64(q), uuidsOf(n.entries))
	})
	if err != nil {
		return queue.Run{}, nil, fail("find a test run", err)
	}
	return run, entriesOf(rows), nil
}
