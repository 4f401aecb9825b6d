package db

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/flaky"
)

// How long what is known of tests is kept, in days. Results are compared with
// for 14 days, and what is shown goes back 30; a test can be flaky for 45
// without anything new.
const (
	keepResults  = 15
	keepFailures = 45
	keepUploads  = 45
	keepHours    = 3
	keepDays     = 46
	keepPulls    = 8
	keepEvidence = 180
	keepChanges  = 730
)

// KeepTestsSoon asks for what is to be done about tests in this hour. It is asked
// for once, however many programs ask.
func (db *DB) KeepTestsSoon(ctx context.Context, now time.Time) error {
	return fail("ask for the chores of tests", db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		return db.insertJobOnce(ctx, tx, flaky.KeepTests{Hour: now.UTC().Truncate(time.Hour)})
	}))
}

// KeepTests drops what was kept of tests for long enough, makes the partitions of
// the next days, judges tests that time may have changed, and finds those that
// were renamed. Doing it again does no harm; while another program does it,
// nothing is done.
func (db *DB) KeepTests(ctx context.Context, now time.Time) (err error) {
	conn, err := db.sql.Connx(ctx)
	if err != nil {
		return fail("keep tests", err)
	}
	defer conn.Close()
	var alone bool
	if err := conn.GetContext(ctx, &alone, `SELECT pg_try_advisory_lock(hashtextextended('chores of tests', 0))`); err != nil || !alone {
		return fail("see whether somebody keeps tests", err)
	}
	defer func() {
		if _, problem := conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock(hashtextextended('chores of tests', 0))`); problem != nil {
			discard(conn.Conn) // the lock must not go back to the pool with it
			err = cmp.Or(err, fail("let others keep tests", problem))
		}
	}()
	return db.keepTests(ctx, now.UTC())
}

func (db *DB) keepTests(ctx context.Context, now time.Time) error {
	ago := func(days int) string { return day(now.AddDate(0, 0, -days)) }
	for _, step := range []struct {
		doing, statement string
		args             []any
	}{
		{"make today's partition of test results", `SELECT test_day($1)`, []any{day(now)}},
		{"make tomorrow's partition of test results", `SELECT test_day($1)`, []any{day(now.AddDate(0, 0, 1))}},
		{"make the partition of test results of the day after tomorrow", `SELECT test_day($1)`, []any{day(now.AddDate(0, 0, 2))}},
		{"drop old test results", `SELECT test_forget('test_results', $1)`, []any{ago(keepResults)}},
		{"drop old test failures", `SELECT test_forget('test_failures', $1)`, []any{ago(keepFailures)}},
		{"remove old addresses of bundles", `DELETE FROM test_bundles WHERE put_at < $1::date`, []any{ago(1)}},
		{"remove old test reports", `DELETE FROM test_uploads WHERE received_at < $1::date AND entered_at IS NOT NULL`, []any{ago(keepUploads)}},
		{"remove old hours of tests", `DELETE FROM test_hours WHERE at < $1::date`, []any{ago(keepHours)}},
		{"remove old days of tests", `DELETE FROM test_days WHERE at < $1::date`, []any{ago(keepDays)}},
		{"remove old kinds of failures", `DELETE FROM test_fingerprints WHERE day < $1`, []any{ago(keepFailures)}},
		{"remove old pull requests of tests", `DELETE FROM test_pulls WHERE day < $1`, []any{ago(keepPulls)}},
		{"remove old evidence", `DELETE FROM test_evidence WHERE at < $1::date`, []any{ago(keepEvidence)}},
		{"remove old changes of tests", `DELETE FROM test_changes WHERE at < $1::date`, []any{ago(keepChanges)}},
	} {
		if _, err := db.sql.ExecContext(ctx, step.statement, step.args...); err != nil {
			return fail(step.doing, err)
		}
	}
	var repositories []int64
	if err := db.sql.SelectContext(ctx, &repositories, `
		SELECT DISTINCT repository_id FROM test_cases WHERE status <> 'HEALTHY' OR expires_at IS NOT NULL`); err != nil {
		return fail("find repositories with unhealthy tests", err)
	}
	for _, r := range repositories {
		if err := db.tend(ctx, r, "", now); err != nil {
			return fail(fmt.Sprintf("judge the unhealthy tests of repository %d", r), err)
		}
	}
	return db.renames(ctx, now)
}

// tend judges the unhealthy tests of a repository and those that a person
// quarantined for a time. What changes is the actor's doing, or of the service
// itself ("").
func (db *DB) tend(ctx context.Context, repository int64, actor string, now time.Time) error {
	return db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if err := lockTests(ctx, tx, repository); err != nil {
			return err
		}
		rules, err := rulesOf(ctx, tx, repository)
		if err != nil {
			return err
		}
		var rows []caseRow
		if err := tx.SelectContext(ctx, &rows, `
			SELECT `+judgedColumns+` FROM test_cases WHERE repository_id = $1 AND (status <> 'HEALTHY' OR expires_at IS NOT NULL)`, repository); err != nil {
			return err
		}
		numbers := make([]int64, len(rows))
		for i := range rows {
			numbers[i] = rows[i].ID
		}
		counts, err := talliesOf(ctx, tx, "test_days", repository, numbers, now.Add(-flaky.Window), now)
		if err != nil {
			return err
		}
		var changes []changeRow
		for i := range rows {
			changes = append(changes, rows[i].judge(rows[i].History.v, rules, counts[rows[i].ID], now, 0)...)
		}
		for i := range changes {
			changes[i].Actor = actor
		}
		return db.storeJudged(ctx, tx, rows, changes)
	})
}

// lockTests lets one transaction at a time change the tests of a repository:
// histories are folded in order.
func lockTests(ctx context.Context, tx *sqlx.Tx, repository int64) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('test results', $1))`, repository)
	return err
}
