package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// The telling is tested where it is done, in package notify. Here is what only
// the database can get wrong.

// subscriber keeps a subscriber that wants these events.
func (w *world) subscriber(name string, events ...string) account.Subscriber {
	w.t.Helper()
	s, err := w.AddSubscriber(account.As(w.t.Context(), account.Author{Login: "ann"}), w.org.ID, account.Subscriber{
		ID: string(newID()), Kind: account.WebhookSubscriber, Name: name, Address: "https://x/…", Events: events,
	}, []byte("sealed"))
	w.must(err)
	return s
}

// switchedOff is a change that switches a subscriber off.
func switchedOff(s *account.Subscriber, _ []byte) ([]byte, error) {
	s.Enabled = false
	return nil, nil
}

// claim takes a round, and says what is in it.
func (w *world) claim(now time.Time) (account.Sending, string) {
	w.t.Helper()
	round, ok, err := w.ClaimDeliveries(w.t.Context(), now, now.Add(time.Minute), func(account.Subscriber) int { return 10 })
	w.must(err)
	if !ok {
		return round, ""
	}
	var list []string
	for _, d := range round.Deliveries {
		list = append(list, fmt.Sprint(d.Type, " ", d.ID))
	}
	return round, round.Subscriber.Name + ": " + strings.Join(list, ", ")
}

func moved(pr int64, from, to queue.EntryState, why queue.Reason) queue.Move {
	return queue.Move{Entry: newID(), PR: pr, Submission: 1, From: from, To: to, At: epoch, Reason: why}
}

// A subscriber is held by one worker, for a while; of each subject there is one
// delivery in a round, and none while the one before it waits.
func TestRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscriber("first", "*")
	w.store(func(p *queue.Plan) {
		p.Moves = []queue.Move{moved(1, "", queue.NotReady, queue.SubmittedByUser), moved(1, queue.NotReady, queue.Pending, queue.NowReady), moved(2, "", queue.NotReady, queue.SubmittedByUser)}
	})
	round, got := w.claim(epoch)
	if want := "first: pull_request.submitted 1, pull_request.submitted 3"; got != want || string(round.Sealed) != "sealed" || round.Org.Slug != "acme" {
		t.Fatalf("claimed %q, want %q: %+v", got, want, round)
	}
	if _, got := w.claim(epoch); got != "" {
		t.Errorf("claimed twice: %s", got)
	}
	if next, err := w.NextDelivery(t.Context(), epoch); err != nil || !next.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the hold ends %s, %v", next, err)
	}
	// It ends by itself, when its worker is gone.
	if _, got := w.claim(epoch.Add(time.Minute)); got != "first: pull_request.submitted 1, pull_request.submitted 3" {
		t.Errorf("after the hold: %s", got)
	}
	tried := []account.Tried{
		{Delivery: 1, Try: account.Try{At: epoch, Status: 500, Answer: "no\x00"}, State: account.Waiting, NextAt: epoch.Add(time.Hour)},
		{Delivery: 3, Try: account.Try{At: epoch, Status: 200}, State: account.Delivered},
	}
	w.must(w.RecordDeliveries(t.Context(), round, tried, account.Health{DeliveredAt: epoch}, ""))
	w.must(w.RecordDeliveries(t.Context(), round, tried[1:], account.Health{DeliveredAt: epoch}, "")) // late, once more
	if _, got := w.claim(epoch.Add(time.Minute)); got != "" {
		t.Errorf("the second event of #1 overtakes the first: %s", got)
	}
	if next, err := w.NextDelivery(t.Context(), epoch); err != nil || !next.Equal(epoch.Add(time.Hour)) {
		t.Errorf("something is due %s, %v", next, err)
	}
	if _, got := w.claim(epoch.Add(time.Hour)); got != "first: pull_request.submitted 1" {
		t.Errorf("after an hour: %s", got)
	}
	list, err := w.Deliveries(t.Context(), w.org.ID, round.Subscriber.ID, 0, 10)
	w.must(err)
	if len(list) != 3 || len(list[0].Tries) != 1 || list[2].Tries[0].Answer != "no" {
		t.Errorf("the log has %+v", list)
	}
}

// Subscribers take turns; one that is to be left alone is; one that is switched
// off is nobody.
func TestSubscribersTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	subs := []account.Subscriber{w.subscriber("a", "*"), w.subscriber("b", "*"), w.subscriber("c", "*"), w.subscriber("d", "*")}
	_, err := w.ChangeSubscriber(t.Context(), w.org.ID, subs[3].ID, account.SubscriberChanged, switchedOff)
	w.must(err)
	w.store(func(p *queue.Plan) { p.Moves = []queue.Move{moved(1, "", queue.NotReady, queue.SubmittedByUser)} })
	var turns []string
	for range 4 {
		round, _ := w.claim(epoch)
		if turns = append(turns, round.Subscriber.Name); round.Subscriber.Name == "" {
			break
		}
		health := account.Health{}
		if round.Subscriber.Name == "b" {
			health.QuietUntil = epoch.Add(time.Hour)
		}
		w.must(w.RecordDeliveries(t.Context(), round, nil, health, ""))
	}
	if got := strings.Join(turns, ""); got != "abca" {
		t.Errorf("turns %q, want abca: b is left alone, d is off", got)
	}
}

// One that has moved begins anew: what waits for it is due at once, and what a
// round says that went to where it was, does not count. It is one line in the
// audit log, and none if nothing is different.
func TestASubscriberMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.subscriber("a", "*")
	w.store(func(p *queue.Plan) { p.Moves = []queue.Move{moved(1, "", queue.NotReady, queue.SubmittedByUser)} })
	failing := account.Health{Failures: 3, FailingSince: epoch, QuietUntil: epoch.Add(time.Hour)}
	again := []account.Tried{{Delivery: 1, Try: account.Try{At: epoch, Status: 500}, State: account.Waiting, NextAt: epoch.Add(10 * time.Hour)}}
	round, _ := w.claim(epoch)
	w.must(w.RecordDeliveries(t.Context(), round, again, failing, ""))
	if _, got := w.claim(epoch.Add(time.Minute)); got != "" {
		t.Fatalf("it is left alone, and was told %s", got)
	}
	change := func(deed account.Deed, name, address, fresh string) account.Subscriber {
		after, err := w.ChangeSubscriber(t.Context(), w.org.ID, s.ID, deed, func(s *account.Subscriber, sealed []byte) ([]byte, error) {
			s.Name, s.Address = name, address
			if fresh == "" {
				return nil, nil
			}
			return append(sealed, fresh...), nil
		})
		w.must(err)
		return after
	}
	change(account.SubscriberChanged, "a", "https://x/…", "")
	if after := change(account.SubscriberRotated, "a", "https://x/…", " again"); after.Health.Failures != 3 {
		t.Errorf("another secret makes it well: %+v", after.Health)
	}
	if after := change(account.SubscriberChanged, "b", "https://y/…", " elsewhere"); after.Name != "b" || after.Address != "https://y/…" || after.Health != (account.Health{}) {
		t.Errorf("after moving: %+v", after)
	}
	old := round
	round, got := w.claim(epoch.Add(time.Minute))
	if got != "b: pull_request.submitted 1" || string(round.Sealed) != "sealed again elsewhere" {
		t.Errorf("after moving %q is due, at %s", got, round.Sealed)
	}
	w.must(w.RecordDeliveries(t.Context(), old, nil, failing, "It answered 410 Gone."))
	if now, err := w.Subscriber(t.Context(), w.org.ID, s.ID); err != nil || !now.Enabled || now.Health.Failures != 0 {
		t.Errorf("judged by what was where it is no more: %+v, %v", now, err)
	}
	lines, err := w.Audit(t.Context(), w.org.ID, 0, 3)
	w.must(err)
	var deeds []string
	for _, l := range lines {
		deeds = append(deeds, fmt.Sprint(l.Deed, len(l.Changes)))
	}
	want := fmt.Sprint([]string{fmt.Sprint(account.SubscriberChanged, 2), fmt.Sprint(account.SubscriberRotated, 0), fmt.Sprint(account.SubscriberCreated, 4)})
	if got := fmt.Sprint(deeds); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
}

// What is given up, what is forgotten, and what deleting takes along.
func TestDeliveriesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.subscriber("a", "*")
	states := func() string {
		list, err := w.Deliveries(t.Context(), w.org.ID, s.ID, 0, 10)
		w.must(err)
		var all []string
		for _, d := range list {
			all = append(all, string(d.State))
		}
		return strings.Join(all, " ")
	}
	w.store(func(p *queue.Plan) { p.Moves = []queue.Move{moved(1, "", queue.NotReady, queue.SubmittedByUser)} })
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{25 * time.Hour, "waiting"}, {27 * time.Hour, "given_up"}, {29 * 24 * time.Hour, "given_up"}, {31 * 24 * time.Hour, ""}} {
		w.must(w.Maintain(t.Context(), epoch.Add(tt.after)))
		if got := states(); got != tt.want {
			t.Errorf("after %s: %q, want %q", tt.after, got, tt.want)
		}
	}
	w.store(func(p *queue.Plan) { p.Moves = []queue.Move{moved(2, "", queue.NotReady, queue.SubmittedByUser)} })
	w.must(w.DeleteSubscriber(account.As(t.Context(), account.Author{Login: "ann"}), w.org.ID, s.ID))
	if n := w.count(`SELECT count(*) FROM event_deliveries`); n != 0 {
		t.Errorf("%d deliveries to nobody", n)
	}
	if err := w.DeleteSubscriber(t.Context(), w.org.ID, s.ID); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	lines, err := w.Audit(t.Context(), w.org.ID, 0, 2)
	w.must(err)
	if lines[0].Deed != account.SubscriberDeleted || lines[0].By.Login != "ann" || lines[1].Deed != account.SubscriberCreated {
		t.Errorf("the audit log says %+v", lines)
	}
}

// Where nobody subscribes, a decision does not even look at what is to be
// delivered: it works without the table.
func TestNobodyListensAtNoCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := w.CreateOrganization(t.Context(), "globex")
	w.must(err)
	_, err = w.AddSubscriber(t.Context(), other.ID, account.Subscriber{ID: string(newID()), Kind: account.WebhookSubscriber, Name: "elsewhere", Events: []string{"*"}}, []byte("sealed"))
	w.must(err)
	off := w.subscriber("off", "*")
	_, err = w.ChangeSubscriber(t.Context(), w.org.ID, off.ID, account.SubscriberChanged, switchedOff)
	w.must(err)
	_, err = w.SQL().Exec(`DROP TABLE event_deliveries`)
	w.must(err)
	w.store(func(p *queue.Plan) { p.Moves = []queue.Move{moved(1, "", queue.NotReady, queue.SubmittedByUser)} })
}

// A decision does not fail because a subscriber is deleted at that moment.
func TestDeletingASubscriberFailsNoDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	done := make(chan error, 1)
	go func() {
		for range 40 {
			s, err := w.AddSubscriber(ctx, w.org.ID, account.Subscriber{ID: string(newID()), Kind: account.WebhookSubscriber, Name: "brief", Events: []string{"*"}}, []byte("sealed"))
			if err == nil {
				err = w.DeleteSubscriber(ctx, w.org.ID, s.ID)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for pr := int64(1); ; pr++ {
		w.store(func(p *queue.Plan) {
			p.Moves = []queue.Move{moved(pr, "", queue.NotReady, queue.SubmittedByUser), moved(pr, queue.NotReady, queue.Pending, queue.NowReady)}
		})
		select {
		case err := <-done:
			w.must(err)
			return
		default:
		}
	}
}

// A person's decision about a test is told with what was decided before, and
// only once it is committed.
func TestDecisionsAboutTestsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.subscriber("a", "test_case.*")
	test := flaky.Test{Org: "acme", Repo: host + "/acme/app", Name: "total", Classname: "Cart"}
	w.must(w.makeTest(test))
	o := flaky.Override{Setting: flaky.Always, Owner: "@bob", Reason: "CI", Expires: epoch.Add(time.Hour), Actor: "ann"}
	_, err := w.SetQuarantine(t.Context(), w.repo.ID, test.ID(), o, epoch)
	w.must(err)
	o = flaky.Override{Setting: flaky.Never, Actor: "ann"}
	_, err = w.SetQuarantine(t.Context(), w.repo.ID, test.ID(), o, epoch)
	w.must(err)
	list, err := w.Deliveries(t.Context(), w.org.ID, s.ID, 0, 10)
	w.must(err)
	slices.Reverse(list)
	if len(list) != 2 {
		t.Fatalf("told %d times", len(list))
	}
	for i, want := range []string{`"settingBefore": "AUTO_QUARANTINE"`, `"settingBefore": "ALWAYS_QUARANTINE"`} {
		if body := string(list[i].Body); list[i].Type != string(flaky.QuarantineChanged) || !strings.Contains(body, want) || !strings.Contains(body, `"name": "total"`) {
			t.Errorf("told: %s", body)
		}
	}
}

// makeTest notes a test that ran once.
func (w *world) makeTest(test flaky.Test) error {
	_, err := w.SQL().Exec(`
		INSERT INTO test_cases (repository_id, test_id, name, parent, file, classname, variant, first_seen, seen_on, status_at)
		VALUES ($1, $2, $3, '', '', $4, '', $5::timestamptz, $5::timestamptz, $5::timestamptz)`, int64(w.repo.ID), test.ID(), test.Name, test.Classname, epoch)
	return err
}
