package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// What a pull request costs the host when it is submitted, in calls of the
// API: the command is answered (the pull request and the author's right are
// read, the command gets a reaction), the pull request is judged (read, and
// one query for reviews and conversations), and people are told (the comment
// is looked for and made, the check is made): eight. Its place in the line may
// change once before it stands (comment and check): two.
const callsPerSubmission = 10

// What a queue reads however many are submitted: its target, rules, the
// installation's token, the first run's branch and draft, a resync.
const callsPerQueue = 40

// calls counts calls of the API that reach a town's host; git is not counted.
type calls struct {
	n        atomic.Int64
	underWay atomic.Int64 // those that are not answered yet, to git too
	mu       sync.Mutex
	kinds    map[string]int // by method and path, numbers and hashes left out
}

// answerCode remembers the status of an answer, 0 for one that is written without.
type answerCode struct {
	http.ResponseWriter
	code int
}

func (a *answerCode) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

func (a *answerCode) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// oneOf are the parts of a path that name one of many.
var oneOf = regexp.MustCompile(`/(\d+|[0-9a-f]{40}|pr-\d+/.*)(/|$)`)

// count counts a call as one of its kind. One whose answer is that nothing has
// changed is free: it does not count towards the host's limit.
func (c *calls) count(r *http.Request, free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	kind := r.Method + " " + oneOf.ReplaceAllString(r.URL.Path, "/*$2")
	if free {
		kind = freeKind + kind
	}
	c.kinds[kind]++
}

// freeKind is how the kinds of free calls begin.
const freeKind = "free: "

// since lists the calls that came after some that were counted before, the
// most frequent kind first, and says how many count and how many are free.
func (c *calls) since(before map[string]int) (list string, paid, free int) {
	var lines []string
	for kind, n := range c.byKind() {
		if n -= before[kind]; n == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("%6d %s", n, kind))
		if strings.HasPrefix(kind, freeKind) {
			free += n
		} else {
			paid += n
		}
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return strings.Join(lines, "\n"), paid, free
}

// byKind is how many calls of each kind have been counted.
func (c *calls) byKind() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.kinds)
}

func (c *calls) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.underWay.Add(1)
		defer c.underWay.Add(-1)
		if strings.HasPrefix(r.URL.Path, "/_control/") || strings.Contains(r.URL.Path, ".git/") {
			next.ServeHTTP(w, r)
			return
		}
		c.n.Add(1)
		answer := &answerCode{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		c.count(r, answer.code == http.StatusNotModified)
	})
}

// manyTogether is how many pull requests are submitted at once.
func manyTogether() int {
	if *allStories {
		return 100
	}
	return 20
}

func TestManySubmissionsAtOnceCostFewCalls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.RequiredStatuses = []string{"ci"}
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	n := manyTogether()
	for i := range n {
		if err := w.Open(int64(i+1), "bob", map[string]string{"file" + strings.Repeat("x", i): "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Pass(0); err != nil {
		t.Fatal(err)
	}
	before := w.calls.n.Load()
	for i := range n {
		if _, err := w.sim.Comment(w.name, i+1, "alice", "/merge"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Pass(time.Minute); err != nil {
		t.Fatal(err)
	}
	var queued int
	if err := w.service.db.SQL().QueryRowContext(ctx, `SELECT count(*) FROM entries WHERE state IN ('pending', 'testing')`).Scan(&queued); err != nil || queued != n {
		t.Fatalf("%d of %d are queued: %v", queued, n, err)
	}
	made, most := w.calls.n.Load()-before, int64(n*callsPerSubmission+callsPerQueue)
	t.Logf("%d submissions made %d calls", n, made)
	if made > most {
		t.Errorf("%d submissions made %d calls, which is more than %d", n, made, most)
	}
}

// minutesWithout is for how long the host refuses every call.
func minutesWithout() int {
	if *allStories {
		return 60
	}
	return 10
}

// For an hour the host refuses every call. Who asked in vain hears nothing, no
// call is made in vain but the first of each, and afterwards everything that
// was to happen happens.
func TestAnHourWithoutTheHostLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.RequiredStatuses, settings.CreatePRsForTestingBranches = []string{"ci"}, false
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	w.troubled = true
	f := &faultyPlay{town: w}
	must := demand(t)
	must(w.Open(1, "bob", map[string]string{"a.txt": "1"}))
	must(w.Open(2, "bob", map[string]string{"b.txt": "1"}))
	must(f.merge(1))
	must(f.until("the first is tested", "testing", 1))

	must(w.sim.Fail(githubsim.Fault{Path: "/repos/", Action: "limit", RetryAfter: 60 * minutesWithout(), Times: 1 << 30}))
	before := w.calls.n.Load()
	must(f.report(1, "success")) // it is to land now
	for _, number := range []int{1, 2} {
		_, err := w.sim.Comment(w.name, number, "alice", "/merge") // asked in vain and for the first time
		must(err)
	}
	for range minutesWithout() - 1 {
		must(f.pass(time.Minute))
	}
	if made := w.calls.n.Load() - before; made > 30 {
		t.Errorf("%d calls were made in the hour that the host wanted none", made)
	}
	if main, err := w.Main(); err != nil || len(main) != 0 {
		t.Errorf("something landed meanwhile: %v: %v", main, err)
	}
	w.sim.ClearFaults()
	must(f.until("the first has landed", "merged", 1))
	must(f.until("the second is tested", "testing", 2))
	must(f.report(2, "success"))
	must(f.until("the second has landed", "merged", 2))
	must(f.rest())
	seen, err := w.whatPeopleSee()
	must(err)
	// Who asked for the first once more is told that it is queued already or, if
	// it landed before the host could be asked who they are, that it is merged.
	if n := strings.Count(seen, "1 by signalbox[bot]"); n != 3 {
		t.Errorf("%d of 3 commands were answered:\n%s", n, seen)
	}
}
