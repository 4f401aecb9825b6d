package db

import (
	"context"
	"time"

	"signalbox/queue"
)

// GatherFor has facts gather for as long after each decision that lets them.
func GatherFor(db *DB, d time.Duration) { db.gathering.each, db.gathering.most = d, d }

// Together is a delivery as it is stored with others.
type Together struct {
	ID    string
	Facts []queue.Fact
}

// ReceiveTogether stores deliveries about a repository as a writer does.
func ReceiveTogether(ctx context.Context, db *DB, host string, repo int64, list ...Together) (repeated []string, err error) {
	deliveries := make([]delivery, len(list))
	for i, d := range list {
		rows, err := rowsOfFacts(d.Facts)
		if err != nil {
			return nil, err
		}
		deliveries[i] = delivery{ID: d.ID, Host: host, HostID: repo, Facts: rows}
	}
	r, err := db.receive(ctx, db.sql, deliveries)
	return r.Repeated, err
}
