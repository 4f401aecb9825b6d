package db

import (
	"context"
	"fmt"

	"signalbox/queue"
)

// Queues lists every queue, by host, owner, name and branch.
func (db *DB) Queues(ctx context.Context) ([]queue.Queue, error) { return db.ListQueues(ctx) }

// QueueNamed finds a queue by its repository's name, in any case, and its
// branch, whichever organisation it belongs to. ErrNotFound: there is none.
func (db *DB) QueueNamed(ctx context.Context, host, owner, name, branch string) (queue.Queue, error) {
	repo, err := findRepository(ctx, db.sql, host, owner, name)
	if err != nil {
		return queue.Queue{}, fail("find queue", err)
	}
	if repo == nil {
		return queue.Queue{}, fmt.Errorf("find queue: %w", queue.ErrNotFound)
	}
	var row queueRow
	if err := db.sql.GetContext(ctx, &row, selectQueue+` WHERE q.repository_id = $1 AND q.branch = $2`, repo.ID, clean(branch)); err != nil {
		return queue.Queue{}, fail("find queue", err)
	}
	return row.queue(), nil
}

// Counts counts the active entries of every queue by their state; what is
// missing is zero.
func (db *DB) Counts(ctx context.Context) (map[queue.ID]map[queue.EntryState]int64, error) {
	var rows []struct {
		Queue int64  `json:"queue_id"`
		State string `json:"state"`
		N     int64  `json:"n"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT queue_id, state, count(*) AS n FROM entries
		WHERE state NOT IN ('merged', 'failed', 'cancelled') GROUP BY queue_id, state`); err != nil {
		return nil, fail("count entries", err)
	}
	counts := map[queue.ID]map[queue.EntryState]int64{}
	for _, r := range rows {
		if counts[queue.ID(r.Queue)] == nil {
			counts[queue.ID(r.Queue)] = map[queue.EntryState]int64{}
		}
		counts[queue.ID(r.Queue)][queue.EntryState(r.State)] = r.N
	}
	return counts, nil
}

// Ended lists entries that are in a final state, the latest ending first,
// limit at most.
func (db *DB) Ended(ctx context.Context, q queue.ID, limit int) ([]queue.Entry, error) {
	var rows []entryRow
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+entryColumns+` FROM entries
		WHERE queue_id = $1 AND state IN ('merged', 'failed', 'cancelled')
		ORDER BY state_changed_at DESC, pr DESC LIMIT $2`, int64(q), limit); err != nil {
		return nil, fail("list what has ended", err)
	}
	return entriesOf(rows), nil
}

// Turns are the numbers of the last decision on every queue: one that has
// changed has another. They only grow, over all queues.
func (db *DB) Turns(ctx context.Context) (map[queue.ID]int64, error) {
	var rows []struct {
		ID   int64 `json:"id"`
		Turn int64 `json:"turn"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `SELECT id, turn FROM queues`); err != nil {
		return nil, fail("read the turns of queues", err)
	}
	turns := make(map[queue.ID]int64, len(rows))
	for _, r := range rows {
		turns[queue.ID(r.ID)] = r.Turn
	}
	return turns, nil
}
