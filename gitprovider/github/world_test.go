package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/gitprovider/githubsim"
	"signalbox/gitprovider/githubspec"
	"signalbox/queue"
)

// world is a simulated GitHub with the repository acme/app, and a client as
// the service has it.
type world struct {
	*githubsim.Server
	t    *testing.T
	ctx  context.Context
	c    *Client
	cfg  Config
	repo queue.Repo

	mu    sync.Mutex
	calls map[string]int // by endpoint
	turns []int64        // that a landing had, by pull request
	// landing is set while a landing is under way, and held while it has a turn.
	landing, held bool
}

// telling are the calls with which people are told something.
var telling = []string{"POST /graphql mutation", "POST /repos/:/:/issues/:/comments"}

// called counts a call. A landing may tell people nothing without a turn.
func (w *world) called(endpoint string, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[endpoint]++
	if w.landing && !w.held && slices.Contains(telling, endpoint) {
		w.t.Errorf("a landing called %s without a turn", endpoint)
	}
}

// turn is the turn of a landing: it has one at a time.
func (w *world) turn(ctx context.Context, number int64, do func(context.Context) error) error {
	hold := func(held bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if held && w.held {
			w.t.Errorf("waits for the turn on #%d in another turn", number)
		}
		if w.held = held; held {
			w.turns = append(w.turns, number)
		}
	}
	hold(true)
	defer hold(false)
	return do(ctx)
}

var testKey = sync.OnceValue(func() []byte {
	key, err := githubsim.NewAppKey()
	if err != nil {
		panic(err)
	}
	return key
})

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 10 * time.Minute

// newWorld starts one whose CI runs the check "test" when asked by hand only.
func newWorld(t *testing.T, tweak ...func(*githubsim.NewRepo)) *world {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, calls: map[string]int{}}
	var err error
	w.Server, err = githubsim.Start(ctx, githubsim.Config{
		DataDir: t.TempDir(), AppKeyPEM: testKey(), MergeableDelay: time.Millisecond, AppID: 4711,
		Around: githubspec.Calls(githubspec.Valid, func(err error) { t.Error(err) }), MaxFile: 10_000,
	}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Server.Close)
	n := githubsim.NewRepo{Owner: "acme", Name: "app", RequiredChecks: []string{"test"}}
	for _, f := range tweak {
		f(&n)
	}
	w.must(w.CreateRepo(ctx, n))
	w.cfg = Config{
		AppID: 4711, PrivateKey: testKey(), APIURL: w.URL(), DataDir: t.TempDir(), Limits: Unlimited,
		OnCall: w.called,
	}
	w.restart()
	w.repo, err = w.c.Find(ctx, w.c.Host(), "Acme", "APP")
	w.must(err)
	w.repo.ID = 1
	return w
}

// restart makes a client that remembers nothing.
func (w *world) restart() {
	w.t.Helper()
	c, err := New(w.cfg)
	w.must(err)
	w.c = c
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func files(pairs ...string) map[string]*string {
	m := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &pairs[i+1]
	}
	return m
}

// open opens a pull request by alice and returns its step.
func (w *world) open(pairs ...string) queue.StepSpec {
	w.t.Helper()
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "Change " + pairs[0], Author: "alice", Files: files(pairs...)})
	w.must(err)
	return w.stepOf(int64(p.Number))
}

func (w *world) stepOf(number int64) queue.StepSpec {
	w.t.Helper()
	seen, err := w.c.PullRequest(w.ctx, w.repo, number)
	w.must(err)
	return queue.StepSpec{
		Step:  queue.Step{Entry: queue.EntryID(fmt.Sprint("entry-", number)), Submission: 1, PR: number, Head: seen.Head},
		Title: seen.Title, Author: seen.Author, URL: seen.URL,
	}
}

func oneRun(id string, method queue.MergeMethod, own int, chain ...queue.StepSpec) queue.BuildRun {
	return queue.BuildRun{Run: queue.RunID(id), Branch: "signalbox/pr-1/" + id, Target: "main", Method: method, Chain: chain, Own: own}
}

// build builds runs and returns the facts by run.
func (w *world) build(work queue.BuildRuns) map[queue.RunID]queue.Fact {
	w.t.Helper()
	facts, err := w.c.Build(w.ctx, w.repo, work)
	w.must(err)
	by := map[queue.RunID]queue.Fact{}
	for _, f := range facts {
		switch f := f.(type) {
		case queue.RunBuilt:
			by[f.Run] = f
		case queue.RunNotBuilt:
			by[f.Run] = f
		default:
			w.t.Fatalf("%T", f)
		}
	}
	if len(by) != len(work.Runs) {
		w.t.Fatalf("%d facts about %d runs", len(by), len(work.Runs))
	}
	return by
}

// built builds one run, which must come about.
func (w *world) built(run queue.BuildRun) queue.RunBuilt {
	w.t.Helper()
	f := w.build(queue.BuildRuns{Runs: []queue.BuildRun{run}})[run.Run]
	b, ok := f.(queue.RunBuilt)
	if !ok {
		w.t.Fatalf("%+v", f)
	}
	return b
}

// notBuilt builds one run, which must not come about.
func (w *world) notBuilt(work queue.BuildRuns) queue.RunNotBuilt {
	w.t.Helper()
	f := w.build(work)[work.Runs[0].Run]
	b, ok := f.(queue.RunNotBuilt)
	if !ok {
		w.t.Fatalf("%+v", f)
	}
	return b
}

// tested builds the steps as one run, reports the check "test" as passed, and
// returns the landing of all of them.
func (w *world) tested(method queue.MergeMethod, mode queue.LandingMode, steps ...queue.StepSpec) queue.Land {
	w.t.Helper()
	run := oneRun(fmt.Sprintf("run-%d", steps[0].PR), method, len(steps), steps...)
	b := w.built(run)
	land := queue.Land{Landing: 1, Branch: "main", Mode: mode, Method: method, Expect: b.Base.Commit}
	for i, s := range steps {
		s.Step = b.Chain[i]
		land.Steps = append(land.Steps, s)
	}
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: b.Chain[len(b.Chain)-1].Commit, Name: "test", Conclusion: "success"}))
	return land
}

func (w *world) setLanding(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.landing = on
}

func (w *world) land(work queue.Land) (queue.LandingEnded, []queue.PullRequestSeen) {
	w.t.Helper()
	w.setLanding(true)
	defer w.setLanding(false)
	end, seen, err := w.c.Land(w.ctx, w.repo, work, w.turn)
	w.must(err)
	return end, seen
}

// log is main, newest first.
func (w *world) log() []githubsim.Logged {
	w.t.Helper()
	log, err := w.Log(w.ctx, "acme/app", "main")
	w.must(err)
	return log
}

// raw calls the API as the App does and returns the decoded answer.
func (w *world) raw(path string) (out map[string]any, status int) {
	w.t.Helper()
	k, err := w.c.conn(w.repo)
	w.must(err)
	_, err = k.call(w.ctx, http.MethodGet, at(w.repo)+path, nil, &out)
	if err != nil && statusOf(err) == 0 {
		w.t.Fatal(err)
	}
	return out, statusOf(err)
}

func (w *world) branches() string {
	w.t.Helper()
	k, err := w.c.conn(w.repo)
	w.must(err)
	var out []struct{ Name string }
	_, err = k.call(w.ctx, http.MethodGet, at(w.repo, "branches"), nil, &out)
	w.must(err)
	var names []string
	for _, b := range out {
		if strings.HasPrefix(b.Name, "signalbox/") {
			names = append(names, b.Name)
		}
	}
	return strings.Join(names, " ")
}

// eventually polls a condition until it holds or the test's time is up.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.t.Fatalf("waiting for %s: %v", what, w.ctx.Err())
		}
	}
}
