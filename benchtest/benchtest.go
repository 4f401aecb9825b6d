// Package benchtest is what the benchmarks of the whole service share: what the
// machine can do in the same run, what other programs took of it meanwhile, and
// a verdict on each figure. Tests alone use it.
//
// Figures of a machine that does other work say little. So each measurement
// calibrates first, and one that fails its must while others took more than a
// twentieth of the processors is "not shown" rather than "missed".
//
// With SIGNALBOX_BENCH_TABLE every verdict is also appended to the file of that
// name, one line each: make bench prints them as one table.
package benchtest

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tableVariable names the file that verdicts are appended to.
const tableVariable = "SIGNALBOX_BENCH_TABLE"

// tooBusy is the share of the processors that others may use before a figure
// that misses its must says nothing.
const tooBusy = 0.05

// Meter watches one measurement.
type Meter struct {
	b testing.TB
	// Commits is how many single rows one client commits in a second, one after
	// the other; Inserts how many 32 clients do.
	Commits, Inserts float64
	// Foreign is the share of the processors that other programs used, from
	// Begin to End.
	Foreign float64
	// Took is the time from Begin to End.
	Took time.Duration

	roots       []int
	began       time.Time
	busy, spent time.Duration
}

// disk lets the first Meter of a program say how fast the disk is. No figure is
// related to it: commits are calibrated with each.
var disk sync.Once

// New calibrates, which takes about two seconds, and makes a Meter. With a nil
// pool there is no Postgres: nothing is inserted.
func New(b testing.TB, pool *sql.DB) *Meter {
	b.Helper()
	m := &Meter{b: b, roots: []int{os.Getpid()}}
	disk.Do(func() { b.Logf("8 KiB reach the disk %s times a second", Number(Syncs(b))) })
	if pool != nil {
		m.roots = append(m.roots, Postmaster(b, pool))
		m.Commits, m.Inserts = Inserts(b, pool, 1), Inserts(b, pool, 32)
	}
	m.Begin()
	return m
}

// Begin starts the measurement, or starts it again.
func (m *Meter) Begin() {
	m.began, m.busy, m.spent = time.Now(), Busy(), Spent(m.roots...)
}

// End ends it: Foreign and Took are known.
func (m *Meter) End() {
	m.Took = time.Since(m.began)
	others := Busy() - m.busy - (Spent(m.roots...) - m.spent)
	m.Foreign = max(0, float64(others)/float64(m.Took)/float64(runtime.NumCPU()))
}

// Figure is something measured and what it has to be.
type Figure struct {
	ID, Measure string
	Got         float64
	Unit        string
	// Must and Goal bound Got: from above, or with AtLeast from below. Zero is
	// none: a figure without either is there to be compared with others.
	Must, Goal float64
	AtLeast    bool
	// Calib relates Got to the calibration of the same run, in words.
	Calib string
}

// Judge gives the verdict on a figure of the measurement that has ended, and
// reports whether the must is met.
func (m *Meter) Judge(f Figure) bool {
	m.b.Helper()
	against := func(bound float64) (text string, met bool) {
		switch {
		case bound == 0:
			return "-", false
		case f.AtLeast:
			return "≥ " + Number(bound) + f.Unit, f.Got >= bound
		}
		return "≤ " + Number(bound) + f.Unit, f.Got <= bound
	}
	r := Row{ID: f.ID, Measure: f.Measure, Result: Number(f.Got) + f.Unit, Calib: f.Calib, Foreign: m.Foreign}
	r.Must, r.Met = against(f.Must)
	r.Goal, r.Best = against(f.Goal)
	r.Print(m.b)
	return r.Met
}

// Row is a line of the table: a figure in words.
type Row struct {
	ID, Measure, Must, Goal, Result, Calib string
	Foreign                                float64 // see Meter
	Met, Best                              bool    // the must is met, the goal is
}

// verdict is the last column.
func (r Row) verdict() string {
	switch {
	case r.Best:
		return "goal met"
	case r.Met:
		return "must met"
	case r.Must == "-" && r.Goal == "-":
		return "-"
	case r.Foreign > tooBusy:
		return "not shown, because others used the processors too"
	case r.Must == "-":
		return "goal missed"
	}
	return "missed"
}

// Print logs the row, and adds it to the table when there is one.
func (r Row) Print(b testing.TB) {
	b.Helper()
	line := fmt.Sprintf("| %-3s | %-66s | %-12s | %-12s | %-16s | %-34s | %3.0f %% | %s |", r.ID, r.Measure, r.Must, r.Goal, r.Result, r.Calib, r.Foreign*100, r.verdict())
	b.Log(line)
	path := os.Getenv(tableVariable)
	if path == "" {
		return
	}
	table, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(table, line)
		table.Close()
	}
	if err != nil {
		b.Errorf("add to the table: %v", err)
	}
}

// Number is a figure for people: three digits, and thousands apart.
func Number(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Milliseconds is a duration as a figure.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Quantile sorts and returns the duration below which a share of all lie; 0 of
// none.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// Syncs is how often in a second 8 KiB can be written and reach the disk, one
// after the other, in the folder of temporary files.
func Syncs(b testing.TB) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte{1}, 8<<10)
	began, n := time.Now(), 0
	for ; time.Since(began) < time.Second/2; n++ {
		if _, err := f.WriteAt(block, 0); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// Inserts is how many single rows so many clients commit in a second, each one
// after the other.
func Inserts(b testing.TB, pool *sql.DB, clients int) float64 {
	b.Helper()
	exec := func(statement string) {
		if _, err := pool.Exec(statement); err != nil {
			b.Fatal(err)
		}
	}
	exec(`CREATE TABLE calibration (id bigserial PRIMARY KEY, filler text NOT NULL)`)
	defer exec(`DROP TABLE calibration`)
	var all sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(began) < time.Second {
				if _, err := pool.Exec(`INSERT INTO calibration (filler) VALUES (repeat('x', $1))`, 84); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// Postmaster is the process that a Postgres on this machine began with; 0 when
// the system does not tell.
func Postmaster(b testing.TB, pool *sql.DB) int {
	b.Helper()
	var backend int
	if err := pool.QueryRow(`SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		b.Fatal(err)
	}
	return readProcess(strconv.Itoa(backend)).parent
}

// process is what the system says of a process.
type process struct {
	parent int
	spent  time.Duration // by itself, and by those that it has waited for
}

// readProcess is zero for a process that is not there.
func readProcess(pid string) (p process) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	p.parent, _ = strconv.Atoi(fields[1])
	for _, ticks := range fields[11:15] { // user, system, and both of the children
		n, _ := strconv.ParseInt(ticks, 10, 64)
		p.spent += time.Duration(n) * time.Second / 100
	}
	return p
}

// Spent is the processor time that processes have used so far, together with
// all that they have started; zero where the system does not tell.
func Spent(roots ...int) (total time.Duration) {
	all := map[int]process{}
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		if pid, err := strconv.Atoi(name.Name()); err == nil {
			all[pid] = readProcess(name.Name())
		}
	}
	for pid, p := range all {
		for at := pid; at > 1; at = all[at].parent {
			if slices.Contains(roots, at) {
				total += p.spent
				break
			}
		}
	}
	return total
}

// Busy is the processor time that all programs of the machine have used so far,
// what a hypervisor took away included; zero where the system does not tell.
func Busy() time.Duration {
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
