package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"signalbox/queue"
)

// decisionTimeout bounds one decision with its transaction, so that a stuck
// database cannot hold up the end of the process.
const decisionTimeout = 20 * time.Second

// How long a loop rests after an error, and a queue after a decision that
// failed.
const (
	firstRest, longestRest           = 100 * time.Millisecond, 30 * time.Second
	firstPostponed, longestPostponed = time.Second, 5 * time.Minute
)

// Run routes and decides until ctx ends, then finishes the decision in hand
// and returns nil. Errors of the store are logged and tried again; none ends
// it. This is the one place that starts goroutines, and it waits for them:
//
//	listen    rings when the store says that something changed
//	keepTime  rings when a queue's wake time comes, and on every slow poll
//	route     hands facts to queues
//	decide    (Workers times) decides on queues until none is due
func (e *Engine) Run(ctx context.Context) error {
	e.hear(queue.AnyNews) // whatever happened while nobody ran
	var loops sync.WaitGroup
	loops.Go(func() { e.listen(ctx) })
	loops.Go(func() { e.keepTime(ctx) })
	loops.Go(func() { e.routeFacts(ctx) })
	for range e.workers {
		loops.Go(func() { e.decideQueues(ctx) })
	}
	loops.Wait()
	return nil
}

// hear rings for those whom news concern.
func (e *Engine) hear(what queue.News) {
	if what.Has(queue.FactsArrived) {
		e.routing.ring()
	}
	if what.Has(queue.FactsWait) {
		e.deciding.ring()
	}
	if what.Has(queue.TimesChanged) {
		e.timing.ring()
	}
}

// listen turns the store's wake-ups into rings.
func (e *Engine) listen(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		wakeups, err := e.store.Wakeups(ctx)
		if err == nil {
			e.hear(queue.AnyNews) // for what was missed while nobody listened
			for news := range wakeups {
				failures = 0
				e.hear(news)
			}
			if ctx.Err() != nil {
				return
			}
			err = fmt.Errorf("the store closed the channel")
		}
		e.failed("listen", "listening for wake-ups stopped; the slow poll goes on", err)
		if !e.rest(ctx, max(failures, 1)) {
			return
		}
	}
}

// keepTime rings when the earliest wake time comes, and rings everything on
// every poll.
func (e *Engine) keepTime(ctx context.Context) {
	pollAt := e.clock.Now().Add(e.poll)
	for {
		e.waits(time.Time{}, false) // whatever is saved from here on may not be seen by what is read now
		next, err := e.store.NextWake(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.failed("time", "reading the next wake time failed; the slow poll goes on", err)
		}
		now := e.clock.Now()
		wait := pollAt.Sub(now)
		switch {
		case next.IsZero():
			e.waits(next, err == nil)
		case next.After(now):
			e.waits(next, true)
			wait = min(wait, next.Sub(now))
		default:
			// It is due. Whoever decides on it rings for the next time; to
			// ask again before would be to spin.
			e.deciding.ring()
		}
		select {
		case <-ctx.Done():
			return
		case <-e.timing:
		case <-e.clock.After(wait):
		}
		if now := e.clock.Now(); !now.Before(pollAt) {
			pollAt = now.Add(e.poll)
			e.routing.ring()
			e.deciding.ring()
		}
	}
}

// waits notes the wake time that keepTime waits for, zero if there is none.
// sure is false while it does not know.
func (e *Engine) waits(next time.Time, sure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next, e.sure = next, sure
}

// wakes has keepTime look again, unless the wake time of a queue that was saved
// is one that it would not miss.
func (e *Engine) wakes(at time.Time) {
	e.mu.Lock()
	missed := !e.sure || !at.IsZero() && (e.next.IsZero() || at.Before(e.next))
	e.mu.Unlock()
	if missed {
		e.timing.ring()
	}
}

// routeFacts hands facts to their queues whenever it is rung.
func (e *Engine) routeFacts(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.routing:
		}
		if err := e.routeOnce(ctx); err != nil {
			failures++
			e.failed("route", "routing facts failed; they are kept and routed later", err)
			if !e.rest(ctx, failures) {
				return
			}
			e.routing.ring()
			continue
		}
		failures = 0
		e.deciding.ring()
	}
}

func (e *Engine) routeOnce(ctx context.Context) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decisionTimeout)
	defer cancel()
	return e.store.Route(ctx, e.clock.Now())
}

// decideQueues decides until there is nothing more to find, then sleeps until it is
// rung.
func (e *Engine) decideQueues(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		again, err := e.decideOne(ctx)
		switch {
		case err != nil:
			failures++
			if !e.rest(ctx, failures) {
				return
			}
		case again:
			failures = 0
		default:
			failures = 0
			select {
			case <-ctx.Done():
			case <-e.deciding:
			}
		}
	}
}

// decideOne decides on one queue that is due. again says that there may be another,
// or the same once more. An error has been logged.
func (e *Engine) decideOne(ctx context.Context) (again bool, err error) {
	var (
		start = e.clock.Now()
		id    queue.ID   // of the queue in hand; 0 until the store has found one
		facts int        // folded into the decision
		plan  queue.Plan // the last that decide made: the one that was saved
	)
	decided, again, err := e.update(ctx, start, func(s *queue.Snapshot, received []queue.Received, now time.Time) queue.Plan {
		id, facts = s.Queue.ID, len(received)
		plan = e.decide(s, received, now)
		return plan
	})
	if err != nil {
		return e.decisionFailed(ctx, id, err)
	}
	if !decided {
		return false, nil
	}
	e.wakes(plan.Wake)
	e.succeeded(id)
	e.tell(id, plan)
	if e.hooks.Decided != nil {
		e.hooks.Decided(facts, e.clock.Now().Sub(start))
	}
	return again, nil
}

// update is Store.UpdateDue, not interrupted by the end of ctx, and with a
// panic as an error. The panic has passed through the store by then, which
// rolled back: nothing of the decision is kept, and nothing is lost.
func (e *Engine) update(ctx context.Context, now time.Time, decide Decide) (decided, again bool, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decisionTimeout)
	defer cancel()
	id, again, err := e.store.UpdateDue(ctx, now, decide)
	return id != 0, again, err
}

// decisionFailed logs the failure and, when it is known whose decision it was,
// puts that queue off, so that it does not stand before all others for ever.
func (e *Engine) decisionFailed(ctx context.Context, id queue.ID, cause error) (found bool, err error) {
	where := "decide"
	if _, ok := cause.(*panicked); ok {
		where = "panic"
	}
	if id == 0 {
		e.failed(where, "deciding failed; it is tried again later", cause)
		return false, cause
	}
	e.mu.Lock()
	e.failures[id]++
	n := e.failures[id]
	e.mu.Unlock()
	until := e.clock.Now().Add(backoff(firstPostponed, longestPostponed, n))
	e.failed(where, "deciding failed; nothing was changed, and the queue is tried again later", cause,
		"queue", id, "failures", n, "until", until)

	postponer, ok := e.store.(Postponer)
	if !ok {
		return false, cause // then everybody rests
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decisionTimeout)
	defer cancel()
	if err := postponer.Postpone(ctx, id, until); err != nil {
		e.failed(where, "putting the queue off failed", err, "queue", id)
		return false, err
	}
	e.timing.ring()
	return true, nil
}

// succeeded forgets the failures of a queue.
func (e *Engine) succeeded(id queue.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.failures, id)
}

// tell logs the moves of a saved plan: the log alone retells the day.
func (e *Engine) tell(id queue.ID, plan queue.Plan) {
	for _, m := range plan.Moves {
		e.log.Info("pull request moved", "queue", id, "pr", m.PR, "from", m.From, "to", m.To,
			"reason", m.Reason, "run", m.Run, "actor", m.Actor.String(), "message", m.Message)
		if e.hooks.Moved != nil {
			e.hooks.Moved(m)
		}
	}
	if e.hooks.Landed == nil {
		return
	}
	for _, entry := range plan.Entries {
		if i := slices.IndexFunc(plan.Moves, func(m queue.Move) bool { return m.Entry == entry.ID && m.To == queue.Merged }); i >= 0 {
			e.hooks.Landed(max(0, plan.Moves[i].At.Sub(entry.SubmittedAt))) // clocks of two programs may disagree
		}
	}
}

// failed logs and counts an error of a loop.
func (e *Engine) failed(where, message string, err error, attrs ...any) {
	attrs = append(attrs, "error", err)
	if p, ok := err.(*panicked); ok {
		attrs = append(attrs, "stack", string(p.stack))
	}
	e.log.Error(message, attrs...)
	if e.hooks.Failed != nil {
		e.hooks.Failed(where)
	}
}

// rest waits after the nth failure in a row; false says that ctx ended.
func (e *Engine) rest(ctx context.Context, n int) bool {
	select {
	case <-ctx.Done():
		return false
	case <-e.clock.After(backoff(firstRest, longestRest, n)):
		return true
	}
}

// panicked is a panic as an error, with the stack at its place.
type panicked struct {
	value any
	stack []byte
}

// Error is what was thrown.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// recovered turns a panic into an error; it is to be deferred.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = &panicked{value: value, stack: debug.Stack()}
	}
}
