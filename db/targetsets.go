package db

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// attachTargets says of each entry of a window which set of impacted targets
// is the newest that is known for its head, as it is now: sets come before the
// submission and before we hear of the push as well as after.
func attachTargets(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot) error {
	var prs []int64
	var heads []string
	for _, e := range s.Entries {
		prs, heads = append(prs, e.Number), append(heads, e.Head)
	}
	newest, err := newestTargets(ctx, tx, s.Queue.Repo.ID, prs, heads)
	if err != nil {
		return err
	}
	for _, e := range s.Entries {
		e.Targets = newest[pullHead{e.Number, e.Head}]
	}
	return nil
}

// wakeForTargets makes a queue due at once when a decision leaves behind an
// entry whose targets are known although it did not see them: it was submitted,
// or its head learned of, only now. The next decision finds them.
func (db *DB) wakeForTargets(ctx context.Context, tx *sqlx.Tx, p *queue.Plan, now time.Time) error {
	if p.Queue.ReportedMode() != queue.Parallel {
		return nil
	}
	var prs []int64
	var heads []string
	for i := range p.Entries {
		if e := &p.Entries[i]; e.State == queue.NotReady && e.Targets == 0 {
			prs, heads = append(prs, e.Number), append(heads, e.Head)
		}
	}
	newest, err := newestTargets(ctx, tx, p.Queue.Repo.ID, prs, heads)
	if len(newest) > 0 && (p.Wake.IsZero() || p.Wake.After(now)) {
		p.Wake = now
		db.notify(tx, queue.TimesChanged)
	}
	return err
}

// pullHead is a head commit of a pull request.
type pullHead struct {
	pr   int64
	head string
}

// newestTargets finds the newest set of each head commit that has one.
func newestTargets(ctx context.Context, q sqlx.QueryerContext, repo queue.RepoID, prs []int64, heads []string) (map[pullHead]queue.TargetsID, error) {
	if len(prs) == 0 {
		return nil, nil
	}
	var rows []struct {
		ID   int64  `json:"id"`
		PR   int64  `json:"pr"`
		Head string `json:"head"`
	}
	if err := sqlx.SelectContext(ctx, q, &rows, `
		SELECT t.id, w.pr, w.head FROM unnest($2::bigint[], $3::text[]) AS w (pr, head)
		CROSS JOIN LATERAL (SELECT id FROM impacted_targets
			WHERE repository_id = $1 AND pr = w.pr AND head = w.head ORDER BY id DESC LIMIT 1) t`,
		int64(repo), pq.Array(prs), pq.Array(heads)); err != nil {
		return nil, fmt.Errorf("find impacted targets: %w", err)
	}
	newest := make(map[pullHead]queue.TargetsID, len(rows))
	for _, row := range rows {
		newest[pullHead{row.PR, row.Head}] = queue.TargetsID(row.ID)
	}
	return newest, nil
}

// readTargets fills in the sets that the entries of a window name. Outside
// parallel mode they name none, or none that matters.
func (db *DB) readTargets(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot) error {
	var ids []queue.TargetsID
	for _, e := range s.Entries {
		ids = append(ids, e.Targets, e.BoundTargets)
	}
	sets, err := db.targetSets(ctx, tx, ids)
	if err == nil {
		s.Targets = sets
	}
	return err
}

// targetSets reads sets, without their names. One that is no longer kept is
// left out, which makes it count as everything.
func (db *DB) targetSets(ctx context.Context, q sqlx.QueryerContext, ids []queue.TargetsID) (map[queue.TargetsID]queue.TargetSet, error) {
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id queue.TargetsID) bool { return id == 0 })
	sets, missing := db.sets.find(ids)
	if len(missing) == 0 {
		return sets, nil
	}
	var rows []struct {
		ID         int64  `json:"id"`
		Everything bool   `json:"everything"`
		Hashes     []byte `json:"hashes"`
	}
	if err := sqlx.SelectContext(ctx, q, &rows, `SELECT id, everything, hashes FROM impacted_targets WHERE id = ANY($1)`,
		pq.Array(numbered(missing))); err != nil {
		return nil, fmt.Errorf("read impacted targets: %w", err)
	}
	read := make(map[queue.TargetsID]queue.TargetSet, len(rows))
	for _, row := range rows {
		read[queue.TargetsID(row.ID)] = queue.TargetSet{All: row.Everything, Hashes: unpackHashes(row.Hashes)}
	}
	db.sets.keep(read)
	maps.Copy(sets, read)
	return sets, nil
}

// keepHashes bounds the sets that are kept in memory, in hashes: 64 MiB.
const keepHashes = 8 << 20

// setCache keeps sets that were read. A set never changes, so what is in here
// is never wrong. The slices in it are shared and nobody writes to them.
type setCache struct {
	mu     sync.Mutex
	sets   map[queue.TargetsID]queue.TargetSet
	hashes int // in all of them
}

// find returns the sets that are here and the ids of those that are not.
func (c *setCache) find(ids []queue.TargetsID) (sets map[queue.TargetsID]queue.TargetSet, missing []queue.TargetsID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sets = make(map[queue.TargetsID]queue.TargetSet, len(ids))
	for _, id := range ids {
		if set, ok := c.sets[id]; ok {
			sets[id] = set
		} else {
			missing = append(missing, id)
		}
	}
	return sets, missing
}

// keep adds sets. When there are too many it forgets all others: who needs
// them reads them again.
func (c *setCache) keep(sets map[queue.TargetsID]queue.TargetSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil || c.hashes > keepHashes {
		c.sets, c.hashes = map[queue.TargetsID]queue.TargetSet{}, 0
	}
	for id, set := range sets {
		if _, known := c.sets[id]; !known {
			c.sets[id] = set
			c.hashes += len(set.Hashes) + 8 // the empty ones take room too
		}
	}
}
