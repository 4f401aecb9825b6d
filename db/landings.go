package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// landingRow is a receipt as its table has it.
type landingRow struct {
	QueueID     int64  `json:"queue_id"`
	Seq         int64  `json:"seq"`
	Landing     int64  `json:"landing"`
	EntryID     string `json:"entry_id"`
	Submission  int64  `json:"submission"`
	PR          int64  `json:"pr"`
	Head        string `json:"head"`
	RunID       string `json:"run_id"`
	MergeMethod string `json:"merge_method"`
	LandingMode string `json:"landing_mode"`
	OnCommit    string `json:"on_commit"`
	Commit      string `json:"commit"`
	Tree        string `json:"tree"`
	TestedTree  string `json:"tested_tree"`
	Recomputed  bool   `json:"recomputed"`
	Last        bool   `json:"last"`
	Differs     string `json:"differs"`
	LandedAt    stamp  `json:"landed_at"`
}

// landingColumns are the columns of landingRow.
const landingColumns = `
	queue_id, seq, landing, entry_id, submission, pr, head, run_id, merge_method, landing_mode,
	on_commit, commit, tree, tested_tree, recomputed, last, differs, landed_at`

// saveReceipts adds to what landed.
func saveReceipts(ctx context.Context, tx *sqlx.Tx, q queue.ID, receipts []queue.Receipt) error {
	if len(receipts) == 0 {
		return nil
	}
	rows := make([]landingRow, len(receipts))
	for i, r := range receipts {
		rows[i] = landingRow{
			QueueID: int64(q), Seq: r.Seq, Landing: r.Landing, EntryID: string(r.Entry), Submission: r.Submission, PR: r.PR, Head: r.Head,
			RunID: string(r.Run), MergeMethod: string(r.Method), LandingMode: string(r.Mode), OnCommit: r.On, Commit: r.Commit, Tree: r.Tree,
			TestedTree: r.Tested, Recomputed: r.Recomputed, Last: r.Last, Differs: r.Differs, LandedAt: stamp(r.At),
		}
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO landings (`+landingColumns+`)
		SELECT `+landingColumns+` FROM json_populate_recordset(NULL::landings, $1)`, text); err != nil {
		return fmt.Errorf("save what landed: %w", err)
	}
	return nil
}

func (r landingRow) receipt() queue.Receipt {
	return queue.Receipt{
		Seq: r.Seq, Landing: r.Landing, Entry: queue.EntryID(r.EntryID), Submission: r.Submission, PR: r.PR, Head: r.Head,
		Run: queue.RunID(r.RunID), Method: queue.MergeMethod(r.MergeMethod), Mode: queue.LandingMode(r.LandingMode), On: r.OnCommit,
		Commit: r.Commit, Tree: r.Tree, Tested: r.TestedTree, Recomputed: r.Recomputed, Last: r.Last, Differs: r.Differs, At: time.Time(r.LandedAt),
	}
}

// Proofs is what is kept of a queue's landings: package proof compares it with
// the branch.
type Proofs struct {
	Receipts []queue.Receipt // by Seq
	// Runs are those that receipts name, without their checks.
	Runs map[queue.RunID]queue.Run
	// Targets are the sets that those runs name, as far as they are kept.
	Targets map[queue.TargetsID]queue.TargetSet
	// Faults are what does not fit together in the timeline, in words.
	Faults []string
	// InFlight: a landing is under way, of which there are no receipts yet.
	InFlight bool
}

// Proofs reads what is kept of a queue's landings since a time, all if it is
// zero, as one moment has it.
func (db *DB) Proofs(ctx context.Context, q queue.ID, since time.Time) (Proofs, error) {
	var p Proofs
	err := db.transact(ctx, readOnly, func(tx *sqlx.Tx) error {
		p = Proofs{Runs: map[queue.RunID]queue.Run{}, Targets: map[queue.TargetsID]queue.TargetSet{}}
		if err := tx.GetContext(ctx, &p.InFlight, `SELECT landing IS NOT NULL FROM queues WHERE id = $1`, int64(q)); err != nil {
			return err
		}
		var rows []landingRow
		if err := tx.SelectContext(ctx, &rows, `
			SELECT `+landingColumns+` FROM landings WHERE queue_id = $1 AND landed_at >= $2 ORDER BY seq`, int64(q), since.UTC()); err != nil {
			return fmt.Errorf("read what landed: %w", err)
		}
		var runs []string
		for _, row := range rows {
			p.Receipts, runs = append(p.Receipts, row.receipt()), append(runs, row.RunID)
		}
		if err := p.readRuns(ctx, tx, q, runs); err != nil {
			return err
		}
		return p.readFaults(ctx, tx, q, since)
	})
	return p, fail(fmt.Sprintf("read the landings of queue %d", q), err)
}

// readRuns reads runs, and the sets of targets that they name.
func (p *Proofs) readRuns(ctx context.Context, tx *sqlx.Tx, q queue.ID, ids []string) error {
	var runs []runRow
	if err := tx.SelectContext(ctx, &runs, `SELECT `+runColumns+` FROM runs WHERE queue_id = $1 AND id = ANY($2)`, int64(q), pq.Array(ids)); err != nil {
		return fmt.Errorf("read runs: %w", err)
	}
	var sets []int64
	for _, row := range runs {
		r := row.run()
		p.Runs[r.ID] = r
		for _, s := range r.Chain {
			if s.Targets != 0 {
				sets = append(sets, int64(s.Targets))
			}
		}
	}
	var kept []struct {
		ID         int64
		Everything bool
		Hashes     []byte
	}
	if err := tx.SelectContext(ctx, &kept, `SELECT id, everything, hashes FROM impacted_targets WHERE id = ANY($1)`, pq.Array(sets)); err != nil {
		return fmt.Errorf("read impacted targets: %w", err)
	}
	for _, k := range kept {
		p.Targets[queue.TargetsID(k.ID)] = queue.TargetSet{All: k.Everything, Hashes: unpackHashes(k.Hashes)}
	}
	return nil
}

// readFaults looks for what does not fit together: a timeline without a beginning,
// a move that does not begin where the one before it ended, a submission that does
// not follow the one before it, an entry that is not where its last move left it, a
// landing that nobody has a receipt of, and a receipt of a landing that the timeline
// does not know.
func (p *Proofs) readFaults(ctx context.Context, tx *sqlx.Tx, q queue.ID, since time.Time) error {
	err := tx.SelectContext(ctx, &p.Faults, `
		WITH moves AS (
			SELECT *, lag(to_state) OVER (PARTITION BY entry_id ORDER BY id) AS before,
				lag(submission) OVER (PARTITION BY entry_id ORDER BY id) AS submission_before,
				lead(id) OVER (PARTITION BY entry_id ORDER BY id) IS NULL AS newest
			FROM timeline WHERE queue_id = $1 AND at >= $2
		)
		SELECT format('#%s moved from %s, but was %s', m.pr, m.from_state, m.before)
			FROM moves m WHERE m.before IS NOT NULL AND m.before <> m.from_state
		UNION ALL SELECT format('#%s begins as %s: what came before is missing', m.pr, m.from_state)
			FROM moves m WHERE m.before IS NULL AND m.from_state <> '' AND $6
		UNION ALL SELECT format('#%s is %s, and has no timeline', e.pr, e.state)
			FROM entries e WHERE e.queue_id = $1 AND $6 AND NOT EXISTS (SELECT 1 FROM moves m WHERE m.entry_id = e.id)
		UNION ALL SELECT format('#%s is in submission %s, and was in %s', m.pr, m.submission, m.submission_before)
			FROM moves m WHERE m.submission <> m.submission_before + CASE WHEN m.to_state = 'not_ready' THEN 1 ELSE 0 END
		UNION ALL SELECT format('#%s is %s, and its last move was to %s', e.pr, e.state, m.to_state)
			FROM moves m JOIN entries e ON e.id = m.entry_id WHERE m.newest AND e.state <> m.to_state
		UNION ALL SELECT format('#%s is called landed by the timeline, and there is no receipt of it', m.pr)
			FROM moves m WHERE m.to_state = 'merged' AND m.reason IN ($3, $4, $5, $7) AND NOT EXISTS (
				SELECT 1 FROM landings l WHERE l.queue_id = $1 AND l.entry_id = m.entry_id AND l.submission = m.submission)
		UNION ALL SELECT format('#%s landed as %s, and the timeline does not say so', l.pr, left(l.commit, 10))
			FROM landings l WHERE l.queue_id = $1 AND l.landed_at >= $2 AND NOT EXISTS (
				SELECT 1 FROM moves m WHERE m.entry_id = l.entry_id AND m.submission = l.submission AND m.to_state = 'merged')`,
		int64(q), since.UTC(), string(queue.MergedByQueue), string(queue.DirectMerge), string(queue.LandedTreeMismatch), since.IsZero(), string(queue.LandedLate))
	if err != nil {
		return fmt.Errorf("look for faults in the timeline: %w", err)
	}
	return nil
}
