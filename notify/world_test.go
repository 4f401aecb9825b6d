package notify

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) { dbtest.Main(m) }

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// handClock stands until it is moved.
type handClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting map[chan time.Time]time.Time
	asked   func() // is called when somebody begins to wait
}

func newHandClock() *handClock {
	// Signatures are judged by the clock on the wall.
	return &handClock{now: time.Now().UTC().Truncate(time.Second), waiting: map[chan time.Time]time.Time{}, asked: func() {}}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ring := make(chan time.Time, 1)
	c.waiting[ring] = c.now.Add(d)
	c.asked()
	return ring
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for ring, at := range c.waiting {
		if !at.After(c.now) {
			ring <- c.now
			delete(c.waiting, ring)
		}
	}
}

// glass is a Box that everybody sees through.
type glass struct{}

func (glass) Seal(_ context.Context, text []byte, about string) ([]byte, error) {
	return append([]byte(about+"\n"), text...), nil
}

func (glass) Open(_ context.Context, sealed []byte, about string) ([]byte, error) {
	text, ok := strings.CutPrefix(string(sealed), about+"\n")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	return []byte(text), nil
}

// links are pages of an installation.
var links = Links{
	Queue: func(r queue.Repo, branch string) string {
		return fmt.Sprintf("https://signalbox.example/q/%s/%s/%s?branch=%s", r.Host, r.Owner, r.Name, branch)
	},
	PullRequest: func(r queue.Repo, branch string, n int64) string {
		return fmt.Sprintf("https://signalbox.example/q/%s/%s/%s/pr/%d?branch=%s", r.Host, r.Owner, r.Name, n, branch)
	},
	Run: func(r queue.Repo, branch string, run queue.RunID) string {
		return fmt.Sprintf("https://signalbox.example/q/%s/%s/%s/run/%s?branch=%s", r.Host, r.Owner, r.Name, run, branch)
	},
}

// here are the addresses of this machine.
var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func newService(t *testing.T, store Store, clock Clock, adjust ...func(*Config)) *Service {
	t.Helper()
	cfg := Config{Store: store, Box: glass{}, Clock: clock, Links: links, Allowed: here, Version: "1.2.3"}
	for _, a := range adjust {
		a(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// troubled is a store that fails as it is told, and knows whether the service has
// anything in hand.
type troubled struct {
	*db.DB
	mu     sync.Mutex
	record func() error // what recording ends in, before anything is written
	rounds atomic.Int64 // under way
	awake  atomic.Bool  // the service looks for a round, or is about to
}

// idle reports whether the service does nothing until its clock moves.
func (s *troubled) idle() bool { return !s.awake.Load() && s.rounds.Load() == 0 }

func (s *troubled) ClaimDeliveries(ctx context.Context, now, until time.Time, wide func(account.Subscriber) int) (account.Sending, bool, error) {
	s.awake.Store(true)
	s.rounds.Add(1)
	round, ok, err := s.DB.ClaimDeliveries(ctx, now, until, wide)
	if !ok {
		s.rounds.Add(-1)
	}
	return round, ok, err
}

// RecordDeliveries ends a round. Then the service looks for the next one.
func (s *troubled) RecordDeliveries(ctx context.Context, round account.Sending, tried []account.Tried, h account.Health, disabled string) error {
	defer func() {
		s.awake.Store(true)
		s.rounds.Add(-1)
	}()
	s.mu.Lock()
	record := s.record
	s.mu.Unlock()
	if record != nil {
		if err := record(); err != nil {
			return err
		}
	}
	return s.DB.RecordDeliveries(ctx, round, tried, h, disabled)
}

// world is a database with a queue, a service that tells subscribers, and a
// receiver that notes what arrives.
type world struct {
	t       *testing.T
	ctx     context.Context
	clock   *handClock
	store   *troubled
	service *Service
	org     account.Organization
	repo    queue.Repo
	other   queue.Repo
	queues  map[queue.RepoID]queue.Queue
	url     string
	stop    func()

	mu      sync.Mutex
	secret  string
	arrived []string // "event number", those that were taken
	ids     []string
	seen    int                                                       // requests, whatever came of them
	answer  func(n int, body string, w http.ResponseWriter) (ok bool) // nil = takes it
	came    chan struct{}
}

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 10 * time.Minute

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, clock: newHandClock(), queues: map[queue.RepoID]queue.Queue{}, came: make(chan struct{}, 1000)}
	w.store = &troubled{DB: dbtest.New(t, func(c *db.Config) { c.Now = w.clock.Now })}
	w.clock.asked = func() { w.store.awake.Store(false) }
	repo := func(name string, id int64) account.Repository {
		return account.Repository{Host: "github.com", Owner: "acme", Name: name, HostID: id, DefaultBranch: "main"}
	}
	w.must(w.store.Connect(ctx, account.Connection{Installation: account.Installation{ID: 5, Host: "github.com", Account: "acme"}, Added: []account.Repository{repo("app", 77), repo("lib", 78)}}))
	var err error
	w.org, err = w.store.CreateOrganization(ctx, "acme")
	w.must(err)
	for name, to := range map[string]*queue.Repo{"app": &w.repo, "lib": &w.other} {
		*to, err = w.store.Repository(ctx, w.org.ID, "github.com", "acme", name)
		w.must(err)
		w.queues[to.ID], err = w.store.CreateQueue(ctx, w.org.ID, "github.com", "acme", name, "main", queue.DefaultSettings(), w.clock.Now())
		w.must(err)
	}
	_, err = w.store.SQL().ExecContext(ctx, `UPDATE queues SET wake_at = NULL, preflight = '{}'`)
	w.must(err)
	server := httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(server.Close)
	w.url = server.URL + "/hooks"
	w.service = newService(t, w.store, w.clock)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// receive is the receiver: it verifies, and notes.
func (w *world) receive(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	defer func() { w.came <- struct{}{} }()
	if w.secret != "" {
		verifier, keyErr := standardwebhooks.NewWebhook(w.secret)
		if err = errors.Join(err, keyErr); err == nil {
			err = verifier.Verify(body, r.Header)
		}
	}
	if err != nil {
		w.t.Errorf("what arrived is not right: %v\n%v\n%s", err, r.Header, body)
	}
	if w.answer != nil && !w.answer(w.seen, string(body), out) {
		return
	}
	w.arrived, w.ids = append(w.arrived, brief(string(body))), append(w.ids, r.Header.Get("webhook-id"))
}

// brief is the type of a message and the number of its pull request.
func brief(body string) string {
	_, kind, _ := strings.Cut(body, `"type":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	_, number, found := strings.Cut(body, `"prNumber":`)
	if !found {
		return kind
	}
	number, _, _ = strings.Cut(number, ",")
	return strings.TrimPrefix(kind, "pull_request.") + " " + number
}

// subscribe makes the receiver a subscriber.
func (w *world) subscribe(events ...string) account.Subscriber {
	w.t.Helper()
	sub, secret, err := w.service.Create(w.ctx, w.org.ID, account.Subscriber{Kind: account.WebhookSubscriber, Name: "receiver", Events: events}, w.url)
	w.must(err)
	w.mu.Lock()
	w.secret = secret
	w.mu.Unlock()
	return sub
}

// happen has pull requests of the queue of a repository move, in one decision.
func (w *world) happen(repo queue.RepoID, moves ...queue.Move) {
	w.t.Helper()
	q := w.queues[repo]
	w.must(w.store.Append(w.ctx, repo, q.ID, queue.ResyncEnded{}))
	_, ok, err := w.store.UpdateDue(w.ctx, w.clock.Now(), func(s *queue.Snapshot, _ []queue.Received, now time.Time) queue.Plan {
		for i := range moves {
			moves[i].At, moves[i].Submission, moves[i].Entry = now, 1, "8f1c0f5e-0000-4000-8000-000000000001"
		}
		return queue.Plan{Queue: s.Queue, Line: s.Line, Parts: s.Parts, Moves: moves}
	})
	w.must(err)
	if !ok {
		w.t.Fatal("the queue was not due")
	}
}

func submit(pr int64) queue.Move {
	return queue.Move{PR: pr, To: queue.NotReady, Reason: queue.SubmittedByUser, Message: "Submitted."}
}

func admit(pr int64) queue.Move {
	return queue.Move{PR: pr, From: queue.NotReady, To: queue.Pending, Reason: queue.NowReady, Message: "Ready."}
}

func start(pr int64) queue.Move {
	return queue.Move{PR: pr, From: queue.Pending, To: queue.Testing, Reason: queue.TestRunStarted, Message: "Testing."}
}

// run lets the service run until stop is called or the test ends.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- w.service.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { w.stop() })
}

// await waits until something is true, looking whenever something came and
// moving the clock a little while the service waits for it: what is in hand may
// take as long as it likes on a slow machine, and is no minute older for that.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	for !is() {
		select {
		case <-w.ctx.Done():
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Fatalf("never: %s; arrived: %q", what, w.arrived)
		case <-w.came:
		case <-time.After(5 * time.Millisecond):
			if w.store.idle() {
				w.clock.advance(100 * time.Millisecond)
			}
		}
	}
}

func (w *world) got() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.arrived)
}

// settled reports whether every delivery to a subscriber has ended.
func (w *world) settled(sub account.Subscriber) bool {
	list, err := w.service.Deliveries(w.ctx, w.org.ID, sub.ID, 0, 100)
	w.must(err)
	return !slices.ContainsFunc(list, func(d account.Delivery) bool { return d.State == account.Waiting })
}

// log are the deliveries to a subscriber in a few words, the oldest first.
func (w *world) log(sub account.Subscriber) []string {
	w.t.Helper()
	list, err := w.service.Deliveries(w.ctx, w.org.ID, sub.ID, 0, 100)
	w.must(err)
	var lines []string
	for _, d := range slices.Backward(list) {
		line := fmt.Sprintf("%s %s %d", d.Type, d.State, len(d.Tries))
		if d.Again {
			line += " again"
		}
		lines = append(lines, line)
	}
	return lines
}
