package github

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/gitprovider"
)

// Limits bound what one installation asks of the host. Zero fields take what
// GitHub documents for itself; negative ones mean no bound, which is right for
// a server of one's own without limits. In no minute (hour) more is asked than
// that, but for what goes first: see limiter.
type Limits struct {
	Concurrent         int // calls in flight; 100
	PointsPerMinute    int // a read is one, a write five, and so is a GraphQL call that changes something; 900
	CreationsPerMinute int // comments, pull requests, check runs, reactions; 80
	CreationsPerHour   int // 500
}

// Unlimited asks as fast as it can. For the simulator.
var Unlimited = Limits{-1, -1, -1, -1}

// class is how urgent a call is.
type class int

const (
	goesFirst  class = iota // landing and test branches
	goesNormal              // reads
	goesLast                // what people are told: it can wait, and what waits merges
	classes
)

type classKey struct{}

// first marks the calls that go before all others. They use up the budgets of
// ours like all others and do not wait for them; what the host says they keep to.
func first(ctx context.Context) context.Context {
	return context.WithValue(ctx, classKey{}, goesFirst)
}

// last marks the calls that come after all others, unless they are part of
// something that goes first.
func last(ctx context.Context) context.Context {
	if classOf(ctx) == goesFirst {
		return ctx
	}
	return context.WithValue(ctx, classKey{}, goesLast)
}

func classOf(ctx context.Context) class {
	if c, ok := ctx.Value(classKey{}).(class); ok {
		return c
	}
	return goesNormal
}

// limiter makes calls wait for their turn. It is safe for concurrent use.
//
// Part of each budget is kept for who is more urgent: a tenth of ours, and of
// the host's hourly one the last twentieth for what goes first and the last
// tenth for it and for reads.
type limiter struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	// turns holds one place for each kind of call: of those that want the same
	// only one looks at the budgets, in the order in which they came.
	turns map[turn]chan struct{}

	mu       sync.Mutex // held for arithmetic only
	points   bucket
	perMin   bucket // creations
	perHour  bucket // creations
	free     int    // calls that may begin; negative: any number
	serial   bool   // one content write at a time
	writing  bool
	inLine   [classes]int          // who waits for another call to end
	until    map[string]time.Time  // the host said to be quiet until then, by resource; "" for all of it
	budgets  map[string]hostBudget // what the host said is left, by resource
	changing chan struct{}         // closed when a call has begun or ended
}

// hostBudget is what an answer said about the host's budget of a resource.
type hostBudget struct {
	limit, remaining int
	reset            time.Time // on our clock
}

func newLimiter(l Limits, now func() time.Time, after func(time.Duration) <-chan time.Time) *limiter {
	def := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	m := &limiter{
		turns: map[turn]chan struct{}{}, now: now, after: after, until: map[string]time.Time{}, budgets: map[string]hostBudget{}, changing: make(chan struct{}),
		points:  newBucket(def(l.PointsPerMinute, 900), time.Minute, now()),
		perMin:  newBucket(def(l.CreationsPerMinute, 80), time.Minute, now()),
		perHour: newBucket(def(l.CreationsPerHour, 500), time.Hour, now()),
		free:    def(l.Concurrent, 100),
		serial:  l.CreationsPerMinute >= 0,
	}
	for c := range classes {
		for _, resource := range []string{"core", "graphql"} {
			m.turns[turn{c, resource, false}] = make(chan struct{}, 1)
			m.turns[turn{c, resource, true}] = make(chan struct{}, 1)
		}
	}
	return m
}

// turn is a kind of call: what it waits for depends on nothing else.
type turn struct {
	class    class
	resource string
	creates  bool
}

// bucket is a budget that fills up again. A third of it is there at once, the
// rest comes evenly, so that no span of time sees more than the whole.
type bucket struct {
	most, level, perSecond float64 // most < 0: unbounded
	at                     time.Time
}

func newBucket(n int, span time.Duration, now time.Time) bucket {
	if n < 0 {
		return bucket{most: -1}
	}
	burst := max(float64(n)/3, 5)
	return bucket{most: burst, level: burst, perSecond: max(float64(n)-burst, 1) / span.Seconds(), at: now}
}

// missing is how long it takes until n can be taken with kept left over.
func (b *bucket) missing(n, kept float64, now time.Time) time.Duration {
	if b.most < 0 {
		return 0
	}
	if d := now.Sub(b.at); d > 0 {
		b.level, b.at = min(b.most, b.level+d.Seconds()*b.perSecond), now
	}
	lack := min(n+kept*b.most, b.most) - b.level
	if lack <= 1e-9 {
		return 0
	}
	return time.Duration(lack/b.perSecond*float64(time.Second)) + time.Millisecond
}

// take takes n, more than there is if need be.
func (b *bucket) take(n float64) { b.level -= n }

// ask is what one call wants.
type ask struct {
	class    class
	resource string
	points   float64
	creates  int  // how many creations it counts as
	writes   bool // content: one at a time
}

// resource is what a call is counted under by the host.
func resource(req *http.Request) string {
	if isGraphQL(req) {
		return "graphql"
	}
	return "core"
}

func askOf(req *http.Request) ask {
	a := ask{class: classOf(req.Context()), resource: resource(req), points: 5}
	creates, changes := changesOf(req.Context())
	switch {
	case isGraphQL(req) && changes:
		a.creates, a.writes = creates, true
	case isGraphQL(req) || req.Method == http.MethodGet || req.Method == http.MethodHead:
		a.points = 1
	case req.Method == http.MethodPost:
		a.creates, a.writes = 1, true
	case req.Method == http.MethodPatch:
		a.writes = true
	}
	return a
}

// wait blocks until a call may be made and returns what to do after it. When
// its context ends before that, it fails at once with an error that says when
// to try again.
func (m *limiter) wait(ctx context.Context, req *http.Request) (done func(), err error) {
	a := askOf(req)
	place := m.turns[turn{a.class, a.resource, a.creates > 0}]
	select {
	case place <- struct{}{}:
		defer func() { <-place }()
	case <-ctx.Done():
		return nil, m.late(ctx, a)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	inLine := false
	defer func() {
		if inLine {
			m.inLine[a.class]--
			m.changed()
		}
	}()
	for {
		delay, ok := m.may(a)
		if ok {
			m.begin(a)
			return func() { m.end(a) }, nil
		}
		if delay == 0 && !inLine {
			inLine = true
			m.inLine[a.class]++
		}
		if err := m.sleep(ctx, a, delay); err != nil {
			return nil, err
		}
	}
}

// kept is the part of our budgets that is left to others, by class.
var kept = [classes]float64{0, 0.1, 0.2}

// may reports whether a call may begin; else how long it has to wait, 0 when
// that depends on other calls. mu is held.
func (m *limiter) may(a ask) (delay time.Duration, ok bool) {
	now := m.now()
	if left := m.quietFor(a.resource, now); left > 0 {
		return left, false
	}
	if left := m.reserved(a, now); left > 0 {
		return left, false
	}
	if a.class != goesFirst {
		delay = m.points.missing(a.points, kept[a.class], now)
		if n := float64(a.creates); n > 0 {
			delay = max(delay, m.perMin.missing(n, kept[a.class], now), m.perHour.missing(n, kept[a.class], now))
		}
		if delay > 0 {
			return delay, false
		}
	}
	for urgent := goesFirst; urgent < a.class; urgent++ {
		if m.inLine[urgent] > 0 {
			return 0, false
		}
	}
	return 0, m.free != 0 && !(a.writes && m.serial && m.writing)
}

// quietFor is how long the host wants to hear nothing. mu is held.
func (m *limiter) quietFor(resource string, now time.Time) time.Duration {
	return max(m.until[""].Sub(now), m.until[resource].Sub(now), 0)
}

// reserved is how long what is left of the host's budget is for others. mu is held.
func (m *limiter) reserved(a ask, now time.Time) time.Duration {
	b, share := m.budgets[a.resource], [classes]int{0, 20, 10}[a.class]
	if share == 0 || b.limit == 0 || b.remaining > b.limit/share {
		return 0
	}
	return max(b.reset.Sub(now), 0)
}

// begin takes what a call costs. mu is held.
func (m *limiter) begin(a ask) {
	m.points.take(a.points)
	m.perMin.take(float64(a.creates))
	m.perHour.take(float64(a.creates))
	m.free--
	m.writing = m.writing || a.writes
	m.changed()
}

func (m *limiter) end(a ask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free++
	if a.writes {
		m.writing = false
	}
	m.changed()
}

// changed has everybody look again. mu is held.
func (m *limiter) changed() {
	close(m.changing)
	m.changing = make(chan struct{})
}

// sleep waits for a delay or, when it is 0, for other calls. mu is held, and
// let go meanwhile.
func (m *limiter) sleep(ctx context.Context, a ask, delay time.Duration) error {
	var ring <-chan time.Time
	if delay > 0 {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < delay {
			return limited(m.now().Add(delay))
		}
		ring = m.after(delay)
	}
	changing := m.changing
	if delay > 0 {
		changing = nil // what others do makes it no shorter
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-ring:
	case <-changing:
	case <-ctx.Done():
		if delay > 0 {
			return limited(m.now().Add(delay))
		}
		return ctx.Err()
	}
	return nil
}

// late is the error of a call whose context ended while it waited for its
// turn: the limit's, if there is one now.
func (m *limiter) late(ctx context.Context, a ask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delay, ok := m.may(a); !ok && delay > 0 {
		return limited(m.now().Add(delay))
	}
	return ctx.Err()
}

// limited is the error of a call that would have to wait for longer than it
// can.
func limited(until time.Time) error {
	return &gitprovider.Error{
		Kind: gitprovider.Transient, After: until, Err: context.DeadlineExceeded,
		Message: fmt.Sprintf("The host allows no more calls until %s.", until.UTC().Format("15:04:05 MST")),
	}
}

// quiet fails when the host wants to hear nothing for longer than ctx lasts,
// after a call that it refused for that; else the next turn is waited for.
func (m *limiter) quiet(ctx context.Context, resource string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	left := m.quietFor(resource, now)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < left {
		return limited(now.Add(left))
	}
	return nil
}

// spent is the error of a call that the host has just refused for a limit.
func (m *limiter) spent() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	return limited(now.Add(m.quietFor("core", now)))
}

// heard takes note of what an answer says about limits, and reports whether
// the call was refused because of one. about is the resource of the call: its
// budget is its own, and other limits are everybody's.
func (m *limiter) heard(about string, resp *http.Response, body []byte) (refused bool) {
	now := m.now()
	var until time.Time
	budget, known := heardBudget(resp.Header, now)
	spent := known && budget.remaining == 0
	if spent {
		until = budget.reset
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known {
		m.budgets[about] = budget
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
	if until.After(now.Add(longestQuiet)) {
		until = now.Add(longestQuiet)
	}
	if until.After(m.until[about]) {
		m.until[about] = until
	}
	return refused
}

// longestQuiet bounds what a host may ask for: no clock is that wrong.
const longestQuiet = 2 * time.Hour

// heardBudget reads the host's budget from an answer. The time of its reset is
// told by the host's clock; the answer's date says what that shows now.
func heardBudget(h http.Header, now time.Time) (hostBudget, bool) {
	b, ok := budgetOf(0, h)
	if !ok {
		return hostBudget{}, false
	}
	reset := b.Reset
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		reset = now.Add(b.Reset.Sub(date))
	}
	return hostBudget{b.Limit, b.Remaining, reset}, true
}
