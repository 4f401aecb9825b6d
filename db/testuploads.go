package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/flaky"
	"signalbox/queue"
)

// AddUpload keeps a report until it is read, and asks for its reading with a
// job. key is made of its content, its job and the attempt: the same again
// changes nothing, and fresh is false. ErrNotFound: there is no such repository.
func (db *DB) AddUpload(ctx context.Context, u flaky.Upload, key [32]byte, body []byte) (id int64, fresh bool, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		id, fresh, err = db.addUpload(ctx, tx, u, key, body)
		return err
	})
	return id, fresh, fail("keep a test report", err)
}

func (db *DB) addUpload(ctx context.Context, tx *sqlx.Tx, u flaky.Upload, key [32]byte, body []byte) (id int64, fresh bool, err error) {
	sent, err := encode(u.Sent)
	if err != nil {
		return 0, false, err
	}
	kept := db.zip.EncodeAll(body, nil)
	zipped := len(kept) < len(body) // else it came compressed
	if !zipped {
		kept = body
	}
	var ids []int64
	if err := tx.SelectContext(ctx, &ids, `
		INSERT INTO test_uploads (repository_id, key, received_at, at, sent, body, zipped, commit)
		VALUES ($1, $2, $3, $3, $4, $5, $6, $7) ON CONFLICT (repository_id, key) DO NOTHING RETURNING id`,
		u.Repository, key[:], stamp(u.Received), sent, kept, zipped, clean(u.Commit)); err != nil {
		return 0, false, missingIs(err, queue.ErrNotFound)
	}
	if len(ids) > 0 {
		return ids[0], true, db.insertJobs(ctx, tx, []queue.Action{flaky.ReadUpload{Upload: ids[0]}})
	}
	err = tx.GetContext(ctx, &id, `SELECT id FROM test_uploads WHERE repository_id = $1 AND key = $2`, u.Repository, key[:])
	return id, false, err
}

// uploadRow is an upload that waits.
type uploadRow struct {
	ID         int64                `json:"id"`
	Repository int64                `json:"repository_id"`
	Org        string               `json:"slug"`
	Repo       string               `json:"repo"`
	Received   stamp                `json:"received_at"`
	Sent       document[flaky.Sent] `json:"sent"`
	Body       []byte               `json:"body"`
	Zipped     bool                 `json:"zipped"`
}

// WaitingUpload is a report that is kept and not yet read, and its body.
// ErrNotFound: there is none, or it was read.
func (db *DB) WaitingUpload(ctx context.Context, id int64) (flaky.Upload, []byte, error) {
	var row uploadRow
	err := db.sql.GetContext(ctx, &row, `
		SELECT u.id, u.repository_id, o.slug, r.host || '/' || r.owner || '/' || r.name AS repo, u.received_at, u.sent, u.body, u.zipped
		FROM test_uploads u JOIN repositories r ON r.id = u.repository_id JOIN organizations o ON o.id = r.org_id
		WHERE u.id = $1 AND u.entered_at IS NULL`, id)
	if err != nil {
		return flaky.Upload{}, nil, fail(fmt.Sprintf("read test report %d", id), err)
	}
	if row.Zipped {
		if row.Body, err = db.unzip.DecodeAll(row.Body, nil); err != nil {
			return flaky.Upload{}, nil, fmt.Errorf("unpack test report %d: %w", id, err)
		}
	}
	return flaky.Upload{ID: row.ID, Repository: row.Repository, Org: row.Org, Repo: row.Repo, Received: time.Time(row.Received).UTC(), Sent: row.Sent.v}, row.Body, nil
}

// place finds out what an upload tested. Whether its commit is one of the
// queue's is decided by the queue's runs, never by what the upload says of its
// branch; and what comes from a fork is a pull request whatever it says.
func place(ctx context.Context, tx *sqlx.Tx, u flaky.Upload) (flaky.Run, []int64, error) {
	r := flaky.Run{ID: u.ID, At: u.Received, Check: u.Check, Kind: flaky.Other, Branch: u.Branch, Commit: u.Commit, Tree: u.Tree,
		Head: u.Head, Base: u.Base, Trusted: u.Trusted && !u.Fork, Infrastructure: u.Infrastructure}
	var runs []struct {
		Commit  string                 `json:"commit"`
		Branch  string                 `json:"branch"`
		Tree    string                 `json:"tree"`
		Chain   document[[]queue.Step] `json:"chain"`
		Members int                    `json:"members"`
	}
	if u.Commit != "" && !u.Fork {
		if err := tx.SelectContext(ctx, &runs, `
			SELECT r.commit, q.branch, r.tree, r.chain, cardinality(r.members) AS members FROM runs r JOIN queues q ON q.id = r.queue_id
			WHERE q.repository_id = $1 AND r.commit IN ($2, $3) AND r.commit <> '' ORDER BY r.asked_at DESC LIMIT 1`, u.Repository, clean(u.Commit), clean(u.Head)); err != nil {
			return r, nil, fmt.Errorf("find the queue's run of a commit: %w", err)
		}
	}
	if len(runs) > 0 {
		chain := runs[0].Chain.v
		r.Kind, r.Branch = flaky.Queue, runs[0].Branch
		if runs[0].Commit == u.Commit { // else it is the head of what was checked out, merged into the base
			r.Tree = runs[0].Tree
		}
		var tested []int64
		for i, step := range chain {
			r.PullRequests = append(r.PullRequests, int(step.PR))
			if i >= len(chain)-runs[0].Members {
				tested = append(tested, step.PR)
			}
		}
		return r, tested, nil
	}
	if u.Pull > 0 || u.Fork {
		r.Kind = flaky.PullRequest
		if r.Head == "" {
			r.Head = u.Commit
		}
		if u.Pull > 0 {
			r.PullRequests = []int{u.Pull}
			return r, []int64{int64(u.Pull)}, nil
		}
		return r, nil, nil
	}
	var stable bool
	if err := tx.GetContext(ctx, &stable, `
		SELECT EXISTS (SELECT 1 FROM repositories WHERE id = $1 AND default_branch = $2 AND $2 <> '')
			OR EXISTS (SELECT 1 FROM queues WHERE repository_id = $1 AND branch = $2)`, u.Repository, clean(u.Branch)); err != nil {
		return r, nil, fmt.Errorf("find out whether a branch is stable: %w", err)
	}
	if stable {
		r.Kind = flaky.Stable
	}
	return r, nil, nil
}
