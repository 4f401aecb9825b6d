package rest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// aim is what has to be reached: so many requests a second, 99 of a hundred
// answered within p99.
type aim struct {
	id   string
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
	verdict, met := "met", got.perSecond >= 0.98*float64(a.rate) && got.p99 <= a.p99
	switch {
	case !met && got.foreign > 0.05:
		verdict = "not shown, because others used the processors too"
	case !met:
		verdict = "missed"
	}
	s.b.Logf("%s: %d/s with p99 within %v. Result: %.0f/s with p99 %v, %.0f %% of the processors used by others: %s",
		a.id, a.rate, a.p99, got.perSecond, got.p99.Round(100*time.Microsecond), got.foreign*100, verdict)
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
	processors, busy := s.processors(), busyProcessors()
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
	foreign := float64(busyProcessors()-busy-spent) / float64(lasted) / float64(runtime.NumCPU())
	slices.Sort(took)
	quantile := func(q float64) time.Duration { return took[min(len(took)-1, int(q*float64(len(took))))] }
	milliseconds := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	cost := spent / time.Duration(n)
	out := outcome{float64(n) / lasted.Seconds(), quantile(0.99), max(0, foreign)}
	b.ReportMetric(milliseconds(quantile(0.5)), "p50-ms")
	b.ReportMetric(milliseconds(out.p99), "p99-ms")
	b.ReportMetric(out.perSecond, "req/s")
	b.ReportMetric(milliseconds(cost), "cpu-ms/req")
	b.ReportMetric(milliseconds(insertCost), "calib-cpu-ms")
	b.ReportMetric(float64(cost)/float64(insertCost), "x-calib")
	b.ReportMetric(inserts, "calib/s")
	b.ReportMetric(s.syncs(), "fsync/s")
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

// syncs is how often in a second 8 KiB can be written and synchronized, one
// after the other, in the folder of temporary files.
func (s *service) syncs() float64 {
	s.b.Helper()
	f, err := os.Create(filepath.Join(s.b.TempDir(), "sync"))
	s.must(err)
	defer f.Close()
	block := bytes.Repeat([]byte{1}, 8<<10)
	began, n := time.Now(), 0
	for ; time.Since(began) < time.Second/2; n++ {
		_, err := f.WriteAt(block, 0)
		s.must(err)
		s.must(f.Sync())
	}
	return float64(n) / time.Since(began).Seconds()
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

// busyProcessors is the processor time that all programs of the machine have
// used so far, what a hypervisor took away included; zero where the system does
// not tell.
func busyProcessors() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, field := range strings.Fields(line) { // cpu user nice system idle iowait irq softirq steal …
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != 4 && i != 5 && i <= 8 {
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100
}
