package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// ReadPRs is what Read would show of some pull requests of a queue, and no
// more: enough for queue.Explain of their entries, and of those that have them
// in their stacks, and for the runs that test or tested them. Others in the
// line are there with their places and states, their runs without chains and
// checks. What people see on a pull request is made from it after every change,
// so it is read more often than anything else. ErrNotFound: no such queue.
func (db *DB) ReadPRs(ctx context.Context, id queue.ID, prs ...int64) (*queue.Snapshot, error) {
	var s *queue.Snapshot
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		var row queueRow
		if err := tx.GetContext(ctx, &row, selectQueue+` WHERE q.id = $1`, int64(id)); err != nil {
			return err
		}
		s = queue.NewSnapshot(row.queue())
		s.Line, s.Parts = renumbered[queue.GroupID](row.Line), renumbered[queue.GroupID](row.Parts)
		return db.readAround(ctx, tx, s, prs, db.clock())
	})
	if err != nil {
		return nil, fail(fmt.Sprintf("read pull requests of queue %d", id), err)
	}
	return s, nil
}

// readAround fills a window with entries of pull requests and what surrounds
// them.
func (db *DB) readAround(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, prs []int64, now time.Time) error {
	var others names
	if err := readGroups(ctx, tx, s, &others); err != nil {
		return err
	}
	about, err := readAbout(ctx, tx, s, prs)
	if err != nil || len(about) == 0 {
		return err
	}
	for _, e := range about {
		if e.ConflictsWith != "" {
			others.entries = append(others.entries, e.ConflictsWith)
		}
	}
	if err := readBriefly(ctx, tx, s, others); err != nil {
		return err
	}
	if err := readRunsOf(ctx, tx, s, about); err != nil {
		return err
	}
	if !slices.ContainsFunc(about, (*queue.Entry).Active) {
		return nil
	}
	if s.TypicalTest, err = typicalTest(ctx, tx, s.Queue.ID, now); err != nil {
		return err
	}
	if err := readRecent(ctx, tx, s); err != nil {
		return err
	}
	if (names{}).parallel(s) {
		if err := attachTargets(ctx, tx, s); err != nil {
			return err
		}
		if err := db.readTargets(ctx, tx, s); err != nil {
			return err
		}
	}
	return countAhead(ctx, tx, s, pullsOf(about))
}

// readAbout reads the entries of pull requests, and those of the stacks that
// have them among their layers, whole.
func readAbout(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, prs []int64) ([]*queue.Entry, error) {
	var rows []entryRow
	if err := tx.SelectContext(ctx, &rows, `
		SELECT `+entryColumns+` FROM entries WHERE queue_id = $1 AND id = ANY(ARRAY(
			SELECT id FROM entries WHERE queue_id = $1 AND pr = ANY($2)
			UNION SELECT entry_id FROM stack_layers WHERE queue_id = $1 AND pr = ANY($2)))`, int64(s.Queue.ID), pq.Array(prs)); err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	about := make([]*queue.Entry, len(rows))
	for i, row := range rows {
		e := row.entry()
		about[i], s.Entries[e.ID] = &e, &e
	}
	return about, nil
}

// readBriefly reads of other entries what their place in the line, their state
// and their steps depend on.
func readBriefly(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, n names) error {
	var rows []entryRow
	if err := tx.SelectContext(ctx, &rows, `
		SELECT id, pr, submission, state, priority, head, bound_head, bound_targets, group_id, stack
		FROM entries WHERE queue_id = $1 AND id = ANY($2)`, int64(s.Queue.ID), uuidsOf(n.entries)); err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	for _, row := range rows {
		if e := row.entry(); s.Entries[e.ID] == nil {
			s.Entries[e.ID] = &e
		}
	}
	return checkMembers(s)
}

// readRunsOf reads the runs of all groups briefly, and whole those that test or
// tested the entries that the window is about.
func readRunsOf(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, about []*queue.Entry) error {
	ended := slices.DeleteFunc(slices.Clone(about), (*queue.Entry).Active)
	whole, err := lastRuns(ctx, tx, s.Queue.ID, pullsOf(ended))
	if err != nil {
		return err
	}
	for _, e := range about {
		if g := s.Groups[e.Group]; g != nil && g.Run != "" {
			whole = append(whole, g.Run)
		}
		if e.VerifiedBy != "" {
			whole = append(whole, e.VerifiedBy)
		}
	}
	hedges, err := hedgesOf(ctx, tx, s, about)
	if err != nil {
		return err
	}
	whole = append(whole, hedges...)
	if len(whole) > 0 {
		if err := readWhole(ctx, tx, s, whole); err != nil {
			return err
		}
	}
	var briefly []queue.RunID
	for _, g := range s.Groups {
		if g.Run != "" && s.Runs[g.Run] == nil {
			briefly = append(briefly, g.Run)
		}
	}
	if len(briefly) == 0 || !slices.ContainsFunc(about, (*queue.Entry).Active) {
		return nil
	}
	var rows []runRow
	if err := tx.SelectContext(ctx, &rows, `
		SELECT id, group_id, kind, state, started_at, deadline FROM runs WHERE queue_id = $1 AND id = ANY($2)`,
		int64(s.Queue.ID), pq.Array(texted(briefly))); err != nil {
		return fmt.Errorf("read the runs of others: %w", err)
	}
	for _, row := range rows {
		r := row.run()
		s.Runs[r.ID] = &r
	}
	return nil
}

// hedgesOf are the runs in which the groups of entries are tested without somebody. Only
// adaptive queues with lanes have any.
func hedgesOf(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, about []*queue.Entry) ([]queue.RunID, error) {
	if s.Queue.Speculation != queue.AdaptiveSpeculation || s.Queue.Mode != queue.Parallel {
		return nil, nil
	}
	groups := make([]int64, len(about))
	for i, e := range about {
		groups[i] = int64(e.Group)
	}
	var ids []queue.RunID
	if err := tx.SelectContext(ctx, &ids, `
		SELECT id FROM runs WHERE queue_id = $1 AND hedge <> '' AND state <> 'stopped' AND group_id = ANY($2)`,
		int64(s.Queue.ID), pq.Array(groups)); err != nil {
		return nil, fmt.Errorf("read who is tested without whom: %w", err)
	}
	return ids, nil
}

// pullsOf are the pull requests of entries.
func pullsOf(entries []*queue.Entry) []int64 {
	list := make([]int64, len(entries))
	for i, e := range entries {
		list[i] = e.Number
	}
	return list
}

func readWhole(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, ids []queue.RunID) error {
	var rows []runRow
	if err := tx.SelectContext(ctx, &rows, `SELECT `+runColumns+` FROM runs WHERE queue_id = $1 AND id = ANY($2)`,
		int64(s.Queue.ID), pq.Array(texted(ids))); err != nil {
		return fmt.Errorf("read runs: %w", err)
	}
	for _, row := range rows {
		r := row.run()
		s.Runs[r.ID] = &r
	}
	return attachChecks(ctx, tx, s.Queue.ID, s.Runs)
}
