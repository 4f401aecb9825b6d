package db

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// Backlog is what waits in the database, whosever it is: for the operator.
type Backlog struct {
	// Entries counts the active entries by state.
	Entries map[queue.EntryState]int64
	// Jobs counts the jobs that have not ended.
	Jobs []JobCount
	// Facts are not folded into a decision yet, or not routed to a queue.
	// Reports on commits that nobody knows are not counted.
	Facts Waiting
	// Untold is what subscribers that are switched on have not been told yet.
	Untold map[account.SubscriberKind]Waiting
}

// Waiting is how much waits, and how long what waits longest has waited.
type Waiting struct {
	N      int64
	Oldest time.Duration
}

// waitingRow is a Waiting as it is counted.
type waitingRow struct {
	Kind   account.SubscriberKind `json:"kind"`
	N      int64                  `json:"n"`
	Oldest stamp                  `json:"oldest"`
}

func (r waitingRow) at(now time.Time) Waiting {
	if r.Oldest.time().IsZero() {
		return Waiting{N: r.N}
	}
	return Waiting{r.N, max(0, now.Sub(r.Oldest.time()))}
}

// JobCount counts jobs of a kind in one of River's states.
type JobCount struct {
	Kind  string `json:"kind"`
	State string `json:"state"`
	N     int64  `json:"n"`
}

// Backlog looks at what waits.
func (db *DB) Backlog(ctx context.Context) (Backlog, error) {
	b := Backlog{Entries: map[queue.EntryState]int64{}}
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var states []struct {
			State queue.EntryState `json:"state"`
			N     int64            `json:"n"`
		}
		if err := tx.SelectContext(ctx, &states, `
			SELECT state, count(*) AS n FROM entries
			WHERE state NOT IN ('merged', 'failed', 'cancelled') GROUP BY state`); err != nil {
			return err
		}
		for _, s := range states {
			b.Entries[s.State] = s.N
		}
		b.Jobs = nil
		if err := tx.SelectContext(ctx, &b.Jobs, `
			SELECT kind, state, count(*) AS n FROM river_job
			WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
			GROUP BY kind, state ORDER BY kind, state`); err != nil {
			return err
		}
		var facts waitingRow
		if err := tx.GetContext(ctx, &facts, `
			SELECT count(*) AS n, min(i.received_at) AS oldest FROM (
				SELECT received_at FROM inbox WHERE routed_at IS NULL AND NOT waits
				UNION ALL
				SELECT i.received_at FROM inbox_routes u JOIN inbox i ON i.id = u.inbox_id) i`); err != nil {
			return err
		}
		var untold []waitingRow
		if err := tx.SelectContext(ctx, &untold, `
			SELECT s.kind, count(*) AS n, min(d.since) AS oldest
			-- OFFSET 0: of subscribers only those are read that something waits for
			FROM event_deliveries d CROSS JOIN LATERAL (
				SELECT kind FROM subscribers WHERE id = d.subscriber_id AND enabled OFFSET 0) s
			WHERE d.state = 'waiting' GROUP BY s.kind`); err != nil {
			return err
		}
		now := db.clock()
		b.Facts, b.Untold = facts.at(now), map[account.SubscriberKind]Waiting{}
		for _, r := range untold {
			b.Untold[r.Kind] = r.at(now)
		}
		return nil
	})
	return b, fail("look at what waits", err)
}
