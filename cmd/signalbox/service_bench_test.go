//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/benchtest"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
	"signalbox/web"
)

// How soon the service reacts, what it asks of the host, and what it takes when
// it is full and when nothing happens, for docs/benchmarks.md. The server is a
// process of its own on a Postgres that commits durably; the simulated GitHub and
// what drives it are in this one.

// starts notes when CI started on test branches and when it ended, in the order
// in which it started.
type starts struct {
	mu      sync.Mutex
	nth     map[string]int // by commit
	started []time.Time
	ended   []time.Time // zero = not yet
}

// sent hears of the simulator's webhooks.
func (s *starts) sent(event string, payload []byte) {
	if event != "check_run" {
		return
	}
	var e struct {
		Action string
		Check  struct {
			Name   string
			Commit string `json:"head_sha"`
		} `json:"check_run"`
	}
	if json.Unmarshal(payload, &e) != nil || !slices.Contains(demoChecks, e.Check.Name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.nth[e.Check.Commit]
	switch {
	case !known:
		s.nth[e.Check.Commit] = len(s.started)
		s.started, s.ended = append(s.started, time.Now()), append(s.ended, time.Time{})
	case e.Action == "completed":
		s.ended[n] = time.Now()
	}
}

// reactions are the times from the webhook that let a group begin to the start
// of its CI, in a line of so many slots in which nothing fails: the n-th start
// needs the end of CI for all up to the one that many before.
func (s *starts) reactions(slots int) (took []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var free time.Time
	for n, at := range s.started {
		if n < slots {
			continue
		}
		if end := s.ended[n-slots]; end.After(free) {
			free = end
		}
		took = append(took, at.Sub(free))
	}
	return took
}

// asked is how pull requests are opened and submitted.
type asked struct {
	pulls int
	pace  time.Duration // between two
	byAPI bool          // submitted with a request; otherwise with a comment
	lanes bool          // each has a target of its own
}

// openAndAsk opens pull requests with a file each, and asks for them to be merged.
func (s *served) openAndAsk(ctx context.Context, b *testing.B, a asked) {
	b.Helper()
	must := demand(b)
	for n := range a.pulls {
		opened, err := openChange(ctx, s.sim, s.repo(), n)
		must(err)
		if a.lanes {
			must(persist(ctx, func() error {
				return s.client.Call(ctx, "setImpactedTargets", map[string]any{
					"pr": map[string]any{"number": opened.Number, "sha": opened.HeadSHA}, "impactedTargets": []string{fmt.Sprint("package", n)}}, nil)
			}))
		}
		if a.byAPI {
			err = submitPull(ctx, s.client, opened.Number)
		} else {
			_, err = s.sim.Comment(s.repo(), opened.Number, "alice", "/merge")
		}
		must(err)
		time.Sleep(a.pace)
	}
}

// BenchmarkB11Reaction has fifty pull requests a minute land: how long after the
// webhook about the last check that a group waited for does the CI of the next
// one start? In between, what passed has landed.
func BenchmarkB11Reaction(b *testing.B) {
	const slots, pulls, pace = 4, 50, 1200 * time.Millisecond
	dbtest.Durable(b)
	ctx, cancel := context.WithTimeout(b.Context(), 8*time.Minute)
	defer cancel()
	seen := starts{nth: map[string]int{}}
	s := newServed(ctx, b, githubsim.Config{DataDir: b.TempDir(), Sent: seen.sent}, asOperated...)
	must := demand(b)
	// A little longer than slots x pace, so that somebody always waits.
	must(s.prepare(ctx, githubsim.CI{MinSeconds: 4.9, MaxSeconds: 4.9}))
	m := benchtest.New(b, s.store.SQL())
	s.openAndAsk(ctx, b, asked{pulls: pulls, pace: pace})
	must(awaitMerged(ctx, s.store.SQL(), pulls))
	m.End()
	took := seen.reactions(slots)
	if len(took) != pulls-slots {
		b.Fatalf("CI started %d times, want %d", len(took)+slots, pulls)
	}
	judge(m, took, benchtest.Figure{ID: "B11", Measure: "webhook of CI until, after a landing, the next CI starts, %s"}, bound{"p50", 0.5, 1000, 100}, bound{"p99", 0.99, 1000, 100})
	b.ReportMetric(0, "ns/op")
}

// BenchmarkB14Calls counts calls of the host's API that count towards its limit,
// git left out, from the submission of pull requests until they have landed, in
// lanes.
func BenchmarkB14Calls(b *testing.B) {
	const pulls = 40
	dbtest.Durable(b)
	for _, how := range []struct {
		name     string
		byAPI    bool
		settings map[string]any
	}{
		{"asked for in comments", false, map[string]any{}},
		{"submitted by the API", true, map[string]any{}},
		{"submitted by the API, no draft pull requests", true, map[string]any{"createPrsForTestingBranches": false}},
	} {
		ctx, cancel := context.WithTimeout(b.Context(), 4*time.Minute)
		defer cancel()
		var counted calls
		s := newServed(ctx, b, githubsim.Config{DataDir: b.TempDir(), Around: counted.around}, "SIGNALBOX_LOG_LEVEL=info")
		must := demand(b)
		must(s.prepare(ctx, githubsim.CI{MinSeconds: 1, MaxSeconds: 1}))
		how.settings["mode"], how.settings["concurrency"] = "parallel", 20
		must(persist(ctx, func() error { return s.client.Call(ctx, "updateQueue", how.settings, nil) }))
		m := benchtest.New(b, s.store.SQL())
		before := counted.byKind()
		s.openAndAsk(ctx, b, asked{pulls: pulls, byAPI: how.byAPI, lanes: true})
		must(awaitMerged(ctx, s.store.SQL(), pulls))
		must(awaitJobs(ctx, s.store.SQL()))
		m.End()
		list, paid, free := counted.since(before)
		m.Judge(benchtest.Figure{ID: "B14", Measure: "calls of the host's API for each that lands, " + how.name,
			Got: float64(paid) / pulls, Must: 10, Goal: 6,
			Calib: fmt.Sprintf("and %.1f that are free", float64(free)/pulls)})
		b.Logf("calls for %d pull requests, %s:\n%s", pulls, how.name, list)
		s.child.kill(b)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkB12FullAndIdle has ten thousand pull requests with fifty targets each
// wait behind four that are tested: what the server takes then when it is used,
// and what it does when it is not.
func BenchmarkB12FullAndIdle(b *testing.B) {
	const pulls, each, universe = 10_000, 50, 200_000
	dbtest.Durable(b)
	ctx, cancel := context.WithTimeout(b.Context(), 8*time.Minute)
	defer cancel()
	s := newServed(ctx, b, githubsim.Config{DataDir: b.TempDir()}, append(asOperated, "SIGNALBOX_API_RATE=0")...)
	must := demand(b)
	must(s.prepare(ctx, githubsim.CI{MinSeconds: 86400}))
	must(s.client.Call(ctx, "updateQueue", map[string]any{"mode": "parallel"}, nil))
	repo, err := queueOf(ctx, s.store, s.repo(), "main")
	must(err)
	for n := range 5 {
		opened, err := openChange(ctx, s.sim, s.repo(), n)
		must(err)
		must(s.store.SetImpactedTargets(ctx, repo.Repo.ID, int64(opened.Number), opened.HeadSHA, []string{fmt.Sprint("own", n)}, false))
		must(submitPull(ctx, s.client, opened.Number))
	}
	must(await(ctx, s.store.SQL(), `SELECT count(*) FILTER (WHERE state = 'testing') = 4 AND count(*) FILTER (WHERE state = 'pending') = 1 FROM entries`))
	s.crowd(ctx, b, repo, pulls, each, universe)
	s.child.kill(b)
	s.child.start(b)
	must(await(ctx, s.store.SQL(), `SELECT count(*) = 0 FROM inbox_routes`))
	m := benchtest.New(b, s.store.SQL())
	s.use(ctx, b, repo)
	m.End()
	full := float64(s.memory("VmHWM")) / (1 << 20)
	of := fmt.Sprintf("%.0f MB when it was done", float64(s.memory("VmRSS"))/(1<<20))
	m.Judge(benchtest.Figure{ID: "B12", Measure: "memory at its most, 10,000 queued with 50 targets of 200,000", Got: full, Unit: " MB", Must: 300, Goal: 120, Calib: of})
	must(awaitJobs(ctx, s.store.SQL()))
	server, postgres := s.child.cmd.Process.Pid, benchtest.Postmaster(b, s.store.SQL())
	m.Begin()
	own, all := benchtest.Spent(server), benchtest.Spent(server, postgres)
	time.Sleep(30 * time.Second)
	own, all = benchtest.Spent(server)-own, benchtest.Spent(server, postgres)-all
	m.End()
	m.Judge(benchtest.Figure{ID: "B13", Measure: "of a processor when nothing happens, 10,000 queued, with Postgres", Got: 100 * all.Seconds() / m.Took.Seconds(), Unit: " %", Must: 3, Goal: 0.5,
		Calib: fmt.Sprintf("%.2f %% without Postgres", 100*own.Seconds()/m.Took.Seconds())})
	b.ReportMetric(0, "ns/op")
}

// crowd makes so many more of the pull request that waits, with targets of
// their own.
func (s *served) crowd(ctx context.Context, b *testing.B, q queue.Queue, pulls, each, universe int) {
	b.Helper()
	must := demand(b)
	_, err := s.store.SQL().ExecContext(ctx, copyEntry(5, `'admitted_at', e.admitted_at + make_interval(secs => n)`), pulls, 999)
	must(err)
	var all sync.WaitGroup
	for part := range 8 {
		all.Go(func() {
			for n := 1001 + part; n <= 1000+pulls; n += 8 {
				names := make([]string, each)
				for i := range names {
					names[i] = fmt.Sprintf("//some/package/of/many:target_%d", (n*7919+i*104729)%universe)
				}
				if err := s.store.SetImpactedTargets(ctx, q.Repo.ID, int64(n), fmt.Sprintf("%040x", n), names, false); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	_, err = s.store.SQL().ExecContext(ctx, `VACUUM ANALYZE`)
	must(err)
}

// use has decisions made on the queue, and it and its page read.
func (s *served) use(ctx context.Context, b *testing.B, q queue.Queue) {
	b.Helper()
	must := demand(b)
	for range 50 {
		must(s.store.Append(ctx, q.Repo.ID, q.ID, queue.ResyncEnded{}))
		must(await(ctx, s.store.SQL(), `SELECT count(*) = 0 FROM inbox_routes`))
		must(s.client.Call(ctx, "getQueue", nil, nil))
		must(s.client.Call(ctx, "listPullRequests", map[string]any{"take": 100}, nil))
		must(s.client.Call(ctx, "getQueueGraph", nil, nil))
		status, err := httpGet(ctx, s.child.url+web.QueueURL("", q.Repo, q.Branch))
		must(err)
		if status != http.StatusOK {
			b.Fatalf("the page of the queue: status %d", status)
		}
	}
}
