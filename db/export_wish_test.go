package db

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// StoreWishesTogether writes wishes about a pull request, one for each of the
// queues, as one batch, and returns what their senders would be told.
func (db *DB) StoreWishesTogether(repo queue.RepoID, fact queue.Fact, queues ...queue.ID) ([]error, error) {
	var batch []*wish
	for _, q := range queues {
		w, err := newWish(repo, q, fact)
		if err != nil {
			return nil, err
		}
		w.left = true
		batch = append(batch, w)
	}
	db.storeWishes(batch)
	told := make([]error, len(batch))
	for i, w := range batch {
		told[i] = <-w.stored
	}
	return told, nil
}

// Telling tells news in a transaction that ends with an error, or with none.
func (db *DB) Telling(ctx context.Context, what queue.News, end error) error {
	return db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		db.notify(tx, what)
		return end
	})
}

// Patient makes wishes wait in memory for as long as a decision takes.
func (db *DB) Patient() { db.wishes.patience = time.Hour }

// Wishing is how many wishes wait in memory.
func (db *DB) Wishing() (n int) {
	db.wishes.mu.Lock()
	defer db.wishes.mu.Unlock()
	for _, list := range db.wishes.waiting {
		n += len(list)
	}
	return n
}
