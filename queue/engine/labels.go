package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/queue"
	"signalbox/queue/texts"
)

// label writes the labels of a pull request that are ours to write: that of
// its state, if state labels are on, and no other of them; and, if a label
// queues, not that one once a submission has ended, so that it can be given
// again. Labels that are as they should be cost nothing but a look.
func (e *Engine) label(ctx context.Context, t turn, v texts.View) error {
	var want, drop []string
	if v.Queue.StateLabelsEnabled {
		drop = texts.StateLabels()
		if name := texts.StateLabel(v.Entry.State); name != "" {
			want = []string{name}
			drop = slices.DeleteFunc(drop, func(other string) bool { return other == name })
		}
	}
	if v.Queue.LabelCommandsEnabled && !v.Entry.Active() {
		drop = append(drop, v.Queue.EnqueueingLabel)
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
