package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/engine"
)

// The benchmarks send requests over real connections to the API on a Postgres
// that commits durably, with the engine that decides and with the lines of the
// log being made. Generator, server, engine and Postgres share the machine.
//
//	go test ./rest -run '^$' -bench 'B6|B7' -benchtime 1x    the goals: at a fixed rate
//	go test ./rest -run '^$' -bench Each -benchtime 1x       eight or 64 clients, one request after the other
//
// At a fixed rate each answer is counted from the moment at which its request
// was due: a server that falls behind cannot hide it. See report for what is
// printed.

var (
	b6Must = aim{id: "B6", rate: 500, p99: 25 * time.Millisecond}
	b6Goal = aim{id: "B6", goal: true, rate: 5000, p99: 5 * time.Millisecond}
	b7Must = aim{id: "B7", rate: 1000, p99: 50 * time.Millisecond}
	b7Goal = aim{id: "B7", goal: true, rate: 2500, p99: 25 * time.Millisecond}
)

// B6: queues of which a hundred pull requests are listed, while ten thousand
// are queued.
func BenchmarkB6GetQueue(b *testing.B) {
	met := true
	for _, aim := range []aim{b6Must, b6Goal} {
		b.Run(aim.name(), func(b *testing.B) {
			skipUnless(b, met)
			s := newService(b)
			s.hundredQueues()
			met = s.drive(aim, s.getQueue)
		})
	}
}

// The same while a decision on one of them is made twenty times a second, so
// that lists change.
func BenchmarkB6GetQueueThatChanges(b *testing.B) {
	s := newService(b)
	s.hundredQueues()
	queues, err := s.store.ListQueues(b.Context())
	s.must(err)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			q := queues[i%len(queues)]
			if err := s.store.Append(ctx, q.Repo.ID, q.ID, queue.ResyncEnded{}); err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
			time.Sleep(time.Second / 20)
		}
	}()
	s.drive(b6Must, s.getQueue)
}

// B7: submissions, each answered after a decision that has it was committed.
func BenchmarkB7Submit(b *testing.B) {
	for _, queues := range []int{1, 10} {
		met := true
		for _, aim := range []aim{b7Must, b7Goal} {
			b.Run(fmt.Sprintf("%s to %d queues", aim.name(), queues), func(b *testing.B) {
				skipUnless(b, met)
				s := newService(b)
				met = s.drive(aim, s.submitTo(queues))
			})
		}
	}
}

// Each client sends its next request when its last was answered.
func BenchmarkEach(b *testing.B) {
	b.Run("getQueue of 100", func(b *testing.B) {
		s := newService(b)
		s.hundredQueues()
		s.each(64, 10_000, s.getQueue)
	})
	b.Run("getQueue of 10000", func(b *testing.B) { // megabytes
		s := newService(b)
		s.tenThousand()
		s.each(8, 50, func(int) (int64, error) { return s.post("/v1/getQueue", "{"+at("main")+"}") })
	})
	b.Run("getSubmittedPullRequest of 10000", func(b *testing.B) {
		s := newService(b)
		s.tenThousand()
		s.each(8, 500, func(i int) (int64, error) {
			return s.post("/v1/getSubmittedPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at("main"), i+1))
		})
	})
	b.Run("listPullRequests 100 of 10000", func(b *testing.B) {
		s := newService(b)
		s.tenThousand()
		s.each(8, 100, func(int) (int64, error) { return s.post("/v1/listPullRequests", "{"+at("main")+`,"take":100}`) })
	})
	b.Run("submitPullRequest", func(b *testing.B) {
		s := newService(b)
		s.each(64, 10_000, s.submitTo(1))
	})
}

// skipUnless leaves out a goal when its must was not met: where less is too
// much already, requests only pile up.
func skipUnless(b *testing.B, met bool) {
	b.Helper()
	if !met {
		b.Skip("not tried: the must was not met")
	}
}

// getQueue asks for one of a hundred queues.
func (s *service) getQueue(i int) (int64, error) {
	return s.post("/v1/getQueue", "{"+at(fmt.Sprintf("release-%d", i%100))+"}")
}

// submitTo makes queues and returns what submits a new pull request to one of
// them.
func (s *service) submitTo(queues int) func(i int) (int64, error) {
	s.b.Helper()
	for i := range queues {
		_, err := s.post("/v1/createQueue", "{"+at(fmt.Sprintf("release-%d", i))+"}")
		s.must(err)
	}
	submit := func(i int) (int64, error) {
		return s.post("/v1/submitPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at(fmt.Sprintf("release-%d", i%queues)), i/queues+1))
	}
	// A queue in use, whose statistics Postgres has: it gathers them by itself,
	// but not within the first minute of an empty table.
	const before = 1000
	for i := range before {
		_, err := submit(i)
		s.must(err)
	}
	_, err := s.store.SQL().Exec(`ANALYZE`)
	s.must(err)
	return func(i int) (int64, error) { return submit(before + i) }
}

// hundredQueues makes a hundred queues of a hundred each.
func (s *service) hundredQueues() {
	s.b.Helper()
	for i := range 100 {
		s.fill(fmt.Sprintf("release-%d", i), 100)
	}
	s.settle()
}

// tenThousand makes a queue of ten thousand.
func (s *service) tenThousand() {
	s.b.Helper()
	s.fill("main", 10_000)
	s.settle()
}

// service is the API on Postgres with an engine that decides, and nothing that
// performs: what the host would be asked is not measured here.
type service struct {
	b     *testing.B
	store *db.DB
	url   string
	http  *http.Client
	token string
}

// knowsAll is a host that knows every pull request at once.
type knowsAll struct{ Host }

func (knowsAll) PullRequest(_ context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, error) {
	return queue.PullRequestSeen{Read: true, PullRequest: queue.PullRequest{
		Number: number, Title: fmt.Sprintf("Change the %dth thing", number), URL: fmt.Sprintf("https://%s/pull/%d", repo, number),
		Author: queue.Actor{Login: "ann", ID: 1}, Head: fmt.Sprintf("%040x", number), HeadRef: "topic", Base: "main", Open: true,
		UpdatedAt: time.Now().UTC().Truncate(time.Second),
	}}, nil
}

func newService(b *testing.B) *service {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)) // lines are made, and go nowhere
	dbtest.Durable(b)
	s := &service{b: b, token: "sbx_bench", store: dbtest.New(b, func(c *db.Config) { c.MaxOpen = 20 })}
	org, err := s.store.CreateOrganization(ctx, "acme")
	s.must(err)
	_, err = s.store.CreateToken(ctx, org, "bench", account.Admin, account.Hash(s.token), time.Time{})
	s.must(err)
	s.must(s.store.Connect(ctx, account.Connection{
		Installation: account.Installation{ID: 5, Host: testHost, Account: "acme"},
		Added:        []account.Repository{{Host: testHost, Owner: "acme", Name: "app", HostID: 77, DefaultBranch: "main"}},
	}))
	e, err := engine.New(engine.Config{Store: s.store, Host: struct{ gitprovider.Host }{}, Log: log, Workers: 2})
	s.must(err)
	api := New(Config{Store: s.store, Host: knowsAll{}, IsGone: func(error) bool { return false }, Log: log, RatePerSecond: 1e6, Burst: 1e6})
	server := httptest.NewServer(api)
	s.url = server.URL
	s.http = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 512, MaxConnsPerHost: 512, // more would wait in the server instead
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	b.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return s
}

func (s *service) must(err error) {
	s.b.Helper()
	if err != nil {
		s.b.Fatal(err)
	}
}

// post sends a request and returns the length of the answer.
func (s *service) post(path, body string) (int64, error) {
	r, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Token", s.token)
	got, err := s.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(got.Body)
		return 0, fmt.Errorf("%s: %d %s", path, got.StatusCode, text)
	}
	return io.Copy(io.Discard, got.Body)
}

func at(branch string) string {
	return fmt.Sprintf(`"repo":{"host":"github.com","owner":"acme","name":"app"},"targetBranch":%q`, branch)
}

// fill gives a queue that many pending pull requests: copies of one that was
// submitted.
func (s *service) fill(branch string, pulls int) {
	s.b.Helper()
	_, err := s.post("/v1/createQueue", "{"+at(branch)+"}")
	s.must(err)
	_, err = s.post("/v1/submitPullRequest", "{"+at(branch)+`,"pr":{"number":1}}`)
	s.must(err)
	_, err = s.store.SQL().Exec(`
		UPDATE entries e SET state = 'pending', reason = 'NOW_READY', mergeability = 'mergeable', admitted_at = submitted_at, refresh_due = NULL
		FROM queues q WHERE q.id = e.queue_id AND q.branch = $1`, branch)
	s.must(err)
	_, err = s.store.SQL().Exec(`
		INSERT INTO entries SELECT r.* FROM entries t JOIN queues q ON q.id = t.queue_id CROSS JOIN generate_series(2, $2::int) n
		CROSS JOIN LATERAL jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid(), 'pr', n, 'title', 'Change the ' || n || 'th thing',
			'head', lpad(to_hex(n), 40, '0'), 'bound_head', lpad(to_hex(n), 40, '0'), 'admitted_at', t.submitted_at + make_interval(secs => n))) r
		WHERE q.branch = $1 AND t.pr = 1`, branch, pulls)
	s.must(err)
}

// settle pauses the queues, so that nothing moves while they are read, and
// lets Postgres know what it holds.
func (s *service) settle() {
	s.b.Helper()
	_, err := s.store.SQL().Exec(`UPDATE queues SET state = 'paused'`)
	s.must(err)
	_, err = s.store.SQL().Exec(`VACUUM ANALYZE`)
	s.must(err)
}
