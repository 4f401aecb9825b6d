package db

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// readRecent reads how the newest submissions ended, where a queue estimates from
// that who will fail: those that landed by the queue, and those that their tests
// threw out. It reads an index of the endings, as far back as they are counted.
func readRecent(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot) error {
	if s.Queue.Speculation != queue.AdaptiveSpeculation {
		return nil
	}
	var rows []struct {
		PR      int64 `json:"pr"`
		Author  int64 `json:"author"`
		Targets int64 `json:"targets"`
		Failed  bool  `json:"failed"`
	}
	if err := tx.SelectContext(ctx, &rows, `
		SELECT m.pr, e.author_id AS author, m.failed, COALESCE(t.count, 0) AS targets
		FROM (SELECT id, pr, to_state = 'failed' AS failed FROM timeline
			WHERE queue_id = $1 AND `+endings+`
			ORDER BY id DESC LIMIT $2) m
		JOIN entries e ON e.queue_id = $1 AND e.pr = m.pr
		LEFT JOIN LATERAL (SELECT i.count FROM impacted_targets i
			WHERE $3 AND i.repository_id = $4 AND i.pr = e.pr AND i.head = e.bound_head
			ORDER BY i.id DESC LIMIT 1) t ON true
		ORDER BY m.id DESC`,
		int64(s.Queue.ID), queue.RecentlyEnded, s.Queue.Mode == queue.Parallel, int64(s.Queue.Repo.ID)); err != nil {
		return fmt.Errorf("read the newest endings: %w", err)
	}
	for _, r := range rows {
		s.Recent = append(s.Recent, queue.Ended{PR: r.PR, Author: r.Author, Targets: r.Targets, Failed: r.Failed})
	}
	return nil
}
