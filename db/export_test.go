package db

import (
	"context"

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

// HappenedLately is the statement of Measures about the last hour, for a test
// of how Postgres goes about it.
var HappenedLately = happenedLately

// HappenedSince is the one that counts on.
var HappenedSince = happenedSince
