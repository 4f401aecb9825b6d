package db

import (
	"context"

	"signalbox/queue"
)

// Inbound is how many deliveries wait for a writer.
func (db *DB) Inbound() int { return len(db.inbound.waiting) }

// ReceiveAlone stores one delivery with nobody else's, to compare.
func (db *DB) ReceiveAlone(ctx context.Context, id, host string, repo int64, facts []queue.Fact) error {
	rows, err := rowsOfFacts(facts)
	if err == nil {
		_, err = db.receive(ctx, db.sql, []delivery{{ID: id, Host: host, HostID: repo, Facts: rows}})
	}
	return err
}
