package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// notReadyAgain is longer than package queue lets pass before it reads a pull
// request again that is not ready.
const notReadyAgain = 10 * time.Minute

// ResyncSoon has everything read from the host again that somebody waits for:
// for whoever starts, because messages may have been missed. Decisions ask for
// it at their next turn.
func (db *DB) ResyncSoon(ctx context.Context, now time.Time) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		// Queues first: a decision locks in this order too.
		if _, err := tx.ExecContext(ctx, `
			UPDATE queues q SET resync_due = $1, wake_at = $1
			WHERE EXISTS (SELECT 1 FROM entries WHERE queue_id = q.id AND state NOT IN ('merged', 'failed', 'cancelled'))`,
			stamp(now)); err != nil {
			return fmt.Errorf("mark queues: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE entries SET refresh_after = $1, refresh_due = $1
			WHERE state = 'not_ready' AND group_id = 0 AND refresh_asked IS NULL`,
			stamp(now.Add(-notReadyAgain))); err != nil {
			return fmt.Errorf("mark entries: %w", err)
		}
		db.notify(tx, queue.TimesChanged)
		return nil
	})
	return fail("have everything read again", err)
}

// Listening is a repository that takes commands, and since when.
type Listening struct {
	Repo  queue.Repo
	Since time.Time
}

// Listening lists the connected repositories that have a queue which takes
// commands, with the time since which comments there are remembered: when the
// first of those was made, or a program that remembers them took over.
func (db *DB) Listening(ctx context.Context) ([]Listening, error) {
	var rows []struct {
		repoRow
		Since stamp `json:"since"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT r.id, r.org_id,`+selectRepo+`, q.since FROM repositories r`+fromRepo+`
		JOIN (SELECT repository_id, min(heard_since) AS since FROM queues WHERE commands_enabled GROUP BY repository_id) q ON q.repository_id = r.id
		WHERE r.installation IS NOT NULL ORDER BY r.id`); err != nil {
		return nil, fail("list repositories that take commands", err)
	}
	list := make([]Listening, len(rows))
	for i, r := range rows {
		list[i] = Listening{r.repo(r.ID), time.Time(r.Since)}
	}
	return list, nil
}

// LastDelivery is when the newest delivery of the host was received; zero if
// there is none.
func (db *DB) LastDelivery(ctx context.Context) (time.Time, error) {
	var at stamp
	if err := db.sql.GetContext(ctx, &at, `SELECT max(received_at) FROM deliveries`); err != nil {
		return time.Time{}, fail("find the last delivery", err)
	}
	return time.Time(at), nil
}
