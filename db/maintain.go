package db

import (
	"context"
	"fmt"
	"time"
)

// keepInbox is how long deliveries' ids and folded facts are kept. GitHub can
// be asked to deliver again for several days.
const keepInbox = 8 * 24 * time.Hour

// keepTargets is how long impacted targets are kept that no active entry has
// at its head: CI may upload them long before anybody submits the pull
// request, and the details of test runs show them.
const keepTargets = 30 * 24 * time.Hour

// giveUpDeliveries is when a delivery is given up that could not be tried,
// because those before it failed, or its subscriber answers nobody. It is
// longer than the attempts of one take.
const giveUpDeliveries = 26 * time.Hour

// keepDeliveries is how long deliveries to subscribers can be looked at, and
// asked for again.
const keepDeliveries = 30 * 24 * time.Hour

// Maintain removes what has been kept for long enough, and makes the timeline's
// partitions of this month and the next two. It is to be called at start and then
// every hour or so, by any number of programs. What is known of tests is kept by
// a job: see KeepTestsSoon.
func (db *DB) Maintain(ctx context.Context, now time.Time) error {
	now = now.UTC()
	for _, step := range []struct {
		doing, statement string
		args             []any
	}{
		{"remove old deliveries", `DELETE FROM deliveries WHERE received_at < $1`, []any{now.Add(-keepInbox)}},
		{"remove reports on commits that nobody knows", `DELETE FROM inbox WHERE waits AND received_at < $1`, []any{now.Add(-keepUnknown)}},
		{"remove expired sessions", `DELETE FROM sessions WHERE expires_at < $1`, []any{now}},
		{"remove old facts", `
			DELETE FROM inbox i WHERE i.received_at < $1 AND i.routed_at IS NOT NULL
				AND NOT EXISTS (SELECT 1 FROM inbox_routes u JOIN queues q ON q.id = u.queue_id
					WHERE u.inbox_id = i.id AND q.repository_id = i.repository_id)`, []any{now.Add(-keepInbox)}},
		{"give up deliveries that nobody took for a day", `
			UPDATE event_deliveries SET state = 'given_up', next_at = NULL WHERE state = 'waiting' AND since < $1`, []any{now.Add(-giveUpDeliveries)}},
		{"remove old deliveries to subscribers", `DELETE FROM event_deliveries WHERE state <> 'waiting' AND since < $1`, []any{now.Add(-keepDeliveries)}},
		{"remove old impacted targets", `
			DELETE FROM impacted_targets t WHERE t.created_at < $1
				AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.head = t.head AND e.pr = t.pr
					AND e.state NOT IN ('merged', 'failed', 'cancelled'))
				AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.bound_head = t.head AND e.pr = t.pr
					AND e.state NOT IN ('merged', 'failed', 'cancelled'))`, []any{now.Add(-keepTargets)}},
	} {
		if _, err := db.sql.ExecContext(ctx, step.statement, step.args...); err != nil {
			return fail(step.doing, err)
		}
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for ahead := range 3 {
		if _, err := db.sql.ExecContext(ctx, `SELECT timeline_month($1)`, month.AddDate(0, ahead, 0)); err != nil {
			return fail(fmt.Sprintf("make the timeline of %s", month.AddDate(0, ahead, 0).Format("2006-01")), err)
		}
	}
	return nil
}
