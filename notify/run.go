package notify

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

const (
	// lease is how long a worker holds a subscriber at most: longer than an
	// attempt and the recording of it take.
	lease = time.Minute
	// recordTimeout bounds the recording of a round.
	recordTimeout = 20 * time.Second
	// poll is how often is looked for something to do though nobody rang.
	poll = 30 * time.Second
	// widest is how many deliveries one subscriber gets at once.
	widest = 16
	// disableAfter is how long a subscriber may fail until it is switched off,
	// and disableTries how often at least something was tried by then: one that
	// was sent nothing for long is not judged by its first failure.
	disableAfter = 5 * 24 * time.Hour
	disableTries = 6
)

// pauses are how long a subscriber is left alone that did not answer a whole
// round, by how many such rounds there were.
var pauses = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}

// wide is how many deliveries a round to a subscriber has. Slack takes about
// one message a second. One that does not answer is asked with one.
func wide(s account.Subscriber) int {
	if s.Kind == account.SlackSubscriber || s.Health.Failures > 0 {
		return 1
	}
	return widest
}

// Run tells subscribers things until ctx ends, and then returns when no attempt
// is under way any more. Any number of copies may run on one store.
func (s *Service) Run(ctx context.Context) error {
	added, err := s.store.DeliveriesAdded(ctx)
	if err != nil {
		return fmt.Errorf("hear of deliveries: %w", err)
	}
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, s.workers) // has a value for each worker at work
	ended := make(chan struct{}, 1)        // a round is over: there may be another
	for ctx.Err() == nil {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		now := s.clock.Now()
		round, ok, err := s.store.ClaimDeliveries(ctx, now, now.Add(lease), wide)
		if !ok {
			<-free
			if err != nil && ctx.Err() == nil {
				s.log.Warn("what is to be delivered was not found; it is tried again soon", "error", err)
			}
			s.rest(ctx, added, ended, err != nil)
			continue
		}
		working.Go(func() {
			s.round(ctx, &round)
			<-free
			select {
			case ended <- struct{}{}:
			default: // somebody said so already
			}
		})
	}
	return nil
}

// rest waits until there may be something to do.
func (s *Service) rest(ctx context.Context, added <-chan queue.News, ended <-chan struct{}, failed bool) {
	wait := poll
	now := s.clock.Now()
	if failed {
		wait = 5 * time.Second
	} else if next, err := s.store.NextDelivery(ctx, now); err == nil && !next.IsZero() {
		wait = min(wait, max(next.Sub(now), time.Millisecond))
	}
	select {
	case <-ctx.Done():
	case _, open := <-added:
		if !open { // the store is being closed
			<-ctx.Done()
		}
	case <-ended:
	case <-s.clock.After(wait):
	}
}

// round makes the attempts of one round and writes down what came of them. When
// ctx ends, attempts that are cut off count for nothing.
func (s *Service) round(ctx context.Context, round *account.Sending) {
	end, err := s.open(ctx, round.Subscriber.ID, round.Sealed)
	answers := make([]answer, len(round.Deliveries))
	if err != nil {
		s.log.Error("a subscriber cannot be told anything", "subscriber", round.Subscriber.ID, "error", err)
		for i := range answers {
			answers[i].try = account.Try{At: s.clock.Now(), Error: "Its address and secret could not be read: the log of the server says why."}
		}
	} else {
		var attempts sync.WaitGroup
		for i := range round.Deliveries {
			attempts.Go(func() { answers[i] = s.attempt(ctx, round, end, round.Deliveries[i]) })
		}
		attempts.Wait()
	}
	if ctx.Err() != nil { // keep what arrived, and let go of the rest
		answers = only(answers, round)
	}
	s.record(ctx, round, answers)
}

// only keeps the deliveries that arrived.
func only(answers []answer, round *account.Sending) []answer {
	var kept []answer
	var deliveries []account.Delivery
	for i, a := range answers {
		if a.well() {
			kept, deliveries = append(kept, a), append(deliveries, round.Deliveries[i])
		}
	}
	round.Deliveries = deliveries
	return kept
}

func (s *Service) record(ctx context.Context, round *account.Sending, answers []answer) {
	now := s.clock.Now()
	tried := make([]account.Tried, len(answers))
	for i, a := range answers {
		t, outcome := judge(round.Deliveries[i], a, now)
		tried[i] = t
		s.attempted(round.Subscriber.Kind, outcome, time.Duration(a.try.Milliseconds)*time.Millisecond)
		s.log.Info("delivery", "subscriber", round.Subscriber.ID, "delivery", t.Delivery, "type", round.Deliveries[i].Type,
			"outcome", outcome, "status", a.try.Status, "attempt", len(round.Deliveries[i].Tries)+1, "problem", a.try.Error)
	}
	health, disabled := after(round, answers, now)
	if disabled != "" {
		s.log.Warn("a subscriber was switched off", "subscriber", round.Subscriber.ID, "name", round.Subscriber.Name, "organization", round.Org.Slug, "why", disabled)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.store.RecordDeliveries(ctx, *round, tried, health, disabled); err != nil {
		s.log.Error("what became of deliveries was not written down; they are sent again", "subscriber", round.Subscriber.ID, "error", err)
	}
}

// judge says what becomes of a delivery after an attempt.
func judge(d account.Delivery, a answer, now time.Time) (account.Tried, Outcome) {
	t := account.Tried{Delivery: d.ID, Try: a.try}
	switch failures := len(d.Tries) + 1; {
	case a.well():
		t.State = account.Delivered
		return t, Delivered
	case a.gone():
		t.State = account.GivenUp
		return t, Gone
	case failures > len(again):
		t.State = account.GivenUp
		return t, GivenUp
	default:
		t.State, t.NextAt = account.Waiting, now.Add(jitter(again[failures-1]))
		return t, Retried
	}
}

// after says how a subscriber is after a round, and why it is to be switched
// off; "" = it is not.
func after(round *account.Sending, answers []answer, now time.Time) (h account.Health, disabled string) {
	h = round.Subscriber.Health
	h.QuietUntil = time.Time{}
	if round.Subscriber.Kind == account.SlackSubscriber {
		h.QuietUntil = now.Add(time.Second)
	}
	if len(answers) == 0 {
		return h, ""
	}
	well, out, tries := 0, 0, 0
	var pause time.Duration
	for i, a := range answers {
		tries = max(tries, len(round.Deliveries[i].Tries)+1)
		switch {
		case a.gone():
			return h, "It answered 410 Gone: it wants no deliveries any more."
		case a.well():
			well++
		case a.out():
			out++
		}
		pause = max(pause, a.retryAfter)
	}
	if well > 0 {
		h.Failures, h.FailingSince, h.DeliveredAt = 0, time.Time{}, now
	} else if h.FailingSince.IsZero() {
		h.FailingSince = now
	}
	if out == len(answers) {
		h.Failures++
		pause = max(pause, pauses[min(h.Failures, len(pauses))-1])
	} else {
		h.Failures = 0
	}
	if pause > 0 && out > 0 {
		h.QuietUntil = now.Add(pause)
	}
	if !h.FailingSince.IsZero() && now.Sub(h.FailingSince) >= disableAfter && tries >= disableTries {
		return h, fmt.Sprintf("Nothing that was sent to it since %s arrived.", h.FailingSince.UTC().Format("2 January 2006"))
	}
	return h, ""
}
