package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/notify"
	"signalbox/queue"
)

// world is everything that a script talks to: the API on a store, the store's
// queues deciding, a host, and hands that perform what the queues ask for.
type world struct {
	t     *testing.T
	api   *API
	store *faulty
	host  *fakeHost
	clock *testClock
	log   bytes.Buffer
	// during runs while a request is served: the decisions that it waits for.
	during func(func())
	// memory is the store under faulty, nil on Postgres.
	memory *memory

	mu      sync.Mutex
	queues  []queue.Queue // in the order in which they first decided
	runs    []queue.Run   // in the order in which they began, as they are now
	actions []queue.Action
	reports int64
	cursor  string // the newest page token
	address string // where the newest bundle goes, of path and query
	bundle  string // its id
	public  string // what CI of forks sends
	tests   scriptTests
	commits int // of runTests
	// judge sees every request and its answer; nil: nobody does.
	judge func(r *http.Request, body []byte, got *httptest.ResponseRecorder)
}

// scriptStore is a store with the way in for what the host and CI say.
type scriptStore interface {
	Store
	Append(ctx context.Context, repo queue.RepoID, q queue.ID, facts ...queue.Fact) error
}

// faulty is a store that can be told to fail.
type faulty struct {
	scriptStore
	broken  error // what finding a queue ends in
	stopped bool  // nobody decides: wishes wait until their time is over
}

func (f *faulty) FindQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	if f.broken != nil {
		return queue.Queue{}, f.broken
	}
	return f.scriptStore.FindQueue(ctx, org, host, owner, name, branch)
}

func (f *faulty) RecentQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	return f.FindQueue(ctx, org, host, owner, name, branch)
}

func (f *faulty) Wish(ctx context.Context, repo queue.RepoID, q queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error) {
	if f.stopped {
		<-ctx.Done()
		return queue.Answer{}, nil, fmt.Errorf("wait for a decision: %w", ctx.Err())
	}
	return f.scriptStore.Wish(ctx, repo, q, fact)
}

// testClock is a clock that stands until it is moved.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *testClock {
	return &testClock{at: time.Date(2026, 11, 27, 20, 7, 41, 331_999_000, time.UTC)}
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const testHost = "github.com"

// testTokens are the tokens of every world; the name is the secret.
func testTokens(acme, globex account.Organization, now time.Time) []account.Token {
	return []account.Token{
		{Org: acme, Name: "read", Scope: account.Read},
		{Org: acme, Name: "submit", Scope: account.Submit},
		{Org: acme, Name: "admin", Scope: account.Admin},
		{Org: globex, Name: "other", Scope: account.Admin},
		{Org: acme, Name: "expired", Scope: account.Admin, ExpiresAt: now},
		{Org: acme, Name: "revoked", Scope: account.Admin, RevokedAt: now},
	}
}

// newWorld is a world in memory.
func newWorld(t *testing.T, adjust func(*Config)) *world {
	w := &world{t: t, clock: newClock(), during: func(serve func()) { serve() }}
	w.memory = &memory{tokens: map[[32]byte]account.Token{}, now: w.clock.now, decide: w.decide}
	acme := account.Organization{ID: 1, Slug: "acme"}
	tokens := testTokens(acme, account.Organization{ID: 2, Slug: "globex"}, w.clock.now())
	tokens = append(tokens, account.Token{Org: acme, Name: "odd", Scope: "odd"}) // the database has none such
	for i, token := range tokens {
		token.ID = int64(i + 1)
		w.memory.tokens[account.Hash(token.Name)] = token
	}
	w.begin(w.memory, adjust)
	return w
}

// begin makes the host and the API.
func (w *world) begin(store scriptStore, adjust func(*Config)) {
	w.store = &faulty{scriptStore: store}
	if w.tests, _ = store.(scriptTests); w.tests == nil {
		w.tests = newTestMemory(w.clock.now)
	}
	w.host = &fakeHost{pulls: map[int64]queue.PullRequest{}, mergeable: map[int64]queue.Mergeability{}, runs: map[int64]fakeRun{}, installed: map[string]string{"acme/app": "acme"}}
	ids := 0
	told, _ := store.(notify.Store)
	if told == nil {
		told = &subscriberMemory{now: w.clock.now}
	}
	cfg := Config{
		Store: w.store, Tests: w.tests, Subscribers: newTold(w.t, told, w.clock), BaseURL: "https://signalbox.example", TicketURL: "https://tracker.example/browse/{id}", Host: w.host, IsGone: func(err error) bool { return errors.Is(err, errGone) },
		Preview:  w.preview,
		HostName: testHost, AllowedBots: []string{"renovate"}, Version: "1.2.3", Now: w.clock.now, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		NewID: func() string { ids++; return fmt.Sprintf("11111111-1111-4111-8111-%012d", ids) },
	}
	if adjust != nil {
		adjust(&cfg)
	}
	w.api = New(cfg)
}

// preview replays a queue that has a history once its concurrency is above one;
// what more slots would have done depends on their number.
func (w *world) preview(ctx context.Context, q queue.Queue, changed queue.Settings) (queue.Preview, error) {
	if q.Concurrency == 1 {
		return queue.Preview{}, queue.ErrNoHistory
	}
	if changed.Concurrency > 1000 {
		<-ctx.Done()
		return queue.Preview{}, fmt.Errorf("replay: %w", ctx.Err())
	}
	f := queue.Figures{Merged: 35, Failed: 5, P50: 61*time.Minute + 20*time.Second, P95: 2 * time.Hour, P99: 3 * time.Hour, Runs: 1.4567, CIMinutes: 20.04, MostWaiting: 12}
	p := queue.Preview{Since: w.clock.now().AddDate(0, 0, -7), Until: w.clock.now(), Replayed: 40, LeftOut: 2, Happened: f, AsIs: f, Changed: f}
	p.Changed.P50 = time.Hour / time.Duration(changed.Concurrency)
	return p, nil
}

// decide lets the core of the queue decide, and notes what it wants.
func (w *world) decide(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
	plan := queue.Reconcile(s, facts, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.queues, func(q queue.Queue) bool { return q.ID == plan.Queue.ID }) {
		w.queues = append(w.queues, plan.Queue)
	}
	for _, r := range plan.Runs {
		if i := slices.IndexFunc(w.runs, func(o queue.Run) bool { return o.ID == r.ID }); i >= 0 {
			w.runs[i] = r
		} else {
			w.runs = append(w.runs, r)
		}
	}
	w.actions = append(w.actions, plan.Actions...)
	return plan
}

// learn tells a queue facts and has it decide.
func (w *world) learn(id queue.ID, facts ...queue.Fact) {
	var q queue.Queue
	for _, known := range w.queues {
		if known.ID == id {
			q = known
		}
	}
	w.during(func() {
		for _, fact := range facts {
			if err := w.store.Append(context.Background(), q.Repo.ID, q.ID, fact); err != nil {
				w.t.Fatal(err)
			}
		}
	})
}

var runOf = regexp.MustCompile(`\$run(\d+)`)

// runOf is the id of the newest run that tests a pull request: "$run12".
func (w *world) runOf(name string) string {
	number, _ := strconv.ParseInt(name[len("$run"):], 10, 64)
	return string(w.newestRun(number).ID)
}

func (w *world) newestRun(pr int64) queue.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range slices.Backward(w.runs) {
		if slices.ContainsFunc(r.Own(), func(s queue.Step) bool { return s.PR == pr }) {
			return r
		}
	}
	w.t.Fatalf("#%d has no run", pr)
	return queue.Run{}
}

// nameRuns replaces the ids of runs, which are random, by RUN-1, RUN-2 …
func (w *world) nameRuns(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range w.runs {
		text = strings.ReplaceAll(text, string(r.ID), fmt.Sprintf("RUN-%d", i+1))
	}
	for name, random := range map[string]string{"CURSOR": w.cursor, "ADDRESS": w.address, "BUNDLE": w.bundle, "PUBLIC": w.public} {
		if random != "" {
			text = strings.ReplaceAll(text, random, name)
		}
	}
	return text
}

// command moves the world.
func (w *world) command(line string) {
	words := strings.Fields(line)
	args := append(words[1:], "", "", "")
	number, _ := strconv.ParseInt(args[0], 10, 64)
	given := options(line)
	switch words[0] {
	case "pull":
		w.pull(number, given)
	case "see":
		w.pull(number, given)
		w.learn(w.queues[0].ID, queue.PullRequestSeen{PullRequest: w.host.pulls[number], Read: true})
	case "stack": // stack 9 5 6: somebody queues #9 with #5 and #6 beneath it
		w.stack(number, args[1:])
	case "tests":
		w.runTests(words[1:])
	case "run":
		pr, _ := strconv.ParseInt(given["pull"], 10, 64)
		w.host.runs[number] = fakeRun{w.host.pulls[pr].Head, given["live"] == "yes"}
	case "installed":
		w.host.installed[args[0]] = given["by"]
	case "host":
		w.host.down = args[0] == "down"
	case "store":
		w.store.broken = map[string]error{
			"down": errors.New("pq: syntax error at or near \"secret\""),
			"gone": fmt.Errorf("dial unix /run/secret.sock: %w", queue.ErrUnavailable),
		}[args[0]]
	case "decisions":
		w.store.stopped = args[0] == "off"
		w.api.timeout = 20 * time.Second
		if w.store.stopped {
			w.api.timeout = 50 * time.Millisecond // nothing is worth waiting for
		}
	case "work":
		w.work()
	case "land":
		w.land()
	case "check":
		w.check(number, args[1], args[2], given)
	case "advance":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			w.t.Fatal(err)
		}
		w.clock.advance(d)
	default:
		w.t.Fatalf("unknown command %q", line)
	}
}

// pull sets what the host says of a pull request.
func (w *world) pull(number int64, given map[string]string) {
	pr, known := w.host.pulls[number]
	if !known {
		pr = queue.PullRequest{
			Number: number, Title: fmt.Sprintf("Change %d", number), URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number),
			Author: queue.Actor{Login: "ann", ID: 1}, Head: fmt.Sprintf("%040d", number), HeadRef: fmt.Sprintf("change-%d", number), Base: "main", Open: true,
		}
		w.host.mergeable[number] = queue.Mergeable
	}
	pr.UpdatedAt = w.clock.now()
	for name, value := range given {
		switch name {
		case "title":
			pr.Title = value
		case "author":
			pr.Author.Login = value
		case "base":
			pr.Base = value
		case "head":
			pr.Head = value
		case "fork":
			pr.Fork = value == "yes"
		case "state":
			pr.Open, pr.Draft, pr.Merged = value == "open" || value == "draft", value == "draft", value == "merged"
		case "mergeable":
			w.host.mergeable[number] = queue.Mergeability(value)
		default:
			w.t.Fatalf("pull: unknown option %s", name)
		}
	}
	w.host.pulls[number] = pr
}

// stack submits a stack as a comment does.
func (w *world) stack(top int64, beneath []string) {
	f := queue.Submitted{
		PullRequest: w.host.pulls[top], ID: queue.EntryID(w.api.newID()), Via: queue.ViaUser, By: queue.Actor{Login: "ann", ID: 1},
		Priority: queue.Medium, At: w.clock.now(),
	}
	for _, text := range beneath {
		if n, _ := strconv.ParseInt(text, 10, 64); n != 0 {
			f.Stack = append(f.Stack, w.host.pulls[n])
		}
	}
	w.learn(w.queues[0].ID, f)
}

// take removes the first action that is, or is not, a landing.
func (w *world) take(landing bool) queue.Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.actions, func(a queue.Action) bool { return (a.Kind() == "land") == landing })
	if i < 0 {
		return nil
	}
	action := w.actions[i]
	w.actions = slices.Delete(w.actions, i, i+1)
	return action
}

// work performs actions until only landings are left.
func (w *world) work() {
	for action := w.take(false); action != nil; action = w.take(false) {
		w.perform(action)
	}
}

func (w *world) perform(action queue.Action) {
	switch a := action.(type) {
	case queue.ReadTarget:
		w.learn(a.Queue, queue.TargetRead{Commit: strings.Repeat("b", 40), Tree: strings.Repeat("c", 40), Version: a.Version})
	case queue.RefreshPR:
		pr := w.host.pulls[a.PR]
		w.learn(a.Queue, queue.PullRequestSeen{PullRequest: pr, Read: true},
			queue.MergeabilitySeen{PR: a.PR, Head: pr.Head, Value: w.host.mergeable[a.PR], Why: "A review is missing."})
	case queue.RunPreflight:
		w.learn(a.Queue, queue.PreflightSeen{At: w.clock.now(), NoExact: "The App is not exempt.", Findings: []queue.Finding{
			{Check: "branch", Level: queue.LevelOK, Message: "The branch " + a.Branch + " is there."},
			{Check: "required_statuses", Level: queue.LevelProblem, Message: "No status is required.", Action: "Name some."},
		}})
	case queue.BuildRuns:
		for _, r := range a.Runs {
			w.learn(a.Queue, w.built(a, r))
		}
	}
}

// built is what comes of building a run: commits and trees made of numbers.
func (w *world) built(a queue.BuildRuns, r queue.BuildRun) queue.RunBuilt {
	chain := make([]queue.Step, len(r.Chain))
	for i, step := range r.Chain {
		chain[i] = step.Step
		chain[i].Commit = fmt.Sprintf("%040x", 0xabc000+step.PR)
		chain[i].Tree = fmt.Sprintf("%040x", 0xdef000+step.PR)
	}
	required := []queue.Required{{Name: "build"}, {Name: "lint", AppID: 1}, {Name: "lint", AppID: 2}}
	source := queue.FromProtection
	if len(a.RequiredStatuses) > 0 {
		required, source = nil, queue.FromQueue
		for _, name := range a.RequiredStatuses {
			required = append(required, queue.Required{Name: name})
		}
	}
	return queue.RunBuilt{
		Run: r.Run, Base: queue.Base{Commit: strings.Repeat("b", 40), Tree: strings.Repeat("c", 40)},
		Chain: chain, Required: required, RequiredSource: source, At: w.clock.now(),
	}
}

// land performs the landing that was asked for.
func (w *world) land() {
	a, ok := w.take(true).(queue.Land)
	if !ok {
		w.t.Fatal("land: no queue asked for a landing")
	}
	ended := queue.LandingEnded{Landing: a.Landing, At: w.clock.now()}
	for _, s := range a.Steps {
		ended.Landed = append(ended.Landed, queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: s.Commit, Tree: s.Tree})
		ended.Commit, ended.Tree = s.Commit, s.Tree
	}
	w.learn(a.Queue, ended)
	w.work()
}

// check reports on the newest run that tests a pull request.
func (w *world) check(pr int64, name, result string, given map[string]string) {
	w.reports++
	report := queue.Report{
		Kind: queue.CheckRun, Name: name, ID: w.reports, Status: "completed", Result: result,
		URL: "https://ci.example/" + name, At: w.clock.now(),
	}
	if status := given["status"]; status != "" {
		report.Status, report.Result = status, ""
	}
	if given["kind"] == "status" {
		report.Kind, report.Status = queue.CommitStatus, ""
	}
	report.Suite, _ = strconv.ParseInt(given["suite"], 10, 64)
	report.AppID, _ = strconv.ParseInt(given["app"], 10, 64)
	w.learn(w.queues[0].ID, queue.CheckReported{Commit: w.newestRun(pr).Commit, Report: report})
	w.work()
}

// send sends a request.
func (w *world) send(r *http.Request) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	var sent []byte
	if w.judge != nil {
		sent, _ = io.ReadAll(r.Body) // a recorder's body: it cannot fail
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	w.during(func() { w.api.ServeHTTP(got, r) })
	if w.judge != nil {
		w.judge(r, sent, got)
	}
	if got.Header().Get("X-Request-Id") == "" {
		w.t.Errorf("%s: no X-Request-Id", r.URL.Path)
	}
	if kind := got.Header().Get("Content-Type"); kind != typeOf(r.URL.Path, got.Code) {
		w.t.Errorf("%s: Content-Type %q", r.URL.Path, kind)
	}
	return got
}

// typeOf is the content type that an answer must have.
func typeOf(path string, status int) string {
	switch {
	case status == http.StatusOK && path == "/v1/getMergeQueueMetrics":
		return "text/plain; version=0.0.4; charset=utf-8"
	case status == http.StatusOK && path == "/docs/api":
		return "text/html; charset=utf-8"
	}
	return "application/json; charset=utf-8"
}

// post sends a JSON body with a token and returns status, code and message.
func (w *world) post(path, token, body string) (int, string, string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.ReplaceAll(body, "@main", mainQueue)))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("X-Api-Token", token)
	}
	got := w.send(r)
	var answer errorBody
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		w.t.Errorf("%s: %v: %s", path, err, got.Body)
	}
	return got.Code, answer.Error.Code, answer.Error.Message
}
