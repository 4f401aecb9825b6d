package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
)

// Etiquette: what may be asked of a host, and in which order. The tests run in
// a bubble whose time passes when everybody waits.

// call makes a call of some urgency that the host takes a while to answer.
func (m *limiter) call(t *testing.T, ctx context.Context, method string, took time.Duration) {
	t.Helper()
	done, err := m.wait(ctx, request(t, ctx, method))
	if err != nil {
		t.Error(err)
		return
	}
	time.Sleep(took)
	done()
}

func request(t *testing.T, ctx context.Context, method string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://host.example/repos/a/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func wallLimiter(l Limits) *limiter { return newLimiter(l, time.Now, time.After) }

// began collects when calls began, since the test did.
type began struct {
	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func (b *began) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Since(b.start))
}

// most is how many calls began within any span of that length.
func (b *began) most(span time.Duration) int {
	best := 0
	for i := range b.at {
		n := 0
		for _, at := range b.at[i:] {
			if at-b.at[i] < span {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}

func TestNoSpanOfTimeSeesMoreThanTheLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method    string
		calls     int
		perMinute int
		perHour   int
	}{
		{http.MethodGet, 4000, 900, 4000},
		{http.MethodPatch, 600, 180, 600},
		{http.MethodPost, 1200, 80, 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, seen := wallLimiter(Limits{}), began{start: time.Now()}
			var all sync.WaitGroup
			for range tt.calls {
				all.Go(func() {
					done, err := m.wait(t.Context(), request(t, t.Context(), tt.method))
					if err != nil {
						t.Error(err)
						return
					}
					seen.note()
					done()
				})
			}
			all.Wait()
			if len(seen.at) != tt.calls {
				t.Errorf("%d of %d %s calls were made", len(seen.at), tt.calls, tt.method)
			}
			if n := seen.most(time.Minute); n > tt.perMinute || n < tt.perMinute/4 {
				t.Errorf("%d %s calls in a minute, at most %d are allowed", n, tt.method, tt.perMinute)
			}
			if n := seen.most(time.Hour); n > tt.perHour {
				t.Errorf("%d %s calls in an hour, at most %d are allowed", n, tt.method, tt.perHour)
			}
		})
	}
}

func TestOneContentWriteAtATimeAndAHundredCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wallLimiter(Limits{PointsPerMinute: -1, CreationsPerHour: -1})
		var all sync.WaitGroup
		begin := time.Now()
		for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPost} {
			all.Go(func() { m.call(t, t.Context(), method, 2*time.Second) })
		}
		all.Wait()
		if took := time.Since(begin); took != 6*time.Second {
			t.Errorf("three writes of two seconds took %s", took)
		}
		begin = time.Now()
		for range 150 {
			all.Go(func() { m.call(t, t.Context(), http.MethodGet, 3*time.Second) })
		}
		all.Wait()
		if took := time.Since(begin); took != 6*time.Second {
			t.Errorf("150 reads of three seconds, a hundred at a time, took %s", took)
		}
	})
}

// Whoever lands overtakes whoever reads, and both whoever tells people things.
func TestTheMoreUrgentGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wallLimiter(Limits{Concurrent: 1})
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		add := func(name string, ctx context.Context) {
			all.Go(func() {
				done, err := m.wait(ctx, request(t, ctx, http.MethodGet))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
				done()
			})
			synctest.Wait()
		}
		add("busy", t.Context())
		for range 2 {
			add("comment", last(t.Context()))
			add("read", t.Context())
			add("land", first(t.Context()))
			add("status of a landing", last(first(t.Context())))
		}
		all.Wait()
		got := strings.Join(order, ", ")
		if !strings.HasPrefix(got, "busy, ") || !strings.HasSuffix(got, ", read, read, comment, comment") {
			t.Errorf("order: %s", got)
		}
	})
}

func TestLandingDoesNotWaitForOurBudgetsAndUsesThemUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wallLimiter(Limits{})
		begin := time.Now()
		for range 100 { // 500 points and 100 creations: more than there is at once
			m.call(t, first(t.Context()), http.MethodPost, 0)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("landing waited %s", took)
		}
		m.call(t, t.Context(), http.MethodGet, 0)
		if took := time.Since(begin); took < 10*time.Second {
			t.Errorf("a read waited only %s after that", took)
		}
	})
}

// answer is one of the host's.
func answer(status int, pairs ...any) *http.Response {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i].(string), fmt.Sprint(pairs[i+1]))
	}
	return &http.Response{StatusCode: status, Header: h}
}

func TestWhatTheHostSaysOfItsLimits(t *testing.T) {
	t.Parallel()
	secondary := `{"documentation_url":"https://docs.github.com/…#about-secondary-rate-limits"}`
	tests := []struct {
		name    string
		status  int
		headers []any
		body    string
		refused bool
		wait    time.Duration // of a read afterwards
	}{
		{"nothing", 200, nil, "", false, 0},
		{"a missing permission", 403, nil, "{}", false, 0},
		{"wait as long as it says", 403, []any{"Retry-After", 90}, "", true, 90 * time.Second},
		{"too many", 429, nil, "", true, time.Minute},
		{"a secondary limit without a time", 403, nil, secondary, true, time.Minute},
		{"nothing left", 403, []any{"X-RateLimit-Limit", 5000, "X-RateLimit-Remaining", 0}, "", true, 600 * time.Second},
		{"the last one", 200, []any{"X-RateLimit-Limit", 5000, "X-RateLimit-Remaining", 0}, "", false, 600 * time.Second},
		{"what is left is for landing", 200, []any{"X-RateLimit-Limit", 5000, "X-RateLimit-Remaining", 250}, "", false, 600 * time.Second},
		{"there is enough for reads", 200, []any{"X-RateLimit-Limit", 5000, "X-RateLimit-Remaining", 251}, "", false, 0},
		{"a clock that is wrong", 403, []any{"Retry-After", 999999}, "", true, 2 * time.Hour},
		{"words for a number", 403, []any{"Retry-After", "soon", "X-RateLimit-Remaining", "few"}, "", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := wallLimiter(Limits{})
				resp := answer(tt.status, tt.headers...)
				// The host's clock is an hour fast.
				host := time.Now().Add(time.Hour)
				resp.Header.Set("Date", host.UTC().Format(http.TimeFormat))
				resp.Header.Set("X-RateLimit-Reset", strconv.FormatInt(host.Add(10*time.Minute).Unix(), 10))
				if got := m.heard("core", resp, []byte(tt.body)); got != tt.refused {
					t.Errorf("refused = %v", got)
				}
				begin := time.Now()
				m.call(t, t.Context(), http.MethodGet, 0)
				if took := time.Since(begin); took.Round(time.Second) != tt.wait {
					t.Errorf("a read waited %s, want %s", took, tt.wait)
				}
			})
		})
	}
}

func TestWhatIsLeftOfTheHostsBudgetIsForLanding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wallLimiter(Limits{})
		left := func(n int) {
			m.heard("core", answer(200, "X-RateLimit-Limit", 1000, "X-RateLimit-Remaining", n, "X-RateLimit-Reset", time.Now().Add(time.Hour).Unix()), nil)
		}
		waits := func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			done, err := m.wait(ctx, request(t, ctx, http.MethodGet))
			if err == nil {
				done()
				return false
			}
			var known *gitprovider.Error
			if !errors.As(err, &known) || known.After.Before(time.Now().Add(59*time.Minute)) || gitprovider.KindOf(err) != gitprovider.Transient {
				t.Errorf("it does not say when to try again: %v", err)
			}
			return true
		}
		for _, tt := range []struct {
			left               int
			land, read, inform bool
		}{{1000, false, false, false}, {101, false, false, false}, {100, false, false, true}, {51, false, false, true}, {50, false, true, true}, {1, false, true, true}, {0, true, true, true}} {
			left(tt.left)
			if land, read, inform := waits(first(t.Context())), waits(t.Context()), waits(last(t.Context())); land != tt.land || read != tt.read || inform != tt.inform {
				t.Errorf("with %d left: landing waits %v, reading %v, informing %v", tt.left, land, read, inform)
			}
		}
	})
}

func TestWhoeverGivesUpLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wallLimiter(Limits{Concurrent: 1})
		busy, err := m.wait(t.Context(), request(t, t.Context(), http.MethodGet))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(first(t.Context()), time.Second)
		defer cancel()
		if _, err := m.wait(ctx, request(t, ctx, http.MethodGet)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		busy()
		m.call(t, last(t.Context()), http.MethodGet, 0) // nobody is in front any more
	})
}

// The host refuses a token for a limit: that is no suspension, and no reason
// to give anything up.
func TestALimitOnTokensIsNoSuspension(t *testing.T) {
	w := newWorld(t)
	w.restart()
	w.must(w.Fail(githubsim.Fault{Method: "POST", Path: "/app/installations/*/access_tokens", Action: "limit", RetryAfter: 3600}))
	_, _, err := w.c.Target(w.ctx, w.repo, "main")
	var known *gitprovider.Error
	if !errors.As(err, &known) || known.Kind != gitprovider.Transient || known.After.Before(time.Now().Add(59*time.Minute)) {
		t.Errorf("error = %v", err)
	}
}

// A call of GraphQL costs what it does, and one that changes something is a write.
func TestWhatACallCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	changing := func(creates int) context.Context { return context.WithValue(ctx, changesKey{}, creates) }
	for _, c := range []struct {
		name, method, path string
		ctx                context.Context
		want               ask
	}{
		{"read", "GET", "/repos/a/b", ctx, ask{class: goesNormal, resource: "core", points: 1}},
		{"make", "POST", "/repos/a/b/pulls", ctx, ask{class: goesNormal, resource: "core", points: 5, creates: 1, writes: true}},
		{"change", "PATCH", "/repos/a/b/pulls/1", ctx, ask{class: goesNormal, resource: "core", points: 5, writes: true}},
		{"merge", "PUT", "/repos/a/b/pulls/1/merge", ctx, ask{class: goesNormal, resource: "core", points: 5}},
		{"query", "POST", "/graphql", ctx, ask{class: goesNormal, resource: "graphql", points: 1}},
		{"mutation that makes two", "POST", "/graphql", changing(2), ask{class: goesNormal, resource: "graphql", points: 5, creates: 2, writes: true}},
		{"mutation that changes", "POST", "/api/graphql", last(changing(0)), ask{class: goesLast, resource: "graphql", points: 5, writes: true}},
	} {
		req, err := http.NewRequestWithContext(c.ctx, c.method, "http://host.example"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := askOf(req); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
