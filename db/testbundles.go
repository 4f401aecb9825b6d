package db

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/flaky"
	"signalbox/queue"
)

// AddBundle keeps the bundle that was put at an address, and asks for its
// reading. The same again changes nothing, and fresh is false. ErrExists:
// something else was put there. ErrNotFound: the repository is gone.
func (db *DB) AddBundle(ctx context.Context, address uuid.UUID, u flaky.Upload, content [32]byte, body []byte) (id int64, fresh bool, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		// Whoever puts the same a moment later waits here for our end.
		taken, err := tx.ExecContext(ctx, `
			INSERT INTO test_bundles (id, repository_id, content, put_at) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`,
			address, u.Repository, content[:], stamp(u.Received))
		if err != nil {
			return missingIs(err, queue.ErrNotFound)
		}
		if n, err := taken.RowsAffected(); err != nil || n == 0 {
			var row struct {
				Content  []byte `json:"content"`
				UploadID int64  `json:"upload_id"`
			}
			if err := tx.GetContext(ctx, &row, `SELECT content, coalesce(upload_id, 0) AS upload_id FROM test_bundles WHERE id = $1`, address); err != nil {
				return err
			}
			if !bytes.Equal(row.Content, content[:]) {
				return queue.ErrExists
			}
			id, fresh = row.UploadID, false
			return nil
		}
		var key [32]byte // as good as any: of the address
		copy(key[:], address[:])
		if id, fresh, err = db.addUpload(ctx, tx, u, key, body); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE test_bundles SET upload_id = $2 WHERE id = $1`, address, id)
		return err
	})
	return id, fresh, fail("keep a bundle of test reports", err)
}

// unwrap takes over what a bundle says about itself. known is the upload with the
// same reports of the same attempt of the same job, if there is one; else 0.
func (e *testEntry) unwrap() (known int64, err error) {
	b := e.read.Bundle
	if b == nil {
		return 0, nil
	}
	e.upload.Sent = b.Sent
	var ids []int64
	if err := e.tx.SelectContext(e.ctx, &ids, `SELECT id FROM test_uploads WHERE repository_id = $1 AND key = $2 AND id <> $3`,
		e.upload.Repository, b.Reports[:], e.upload.ID); err != nil {
		return 0, fmt.Errorf("find out whether reports came before: %w", err)
	}
	if len(ids) > 0 {
		return ids[0], nil
	}
	if _, err := e.tx.ExecContext(e.ctx, `UPDATE test_uploads SET key = $2 WHERE id = $1`, e.upload.ID, b.Reports[:]); err != nil {
		return 0, fmt.Errorf("note which reports came: %w", err)
	}
	return 0, nil
}

// QuarantineOn reports whether failures of tests may be excused in a repository.
func (db *DB) QuarantineOn(ctx context.Context, repo queue.RepoID) (on bool, err error) {
	err = db.sql.GetContext(ctx, &on, `
		SELECT EXISTS (SELECT 1 FROM test_settings WHERE repository_id = $1 AND automatic)
			OR EXISTS (SELECT 1 FROM test_cases WHERE repository_id = $1 AND quarantined_at IS NOT NULL)`, int64(repo))
	return on, fail("read whether a repository has quarantine", err)
}

// AllQuarantined are the ids of all quarantined tests of a repository.
func (db *DB) AllQuarantined(ctx context.Context, repo queue.RepoID, now time.Time) (ids []string, err error) {
	err = db.sql.SelectContext(ctx, &ids, `
		SELECT test_id::text FROM test_cases
		WHERE repository_id = $1 AND quarantined_at IS NOT NULL AND (setting <> 'ALWAYS_QUARANTINE' OR expires_at > $2)
		ORDER BY quarantined_at DESC, id DESC`, int64(repo), stamp(now))
	return ids, fail("list quarantined tests", err)
}

// Excused says of each failure whether it is excused: whether its test is
// quarantined, and whether the failure is one that was seen before, as far as its
// text tells.
func (db *DB) Excused(ctx context.Context, repo queue.RepoID, asked []flaky.AskedFailure, now time.Time) (excused []bool, err error) {
	var ids []uuid.UUID
	for i := range asked {
		ids = append(ids, asked[i].Tests...)
	}
	var rows []caseRow
	examples := map[int64][]flaky.Example{}
	var rules flaky.Rules
	var old []struct {
		CaseID int64     `json:"case_id"`
		TestID uuid.UUID `json:"test_id"`
	}
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		rows, old = nil, nil
		if rules, err = rulesOf(ctx, tx, int64(repo)); err != nil {
			return err
		}
		if err := tx.SelectContext(ctx, &old, `SELECT case_id, test_id FROM test_aliases WHERE repository_id = $1 AND test_id = ANY($2::uuid[])`,
			int64(repo), pq.Array(ids)); err != nil {
			return err
		}
		numbers := make([]int64, len(old))
		for i, o := range old {
			numbers[i] = o.CaseID
		}
		if err := tx.SelectContext(ctx, &rows, `
			SELECT `+judgedColumns+` FROM test_cases WHERE repository_id = $1 AND (test_id = ANY($2::uuid[]) OR id = ANY($3)) AND quarantined_at IS NOT NULL`,
			int64(repo), pq.Array(ids), pq.Array(numbers)); err != nil {
			return err
		}
		examples, err = examplesOf(ctx, tx, rows, now)
		return err
	})
	if err != nil {
		return nil, fail("find quarantined tests", err)
	}
	byNumber, byID := map[int64]*caseRow{}, map[uuid.UUID]*caseRow{}
	for i := range rows {
		byNumber[rows[i].ID], byID[rows[i].TestID] = &rows[i], &rows[i]
	}
	for _, o := range old {
		if row := byNumber[o.CaseID]; row != nil && byID[o.TestID] == nil {
			byID[o.TestID] = row
		}
	}
	excused = make([]bool, len(asked))
	for i := range asked {
		for _, id := range asked[i].Tests {
			row := byID[id]
			if row == nil {
				continue
			}
			q := rules.Decide(row.History.v, row.override(), now)
			excused[i] = q.On && (q.Setting == flaky.Always || asked[i].Text == "" || row.History.v.KnowsText(asked[i].Text, examples[row.ID], now))
			break
		}
	}
	return excused, nil
}

// examplesOf are the newest failures of tests, one of each fingerprint.
func examplesOf(ctx context.Context, tx *sqlx.Tx, cases []caseRow, now time.Time) (map[int64][]flaky.Example, error) {
	numbers := make([]int64, len(cases))
	for i := range cases {
		numbers[i] = cases[i].ID
	}
	var rows []struct {
		CaseID      int64  `json:"case_id"`
		Fingerprint int64  `json:"fingerprint"`
		Kind        string `json:"kind"`
		Message     string `json:"message"`
		Body        string `json:"body"`
	}
	if err := tx.SelectContext(ctx, &rows, `
		SELECT DISTINCT ON (case_id, fingerprint) case_id, fingerprint, kind, message, left(body, 4000) AS body FROM test_failures
		WHERE case_id = ANY($1) AND day >= $2 ORDER BY case_id, fingerprint, at DESC`, pq.Array(numbers), day(now.Add(-flaky.KnownFor))); err != nil {
		return nil, fmt.Errorf("read how quarantined tests fail: %w", err)
	}
	examples := map[int64][]flaky.Example{}
	for _, r := range rows {
		examples[r.CaseID] = append(examples[r.CaseID], flaky.Example{Fingerprint: flaky.Fingerprint(r.Fingerprint), Failure: flaky.Failure{Type: r.Kind, Message: r.Message, Text: r.Body}})
	}
	return examples, nil
}

// PublicRepository is the repository that lets everybody upload under an id, and
// its organisation's slug. ErrNotFound: none does.
func (db *DB) PublicRepository(ctx context.Context, public string) (repo queue.Repo, slug string, err error) {
	var row struct {
		ID   int64  `json:"repository_id"`
		Slug string `json:"slug"`
	}
	if err := db.sql.GetContext(ctx, &row, `
		SELECT s.repository_id, o.slug FROM test_settings s JOIN repositories r ON r.id = s.repository_id JOIN organizations o ON o.id = r.org_id
		WHERE s.public_id = $1`, clean(public)); err != nil {
		return repo, "", fail("find a repository by its public id", err)
	}
	repo, err = db.Repo(ctx, queue.RepoID(row.ID))
	return repo, row.Slug, err
}

// SetPublicUploads says whether everybody may upload test results of a
// repository, and under which id, "" if they may not. It stays the same until it
// is switched off.
func (db *DB) SetPublicUploads(ctx context.Context, repo queue.RepoID, on bool) (public string, err error) {
	var fresh *string
	if on {
		id := strings.ToLower(rand.Text()[:8])
		fresh = &id
	}
	err = db.sql.GetContext(ctx, &public, `
		INSERT INTO test_settings AS s (repository_id, automatic, public_id) VALUES ($1, false, $2)
		ON CONFLICT (repository_id) DO UPDATE SET public_id = CASE WHEN $2 IS NULL THEN NULL ELSE coalesce(s.public_id, $2) END
		RETURNING coalesce(public_id, '')`, int64(repo), fresh)
	return public, fail("set public uploads", missingIs(err, queue.ErrNotFound))
}
