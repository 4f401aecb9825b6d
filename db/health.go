package db

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// hoursAdded adds to queue_hours what was added to the timelines of the queues
// $1 since each was last counted, $2 rows of each at most, and says how many
// moves of each that were, and which was the last.
var hoursAdded = events(`
	SELECT t.queue_id, t.id, t.pr, t.submission, t.from_state, t.to_state, t.at, t.run_id
	FROM queue_hours_counted c CROSS JOIN LATERAL (
		SELECT * FROM timeline n WHERE n.queue_id = c.queue_id AND n.id > c.counted ORDER BY n.id LIMIT $2) t
	WHERE c.queue_id = ANY($1)`) + `
	, added AS (
		INSERT INTO queue_hours AS h (queue_id, hour, what, bucket, n)
		SELECT queue_id, date_trunc('hour', at, 'UTC'), what,
			-- queue.BucketOf; restarts take no time
			CASE WHEN what = 'restart' THEN -1 ELSE floor(ln(GREATEST(COALESCE(extract(epoch FROM took), 0)::float8, 1)) / ln(1.05::float8))::smallint END, count(*)
		FROM events WHERE what <> '' GROUP BY 1, 2, 3, 4
		ON CONFLICT (queue_id, hour, what, bucket) DO UPDATE SET n = h.n + excluded.n)
	SELECT queue_id, count(*) AS moves, max(id) AS last FROM moves GROUP BY queue_id`

// CountHours counts what has happened in every queue since it was last
// counted, for Tallies. One call goes on for a few seconds at most; done says
// that nothing is left.
func (db *DB) CountHours(ctx context.Context) (done bool, err error) {
	began := time.Now() // a limit on work, not a time that anything is compared with
	for {
		more := false
		err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) (err error) {
			more, err = countHours(ctx, tx)
			return err
		})
		if err != nil || !more || time.Since(began) > countForMost {
			return err == nil && !more, fail("count what has happened by the hour", err)
		}
	}
}

func countHours(ctx context.Context, tx *sqlx.Tx) (more bool, err error) {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO queue_hours_counted (queue_id, counted)
		SELECT q.id, 0 FROM queues q WHERE NOT EXISTS (SELECT 1 FROM queue_hours_counted c WHERE c.queue_id = q.id)
		ON CONFLICT (queue_id) DO NOTHING`); err != nil {
		return false, fmt.Errorf("begin to count: %w", err)
	}
	// Those that somebody else counts at this moment are left to them.
	var ids []int64
	if err := tx.SelectContext(ctx, &ids, `
		SELECT c.queue_id FROM queue_hours_counted c
		-- not EXISTS, for which Postgres may read every timeline
		WHERE (SELECT true FROM timeline t WHERE t.queue_id = c.queue_id AND t.id > c.counted LIMIT 1)
		ORDER BY c.queue_id FOR UPDATE SKIP LOCKED`); err != nil {
		return false, fmt.Errorf("find what to count: %w", err)
	}
	if len(ids) == 0 {
		return false, nil
	}
	var rows []struct {
		QueueID int64 `json:"queue_id"`
		Moves   int64 `json:"moves"`
		Last    int64 `json:"last"`
	}
	if err := tx.SelectContext(ctx, &rows, hoursAdded, pq.Array(ids), countAtOnce); err != nil {
		return false, fmt.Errorf("count what was added: %w", err)
	}
	for _, r := range rows {
		more = more || r.Moves >= countAtOnce
		if _, err := tx.ExecContext(ctx, `UPDATE queue_hours_counted SET counted = $2 WHERE queue_id = $1`, r.QueueID, r.Last); err != nil {
			return false, fmt.Errorf("note how far was counted: %w", err)
		}
	}
	return more, nil
}

// Tallies are what has happened in a queue from one moment to another, as far
// as CountHours has counted, by the hour or, with days, by the day (in UTC), in
// the order of time. Runs are counted when they were asked for.
func (db *DB) Tallies(ctx context.Context, q queue.ID, from, until time.Time, days bool) ([]queue.Tally, error) {
	unit := "hour"
	if days {
		unit = "day"
	}
	var rows []struct {
		At     stamp  `json:"at"`
		What   string `json:"what"`
		Bucket int64  `json:"bucket"`
		N      int64  `json:"n"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT date_trunc($4, hour, 'UTC') AS at, what, bucket::bigint, sum(n)::bigint AS n FROM queue_hours
		WHERE queue_id = $1 AND hour >= $2 AND hour < $3 GROUP BY 1, 2, 3
		UNION ALL
		SELECT date_trunc($4, asked_at, 'UTC'), 'run', -1, count(*) FROM runs
		WHERE queue_id = $1 AND asked_at >= $2 AND asked_at < $3 GROUP BY 1
		ORDER BY 1, 2, 3`, int64(q), stamp(from), stamp(until), unit); err != nil {
		return nil, fail("read what has happened", err)
	}
	tallies := make([]queue.Tally, len(rows))
	for i, r := range rows {
		tallies[i] = queue.Tally{At: time.Time(r.At).UTC(), What: queue.Happening(r.What), Bucket: int(r.Bucket), N: r.N}
	}
	return tallies, nil
}

// EndedBetween lists the endings in a queue from one moment to another, the
// latest first, take at most.
func (db *DB) EndedBetween(ctx context.Context, q queue.ID, from, until time.Time, take int) ([]queue.Ending, error) {
	var rows []struct {
		moveRow
		Title string `json:"title"`
		Began stamp  `json:"began"`
	}
	columns := "t." + strings.ReplaceAll(strings.Join(strings.Fields(moveColumns), " "), ", ", ", t.")
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT `+columns+`, e.title, b.at AS began FROM timeline t
		JOIN entries e ON e.queue_id = t.queue_id AND e.pr = t.pr
		LEFT JOIN LATERAL (
			SELECT p.at FROM timeline p WHERE p.queue_id = t.queue_id AND p.pr = t.pr AND p.submission = t.submission ORDER BY p.id LIMIT 1) b ON true
		WHERE t.queue_id = $1 AND t.at >= $2 AND t.at < $3 AND t.to_state IN ('merged', 'failed', 'cancelled')
		ORDER BY t.at DESC, t.id DESC LIMIT $4`, int64(q), stamp(from), stamp(until), take); err != nil {
		return nil, fail("list endings", err)
	}
	endings := make([]queue.Ending, len(rows))
	for i, r := range rows {
		endings[i] = queue.Ending{Move: r.move(), Title: r.Title}
		if began := time.Time(r.Began); !began.IsZero() {
			endings[i].Lasted = max(0, time.Time(r.At).Sub(began))
		}
	}
	return endings, nil
}
