package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/queue"
)

// entryRow is an entry as its table has it. Entry.Targets is not in it: it is
// found when the entry is read, see attachTargets.
type entryRow struct {
	ID         string `json:"id"`
	QueueID    int64  `json:"queue_id"`
	Submission int64  `json:"submission"`
	State      string `json:"state"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`

	PR            int64  `json:"pr"`
	Title         string `json:"title"`
	URL           string `json:"url"`
	AuthorLogin   string `json:"author_login"`
	AuthorID      int64  `json:"author_id"`
	AuthorBot     bool   `json:"author_bot"`
	Head          string `json:"head"`
	HeadRef       string `json:"head_ref"`
	Fork          bool   `json:"fork"`
	Base          string `json:"base"`
	Draft         bool   `json:"draft"`
	Open          bool   `json:"open"`
	Merged        bool   `json:"merged"`
	Labels        texts  `json:"labels"`
	CommitTitle   string `json:"commit_title"`
	HostUpdatedAt stamp  `json:"host_updated_at"`

	BoundHead       string `json:"bound_head"`
	Mergeability    string `json:"mergeability"`
	MergeabilityWhy string `json:"mergeability_why"`
	MergeabilityFor string `json:"mergeability_for"`
	Doubted         bool   `json:"doubted"`
	RefreshAsked    stamp  `json:"refresh_asked"`
	RefreshAfter    stamp  `json:"refresh_after"`
	RefreshTries    int    `json:"refresh_tries"`
	RefreshDue      stamp  `json:"refresh_due"` // ours: Entry.RefreshDue

	SubmittedByLogin string `json:"submitted_by_login"`
	SubmittedByID    int64  `json:"submitted_by_id"`
	SubmittedByBot   bool   `json:"submitted_by_bot"`
	Via              string `json:"via"`
	Priority         int64  `json:"priority"`
	PriorityGiven    bool   `json:"priority_given"`
	NoBatch          bool   `json:"no_batch"`
	Forced           bool   `json:"forced"`
	SubmittedAt      stamp  `json:"submitted_at"`
	AdmittedAt       stamp  `json:"admitted_at"`
	StateChangedAt   stamp  `json:"state_changed_at"`

	BoundTargets  int64                 `json:"bound_targets"`
	GroupID       int64                 `json:"group_id"`
	Cancel        document[*queue.Wish] `json:"cancel"`
	Restart       document[*queue.Wish] `json:"restart"`
	Removed       string                `json:"removed"`
	ConflictsWith optional              `json:"conflicts_with"`
	Direct        string                `json:"direct"`
	Alone         bool                  `json:"alone"`
	Returned      int64                 `json:"returned"`
	VerifiedBy    string                `json:"verified_by"`
	LandedCommit  string                `json:"landed_commit"`
	Version       int64                 `json:"version"`

	Stack      document[[]queue.Layer] `json:"stack"`
	StackTitle string                  `json:"stack_title"`
	Onto       string                  `json:"onto"` // ours: Entry.Onto
}

// entryColumns are the columns of entryRow.
const entryColumns = `
	id, queue_id, submission, state, reason, message,
	pr, title, url, author_login, author_id, author_bot, head, head_ref, fork, base,
	draft, open, merged, labels, commit_title, host_updated_at,
	bound_head, mergeability, mergeability_why, mergeability_for, doubted,
	refresh_asked, refresh_after, refresh_tries, refresh_due,
	submitted_by_login, submitted_by_id, submitted_by_bot, via,
	priority, priority_given, no_batch, forced, submitted_at, admitted_at, state_changed_at,
	bound_targets, group_id, cancel, restart, removed, conflicts_with, direct, alone, returned,
	verified_by, landed_commit, version, stack, stack_title, onto`

func rowOfEntry(q queue.ID, e *queue.Entry) entryRow {
	return entryRow{
		ID: string(e.ID), QueueID: int64(q), Submission: e.Submission, State: string(e.State), Reason: string(e.Reason), Message: e.Message,
		PR: e.Number, Title: e.Title, URL: e.URL, AuthorLogin: e.Author.Login, AuthorID: e.Author.ID, AuthorBot: e.Author.Bot,
		Head: e.Head, HeadRef: e.HeadRef, Fork: e.Fork, Base: e.Base, Draft: e.Draft, Open: e.Open, Merged: e.Merged,
		Labels: e.Labels, CommitTitle: e.CommitTitle, HostUpdatedAt: stamp(e.UpdatedAt),
		BoundHead: e.BoundHead, Mergeability: string(e.Mergeability), MergeabilityWhy: e.MergeabilityWhy, MergeabilityFor: e.MergeabilityFor,
		Doubted: e.Doubted, RefreshAsked: stamp(e.RefreshAsked), RefreshAfter: stamp(e.RefreshAfter), RefreshTries: e.RefreshTries,
		RefreshDue:       stamp(e.RefreshDue()),
		SubmittedByLogin: e.SubmittedBy.Login, SubmittedByID: e.SubmittedBy.ID, SubmittedByBot: e.SubmittedBy.Bot, Via: string(e.Via),
		Priority: e.Priority, PriorityGiven: e.PriorityGiven, NoBatch: e.NoBatch, Forced: e.Forced,
		SubmittedAt: stamp(e.SubmittedAt), AdmittedAt: stamp(e.AdmittedAt), StateChangedAt: stamp(e.StateChangedAt),
		BoundTargets: int64(e.BoundTargets), GroupID: int64(e.Group), Cancel: document[*queue.Wish]{e.Cancel}, Restart: document[*queue.Wish]{e.Restart},
		Removed: e.Removed, ConflictsWith: optional(e.ConflictsWith), Direct: e.Direct, Alone: e.Alone, Returned: e.Returned,
		VerifiedBy: string(e.VerifiedBy), LandedCommit: e.LandedCommit, Version: e.Version,
		Stack: document[[]queue.Layer]{nonNil(e.Stack)}, StackTitle: e.StackTitle, Onto: e.Onto(),
	}
}

func (r entryRow) entry() queue.Entry {
	return queue.Entry{
		ID: queue.EntryID(r.ID), Submission: r.Submission, State: queue.EntryState(r.State), Reason: queue.Reason(r.Reason), Message: r.Message,
		PullRequest: queue.PullRequest{
			Number: r.PR, Title: r.Title, URL: r.URL, Author: queue.Actor{Login: r.AuthorLogin, ID: r.AuthorID, Bot: r.AuthorBot},
			Head: r.Head, HeadRef: r.HeadRef, Fork: r.Fork, Base: r.Base, Draft: r.Draft, Open: r.Open, Merged: r.Merged,
			Labels: r.Labels, CommitTitle: r.CommitTitle, UpdatedAt: time.Time(r.HostUpdatedAt),
		},
		BoundHead: r.BoundHead, Mergeability: queue.Mergeability(r.Mergeability), MergeabilityWhy: r.MergeabilityWhy, MergeabilityFor: r.MergeabilityFor,
		Doubted: r.Doubted, RefreshAsked: time.Time(r.RefreshAsked), RefreshAfter: time.Time(r.RefreshAfter), RefreshTries: r.RefreshTries,
		SubmittedBy: queue.Actor{Login: r.SubmittedByLogin, ID: r.SubmittedByID, Bot: r.SubmittedByBot}, Via: queue.Via(r.Via),
		Priority: r.Priority, PriorityGiven: r.PriorityGiven, NoBatch: r.NoBatch, Forced: r.Forced,
		SubmittedAt: time.Time(r.SubmittedAt), AdmittedAt: time.Time(r.AdmittedAt), StateChangedAt: time.Time(r.StateChangedAt),
		BoundTargets: queue.TargetsID(r.BoundTargets), Group: queue.GroupID(r.GroupID), Cancel: r.Cancel.v, Restart: r.Restart.v,
		Removed: r.Removed, ConflictsWith: queue.EntryID(r.ConflictsWith), Direct: r.Direct, Alone: r.Alone, Returned: r.Returned,
		VerifiedBy: queue.RunID(r.VerifiedBy), LandedCommit: r.LandedCommit, Version: r.Version,
		Stack: orNil(r.Stack.v), StackTitle: r.StackTitle,
	}
}

// saveEntries writes entries that changed or are new. It refuses an older
// version over a newer one: that would be a decision taken without the lock.
func saveEntries(ctx context.Context, tx *sqlx.Tx, q queue.ID, entries []queue.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	rows := make([]entryRow, len(entries))
	for i := range entries {
		rows[i] = rowOfEntry(q, &entries[i])
	}
	text, err := encode(rows)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO entries AS e (`+entryColumns+`)
		SELECT `+entryColumns+` FROM json_populate_recordset(NULL::entries, $1)
		ON CONFLICT (id) DO UPDATE SET
			submission = excluded.submission, state = excluded.state, reason = excluded.reason, message = excluded.message,
			pr = excluded.pr, title = excluded.title, url = excluded.url, author_login = excluded.author_login,
			author_id = excluded.author_id, author_bot = excluded.author_bot, head = excluded.head,
			head_ref = excluded.head_ref, fork = excluded.fork, base = excluded.base, draft = excluded.draft,
			open = excluded.open, merged = excluded.merged, labels = excluded.labels,
			commit_title = excluded.commit_title, host_updated_at = excluded.host_updated_at,
			bound_head = excluded.bound_head, mergeability = excluded.mergeability,
			mergeability_why = excluded.mergeability_why, mergeability_for = excluded.mergeability_for,
			doubted = excluded.doubted, refresh_asked = excluded.refresh_asked, refresh_after = excluded.refresh_after,
			refresh_tries = excluded.refresh_tries, refresh_due = excluded.refresh_due,
			submitted_by_login = excluded.submitted_by_login, submitted_by_id = excluded.submitted_by_id,
			submitted_by_bot = excluded.submitted_by_bot, via = excluded.via, priority = excluded.priority,
			priority_given = excluded.priority_given, no_batch = excluded.no_batch, forced = excluded.forced,
			submitted_at = excluded.submitted_at, admitted_at = excluded.admitted_at,
			state_changed_at = excluded.state_changed_at, bound_targets = excluded.bound_targets, group_id = excluded.group_id, cancel = excluded.cancel,
			restart = excluded.restart, removed = excluded.removed, conflicts_with = excluded.conflicts_with,
			direct = excluded.direct, alone = excluded.alone, returned = excluded.returned, verified_by = excluded.verified_by,
			landed_commit = excluded.landed_commit, version = excluded.version,
			stack = excluded.stack, stack_title = excluded.stack_title, onto = excluded.onto
		WHERE e.queue_id = excluded.queue_id AND e.pr = excluded.pr AND e.version <= excluded.version`, text)
	if err != nil {
		return fmt.Errorf("save entries: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n != int64(len(entries)) {
		return fmt.Errorf("save entries: only %d of %d are newer than what is stored, and of this queue (%w)", n, len(entries), err)
	}
	return saveLayers(ctx, tx, q, entries)
}

// saveLayers keeps stack_layers as the stacks among entries have it. An entry
// that has ended has none there.
func saveLayers(ctx context.Context, tx *sqlx.Tx, q queue.ID, entries []queue.Entry) error {
	var stacks, owners []queue.EntryID
	var prs []int64
	var heads []string
	for i := range entries {
		e := &entries[i]
		if !e.Stacked() {
			continue
		}
		stacks = append(stacks, e.ID)
		for _, l := range e.Stack {
			if e.Active() && !l.Merged {
				prs, heads, owners = append(prs, l.Number), append(heads, l.Head), append(owners, e.ID)
			}
		}
	}
	if len(stacks) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM stack_layers WHERE entry_id = ANY($1::uuid[])`, uuidsOf(stacks)); err != nil {
		return fmt.Errorf("save stacks: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO stack_layers (queue_id, pr, head, entry_id)
		SELECT $1, l.pr, l.head, l.entry_id FROM unnest($2::bigint[], $3::text[], $4::uuid[]) AS l (pr, head, entry_id)`,
		int64(q), pq.Array(prs), pq.Array(heads), uuidsOf(owners)); err != nil {
		return fmt.Errorf("save stacks: %w", err)
	}
	return nil
}

// nonNil makes an empty list of none, as the column has it; orNil the opposite,
// as a new entry has it.
func nonNil(stack []queue.Layer) []queue.Layer {
	if stack == nil {
		return []queue.Layer{}
	}
	return stack
}

func orNil(stack []queue.Layer) []queue.Layer {
	if len(stack) == 0 {
		return nil
	}
	return stack
}
