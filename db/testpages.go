package db

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// notable is the condition of the index that lists of tests are read with.
const notable = `(status <> 'HEALTHY' OR suspected OR quarantined_at IS NOT NULL OR setting <> 'AUTO_QUARANTINE')`

// shows are the conditions of the lists of tests.
var shows = map[flaky.Show]string{
	flaky.ShowNotable:     notable,
	flaky.ShowFlaky:       notable + ` AND status = 'FLAKY'`,
	flaky.ShowBroken:      notable + ` AND status = 'BROKEN'`,
	flaky.ShowSuspected:   notable + ` AND suspected`,
	flaky.ShowQuarantined: notable + ` AND quarantined_at IS NOT NULL`,
	flaky.ShowDecided:     notable + ` AND setting <> 'AUTO_QUARANTINE'`,
	flaky.ShowAll:         `true`,
}

// ListTests lists tests of a repository, the one whose state changed last
// first, take at most.
func (db *DB) ListTests(ctx context.Context, repo queue.RepoID, f flaky.Filter, take int) ([]flaky.TestCase, error) {
	var rows []shownRow
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+shownColumns+` FROM test_cases
		WHERE repository_id = $1 AND `+shows[f.Show]+`
			AND ($2 = '' OR name ILIKE $2 OR file ILIKE $2 OR classname ILIKE $2 OR parent ILIKE $2)
			AND ($3 = '' OR $3 = ANY(codeowners))
			AND ($4::timestamptz IS NULL OR (status_at, id) < ($4, $5))
		ORDER BY status_at DESC, id DESC LIMIT $6`,
		int64(repo), containing(f.Text), clean(f.Owner), stamp(f.After.At), f.After.Number, take); err != nil {
		return nil, fail("list tests", err)
	}
	tests := make([]flaky.TestCase, len(rows))
	for i := range rows {
		tests[i] = rows[i].test()
	}
	return tests, nil
}

// containing is the pattern of texts that have a text in them; "" stays "".
func containing(text string) string {
	if text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(clean(text)) + "%"
}

// CountTests counts the tests of a repository that somebody should know of.
func (db *DB) CountTests(ctx context.Context, repo queue.RepoID) (c flaky.Counts, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row struct {
			Notable     int   `json:"notable"`
			Flaky       int   `json:"flaky"`
			Broken      int   `json:"broken"`
			Suspected   int   `json:"suspected"`
			Quarantined int   `json:"quarantined"`
			Decided     int   `json:"decided"`
			LastUpload  stamp `json:"last_upload"`
		}
		if err := tx.GetContext(ctx, &row, `
			SELECT count(*) AS notable, count(*) FILTER (WHERE status = 'FLAKY') AS flaky, count(*) FILTER (WHERE status = 'BROKEN') AS broken,
				count(*) FILTER (WHERE suspected) AS suspected, count(quarantined_at) AS quarantined,
				count(*) FILTER (WHERE setting <> 'AUTO_QUARANTINE') AS decided,
				(SELECT received_at FROM test_uploads WHERE repository_id = $1 ORDER BY id DESC LIMIT 1) AS last_upload
			FROM test_cases WHERE repository_id = $1 AND `+notable, int64(repo)); err != nil {
			return err
		}
		rules, err := rulesOf(ctx, tx, int64(repo))
		c = flaky.Counts{
			Notable: row.Notable, Flaky: row.Flaky, Broken: row.Broken, Suspected: row.Suspected, Quarantined: row.Quarantined, Decided: row.Decided,
			Automatic: rules.Automatic, LastUpload: time.Time(row.LastUpload),
		}
		return err
	})
	return c, fail("count tests", err)
}

// CountUnhealthyTests counts the flaky and broken tests of every repository
// that has some.
func (db *DB) CountUnhealthyTests(ctx context.Context) (map[queue.RepoID]int, error) {
	var rows []struct {
		Repository int64 `json:"repository_id"`
		N          int   `json:"n"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `SELECT repository_id, count(*) AS n FROM test_cases WHERE status <> 'HEALTHY' GROUP BY repository_id`); err != nil {
		return nil, fail("count unhealthy tests", err)
	}
	counts := map[queue.RepoID]int{}
	for _, r := range rows {
		counts[queue.RepoID(r.Repository)] = r.N
	}
	return counts, nil
}

// TestDays are the days on which tests ran, by their numbers, in the order of
// time.
func (db *DB) TestDays(ctx context.Context, repo queue.RepoID, numbers []int64, from, to time.Time) (map[int64][]flaky.DayTally, error) {
	days := map[int64][]flaky.DayTally{}
	err := eachTally(ctx, db.sql, "test_days", int64(repo), numbers, from, to, func(number int64, day time.Time, t flaky.Tally) {
		days[number] = append(days[number], flaky.DayTally{Day: day, Tally: t})
	})
	return days, fail("read the days of tests", err)
}

// caseNumber is the number of a test.
func caseNumber(ctx context.Context, tx *sqlx.Tx, repo queue.RepoID, id uuid.UUID) (number int64, err error) {
	err = tx.GetContext(ctx, &number, `SELECT id FROM test_cases WHERE id = `+namedCase, int64(repo), id)
	return number, err
}

// FailureKinds are the most frequent ways in which a test failed in 30 days,
// take at most. ErrNotFound: the repository has no such test.
func (db *DB) FailureKinds(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time, take int) (kinds []flaky.FailureKind, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row struct {
			ID      int64                    `json:"id"`
			History document[*flaky.History] `json:"history"`
		}
		if err := tx.GetContext(ctx, &row, `SELECT id, history FROM test_cases WHERE id = `+namedCase, int64(repo), id); err != nil {
			return err
		}
		if kinds, err = commonFailures(ctx, tx, row.ID, now, take); err != nil {
			return err
		}
		for i := range kinds {
			kinds[i].Known = row.History.v != nil && row.History.v.Knows(kinds[i].Fingerprint, now)
		}
		return nil
	})
	return kinds, fail(fmt.Sprintf("read how test %s fails", id), err)
}

// commonFailures are the most frequent ways in which a test failed in 30 days.
func commonFailures(ctx context.Context, tx *sqlx.Tx, number int64, now time.Time, take int) ([]flaky.FailureKind, error) {
	var rows []struct {
		Fingerprint int64  `json:"fingerprint"`
		Summary     string `json:"summary"`
		Count       int64  `json:"count"`
		Last        stamp  `json:"last"`
	}
	if err := tx.SelectContext(ctx, &rows, `
		SELECT fingerprint, min(summary) AS summary, sum(count)::bigint AS count, max(last_at) AS last FROM test_fingerprints
		WHERE case_id = $1 AND day > $2 GROUP BY fingerprint ORDER BY 3 DESC, 4 DESC, 1 LIMIT $3`, number, day(now.AddDate(0, 0, -30)), take); err != nil {
		return nil, err
	}
	kinds := make([]flaky.FailureKind, len(rows))
	for i, r := range rows {
		kinds[i] = flaky.FailureKind{Fingerprint: flaky.Fingerprint(r.Fingerprint), Common: flaky.Common{Summary: r.Summary, Count: r.Count, Last: time.Time(r.Last)}}
	}
	return kinds, nil
}

// TestFailures are the newest failures of a test, take at most. ErrNotFound: the
// repository has no such test.
func (db *DB) TestFailures(ctx context.Context, repo queue.RepoID, id uuid.UUID, take int) (failures []flaky.Occurrence, err error) {
	var rows []struct {
		failureRow
		Commit string               `json:"commit"`
		Sent   document[flaky.Sent] `json:"sent"`
		Run    document[flaky.Run]  `json:"run"`
	}
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		rows = nil
		number, err := caseNumber(ctx, tx, repo, id)
		if err != nil {
			return err
		}
		return tx.SelectContext(ctx, &rows, `
			SELECT f.upload_id, f.at, f.fingerprint, f.summary, f.kind, f.message, f.body, f.passed, f.ambiguous, f.excused, f.code,
				coalesce(u.commit, '') AS commit, u.sent, u.run
			FROM test_failures f LEFT JOIN test_uploads u ON u.id = f.upload_id
			WHERE f.case_id = $1 ORDER BY f.at DESC, f.upload_id DESC LIMIT $2`, number, take)
	})
	for _, r := range rows {
		failures = append(failures, flaky.Occurrence{
			Failure: flaky.Failure{Type: r.Kind, Message: r.Message, Text: r.Body}, Summary: r.Summary, Fingerprint: flaky.Fingerprint(r.Fingerprint),
			Upload: r.UploadID, At: time.Time(r.At).UTC(), Passed: r.Passed, Ambiguous: r.Ambiguous, Excused: r.Excused, Code: flaky.QuarantineCode(r.Code),
			Kind: r.Run.v.Kind, Branch: r.Run.v.Branch, Commit: r.Commit, PullRequests: r.Run.v.PullRequests, Check: r.Sent.v.Check, Link: r.Sent.v.Link,
		})
	}
	return failures, fail(fmt.Sprintf("list the failures of test %s", id), err)
}

// ListUploads lists the uploads of a repository without their failures, the
// newest first, take at most: those with a smaller number than below unless that
// is 0, and only those that something was wrong with if troubled is set.
func (db *DB) ListUploads(ctx context.Context, repo queue.RepoID, below int64, troubled bool, take int) ([]flaky.UploadDetails, error) {
	var rows []shownUpload
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+uploadColumns+` FROM test_uploads
		WHERE repository_id = $1 AND ($2::bigint = 0 OR id < $2) AND (NOT $3 OR entered_at IS NOT NULL AND (NOT complete OR notes <> '[]'))
		ORDER BY id DESC LIMIT $4`, int64(repo), below, troubled, take); err != nil {
		return nil, fail("list test reports", err)
	}
	uploads := make([]flaky.UploadDetails, len(rows))
	for i := range rows {
		uploads[i] = rows[i].details(repo)
	}
	return uploads, nil
}

// RepositoryNamed finds a repository by its name, in any case, whichever
// organisation it belongs to; an old name works until another one takes it.
// ErrNotFound: there is none.
func (db *DB) RepositoryNamed(ctx context.Context, host, owner, name string) (queue.Repo, error) {
	row, err := findRepository(ctx, db.sql, host, owner, name)
	if err == nil && row == nil {
		err = queue.ErrNotFound
	}
	if err != nil {
		return queue.Repo{}, fail("find repository", err)
	}
	return row.repo(row.ID), nil
}

// WithoutQueue lists repositories that the App works on and that have no queue,
// by host, owner and name, take at most: only those whose name has the text in
// it, unless that is "".
func (db *DB) WithoutQueue(ctx context.Context, text string, take int) ([]queue.Repo, error) {
	var rows []repoRow
	if err := db.sql.SelectContext(ctx, &rows, selectRepository+`
		WHERE r.installation IS NOT NULL AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.repository_id = r.id)
			AND ($1 = '' OR r.owner || '/' || r.name ILIKE $1)
		ORDER BY r.host, lower(r.owner), lower(r.name), r.id LIMIT $2`, containing(text), take); err != nil {
		return nil, fail("list repositories without a queue", err)
	}
	repos := make([]queue.Repo, len(rows))
	for i := range rows {
		repos[i] = rows[i].repo(rows[i].ID)
	}
	return repos, nil
}

// Places say to whom repositories belong. One that is not there is left out.
func (db *DB) Places(ctx context.Context, repos []queue.RepoID) (map[queue.RepoID]account.Place, error) {
	ids := make([]int64, len(repos))
	for i, id := range repos {
		ids[i] = int64(id)
	}
	var rows []struct {
		ID            int64  `json:"id"`
		Slug          string `json:"slug"`
		DefaultBranch string `json:"default_branch"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT r.id, o.slug, r.default_branch FROM repositories r JOIN organizations o ON o.id = r.org_id WHERE r.id = ANY($1)`, pq.Array(ids)); err != nil {
		return nil, fail("find out to whom repositories belong", err)
	}
	places := make(map[queue.RepoID]account.Place, len(rows))
	for _, r := range rows {
		places[queue.RepoID(r.ID)] = account.Place{Org: r.Slug, DefaultBranch: r.DefaultBranch}
	}
	return places, nil
}
