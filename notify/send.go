package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"signalbox/account"
)

// Outcome is how one attempt ended, as a metric label.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	Retried   Outcome = "retried"  // failed, and will be tried again
	GivenUp   Outcome = "given_up" // failed for the last time
	Gone      Outcome = "gone"     // the subscriber wants nothing any more
)

// Outcomes lists the outcomes.
var Outcomes = []Outcome{Delivered, Retried, GivenUp, Gone}

// again is when a delivery is tried again after so many failures: a day in all,
// which a receiver that is being repaired needs.
var again = []time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 8 * time.Hour, 8*time.Hour + 30*time.Minute,
}

// jitter lengthens a wait by up to a tenth, so that those who failed together
// do not come back together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// answer is what came of one attempt.
type answer struct {
	try        account.Try
	retryAfter time.Duration // as the subscriber asks; 0 = it does not
}

// well reports whether the subscriber took it.
func (a answer) well() bool { return a.try.Status >= 200 && a.try.Status <= 299 }

// gone reports whether the subscriber wants nothing any more.
func (a answer) gone() bool { return a.try.Status == http.StatusGone }

// out reports whether the subscriber as a whole is broken or busy, and not just
// what it was sent.
func (a answer) out() bool {
	return a.try.Status == 0 || a.try.Status >= 500 || a.try.Status == http.StatusTooManyRequests
}

// attempt sends one delivery. It never fails: what went wrong is in the answer.
func (s *Service) attempt(ctx context.Context, round *account.Sending, end account.Endpoint, d account.Delivery) (a answer) {
	begun, now := time.Now(), s.clock.Now()
	a.try.At = now
	defer func() { a.try.Milliseconds = time.Since(begun).Milliseconds() }()
	request, err := s.request(ctx, round, end, d, now)
	if err != nil {
		s.log.Error("a delivery could not be made", "subscriber", round.Subscriber.ID, "delivery", d.ID, "error", err)
		a.try.Error = "It could not be made: the log of the server says why."
		return a
	}
	client := s.secure
	if request.URL.Scheme == "http" {
		client = s.plain
	}
	response, err := client.Do(request)
	if err != nil {
		a.try.Error = problem(err)
		return a
	}
	defer response.Body.Close()
	// Only a little is read. What comes after it is cut off with the connection.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	a.try.Status, a.try.Answer = response.StatusCode, clip(printable(string(body)), keptAnswer)
	a.retryAfter = retryAfter(response.Header.Get("Retry-After"), now)
	switch {
	case a.well():
	case a.try.Status >= 300 && a.try.Status <= 399:
		a.try.Error = "It answered with a redirect, which is not followed. Give the address that it leads to."
	default:
		a.try.Error = fmt.Sprintf("It answered with status %d.", a.try.Status)
	}
	return a
}

// request is a delivery as a request, signed with every secret that counts.
func (s *Service) request(ctx context.Context, round *account.Sending, end account.Endpoint, d account.Delivery, now time.Time) (*http.Request, error) {
	body, err := s.Sent(round.Subscriber.Kind, round.Org, d)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, end.URL, bytes.NewReader(body))
	if err != nil {
		return nil, hidden(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.agent)
	if round.Subscriber.Kind != account.WebhookSubscriber {
		return r, nil
	}
	id := "msg_" + d.Event
	var signatures []string
	for _, secret := range end.Secrets {
		if !secret.Until.IsZero() && !now.Before(secret.Until) {
			continue
		}
		signer, err := standardwebhooks.NewWebhook(secret.Text)
		if err != nil {
			return nil, fmt.Errorf("a secret of the subscriber is damaged")
		}
		signature, err := signer.Sign(id, now, body)
		if err != nil {
			return nil, fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	if len(signatures) == 0 {
		return nil, fmt.Errorf("the subscriber has no secret to sign with")
	}
	r.Header.Set(standardwebhooks.HeaderWebhookID, id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return r, nil
}

// hidden is an error without the address that it quotes.
func hidden(err error) error {
	if quoting, ok := err.(*url.Error); ok {
		return quoting.Err
	}
	return err
}

// longestPause bounds what a subscriber can ask for by Retry-After.
const longestPause = time.Hour

// retryAfter reads the header: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestPause)
}
