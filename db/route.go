package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

const (
	// routeAtOnce bounds one routing transaction.
	routeAtOnce = 1000
	// keepUnknown is how long a report on an unknown commit waits for a run.
	keepUnknown = time.Hour
	// keepEnded is for how long after its end a run still gets reports.
	keepEnded = 24 * time.Hour
)

// Route hands facts that name no queue, and that were not handed on when they
// came (see receive), to the queues that they are about:
//
//	pull request   where it has an active entry, is in the stack of one, has a
//	               submission not yet decided on, or may still land late
//	commit         where it is that of a run, live or ended within a day, or the
//	               head of an active entry or of one in its stack
//	branch         the branch's own queue, and where a run of the last day tests on it
//	everybody      all queues of the repository
//
// A command becomes a job. A report on a commit that is nobody's is put aside
// for an hour: a run may be about to have it. What else is nobody's is read by
// nobody. Route may run at once in any number of programs.
func (db *DB) Route(ctx context.Context, now time.Time) error {
	now = now.UTC().Truncate(time.Microsecond)
	for {
		var n int
		err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) (err error) {
			n, err = db.routeSome(ctx, tx, now)
			return err
		})
		if err != nil {
			return fail("route facts", err)
		}
		if n < routeAtOnce {
			break
		}
	}
	// Only now, after the commit: see the package comment.
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error { return adoptLive(ctx, tx, now) })
	if err == nil {
		db.gather(forRoute, db.gathering.most, 0)
	}
	return fail("route facts", err)
}

// newFact is a fact that nobody has routed.
type newFact struct {
	ID           int64  `json:"id"`
	RepositoryID int64  `json:"repository_id"`
	Kind         string `json:"kind"`
	Body         []byte `json:"body"`
}

func (db *DB) routeSome(ctx context.Context, tx *sqlx.Tx, now time.Time) (int, error) {
	command := queue.CommandAsked{}.Kind()
	var facts []newFact
	if err := tx.SelectContext(ctx, &facts, `
		SELECT id, repository_id, kind, CASE WHEN kind = $2 THEN body END AS body FROM inbox
		WHERE routed_at IS NULL AND NOT waits
		ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`, routeAtOnce, command); err != nil {
		return 0, fmt.Errorf("take new facts: %w", err)
	}
	if len(facts) == 0 {
		return 0, nil
	}
	var ids []int64
	var commands []newFact
	for _, f := range facts {
		if f.Kind == command {
			commands = append(commands, f)
		}
		ids = append(ids, f.ID)
	}
	if err := db.insertJobs(ctx, tx, db.answerers(commands)); err != nil {
		return 0, err
	}
	return len(facts), findQueues(ctx, tx, ids, now)
}

// answerers are the jobs that answer commands.
func (db *DB) answerers(commands []newFact) []queue.Action {
	var actions []queue.Action
	for _, f := range commands {
		fact, err := queue.DecodeFact(f.Kind, f.Body)
		asked, ok := fact.(queue.CommandAsked)
		if err != nil || !ok {
			db.dropped.Add(1)
			db.log.Error("a command was dropped", "fact", f.ID, "error", err)
			continue
		}
		actions = append(actions, queue.AnswerCommand{Repo: queue.RepoID(f.RepositoryID), Command: asked})
	}
	return actions
}

// concerned says whether a fact f concerns a queue q of its repository: see Route. $2
// is the moment since which a run must have ended. It asks with (SELECT true …
// LIMIT 1) and not with EXISTS, for which Postgres may read the whole table.
const concerned = `
	q.repository_id = f.repository_id AND f.kind <> 'command_asked' AND (
		f.everybody
		OR (f.pr IS NOT NULL AND (
			(SELECT true FROM entries e WHERE e.queue_id = q.id AND e.pr = f.pr
				AND e.state NOT IN ('merged', 'failed', 'cancelled') LIMIT 1)
			OR (SELECT true FROM stack_layers l WHERE l.queue_id = q.id AND l.pr = f.pr LIMIT 1)
			OR (SELECT true FROM inbox s JOIN inbox_routes u ON u.inbox_id = s.id AND u.queue_id = q.id
				WHERE s.repository_id = f.repository_id AND s.pr = f.pr AND s.kind = 'submitted' LIMIT 1)
			OR q.given_up @> jsonb_build_array(jsonb_build_object('pr', f.pr))))
		OR (f.commit IS NOT NULL AND (
			(SELECT true FROM runs r WHERE r.queue_id = q.id AND r.commit = f.commit AND r.commit <> ''
				AND (r.state IN ('building', 'testing') OR r.ended_at > $2) LIMIT 1)
			OR (SELECT true FROM entries e WHERE e.queue_id = q.id AND e.head = f.commit
				AND e.state NOT IN ('merged', 'failed', 'cancelled') LIMIT 1)
			OR (SELECT true FROM entries e WHERE e.queue_id = q.id AND e.bound_head = f.commit
				AND e.state NOT IN ('merged', 'failed', 'cancelled') LIMIT 1)
			OR (SELECT true FROM stack_layers l WHERE l.queue_id = q.id AND l.head = f.commit LIMIT 1)))
		OR (f.branch IS NOT NULL AND (
			q.branch = f.branch
			OR (SELECT true FROM runs r WHERE r.queue_id = q.id AND r.branch = f.branch
				AND (r.state IN ('building', 'testing') OR r.ended_at > $2) LIMIT 1))))`

// findQueues writes the routes of facts and marks them.
func findQueues(ctx context.Context, tx *sqlx.Tx, ids []int64, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO inbox_routes (queue_id, inbox_id)
		SELECT q.id, f.id FROM inbox f JOIN queues q ON `+concerned+`
		WHERE f.id = ANY($1)
		ON CONFLICT DO NOTHING`, pq.Array(ids), now.Add(-keepEnded)); err != nil {
		return fmt.Errorf("find the queues of facts: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE inbox i SET
			waits = s.unknown,
			routed_at = CASE WHEN s.unknown THEN NULL ELSE $2::timestamptz END
		FROM (SELECT n.id, n.commit IS NOT NULL
				AND NOT EXISTS (SELECT 1 FROM inbox_routes u JOIN queues q ON q.id = u.queue_id
					WHERE u.inbox_id = n.id AND q.repository_id = n.repository_id) AS unknown
			FROM inbox n WHERE n.id = ANY($1)) s
		WHERE i.id = s.id`, pq.Array(ids), now); err != nil {
		return fmt.Errorf("mark facts: %w", err)
	}
	return nil
}

// adopt routes facts that wait for these commits to the queue whose runs have
// them. It says IS TRUE so that Postgres, which may not know yet how many facts
// there are, never finds them by their age and then looks at all of an hour.
func adopt(ctx context.Context, tx *sqlx.Tx, q queue.ID, commits []string, now time.Time) error {
	if len(commits) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		WITH adopted AS (
			UPDATE inbox i SET waits = false, routed_at = $3
			WHERE i.repository_id = (SELECT repository_id FROM queues WHERE id = $1)
				AND i.commit = ANY($2) AND i.waits AND (i.received_at > $4) IS TRUE
			RETURNING i.id
		)
		INSERT INTO inbox_routes (queue_id, inbox_id) SELECT $1, id FROM adopted ON CONFLICT DO NOTHING`,
		int64(q), pq.Array(commits), now, now.Add(-keepUnknown)); err != nil {
		return fmt.Errorf("adopt reports on new runs: %w", err)
	}
	return nil
}

// adoptLive does so for all live runs. It costs a look-up for each of them,
// however many facts wait.
func adoptLive(ctx context.Context, tx *sqlx.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `
		WITH wanted AS MATERIALIZED (
			SELECT q.repository_id, q.id AS queue_id, r.commit FROM runs r JOIN queues q ON q.id = r.queue_id
			WHERE r.state IN ('building', 'testing') AND r.commit <> ''
		), hits AS (
			-- OFFSET 0 has them looked up one by one.
			SELECT i.id, w.queue_id FROM wanted w CROSS JOIN LATERAL (SELECT id FROM inbox
				WHERE repository_id = w.repository_id AND commit = w.commit AND waits AND (received_at > $2) IS TRUE
				OFFSET 0 FOR UPDATE) i
		), routed AS (
			INSERT INTO inbox_routes (queue_id, inbox_id) SELECT queue_id, id FROM hits ON CONFLICT DO NOTHING
		)
		UPDATE inbox SET waits = false, routed_at = $1 WHERE id IN (SELECT id FROM hits)`,
		now, now.Add(-keepUnknown)); err != nil {
		return fmt.Errorf("adopt reports on live runs: %w", err)
	}
	return nil
}
