package rest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/benchtest"
)

// aim is what has to be reached: so many requests a second, 99 of a hundred
// answered within p99.
type aim struct {
	id   string
	goal bool // what is wanted; otherwise what must be
	rate int
	p99  time.Duration
}

func (a aim) name() string { return fmt.Sprintf("%d a second", a.rate) }

// How long requests are sent at a fixed rate, and how long before that count
// for nothing: connections are made then, and statements prepared.
const (
	driveFor  = 5 * time.Second
	warmUpFor = 2 * time.Second
)

// drive sends requests at the rate of an aim and reports how it went. It does
// so once, whatever b.N is. It returns whether the aim was met.
func (s *service) drive(a aim, send func(i int) (int64, error)) bool {
	s.b.Helper()
	warm := a.rate * int(warmUpFor/time.Second)
	n := a.rate * int(driveFor/time.Second)
	s.atRate(warm, a.rate, func(i int, _ time.Time) { _, _ = send(i) })
	got := s.report(n, func(ask func(i int, due time.Time)) { s.atRate(n, a.rate, ask) },
		func(i int) (int64, error) { return send(warm + i) })
	met := got.perSecond >= 0.98*float64(a.rate) && got.p99 <= a.p99
	row := benchtest.Row{
		ID: a.id, Measure: s.b.Name(), Must: fmt.Sprintf("p99 ≤ %v", a.p99), Goal: "-", Foreign: got.foreign, Met: met,
		Result: fmt.Sprintf("%.0f/s %v", got.perSecond, got.p99.Round(100*time.Microsecond)), Calib: fmt.Sprintf("%.1f x processor of an insert", got.ratio),
	}
	if a.goal {
		row.Must, row.Goal, row.Best = row.Goal, row.Must, met
	}
	row.Print(s.b)
	return met
}

// atRate has n requests sent, each when it is due.
func (s *service) atRate(n, perSecond int, ask func(i int, due time.Time)) {
	began := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		wg.Go(func() { ask(i, due) })
	}
	wg.Wait()
}

// each sends n requests by a number of clients, each when its last was
// answered, after a tenth of them that count for nothing.
func (s *service) each(clients, n int, send func(i int) (int64, error)) {
	s.b.Helper()
	all := func(n int, ask func(i int, due time.Time)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					ask(i, time.Now())
				}
			})
		}
		wg.Wait()
	}
	all(n/10, func(i int, _ time.Time) { _, _ = send(i) })
	s.report(n, func(ask func(i int, due time.Time)) { all(n, ask) }, func(i int) (int64, error) { return send(n/10 + i) })
}

// outcome is how a benchmark went.
type outcome struct {
	perSecond float64
	p99       time.Duration
	foreign   float64 // the share of the processors that others used
	ratio     float64 // of the processor time to that of the calibration
}

// report has n requests sent and reports
//
//	p50-ms, p99-ms, req/s   of the answers
//	cpu-ms/req              processor time of one, in this program (the generator included) and in Postgres:
//	                        it can be compared on a machine that is busy with other things
//	calib-cpu-ms, calib/s   the same of an HTTP server that only inserts a row and commits it durably,
//	                        asked by 32 clients in the same run, and how many of those there were in a second
//	x-calib                 the ratio of the two processor times
//	fsync/s             of 8 KiB, one after the other
//	others-%                of the processors, used by other programs meanwhile
func (s *service) report(n int, sendAll func(ask func(i int, due time.Time)), send func(i int) (int64, error)) outcome {
	b := s.b
	b.Helper()
	inserts, insertCost := s.calibrate()
	took := make([]time.Duration, n)
	var size atomic.Int64
	var first sync.Once
	processors, busy := s.processors(), benchtest.Busy()
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
	foreign := float64(benchtest.Busy()-busy-spent) / float64(lasted) / float64(runtime.NumCPU())
	cost := spent / time.Duration(n)
	out := outcome{float64(n) / lasted.Seconds(), benchtest.Quantile(took, 0.99), max(0, foreign), float64(cost) / float64(insertCost)}
	b.ReportMetric(benchtest.Milliseconds(benchtest.Quantile(took, 0.5)), "p50-ms")
	b.ReportMetric(benchtest.Milliseconds(out.p99), "p99-ms")
	b.ReportMetric(out.perSecond, "req/s")
	b.ReportMetric(benchtest.Milliseconds(cost), "cpu-ms/req")
	b.ReportMetric(benchtest.Milliseconds(insertCost), "calib-cpu-ms")
	b.ReportMetric(out.ratio, "x-calib")
	b.ReportMetric(inserts, "calib/s")
	b.ReportMetric(benchtest.Syncs(b), "fsync/s")
	b.ReportMetric(out.foreign*100, "others-%")
	b.ReportMetric(float64(size.Load())/float64(n)/1024, "KiB/answer")
	b.ReportMetric(0, "ns/op") // of no meaning at a fixed rate
	return out
}

// calibrate measures the least that a durable request can be: HTTP, and a
// single row inserted and committed, for 32 clients.
func (s *service) calibrate() (perSecond float64, cost time.Duration) {
	s.b.Helper()
	_, err := s.store.SQL().Exec(`CREATE TABLE IF NOT EXISTS calibration (id bigserial PRIMARY KEY, filler text NOT NULL)`)
	s.must(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.store.SQL().ExecContext(r.Context(), `INSERT INTO calibration (filler) VALUES (repeat('x', $1))`, 84); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	insert := func() bool {
		got, err := s.http.Post(server.URL, "application/json", strings.NewReader("{}"))
		if err == nil {
			_, err = io.Copy(io.Discard, got.Body)
			got.Body.Close()
		}
		if err != nil || got.StatusCode != http.StatusOK {
			s.b.Errorf("calibrate: %v", err)
			return false
		}
		return true
	}
	var inserted atomic.Int64
	const lasts = 2 * time.Second
	before, end := s.processors(), time.Now().Add(lasts)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for time.Now().Before(end) && insert() {
				inserted.Add(1)
			}
		})
	}
	wg.Wait()
	n := max(inserted.Load(), 1)
	return float64(n) / lasts.Seconds(), max(1, (s.processors()-before)/time.Duration(n))
}

// processors is the processor time that this program and its Postgres have
// spent so far; zero where the system does not tell.
func (s *service) processors() time.Duration {
	return benchtest.Spent(os.Getpid(), benchtest.Postmaster(s.b, s.store.SQL()))
}
