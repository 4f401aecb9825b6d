package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/queue"
)

// stateLabels are the labels that show where an entry stands, while
// StateLabelsEnabled. A state that is not here has none.
var stateLabels = map[queue.EntryState]string{
	queue.NotReady:       "signalbox: waiting",
	queue.Pending:        "signalbox: in line",
	queue.Testing:        "signalbox: testing",
	queue.PendingFailure: "signalbox: testing",
	queue.TestsPassed:    "signalbox: passed",
	queue.Merged:         "signalbox: merged",
	queue.Failed:         "signalbox: failed",
}

// label writes the labels of a pull request that are ours to write: that of
// its state, if state labels are on, and no other of them; and, if a label
// queues, not that one once a submission has ended, so that it can be given
// again. Labels that are as they should be cost nothing but a look.
func (e *Engine) label(ctx context.Context, t turn, v view) error {
	var want, drop []string
	if v.queue.StateLabelsEnabled {
		if name := stateLabels[v.entry.State]; name != "" {
			want = append(want, name)
		}
		for _, name := range stateLabels {
			if !slices.Contains(want, name) && !slices.Contains(drop, name) {
				drop = append(drop, name)
			}
		}
		slices.Sort(drop)
	}
	if v.queue.LabelCommandsEnabled && !v.entry.Active() {
		drop = append(drop, v.queue.EnqueueingLabel)
	}
	if len(want)+len(drop) == 0 {
		return nil
	}
	return e.host.Labels(ctx, t.repo, t.pr, want, drop)
}

// meant finds out what a label that somebody gave or took away asks for:
// the one that queues is a command where label commands are on, any other is
// nothing. It asks only our own storage, because labels come and go often.
func (e *Engine) meant(ctx context.Context, repo queue.RepoID, c queue.CommandAsked) (queue.CommandAsked, bool, error) {
	id, err := e.store.QueueFor(ctx, repo, c.Label.Base)
	if errors.Is(err, queue.ErrNotFound) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("find the queue of %q: %w", c.Label.Base, err)
	}
	s, err := e.store.ReadPRs(ctx, id, c.PR)
	if errors.Is(err, queue.ErrNotFound) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("read queue %d: %w", id, err)
	}
	if !s.Queue.LabelCommandsEnabled || !strings.EqualFold(c.Label.Name, s.Queue.EnqueueingLabel) {
		return c, false, nil
	}
	c.Command = queue.Command{Verb: queue.VerbMerge, Text: c.Label.Name}
	if c.Label.Gone {
		c.Command.Verb = queue.VerbCancel
		entry := s.ByPR(c.PR)
		return c, entry != nil && entry.Active(), nil
	}
	return c, true, nil
}
