//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/api"
	"signalbox/db"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "break real processes for so long, then see that nothing is lost; see make chaos")
	chaosSeed = flag.Uint64("chaos-seed", 0, "what is broken and when, and what people do; 0 takes one from the clock")
)

// calmLimit is for how long nothing may end although nothing breaks any more:
// longer than the deadline after which a vanished job is asked for again.
const calmLimit = 15 * time.Minute

// crowd is how many pull requests of one queue are under way before people wait
// with new ones: what ends in the calm shall not depend on how fast the machine is.
const crowd = 40

// TestChaos runs three copies of the server on one Postgres that commits
// durably, and a simulated GitHub with real git, each connected through networks
// of its own. People open, merge, push to, cancel and close pull requests in two
// queues, one that lands exactly in batches and one with lanes that the host
// merges, both of them adaptive where the seed is odd, while servers and Postgres
// are killed, networks cut and hung, mirrors deleted and damaged, and disks full.
// Then all calms down, and the checker looks.
//
// A seed plays the same breakages and deeds again. When they meet what the
// servers are doing is left to the machine, so a failure may take a few runs to
// come back.
func TestChaos(t *testing.T) {
	if *chaosFor == 0 {
		t.Skip("breaks things for minutes: make chaos")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: -chaos-seed %d breaks the same things at the same times", seed, seed)
	c := newChaos(t, seed)
	people, gone := context.WithTimeout(c.ctx, *chaosFor)
	defer gone()
	var done sync.WaitGroup
	for _, q := range c.queues {
		done.Go(func() { q.people(people) })
	}
	c.breakThings(people)
	done.Wait()
	for _, q := range c.queues {
		if q.err != nil {
			t.Fatal(q.err)
		}
	}
	c.calm()
	c.check()
	t.Log(c.figures())
}

// chaos is everything that runs.
type chaos struct {
	t      *testing.T
	ctx    context.Context
	seed   uint64
	dice   *rand.Rand // of what breaks
	pg     *ownPostgres
	sim    *githubsim.Server
	copies []*copyOf
	hooks  *proxy // webhooks and people's requests reach any copy
	queues []*chaosQueue
	broke  map[string]int
	calmed time.Duration
	token  string
}

// chaosDatabase is the database of all copies.
const chaosDatabase = "chaos"

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *chaosFor+6*calmLimit) // ends what hangs; see calm
	t.Cleanup(cancel)
	folder := sharedDir(t)
	c := &chaos{t: t, ctx: ctx, seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), broke: map[string]int{}}
	c.pg = newPostgres(t, filepath.Join(folder, "pg"), chaosDatabase)
	var err error
	if c.sim, err = githubsim.Start(context.Background(), githubsim.Config{DataDir: filepath.Join(folder, "github"), Seed: int64(seed >> 1), DeliveryWorkers: 4, KeepDeliveries: 100_000}, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.sim.Close)
	c.hooks = newProxy(t, c.anyCopy)
	for i := range 3 {
		c.copies = append(c.copies, c.newCopy(filepath.Join(folder, fmt.Sprint("copy", i))))
	}
	c.copies[0].start() // it migrates
	c.copies[0].await()
	c.sim.SetWebhook("http://"+c.hooks.address()+"/webhook", childSecret)
	store := c.open()
	defer store.Close()
	if _, c.token, err = createToken(ctx, store, demoOrg, "chaos", account.Admin, time.Time{}); err != nil {
		t.Fatal(err)
	}
	speculation := [...]string{"fixed", "adaptive"}[seed%2]
	c.queues = []*chaosQueue{
		c.newQueue("app", map[string]any{"mergeMethod": "merge_commit", "landingMode": "exact", "concurrency": 3, "batch": true, "batchingMinSize": 3,
			"batchingMaxWaitTimeMinutes": 1, "canOptimisticallyMerge": true, "pendingFailureDepth": 1, "bisectionConcurrency": 2, "speculation": speculation}),
		c.newQueue("lib", map[string]any{"mergeMethod": "squash", "landingMode": "host", "concurrency": 5, "mode": "parallel", "speculation": speculation}),
	}
	for _, k := range c.copies[1:] {
		k.start()
		k.await()
	}
	return c
}

// open opens the database past all networks.
func (c *chaos) open() *db.DB { return c.pg.open(chaosDatabase) }

// anyCopy reaches a copy that runs, as a load balancer does.
func (c *chaos) anyCopy() (conn net.Conn, err error) {
	for i := range c.copies {
		k := c.copies[(int(time.Now().UnixNano()/1000)+i)%len(c.copies)]
		if conn, err = net.Dial("tcp", k.address); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// client calls the API of any copy.
func (c *chaos) client(name string) *api.Queue {
	return newClient(whereabouts{API: "http://" + c.hooks.address() + "/v1", Org: demoOrg, Host: demoHost}, c.token, name)
}

// figures say what happened.
func (c *chaos) figures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of breaking things, and calm %s later: ", *chaosFor, c.calmed.Round(time.Second))
	for _, what := range slices.Sorted(maps.Keys(c.broke)) {
		fmt.Fprintf(&b, "%d × %s, ", c.broke[what], what)
	}
	starts := 0
	for _, k := range c.copies {
		starts += k.starts
	}
	fmt.Fprintf(&b, "%d starts of a server. Their logs tell of", starts)
	for _, felt := range []struct{ what, line string }{
		{"a full disk", `(?i)no space left on device|file too large|quota exceeded`},
		{"a mirror thrown away because it was damaged or gone", `rebuild mirror`},
		{"a mirror fetched anew", `made mirror`},
		{"a job tried again", `failed and will be tried again`},
		{"a database that is not there", `(?i)connection refused|bad connection|shutting down|unexpected EOF|the database system`},
	} {
		n := 0
		for _, k := range c.copies {
			n += k.log.count(regexp.MustCompile(felt.line))
		}
		fmt.Fprintf(&b, " %s: %d lines;", felt.what, n)
	}
	for _, q := range c.queues {
		fmt.Fprintf(&b, "\n%s: %s", q.name, q.figures)
	}
	return b.String()
}

// newQueue makes a repository and its queue.
func (c *chaos) newQueue(name string, settings map[string]any) *chaosQueue {
	c.t.Helper()
	q := &chaosQueue{c: c, name: name, lanes: settings["mode"] == "parallel", dice: rand.New(rand.NewPCG(c.seed, uint64(len(c.queues)+2+len(name)*int(name[0])))), pulls: map[int]*chaosPull{}, foreign: map[string]bool{}}
	if err := c.sim.CreateRepo(c.ctx, githubsim.NewRepo{
		Owner: demoOrg, Name: name, Creator: "alice", Checks: demoChecks, CI: githubsim.CI{MinSeconds: 0.3, MaxSeconds: 2},
		Files: filesOf(map[string]string{"shared.txt": "0\n"}),
	}); err != nil {
		c.t.Fatal(err)
	}
	settings["requiredStatuses"] = demoChecks
	q.client = c.client(name)
	if err := persist(c.ctx, func() error { return q.client.Call(c.ctx, "createQueue", settings, nil) }); err != nil {
		c.t.Fatal(err)
	}
	store := c.open()
	defer store.Close()
	var err error
	if q.queue, err = queueOf(c.ctx, store, q.repo(), "main"); err != nil {
		c.t.Fatal(err)
	}
	return q
}

// chaosQueue is one queue and what people do to it.
type chaosQueue struct {
	c       *chaos
	name    string
	lanes   bool
	dice    *rand.Rand
	client  *api.Queue
	queue   queue.Queue
	pulls   map[int]*chaosPull
	paused  int             // how often it has paused itself
	waiting int             // pull requests that are under way, when somebody last looked
	foreign map[string]bool // commits that people pushed straight to main
	err     error
	figures string
}

func (q *chaosQueue) repo() string { return demoOrg + "/" + q.name }

// chaosPull is a pull request that somebody wants merged.
type chaosPull struct {
	author string
	branch string
	path   string // a file that it alone adds
	// harmless: it changes files of its own alone, and nobody does anything to
	// it but merge it: it must land.
	harmless bool
}

// people do things until ctx ends.
func (q *chaosQueue) people(ctx context.Context) {
	for n := 1; ; n++ {
		wait := time.Duration(500+q.dice.IntN(2500)) * time.Millisecond
		for wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			if wait = 0; q.waiting >= crowd {
				wait = time.Second
				_ = q.look(ctx) // who reaches nobody looks again
			}
		}
		if q.err = q.deed(ctx, n); q.err != nil && ctx.Err() == nil {
			return
		}
		q.err = nil
	}
}

// deed opens a pull request and asks for it to be merged; sometimes somebody does
// something to one that is there.
func (q *chaosQueue) deed(ctx context.Context, n int) error {
	if err := q.contribute(ctx, n); err != nil {
		return err
	}
	if err := q.look(ctx); err != nil {
		return err
	}
	if q.dice.IntN(12) == 0 { // past the queue, and harmless
		sha, err := q.c.sim.Push(ctx, githubsim.Push{Repo: q.repo(), Branch: "main", Message: "Past the queue", Author: "alice",
			Files: filesOf(map[string]string{fmt.Sprintf("past/%d", n): "\n"})})
		if err != nil {
			return err
		}
		q.foreign[sha] = true
	}
	pr := 1 + q.dice.IntN(max(len(q.pulls), 1))
	p := q.pulls[pr]
	what := q.dice.IntN(10)
	if p == nil || what > 3 {
		return nil
	}
	p.harmless = false
	switch what {
	case 0:
		_, err := q.c.sim.Comment(q.repo(), pr, p.author, "/cancel")
		return err
	case 1:
		_, err := q.c.sim.Push(ctx, githubsim.Push{Repo: q.repo(), Branch: p.branch, Message: "More", Author: p.author,
			Files: filesOf(map[string]string{fmt.Sprintf("more/%d", n): "\n"})})
		return err
	case 2:
		_ = q.c.sim.ClosePull(q.repo(), pr, p.author) // it may have landed just now
		return nil
	default:
		_, err := q.c.sim.Comment(q.repo(), pr, p.author, "/merge")
		return err
	}
}

// look sets a queue running again that has paused itself: GitHub has merged on top
// of what somebody pushed at the same moment, and the queue has said so.
func (q *chaosQueue) look(ctx context.Context) error {
	var known struct {
		State    string     `json:"state"`
		UnderWay []struct{} `json:"enqueuedPullRequests"`
	}
	err := q.client.Call(ctx, "getQueue", nil, &known)
	if err == nil {
		q.waiting = len(known.UnderWay)
	}
	if err == nil && known.State == "paused" {
		q.paused++
		err = q.client.Call(ctx, "updateQueue", map[string]any{"state": "running"}, nil)
	}
	if err != nil && ctx.Err() == nil {
		return nil //nolint:nilerr // nobody reaches the servers now; somebody looks again soon
	}
	return err
}

// contribute opens a pull request: most are harmless; some fail, conflict, or
// break together with another one of their lane.
func (q *chaosQueue) contribute(ctx context.Context, n int) error {
	author := people[q.dice.IntN(len(people))]
	lane := q.dice.IntN(3)
	path := fmt.Sprintf("lane%d/%d", lane, n)
	files := map[string]string{path: author + "\n"}
	p := &chaosPull{author: author, path: path, harmless: true}
	switch kind := q.dice.IntN(10); {
	case kind == 0:
		files[fmt.Sprintf(".ci-sim/%s/%d", demoChecks[q.dice.IntN(2)], n)] = ""
		p.harmless = false
	case kind == 1:
		files["shared.txt"] = fmt.Sprint(n, "\n")
		p.harmless = false
	case kind == 2 && n > 3: // breaks together with whatever is in its lane's mark
		files[fmt.Sprintf(".ci-sim/test/%d", n)] = fmt.Sprintf("mark/%d\n%s\n", lane, path)
		p.harmless = false
	case kind == 3:
		files[fmt.Sprintf("mark/%d", lane)] = "\n"
		p.harmless = false
	}
	p.branch = fmt.Sprintf("%s/%d", author, n)
	opened, err := q.c.sim.OpenPull(ctx, githubsim.OpenPull{Repo: q.repo(), Title: fmt.Sprintf("Change %d", n), Author: author, Branch: p.branch, Files: filesOf(files)})
	if err != nil {
		return err
	}
	if q.lanes {
		targets := []string{fmt.Sprint("lane", lane)}
		if _, shared := files["shared.txt"]; shared {
			targets = []string{"ALL"}
		}
		try, stop := context.WithTimeout(q.c.ctx, calmLimit)
		defer stop()
		if err := persist(try, func() error {
			return q.client.Call(try, "setImpactedTargets", map[string]any{
				"pr": map[string]any{"number": opened.Number, "sha": opened.HeadSHA}, "impactedTargets": targets}, nil)
		}); err != nil {
			return err
		}
	}
	q.pulls[opened.Number] = p
	_, err = q.c.sim.Comment(q.repo(), opened.Number, author, "/merge")
	return err
}
