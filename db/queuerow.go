package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// queueRow is a queue as its table has it, with its repository's columns.
type queueRow struct {
	ID       int64  `json:"id"`
	Key      string `json:"key"`
	Branch   string `json:"branch"`
	State    string `json:"state"`
	StateWhy string `json:"state_why"`

	Concurrency                 int64  `json:"concurrency"`
	BisectionConcurrency        int64  `json:"bisection_concurrency"`
	TestingTimeoutMinutes       int64  `json:"testing_timeout_minutes"`
	PendingFailureDepth         int64  `json:"pending_failure_depth"`
	CanOptimisticallyMerge      bool   `json:"can_optimistically_merge"`
	Batch                       bool   `json:"batch"`
	BatchingMaxWaitTimeMinutes  int64  `json:"batching_max_wait_time_minutes"`
	BatchingMinSize             int64  `json:"batching_min_size"`
	Mode                        string `json:"mode"`
	CommentsEnabled             bool   `json:"comments_enabled"`
	CommandsEnabled             bool   `json:"commands_enabled"`
	CreatePRsForTestingBranches bool   `json:"create_prs_for_testing_branches"`
	StatusCheckEnabled          bool   `json:"status_check_enabled"`
	RequiredStatuses            texts  `json:"required_statuses"`
	DirectMergeMode             string `json:"direct_merge_mode"`
	OptimizationMode            string `json:"optimization_mode"`
	MergeMethod                 string `json:"merge_method"`
	ChosenLandingMode           string `json:"chosen_landing_mode"`
	NotReadyTimeoutHours        int64  `json:"not_ready_timeout_hours"`
	LabelCommandsEnabled        bool   `json:"label_commands_enabled"`
	EnqueueingLabel             string `json:"enqueueing_label"`
	StateLabelsEnabled          bool   `json:"state_labels_enabled"`
	ExtensionEnabled            bool   `json:"extension_enabled"`
	Speculation                 string `json:"speculation"`
	WantedMode                  string `json:"wanted_mode"`

	TargetCommit    string `json:"target_commit"`
	TargetTree      string `json:"target_tree"`
	TargetVersion   int64  `json:"target_version"`
	TargetEpoch     int64  `json:"target_epoch"`
	TargetDoubted   bool   `json:"target_doubted"`
	TargetHints     texts  `json:"target_hints"`
	TargetReadAsked stamp  `json:"target_read_asked"`
	TargetMissing   bool   `json:"target_missing"`

	Line       numbers                     `json:"line"`
	Parts      numbers                     `json:"parts"`
	Landed     document[[]queue.Landed]    `json:"landed"`
	Landing    document[*queue.Landing]    `json:"landing"`
	GivenUp    document[[]queue.GivenUp]   `json:"given_up"`
	Bisections document[[]queue.Bisection] `json:"bisections"`
	Bisected   int64                       `json:"bisected"`
	Stamp      int64                       `json:"stamp"`
	Runs       int64                       `json:"runs"`
	Groups     int64                       `json:"groups"`
	Landings   int64                       `json:"landings"`
	ResyncDue  stamp                       `json:"resync_due"`
	ResyncRuns int64                       `json:"resync_runs"`
	CreatedAt  stamp                       `json:"created_at"`
	WakeAt     stamp                       `json:"wake_at"`
	HeldUntil  stamp                       `json:"held_until"`
	Turn       int64                       `json:"turn"` // read only: it comes from a sequence

	Preflight document[queue.Preflight] `json:"preflight"`

	RepositoryID int64 `json:"repository_id"`
	repoColumns
	owned
}

// owned says who a queue belongs to, for a decision. It is read only.
type owned struct {
	OrgID int64 `json:"org_id"`
	// Subscribed: somebody wants to be told what happens in the organisation.
	Subscribed bool `json:"subscribed"`
}

// repoColumns are the columns of a repository that a queue.Repo shows.
type repoColumns struct {
	Host         string `json:"host"`
	Owner        string `json:"owner"`
	Name         string `json:"name"`
	HostID       int64  `json:"host_id"`
	Installation int64  `json:"installation"`
}

func (r repoColumns) repo(id int64) queue.Repo {
	return queue.Repo{ID: queue.RepoID(id), Host: r.Host, Owner: r.Owner, Name: r.Name, HostID: r.HostID, Installation: r.Installation}
}

// selectRepo are the columns of repoColumns, of repositories r and
// installations i. A suspended installation serves nothing.
const selectRepo = `
	r.host, r.owner, r.name, COALESCE(r.host_id, 0) AS host_id,
	CASE WHEN i.suspended THEN 0 ELSE COALESCE(r.installation, 0) END AS installation`

// fromRepo joins what selectRepo selects from, to repositories r.
const fromRepo = ` LEFT JOIN installations i ON i.host = r.host AND i.id = r.installation`

// selectQueue reads a queueRow; the condition follows.
const selectQueue = `
	SELECT ` + queueColumns + fromQueues

// queueColumns are the columns of queueRow, from what fromQueues joins.
const queueColumns = `
		q.id, q.key, q.repository_id, q.branch, q.state, q.state_why,
		q.concurrency, q.bisection_concurrency, q.testing_timeout_minutes, q.pending_failure_depth,
		q.can_optimistically_merge, q.batch, q.batching_max_wait_time_minutes, q.batching_min_size,
		q.mode, q.comments_enabled, q.commands_enabled, q.create_prs_for_testing_branches,
		q.status_check_enabled, q.required_statuses, q.direct_merge_mode, q.optimization_mode,
		q.merge_method, q.chosen_landing_mode, q.not_ready_timeout_hours, q.label_commands_enabled,
		q.enqueueing_label, q.state_labels_enabled, q.extension_enabled, q.speculation, q.wanted_mode,
		q.target_commit, q.target_tree, q.target_version, q.target_epoch, q.target_doubted,
		q.target_hints, q.target_read_asked, q.target_missing,
		q.line, q.parts, q.landed, q.landing, q.given_up, q.bisections, q.bisected, q.stamp, q.runs, q.groups, q.landings,
		q.resync_due, q.resync_runs, q.created_at, q.wake_at, q.held_until, q.turn, q.preflight,` + selectRepo + `,
		r.org_id, -- and not EXISTS, for which Postgres may read the whole table
		COALESCE((SELECT true FROM subscribers s WHERE s.org_id = r.org_id AND s.enabled LIMIT 1), false) AS subscribed`

const fromQueues = `
	FROM queues q JOIN repositories r ON r.id = q.repository_id` + fromRepo

func rowOfQueue(q *queue.Queue) queueRow {
	s, t := q.Settings, q.Target
	return queueRow{
		ID: int64(q.ID), Key: q.Key, Branch: q.Branch, State: string(q.State), StateWhy: q.StateWhy,
		Concurrency: s.Concurrency, BisectionConcurrency: s.BisectionConcurrency,
		TestingTimeoutMinutes: s.TestingTimeoutMinutes, PendingFailureDepth: s.PendingFailureDepth,
		CanOptimisticallyMerge: s.CanOptimisticallyMerge, Batch: s.Batch,
		BatchingMaxWaitTimeMinutes: s.BatchingMaxWaitTimeMinutes, BatchingMinSize: s.BatchingMinSize,
		Mode: string(s.Mode), CommentsEnabled: s.CommentsEnabled, CommandsEnabled: s.CommandsEnabled,
		CreatePRsForTestingBranches: s.CreatePRsForTestingBranches, StatusCheckEnabled: s.StatusCheckEnabled,
		RequiredStatuses: s.RequiredStatuses, DirectMergeMode: string(s.DirectMergeMode),
		OptimizationMode: string(s.OptimizationMode), MergeMethod: string(s.MergeMethod),
		ChosenLandingMode: string(s.ChosenLandingMode), NotReadyTimeoutHours: s.NotReadyTimeoutHours,
		LabelCommandsEnabled: s.LabelCommandsEnabled, EnqueueingLabel: s.EnqueueingLabel,
		StateLabelsEnabled: s.StateLabelsEnabled, ExtensionEnabled: s.ExtensionEnabled, Speculation: string(s.Speculation),
		WantedMode:   string(q.WantedMode),
		TargetCommit: t.Commit, TargetTree: t.Tree, TargetVersion: t.Version, TargetEpoch: t.Epoch,
		TargetDoubted: t.Doubted, TargetHints: t.Hints, TargetReadAsked: stamp(t.ReadAsked), TargetMissing: t.Missing,
		Bisections: document[[]queue.Bisection]{append([]queue.Bisection{}, q.Bisections...)}, Bisected: q.Bisected, Stamp: q.Stamp,
		Landed: document[[]queue.Landed]{append([]queue.Landed{}, q.Landed...)}, Landing: document[*queue.Landing]{q.Landing},
		GivenUp: document[[]queue.GivenUp]{append([]queue.GivenUp{}, q.GivenUp...)},
		Runs:    q.Runs, Groups: q.Groups, Landings: q.Landings,
		ResyncDue: stamp(q.ResyncDue), ResyncRuns: q.ResyncRuns, CreatedAt: stamp(q.CreatedAt),
		Preflight:    document[queue.Preflight]{q.Preflight},
		RepositoryID: int64(q.Repo.ID),
	}
}

func (r queueRow) queue() queue.Queue {
	return queue.Queue{
		ID: queue.ID(r.ID), Key: r.Key, Repo: r.repo(r.RepositoryID), Branch: r.Branch,
		State: queue.State(r.State), StateWhy: r.StateWhy, Settings: r.settings(), WantedMode: queue.Mode(r.WantedMode),
		Target: queue.Target{
			Commit: r.TargetCommit, Tree: r.TargetTree, Version: r.TargetVersion, Epoch: r.TargetEpoch,
			Doubted: r.TargetDoubted, Hints: r.TargetHints, ReadAsked: time.Time(r.TargetReadAsked), Missing: r.TargetMissing,
		},
		Landed: unlessEmpty(r.Landed.v), Landing: r.Landing.v, GivenUp: unlessEmpty(r.GivenUp.v), Bisections: unlessEmpty(r.Bisections.v), Bisected: r.Bisected, Stamp: r.Stamp,
		Runs: r.Runs, Groups: r.Groups, Landings: r.Landings,
		ResyncDue: time.Time(r.ResyncDue), ResyncRuns: r.ResyncRuns, CreatedAt: time.Time(r.CreatedAt), Turn: r.Turn,
		Preflight: r.Preflight.v,
	}
}

func (r queueRow) settings() queue.Settings {
	return queue.Settings{
		Concurrency: r.Concurrency, BisectionConcurrency: r.BisectionConcurrency,
		TestingTimeoutMinutes: r.TestingTimeoutMinutes, PendingFailureDepth: r.PendingFailureDepth,
		CanOptimisticallyMerge: r.CanOptimisticallyMerge, Batch: r.Batch,
		BatchingMaxWaitTimeMinutes: r.BatchingMaxWaitTimeMinutes, BatchingMinSize: r.BatchingMinSize,
		Mode: queue.Mode(r.Mode), CommentsEnabled: r.CommentsEnabled, CommandsEnabled: r.CommandsEnabled,
		CreatePRsForTestingBranches: r.CreatePRsForTestingBranches, StatusCheckEnabled: r.StatusCheckEnabled,
		RequiredStatuses: append([]string{}, r.RequiredStatuses...), DirectMergeMode: queue.DirectMergeMode(r.DirectMergeMode),
		OptimizationMode: queue.OptimizationMode(r.OptimizationMode), MergeMethod: queue.MergeMethod(r.MergeMethod),
		ChosenLandingMode: queue.LandingMode(r.ChosenLandingMode), NotReadyTimeoutHours: r.NotReadyTimeoutHours,
		LabelCommandsEnabled: r.LabelCommandsEnabled, EnqueueingLabel: r.EnqueueingLabel,
		StateLabelsEnabled: r.StateLabelsEnabled, ExtensionEnabled: r.ExtensionEnabled, Speculation: queue.Speculation(r.Speculation),
	}
}

// queueText is what a decision may change of a queue's row, apart from when it
// is due next.
func queueText(q *queue.Queue, line, parts []queue.GroupID) (string, error) {
	row := rowOfQueue(q)
	row.Line, row.Parts = numbered(line), numbered(parts)
	return encode([]queueRow{row})
}

// saveQueue writes a queue's row after a decision: everything but what a queue
// is born with, or only when it is due next if before, its queueText before the
// decision, still says the rest. It is the last in turn from now on, and its turn is
// returned.
//
// When the decision repeats, see repeats, and the rest of the row stays as it is, its
// commit does not wait for the disk.
func saveQueue(ctx context.Context, tx *sqlx.Tx, before string, p *queue.Plan, repeats bool) (turn int64, err error) {
	text, err := queueText(&p.Queue, p.Line, p.Parts)
	if err != nil {
		return 0, err
	}
	var saved struct {
		Turn   int64          `json:"turn"`
		Commit sql.NullString `json:"commit"`
	}
	if text == before {
		err = tx.GetContext(ctx, &saved, `
			UPDATE queues SET wake_at = $2, held_until = NULL, turn = nextval('queue_turns') WHERE id = $1
			RETURNING turn, CASE WHEN $3 THEN set_config('synchronous_commit', 'off', true) END AS commit`,
			int64(p.Queue.ID), stamp(p.Wake), repeats)
		return saved.Turn, notSaved(err)
	}
	err = tx.GetContext(ctx, &saved, `
		UPDATE queues q SET
			state = n.state, state_why = n.state_why,
			concurrency = n.concurrency, bisection_concurrency = n.bisection_concurrency,
			testing_timeout_minutes = n.testing_timeout_minutes, pending_failure_depth = n.pending_failure_depth,
			can_optimistically_merge = n.can_optimistically_merge, batch = n.batch,
			batching_max_wait_time_minutes = n.batching_max_wait_time_minutes, batching_min_size = n.batching_min_size,
			mode = n.mode, comments_enabled = n.comments_enabled, commands_enabled = n.commands_enabled,
			create_prs_for_testing_branches = n.create_prs_for_testing_branches,
			status_check_enabled = n.status_check_enabled, required_statuses = n.required_statuses,
			direct_merge_mode = n.direct_merge_mode, optimization_mode = n.optimization_mode,
			merge_method = n.merge_method, chosen_landing_mode = n.chosen_landing_mode,
			not_ready_timeout_hours = n.not_ready_timeout_hours, label_commands_enabled = n.label_commands_enabled,
			enqueueing_label = n.enqueueing_label, state_labels_enabled = n.state_labels_enabled,
			extension_enabled = n.extension_enabled, speculation = n.speculation, wanted_mode = n.wanted_mode,
			target_commit = n.target_commit, target_tree = n.target_tree, target_version = n.target_version,
			target_epoch = n.target_epoch, target_doubted = n.target_doubted, target_hints = n.target_hints,
			target_read_asked = n.target_read_asked, target_missing = n.target_missing,
			line = n.line, parts = n.parts, landed = n.landed, landing = n.landing, given_up = n.given_up,
			bisections = n.bisections, bisected = n.bisected, stamp = n.stamp,
			runs = n.runs, groups = n.groups, landings = n.landings,
			resync_due = n.resync_due, resync_runs = n.resync_runs, preflight = n.preflight,
			wake_at = $2, held_until = NULL, turn = nextval('queue_turns')
		FROM json_populate_recordset(NULL::queues, $1) n
		WHERE q.id = n.id
		RETURNING q.turn`, text, stamp(p.Wake))
	return saved.Turn, notSaved(err)
}

// notSaved says that a queue, which was there when it was locked, was not saved.
func notSaved(err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("save queue: its row is gone")
	case err != nil:
		return fmt.Errorf("save queue: %w", err)
	}
	return nil
}
