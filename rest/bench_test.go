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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/engine"
)

// The benchmarks send requests over real connections, at a fixed rate whether
// or not the answers keep up, and count each answer from the moment at which
// its request was due: a server that falls behind cannot hide it. Postgres
// commits durably (fsync and synchronous_commit on). The generator, the
// server, the engine and Postgres share the machine.
//
//	go test ./rest -run xxx -bench 'Reads|Submit' -benchtime 1x
//
// commits/s is a calibration in the same run: single rows inserted and
// committed durably by 32 clients. cpu-ms/req is the time that processors spent
// on a request, in this program (the generator included) and in Postgres: unlike
// all others it says something on a machine that is busy with other things,
// where Each, eight clients that wait for each answer, is the one to run.

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
	quiet := slog.New(slog.DiscardHandler)
	s := &service{b: b, token: "sbx_bench", store: dbtest.New(b, func(c *db.Config) { c.MaxOpen = 20 })}
	org, err := s.store.CreateOrganization(ctx, "acme")
	s.must(err)
	_, err = s.store.CreateToken(ctx, org, "bench", account.Admin, account.Hash(s.token), time.Time{})
	s.must(err)
	s.must(s.store.Connect(ctx, account.Connection{
		Installation: account.Installation{ID: 5, Host: testHost, Account: "acme"},
		Added:        []account.Repository{{Host: testHost, Owner: "acme", Name: "app", HostID: 77, DefaultBranch: "main"}},
	}))
	e, err := engine.New(engine.Config{Store: s.store, Host: struct{ gitprovider.Host }{}, Log: quiet, Workers: 2})
	s.must(err)
	api := New(Config{Store: s.store, Host: knowsAll{}, IsGone: func(error) bool { return false }, Log: quiet, RatePerSecond: -1})
	server := httptest.NewServer(api)
	s.url = server.URL
	s.http = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 512, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
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

// calibrate measures durable commits of single rows by 32 clients.
func (s *service) calibrate() float64 {
	s.b.Helper()
	_, err := s.store.SQL().Exec(`CREATE TABLE IF NOT EXISTS calibration (id bigserial PRIMARY KEY, filler text NOT NULL)`)
	s.must(err)
	var commits atomic.Int64
	const lasts = 3 * time.Second
	end := time.Now().Add(lasts)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := s.store.SQL().Exec(`INSERT INTO calibration (filler) VALUES (repeat('x', 84))`); err != nil {
					s.b.Error(err)
					return
				}
				commits.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(commits.Load()) / lasts.Seconds()
}

// driveFor is how long requests are sent.
const driveFor = 5 * time.Second

// drive sends requests at a rate and reports how long answers took. It does so
// once, whatever b.N is.
func (s *service) drive(perSecond int, send func(i int) (int64, error)) {
	s.b.Helper()
	n := perSecond * int(driveFor/time.Second)
	s.report(n, func(ask func(i int, due time.Time)) {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
			time.Sleep(time.Until(due))
			wg.Go(func() { ask(i, due) })
		}
		wg.Wait()
	}, send)
}

// each sends n requests by eight clients, each when its last was answered.
func (s *service) each(n int, send func(i int) (int64, error)) {
	s.b.Helper()
	s.report(n, func(ask func(i int, due time.Time)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					ask(i, time.Now())
				}
			})
		}
		wg.Wait()
	}, send)
}

// report has n requests sent and reports how it went.
func (s *service) report(n int, sendAll func(ask func(i int, due time.Time)), send func(i int) (int64, error)) {
	b := s.b
	b.Helper()
	commits := s.calibrate()
	took := make([]time.Duration, n)
	var size atomic.Int64
	var first sync.Once
	processors := s.processors()
	b.ResetTimer()
	began := time.Now()
	sendAll(func(i int, due time.Time) {
		length, err := send(i)
		if err != nil {
			first.Do(func() { b.Errorf("the first of the errors: %v", err) })
		}
		size.Add(length)
		took[i] = time.Since(due)
	})
	lasted := time.Since(began)
	b.StopTimer()
	spent := s.processors() - processors
	slices.Sort(took)
	quantile := func(q float64) float64 {
		return float64(took[min(len(took)-1, int(q*float64(len(took))))]) / float64(time.Millisecond)
	}
	b.ReportMetric(quantile(0.5), "p50-ms")
	b.ReportMetric(quantile(0.99), "p99-ms")
	b.ReportMetric(float64(n)/lasted.Seconds(), "req/s")
	b.ReportMetric(float64(spent)/float64(n)/float64(time.Millisecond), "cpu-ms/req")
	b.ReportMetric(float64(size.Load())/float64(n)/1024, "KiB/answer")
	b.ReportMetric(commits, "commits/s")
	b.ReportMetric(0, "ns/op") // of no meaning at a fixed rate
}

// processors is the processor time that this program and its Postgres have
// spent so far; zero where the system does not tell.
func (s *service) processors() time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0
	}
	spent := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	var backend int
	s.must(s.store.SQL().QueryRow(`SELECT pg_backend_pid()`).Scan(&backend))
	_, postmaster := processor(strconv.Itoa(backend))
	all, _ := os.ReadDir("/proc")
	for _, process := range all {
		if ticks, parent := processor(process.Name()); parent != "" && parent == postmaster {
			spent += time.Duration(ticks) * time.Second / 100
		}
	}
	return spent
}

// processor is the processor time of a process, in hundredths of a second,
// and its parent.
func processor(pid string) (ticks int64, parent string) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system, fields[1]
}

// B6: a hundred listed, while ten thousand are queued.
func BenchmarkReadsGetQueueOf100(b *testing.B) {
	s := newService(b)
	for i := range 100 {
		s.fill(fmt.Sprintf("release-%d", i), 100)
	}
	s.settle()
	s.drive(500, func(i int) (int64, error) {
		return s.post("/v1/getQueue", "{"+at(fmt.Sprintf("release-%d", i%100))+"}")
	})
}

// B6: a page of a hundred out of one queue of ten thousand.
func BenchmarkReadsListOf100Of10000(b *testing.B) {
	s := newService(b)
	s.fill("main", 10_000)
	s.settle()
	s.drive(50, func(int) (int64, error) { return s.post("/v1/listPullRequests", "{"+at("main")+`,"take":100}`) })
}

// One pull request out of ten thousand.
func BenchmarkReadsOneOf10000(b *testing.B) {
	s := newService(b)
	s.fill("main", 10_000)
	s.settle()
	s.drive(500, func(i int) (int64, error) {
		return s.post("/v1/getSubmittedPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at("main"), i%10_000+1))
	})
}

// The same reads, and submissions, one after the other.
func BenchmarkEach(b *testing.B) {
	b.Run("getQueue of 100", func(b *testing.B) {
		s := newService(b)
		for i := range 100 {
			s.fill(fmt.Sprintf("release-%d", i), 100)
		}
		s.settle()
		s.each(1000, func(i int) (int64, error) {
			return s.post("/v1/getQueue", "{"+at(fmt.Sprintf("release-%d", i%100))+"}")
		})
	})
	b.Run("one of 10000", func(b *testing.B) {
		s := newService(b)
		s.fill("main", 10_000)
		s.settle()
		s.each(500, func(i int) (int64, error) {
			return s.post("/v1/getSubmittedPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at("main"), i+1))
		})
	})
	b.Run("page of 100 of 10000", func(b *testing.B) {
		s := newService(b)
		s.fill("main", 10_000)
		s.settle()
		s.each(100, func(int) (int64, error) { return s.post("/v1/listPullRequests", "{"+at("main")+`,"take":100}`) })
	})
	b.Run("submit", func(b *testing.B) {
		s := newService(b)
		_, err := s.post("/v1/createQueue", "{"+at("main")+"}")
		s.must(err)
		s.each(1000, func(i int) (int64, error) {
			return s.post("/v1/submitPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at("main"), i+1))
		})
	})
}

// The whole of a queue of ten thousand: megabytes.
func BenchmarkReadsGetQueueOf10000(b *testing.B) {
	s := newService(b)
	s.fill("main", 10_000)
	s.settle()
	s.drive(5, func(int) (int64, error) { return s.post("/v1/getQueue", "{"+at("main")+"}") })
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

// submitRate is how many pull requests are submitted in a second.
const submitRate = 1000

// B7: submissions, each answered after a decision that has it was committed.
func BenchmarkSubmitToOneQueue(b *testing.B)  { benchmarkSubmit(b, 1) }
func BenchmarkSubmitToTenQueues(b *testing.B) { benchmarkSubmit(b, 10) }

func benchmarkSubmit(b *testing.B, queues int) {
	s := newService(b)
	for i := range queues {
		_, err := s.post("/v1/createQueue", "{"+at(fmt.Sprintf("release-%d", i))+"}")
		s.must(err)
	}
	_, err := s.store.SQL().Exec(`ANALYZE`)
	s.must(err)
	s.drive(submitRate, func(i int) (int64, error) {
		return s.post("/v1/submitPullRequest", fmt.Sprintf(`{%s,"pr":{"number":%d}}`, at(fmt.Sprintf("release-%d", i%queues)), i/queues+1))
	})
}
