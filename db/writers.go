package db

import (
	"context"
	"fmt"
	"sync"
)

// writers are the way into the inbox of what comes one by one, from senders who
// wait until it is stored: a writer takes all that is waiting and stores it
// together. Nobody waits for company: what comes alone is written at once, and
// what comes while the writers are busy shares the next commit.
type writers[T any] struct {
	atOnce  int // write at the same time: one while another waits for its commit
	start   sync.Once
	waiting chan T
}

// hand gives something to the writers, whom the first call starts. write stores
// what a writer has taken, with what waits behind it, and answers the senders.
// The writers end with Close.
func (w *writers[T]) hand(ctx context.Context, db *DB, item T, write func(first T)) error {
	w.start.Do(func() {
		for range w.atOnce {
			db.wg.Go(func() { w.run(db, write) })
		}
	})
	select {
	case w.waiting <- item:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a writer: %w", ctx.Err())
	case <-db.ctx.Done():
		return fmt.Errorf("wait for a writer: the database is closed: %w", db.ctx.Err())
	}
}

func (w *writers[T]) run(db *DB, write func(first T)) {
	for {
		select {
		case <-db.ctx.Done():
			return
		case first := <-w.waiting:
			write(first)
		}
	}
}

// committed waits for what a writer says of something that it was handed. When
// ctx ends first, nobody knows: it may yet be stored.
func committed[R any](ctx context.Context, db *DB, said <-chan R) (R, error) {
	var none R
	select {
	case r := <-said:
		return r, nil
	case <-ctx.Done():
		return none, fmt.Errorf("wait for the commit: %w", ctx.Err())
	case <-db.ctx.Done():
		return none, fmt.Errorf("wait for the commit: the database is closed: %w", db.ctx.Err())
	}
}
