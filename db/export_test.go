package db

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// Inserting inserts jobs and calls meanwhile before the commit.
func (db *DB) Inserting(ctx context.Context, actions []queue.Action, meanwhile func()) error {
	return db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if err := db.insertJobs(ctx, tx, actions); err != nil {
			return err
		}
		meanwhile()
		return nil
	})
}

// Untold are the job queues of which nobody is told before a transaction is
// committed: they are in memory, and not in Postgres's queue of notifications.
func Untold(db *DB) []string {
	db.uncommitted.mu.Lock()
	defer db.uncommitted.mu.Unlock()
	var all []string
	for _, what := range db.uncommitted.of {
		all = append(all, what.jobs...)
	}
	slices.Sort(all)
	return all
}

// HappenedLately is the statement of Measures about the last hour, for a test
// of how Postgres goes about it.
var HappenedLately = happenedLately

// HappenedSince is the one that counts on.
var HappenedSince = happenedSince
