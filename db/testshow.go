package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"signalbox/flaky"
	"signalbox/queue"
)

// shownUpload is an upload as it is shown, without what failed.
type shownUpload struct {
	ID       int64                  `json:"id"`
	Received stamp                  `json:"received_at"`
	Entered  stamp                  `json:"entered_at"`
	Sent     document[flaky.Sent]   `json:"sent"`
	Kind     string                 `json:"kind"`
	At       stamp                  `json:"at"`
	Complete bool                   `json:"complete"`
	Tests    int                    `json:"tests"`
	Failed   int                    `json:"failed"`
	Skipped  int                    `json:"skipped"`
	Notes    document[[]flaky.Note] `json:"notes"`
}

const uploadColumns = `id, received_at, entered_at, sent, coalesce(run->>'Kind', '') AS kind, at, complete, tests, failed, skipped, notes`

func (r *shownUpload) details(repo queue.RepoID) flaky.UploadDetails {
	return flaky.UploadDetails{
		Upload:  flaky.Upload{ID: r.ID, Repository: int64(repo), Received: time.Time(r.Received).UTC(), Sent: r.Sent.v},
		Entered: time.Time(r.Entered), Kind: flaky.Kind(r.Kind), Complete: r.Complete, Tests: r.Tests, Failed: r.Failed, Skipped: r.Skipped, Notes: r.Notes.v,
	}
}

// TestUpload is an upload of a repository with what came of it. ErrNotFound: the
// repository has no such upload.
func (db *DB) TestUpload(ctx context.Context, repo queue.RepoID, id int64) (d flaky.UploadDetails, err error) {
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row shownUpload
		if err := tx.GetContext(ctx, &row, `SELECT `+uploadColumns+` FROM test_uploads WHERE repository_id = $1 AND id = $2`, int64(repo), id); err != nil {
			return err
		}
		d = row.details(repo)
		if d.Entered.IsZero() {
			return nil
		}
		d.Failures, err = failuresShown(ctx, tx, id, time.Time(row.At))
		return err
	})
	return d, fail(fmt.Sprintf("read test report %d", id), err)
}

// failuresShown are the failures of an upload, those that block first.
func failuresShown(ctx context.Context, tx *sqlx.Tx, upload int64, at time.Time) ([]flaky.UploadFailure, error) {
	var rows []struct {
		TestID    uuid.UUID `json:"test_id"`
		Name      string    `json:"name"`
		Parent    string    `json:"parent"`
		File      string    `json:"file"`
		Classname string    `json:"classname"`
		Variant   string    `json:"variant"`
		Summary   string    `json:"summary"`
		Passed    bool      `json:"passed"`
		Excused   bool      `json:"excused"`
		Code      string    `json:"code"`
	}
	if err := tx.SelectContext(ctx, &rows, `
		SELECT t.test_id, t.name, t.parent, t.file, t.classname, t.variant, f.summary, f.passed, f.excused, f.code
		FROM test_failures f JOIN test_cases t ON t.id = f.case_id WHERE f.day = $1 AND f.upload_id = $2
		ORDER BY f.excused, f.case_id LIMIT $3`, day(at), upload, flaky.MaxShownFailures); err != nil {
		return nil, err
	}
	failures := make([]flaky.UploadFailure, len(rows))
	for i, r := range rows {
		failures[i] = flaky.UploadFailure{Test: flaky.Test{Name: r.Name, Parent: r.Parent, File: r.File, Classname: r.Classname, Variant: r.Variant},
			ID: r.TestID, Summary: r.Summary, Passed: r.Passed, Excused: r.Excused, Code: flaky.QuarantineCode(r.Code)}
	}
	return failures, nil
}
