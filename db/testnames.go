package db

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"signalbox/flaky"
)

// namedCase is the number of the test that has the id $2 in the repository $1, or
// had it before it was renamed.
const namedCase = `coalesce(
	(SELECT n.id FROM test_cases n WHERE n.repository_id = $1 AND n.test_id = $2),
	(SELECT a.case_id FROM test_aliases a WHERE a.repository_id = $1 AND a.test_id = $2))`

// How a rename is found: some days later, when it is certain that the old name
// does not run any more.
const (
	renameWindow = 4    // days for which names are looked at
	mostRenamed  = 5000 // more new names than that within the window are a move of everything, or made anew each time
)

// aliases takes old ids of renamed tests for what they are: the results are those
// of the tests as they are called now. Where both names are in one report, or the
// stable branch has the old name again, they are two tests, or the rename was
// taken back: then the history goes back to the old name.
func (e *testEntry) aliases() error {
	var names struct {
		Renames int64 `json:"renames"`
		Old     bool  `json:"old"`
	}
	if err := e.tx.GetContext(e.ctx, &names, `
		SELECT coalesce((SELECT renames FROM test_settings WHERE repository_id = $1), 0) AS renames,
			EXISTS (SELECT 1 FROM test_aliases WHERE repository_id = $1) AS old`, e.upload.Repository); err != nil {
		return fmt.Errorf("find out whether tests were renamed: %w", err)
	}
	e.renames = names.Renames
	if !names.Old {
		return nil
	}
	ids := make([]uuid.UUID, len(e.read.Tests))
	at := map[uuid.UUID]int{}
	for i := range e.read.Tests {
		ids[i] = e.read.Tests[i].ID
		at[ids[i]] = i
	}
	var found []struct {
		Old     uuid.UUID `json:"old"`
		Now     uuid.UUID `json:"now"`
		CaseID  int64     `json:"case_id"`
		Expired bool      `json:"expired"`
	}
	if err := e.tx.SelectContext(e.ctx, &found, `
		SELECT a.test_id AS old, t.test_id AS now, a.case_id, $3 AND NOT EXISTS (
			SELECT 1 FROM test_uploads u WHERE u.repository_id = $1 AND u.commit = $4 AND u.entered_at <= a.since) AS expired
		FROM test_aliases a JOIN test_cases t ON t.id = a.case_id WHERE a.repository_id = $1 AND a.test_id = ANY($2::uuid[])`,
		e.upload.Repository, uuids(ids), e.run.Kind == flaky.Stable && e.run.Trusted, clean(e.run.Commit)); err != nil {
		return fmt.Errorf("find tests by their old names: %w", err)
	}
	dropped := map[int]bool{}
	for _, f := range found {
		i := at[f.Old]
		t := &e.read.Tests[i]
		if f.Expired {
			if err := e.takeBack(f.CaseID, t); err != nil {
				return err
			}
			continue
		}
		if _, both := at[f.Now]; both {
			dropped[i] = true
		}
		t.ID, t.Result.Test = f.Now, f.Now
	}
	if len(dropped) > 0 {
		kept := e.read.Tests[:0]
		for i := range e.read.Tests {
			if !dropped[i] {
				kept = append(kept, e.read.Tests[i])
			}
		}
		e.read.Tests = kept
	}
	return nil
}

// takeBack gives a renamed test its old name again.
func (e *testEntry) takeBack(number int64, t *flaky.Seen) error {
	row := newCase(e.upload, t, e.run.At)
	if _, err := e.tx.ExecContext(e.ctx, `DELETE FROM test_aliases WHERE repository_id = $1 AND test_id = $2`, e.upload.Repository, t.ID); err != nil {
		return fmt.Errorf("forget an old name: %w", err)
	}
	var before caseRow
	if err := e.tx.GetContext(e.ctx, &before, `SELECT `+nameColumns+` FROM test_cases WHERE id = $1`, number); err != nil {
		return fmt.Errorf("read a test: %w", err)
	}
	if _, err := e.tx.ExecContext(e.ctx, `
		UPDATE test_cases SET test_id = $2, name = $3, parent = $4, file = $5, classname = $6, variant = $7 WHERE id = $1`,
		number, t.ID, clean(row.Name), clean(row.Parent), clean(row.File), clean(row.Classname), clean(row.Variant)); err != nil {
		return fmt.Errorf("give a test its old name again: %w", err)
	}
	var err error
	if e.renames, err = countRename(e.ctx, e.tx, e.upload.Repository); err != nil {
		return err
	}
	return noteName(e.ctx, e.tx, number, e.now, before.names(), t.Test, "NOT_RENAMED", "The old name ran again on the stable branch.")
}

// countRename counts that the number of a test of a repository is of another name
// from now on, so that nobody believes what they remember of it (testNumbers).
func countRename(ctx context.Context, tx *sqlx.Tx, repository int64) (renames int64, err error) {
	if err := tx.GetContext(ctx, &renames, `
		INSERT INTO test_settings AS s (repository_id, automatic, renames) VALUES ($1, false, 1)
		ON CONFLICT (repository_id) DO UPDATE SET renames = s.renames + 1 RETURNING s.renames`, repository); err != nil {
		return 0, fmt.Errorf("count a rename: %w", err)
	}
	return renames, nil
}

// nameColumns are those of caseRow that finding renamed tests needs.
const nameColumns = `id, test_id, name, parent, file, classname, variant, stable_since, stable_on`

// renames finds tests that go on under another name, in every repository in which
// tests appeared some days ago.
func (db *DB) renames(ctx context.Context, now time.Time) error {
	var repositories []int64
	if err := db.sql.SelectContext(ctx, &repositories, `
		SELECT DISTINCT repository_id FROM test_cases WHERE stable_since BETWEEN $1 AND $2`,
		day(now.AddDate(0, 0, -renameWindow)), day(now.AddDate(0, 0, -1))); err != nil {
		return fail("find repositories with new tests", err)
	}
	for _, r := range repositories {
		if err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error { return db.renamesOf(ctx, tx, r, now) }); err != nil {
			return fail(fmt.Sprintf("find renamed tests of repository %d", r), err)
		}
	}
	return nil
}

// renamesOf matches tests that ran on the stable branch all day yesterday, and did
// not long before, with those that did before and not yesterday.
func (db *DB) renamesOf(ctx context.Context, tx *sqlx.Tx, repository int64, now time.Time) error {
	if err := lockTests(ctx, tx, repository); err != nil {
		return err
	}
	yesterday, first := day(now.AddDate(0, 0, -1)), day(now.AddDate(0, 0, -renameWindow))
	var appeared, vanished []caseRow
	for _, of := range []struct {
		to    *[]caseRow
		where string
	}{
		{&appeared, `stable_since BETWEEN $2 AND $3 AND stable_on >= $3`},
		{&vanished, `stable_on >= $2::date - 1 AND stable_on < $3`},
	} {
		if err := tx.SelectContext(ctx, of.to, `SELECT `+nameColumns+` FROM test_cases WHERE repository_id = $1 AND `+of.where+` ORDER BY id LIMIT $4`,
			repository, first, yesterday, mostRenamed+1); err != nil {
			return fmt.Errorf("find tests that came and went: %w", err)
		}
	}
	if len(appeared) > mostRenamed || len(vanished) > mostRenamed {
		return nil
	}
	from, to := named(vanished), named(appeared)
	for _, r := range flaky.Renames(testsOf(vanished, from), testsOf(appeared, to)) {
		a, b := from[r.From], to[r.To]
		// The one ends where the other begins, or at a weekend before.
		if gap := b.StableSince.time().Sub(a.StableOn.time()); gap < 0 || gap > 3*24*time.Hour {
			continue
		}
		if err := db.rename(ctx, tx, repository, a, b, now); err != nil {
			return err
		}
	}
	return nil
}

// named are the tests by what they are called; nil for two of one name.
func named(rows []caseRow) map[flaky.Test]*caseRow {
	of := map[flaky.Test]*caseRow{}
	for i := range rows {
		if _, twice := of[rows[i].names()]; twice {
			of[rows[i].names()] = nil
			continue
		}
		of[rows[i].names()] = &rows[i]
	}
	return of
}

// testsOf are those of which there is only one of the name, in order.
func testsOf(rows []caseRow, of map[flaky.Test]*caseRow) []flaky.Test {
	var tests []flaky.Test
	for i := range rows {
		if of[rows[i].names()] != nil {
			tests = append(tests, rows[i].names())
		}
	}
	return tests
}

// rename lets a test go on under the name of another one, which it takes in: what
// is known of that one in its few days is added to its own history.
func (db *DB) rename(ctx context.Context, tx *sqlx.Tx, repository int64, from, to *caseRow, now time.Time) error {
	var rows []caseRow
	if err := tx.SelectContext(ctx, &rows, `SELECT `+judgedColumns+` FROM test_cases WHERE id IN ($1, $2) ORDER BY id = $2`, from.ID, to.ID); err != nil || len(rows) != 2 {
		return fmt.Errorf("read a renamed test: %w", err)
	}
	old, taken := &rows[0], &rows[1]
	var evidence []evidenceRow
	if err := tx.SelectContext(ctx, &evidence, `SELECT `+evidenceColumns+` FROM test_evidence WHERE case_id = $1 ORDER BY at`, to.ID); err != nil {
		return fmt.Errorf("read the evidence about a test: %w", err)
	}
	found := make([]flaky.Evidence, len(evidence))
	for i, r := range evidence {
		found[i] = r.evidence(to.TestID)
	}
	history := flaky.Joined(old.History.v, taken.History.v, found)
	for _, statement := range []string{
		`UPDATE test_failures f SET case_id = $1 WHERE case_id = $2 AND NOT EXISTS (SELECT 1 FROM test_failures o WHERE o.day = f.day AND o.upload_id = f.upload_id AND o.case_id = $1)`,
		`INSERT INTO test_evidence (case_id, kind, at, failed_upload, passed_upload, pr, fingerprint, found_at, crowded)
			SELECT $1::bigint, kind, at, failed_upload, passed_upload, pr, fingerprint, found_at, crowded FROM test_evidence WHERE case_id = $2 ON CONFLICT DO NOTHING`,
		`INSERT INTO test_fingerprints AS t (case_id, day, fingerprint, summary, count, last_at)
			SELECT $1::bigint, day, fingerprint, summary, count, last_at FROM test_fingerprints WHERE case_id = $2
			ON CONFLICT (case_id, day, fingerprint) DO UPDATE SET count = t.count + excluded.count, last_at = greatest(t.last_at, excluded.last_at)`,
		`INSERT INTO test_pulls (case_id, day, pr) SELECT $1::bigint, day, pr FROM test_pulls WHERE case_id = $2 ON CONFLICT DO NOTHING`,
		`UPDATE test_changes SET case_id = $1 WHERE case_id = $2`,
		`UPDATE test_aliases SET case_id = $1 WHERE case_id = $2`,
		`WITH taken AS (DELETE FROM test_cases WHERE id = $2
				RETURNING test_id, name, parent, file, classname, variant, codeowners, seen_on, stable_on, ticket, ticket_link)
			UPDATE test_cases t SET test_id = n.test_id, name = n.name, parent = n.parent, file = n.file, classname = n.classname, variant = n.variant,
				codeowners = n.codeowners, seen_on = greatest(t.seen_on, n.seen_on), stable_on = n.stable_on,
				ticket = CASE WHEN t.ticket = '' THEN n.ticket ELSE t.ticket END, ticket_link = CASE WHEN t.ticket = '' THEN n.ticket_link ELSE t.ticket_link END
			FROM taken n WHERE t.id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, from.ID, to.ID); err != nil {
			return fmt.Errorf("rename a test: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO test_aliases (repository_id, test_id, case_id, since) VALUES ($1, $2, $3, $4)
		ON CONFLICT (repository_id, test_id) DO UPDATE SET case_id = excluded.case_id, since = excluded.since`, repository, from.TestID, from.ID, stamp(now)); err != nil {
		return fmt.Errorf("keep the old name of a test: %w", err)
	}
	if _, err := countRename(ctx, tx, repository); err != nil {
		return err
	}
	if taken.Setting != string(flaky.Auto) { // the newer decision
		old.Setting, old.Owner, old.Reason, old.Actor, old.ExpiresAt = taken.Setting, taken.Owner, taken.Reason, taken.Actor, taken.ExpiresAt
	}
	if err := noteName(ctx, tx, from.ID, now, from.names(), to.names(), "RENAMED", "It vanished from the stable branch when the other one appeared there, and their names are alike."); err != nil {
		return err
	}
	rules, err := rulesOf(ctx, tx, repository)
	if err != nil {
		return err
	}
	counts, err := talliesOf(ctx, tx, "test_days", repository, []int64{from.ID}, now.Add(-flaky.Window), now)
	if err != nil {
		return err
	}
	old.TestID = to.TestID
	changes := old.judge(history, rules, counts[from.ID], now, 0)
	return db.storeJudged(ctx, tx, []caseRow{*old}, changes)
}

// noteName writes down that a test is called otherwise.
func noteName(ctx context.Context, tx *sqlx.Tx, number int64, now time.Time, before, after flaky.Test, code, reason string) error {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO test_changes (case_id, at, what, before, after, code, reason, actor, score)
		SELECT id, $2, 'name', $3, $4, $5, $6, '', score FROM test_cases WHERE id = $1`, number, stamp(now), wholeName(before), wholeName(after), code, reason); err != nil {
		return fmt.Errorf("note the name of a test: %w", err)
	}
	return nil
}

// wholeName is a test as a line shows it.
func wholeName(t flaky.Test) string {
	var parts []string
	for _, p := range []string{t.File, t.Parent, t.Classname, t.Name, t.Variant} {
		if p != "" {
			parts = append(parts, clean(flaky.Shown(p)))
		}
	}
	return strings.Join(parts, " › ")
}
