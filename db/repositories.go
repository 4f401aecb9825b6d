package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// repoRow is a repository as queue.Repo shows it.
type repoRow struct {
	ID    int64 `json:"id"`
	OrgID int64 `json:"org_id"`
	repoColumns
}

// selectRepository reads a repoRow; the condition follows.
const selectRepository = `SELECT r.id, r.org_id,` + selectRepo + ` FROM repositories r` + fromRepo

// Repo is a repository with its present name and installation. ErrNotFound:
// there is none with that number.
func (db *DB) Repo(ctx context.Context, id queue.RepoID) (queue.Repo, error) {
	var row repoRow
	if err := db.sql.GetContext(ctx, &row, selectRepository+` WHERE r.id = $1`, int64(id)); err != nil {
		return queue.Repo{}, fail(fmt.Sprintf("read repository %d", id), err)
	}
	return row.repo(row.ID), nil
}

// Repository finds a repository by name, in any case; an old name works until
// another repository takes it. ErrNotFound: there is none, or not one of org.
func (db *DB) Repository(ctx context.Context, org int64, host, owner, name string) (queue.Repo, error) {
	row, err := findRepository(ctx, db.sql, host, owner, name)
	if err == nil && (row == nil || row.OrgID != org) {
		err = queue.ErrNotFound
	}
	if err != nil {
		return queue.Repo{}, fail("find repository", err)
	}
	return row.repo(row.ID), nil
}

// OrganizationOf is the organisation that a repository belongs to, for callers
// that do not speak for one. ErrNotFound: there is no such repository, or the
// App is not installed on it.
func (db *DB) OrganizationOf(ctx context.Context, host, owner, name string) (int64, error) {
	row, err := findRepository(ctx, db.sql, host, owner, name)
	if err == nil && (row == nil || row.Installation == 0) {
		err = queue.ErrNotFound
	}
	if err != nil {
		return 0, fail("find the organisation of a repository", err)
	}
	return row.OrgID, nil
}

// selectNamed is the id of the repository that has the host, owner and name $1,
// $2 and $3 or, when none has them now, that was the latest to have had them.
const selectNamed = `
	SELECT n.id FROM (
		SELECT id, 1 AS rank, NULL::timestamptz AS until FROM repositories
		WHERE host = $1 AND lower(owner) = lower($2) AND lower(name) = lower($3)
		UNION ALL
		SELECT repository_id, 2, until FROM repository_names
		WHERE host = $1 AND lower(owner) = lower($2) AND lower(name) = lower($3)
	) n ORDER BY n.rank, n.until DESC LIMIT 1`

// findRepository finds a repository of any organisation by its name or, when
// no other has it now, by one that it had: the latest to have had it. It
// returns nil when there is none.
func findRepository(ctx context.Context, q sqlx.QueryerContext, host, owner, name string) (*repoRow, error) {
	var rows []repoRow
	if err := sqlx.SelectContext(ctx, q, &rows, selectRepository+` WHERE r.id = (`+selectNamed+`)`,
		strings.ToLower(clean(host)), clean(owner), clean(name)); err != nil {
		return nil, fmt.Errorf("find repository: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

// Comment is the id of the sticky comment on a pull request; 0 = not known.
func (db *DB) Comment(ctx context.Context, repo queue.RepoID, pr int64) (int64, error) {
	var ids []int64
	if err := db.sql.SelectContext(ctx, &ids, `
		SELECT comment_id FROM sticky_comments WHERE repository_id = $1 AND pr = $2`, int64(repo), pr); err != nil {
		return 0, fail(fmt.Sprintf("find the comment on #%d", pr), err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return ids[0], nil
}

// SetComment remembers the id of the sticky comment on a pull request.
func (db *DB) SetComment(ctx context.Context, repo queue.RepoID, pr int64, comment int64) error {
	_, err := db.sql.ExecContext(ctx, `
		INSERT INTO sticky_comments (repository_id, pr, comment_id) VALUES ($1, $2, $3)
		ON CONFLICT (repository_id, pr) DO UPDATE SET comment_id = excluded.comment_id`, int64(repo), pr, comment)
	if err != nil {
		return fail(fmt.Sprintf("remember the comment on #%d", pr), missingIs(err, queue.ErrNotFound))
	}
	return nil
}

// UnfinishedCheck is the commit that carries our unfinished status check of a
// pull request in a queue; "" = none.
func (db *DB) UnfinishedCheck(ctx context.Context, q queue.ID, pr int64) (string, error) {
	var commits []string
	err := db.sql.SelectContext(ctx, &commits, `SELECT commit FROM unfinished_checks WHERE queue_id = $1 AND pr = $2`, int64(q), pr)
	if err != nil || len(commits) == 0 {
		return "", fail(fmt.Sprintf("find the unfinished check of #%d", pr), err)
	}
	return commits[0], nil
}

// SetUnfinishedCheck remembers it; "" forgets it. ErrNotFound: no such queue.
func (db *DB) SetUnfinishedCheck(ctx context.Context, q queue.ID, pr int64, commit string) error {
	doing := fmt.Sprintf("remember the unfinished check of #%d", pr)
	if commit == "" {
		_, err := db.sql.ExecContext(ctx, `DELETE FROM unfinished_checks WHERE queue_id = $1 AND pr = $2`, int64(q), pr)
		return fail(doing, err)
	}
	_, err := db.sql.ExecContext(ctx, `
		INSERT INTO unfinished_checks (queue_id, pr, commit) VALUES ($1, $2, $3)
		ON CONFLICT (queue_id, pr) DO UPDATE SET commit = excluded.commit`, int64(q), pr, clean(commit))
	return fail(doing, missingIs(err, queue.ErrNotFound))
}
