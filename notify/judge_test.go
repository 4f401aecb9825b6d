package notify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"signalbox/account"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func answered(status int) answer { return answer{try: account.Try{At: noon, Status: status}} }

// A delivery is tried for a day, at growing intervals, and then given up.
func TestADeliveryIsTriedForADay(t *testing.T) {
	t.Parallel()
	now, d := noon, account.Delivery{ID: 1}
	var outcomes []Outcome
	for range 20 {
		tried, outcome := judge(d, answered(400), now)
		outcomes = append(outcomes, outcome)
		if outcome != Retried {
			if tried.State != account.GivenUp || !tried.NextAt.IsZero() {
				t.Errorf("given up: %+v", tried)
			}
			break
		}
		least := again[len(d.Tries)]
		if wait := tried.NextAt.Sub(now); tried.State != account.Waiting || wait < least || wait > least+least/10 {
			t.Errorf("after %d failures it waits %s, want %s and up to a tenth more", len(d.Tries)+1, wait, least)
		}
		d.Tries = append(d.Tries, account.Try{At: now})
		now = tried.NextAt
	}
	if !slices.IsSorted(again) {
		t.Errorf("it waits less after more failures: %v", again)
	}
	if took := now.Sub(noon); took < 24*time.Hour || took > 27*time.Hour || len(outcomes) != 9 || outcomes[8] != GivenUp {
		t.Errorf("it was tried %d times in %s: %v", len(outcomes), took, outcomes)
	}
	for status, want := range map[int]Outcome{200: Delivered, 204: Delivered, 299: Delivered, 199: Retried, 301: Retried, 404: Retried, 410: Gone, 500: Retried, 0: Retried} {
		if _, got := judge(account.Delivery{}, answered(status), noon); got != want {
			t.Errorf("status %d: %s, want %s", status, got, want)
		}
	}
}

// What a round says of the subscriber.
func TestHowASubscriberIsAfterARound(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	later := func(a answer, d time.Duration) answer { a.retryAfter = d; return a }
	for _, tt := range []struct {
		name    string
		before  account.Health
		tries   int // that the first delivery has had
		answers []answer
		want    string // failures, since when it fails, how long it is left alone, whether it is switched off
	}{
		{"all well", account.Health{Failures: 3, FailingSince: ago(time.Hour)}, 0, []answer{answered(200), answered(204)}, "0 - 0s false"},
		{"one well", account.Health{Failures: 3, FailingSince: ago(time.Hour)}, 0, []answer{answered(500), answered(200)}, "0 - 0s false"},
		{"it refuses one thing", account.Health{}, 0, []answer{answered(400)}, "0 0s 0s false"},
		{"no answer", account.Health{}, 0, []answer{answered(0)}, "1 0s 1s false"},
		{"no answer again", account.Health{Failures: 1, FailingSince: ago(time.Hour)}, 0, []answer{answered(0)}, "2 1h0m0s 5s false"},
		{"no answer for long", account.Health{Failures: 70, FailingSince: ago(time.Hour)}, 0, []answer{answered(502), answered(0)}, "71 1h0m0s 5m0s false"},
		{"it is busy", account.Health{}, 0, []answer{later(answered(429), 7*time.Minute)}, "1 0s 7m0s false"},
		{"it is busy with a part", account.Health{}, 0, []answer{answered(200), later(answered(429), 7*time.Minute)}, "0 - 7m0s false"},
		{"days of failure", account.Health{FailingSince: ago(disableAfter)}, disableTries - 1, []answer{answered(404)}, "0 120h0m0s 0s true"},
		{"its first failure after a month without events", account.Health{FailingSince: ago(30 * 24 * time.Hour)}, 0, []answer{answered(404)}, "0 720h0m0s 0s false"},
		{"nearly days", account.Health{FailingSince: ago(disableAfter - time.Second)}, disableTries, []answer{answered(404)}, "0 119h59m59s 0s false"},
		{"gone", account.Health{}, 0, []answer{answered(200), answered(410)}, "0 - 0s true"},
		{"nothing was tried", account.Health{Failures: 2, FailingSince: ago(time.Hour)}, 0, nil, "2 1h0m0s 0s false"},
	} {
		round := account.Sending{Subscriber: account.Subscriber{Kind: account.WebhookSubscriber, Health: tt.before}}
		for range tt.answers {
			round.Deliveries = append(round.Deliveries, account.Delivery{Tries: make([]account.Try, tt.tries)})
		}
		h, disabled := after(&round, tt.answers, noon)
		since, quiet := "-", time.Duration(0)
		if !h.FailingSince.IsZero() {
			since = noon.Sub(h.FailingSince).String()
		}
		if !h.QuietUntil.IsZero() {
			quiet = h.QuietUntil.Sub(noon)
		}
		if got := fmt.Sprint(h.Failures, " ", since, " ", quiet, " ", disabled != ""); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	slack := account.Sending{Subscriber: account.Subscriber{Kind: account.SlackSubscriber}, Deliveries: make([]account.Delivery, 1)}
	if h, _ := after(&slack, []answer{answered(200)}, noon); h.QuietUntil.Sub(noon) != time.Second {
		t.Error("Slack is sent more than a message a second")
	}
}

func TestRetryAfterIsBelievedUpToAnHour(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "30": 30 * time.Second, "-1": 0, "soon": 0, "99999999999999999999": 0, "86400": time.Hour,
		noon.Add(time.Minute).Format("Mon, 02 Jan 2006 15:04:05 GMT"): time.Minute, noon.Add(-time.Minute).Format("Mon, 02 Jan 2006 15:04:05 GMT"): 0,
	} {
		if got := retryAfter(text, noon); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestNamesOfEventsAreKnown(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"*"}, {"queue.*", "pull_request.merged"}, {"pull_request_batch.*", "test_case.*", "pull_request.*"}} {
		if got, err := checkEvents(append(names, names...)); err != nil || len(got) != len(names) || !slices.IsSorted(got) {
			t.Errorf("%q: %q %v", names, got, err)
		}
	}
	for _, name := range []string{"", "queue", "queue.", ".*", "**", "ping", "pull.*", "pull_request.exploded", "QUEUE.*"} {
		if _, err := checkEvents([]string{name}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
