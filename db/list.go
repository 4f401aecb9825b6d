package db

import (
	"context"
	"crypto/rand"
	"fmt"

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

// Listed is Enqueued for lists, which can be long: of each entry only what a
// list shows is read and filled in, the fields of listedColumns.
func (db *DB) Listed(ctx context.Context, q queue.ID) ([]queue.Entry, error) {
	doing := fmt.Sprintf("list the entries of queue %d", q)
	rows, err := db.sql.QueryContext(ctx, enqueued(listedColumns), int64(q))
	if err != nil {
		return nil, fail(doing, err)
	}
	defer rows.Close()
	entries := []queue.Entry{}
	for rows.Next() {
		var e queue.Entry
		if err := rows.Scan(&e.ID, &e.State, &e.StateChangedAt, &e.Number, &e.Title, &e.Head, &e.BoundHead, &e.Base,
			&e.Author.Login, &e.Priority, &e.PriorityGiven, &e.NoBatch); err != nil {
			return nil, fail(doing, err)
		}
		e.StateChangedAt = e.StateChangedAt.UTC()
		entries = append(entries, e)
	}
	return entries, fail(doing, rows.Err())
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
			s, err = db.readWindow(ctx, tx, row, names{everybody: true}, db.clock())
		}
		if err != nil {
			return err
		}
		if s.TypicalTest, err = typicalTest(ctx, tx, id, db.clock()); err != nil {
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
	var secret []byte
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO own_secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, clean(name), fresh); err != nil {
			return err
		}
		return tx.GetContext(ctx, &secret, `SELECT secret FROM own_secrets WHERE name = $1`, clean(name))
	})
	return secret, fail("read a secret of this installation", err)
}
