package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// CreateQueue makes a queue in state running: see rest.Store.
func (db *DB) CreateQueue(ctx context.Context, org int64, host, owner, name, branch string, settings queue.Settings, now time.Time) (queue.Queue, error) {
	now = now.UTC().Truncate(time.Microsecond)
	var created queue.Queue
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		repo, err := db.noteRepository(ctx, tx, org, host, owner, name, now)
		if err != nil {
			return err
		}
		row := rowOfQueue(&queue.Queue{
			Key: uuid.NewString(), Repo: queue.Repo{ID: repo}, Branch: branch, State: queue.Running, Settings: settings, CreatedAt: now,
			Preflight: queue.Preflight{Due: now}, // its set-up is looked at first
		})
		row.WakeAt = stamp(now)
		id, err := insertQueue(ctx, tx, row)
		if err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &row, selectQueue+` WHERE q.id = $1`, id); err != nil {
			return fmt.Errorf("read the new queue: %w", err)
		}
		created = row.queue()
		db.notify(tx, queue.TimesChanged|queue.QueueChanged)
		return audit(ctx, tx, org, id, account.Audit{At: now, By: account.AuthorOf(ctx), Deed: account.QueueCreated, Subject: subjectOf(&created)})
	})
	return created, fail("create queue", err)
}

// noteRepository finds the repository of a new queue, or notes its name under
// the organisation until it is connected. A name that another organisation has
// merely noted does not stand in the way of the one that is the owner's: see
// Connect, which would end that note too.
func (db *DB) noteRepository(ctx context.Context, tx *sqlx.Tx, org int64, host, owner, name string, now time.Time) (queue.RepoID, error) {
	if err := lockRepositories(ctx, tx); err != nil {
		return 0, err
	}
	known, err := findRepository(ctx, tx, host, owner, name)
	switch {
	case err != nil:
		return 0, err
	case known != nil && known.OrgID == org:
		return queue.RepoID(known.ID), nil
	case known != nil && strings.EqualFold(known.Owner, owner) && strings.EqualFold(known.Name, name):
		var slug string
		if err := tx.GetContext(ctx, &slug, `SELECT slug FROM organizations WHERE id = $1`, org); err != nil {
			return 0, fmt.Errorf("read organisation: %w", err)
		}
		if known.HostID != 0 || slug != account.Slug(owner) {
			return 0, queue.ErrNotFound
		}
		if err := db.evict(ctx, tx, known.ID, org); err != nil {
			return 0, err
		}
	}
	// Nobody has the name now; that somebody else's repository once had it
	// is no matter.
	var id int64
	if err := tx.GetContext(ctx, &id, `
		INSERT INTO repositories (org_id, host, owner, name, default_branch, created_at)
		VALUES ($1, $2, $3, $4, '', $5) RETURNING id`,
		org, strings.ToLower(clean(host)), clean(owner), clean(name), now); err != nil {
		return 0, fmt.Errorf("note repository: %w", err)
	}
	return queue.RepoID(id), nil
}

// insertQueue writes a new queue's row. ErrExists: the branch has one.
func insertQueue(ctx context.Context, tx *sqlx.Tx, row queueRow) (id int64, err error) {
	text, err := encode([]queueRow{row})
	if err != nil {
		return 0, err
	}
	err = tx.GetContext(ctx, &id, `
		INSERT INTO queues (key, repository_id, branch, state, state_why,
			concurrency, bisection_concurrency, testing_timeout_minutes, pending_failure_depth,
			can_optimistically_merge, batch, batching_max_wait_time_minutes, batching_min_size,
			mode, comments_enabled, commands_enabled, create_prs_for_testing_branches,
			status_check_enabled, required_statuses, direct_merge_mode, optimization_mode,
			merge_method, chosen_landing_mode, not_ready_timeout_hours, label_commands_enabled,
			enqueueing_label, state_labels_enabled, extension_enabled, speculation, wanted_mode,
			target_commit, target_tree, target_version, target_epoch, target_doubted,
			target_hints, target_read_asked, target_missing,
			line, parts, landed, landing, given_up, bisections, bisected, stamp, runs, groups, landings,
			resync_due, resync_runs, created_at, heard_since, preflight, wake_at, turn)
		SELECT key, repository_id, branch, state, state_why,
			concurrency, bisection_concurrency, testing_timeout_minutes, pending_failure_depth,
			can_optimistically_merge, batch, batching_max_wait_time_minutes, batching_min_size,
			mode, comments_enabled, commands_enabled, create_prs_for_testing_branches,
			status_check_enabled, required_statuses, direct_merge_mode, optimization_mode,
			merge_method, chosen_landing_mode, not_ready_timeout_hours, label_commands_enabled,
			enqueueing_label, state_labels_enabled, extension_enabled, speculation, wanted_mode,
			target_commit, target_tree, target_version, target_epoch, target_doubted,
			target_hints, target_read_asked, target_missing,
			line, parts, landed, landing, given_up, bisections, bisected, stamp, runs, groups, landings,
			resync_due, resync_runs, created_at, created_at, preflight, wake_at, nextval('queue_turns')
		FROM json_populate_recordset(NULL::queues, $1)
		ON CONFLICT (repository_id, branch) DO NOTHING RETURNING id`, text)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, queue.ErrExists
	}
	if err != nil {
		return 0, fmt.Errorf("insert queue: %w", err)
	}
	return id, nil
}

// DeleteQueue removes a queue and its history: see rest.Store.
func (db *DB) DeleteQueue(ctx context.Context, org int64, host, owner, name, branch string) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		row, err := findQueue(ctx, tx, org, host, owner, name, branch)
		if err != nil {
			return err
		}
		// No decision from here on, and no new fact for it.
		if err := tx.GetContext(ctx, &row.ID, `SELECT id FROM queues WHERE id = $1 FOR UPDATE`, row.ID); err != nil {
			return fmt.Errorf("lock queue: %w", err)
		}
		// A submission that nobody has decided on counts: its sender waits.
		var busy bool
		if err := tx.GetContext(ctx, &busy, `
			SELECT EXISTS (SELECT 1 FROM entries WHERE queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled'))
				OR EXISTS (SELECT 1 FROM inbox_routes u JOIN inbox i ON i.id = u.inbox_id WHERE u.queue_id = $1 AND i.kind = 'submitted')`,
			row.ID); err != nil {
			return fmt.Errorf("look for active entries: %w", err)
		}
		if busy {
			return queue.ErrNotEmpty
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM queues WHERE id = $1`, row.ID); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		gone := row.queue()
		return audit(ctx, tx, org, row.ID, account.Audit{At: db.clock(), By: account.AuthorOf(ctx), Deed: account.QueueDeleted, Subject: subjectOf(&gone)})
	})
	db.recentQueues.forget()
	return fail("delete queue", err)
}

// queueName is how people name a queue.
type queueName struct {
	org                       int64
	host, owner, name, branch string
}

// FindQueue finds a queue by repository (see Repository) and branch. Callers
// who ask at the same time may be given the same one: nobody may change what
// its fields refer to.
func (db *DB) FindQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	q, err := db.queues.ask(ctx, queueName{org, host, owner, name, branch}, func(ctx context.Context) (queue.Queue, error) {
		row, err := findQueue(ctx, db.sql, org, host, owner, name, branch)
		return row.queue(), err
	})
	return q, fail("find queue", err)
}

// RecentQueue is FindQueue as it was within the last second, for a Wish: it is
// not granted where the queue is gone. One on whose repository the host does not
// let us work is not remembered.
func (db *DB) RecentQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	named := queueName{org, host, owner, name, branch}
	if q, ok := db.recentQueues.find(named); ok {
		return q, nil
	}
	asked := time.Now()
	q, err := db.FindQueue(ctx, org, host, owner, name, branch)
	if err == nil && q.Repo.Installation != 0 {
		db.recentQueues.keep(named, q, asked)
	}
	return q, err
}

func findQueue(ctx context.Context, q sqlx.QueryerContext, org int64, host, owner, name, branch string) (queueRow, error) {
	var row queueRow
	err := sqlx.GetContext(ctx, q, &row, selectQueue+`
		WHERE q.repository_id = (`+selectNamed+`) AND q.branch = $4 AND r.org_id = $5`,
		strings.ToLower(clean(host)), clean(owner), clean(name), clean(branch), org)
	return row, err
}

// ListQueues lists every queue, in the order of their repositories' names and
// branches.
func (db *DB) ListQueues(ctx context.Context) ([]queue.Queue, error) {
	var rows []queueRow
	if err := db.sql.SelectContext(ctx, &rows, selectQueue+` ORDER BY r.host, lower(r.owner), lower(r.name), q.branch`); err != nil {
		return nil, fail("list queues", err)
	}
	queues := make([]queue.Queue, len(rows))
	for i, row := range rows {
		queues[i] = row.queue()
	}
	return queues, nil
}

// QueueFor finds the queue of a branch. ErrNotFound: there is none.
func (db *DB) QueueFor(ctx context.Context, repo queue.RepoID, branch string) (queue.ID, error) {
	var id int64
	err := db.sql.GetContext(ctx, &id, `SELECT id FROM queues WHERE repository_id = $1 AND branch = $2`, int64(repo), clean(branch))
	return queue.ID(id), fail("find the queue of a branch", err)
}

// QueuesWith lists the queues where a pull request has an active entry, or is
// in the stack of one.
func (db *DB) QueuesWith(ctx context.Context, repo queue.RepoID, pr int64) ([]queue.ID, error) {
	var ids []int64
	if err := db.sql.SelectContext(ctx, &ids, `
		SELECT q.id FROM queues q
		WHERE q.repository_id = $1 AND (
			EXISTS (SELECT 1 FROM entries e WHERE e.queue_id = q.id AND e.pr = $2 AND e.state NOT IN ('merged', 'failed', 'cancelled'))
			OR EXISTS (SELECT 1 FROM stack_layers l WHERE l.queue_id = q.id AND l.pr = $2))
		ORDER BY q.id`, int64(repo), pr); err != nil {
		return nil, fail(fmt.Sprintf("find the queues with #%d", pr), err)
	}
	return renumbered[queue.ID](ids), nil
}
