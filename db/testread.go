package db

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/flaky"
	"signalbox/queue"
)

// rulesOf is what a repository wants of quarantine: nothing until somebody
// switches it on.
func rulesOf(ctx context.Context, q sqlx.QueryerContext, repository int64) (flaky.Rules, error) {
	var automatic []bool
	if err := sqlx.SelectContext(ctx, q, &automatic, `SELECT automatic FROM test_settings WHERE repository_id = $1`, repository); err != nil {
		return flaky.Rules{}, fmt.Errorf("read what the repository wants of quarantine: %w", err)
	}
	return flaky.Rules{Automatic: len(automatic) > 0 && automatic[0]}, nil
}

// talliesOf sums up the counters of tests from one moment up to another, by
// their numbers. Counters are of whole hours or days, UTC: one that began
// before the moment is left out.
func talliesOf(ctx context.Context, q sqlx.QueryerContext, table string, repository int64, numbers []int64, from, to time.Time) (map[int64]flaky.Tally, error) {
	all := map[int64]flaky.Tally{}
	err := eachTally(ctx, q, table, repository, numbers, from, to, func(number int64, _ time.Time, t flaky.Tally) { all[number] = all[number].Plus(t) })
	return all, err
}

// asked are the places of a chunk that are asked for.
type asked struct {
	places [chunkSize]bool
	last   int
}

// eachTally yields the counters that talliesOf sums up, in the order of time.
func eachTally(ctx context.Context, q sqlx.QueryerContext, table string, repository int64, numbers []int64, from, to time.Time, yield func(number int64, at time.Time, t flaky.Tally)) error {
	chunks := map[int64]*asked{}
	for _, n := range numbers {
		of := chunks[n/chunkSize]
		if of == nil {
			of = &asked{}
			chunks[n/chunkSize] = of
		}
		place := int(n % chunkSize)
		of.places[place], of.last = true, max(of.last, place)
	}
	var rows []struct {
		Chunk  int64  `json:"chunk"`
		At     stamp  `json:"at"`
		Counts []byte `json:"counts"`
	}
	if err := sqlx.SelectContext(ctx, q, &rows, `
		SELECT chunk, at, counts FROM `+table+` WHERE repository_id = $1 AND chunk = ANY($2) AND at > $3 AND at <= $4 ORDER BY at`,
		repository, pq.Array(slices.Collect(maps.Keys(chunks))), stamp(from), stamp(to)); err != nil {
		return fmt.Errorf("read %s: %w", table, err)
	}
	for _, row := range rows {
		of := chunks[row.Chunk]
		if err := eachPacked(row.Counts, of.last, func(place int, t flaky.Tally) {
			if of.places[place] {
				yield(row.Chunk*chunkSize+int64(place), row.At.time(), t)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// storeJudged writes tests that were judged, and what changed, and has
// subscribers told of it.
func (db *DB) storeJudged(ctx context.Context, tx *sqlx.Tx, rows []caseRow, changes []changeRow) error {
	if len(rows) == 0 {
		return nil
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE test_cases t SET status = n.status, status_at = n.status_at, status_code = n.status_code, status_reason = n.status_reason,
			suspected = n.suspected, score = n.score, quarantined_at = n.quarantined_at, watched = n.watched, history = n.history,
			setting = n.setting, owner = n.owner, reason = n.reason, actor = n.actor, expires_at = n.expires_at
		FROM json_populate_recordset(NULL::test_cases, $1) n WHERE t.id = n.id`, text); err != nil {
		return fmt.Errorf("store what tests are: %w", err)
	}
	if len(changes) == 0 {
		return nil
	}
	if text, err = encode(changes); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO test_changes (case_id, at, what, before, after, code, reason, actor, upload_id, score)
		SELECT case_id, at, what, before, after, code, reason, actor, upload_id, score FROM json_populate_recordset(NULL::test_changes, $1)`, text); err != nil {
		return fmt.Errorf("store what changed about tests: %w", err)
	}
	return db.tellOfTests(ctx, tx, rows, changes)
}

// shownRow is a test as a list shows it.
type shownRow struct {
	caseRow
	Codeowners pq.StringArray `json:"codeowners"`
	Ticket     string         `json:"ticket"`
	TicketLink string         `json:"ticket_link"`
}

const shownColumns = `id, test_id, name, parent, file, classname, variant, codeowners, ticket, ticket_link, status, status_at, status_code, status_reason,
	suspected, score, setting, owner, reason, actor, expires_at, quarantined_at`

func (r *shownRow) test() flaky.TestCase {
	return flaky.TestCase{
		Test: r.names(), Number: r.ID, ID: r.TestID, Codeowners: r.Codeowners, Status: flaky.Status(r.Status), StatusAt: time.Time(r.StatusAt).UTC(),
		StatusCode: flaky.ReasonCode(r.StatusCode), StatusReason: r.StatusReason, Suspected: r.Suspected, Score: r.Score,
		Override: r.override(), TicketID: r.Ticket, Ticket: r.TicketLink, QuarantinedAt: time.Time(r.QuarantinedAt),
	}
}

// TestPage is a part of the tests of a repository that are selected: take of
// them from the offset on, and how many there are. Those come first whose state
// changed last; of quarantined tests, those that were quarantined last.
func (db *DB) TestPage(ctx context.Context, repo queue.RepoID, s flaky.Selection, offset, take int, now time.Time) (tests []flaky.TestCase, total int, err error) {
	where, args := shows[s.Show], []any{int64(repo)}
	if !s.FailedTo.IsZero() {
		where += ` AND id IN (
			SELECT f.case_id FROM test_uploads u JOIN test_failures f ON f.upload_id = u.id AND f.day = (u.at AT TIME ZONE 'UTC')::date
			WHERE u.repository_id = $1 AND u.failed > 0 AND u.at >= $2 AND u.at < $3 AND NOT (u.run->>'Infrastructure')::boolean AND f.day BETWEEN $4 AND $5)`
		args = append(args, stamp(s.FailedFrom), stamp(s.FailedTo), day(s.FailedFrom), day(s.FailedTo))
	}
	order := `status_at DESC, id DESC`
	if s.Show == flaky.ShowQuarantined {
		order = `quarantined_at DESC, id DESC`
	}
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		tests = []flaky.TestCase{}
		if err := tx.GetContext(ctx, &total, `SELECT count(*) FROM test_cases WHERE repository_id = $1 AND `+where, args...); err != nil {
			return err
		}
		var rows []shownRow
		page := fmt.Sprintf(` ORDER BY %s OFFSET $%d LIMIT $%d`, order, len(args)+1, len(args)+2)
		if err := tx.SelectContext(ctx, &rows, `SELECT `+shownColumns+` FROM test_cases WHERE repository_id = $1 AND `+where+page, append(args, offset, take)...); err != nil {
			return err
		}
		numbers := make([]int64, len(rows))
		for i := range rows {
			numbers[i] = rows[i].ID
		}
		hit, err := pullsHit(ctx, tx, numbers, now)
		for i := range rows {
			tests = append(tests, rows[i].test())
			tests[i].PullRequests = hit[rows[i].ID]
		}
		return err
	})
	return tests, total, fail("list tests", err)
}

// pullsHit counts the pull requests on which tests failed in 7 days, by the
// tests' numbers.
func pullsHit(ctx context.Context, q sqlx.QueryerContext, numbers []int64, now time.Time) (map[int64]int, error) {
	var rows []struct {
		CaseID int64 `json:"case_id"`
		N      int   `json:"n"`
	}
	if err := sqlx.SelectContext(ctx, q, &rows, `
		SELECT case_id, count(DISTINCT pr) AS n FROM test_pulls WHERE case_id = ANY($1) AND day > $2 GROUP BY case_id`,
		pq.Array(numbers), day(now.AddDate(0, 0, -7))); err != nil {
		return nil, fmt.Errorf("count pull requests on which tests failed: %w", err)
	}
	hit := map[int64]int{}
	for _, r := range rows {
		hit[r.CaseID] = r.N
	}
	return hit, nil
}

// TestDetails is a test of a repository with what happened to it of late.
// ErrNotFound: the repository has no such test.
func (db *DB) TestDetails(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time) (d flaky.TestDetails, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		d = flaky.TestDetails{}
		var row shownRow
		if err := tx.GetContext(ctx, &row, `SELECT `+shownColumns+` FROM test_cases WHERE id = `+namedCase, int64(repo), id); err != nil {
			return err
		}
		d.TestCase = row.test()
		for _, c := range []struct {
			table string
			from  time.Time
			to    *flaky.Tally
		}{{"test_days", now.AddDate(0, 0, -7), &d.Week}, {"test_hours", now.Add(-24 * time.Hour), &d.Day}} {
			sum, err := talliesOf(ctx, tx, c.table, int64(repo), []int64{row.ID}, c.from, now)
			if err != nil {
				return err
			}
			*c.to = sum[row.ID]
		}
		common, err := commonFailures(ctx, tx, row.ID, now, 5)
		if err != nil {
			return err
		}
		for _, c := range common {
			d.Failures = append(d.Failures, c.Common)
		}
		hit, err := pullsHit(ctx, tx, []int64{row.ID}, now)
		d.PullRequests = hit[row.ID]
		return err
	})
	return d, fail(fmt.Sprintf("read test %s", id), err)
}
