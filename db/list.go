package db

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// Entries lists entries of a queue, active and ended ones, as the page asks.
func (db *DB) Entries(ctx context.Context, q queue.ID, page queue.EntryPage) ([]queue.Entry, error) {
	var rows []entryRow
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+entryColumns+` FROM entries
		WHERE queue_id = $1
			AND ($2 = '' OR state = $2)
			AND ($3::timestamptz IS NULL OR state_changed_at >= $3)
			AND ($4::timestamptz IS NULL OR state_changed_at < $4)
			AND ($5 = 0 OR pr < $5)
		ORDER BY pr DESC LIMIT $6`,
		int64(q), string(page.State), stamp(page.Since), stamp(page.Until), page.Below, page.Take); err != nil {
		return nil, fail(fmt.Sprintf("list entries of queue %d", q), err)
	}
	return entriesOf(rows), nil
}

// listedColumns are what a list of a queue shows of an entry.
const listedColumns = `e.id, state, state_changed_at, pr, title, head, bound_head, base, author_login, priority, priority_given, no_batch`

// Listed lists every active entry in queue order: those in groups of the line,
// those in parts of bisections, free pending ones, then those that are not
// ready. A list can be long: of each entry only what a list shows is read and
// filled in, the fields of listedColumns. A list that was
// read is kept until the queue's turn changes, and given to all who ask: nobody
// may change it. ErrNotFound: there is no such queue any more.
func (db *DB) Listed(ctx context.Context, q queue.Queue) ([]queue.Entry, error) {
	if entries, ok := db.lists.find(q.ID, q.Turn); ok {
		return entries, nil
	}
	entries, err := db.listing.ask(ctx, q.ID, func(ctx context.Context) ([]queue.Entry, error) { return db.list(ctx, q.ID) })
	return entries, fail(fmt.Sprintf("list the entries of queue %d", q.ID), err)
}

// list reads a list and keeps it under the turn of the same moment.
func (db *DB) list(ctx context.Context, q queue.ID) (entries []queue.Entry, err error) {
	var turn int64
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &turn, `SELECT turn FROM queues WHERE id = $1`, int64(q)); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, enqueued(listedColumns), int64(q))
		if err != nil {
			return err
		}
		defer rows.Close()
		entries = []queue.Entry{}
		for rows.Next() {
			var e queue.Entry
			if err := rows.Scan(&e.ID, &e.State, &e.StateChangedAt, &e.Number, &e.Title, &e.Head, &e.BoundHead, &e.Base,
				&e.Author.Login, &e.Priority, &e.PriorityGiven, &e.NoBatch); err != nil {
				return err
			}
			e.StateChangedAt = e.StateChangedAt.UTC()
			entries = append(entries, e)
		}
		return rows.Err()
	})
	if err == nil {
		db.lists.keep(q, turn, entries)
	}
	return entries, err
}

// keepListed bounds the entries in the lists that are kept in memory: some
// 25 MB.
const keepListed = 20_000

// listCache keeps the newest list of each queue that was read. What is in a
// list changes with a decision only, and each saved decision takes a new turn
// (see saveQueue), so a list is right as long as its turn is the queue's.
type listCache struct {
	mu    sync.Mutex
	lists map[queue.ID]keptList
	size  int // of all of them
}

type keptList struct {
	turn    int64
	entries []queue.Entry
}

func (c *listCache) find(q queue.ID, turn int64) ([]queue.Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.lists[q]
	return l.entries, ok && l.turn == turn
}

// keep adds a list. When there are too many it forgets all others: who needs
// them reads them again.
func (c *listCache) keep(q queue.ID, turn int64, entries []queue.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.lists[q]
	if known && old.turn >= turn {
		return // somebody has read a newer one
	}
	c.size -= old.cost()
	fresh := keptList{turn, entries}
	if c.lists == nil || c.size+fresh.cost() > keepListed {
		c.lists, c.size = map[queue.ID]keptList{}, 0
	}
	c.lists[q] = fresh
	c.size += fresh.cost()
}

// cost is what a list counts for: an empty one takes room too.
func (l keptList) cost() int {
	if l.entries == nil {
		return 0
	}
	return len(l.entries) + 1
}

// Whole is a queue at one moment with all its active entries, which can be
// many: for a picture of it, not for a decision. It knows how long tests
// usually take here. ErrNotFound: no such queue.
func (db *DB) Whole(ctx context.Context, id queue.ID) (*queue.Snapshot, error) {
	var s *queue.Snapshot
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row queueRow
		err := tx.GetContext(ctx, &row, selectQueue+` WHERE q.id = $1`, int64(id))
		if err == nil {
			s, err = db.readWindow(ctx, tx, row, names{everybody: true, people: true}, db.clock())
		}
		if err != nil {
			return err
		}
		return db.readTargets(ctx, tx, s)
	})
	if err != nil {
		return nil, fail(fmt.Sprintf("read all of queue %d", id), err)
	}
	return s, nil
}

// OwnSecret is a secret of this installation, 32 random bytes that are made
// when they are first asked for and are the same for all programs on this
// database from then on.
func (db *DB) OwnSecret(ctx context.Context, name string) ([]byte, error) {
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, fmt.Errorf("make a secret: %w", err)
	}
	return db.FirstSecret(ctx, name, fresh)
}

// FirstSecret keeps a secret of this installation unless there is one by that
// name, and returns the one that there is then. It has 32 bytes at least.
func (db *DB) FirstSecret(ctx context.Context, name string, fresh []byte) (secret []byte, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO own_secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, clean(name), fresh); err != nil {
			return err
		}
		return tx.GetContext(ctx, &secret, `SELECT secret FROM own_secrets WHERE name = $1`, clean(name))
	})
	return secret, fail("read a secret of this installation", err)
}
