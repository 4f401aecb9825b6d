package notify

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// A pull request's events arrive in their order, whatever the receiver does;
// those of others do not wait for it.
func TestEventsOfOneSubjectArriveInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*")
	refused := 0
	w.answer = func(_ int, body string, out http.ResponseWriter) bool {
		if brief(body) == "submitted 1" && refused < 2 {
			refused++
			out.WriteHeader(http.StatusBadRequest)
			return false
		}
		return true
	}
	w.happen(w.repo.ID, submit(1), admit(1), submit(2), admit(2))
	w.happen(w.repo.ID, start(2), start(1))
	w.run()
	w.await("all six arrive", func() bool { return len(w.got()) == 6 })
	arrived := w.got()
	for pr := range map[string]bool{"1": true, "2": true} {
		var order []string
		for _, a := range arrived {
			if kind, ok := strings.CutSuffix(a, " "+pr); ok {
				order = append(order, kind)
			}
		}
		if want := []string{"submitted", "queued", "testing"}; !slices.Equal(order, want) {
			t.Errorf("the events of #%s arrived as %q, want %q", pr, order, want)
		}
	}
	if last := arrived[5]; last != "testing 1" {
		t.Errorf("#2 waited for #1: %q", arrived)
	}
	w.await("it is written down", func() bool { return w.settled(sub) })
	if got, want := w.log(sub)[0], "pull_request.submitted delivered 3"; got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// Each hears what it asked for; nobody hears of what happened before.
func TestSubscribersHearWhatTheyAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen(w.repo.ID, submit(9))
	everything := w.subscribe("*")
	family := w.subscribe("pull_request.*")
	w.secret = "" // they share an address
	few, _, err := w.service.Create(w.ctx, w.org.ID, account.Subscriber{
		Kind: account.WebhookSubscriber, Name: "few", Events: []string{"pull_request.queued", "queue.*"},
		Repositories: []account.Watched{{ID: int64(w.other.ID)}},
	}, w.url)
	w.must(err)
	off := w.subscribe("*")
	_, err = w.service.Change(w.ctx, w.org.ID, off.ID, nil, func(s *account.Subscriber) { s.Enabled = false })
	w.must(err)
	w.happen(w.repo.ID, submit(1), admit(1))
	w.happen(w.other.ID, submit(2), admit(2))
	for name, tt := range map[string]struct {
		sub  account.Subscriber
		want string
	}{
		"everything": {everything, "pull_request.submitted, pull_request.queued, pull_request.submitted, pull_request.queued"},
		"a family":   {family, "pull_request.submitted, pull_request.queued, pull_request.submitted, pull_request.queued"},
		"a few":      {few, "pull_request.queued"},
		"nothing":    {off, ""},
	} {
		var types []string
		for _, line := range w.log(tt.sub) {
			types = append(types, strings.Fields(line)[0])
		}
		if got := strings.Join(types, ", "); got != tt.want {
			t.Errorf("who asked for %s hears %s, want %s", name, got, tt.want)
		}
	}
	if _, _, err := w.service.Create(w.ctx, w.org.ID+1, account.Subscriber{Kind: account.WebhookSubscriber, Name: "x", Events: []string{"*"}}, w.url); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a subscriber of an organisation that does not exist: %v", err)
	}
	if _, err := w.service.Find(w.ctx, w.org.ID+1, few.ID); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("found from outside: %v", err)
	}
}

// What was sent and not written down is sent again under the same id; so is
// what a program had in hand that died.
func TestNothingIsLostBetweenSendingAndWritingDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*")
	w.store.record = func() error { return errors.New("the database is away") }
	w.happen(w.repo.ID, submit(1), admit(1))
	w.run()
	w.await("the first arrives", func() bool { return len(w.got()) >= 1 })
	w.stop() // the hold on the subscriber lasts
	w.store.mu.Lock()
	w.store.record = nil
	w.store.mu.Unlock()
	w.clock.advance(lease)
	w.service = newService(t, w.store, w.clock)
	w.run()
	w.await("all is written down", func() bool { return w.settled(sub) })
	got := w.got()
	if first := got[:len(got)-1]; got[len(got)-1] != "queued 1" || slices.Contains(first, "queued 1") || len(first) < 2 || first[0] != "submitted 1" {
		t.Errorf("arrived: %q", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids[0] != w.ids[1] || w.ids[0] == w.ids[len(w.ids)-1] {
		t.Errorf("ids: %q", w.ids)
	}
}

// A program that stops counts no attempt that it cut off itself.
func TestStoppingCountsAsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*")
	holding, leave := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(leave) })
	w.answer = func(n int, _ string, out http.ResponseWriter) bool {
		if n > 1 {
			return true
		}
		close(holding)
		w.mu.Unlock()
		<-leave
		w.mu.Lock()
		return false
	}
	w.happen(w.repo.ID, submit(1))
	w.run()
	<-holding
	w.stop()
	if got := w.log(sub); !slices.Equal(got, []string{"pull_request.submitted waiting 0"}) {
		t.Errorf("the log says %q", got)
	}
	w.service = newService(t, w.store, w.clock)
	w.run() // at once: the hold was given back
	w.await("it arrives", func() bool { return w.settled(sub) })
}

// 410 switches a subscriber off, with a line in the audit log; what waits is
// kept, and goes out when it is switched on again.
func TestGoneMeansGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*")
	gone := true
	w.answer = func(_ int, _ string, out http.ResponseWriter) bool {
		if gone {
			out.WriteHeader(http.StatusGone)
		}
		return !gone
	}
	w.happen(w.repo.ID, submit(1), admit(1))
	w.run()
	w.await("it is switched off", func() bool {
		s, err := w.service.Find(w.ctx, w.org.ID, sub.ID)
		w.must(err)
		return !s.Enabled && strings.Contains(s.Why, "410")
	})
	if got := w.log(sub); !slices.Equal(got, []string{"pull_request.submitted given_up 1", "pull_request.queued waiting 0"}) {
		t.Errorf("the log says %q", got)
	}
	audit, err := w.store.Audit(w.ctx, w.org.ID, 0, 1)
	w.must(err)
	if audit[0].Deed != account.SubscriberDisabled || audit[0].By.String() != "Signalbox" || audit[0].Subject != "receiver" {
		t.Errorf("the audit log says %+v", audit[0])
	}
	w.happen(w.repo.ID, start(1)) // nobody hears of it
	w.mu.Lock()
	gone = false
	w.mu.Unlock()
	_, err = w.service.Change(w.ctx, w.org.ID, sub.ID, nil, func(s *account.Subscriber) { s.Enabled = true })
	w.must(err)
	w.await("what waited arrives", func() bool { return slices.Equal(w.got(), []string{"queued 1"}) })
}

// A subscriber that is down is left alone; when it is back, all that waited
// arrives in order. A delivery that a person asks for again has the same id.
func TestAnOutageLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*")
	down := true
	w.answer = func(_ int, _ string, out http.ResponseWriter) bool {
		if down {
			out.WriteHeader(http.StatusServiceUnavailable)
		}
		return !down
	}
	w.happen(w.repo.ID, submit(1), admit(1), submit(2))
	w.run()
	w.await("it has failed a few rounds", func() bool {
		s, err := w.service.Find(w.ctx, w.org.ID, sub.ID)
		w.must(err)
		return s.Health.Failures >= 3 && !s.Health.FailingSince.IsZero()
	})
	w.mu.Lock()
	down = false
	w.mu.Unlock()
	w.await("all arrives", func() bool { return w.settled(sub) })
	got := w.got()
	if one, two := slices.Index(got, "submitted 1"), slices.Index(got, "queued 1"); len(got) != 3 || one < 0 || two < one {
		t.Errorf("arrived: %q", got)
	}
	s, err := w.service.Find(w.ctx, w.org.ID, sub.ID)
	w.must(err)
	if s.Health.Failures != 0 || !s.Health.FailingSince.IsZero() || s.Health.DeliveredAt.IsZero() {
		t.Errorf("it is well again, and yet %+v", s.Health)
	}
	list, err := w.service.Deliveries(w.ctx, w.org.ID, sub.ID, 0, 10)
	w.must(err)
	again, err := w.service.Redeliver(w.ctx, w.org.ID, sub.ID, list[0].ID)
	w.must(err)
	if !again.Again || again.Event != list[0].Event || again.ID == list[0].ID {
		t.Errorf("delivered again: %+v", again)
	}
	w.await("it arrives again", func() bool { return len(w.got()) == 4 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.ids[:3], w.ids[3]) {
		t.Errorf("ids: %q", w.ids)
	}
}

// After a new secret was made, the old one and the new one both verify, for a
// day.
func TestBothSecretsCountForADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.subscribe("*") // the receiver goes on with the first secret
	second, err := w.service.Rotate(w.ctx, w.org.ID, sub.ID)
	w.must(err)
	if second == w.secret || !strings.HasPrefix(second, "whsec_") {
		t.Fatalf("secrets %q and %q", w.secret, second)
	}
	w.run()
	_, err = w.service.Test(w.ctx, w.org, sub.ID)
	w.must(err)
	w.await("a ping verifies with the old secret", func() bool { return len(w.got()) == 1 })
	w.mu.Lock()
	w.secret = second
	w.mu.Unlock()
	_, err = w.service.Test(w.ctx, w.org, sub.ID)
	w.must(err)
	w.await("and with the new one", func() bool { return len(w.got()) == 2 })
	w.stop()

	var signatures []string
	round := account.Sending{Subscriber: account.Subscriber{ID: sub.ID, Kind: account.WebhookSubscriber}, Org: w.org}
	end := account.Endpoint{URL: w.url, Secrets: []account.SigningSecret{{Text: second}, {Text: w.secret, Until: w.clock.Now().Add(time.Minute)}}}
	for _, now := range []time.Time{w.clock.Now(), w.clock.Now().Add(time.Minute)} {
		r, err := w.service.request(context.Background(), &round, end, account.Delivery{Event: "e", Type: Ping, Body: []byte("{}")}, now)
		w.must(err)
		signatures = append(signatures, r.Header.Get("webhook-signature"))
	}
	if a, b := len(strings.Fields(signatures[0])), len(strings.Fields(signatures[1])); a != 2 || b != 1 {
		t.Errorf("%d signatures while the old secret counts, %d after: %q", a, b, signatures)
	}
}
