package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/benchtest"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// plotsVariable names a folder that BenchmarkGrowth draws into.
const plotsVariable = "SIGNALBOX_BENCH_PLOTS"

// grown is a database that gets larger in one respect.
type grown struct {
	b     *testing.B
	ctx   context.Context
	store *db.DB
	queue queue.Queue
	org   account.Organization
	token [32]byte
	n     int // how many there are
	done  int // deeds so far
}

// deed is something that a service does, and what it may cost when there is more
// of everything.
type deed struct {
	name string
	// listed says that it is about all of them and may grow with their number;
	// anything else must not.
	listed bool
	do     func(g *grown) error
}

var (
	decides = deed{"one decision", false, func(g *grown) error {
		if err := g.store.Append(g.ctx, g.queue.Repo.ID, g.queue.ID, queue.ResyncEnded{}); err != nil {
			return err
		}
		_, ok, err := g.store.UpdateDue(g.ctx, time.Now(), queue.Reconcile)
		if err == nil && !ok {
			err = fmt.Errorf("nothing was due")
		}
		return err
	}}
	stands = deed{"where one in the middle stands", true, func(g *grown) error {
		_, err := g.store.Read(g.ctx, g.queue.ID, int64(g.n/2))
		return err
	}}
	readsOne = deed{"one that waits, and its place", false, func(g *grown) error {
		_, err := g.store.Read(g.ctx, g.queue.ID, 1)
		return err
	}}
	pages = deed{"a page of 100", false, func(g *grown) error {
		_, err := g.store.Entries(g.ctx, g.queue.ID, queue.EntryPage{Take: 100})
		return err
	}}
	lists = deed{"the list of all", true, func(g *grown) error {
		q := g.queue
		q.Turn = -1 - int64(g.done) // not one that is remembered
		_, err := g.store.Listed(g.ctx, q)
		return err
	}}
	ended = deed{"the last 20 that ended", false, func(g *grown) error {
		_, err := g.store.Ended(g.ctx, g.queue.ID, 20)
		return err
	}}
	tallies = deed{"the health of a day", false, func(g *grown) error {
		_, err := g.store.Tallies(g.ctx, g.queue.ID, time.Now().Add(-24*time.Hour), time.Now(), false)
		return err
	}}
	receives = deed{"one webhook", false, func(g *grown) error {
		_, err := g.store.Receive(g.ctx, fmt.Sprint("growth-", g.n, "-", g.done), demoHost, 77, []queue.Fact{queue.CheckReported{Commit: fmt.Sprint("c", g.done)}}, nil)
		return err
	}}
	wakes      = deed{"when the next is due", false, func(g *grown) error { _, err := g.store.NextWake(g.ctx); return err }}
	authorizes = deed{"a token, and a queue by its name", false, func(g *grown) error {
		if _, err := g.store.Token(g.ctx, g.token, time.Now()); err != nil {
			return err
		}
		_, err := g.store.FindQueue(g.ctx, g.org.ID, demoHost, demoOrg, "app", "main")
		return err
	}}
	watches = deed{"what open pages hear of, at most once a second", true, func(g *grown) error { _, err := g.store.Turns(g.ctx); return err }}
	listens = deed{"where comments are looked for, every five minutes", true, func(g *grown) error { _, err := g.store.Listening(g.ctx); return err }}
)

// growths are the respects in which an installation grows.
var growths = []struct {
	name  string
	sizes []int
	grow  string // SQL that adds $1 more after $2
	deeds []deed
}{
	{"pull requests that wait in one queue", []int{1000, 10_000, 100_000}, copyEntry(1, `'state', 'pending', 'admitted_at', e.admitted_at + make_interval(secs => n)`),
		[]deed{decides, readsOne, stands, pages, lists}},
	{"pull requests that have ended in one queue", []int{10_000, 100_000, 1_000_000}, copyEntry(1, `'state', 'cancelled', 'reason', 'PR_CLOSED', 'state_changed_at', e.state_changed_at - make_interval(secs => n)`),
		[]deed{decides, readsOne, pages, ended, tallies}},
	{"repositories with a queue", []int{1000, 10_000, 100_000}, `
		WITH more AS (
			INSERT INTO repositories SELECT x.* FROM repositories r, generate_series($2::int + 1, $2::int + $1::int) n,
				LATERAL jsonb_populate_record(r, jsonb_build_object('id', 1000 + n, 'name', 'repo' || n, 'host_id', 1000000 + n)) x WHERE r.name = 'app' RETURNING id)
		INSERT INTO queues SELECT x.* FROM more, queues q, LATERAL jsonb_populate_record(q, jsonb_build_object('id', more.id, 'key', gen_random_uuid(), 'repository_id', more.id,
			'wake_at', CASE WHEN more.id % 10 = 0 THEN now() + interval '1 day' END)) x WHERE q.id < 1000`,
		[]deed{decides, receives, wakes, authorizes, watches, listens}},
}

// copyEntry adds $1 copies of the entry of a pull request, which is alone in having
// that number, from $2 + 2 on; changes are fields and what they become.
func copyEntry(pr int, changes string) string {
	return `INSERT INTO entries SELECT r.* FROM entries e CROSS JOIN generate_series($2::int + 2, $2::int + $1::int + 1) n
		CROSS JOIN LATERAL jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid(), 'pr', n, 'title', 'Change the ' || n || 'th thing',
			'head', lpad(to_hex(n), 40, '0'), 'bound_head', lpad(to_hex(n), 40, '0'), ` + changes + `)) r WHERE e.pr = ` + strconv.Itoa(pr)
}

// BenchmarkGrowth measures what deeds cost, in processor time of this program
// and of Postgres, when an installation is a hundred times as large, and with
// what power of the size that grows: 0 is not at all, 1 in proportion.
func BenchmarkGrowth(b *testing.B) {
	dbtest.Durable(b)
	for _, growth := range growths {
		g := newGrown(b)
		m := benchtest.New(b, g.store.SQL())
		costs := map[string][][2]float64{}
		for _, size := range growth.sizes {
			_, err := g.store.SQL().ExecContext(g.ctx, growth.grow, size-g.n, g.n)
			demand(b)(err)
			g.n = size
			_, err = g.store.SQL().ExecContext(g.ctx, `VACUUM ANALYZE`)
			demand(b)(err)
			for _, deed := range growth.deeds {
				costs[deed.name] = append(costs[deed.name], [2]float64{float64(size), g.cost(deed)})
			}
		}
		m.End()
		drawing := plot{title: "Cost by the number of " + growth.name, x: growth.name, y: "processor ms of one", steep: true}
		for _, deed := range growth.deeds {
			at := costs[deed.name]
			most := 0.3
			if deed.listed {
				most = 0
			}
			m.Judge(benchtest.Figure{ID: "n", Measure: deed.name + ", by " + growth.name, Got: exponent(at), Must: most, Calib: milliseconds(at) + " ms of processor"})
			drawing.lines = append(drawing.lines, plotLine{name: fmt.Sprintf("%s (n^%.2f)", deed.name, exponent(at)), at: at, strong: !deed.listed})
		}
		if folder := os.Getenv(plotsVariable); folder != "" {
			name := "growth-" + strings.ReplaceAll(growth.name, " ", "-") + ".svg"
			demand(b)(os.WriteFile(filepath.Join(folder, name), []byte(drawing.svg()), 0o644))
		}
	}
	b.ReportMetric(0, "ns/op")
}

func newGrown(b *testing.B) *grown {
	b.Helper()
	g := &grown{b: b, ctx: b.Context(), store: dbtest.New(b), token: account.Hash("growth")}
	must := demand(b)
	must(g.store.Connect(g.ctx, account.Connection{
		Installation: account.Installation{ID: 5, Host: demoHost, Account: demoOrg},
		Added:        []account.Repository{{Host: demoHost, Owner: demoOrg, Name: "app", HostID: 77, DefaultBranch: "main"}},
	}))
	var err error
	g.org, err = g.store.CreateOrganization(g.ctx, demoOrg)
	must(err)
	_, err = g.store.CreateToken(g.ctx, g.org, "growth", account.Admin, g.token, time.Time{})
	must(err)
	settings := queue.DefaultSettings()
	settings.RequiredStatuses = []string{"ci"}
	g.queue, err = g.store.CreateQueue(g.ctx, g.org.ID, demoHost, demoOrg, "app", "main", settings, time.Now())
	must(err)
	// One that waits. The queue is paused, so that nobody asks for its test.
	_, _, err = g.store.UpdateDue(g.ctx, time.Now(), func(s *queue.Snapshot, _ []queue.Received, now time.Time) queue.Plan {
		p := queue.Plan{Queue: s.Queue, Line: s.Line, Parts: s.Parts}
		p.Queue.State = queue.Paused
		p.Entries = []queue.Entry{{
			ID: "00000000-0000-4000-8000-000000000001", Submission: 1, State: queue.Pending, Reason: queue.NowReady, Via: queue.ViaUser, Priority: queue.Medium,
			PullRequest:  queue.PullRequest{Number: 1, Title: "The first", Head: strings.Repeat("1", 40), Base: "main", Open: true},
			Mergeability: queue.Mergeable, SubmittedAt: now, AdmittedAt: now, StateChangedAt: now, Version: 1, BoundHead: strings.Repeat("1", 40),
		}}
		return p
	})
	must(err)
	return g
}

// cost is the processor time in milliseconds of doing something once.
func (g *grown) cost(d deed) float64 {
	g.b.Helper()
	postgres := benchtest.Postmaster(g.b, g.store.SQL())
	once := func() {
		g.done++
		if err := d.do(g); err != nil {
			g.b.Fatalf("%s: %v", d.name, err)
		}
	}
	for range 5 { // statements are prepared, pages are read
		once()
	}
	n, before := 0, benchtest.Spent(os.Getpid(), postgres)
	for began := time.Now(); n < 10 || time.Since(began) < time.Second; n++ {
		once()
	}
	return benchtest.Milliseconds(benchtest.Spent(os.Getpid(), postgres)-before) / float64(n)
}

// exponent is the power of the size with which a cost grows: the slope of a line
// through the logarithms.
func exponent(at [][2]float64) float64 {
	var x, y, xx, xy float64
	for _, p := range at {
		lx, ly := math.Log(p[0]), math.Log(max(p[1], 1e-3))
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(at))
	return (n*xy - x*y) / (n*xx - x*x)
}

func milliseconds(at [][2]float64) string {
	var texts []string
	for _, p := range at {
		texts = append(texts, benchtest.Number(p[1]))
	}
	return strings.Join(texts, ", ")
}
