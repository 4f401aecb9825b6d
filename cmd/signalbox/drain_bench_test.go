//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"

	"signalbox/api"
	"signalbox/benchtest"
	"signalbox/db"
	"signalbox/gitprovider/githubsim"
)

// How fast the whole service lands pull requests when CI takes no time, for
// docs/benchmarks.md: the server as serve runs it, a durable Postgres, and a
// simulated GitHub with real git, its webhooks included, all in one program on
// one machine. What is measured has no knob of its own: settings are those of an
// operator.

// BenchmarkB10Drain has pull requests wait in a paused queue, lets it run, and
// counts until the last of them has landed.
func BenchmarkB10Drain(b *testing.B) {
	for _, how := range []struct {
		name  string
		pulls int
		queue map[string]any
		must  float64 // PR/s
	}{
		{"one by one", 40, map[string]any{"concurrency": 1}, 0},
		{"20 at once", 120, map[string]any{"concurrency": 20}, 0},
		{"20 at once, no drafts", 120, map[string]any{"concurrency": 20, "createPrsForTestingBranches": false}, 0},
		{"4 batches of 16, no drafts", 192, map[string]any{"concurrency": 4, "batch": true, "batchingMinSize": 16, "createPrsForTestingBranches": false}, 20},
	} {
		b.Run(how.name, func(b *testing.B) {
			for range b.N {
				d := newDrain(b, how.queue)
				d.set("paused")
				d.open(1, how.pulls)
				d.submit(1, how.pulls)
				d.must(awaitMergeable(d.ctx, d.store.SQL(), how.pulls))
				d.measured(how.pulls, func() {
					d.set("running")
					d.must(awaitMerged(d.ctx, d.store.SQL(), how.pulls))
				})
				d.landed(how.pulls)
				d.meter.Judge(benchtest.Figure{ID: "B10", Measure: "drain, " + how.name, Got: d.perSecond, Unit: "/s", Must: how.must, Goal: how.must * 5, AtLeast: true, Calib: d.cost})
			}
		})
	}
}

// BenchmarkB10OneASecond submits a pull request every second: how long each takes
// from the submission until it has landed.
func BenchmarkB10OneASecond(b *testing.B) {
	const pulls = 20
	for range b.N {
		d := newDrain(b, map[string]any{"concurrency": 20})
		d.open(1, pulls)
		d.measured(pulls, func() {
			for n := range pulls {
				d.submit(n+1, n+1)
				time.Sleep(time.Second)
			}
			d.must(awaitMerged(d.ctx, d.store.SQL(), pulls))
		})
		d.landed(pulls)
		judge(d.meter, d.took, benchtest.Figure{ID: "B10", Measure: "one submitted each second, until it has landed, %s", Calib: d.cost}, bound{"p50", 0.5, 1000, 150}, bound{"p99", 0.99, 0, 500})
	}
}

// drain is a service with one queue.
type drain struct {
	b      *testing.B
	ctx    context.Context
	stage  *stage
	client *api.Queue
	store  *db.DB
	must   func(...error)

	// Of what was measured.
	meter     *benchtest.Meter
	perSecond float64
	took      []time.Duration // from submission to landing
	cost      string
}

func newDrain(b *testing.B, queue map[string]any) *drain {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	b.Cleanup(cancel)
	d := &drain{b: b, ctx: ctx, must: demand(b)}
	var err error
	d.stage, err = setStage(ctx, stageOptions{listen: "127.0.0.1:0", log: slog.New(slog.DiscardHandler), seed: 1, database: filepath.Join(sharedDir(b), "postgres")})
	d.must(err)
	b.Cleanup(func() {
		if err := d.stage.clear(); err != nil {
			b.Error(err)
		}
	})
	d.client = newClient(d.stage.where, d.stage.where.AdminToken, "app")
	d.store, err = db.Open(ctx, db.Config{DSN: d.stage.where.Database, MaxOpen: 40})
	d.must(err)
	b.Cleanup(func() { d.store.Close() })
	d.must(d.stage.sim.CreateRepo(ctx, githubsim.NewRepo{
		Owner: demoOrg, Name: "app", Creator: "alice", Checks: []string{"ci"}, RequiredChecks: []string{"ci"},
		Files: filesOf(map[string]string{"README.md": "hello\n"}),
	}))
	queue["mergeMethod"] = "merge_commit"
	d.must(persist(ctx, func() error { return d.client.Call(ctx, "createQueue", queue, nil) }))
	return d
}

func (d *drain) set(state string) {
	d.must(d.client.Call(d.ctx, "updateQueue", map[string]any{"state": state}, nil))
}

func (d *drain) open(from, to int) {
	for n := from; n <= to; n++ {
		_, err := openChange(d.ctx, d.stage.sim, d.client.Repo(), n)
		d.must(err)
	}
}

// submit submits through the API, eight at a time.
func (d *drain) submit(from, to int) {
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from) - 1)
	for range 8 {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= to; n = int(next.Add(1)) {
				if err := submitPull(d.ctx, d.client, n); err != nil {
					d.b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// measured does something about so many pull requests and reports what it
// cost, beside what this machine can do at that time.
func (d *drain) measured(pulls int, do func()) {
	pushes := d.pushes()
	d.meter = benchtest.New(d.b, d.store.SQL())
	cpu := d.processors()
	d.b.ResetTimer()
	began := time.Now()
	do()
	took := time.Since(began)
	d.b.StopTimer()
	spent := d.processors()
	d.meter.End()
	perPull := func(cost time.Duration) float64 { return benchtest.Milliseconds(cost) / float64(pulls) }
	d.perSecond = float64(pulls) / took.Seconds()
	d.b.ReportMetric(d.perSecond, "PR/s")
	d.b.ReportMetric(perPull(spent.program-cpu.program), "program-ms/PR")
	d.b.ReportMetric(perPull(spent.git-cpu.git), "git-ms/PR")
	d.b.ReportMetric(perPull(spent.postgres-cpu.postgres), "postgres-ms/PR")
	d.b.ReportMetric(d.meter.Commits, "commits/s")
	d.b.ReportMetric(pushes, "pushes/s")
	d.cost = fmt.Sprintf("processor ms for one: %.0f", perPull(spent.program-cpu.program+spent.git-cpu.git+spent.postgres-cpu.postgres))
	d.b.ReportMetric(0, "ns/op")
}

// landed checks that what was measured happened, and reports how long single
// pull requests took.
func (d *drain) landed(pulls int) {
	onceEach(d.b, d.stage.sim, d.client.Repo(), pulls)
	var seconds []float64
	d.must(d.store.SQL().QueryRowContext(d.ctx, `SELECT array_agg(extract(epoch FROM state_changed_at - submitted_at)) FROM entries`).Scan(pq.Array(&seconds)))
	for _, s := range seconds {
		d.took = append(d.took, time.Duration(s*float64(time.Second)))
	}
	d.b.ReportMetric(benchtest.Milliseconds(benchtest.Quantile(d.took, 0.5)), "p50-ms")
	d.b.ReportMetric(benchtest.Milliseconds(benchtest.Quantile(d.took, 0.99)), "p99-ms")
	var jobs float64
	d.must(d.store.SQL().QueryRowContext(d.ctx, `SELECT count(*) FROM river_job`).Scan(&jobs))
	d.b.ReportMetric(jobs/float64(pulls), "jobs/PR")
}

// pushes is how many times a second git pushes a new branch with one commit to
// another repository on this disk, one after the other.
func (d *drain) pushes() float64 {
	dir := d.b.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(d.ctx, "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			d.b.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "--bare", "there")
	git("init", "-q", "here")
	dir = filepath.Join(dir, "here")
	const n = 20
	var took time.Duration
	for i := range n {
		git("commit", "-q", "--allow-empty", "-m", "x")
		began := time.Now()
		git("push", "-q", "../there", fmt.Sprintf("HEAD:refs/heads/b%d", i))
		took += time.Since(began)
	}
	return n / took.Seconds()
}

// spent is processor time.
type spent struct{ program, git, postgres time.Duration }

// processors is what this program (the simulated GitHub is in it), the git
// processes that it started and its Postgres have spent so far.
func (d *drain) processors() spent {
	return spent{program: used(syscall.RUSAGE_SELF), git: used(syscall.RUSAGE_CHILDREN), postgres: benchtest.Spent(benchtest.Postmaster(d.b, d.store.SQL()))}
}
