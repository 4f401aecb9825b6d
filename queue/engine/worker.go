package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// appendTimeout bounds the writing of what came of an action. It has its own
// time, so that the news of an attempt that ran out of its time still arrives.
const appendTimeout = 15 * time.Second

// deed is how one kind of action is performed.
type deed[A river.JobArgs] struct {
	// place is where: the repository, and the queue that gets the facts (0 =
	// the action appends its own).
	place func(ctx context.Context, a A) (queue.Repo, queue.ID, error)
	// do performs it and returns what was learned.
	do func(ctx context.Context, at task, a A) ([]queue.Fact, error)
	// failed is the fact that a failure for good becomes; nil when the
	// decision does not wait for this action, or asks again by itself.
	failed func(a A, f failure) []queue.Fact
	// about are the log attributes that name what it is about.
	about func(a A) []any
}

// task is one attempt at an action.
type task struct {
	repo queue.Repo
	// again says that there was an attempt before, which may have done some
	// or all of it.
	again bool
}

// failure is why an action was not performed.
type failure struct {
	kind    gitprovider.Kind
	trouble queue.Trouble
	message string // for people
	// again says that it was not the first attempt: an earlier one may have
	// done something before it failed.
	again bool
}

// worker performs the jobs of one kind.
type worker[A river.JobArgs] struct {
	river.WorkerDefaults[A]
	engine *Engine
	deed   deed[A]
}

// Timeout is that of the table.
func (w *worker[A]) Timeout(job *river.Job[A]) time.Duration { return kinds[job.Args.Kind()].timeout }

// NextRetry is the back-off of the table, on the engine's clock. River lives by
// the wall's; where that is another one, whoever moves ours wakes the jobs.
func (w *worker[A]) NextRetry(job *river.Job[A]) time.Time {
	l := kinds[job.Args.Kind()]
	return w.engine.clock.Now().Add(backoff(l.first, l.most, job.Attempt))
}

// Work performs the action once and appends what came of it. It returns an
// error when River shall try again, and with the last attempt, so that River
// keeps what went wrong.
func (w *worker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	start := w.engine.clock.Now()
	outcome, err := w.work(ctx, job)
	if hook := w.engine.hooks.Performed; hook != nil {
		hook(job.Args.Kind(), outcome, w.engine.clock.Now().Sub(start))
	}
	return err
}

func (w *worker[A]) work(ctx context.Context, job *river.Job[A]) (Outcome, error) {
	e, a := w.engine, job.Args
	log := e.log.With("action", a.Kind(), "attempt", job.Attempt).With(w.deed.about(a)...)
	outcome, last := Done, job.Attempt >= job.MaxAttempts

	repo, id, err := w.deed.place(ctx, a)
	if errors.Is(err, queue.ErrNotFound) {
		log.Info("action dropped: its queue or repository is gone")
		return Done, nil
	}
	var facts []queue.Fact
	if err == nil {
		facts, err = w.attempt(ctx, task{repo: repo, again: repeated(job.JobRow)}, a)
	}
	if err != nil {
		kind := gitprovider.KindOf(err)
		switch wait := w.putOff(a, err); {
		case wait > 0:
			log.Info("action put off: the host's limit is reached", "for", wait, "error", err)
			return PutOff, river.JobSnooze(wait)
		case kind != gitprovider.Transient:
			outcome = Refused
		case last:
			outcome = GivenUp
		default:
			log.Warn("action failed and will be tried again", "error", err)
			return Retried, fmt.Errorf("%s: %w", a.Kind(), err)
		}
		e.astray(repo, err)
		log.Warn("action failed", "outcome", outcome, "kind", kind, "error", err)
		if w.deed.failed != nil {
			facts = append(facts, w.deed.failed(a, failure{kind, troubleOf(kind), sentence(err), repeated(job.JobRow)})...)
		}
	}
	if len(facts) > 0 && repo.ID != 0 {
		if lost := e.append(ctx, repo.ID, id, facts...); lost != nil {
			return Retried, errors.Join(err, fmt.Errorf("%s: %w", a.Kind(), lost))
		}
	}
	if outcome == GivenUp {
		return outcome, fmt.Errorf("%s: %w", a.Kind(), err)
	}
	if outcome == Done {
		log.Info("action performed", "facts", len(facts))
	}
	return outcome, nil
}

// repeated reports whether there was an attempt before this one. One after
// which the action slept is not in River's count.
func repeated(job *rivertype.JobRow) bool {
	var noted struct {
		Snoozes int `json:"snoozes"`
	}
	return job.Attempt > 1 || json.Unmarshal(job.Metadata, &noted) == nil && noted.Snoozes > 0
}

// longestPutOff bounds for how long an action sleeps at a time.
const longestPutOff = 15 * time.Minute

// putOff is for how long an action sleeps because the host's limit is reached;
// that is no attempt. One that a decision waits for does not: it fails, and the
// decision asks again, so that it is never under way twice.
func (w *worker[A]) putOff(a A, err error) time.Duration {
	var known *gitprovider.Error
	if !errors.As(err, &known) || known.After.IsZero() || kinds[a.Kind()].fitsDeadline > 0 {
		return 0
	}
	return min(max(known.After.Sub(w.engine.clock.Now()), time.Second), longestPutOff)
}

// attempt is deed.do with a panic as an error, so that the last attempt
// becomes a fact even then.
func (w *worker[A]) attempt(ctx context.Context, at task, a A) (facts []queue.Fact, err error) {
	defer func() {
		var p *panicked
		if errors.As(err, &p) {
			w.engine.failed("panic", "performing an action panicked", p, "action", a.Kind())
		}
	}()
	defer recovered(&err)
	return w.deed.do(ctx, at, a)
}

// present checks that a repository is there, and ours to work on, when the
// host does not find something in it: of a repository that was renamed,
// transferred or taken from the App everything seems gone, and nothing is. It
// returns an error that says so, or why it could not find out.
func (e *Engine) present(ctx context.Context, repo queue.Repo) error {
	found, err := e.host.Find(ctx, repo.Host, repo.Owner, repo.Name)
	switch kind := gitprovider.KindOf(err); {
	case err != nil && kind == gitprovider.Transient:
		return fmt.Errorf("find repository %s: %w", repo, err)
	case err == nil && (repo.HostID == 0 || found.HostID == repo.HostID):
		return nil
	}
	return &gitprovider.Error{Kind: gitprovider.Denied, Err: err, Message: fmt.Sprintf(
		"%s is not on the host under this name any more, or the App may not work on it. If it was renamed the queue follows it in a moment.", repo)}
}

// astray passes on that the host does not let us work on a repository.
func (e *Engine) astray(repo queue.Repo, err error) {
	if e.hooks.Astray != nil && gitprovider.KindOf(err) == gitprovider.Denied {
		e.hooks.Astray(repo)
	}
}

// append adds facts, stamped with the engine's time, even when ctx has ended:
// what was done to the world must be heard of.
func (e *Engine) append(ctx context.Context, repo queue.RepoID, id queue.ID, facts ...queue.Fact) error {
	now := e.clock.Now()
	for i, f := range facts {
		facts[i] = stamped(f, now)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	if err := e.store.Append(ctx, repo, id, facts...); err != nil {
		return fmt.Errorf("append facts: %w", err)
	}
	e.routing.ring()
	e.deciding.ring()
	return nil
}

// stamped puts our time on the facts that decisions compare with their own.
// The host may live by another clock.
func stamped(f queue.Fact, now time.Time) queue.Fact {
	switch f := f.(type) {
	case queue.RunBuilt:
		f.At = now
		return f
	case queue.RunNotBuilt:
		f.At = now
		return f
	case queue.LandingEnded:
		f.At = now
		return f
	case queue.PreflightSeen:
		f.At = now
		return f
	default:
		return f
	}
}

// troubleOf is a kind of error as a decision knows it. Something gone is
// "stale": the decision reads the target again and so finds out what has become
// of it, and repeats with back-off until then. As "denied" it would fail pull
// requests for a branch that was only renamed.
func troubleOf(kind gitprovider.Kind) queue.Trouble {
	switch kind {
	case gitprovider.Conflict:
		return queue.TroubleConflict
	case gitprovider.Stale, gitprovider.Gone:
		return queue.TroubleStale
	case gitprovider.Denied:
		return queue.TroubleDenied
	default:
		return queue.TroubleTransient
	}
}

// sentence is what people are told of an error: the host's own message when it
// has one. The rest is for the log alone, since nobody checked what is in it.
func sentence(err error) string {
	var known *gitprovider.Error
	if errors.As(err, &known) && known.Message != "" {
		return known.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The Git host did not answer in time."
	}
	return "The Git host could not be reached, or answered with an error."
}

// inQueue finds the repository of a queue's actions.
func (e *Engine) inQueue(ctx context.Context, id queue.ID) (queue.Repo, queue.ID, error) {
	e.mu.Lock()
	repo, known := e.repos[id]
	e.mu.Unlock()
	if !known {
		s, err := e.store.ReadPRs(ctx, id)
		if err != nil {
			return queue.Repo{}, id, fmt.Errorf("find the repository of queue %d: %w", id, err)
		}
		repo = s.Queue.Repo.ID
		e.mu.Lock()
		e.repos[id] = repo
		e.mu.Unlock()
	}
	found, err := e.store.Repo(ctx, repo)
	if err != nil {
		return queue.Repo{ID: repo}, id, fmt.Errorf("read repository %d: %w", repo, err)
	}
	return found, id, nil
}
