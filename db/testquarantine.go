package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// SetAutomatic switches automatic quarantine of a repository on or off, and
// writes it into the organisation's audit log in the name of
// account.AuthorOf(ctx). What follows for its tests follows at once, and is the
// actor's doing.
func (db *DB) SetAutomatic(ctx context.Context, repo queue.RepoID, on bool, actor string, now time.Time) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if err := lockTests(ctx, tx, int64(repo)); err != nil {
			return err
		}
		rules, err := rulesOf(ctx, tx, int64(repo))
		if err != nil {
			return err
		}
		var row repoRow
		if err := tx.GetContext(ctx, &row, selectRepository+` WHERE r.id = $1`, int64(repo)); err != nil {
			return err
		}
		if rules.Automatic == on {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO test_settings (repository_id, automatic) VALUES ($1, $2)
			ON CONFLICT (repository_id) DO UPDATE SET automatic = excluded.automatic`, int64(repo), on); err != nil {
			return err
		}
		return audit(ctx, tx, row.OrgID, 0, account.Audit{
			At: now, By: account.AuthorOf(ctx), Deed: account.QuarantineSwitched, Subject: row.repo(row.ID).String(),
			Changes: []account.Changed{{Name: "automatic", From: onOff(!on), To: onOff(on)}},
		})
	})
	if err != nil {
		return fail("switch automatic quarantine", err)
	}
	return fail("judge tests after automatic quarantine was switched", db.tend(ctx, int64(repo), clean(actor), now))
}

// SetQuarantine stores a person's decision about a test, which o.Check has
// found to be complete, and writes down who decided. It returns what the test
// is then. ErrNotFound: the repository has no such test.
func (db *DB) SetQuarantine(ctx context.Context, repo queue.RepoID, id uuid.UUID, o flaky.Override, now time.Time) (q flaky.Quarantine, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if err := lockTests(ctx, tx, int64(repo)); err != nil {
			return err
		}
		rules, err := rulesOf(ctx, tx, int64(repo))
		if err != nil {
			return err
		}
		var row caseRow
		if err := tx.GetContext(ctx, &row, `SELECT `+judgedColumns+` FROM test_cases WHERE id = `+namedCase, int64(repo), id); err != nil {
			return err
		}
		var change changeRow
		q, change = row.decide(o, rules, now)
		return db.storeJudged(ctx, tx, []caseRow{row}, []changeRow{change})
	})
	return q, fail(fmt.Sprintf("set the quarantine of test %s", id), err)
}

// LinkTicket notes where somebody keeps track of a test's repair: what its
// tracker calls the ticket, and the address, which may be unknown ("").
// ErrNotFound: the repository has no such test.
func (db *DB) LinkTicket(ctx context.Context, repo queue.RepoID, id uuid.UUID, ticket, link string) error {
	var found []int64
	err := db.sql.SelectContext(ctx, &found, `
		UPDATE test_cases SET ticket = $3, ticket_link = $4 WHERE id = `+namedCase+` RETURNING id`, int64(repo), id, clean(ticket), clean(link))
	if err == nil && len(found) == 0 {
		err = queue.ErrNotFound
	}
	return fail(fmt.Sprintf("link a ticket to test %s", id), err)
}

// mostShown bounds the evidence and the changes that are shown of a test: the
// newest.
const mostShown = 200

// TestHistory is the evidence about a test and all that changed, the newest
// first. ErrNotFound: the repository has no such test.
func (db *DB) TestHistory(ctx context.Context, repo queue.RepoID, id uuid.UUID) (proofs []flaky.Proof, changes []flaky.Change, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		proofs, changes = nil, nil
		number, err := caseNumber(ctx, tx, repo, id)
		if err != nil {
			return err
		}
		var rows []struct {
			evidenceRow
			Summary      string `json:"summary"`
			FailedCommit string `json:"failed_commit"`
			PassedCommit string `json:"passed_commit"`
			FailedLink   string `json:"failed_link"`
			PassedLink   string `json:"passed_link"`
		}
		if err := tx.SelectContext(ctx, &rows, `
			SELECT e.kind, e.at, e.failed_upload, e.passed_upload, e.pr, e.fingerprint, coalesce(e.crowded, false) AS crowded,
				coalesce((SELECT f.summary FROM test_failures f WHERE f.case_id = e.case_id AND f.upload_id = e.failed_upload AND f.day = (e.at AT TIME ZONE 'UTC')::date), '') AS summary,
				coalesce(f.commit, '') AS failed_commit, coalesce(p.commit, '') AS passed_commit,
				coalesce(f.sent->>'link', '') AS failed_link, coalesce(p.sent->>'link', '') AS passed_link
			FROM test_evidence e LEFT JOIN test_uploads f ON f.id = e.failed_upload LEFT JOIN test_uploads p ON p.id = e.passed_upload
			WHERE e.case_id = $1 ORDER BY e.at DESC, e.failed_upload DESC, e.kind LIMIT $2`, number, mostShown); err != nil {
			return err
		}
		for _, r := range rows {
			proofs = append(proofs, flaky.Proof{
				Evidence: r.evidence(id), Summary: r.Summary, FailedCommit: r.FailedCommit, PassedCommit: r.PassedCommit, FailedLink: r.FailedLink, PassedLink: r.PassedLink,
			})
		}
		var lines []changeRow
		if err := tx.SelectContext(ctx, &lines, `
			SELECT case_id, at, what, before, after, code, reason, actor, upload_id, score FROM test_changes WHERE case_id = $1 ORDER BY id DESC LIMIT $2`, number, mostShown); err != nil {
			return err
		}
		for _, c := range lines {
			changes = append(changes, c.change())
		}
		return nil
	})
	return proofs, changes, fail(fmt.Sprintf("read the history of test %s", id), err)
}
