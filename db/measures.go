package db

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// The sizes of counting on: how many rows of one queue's timeline are added to
// its totals at once, and how long one call goes on with it. What is left is
// added by the next call.
const (
	countAtOnce  = 20000
	countForMost = 5 * time.Second
)

// Measures measures every queue of an organisation, or of one repository of it,
// for both kinds of runs, in the order of host, owner, name, branch and kind.
// repo 0 means all.
func (db *DB) Measures(ctx context.Context, org int64, repo queue.RepoID, now time.Time) ([]queue.Measures, error) {
	all, at, err := db.depths(ctx, org, repo)
	if err != nil || len(all) == 0 {
		return all, err
	}
	ids := make([]int64, 0, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		ids = append(ids, int64(all[i].Queue.ID))
	}
	var lately []happenedRow
	if err := db.sql.SelectContext(ctx, &lately, happenedLately, pq.Array(ids), now.Add(-time.Hour), now); err != nil {
		return nil, fail("measure the last hour", err)
	}
	for _, row := range lately {
		if i, ok := at[row.key()]; ok {
			row.addTo(&all[i].LastHour)
		}
	}
	totals, err := db.totals(ctx, ids)
	if err != nil {
		return nil, err
	}
	for key, h := range totals {
		if i, ok := at[key]; ok {
			all[i].Ever = h
		}
	}
	return all, nil
}

// Depths is Measures without what happened: a look at the present, which costs
// little.
func (db *DB) Depths(ctx context.Context, org int64) ([]queue.Measures, error) {
	all, _, err := db.depths(ctx, org, 0)
	return all, err
}

// measured is which of a queue's two measures is meant.
type measured struct {
	queue int64
	kind  queue.RunKind
}

// depths makes the measures of each queue and says where each stands.
func (db *DB) depths(ctx context.Context, org int64, repo queue.RepoID) (all []queue.Measures, at map[measured]int, err error) {
	var queues []queueRow
	var counts []struct {
		QueueID  int64         `json:"queue_id"`
		Kind     queue.RunKind `json:"kind"`
		Depth    int64         `json:"depth"`
		NotReady int64         `json:"not_ready"`
		Testing  int64         `json:"testing"`
	}
	err = db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		queues, counts = nil, nil
		if err := tx.SelectContext(ctx, &queues, selectQueue+`
			WHERE r.org_id = $1 AND ($2 = 0 OR r.id = $2)
			ORDER BY r.host, lower(r.owner), lower(r.name), q.branch`, org, int64(repo)); err != nil {
			return err
		}
		ids := make([]int64, len(queues))
		for i, q := range queues {
			ids[i] = q.ID
		}
		return tx.SelectContext(ctx, &counts, `
			SELECT e.queue_id, CASE WHEN e.group_id <> 0 AND e.group_id = ANY(q.parts) THEN 'bisection' ELSE 'main' END AS kind,
				count(*) FILTER (WHERE e.state <> 'not_ready') AS depth,
				count(*) FILTER (WHERE e.state = 'not_ready') AS not_ready, 0::bigint AS testing
			FROM entries e JOIN queues q ON q.id = e.queue_id
			WHERE e.queue_id = ANY($1) AND e.state NOT IN ('merged', 'failed', 'cancelled')
			GROUP BY 1, 2
			UNION ALL
			SELECT queue_id, kind, 0, 0, count(*) FROM runs
			WHERE queue_id = ANY($1) AND state IN ('building', 'testing') GROUP BY 1, 2`, pq.Array(ids))
	})
	if err != nil {
		return nil, nil, fail("count what is in the queues", err)
	}
	at = map[measured]int{}
	for _, q := range queues {
		for _, kind := range []queue.RunKind{queue.MainRun, queue.BisectionRun} {
			at[measured{q.ID, kind}] = len(all)
			all = append(all, queue.Measures{Queue: q.queue(), Kind: kind})
		}
	}
	for _, c := range counts {
		i := at[measured{c.QueueID, c.Kind}]
		all[i].Depth += c.Depth
		all[i].NotReady += c.NotReady
		all[i].Testing += c.Testing
	}
	return all, at, nil
}

// happenedRow is one kind of event in one queue: how often, and how long each
// took.
type happenedRow struct {
	QueueID int64         `json:"queue_id"`
	Kind    queue.RunKind `json:"kind"`
	What    string        `json:"what"`
	N       int64         `json:"n"`
	Timed   int64         `json:"timed"`
	Seconds float64       `json:"seconds"`
	Within  numbers       `json:"within"`
	Last    int64         `json:"last"` // timeline.id
}

func (r happenedRow) key() measured { return measured{r.QueueID, r.Kind} }

// addTo adds the row to what happened.
func (r happenedRow) addTo(h *queue.Happened) {
	took := queue.Durations{Count: r.Timed, Seconds: r.Seconds, Within: r.Within}
	var add queue.Happened
	switch r.What {
	case string(queue.Merged):
		add = queue.Happened{Merged: r.N, InQueue: took}
	case string(queue.Failed):
		add = queue.Happened{Failed: r.N, InQueue: took}
	case string(queue.Cancelled):
		add = queue.Happened{Cancelled: r.N, InQueue: took}
	case "restart":
		add = queue.Happened{Restarts: r.N}
	case "wait":
		add = queue.Happened{Wait: took}
	case "test":
		add = queue.Happened{Test: took}
	}
	h.Add(add)
}

// happenedLately counts what happened in the queues $1 after $2, up to $3. It
// reads the index timeline_at for these, and timeline_pr for when the state
// that was left, or the submission, began.
var happenedLately = happened(`
	SELECT t.queue_id, t.id, t.pr, t.submission, t.from_state, t.to_state, t.at, t.run_id
	FROM timeline t WHERE t.queue_id = ANY($1) AND t.at > $2 AND t.at <= $3`)

// happenedSince counts what was added to the timelines of the queues $1 since
// each was last counted, $2 rows of each at most.
var happenedSince = happened(`
	SELECT t.queue_id, t.id, t.pr, t.submission, t.from_state, t.to_state, t.at, t.run_id
	FROM queue_totals c CROSS JOIN LATERAL (
		SELECT * FROM timeline n WHERE n.queue_id = c.queue_id AND n.id > c.counted ORDER BY n.id LIMIT $2) t
	WHERE c.queue_id = ANY($1)`)

// happened is a statement that counts moves, which are rows of the timeline.
// The event "" says how far was read.
func happened(moves string) string {
	var within []string
	for _, bound := range queue.DurationBounds() {
		within = append(within, "count(*) FILTER (WHERE seconds <= "+strconv.FormatFloat(bound, 'f', -1, 64)+")")
	}
	return events(moves) + `
	SELECT queue_id, kind, what, count(*) AS n, count(seconds) AS timed, COALESCE(sum(seconds), 0) AS seconds,
		ARRAY[` + strings.Join(within, ", ") + `] AS within, max(id) AS last
	FROM (SELECT queue_id, kind, what, id, GREATEST(extract(epoch FROM took)::float8, 0) AS seconds FROM events) e
	GROUP BY queue_id, kind, what`
}

// events is the beginning of a statement: what the moves, which are rows of the
// timeline, mean. took is how long the ended thing took: the whole submission,
// the wait for a test, or the test. The event "" stands for each move.
func events(moves string) string {
	return `
	WITH moves AS MATERIALIZED (
		SELECT m.*, COALESCE(r.kind, 'main') AS kind
		FROM (` + moves + `) m LEFT JOIN runs r ON r.queue_id = m.queue_id AND r.id = m.run_id
	), events AS (
		SELECT m.queue_id, m.kind, m.id, m.at, m.to_state AS what, m.at - b.at AS took
		FROM moves m LEFT JOIN LATERAL (
			SELECT p.at FROM timeline p
			WHERE p.queue_id = m.queue_id AND p.pr = m.pr AND p.submission = m.submission ORDER BY p.id LIMIT 1) b ON true
		WHERE m.to_state IN ('merged', 'failed', 'cancelled')
		UNION ALL
		SELECT m.queue_id, m.kind, m.id, m.at, CASE m.from_state WHEN 'pending' THEN 'wait' ELSE 'test' END, m.at - b.at
		FROM moves m LEFT JOIN LATERAL (
			SELECT p.at FROM timeline p
			WHERE p.queue_id = m.queue_id AND p.pr = m.pr AND p.id < m.id ORDER BY p.id DESC LIMIT 1) b ON true
		WHERE (m.from_state = 'pending' AND m.to_state = 'testing')
			OR (m.from_state = 'testing' AND m.to_state IN ('tests_passed', 'pending_failure', 'failed'))
		UNION ALL
		SELECT queue_id, kind, id, at, 'restart', NULL FROM moves
		WHERE to_state = 'pending' AND from_state IN ('testing', 'pending_failure', 'tests_passed')
		UNION ALL
		SELECT queue_id, kind, id, at, '', NULL FROM moves
	)`
}

// totals counts on and returns what has happened in each queue since it was
// made.
func (db *DB) totals(ctx context.Context, ids []int64) (map[measured]queue.Happened, error) {
	began := time.Now() // a limit on work, not a time that anything is compared with
	for {
		var totals map[measured]queue.Happened
		more := false
		err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) (err error) {
			totals, more, err = countOn(ctx, tx, ids)
			return err
		})
		if err != nil || !more || time.Since(began) > countForMost {
			return totals, fail("count what has happened", err)
		}
	}
}

// totalsRow is a row of queue_totals.
type totalsRow struct {
	QueueID int64                                       `json:"queue_id"`
	Counted int64                                       `json:"counted"`
	Totals  document[map[queue.RunKind]*queue.Happened] `json:"totals"`
}

// countOn adds to the totals what is new. more says that there is more.
func countOn(ctx context.Context, tx *sqlx.Tx, ids []int64) (totals map[measured]queue.Happened, more bool, err error) {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO queue_totals (queue_id, counted, totals)
		SELECT q.id, 0, '{}' FROM queues q WHERE q.id = ANY($1) AND NOT EXISTS (SELECT 1 FROM queue_totals c WHERE c.queue_id = q.id)
		ON CONFLICT (queue_id) DO NOTHING`, pq.Array(ids)); err != nil {
		return nil, false, fmt.Errorf("begin to count: %w", err)
	}
	var rows []totalsRow
	if err := tx.SelectContext(ctx, &rows, `
		SELECT queue_id, counted, totals FROM queue_totals WHERE queue_id = ANY($1) ORDER BY queue_id FOR UPDATE`, pq.Array(ids)); err != nil {
		return nil, false, fmt.Errorf("read totals: %w", err)
	}
	var added []happenedRow
	if err := tx.SelectContext(ctx, &added, happenedSince, pq.Array(ids), countAtOnce); err != nil {
		return nil, false, fmt.Errorf("count what was added: %w", err)
	}
	news := map[int64][]happenedRow{}
	for _, row := range added {
		news[row.QueueID] = append(news[row.QueueID], row)
	}
	totals = map[measured]queue.Happened{}
	var changed []totalsRow
	for _, row := range rows {
		if row.add(news[row.QueueID]) >= countAtOnce {
			more = true
		}
		if len(news[row.QueueID]) > 0 {
			changed = append(changed, row)
		}
		for kind, h := range row.Totals.v {
			totals[measured{row.QueueID, kind}] = *h
		}
	}
	return totals, more, saveTotals(ctx, tx, changed)
}

// add adds events to a queue's totals. It returns how many moves they were.
func (r *totalsRow) add(news []happenedRow) (moves int64) {
	if r.Totals.v == nil {
		r.Totals.v = map[queue.RunKind]*queue.Happened{}
	}
	for _, n := range news {
		if n.What == "" {
			moves += n.N
			r.Counted = max(r.Counted, n.Last)
			continue
		}
		if r.Totals.v[n.Kind] == nil {
			r.Totals.v[n.Kind] = &queue.Happened{}
		}
		n.addTo(r.Totals.v[n.Kind])
	}
	return moves
}

func saveTotals(ctx context.Context, tx *sqlx.Tx, rows []totalsRow) error {
	if len(rows) == 0 {
		return nil
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE queue_totals c SET counted = n.counted, totals = n.totals
		FROM json_populate_recordset(NULL::queue_totals, $1) n WHERE c.queue_id = n.queue_id`, text); err != nil {
		return fmt.Errorf("save totals: %w", err)
	}
	return nil
}
