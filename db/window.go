package db

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// freeAtMost bounds the free pending entries of a window, whatever the
// settings. Where it cuts, Snapshot.More asks for another decision.
const freeAtMost = 500

// readWindow reads what queue.Snapshot describes, of a queue whose row was
// read in the same transaction, apart from Targets: see readTargets. n grows by
// what the window itself names.
func (db *DB) readWindow(ctx context.Context, tx *sqlx.Tx, row queueRow, n names, now time.Time) (*queue.Snapshot, error) {
	s := queue.NewSnapshot(row.queue())
	s.Line, s.Parts = renumbered[queue.GroupID](row.Line), renumbered[queue.GroupID](row.Parts)
	if len(s.Line)+len(s.Parts) > 0 { // else there are no groups
		if err := readGroups(ctx, tx, s, &n); err != nil {
			return nil, err
		}
	}
	if err := readRuns(ctx, tx, s, &n, db.reports.at(s.Queue.ID, row.Turn)); err != nil {
		return nil, err
	}
	for _, b := range s.Queue.Bisections {
		n.entries = append(n.entries, b.Members...)
		n.addChain(b.Steps)
	}
	if landing := s.Queue.Landing; landing != nil {
		for _, step := range landing.Land.Steps {
			n.entries = append(n.entries, step.Entry)
		}
	}
	movable, err := survey(ctx, tx, s, n, now)
	if err != nil {
		return nil, err
	}
	if n.parallel(s) && s.Queue.Batch {
		batches, err := db.readBatches(ctx, tx, s, now)
		if err != nil {
			return nil, err
		}
		movable = append(movable, batches...)
	}
	n.entries = append(n.entries, movable...)
	if err := readRecent(ctx, tx, s); err != nil {
		return nil, err
	}
	if err := readEntries(ctx, tx, s, n); err != nil || !n.parallel(s) {
		return s, err
	}
	return s, attachTargets(ctx, tx, s)
}

// parallel reports whether a decision may see the queue in parallel mode.
func (n names) parallel(s *queue.Snapshot) bool {
	return s.Queue.Mode == queue.Parallel || s.Queue.WantedMode == queue.Parallel || n.mode == queue.Parallel
}

// mayAdmit reports whether a decision may admit entries: the end of a switch
// of modes is one.
func (n names) mayAdmit(s *queue.Snapshot) bool {
	return n.admits || s.Queue.State.Admits() || s.Queue.State == queue.SwitchingModes
}

// readGroups reads every group: a group that is in no line no longer exists.
func readGroups(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, n *names) error {
	var rows []groupRow
	if err := tx.SelectContext(ctx, &rows, `SELECT `+groupColumns+` FROM groups WHERE queue_id = $1`, int64(s.Queue.ID)); err != nil {
		return fmt.Errorf("read groups: %w", err)
	}
	for _, row := range rows {
		g := row.group()
		s.Groups[g.ID] = &g
		n.entries = append(n.entries, g.Members...)
		if g.Run != "" {
			n.runs = append(n.runs, g.Run)
		}
	}
	for _, id := range slices.Concat(s.Line, s.Parts) {
		if s.Groups[id] == nil {
			return fmt.Errorf("read groups: the line has group %d, which does not exist", id)
		}
	}
	return nil
}

// readRuns reads the newest run of each group, its hedges, the live runs, and those
// that facts name. Of some runs the reports may be known already.
func readRuns(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, n *names, known map[queue.RunID]map[string]queue.Report) error {
	var rows []runRow
	if err := tx.SelectContext(ctx, &rows, `
		SELECT `+runColumns+` FROM runs
		WHERE queue_id = $1 AND (state IN ('building', 'testing') OR hedge <> '' AND state <> 'stopped' OR id = ANY($2)
			OR (commit <> '' AND commit = ANY($3)) OR branch = ANY($4))`,
		int64(s.Queue.ID), pq.Array(texted(n.runs)), pq.Array(n.commits), pq.Array(n.branches)); err != nil {
		return fmt.Errorf("read runs: %w", err)
	}
	unknown := map[queue.RunID]*queue.Run{}
	for _, row := range rows {
		r := row.run()
		s.Runs[r.ID] = &r
		n.addChain(r.Chain)
		n.entries = append(n.entries, r.Members...)
		if checks, ok := known[r.ID]; ok {
			r.Checks = checks
		} else {
			unknown[r.ID] = &r
		}
	}
	return attachChecks(ctx, tx, s.Queue.ID, unknown)
}

// surveyed is what survey finds.
type surveyed struct {
	Free       texts   `json:"free"`
	Ready      texts   `json:"ready"`
	Impatient  texts   `json:"impatient"`
	Stale      texts   `json:"stale"`
	Waiting    bool    `json:"waiting"`
	Submitted  stamp   `json:"submitted"`
	Refresh    stamp   `json:"refresh"`
	TestChecks texts   `json:"test_checks"`
	Typical    float64 `json:"typical"`
}

// survey finds the entries that this decision may move although nothing names
// them: the first free ones, those that are ready, those whose patience has
// ended, and those whose refresh is due. Each list is cut; what was cut off makes
// the snapshot say More. It also learns what a decision must know of what is
// outside the window: whether any entries there are active, when the next of them
// wants attention, and which checks may be excused by test results.
func survey(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, n names, now time.Time) ([]queue.EntryID, error) {
	free, ends := freeLimit(s.Queue.Settings), patienceEnds(s.Queue.Settings, now)
	if s.Queue.Batch && s.Queue.Mode == queue.Parallel && s.Queue.WantedMode == "" && n.mode == "" {
		free = -1 // readBatches finds them
	}
	nextMode := cmp.Or(n.mode, s.Queue.ReportedMode())
	var found surveyed
	if err := tx.GetContext(ctx, &found, `
		SELECT
			ARRAY(SELECT id FROM entries e
				WHERE queue_id = $1 AND state = 'pending' AND group_id = 0
					AND (conflicts_with IS NULL OR NOT EXISTS (SELECT 1 FROM entries c
						WHERE c.id = e.conflicts_with AND c.state NOT IN ('merged', 'failed', 'cancelled')))
				ORDER BY (priority <> 0), (returned = 0), returned, priority, admitted_at NULLS FIRST, submitted_at, id
				LIMIT $2 + 1) AS free,
			ARRAY(SELECT id FROM entries e
				WHERE queue_id = $1 AND $3 AND state = 'not_ready' AND onto = $4
					AND open AND NOT draft AND (forced OR mergeability = 'mergeable') AND ($10 = 'single' OR stack <> '[]'
						-- not EXISTS, for which Postgres may read the whole table
						OR (SELECT true FROM impacted_targets t WHERE t.repository_id = $11 AND t.pr = e.pr AND t.head = e.head LIMIT 1))
				ORDER BY submitted_at, id LIMIT $5 + 1) AS ready,
			ARRAY(SELECT id FROM entries
				WHERE queue_id = $1 AND state = 'not_ready' AND submitted_at <= $6
				ORDER BY submitted_at, id LIMIT $7 + 1) AS impatient,
			ARRAY(SELECT id FROM entries
				WHERE queue_id = $1 AND refresh_due <= $8 AND group_id = 0
				ORDER BY refresh_due LIMIT $9 + 1) AS stale,
			EXISTS (SELECT 1 FROM entries WHERE queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled')) AS waiting,
			(SELECT submitted_at FROM entries WHERE queue_id = $1 AND state = 'not_ready' AND submitted_at > $6
				ORDER BY submitted_at LIMIT 1) AS submitted,
			(SELECT refresh_due FROM entries WHERE queue_id = $1 AND refresh_due > $8 AND group_id = 0
				ORDER BY refresh_due LIMIT 1) AS refresh,`+testChecks+` AS test_checks,
			CASE WHEN $13 THEN (`+typicalSeconds("$14")+`) ELSE 0 END AS typical`,
		int64(s.Queue.ID), free, n.mayAdmit(s), s.Queue.Branch, queue.AdmitAtOnce, stamp(ends), queue.AdmitAtOnce,
		now, queue.RefreshAtOnce, string(nextMode), int64(s.Queue.Repo.ID), now.Add(-keepTestCheck),
		n.people, now.Add(-typicalWithin)); err != nil {
		return nil, fmt.Errorf("survey the entries: %w", err)
	}
	s.Waiting, s.TestChecks, s.TypicalTest = found.Waiting, found.TestChecks, typicalOf(found.Typical)
	earliest(&s.NextDue, time.Time(found.Refresh))
	if submitted := time.Time(found.Submitted); !submitted.IsZero() {
		earliest(&s.NextDue, now.Add(submitted.Sub(ends)))
	}
	return found.movable(s, int(free), now), nil
}

// movable are the entries of the lists, each as long as it may be. What is cut
// off may be moved by the next decision.
func (f *surveyed) movable(s *queue.Snapshot, free int, now time.Time) []queue.EntryID {
	var ids []queue.EntryID
	cut := func(list texts, limit int) (more bool) {
		more = len(list) > max(limit, 0)
		s.More = s.More || more
		ids = append(ids, retyped[queue.EntryID](list[:min(len(list), max(limit, 0))])...)
		return more
	}
	cut(f.Free, free)
	cut(f.Ready, queue.AdmitAtOnce)
	// Both lists are looked at.
	if impatient, stale := cut(f.Impatient, queue.AdmitAtOnce), cut(f.Stale, queue.RefreshAtOnce); impatient || stale {
		earliest(&s.NextDue, now.Add(time.Second))
	}
	return ids
}

// freeLimit is how many free pending entries all slots together can take.
func freeLimit(q queue.Settings) int64 {
	size := int64(1)
	if q.Batch {
		size = min(q.BatchingMinSize, freeAtMost)
	}
	return min(min(q.Concurrency, freeAtMost)*size, freeAtMost)
}

// patienceEnds is the moment before which an entry must have been submitted to
// be out of time now; zero when this queue waits for ever.
func patienceEnds(q queue.Settings, now time.Time) time.Time {
	if q.NotReadyTimeoutHours == 0 {
		return time.Time{}
	}
	const century = 100 * 365 * 24
	return now.Add(-time.Duration(min(q.NotReadyTimeoutHours, century)) * time.Hour)
}

// earliest lowers t to u, zero times being no times.
func earliest(t *time.Time, u time.Time) {
	if !u.IsZero() && (t.IsZero() || u.Before(*t)) {
		*t = u
	}
}

// readEntries reads the entries that are named, those that they wait for
// because of a conflict, and those that wait for them.
func readEntries(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, n names) error {
	var rows []entryRow
	if err := tx.SelectContext(ctx, &rows, `
		WITH named AS MATERIALIZED (
			-- One by one through an index that can only find one: whatever Postgres
			-- believes of the table, it does not read the queue from end to end.
			SELECT e.id, e.conflicts_with FROM unnest($2::uuid[]) AS n (id) CROSS JOIN LATERAL (
				SELECT id, conflicts_with FROM entries WHERE queue_id = $1 AND id = n.id OFFSET 0) e
			UNION
			SELECT e.id, e.conflicts_with FROM unnest($3::bigint[]) AS n (pr) CROSS JOIN LATERAL (
				SELECT id, conflicts_with FROM entries WHERE queue_id = $1 AND pr = n.pr OFFSET 0) e
			UNION
			SELECT id, conflicts_with FROM entries
			WHERE queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled') AND head = ANY($4)
			UNION
			SELECT e.id, e.conflicts_with FROM entries e JOIN stack_layers l ON l.entry_id = e.id
			WHERE l.queue_id = $1 AND (l.pr = ANY($3) OR l.head = ANY($4))
			UNION
			SELECT id, conflicts_with FROM entries
			WHERE queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled') AND bound_head = ANY($4)
			UNION
			SELECT id, conflicts_with FROM entries
			WHERE $5 AND queue_id = $1 AND state NOT IN ('merged', 'failed', 'cancelled')
		)
		SELECT e.* FROM (
			SELECT id FROM named
			UNION SELECT conflicts_with FROM named WHERE conflicts_with IS NOT NULL
			UNION SELECT e.id FROM entries e JOIN named ON named.id = e.conflicts_with
				WHERE e.state NOT IN ('merged', 'failed', 'cancelled')) n
		CROSS JOIN LATERAL (SELECT `+entryColumns+` FROM entries WHERE queue_id = $1 AND id = n.id OFFSET 0) e`,
		int64(s.Queue.ID), uuidsOf(n.entries), pq.Array(n.prs), pq.Array(n.commits), n.everybody); err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	for _, row := range rows {
		e := row.entry()
		s.Entries[e.ID] = &e
	}
	return checkMembers(s)
}

// checkMembers makes sure that the window holds together, so that package
// queue need not ask for every member whether it is there.
func checkMembers(s *queue.Snapshot) error {
	for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
		for _, member := range s.Groups[id].Members {
			if s.Entries[member] == nil {
				return fmt.Errorf("read entries: group %d has member %s, which does not exist", id, member)
			}
		}
	}
	return nil
}

// countAhead fills in FreeAhead for the free entries among those named. It
// walks over the free entries once, in their order, however many are named.
func countAhead(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, prs []int64) error {
	var free []queue.EntryID
	for _, pr := range prs {
		if e := s.ByPR(pr); e != nil && e.Free() {
			free = append(free, e.ID)
		}
	}
	switch len(free) {
	case 0:
		return nil
	case 1: // only those ahead are walked over, in the index
		var ahead int64
		e := s.Entries[free[0]]
		if err := tx.GetContext(ctx, &ahead, `
			SELECT count(*) FROM entries WHERE queue_id = $1 AND state = 'pending' AND group_id = 0 AND
				((priority <> 0), (returned = 0), returned, priority, admitted_at, submitted_at, id) <
				($2::boolean, $3::boolean, $4::bigint, $5::bigint, $6::timestamptz, $7::timestamptz, $8::uuid)`,
			int64(s.Queue.ID), e.Priority != queue.Urgent, e.Returned == 0, e.Returned, e.Priority,
			stamp(e.AdmittedAt), stamp(e.SubmittedAt), string(e.ID)); err != nil {
			return fmt.Errorf("count what is ahead: %w", err)
		}
		s.FreeAhead = map[queue.EntryID]int64{free[0]: ahead}
		return nil
	}
	var rows []struct {
		ID    string `json:"id"`
		Ahead int64  `json:"ahead"`
	}
	if err := tx.SelectContext(ctx, &rows, `
		SELECT id, ahead FROM (
			SELECT id, row_number() OVER (ORDER BY (priority <> 0), (returned = 0), returned, priority,
				admitted_at NULLS FIRST, submitted_at, id) - 1 AS ahead
			FROM entries WHERE queue_id = $1 AND state = 'pending' AND group_id = 0) line
		WHERE id = ANY($2::uuid[])`, int64(s.Queue.ID), uuidsOf(free)); err != nil {
		return fmt.Errorf("count what is ahead: %w", err)
	}
	s.FreeAhead = map[queue.EntryID]int64{}
	for _, row := range rows {
		s.FreeAhead[queue.EntryID(row.ID)] = row.Ahead
	}
	return nil
}
