//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/benchtest"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// How many webhooks the service takes, and that it loses none, for
// docs/benchmarks.md: the server in a process of its own, as serve runs it, on a
// Postgres that commits durably, with the engine deciding on what arrives. A
// webhook is signed, has an id of its own and six kilobytes, tells of a check of
// CI, and is answered when it is durable. Half are about commits that the queue
// tests, so that decisions follow; half about commits that nobody knows. What
// sends them shares the machine.

var soakFor = flag.Duration("soak", time.Minute, "how long B15 sends webhooks; an hour is what its goal is about")

// hookSize is how long a webhook's body is made.
const hookSize = 6 << 10

// hooked is a server that takes webhooks.
type hooked struct {
	*served
	b       *testing.B
	ctx     context.Context
	parts   []string // of the body, around what differs
	commits []string // half of them tested
	copies  []*child // of the server, the first of which is served's
	loads   int      // that have been sent
}

// newHooked starts a server with four pull requests under test, on the database
// of a DSN.
func newHooked(b *testing.B, dsn string) *hooked {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *soakFor+10*time.Minute)
	b.Cleanup(cancel)
	h := &hooked{b: b, ctx: ctx}
	var sample sample
	h.served = newServedOn(ctx, b, dsn, githubsim.Config{DataDir: b.TempDir(), Sent: sample.sent}, asOperated...)
	h.copies = []*child{h.child}
	must := demand(b)
	must(h.prepare(ctx, githubsim.CI{MinSeconds: 86400}))
	for n := range 4 {
		opened, err := openChange(ctx, h.sim, h.repo(), n)
		must(err)
		_, err = h.sim.Comment(h.repo(), opened.Number, "alice", "/merge")
		must(err)
	}
	must(await(ctx, h.store.SQL(), `SELECT count(*) = 4 FROM runs WHERE state = 'testing'`))
	must(persist(ctx, func() error {
		if sample.Load() == nil {
			return errNotYet
		}
		return nil
	}))
	rows, err := h.store.SQL().QueryContext(ctx, `SELECT commit FROM runs WHERE state = 'testing'`)
	must(err)
	defer rows.Close()
	for rows.Next() {
		var commit string
		must(rows.Scan(&commit))
		h.commits = append(h.commits, commit, commit[1:]+commit[:1]) // nobody's, and not a row of zeros, which is none
	}
	must(rows.Err())
	h.model(*sample.Load())
	return h
}

// model makes a webhook of CI into one whose commit, name and number are left open.
func (h *hooked) model(payload []byte) {
	var event map[string]any
	must := demand(h.b)
	must(json.Unmarshal(payload, &event))
	check := event["check_run"].(map[string]any)
	check["id"], check["name"], check["head_sha"] = "<number>", "<name>", "<commit>"
	check["output"] = map[string]any{"title": "", "summary": "", "text": strings.Repeat("a line of a log\n", max(0, hookSize-len(payload))/17)}
	body, err := json.Marshal(event)
	must(err)
	text := string(body)
	for _, open := range []string{`"\u003cnumber\u003e"`, `\u003cname\u003e`, `\u003ccommit\u003e`} {
		text = strings.Replace(text, open, "\x00", 1)
	}
	if h.parts = strings.Split(text, "\x00"); len(h.parts) != 4 {
		h.b.Fatalf("the model of a webhook has %d parts", len(h.parts))
	}
}

// body is the n-th webhook. Go sorts the keys: head_sha comes before id and name.
func (h *hooked) body(n int64, untested bool) []byte {
	commit := n % int64(len(h.commits))
	if untested {
		commit |= 1 // the odd ones are nobody's
	}
	return []byte(h.parts[0] + h.commits[commit] + h.parts[1] + strconv.FormatInt(1e9+n, 10) +
		h.parts[2] + "check " + strconv.FormatInt(n/8%100, 10) + h.parts[3])
}

// load is how webhooks are sent.
type load struct {
	clients  int
	lasts    time.Duration
	until    chan struct{} // ends it earlier, when closed
	rate     int           // a second, counted from when each was due; 0 = each client when its last was answered
	untested bool          // no webhook is about a commit under test: nothing is decided
	twice    bool          // every webhook again, with its id, a little later
	stubborn bool          // what gets no answer is left, and the next is sent: somebody kills things
}

func (l load) over() bool {
	select {
	case <-l.until:
		return true
	default:
		return false
	}
}

// answered is how that went.
type answered struct {
	ids    []string        // of those that were taken
	took   []time.Duration // in the order of their answers
	at     []time.Time
	lost   int // that got no answer, or not the right one
	lasted time.Duration
}

func (a *answered) perSecond() float64 { return float64(len(a.took)) / a.lasted.Seconds() }

// send sends a load of webhooks. With twice, those of one run of a hundred are
// sent again after it.
func (h *hooked) send(l load) *answered {
	h.b.Helper()
	var mu sync.Mutex
	all := &answered{}
	var wg sync.WaitGroup
	var next atomic.Int64
	h.loads++
	prefix := h.prefix()
	began := time.Now()
	for i := range l.clients {
		wg.Go(func() {
			line := hookLine{address: h.copies[i%len(h.copies)].address()}
			defer line.close()
			var mine answered
			for {
				n := next.Add(1) - 1
				due := time.Now()
				if l.rate > 0 {
					due = began.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
					time.Sleep(time.Until(due))
				}
				if due.Sub(began) >= l.lasts || h.ctx.Err() != nil || l.over() {
					break
				}
				which := n
				if l.twice { // 0 … 99, 0 … 99, 100 … 199, 100 … 199, …
					which = n/200*100 + n%100
				}
				id := prefix + strconv.FormatInt(which, 10)
				status, err := line.send(id, h.body(which, l.untested))
				now := time.Now()
				if err == nil && status == http.StatusAccepted {
					mine.ids, mine.took, mine.at = append(mine.ids, id), append(mine.took, now.Sub(due)), append(mine.at, now)
					continue
				}
				mine.lost++
				if !l.stubborn {
					h.b.Errorf("a webhook: status %d: %v\n%s", status, err, h.child.tail())
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			all.ids, all.took, all.at, all.lost = append(all.ids, mine.ids...), append(all.took, mine.took...), append(all.at, mine.at...), all.lost+mine.lost
		})
	}
	wg.Wait()
	all.lasted = time.Since(began)
	return all
}

// prefix is how the ids of the last load begin.
func (h *hooked) prefix() string { return fmt.Sprintf("bench-%d-", h.loads) }

// settled waits until everything that was taken has been decided on, and
// returns for how long.
func (h *hooked) settled() time.Duration {
	h.b.Helper()
	began := time.Now()
	demand(h.b)(await(h.ctx, h.store.SQL(), `
		SELECT NOT EXISTS (SELECT 1 FROM inbox WHERE routed_at IS NULL AND NOT waits) AND NOT EXISTS (SELECT 1 FROM inbox_routes)`))
	return time.Since(began)
}

// kept sees that every webhook that was taken is there once, with its fact.
func (h *hooked) kept(a *answered) {
	h.b.Helper()
	want := map[string]bool{}
	for _, id := range a.ids {
		want[id] = true
	}
	rows, err := h.store.SQL().QueryContext(h.ctx, `SELECT id FROM deliveries WHERE id LIKE $1`, h.prefix()+"%")
	must := demand(h.b)
	must(err)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id string
		must(rows.Scan(&id))
		delete(want, id)
	}
	must(rows.Err())
	if len(want) > 0 {
		h.b.Errorf("%d of %d webhooks were taken and are lost", len(want), len(a.ids))
	}
	var facts, deliveries int
	must(h.store.SQL().QueryRowContext(h.ctx, `SELECT (SELECT count(*) FROM inbox WHERE kind = 'check_reported' AND body->>'name' LIKE 'check %'),
		(SELECT count(*) FROM deliveries WHERE id LIKE 'bench-%')`).Scan(&facts, &deliveries))
	if facts != deliveries {
		h.b.Errorf("%d webhooks left %d facts", deliveries, facts)
	}
}

// processors is the processor time that all copies of the server have used, with
// the git programs that they started, and postgres what Postgres has.
func (h *hooked) processors() (servers, postgres time.Duration) {
	var pids []int
	for _, c := range h.copies {
		pids = append(pids, c.cmd.Process.Pid)
	}
	return benchtest.Spent(pids...), benchtest.Spent(benchtest.Postmaster(h.b, h.store.SQL()))
}

// costs is the processor time in milliseconds of one of the things that do
// does, in servers and in Postgres.
func (h *hooked) costs(do func() int) (server, postgres float64) {
	s, p := h.processors()
	n := time.Duration(max(do(), 1))
	s2, p2 := h.processors()
	return benchtest.Milliseconds((s2 - s) / n), benchtest.Milliseconds((p2 - p) / n)
}

// BenchmarkB1Webhooks is B1, B2, B3 and B5 on one server. B1 twice: the figure that
// its goals come from was made by taking alone, without decisions beside it.
func BenchmarkB1Webhooks(b *testing.B) {
	dbtest.Durable(b)
	h := newHooked(b, dbtest.DSN(b))
	h.send(load{clients: 32, lasts: 2 * time.Second}) // connections are made, and statements prepared
	h.settled()
	var first float64
	for _, how := range []struct {
		clients    int
		untested   bool
		what       string
		must, goal float64
	}{
		{32, true, "nothing to decide", 4000, 5500}, {128, true, "nothing to decide", 6000, 9000},
		{32, false, "half decided on", 4000, 5500}, {128, false, "half decided on", 6000, 9000},
	} {
		m := benchtest.New(b, h.store.SQL())
		var got *answered
		server, postgres := h.costs(func() int {
			got = h.send(load{clients: how.clients, lasts: 8 * time.Second, untested: how.untested})
			m.End()
			b.Logf("after the last webhook decisions took %s to follow", h.settled().Round(time.Millisecond))
			return len(got.took)
		})
		h.kept(got)
		b.Logf("processor ms for one webhook: %.2f in the server, %.2f in Postgres", server, postgres)
		m.Judge(benchtest.Figure{ID: "B1", Measure: fmt.Sprintf("durable webhooks, %s, %d clients", how.what, how.clients), Got: got.perSecond(), Unit: "/s", Must: how.must, Goal: how.goal, AtLeast: true,
			Calib: fmt.Sprintf("%.2f x %.0f inserts/s", got.perSecond()/m.Inserts, m.Inserts)})
		if how.clients == 32 && !how.untested {
			first = got.perSecond()
			judge(m, got.took, benchtest.Figure{ID: "B3", Measure: "answer %s at that, 32 clients"}, bound{"p99", 0.99, 30, 15})
		}
		if !how.untested {
			b.ReportMetric(got.perSecond(), fmt.Sprintf("webhooks/s-of-%d", how.clients))
		}
	}
	h.at200()
	h.storm(first)
	h.child.end(b)
	b.ReportMetric(0, "ns/op")
}

// at200 is B2.
func (h *hooked) at200() {
	m := benchtest.New(h.b, h.store.SQL())
	got := h.send(load{clients: 64, lasts: 8 * time.Second, rate: 200})
	m.End()
	h.settled()
	h.kept(got)
	judge(m, got.took, benchtest.Figure{ID: "B2", Measure: "answer %s at 200 webhooks a second"}, bound{"p50", 0.5, 2, 1}, bound{"p99", 0.99, 10, 5})
}

// storm is B5: each webhook comes twice.
func (h *hooked) storm(once float64) {
	m := benchtest.New(h.b, h.store.SQL())
	got := h.send(load{clients: 32, lasts: 8 * time.Second, twice: true})
	m.End()
	h.settled()
	h.kept(got)
	share := 100 * got.perSecond() / once
	m.Judge(benchtest.Figure{ID: "B5", Measure: "webhooks when each comes twice, of B1 with 32 clients", Got: share, Unit: " %", Must: 80, Goal: 95, AtLeast: true,
		Calib: fmt.Sprintf("%.2f x %.0f inserts/s", got.perSecond()/m.Inserts, m.Inserts)})
}

// BenchmarkB4Killed kills the server and then Postgres while webhooks come as
// fast as they are taken, and starts each again at once.
func BenchmarkB4Killed(b *testing.B) {
	must := demand(b)
	pg := newPostgres(b, filepath.Join(sharedDir(b), "pg"), "killed")
	fresh := pg.open("killed")
	must(errors.Join(fresh.Migrate(b.Context()), fresh.Close()))
	h := newHooked(b, pg.DSN("killed"))
	h.settled()
	m := benchtest.New(b, h.store.SQL())
	done, enough := make(chan *answered), make(chan struct{})
	go func() { done <- h.send(load{clients: 32, lasts: 5 * time.Minute, until: enough, stubborn: true}) }()
	time.Sleep(3 * time.Second) // the load, for a while
	server := time.Now()
	h.child.kill(b)
	h.child.start(b)
	h.takesMore()
	time.Sleep(3 * time.Second)      // the load once more
	h.store.SQL().SetMaxIdleConns(0) // none of ours is to break
	postgres := time.Now()
	pg.kill()
	pg.start()
	h.takesMore()
	close(enough)
	got := <-done
	m.End()
	must(persist(h.ctx, func() error { return h.store.Ready(h.ctx) }))
	h.kept(got)
	b.Logf("%d webhooks were taken, and %d got no answer", len(got.ids), got.lost)
	for _, killed := range []struct {
		what string
		at   time.Time
	}{{"the server", server}, {"Postgres", postgres}} {
		again := got.firstAfter(killed.at)
		m.Judge(benchtest.Figure{ID: "B4", Measure: "nothing lost by kill -9 of " + killed.what + "; until the next webhook is taken", Got: again.Seconds(), Unit: " s", Must: 10, Goal: 2,
			Calib: fmt.Sprintf("%d taken, 0 lost", len(got.ids))})
	}
	b.ReportMetric(0, "ns/op")
}

// takesMore waits until another webhook has been taken.
func (h *hooked) takesMore() {
	h.b.Helper()
	var taken int
	must := demand(h.b)
	must(h.store.SQL().QueryRowContext(h.ctx, `SELECT count(*) FROM deliveries`).Scan(&taken))
	must(await(h.ctx, h.store.SQL(), fmt.Sprintf(`SELECT count(*) > %d FROM deliveries`, taken)))
}

// firstAfter is how long after a moment, at which something was killed, the
// first webhook was taken after the pause that this made: the longest that
// begins within a second.
func (a *answered) firstAfter(moment time.Time) time.Duration {
	slices.SortFunc(a.at, time.Time.Compare)
	var longest, until time.Duration
	before := moment
	for _, at := range a.at {
		if at.Before(moment) || before.Sub(moment) > time.Second {
			continue
		}
		if pause := at.Sub(before); pause > longest {
			longest, until = pause, at.Sub(moment)
		}
		before = at
	}
	return until
}

// BenchmarkB15Soak sends a thousand webhooks a second for long, and compares the
// end with the beginning, when a tenth had passed.
func BenchmarkB15Soak(b *testing.B) {
	dbtest.Durable(b)
	h := newHooked(b, dbtest.DSN(b))
	m := benchtest.New(b, h.store.SQL())
	type measured struct {
		p99    time.Duration
		memory int64
		bloat  float64 // share of rows of the inbox that are dead
		bytes  float64 // on disk for each webhook that was taken
	}
	var taken int
	part := func(lasts time.Duration) (p measured) {
		got := h.send(load{clients: 64, lasts: lasts, rate: 1000})
		h.kept(got)
		taken += len(got.took)
		p.p99, p.memory = benchtest.Quantile(got.took, 0.99), h.memory("VmRSS")
		demand(b)(h.store.SQL().QueryRowContext(h.ctx, `
			SELECT COALESCE(sum(n_dead_tup) / NULLIF(sum(n_live_tup + n_dead_tup), 0), 0), sum(pg_total_relation_size(relid))
			FROM pg_stat_user_tables WHERE relname IN ('inbox', 'inbox_routes', 'deliveries', 'runs', 'checks', 'queues', 'river_job')`).Scan(&p.bloat, &p.bytes))
		p.bytes /= float64(taken)
		return p
	}
	part(*soakFor / 10) // memory grows until the collector knows the load
	begin := part(*soakFor / 10)
	var end measured
	for range 8 {
		end = part(*soakFor / 10)
	}
	m.End()
	b.Logf("at the beginning %+v, at the end %+v", begin, end)
	of := fmt.Sprintf("%d webhooks in %s", taken, *soakFor)
	m.Judge(benchtest.Figure{ID: "B15", Measure: "soak, 1,000 webhooks/s: memory at the end, of the beginning", Got: float64(end.memory) / float64(begin.memory), Unit: " x", Must: 1.3, Goal: 1.1, Calib: of})
	m.Judge(benchtest.Figure{ID: "B15", Measure: "answer p99 at the end, of the beginning", Got: float64(end.p99) / float64(begin.p99), Unit: " x", Must: 1.5, Goal: 1.2, Calib: fmt.Sprintf("p99 %.1f ms at the end", benchtest.Milliseconds(end.p99))})
	m.Judge(benchtest.Figure{ID: "B15", Measure: "bytes on disk for each webhook at the end, of the beginning", Got: end.bytes / begin.bytes, Unit: " x", Must: 1.2, Goal: 1.05, Calib: fmt.Sprintf("%.0f bytes, %.0f %% of rows dead", end.bytes, end.bloat*100)})
	b.ReportMetric(0, "ns/op")
}
