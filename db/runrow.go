package db

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// runRow is a run as its table has it; its checks are rows of their own.
type runRow struct {
	QueueID        int64                         `json:"queue_id"`
	ID             string                        `json:"id"`
	GroupID        int64                         `json:"group_id"`
	Kind           string                        `json:"kind"`
	State          string                        `json:"state"`
	Members        texts                         `json:"members"`
	BaseCommit     string                        `json:"base_commit"`
	BaseTree       string                        `json:"base_tree"`
	BaseEpoch      int64                         `json:"base_epoch"`
	BaseSeq        int64                         `json:"base_seq"`
	Chain          document[[]queue.Step]        `json:"chain"`
	Narrow         bool                          `json:"narrow"`
	Hedge          string                        `json:"hedge"`
	Branch         string                        `json:"branch"`
	Commit         string                        `json:"commit"`
	Tree           string                        `json:"tree"`
	MergeMethod    string                        `json:"merge_method"`
	LandingMode    string                        `json:"landing_mode"`
	Required       document[[]queue.Required]    `json:"required"`
	RequiredSource string                        `json:"required_source"`
	DraftPR        int64                         `json:"draft_pr"`
	AskedAt        stamp                         `json:"asked_at"`
	StartedAt      stamp                         `json:"started_at"`
	Deadline       stamp                         `json:"deadline"`
	EndedAt        stamp                         `json:"ended_at"`
	Why            string                        `json:"why"`
	Message        string                        `json:"message"`
	NotBuilt       document[*queue.RunNotBuilt]  `json:"not_built"`
	Spoilt         string                        `json:"spoilt"`
	ReadAfter      stamp                         `json:"read_after"`
	Results        document[[]queue.TestResults] `json:"results"`
	Crowded        bool                          `json:"crowded"`
	Cleared        texts                         `json:"cleared"`
}

// runColumns are the columns of runRow.
const runColumns = `
	queue_id, id, group_id, kind, state, members, base_commit, base_tree, base_epoch, base_seq,
	chain, narrow, hedge, branch, commit, tree, merge_method, landing_mode, required, required_source, draft_pr,
	asked_at, started_at, deadline, ended_at, why, message, not_built, spoilt, read_after,
	results, crowded, cleared`

func rowOfRun(q queue.ID, r *queue.Run) runRow {
	return runRow{
		QueueID: int64(q), ID: string(r.ID), GroupID: int64(r.Group), Kind: string(r.Kind), State: string(r.State), Members: texted(r.Members),
		BaseCommit: r.Base.Commit, BaseTree: r.Base.Tree, BaseEpoch: r.Base.Epoch, BaseSeq: r.Base.Seq,
		Chain: document[[]queue.Step]{append([]queue.Step{}, r.Chain...)}, Narrow: r.Narrow, Hedge: string(r.Hedge), Branch: r.Branch, Commit: r.Commit, Tree: r.Tree,
		MergeMethod: string(r.MergeMethod), LandingMode: string(r.LandingMode),
		Required: document[[]queue.Required]{append([]queue.Required{}, r.Required...)}, RequiredSource: string(r.RequiredSource), DraftPR: r.DraftPR,
		AskedAt: stamp(r.AskedAt), StartedAt: stamp(r.StartedAt), Deadline: stamp(r.Deadline), EndedAt: stamp(r.EndedAt),
		Why: string(r.Why), Message: r.Message, NotBuilt: document[*queue.RunNotBuilt]{r.NotBuilt}, Spoilt: r.Spoilt, ReadAfter: stamp(r.ReadAfter),
		Results: document[[]queue.TestResults]{append([]queue.TestResults{}, r.Results...)}, Crowded: r.Crowded, Cleared: r.Cleared,
	}
}

func (r runRow) run() queue.Run {
	return queue.Run{
		ID: queue.RunID(r.ID), Group: queue.GroupID(r.GroupID), Kind: queue.RunKind(r.Kind), State: queue.RunState(r.State),
		Members: retyped[queue.EntryID](r.Members),
		Base:    queue.Base{Commit: r.BaseCommit, Tree: r.BaseTree, Epoch: r.BaseEpoch, Seq: r.BaseSeq},
		Chain:   unlessEmpty(r.Chain.v), Narrow: r.Narrow, Hedge: queue.EntryID(r.Hedge), Branch: r.Branch, Commit: r.Commit, Tree: r.Tree,
		MergeMethod: queue.MergeMethod(r.MergeMethod), LandingMode: queue.LandingMode(r.LandingMode),
		Required: unlessEmpty(r.Required.v), RequiredSource: queue.RequiredSource(r.RequiredSource), DraftPR: r.DraftPR,
		AskedAt: time.Time(r.AskedAt), StartedAt: time.Time(r.StartedAt), Deadline: time.Time(r.Deadline), EndedAt: time.Time(r.EndedAt),
		Why: queue.Reason(r.Why), Message: r.Message, NotBuilt: r.NotBuilt.v, Spoilt: r.Spoilt, ReadAfter: time.Time(r.ReadAfter),
		Results: unlessEmpty(r.Results.v), Crowded: r.Crowded, Cleared: r.Cleared,
	}
}

// checkRow is the newest report of one key on one run.
type checkRow struct {
	QueueID    int64  `json:"queue_id"`
	RunID      string `json:"run_id"`
	Key        string `json:"key"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	AppID      int64  `json:"app_id"`
	Suite      int64  `json:"suite"`
	ReportID   int64  `json:"report_id"`
	Status     string `json:"status"`
	Result     string `json:"result"`
	URL        string `json:"url"`
	ReportedAt stamp  `json:"reported_at"`
	Earlier    int64  `json:"earlier"`
}

// checkColumns are the columns of checkRow.
const checkColumns = `
	queue_id, run_id, key, kind, name, app_id, suite, report_id, status, result, url, reported_at, earlier`

func rowOfCheck(q queue.ID, run queue.RunID, key string, c queue.Report) checkRow {
	return checkRow{
		QueueID: int64(q), RunID: string(run), Key: key, Kind: string(c.Kind), Name: c.Name, AppID: c.AppID,
		Suite: c.Suite, ReportID: c.ID, Status: c.Status, Result: c.Result, URL: c.URL, ReportedAt: stamp(c.At), Earlier: c.Earlier,
	}
}

func (r checkRow) report() queue.Report {
	return queue.Report{
		Kind: queue.ReportKind(r.Kind), Name: r.Name, AppID: r.AppID, Suite: r.Suite, ID: r.ReportID,
		Status: r.Status, Result: r.Result, URL: r.URL, At: time.Time(r.ReportedAt), Earlier: r.Earlier,
	}
}

// runBefore is what matters of a run as it was before a decision.
type runBefore struct {
	commit string                  // "" until it is built
	checks map[string]queue.Report // a decision does not write to it: see saveRuns
}

func runsBefore(runs map[queue.RunID]*queue.Run) map[queue.RunID]runBefore {
	before := make(map[queue.RunID]runBefore, len(runs))
	for id, r := range runs {
		before[id] = runBefore{r.Commit, r.Checks}
	}
	return before
}

// saveRuns writes runs that changed or are new, with those of their checks that
// are not as they were.
func saveRuns(ctx context.Context, tx *sqlx.Tx, q queue.ID, runs []queue.Run, before map[queue.RunID]runBefore) error {
	if len(runs) == 0 {
		return nil
	}
	// Those that ended first: the next one of the same group may be live
	// only after them.
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b queue.Run) int {
		switch {
		case a.State.Live() == b.State.Live():
			return 0
		case b.State.Live():
			return -1
		default:
			return 1
		}
	})
	rows := make([]runRow, len(runs))
	checks := []checkRow{}
	for i := range runs {
		rows[i] = rowOfRun(q, &runs[i])
		for _, key := range slices.Sorted(maps.Keys(runs[i].Checks)) {
			if was, known := before[runs[i].ID].checks[key]; known && was == runs[i].Checks[key] {
				continue // Postgres would lock its row and log that
			}
			checks = append(checks, rowOfCheck(q, runs[i].ID, key, runs[i].Checks[key]))
		}
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO runs (`+runColumns+`)
		SELECT `+runColumns+` FROM json_populate_recordset(NULL::runs, $1)
		ON CONFLICT (queue_id, id) DO UPDATE SET
			group_id = excluded.group_id, kind = excluded.kind, state = excluded.state, members = excluded.members,
			base_commit = excluded.base_commit, base_tree = excluded.base_tree, base_epoch = excluded.base_epoch,
			base_seq = excluded.base_seq, chain = excluded.chain, narrow = excluded.narrow, hedge = excluded.hedge,
			branch = excluded.branch, commit = excluded.commit, tree = excluded.tree, merge_method = excluded.merge_method, landing_mode = excluded.landing_mode,
			required = excluded.required, required_source = excluded.required_source, draft_pr = excluded.draft_pr,
			asked_at = excluded.asked_at, started_at = excluded.started_at, deadline = excluded.deadline,
			ended_at = excluded.ended_at, why = excluded.why, message = excluded.message,
			not_built = excluded.not_built, spoilt = excluded.spoilt, read_after = excluded.read_after,
			results = excluded.results, crowded = excluded.crowded, cleared = excluded.cleared`, text); err != nil {
		return fmt.Errorf("save runs: %w", err)
	}
	return saveChecks(ctx, tx, checks)
}

// saveChecks writes reports.
func saveChecks(ctx context.Context, tx *sqlx.Tx, checks []checkRow) error {
	if len(checks) == 0 {
		return nil
	}
	text, err := encode(checks)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO checks (`+checkColumns+`)
		SELECT `+checkColumns+` FROM json_populate_recordset(NULL::checks, $1)
		ON CONFLICT (queue_id, run_id, key) DO UPDATE SET
			kind = excluded.kind, name = excluded.name, app_id = excluded.app_id, suite = excluded.suite,
			report_id = excluded.report_id, status = excluded.status, result = excluded.result,
			url = excluded.url, reported_at = excluded.reported_at, earlier = excluded.earlier`, text); err != nil {
		return fmt.Errorf("save checks: %w", err)
	}
	return nil
}

// attachChecks reads the checks of runs and puts them into their maps.
func attachChecks(ctx context.Context, tx *sqlx.Tx, q queue.ID, runs map[queue.RunID]*queue.Run) error {
	if len(runs) == 0 {
		return nil
	}
	ids := texted(slices.Sorted(maps.Keys(runs)))
	var rows []checkRow
	if err := tx.SelectContext(ctx, &rows, `SELECT `+checkColumns+` FROM checks WHERE queue_id = $1 AND run_id = ANY($2)`,
		int64(q), pq.Array(ids)); err != nil {
		return fmt.Errorf("read checks: %w", err)
	}
	for _, row := range rows {
		r := runs[queue.RunID(row.RunID)]
		if r.Checks == nil {
			r.Checks = map[string]queue.Report{}
		}
		r.Checks[row.Key] = row.report()
	}
	return nil
}
