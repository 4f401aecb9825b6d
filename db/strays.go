package db

import (
	"context"
	"time"

	"github.com/lib/pq"

	"signalbox/queue"
)

// straysAtOnce bounds how many branches of one repository Strays names.
const straysAtOnce = 100

// Tested lists the connected repositories where a run was asked for since that
// moment, on which a test branch may still arrive; and of those with older runs the
// ones whose turn it is, of so many turns in which each comes once.
func (db *DB) Tested(ctx context.Context, since time.Time, turn, turns int64) ([]queue.Repo, error) {
	var rows []repoRow
	if err := db.sql.SelectContext(ctx, &rows, selectRepository+`
		WHERE r.installation IS NOT NULL AND EXISTS (SELECT 1 FROM queues q
			WHERE q.repository_id = r.id AND EXISTS (SELECT 1 FROM runs u
				WHERE u.queue_id = q.id AND (u.asked_at > $1 OR r.id % $3 = $2)))
		ORDER BY r.id`, since, turn, turns); err != nil {
		return nil, fail("list repositories where runs were asked for", err)
	}
	list := make([]queue.Repo, len(rows))
	for i, r := range rows {
		list[i] = r.repo(r.ID)
	}
	return list, nil
}

// Stray is a test branch that should not be there.
type Stray struct {
	Queue  queue.ID
	Branch string
}

// Strays are those of the branches of a repository whose runs ended before that
// moment, and which no group stands on any more. Of a branch that no run of the
// repository is known to have had it says nothing: it may be anybody's. Of many
// it names the first that ended.
func (db *DB) Strays(ctx context.Context, repo queue.RepoID, branches []string, before time.Time) ([]Stray, error) {
	var rows []struct {
		QueueID int64  `json:"queue_id"`
		Branch  string `json:"branch"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT u.queue_id, u.branch FROM runs u JOIN queues q ON q.id = u.queue_id
		WHERE q.repository_id = $1 AND u.branch = ANY($2)
			AND u.state NOT IN ('building', 'testing') AND (u.hedge = '' OR u.state IN ('stopped', 'interrupted')) AND u.ended_at < $3
			AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.queue_id = u.queue_id AND g.id = u.group_id AND g.run = u.id)
		ORDER BY u.ended_at, u.id LIMIT $4`, int64(repo), pq.Array(branches), before, straysAtOnce); err != nil {
		return nil, fail("find test branches that are left over", err)
	}
	list := make([]Stray, len(rows))
	for i, r := range rows {
		list[i] = Stray{queue.ID(r.QueueID), r.Branch}
	}
	return list, nil
}
