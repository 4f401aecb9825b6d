package engine

import (
	"context"
	"errors"
	"fmt"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// mostRenders is how often one attempt tells the state anew when it changes
// while it is being told.
const mostRenders = 4

// syncPR makes what people see on a pull request tell what is true now. It
// does not matter which change asked for it: what is told is always read just
// before, and only one at a time tells. After telling it reads again and, if
// something changed, tells again.
func (e *Engine) syncPR() deed[queue.SyncPR] {
	return deed[queue.SyncPR]{
		place: func(ctx context.Context, a queue.SyncPR) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.SyncPR) ([]queue.Fact, error) {
			now, err := e.store.Version(ctx, a.Queue, a.PR)
			if err != nil {
				return nil, fmt.Errorf("see whether pull request %d has changed: %w", a.PR, err)
			}
			if now <= e.toldUpTo(a.Entry) && !at.again {
				return nil, nil // another job told this one's news too
			}
			return nil, e.tellPR(ctx, at.repo, a.Queue, a.PR)
		},
		about: func(a queue.SyncPR) []any { return []any{"queue", a.Queue, "pr", a.PR} },
	}
}

// turn is the proof that nobody else tells people anything on a pull request
// meanwhile, in this process or another: what is told there is first looked
// for and then written, and two that look at once both find nothing. Whatever
// writes on a pull request takes one. It ends with the function it is given to.
type turn struct {
	repo queue.Repo
	pr   int64
}

// inTurn waits for the turn on a pull request and has it for as long as do
// lasts. Do not wait for another turn in it.
func (e *Engine) inTurn(ctx context.Context, repo queue.Repo, pr int64, do func(context.Context, turn) error) error {
	return e.store.InTurn(ctx, repo.ID, pr, func(ctx context.Context) error { return do(ctx, turn{repo, pr}) })
}

// tellPR tells how a pull request stands in a queue, as often as that changes
// meanwhile.
func (e *Engine) tellPR(ctx context.Context, repo queue.Repo, id queue.ID, pr int64) error {
	var told string
	for range mostRenders {
		v, err := e.tellOnce(ctx, repo, id, pr, told)
		if err != nil || v == nil {
			return err
		}
		e.remember(*v)
		state := stateOf(*v)
		if state == told {
			return nil
		}
		told = state
		now, err := e.store.Version(ctx, id, pr)
		if err != nil {
			return fmt.Errorf("see whether pull request %d has changed while being told: %w", pr, err)
		}
		if now == v.Entry.Version {
			return nil
		}
	}
	return fmt.Errorf("tell how pull request %d stands: it changed %d times while being told", pr, mostRenders)
}

// tellOnce tells how a pull request stands now, unless that is what was told
// already, and returns what it saw; nil: there is nothing to tell. Then, each
// in its own turn, it tells the pull requests of the stack.
func (e *Engine) tellOnce(ctx context.Context, repo queue.Repo, id queue.ID, pr int64, told string) (v *texts.View, err error) {
	var later []error
	err = e.inTurn(ctx, repo, pr, func(ctx context.Context, t turn) (err error) {
		if v, err = e.see(ctx, t, id); err != nil || v == nil || stateOf(*v) == told {
			return err
		}
		later = e.show(ctx, t, *v)
		return nil
	})
	if err != nil || v == nil || stateOf(*v) == told || !v.Queue.CommentsEnabled {
		return v, errors.Join(append(later, err)...)
	}
	for _, l := range v.Entry.Stack {
		err := e.inTurn(ctx, repo, l.Number, func(ctx context.Context, t turn) error { return e.tellLayer(ctx, t, texts.Layer(*v, l)) })
		later = append(later, e.notLater(*v, "comment", err)...)
	}
	return v, errors.Join(later...)
}

// see is how a pull request stands in a queue; nil when it does not, or there
// is no such queue any more.
func (e *Engine) see(ctx context.Context, t turn, id queue.ID) (*texts.View, error) {
	s, err := e.store.ReadPRs(ctx, id, t.pr)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read queue %d: %w", id, err)
	}
	entry := s.ByPR(t.pr)
	if entry == nil {
		return nil, nil
	}
	s.Queue.Repo = t.repo // its present name
	v := texts.Look(s, entry, e.site, e.clock.Now())
	return &v, nil
}

// stateOf is everything that a telling depends on: two views with one state
// need no second telling.
func stateOf(v texts.View) string {
	v.Now = v.Entry.StateChangedAt // the time of looking is no news
	text := texts.Sticky(v) + texts.Notice(v) + v.Entry.BoundHead + fmt.Sprint(v.Queue.StateLabelsEnabled, v.Queue.LabelCommandsEnabled)
	for _, l := range v.Entry.Stack {
		text += texts.Layer(v, l)
	}
	return text
}

// show writes what is enabled: the notice first, because it is what the author
// waits for. It returns what may work later.
func (e *Engine) show(ctx context.Context, t turn, v texts.View) (later []error) {
	try := func(what string, err error) { later = append(later, e.notLater(v, what, err)...) }
	if v.Queue.CommentsEnabled && texts.Calls(v.Entry) {
		try("notice", e.host.Notice(ctx, t.repo, t.pr, texts.EndedMarker(v.Entry), texts.Notice(v)))
	}
	e.write(ctx, t, v, try)
	try("labels", e.label(ctx, t, v))
	return later
}

// notLater logs what the host refuses, which does not keep the rest from being
// written; what may work later it returns.
func (e *Engine) notLater(v texts.View, what string, err error) []error {
	switch {
	case err == nil:
		return nil
	case gitprovider.KindOf(err) == gitprovider.Transient:
		return []error{fmt.Errorf("%s: %w", what, err)}
	default:
		e.log.Warn("the host refused to have something told", "queue", v.Queue.ID, "pr", v.Entry.Number, "what", what, "error", err)
		return nil
	}
}

// write writes the sticky comment and our status check, with one call.
func (e *Engine) write(ctx context.Context, t turn, v texts.View, try func(what string, err error)) {
	var telling gitprovider.Telling
	written := func() error { return nil } // what is to be stored once the check is
	if v.Queue.StatusCheckEnabled {
		status, after, err := e.check(ctx, t, v, try)
		if err == nil {
			telling.Statuses, written = []gitprovider.Status{status}, after
		}
		try("status", err)
	}
	known := int64(0)
	if v.Queue.CommentsEnabled {
		sticky, err := e.comment(ctx, t, v)
		telling.Comment = sticky
		if sticky != nil {
			known = sticky.ID
		}
		try("comment", err)
	}
	if telling.Comment == nil && len(telling.Statuses) == 0 {
		return
	}
	told := e.host.Tell(ctx, t.repo, t.pr, telling)
	for _, err := range told.Statuses {
		if err == nil {
			err = written()
		}
		try("status", err)
	}
	if telling.Comment != nil {
		try("comment", e.commented(ctx, t, known, told))
	}
}

// check says how our status check on the commit of an entry shall be. When the
// entry has followed a push, the check on the commit that it has left is completed
// first, or it would wait there for ever. Which commit carries an unfinished check is
// stored before it gets one, and forgotten with written after it is completed, so
// that whoever tells next knows it, after a restart and in another copy too.
func (e *Engine) check(ctx context.Context, t turn, v texts.View, try func(what string, err error)) (status gitprovider.Status, written func() error, err error) {
	old, err := e.store.UnfinishedCheck(ctx, v.Queue.ID, t.pr)
	if err != nil {
		return status, nil, fmt.Errorf("see which commit has an unfinished check: %w", err)
	}
	if old != "" && old != v.Entry.BoundHead {
		err := e.host.Tell(ctx, t.repo, t.pr, gitprovider.Telling{Statuses: []gitprovider.Status{texts.Overtaken(v, old)}}).Statuses[0]
		if err != nil && gitprovider.KindOf(err) == gitprovider.Transient {
			return status, nil, err // it is not forgotten
		}
		try("old status", err)
	}
	unfinished := ""
	if v.Entry.Active() {
		unfinished = v.Entry.BoundHead
	}
	set := func() error {
		if old == unfinished {
			return nil
		}
		if err := e.store.SetUnfinishedCheck(ctx, v.Queue.ID, t.pr, unfinished); err != nil {
			return fmt.Errorf("remember which commit has an unfinished check: %w", err)
		}
		return nil
	}
	status = texts.Status(v)
	status.New = old == "" && unfinished != ""
	if unfinished != "" {
		return status, func() error { return nil }, set()
	}
	return status, set, nil
}

// comment is the sticky comment as it shall be. A pull request has one of them: when
// it has moved to another queue, the one where it ended leaves it to the other, and
// this is nil.
func (e *Engine) comment(ctx context.Context, t turn, v texts.View) (*gitprovider.Sticky, error) {
	if !v.Entry.Active() || v.Entry.Base != v.Queue.Branch {
		others, err := e.store.QueuesWith(ctx, t.repo.ID, t.pr)
		if err != nil {
			return nil, fmt.Errorf("find the queues of pull request %d: %w", t.pr, err)
		}
		for _, other := range others {
			if other != v.Queue.ID {
				return nil, nil
			}
		}
	}
	return e.sticky(ctx, t, texts.Sticky(v))
}

// sticky is the one sticky comment of a pull request that shall read so.
func (e *Engine) sticky(ctx context.Context, t turn, text string) (*gitprovider.Sticky, error) {
	known, err := e.store.Comment(ctx, t.repo.ID, t.pr)
	if err != nil {
		return nil, fmt.Errorf("read the comment's id: %w", err)
	}
	return &gitprovider.Sticky{ID: known, Marker: texts.StickyMarker, Body: text}, nil
}

// commented stores which comment the sticky one is.
func (e *Engine) commented(ctx context.Context, t turn, known int64, told gitprovider.Told) error {
	if told.Comment != nil || told.CommentID == known {
		return told.Comment
	}
	if err := e.store.SetComment(ctx, t.repo.ID, t.pr, told.CommentID); err != nil {
		return fmt.Errorf("remember the comment's id: %w", err)
	}
	return nil
}

// tellLayer writes the sticky comment of a pull request of a stack.
func (e *Engine) tellLayer(ctx context.Context, t turn, text string) error {
	sticky, err := e.sticky(ctx, t, text)
	if err != nil {
		return err
	}
	return e.commented(ctx, t, sticky.ID, e.host.Tell(ctx, t.repo, t.pr, gitprovider.Telling{Comment: sticky}))
}

// toldUpTo is the newest version of an entry that this process told.
func (e *Engine) toldUpTo(id queue.EntryID) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.upTo[id]
}

// remember notes what was told.
func (e *Engine) remember(v texts.View) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.upTo) >= mostTold {
		clear(e.upTo) // costs a few calls, nothing else
	}
	e.upTo[v.Entry.ID] = max(v.Entry.Version, e.upTo[v.Entry.ID])
}
