package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// answerCommand checks a command's author, does what was asked if that is
// allowed, and answers. Reading, choosing and doing are three steps: gather,
// [choose] and carryOut.
//
// An accepted command gets a thumbs-up and nothing more to read: the sticky
// comment names the commit that is queued. Where there is no sticky comment, or
// nothing to react to, a reply takes its place.
func (e *Engine) answerCommand() deed[queue.AnswerCommand] {
	return deed[queue.AnswerCommand]{
		place: func(ctx context.Context, a queue.AnswerCommand) (queue.Repo, queue.ID, error) {
			repo, err := e.store.Repo(ctx, a.Repo)
			return repo, 0, err
		},
		do: func(ctx context.Context, at task, a queue.AnswerCommand) ([]queue.Fact, error) {
			return nil, e.answer(ctx, at, a.Command)
		},
		about: func(a queue.AnswerCommand) []any {
			return []any{"repo", a.Repo, "pr", a.Command.PR, "comment", a.Command.Comment, "by", a.Command.By.String(), "verb", a.Command.Command.Verb}
		},
	}
}

func (e *Engine) answer(ctx context.Context, at task, c queue.CommandAsked) error {
	if c.By.Login == "" || c.By.Bot && !e.bots[strings.ToLower(c.By.Login)] {
		e.log.Info("command ignored: its author is no person and not on the list of bots", "pr", c.PR, "by", c.By.String())
		return nil
	}
	if c.Label != nil {
		meant, ok, err := e.meant(ctx, at.repo.ID, c)
		if err != nil || !ok {
			return err
		}
		c = meant
	}
	q, err := e.gather(ctx, at, c)
	if err != nil {
		return err
	}
	return e.carryOut(ctx, at.repo, q, choose(q))
}

// question is a command with everything that its answer depends on.
type question struct {
	queue.CommandAsked
	found bool // the pull request exists
	// target is the branch on which it would land, stack what it stands on, the
	// lowest first; noStack says why nothing leads to a queue's branch.
	target  string
	stack   []queue.PullRequest
	noStack string
	pr      queue.PullRequest
	right   gitprovider.Permission
	// privileged is the right that --force and urgent priority take.
	privileged gitprovider.Permission
	// rightUnknown says why the host did not tell the author's right; "" when it did.
	rightUnknown string
	// base is the queue of the target, nil if there is none.
	base *standing
	// others are the other queues where it has an active entry: its base
	// was changed, and that has not been decided on yet.
	others []*standing
	site   texts.Site
	newID  queue.EntryID
	asked  time.Time // when, by the host: the same in a repetition
	again  bool      // an earlier attempt may have done what was asked
}

// standing is how the pull request stands in one queue.
type standing struct {
	texts.View
	submitted bool // it has an entry, active or ended, or is in the stack of one
	window    *queue.Snapshot
}

// gather reads what an answer depends on.
func (e *Engine) gather(ctx context.Context, at task, c queue.CommandAsked) (question, error) {
	q := question{CommandAsked: c, site: e.site, asked: c.At, again: at.again, privileged: e.privileged, newID: queue.EntryID(e.newID())}
	if now := e.clock.Now(); !at.again {
		// Our own clock, so that wishes that came other ways compare with
		// this one: the host's is cut to seconds. A repetition keeps to the
		// host's earlier time, and is known as one by it.
		q.At = now
	} else if q.At.After(now) {
		q.At = now
	}
	seen, err := e.host.PullRequest(ctx, at.repo, c.PR)
	if err != nil {
		if gitprovider.KindOf(err) == gitprovider.Gone {
			return q, nil
		}
		return q, fmt.Errorf("read pull request %d: %w", c.PR, err)
	}
	q.found, q.pr, q.target = true, seen.PullRequest, seen.Base
	if c.Command.Verb == queue.VerbMerge || c.Command.Verb == queue.VerbStack {
		if err := e.gatherStack(ctx, at.repo, &q); err != nil {
			return q, err
		}
	}
	if err := e.gatherQueues(ctx, at.repo, &q); err != nil {
		return q, err
	}
	q.right, err = e.host.Permission(ctx, at.repo, c.By)
	switch {
	case err == nil:
		return q, nil
	case gitprovider.KindOf(err) == gitprovider.Gone: // nobody of that id
		q.right = gitprovider.NoPermission
		return q, nil
	case gitprovider.KindOf(err) == gitprovider.Transient:
		return q, fmt.Errorf("read the permission of %s: %w", c.By, err)
	default:
		q.rightUnknown = sentence(err)
		return q, nil
	}
}

// gatherQueues finds the queues that a command may be about.
func (e *Engine) gatherQueues(ctx context.Context, repo queue.Repo, q *question) error {
	base, err := e.store.QueueFor(ctx, repo.ID, q.target)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return fmt.Errorf("find the queue of %q: %w", q.target, err)
	}
	if err == nil {
		if q.base, err = e.stands(ctx, repo, base, q.PR, q.stack...); err != nil {
			return err
		}
	}
	with, err := e.store.QueuesWith(ctx, repo.ID, q.PR)
	if err != nil {
		return fmt.Errorf("find the queues of pull request %d: %w", q.PR, err)
	}
	for _, id := range with {
		if q.base != nil && id == base {
			continue
		}
		other, err := e.stands(ctx, repo, id, q.PR)
		if err != nil {
			return err
		}
		if other != nil {
			q.others = append(q.others, other)
		}
	}
	return nil
}

// mostLayers is the height of the highest stack that is queued.
const mostLayers = 20

// gatherStack finds what a pull request stands on: the open pull request of its
// base branch, that of that one's base, and so on, down to a branch that has a
// queue. Where the base has one there is nothing beneath.
func (e *Engine) gatherStack(ctx context.Context, repo queue.Repo, q *question) error {
	for on, branch := q.pr, q.pr.Base; ; branch = on.Base {
		_, err := e.store.QueueFor(ctx, repo.ID, branch)
		if err == nil {
			q.target = branch
			return nil
		}
		if !errors.Is(err, queue.ErrNotFound) {
			return fmt.Errorf("find the queue of %q: %w", branch, err)
		}
		found, err := e.host.From(ctx, repo, branch)
		if err != nil && gitprovider.KindOf(err) != gitprovider.Gone {
			return fmt.Errorf("find the pull request of branch %q: %w", branch, err)
		}
		switch {
		case len(found) == 0:
			if q.noStack = texts.NoQueueReply(branch); len(q.stack) > 0 {
				q.noStack = texts.NoQueueBeneathReply(on.Number, branch)
			}
		case len(found) > 1:
			q.noStack = texts.TwoBeneathReply(on.Number, branch, found)
		case len(q.stack) == mostLayers || q.among(found[0].Number):
			q.noStack = texts.EndlessStackReply(mostLayers)
		default:
			on = found[0].PullRequest
			q.stack = append([]queue.PullRequest{on}, q.stack...)
			continue
		}
		return nil
	}
}

// among reports whether a pull request is the question's or beneath it.
func (q *question) among(number int64) bool {
	return number == q.pr.Number || slices.ContainsFunc(q.stack, func(p queue.PullRequest) bool { return p.Number == number })
}

// stands reads how a pull request stands in a queue, by itself or in a stack;
// nil if the queue has just been deleted.
func (e *Engine) stands(ctx context.Context, repo queue.Repo, id queue.ID, pr int64, beneath ...queue.PullRequest) (*standing, error) {
	prs := []int64{pr}
	for _, b := range beneath {
		prs = append(prs, b.Number)
	}
	s, err := e.store.ReadPRs(ctx, id, prs...)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read queue %d: %w", id, err)
	}
	s.Queue.Repo = repo
	entry := s.ByPR(pr)
	if stack := s.StackWith(pr); stack != nil && (entry == nil || !entry.Active()) {
		entry = stack
	}
	if entry != nil {
		return &standing{texts.Look(s, entry, e.site, e.clock.Now()), true, s}, nil
	}
	return &standing{texts.View{Queue: s.Queue, Site: e.site, Now: e.clock.Now()}, false, s}, nil
}

// carryOut does what was chosen: the wishes first, because they are what the
// person wants; then the reaction and the reply, both of which may be repeated.
func (e *Engine) carryOut(ctx context.Context, repo queue.Repo, q question, a answer) error {
	if a.ignore != "" {
		e.log.Info("command ignored: "+a.ignore, "pr", q.PR, "by", q.By.String(), "verb", q.Command.Verb)
		return nil
	}
	for _, w := range a.wishes {
		if err := e.append(ctx, repo.ID, w.queue, w.fact); err != nil {
			return err
		}
	}
	if err := e.respond(ctx, repo, q, a); err != nil {
		return err
	}
	return e.untick(ctx, repo, q)
}

// respond writes what is to be seen of an answer.
func (e *Engine) respond(ctx context.Context, repo queue.Repo, q question, a answer) error {
	if q.Comment != 0 {
		if err := e.told(q, "reaction", e.host.React(ctx, repo, q.Comment, a.reaction)); err != nil {
			return err
		}
	}
	if a.reply == "" {
		return nil
	}
	return e.inTurn(ctx, repo, q.PR, func(ctx context.Context, t turn) error {
		return e.told(q, "reply", e.host.Notice(ctx, t.repo, t.pr, texts.ReplyMarker(a.key), texts.Reply(a.key, a.reply)))
	})
}

// told lets only what may work later be an error: a comment that was deleted
// meanwhile, or a conversation that is locked, must not repeat the command.
func (e *Engine) told(q question, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case gitprovider.KindOf(err) == gitprovider.Transient:
		return fmt.Errorf("%s to a command: %w", what, err)
	default:
		e.log.Warn("the host refused the answer to a command", "pr", q.PR, "what", what, "error", err)
		return nil
	}
}

// untick writes the sticky comment again when the command was a tick in it:
// whatever came of the tick, the box has to be empty again. When the command
// was accepted, the next decision writes it anyway.
func (e *Engine) untick(ctx context.Context, repo queue.Repo, q question) error {
	if q.Comment == 0 || q.base == nil {
		return nil
	}
	sticky, err := e.store.Comment(ctx, repo.ID, q.PR)
	if err != nil {
		return fmt.Errorf("read the comment's id: %w", err)
	}
	if sticky != q.Comment {
		return nil
	}
	return e.tellPR(ctx, repo, q.base.Queue.ID, q.PR)
}
