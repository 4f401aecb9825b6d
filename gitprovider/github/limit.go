package github

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what one installation asks of the host. Zero fields take what
// GitHub documents for itself; negative ones mean no bound, which is right for
// a server of one's own without limits.
type Limits struct {
	Concurrent         int // calls in flight; 100
	PointsPerMinute    int // a read is one, a write five; 900
	CreationsPerMinute int // comments, pull requests, check runs, reactions; 80
	CreationsPerHour   int // 500
}

// Unlimited asks as fast as it can. For the simulator.
var Unlimited = Limits{-1, -1, -1, -1}

// limiter makes calls wait for their turn. It is safe for concurrent use.
type limiter struct {
	slots     chan struct{} // nil: any number
	creation  chan struct{} // one creation at a time; nil: any number
	points    *rate.Limiter
	perMinute *rate.Limiter
	perHour   *rate.Limiter

	mu    sync.Mutex
	until map[string]time.Time // the host said to be quiet until then, by resource; "" for all of it
}

func newLimiter(l Limits) *limiter {
	def := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	per := func(n int, d time.Duration) *rate.Limiter {
		if n < 0 {
			return rate.NewLimiter(rate.Inf, 0)
		}
		return rate.NewLimiter(rate.Limit(float64(n)/d.Seconds()), max(n, 5))
	}
	m := &limiter{
		until:     map[string]time.Time{},
		points:    per(def(l.PointsPerMinute, 900), time.Minute),
		perMinute: per(def(l.CreationsPerMinute, 80), time.Minute),
		perHour:   per(def(l.CreationsPerHour, 500), time.Hour),
	}
	if n := def(l.Concurrent, 100); n > 0 {
		m.slots = make(chan struct{}, n)
	}
	if l.CreationsPerMinute >= 0 {
		m.creation = make(chan struct{}, 1)
	}
	return m
}

type firstKey struct{}

// first marks calls that go before others: landing, and test branches. They
// use up the budget like all others and do not wait for it.
func first(ctx context.Context) context.Context { return context.WithValue(ctx, firstKey{}, true) }

// resource is what a call is counted under by the host.
func resource(req *http.Request) string {
	if isQuery(req) {
		return "graphql"
	}
	return "core"
}

// wait blocks until a call may be made and returns what to do after it.
func (m *limiter) wait(ctx context.Context, req *http.Request) (done func(), err error) {
	points, creates := 5, req.Method == http.MethodPost
	if isQuery(req) || req.Method == http.MethodGet || req.Method == http.MethodHead {
		points, creates = 1, false
	}
	now := time.Now()
	if ctx.Value(firstKey{}) != nil {
		m.points.ReserveN(now, points)
		if creates {
			m.perMinute.ReserveN(now, 1)
			m.perHour.ReserveN(now, 1)
		}
	} else {
		if creates {
			if err := m.perHour.Wait(ctx); err != nil {
				return nil, fmt.Errorf("wait for the hourly budget of comments and checks: %w", err)
			}
			if err := m.perMinute.Wait(ctx); err != nil {
				return nil, fmt.Errorf("wait for the budget of comments and checks: %w", err)
			}
		}
		if err := m.points.WaitN(ctx, points); err != nil {
			return nil, fmt.Errorf("wait for the budget of calls: %w", err)
		}
	}
	if err := m.quiet(ctx, resource(req)); err != nil {
		return nil, err
	}
	var held []chan struct{}
	done = func() {
		for _, c := range held {
			<-c
		}
	}
	want := []chan struct{}{m.slots}
	if creates {
		want = []chan struct{}{m.creation, m.slots}
	}
	for _, c := range want {
		if c == nil {
			continue
		}
		select {
		case c <- struct{}{}:
			held = append(held, c)
		case <-ctx.Done():
			done()
			return nil, ctx.Err()
		}
	}
	return done, nil
}

// quiet waits as long as the host told us to, or fails at once when the
// context will not last that long.
func (m *limiter) quiet(ctx context.Context, resource string) error {
	for {
		m.mu.Lock()
		left := max(time.Until(m.until[""]), time.Until(m.until[resource]))
		m.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < left {
			return fmt.Errorf("the host's limit is reached for another %s: %w", left.Round(time.Second), context.DeadlineExceeded)
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// heard takes note of what an answer says about limits, and reports whether
// the call was refused because of one. about is the resource of the call: its
// budget is its own, and other limits are everybody's.
func (m *limiter) heard(about string, resp *http.Response, body []byte) (refused bool) {
	now := time.Now()
	var until time.Time
	spent := resp.Header.Get("X-RateLimit-Remaining") == "0"
	if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); spent && err == nil {
		until = time.Unix(reset, 0)
	}
	if about == "graphql" && resp.StatusCode == http.StatusOK { // where a limit is an error inside the answer
		refused = spent && strings.Contains(string(body), `"RATE_LIMITED"`)
	}
	if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusTooManyRequests {
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		switch {
		case err == nil && after >= 0:
			refused, about, until = true, "", now.Add(time.Duration(after)*time.Second)
		case spent:
			refused = true
		case resp.StatusCode == http.StatusTooManyRequests, strings.Contains(string(body), "secondary-rate-limits"):
			// The link to the documentation is the only field that tells a
			// secondary limit from a missing permission.
			refused, about, until = true, "", now.Add(time.Minute)
		}
	}
	if until.After(now.Add(2 * time.Hour)) {
		until = now.Add(2 * time.Hour) // no clock is that wrong
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if until.After(m.until[about]) {
		m.until[about] = until
	}
	return refused
}
