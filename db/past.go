package db

import (
	"context"
	"slices"
	"time"

	"signalbox/queue"
)

// narrowTargets is the size up to which a set of targets is read for a
// history; a larger one counts as everything there.
const narrowTargets = 1000

// endings are the moves in the timeline with which a submission landed by the queue,
// or was thrown out by its tests: those that queue.Snapshot.Remember remembers.
const endings = `to_state IN ('merged', 'failed')
	AND reason IN ('MERGED_BY_QUEUE', 'LANDED_TREE_MISMATCH', 'REQUIRED_STATUS_FAILED', 'TEST_RUN_TIMEOUT', 'FAILED_BY_OPTIMIZATION')`

// History is what landed and what failed by its tests in a queue from one
// moment to another, the newest take of it, in the order of its ending. The
// targets are the newest that were known of each pull request when it ended.
func (db *DB) History(ctx context.Context, q queue.Queue, from, until time.Time, take int) (queue.History, error) {
	h := queue.History{Since: from, Until: until}
	var rows []struct {
		PR         int64 `json:"pr"`
		Submission int64 `json:"submission"`
		EndedAt    stamp `json:"ended_at"`
		Failed     bool  `json:"failed"`
		ReadyAt    stamp `json:"ready_at"`
		StartedAt  stamp `json:"started_at"`
		TestedAt   stamp `json:"tested_at"`
		Targets    int64 `json:"targets"`
		Total      int64 `json:"total"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		WITH ended AS (
			SELECT pr, submission, id, at, to_state = 'failed' AS failed, count(*) OVER () AS total FROM timeline
			WHERE queue_id = $1 AND at >= $2 AND at < $3 AND `+endings+`
			ORDER BY at DESC, id DESC LIMIT $4)
		SELECT e.pr, e.submission, e.at AS ended_at, e.failed, e.total, ready.at AS ready_at,
			r.started_at, r.ended_at AS tested_at, COALESCE(t.id, 0) AS targets
		FROM ended e
		JOIN LATERAL (SELECT m.at FROM timeline m
			WHERE m.queue_id = $1 AND m.pr = e.pr AND m.submission = e.submission AND m.from_state = 'not_ready' AND m.to_state = 'pending'
			ORDER BY m.id LIMIT 1) ready ON true
		LEFT JOIN LATERAL (SELECT m.run_id FROM timeline m
			WHERE m.queue_id = $1 AND m.pr = e.pr AND m.submission = e.submission AND m.to_state IN ('tests_passed', 'pending_failure')
			ORDER BY m.id DESC LIMIT 1) tested ON true
		LEFT JOIN runs r ON r.queue_id = $1 AND r.id = tested.run_id
		LEFT JOIN LATERAL (SELECT i.id FROM impacted_targets i
			WHERE i.repository_id = $5 AND i.pr = e.pr AND i.created_at <= e.at AND NOT i.everything AND i.count <= $6
				-- a wider set that came later counts as everything
				AND NOT EXISTS (SELECT 1 FROM impacted_targets w WHERE w.repository_id = $5 AND w.pr = e.pr AND w.created_at <= e.at AND w.id > i.id)
			LIMIT 1) t ON true
		ORDER BY e.at, e.id`, int64(q.ID), stamp(from), stamp(until), take, int64(q.Repo.ID), narrowTargets); err != nil {
		return h, fail("read what has ended", err)
	}
	var ids []queue.TargetsID
	for _, r := range rows {
		ids = append(ids, queue.TargetsID(r.Targets))
		h.LeftOut = r.Total - int64(len(rows))
	}
	sets, err := db.targetSets(ctx, db.sql, slices.Clone(ids))
	if err != nil {
		return h, fail("read what has ended", err)
	}
	for i, r := range rows {
		p := queue.Past{PR: r.PR, Submission: r.Submission, ReadyAt: r.ReadyAt.time(), EndedAt: r.EndedAt.time(), Failed: r.Failed, Targets: queue.Everything}
		if set, known := sets[ids[i]]; known {
			p.Targets = set
		}
		if began := r.StartedAt.time(); !began.IsZero() && !r.TestedAt.time().IsZero() {
			p.Test = max(0, r.TestedAt.time().Sub(began))
		}
		h.Ended = append(h.Ended, p)
	}
	var sums struct {
		Runs    int64   `json:"runs"`
		Seconds float64 `json:"seconds"`
	}
	if err := db.sql.GetContext(ctx, &sums, `
		SELECT count(*) AS runs, COALESCE(sum(extract(epoch FROM ended_at - started_at)), 0)::float8 AS seconds FROM runs
		WHERE queue_id = $1 AND asked_at >= $2 AND asked_at < $3`, int64(q.ID), stamp(from), stamp(until)); err != nil {
		return h, fail("count runs", err)
	}
	h.Runs, h.Testing = sums.Runs, time.Duration(sums.Seconds*float64(time.Second))
	return h, nil
}
