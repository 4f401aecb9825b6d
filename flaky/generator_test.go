package flaky

import (
	_ "embed"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The generator makes two weeks of a repository's CI of which the truth is
// known: which tests are flaky and how often, what was really broken and when,
// and when the environment was at fault. Only failures are made; whatever else
// ran has passed.

// rates are failures per run of 811 flaky tests, one a line. Others measured
// them by running suites of public projects 10,000 times over and counting how
// often each test failed; testdata/README.md says more.
//
//go:embed testdata/flaky-rates.txt
var rates string

// highestRate: tests that fail more often are repaired at once, so nobody has
// to find them.
const highestRate = 0.06

const (
	worldTests = 10_000
	worldDays  = 14
	worldPush  = 40 // pushes to main a day
	worldPulls = 60 // pull requests a day
)

var worldStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// outage is a time in which part of the tests fail for want of something.
type outage struct {
	from, to time.Time
	tests    []int
	share    float64 // of these tests fail, each time
	print    Fingerprint
}

// breakage is a real bug: these tests fail in every run of the code that has
// it.
type breakage struct {
	from, to int // pushes to main that have it; for a moment: unused
	at, end  time.Time
	tests    []int
	prints   []Fingerprint
}

// push is a commit of main.
type push struct {
	at     time.Time
	number int
}

// simulated is a run with the truth about its failures.
type simulated struct {
	run      Run
	failures []Result
	flaky    []int // tests that failed at random
	real     []int // tests that failed because they are broken
	failed   map[int]Fingerprint
}

type world struct {
	random    *rand.Rand
	ids       []uuid.UUID
	index     map[uuid.UUID]int
	rate      map[int]float64 // of flaky tests
	flakies   []int           // in order
	prints    map[int][]Fingerprint
	ambiguous map[int]bool
	pushes    []push
	outages   []outage
	breaks    []breakage
	runs      []simulated
	nextPrint Fingerprint
	nextRun   int64
}

func newWorld(seed uint64, share float64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 2026)), index: map[uuid.UUID]int{}, rate: map[int]float64{},
		prints: map[int][]Fingerprint{}, ambiguous: map[int]bool{}}
	for i := range worldTests {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(i))
		id := uuid.NewSHA1(uuid.NameSpaceURL, n[:])
		w.ids = append(w.ids, id)
		w.index[id] = i
	}
	w.chooseFlaky(share)
	for _, i := range w.random.Perm(worldTests)[:worldTests/200] {
		w.ambiguous[i] = true // 0.5 % of ids are two tests'
	}
	w.choosePushes()
	w.chooseOutages()
	w.chooseBreaks()
	w.mainRuns()
	w.pullRuns()
	slices.SortStableFunc(w.runs, func(a, b simulated) int { return a.run.At.Compare(b.run.At) })
	return w
}

func (w *world) print() Fingerprint {
	w.nextPrint++
	return fingerprintVersion<<56 | w.nextPrint
}

func (w *world) chooseFlaky(share float64) {
	var measured []float64
	for _, line := range strings.Fields(rates) {
		rate, err := strconv.ParseFloat(line, 64)
		if err != nil {
			panic(err)
		}
		measured = append(measured, rate)
	}
	for _, i := range w.random.Perm(worldTests)[:int(worldTests*share)] {
		rate := 1.0
		for rate > highestRate {
			rate = measured[w.random.IntN(len(measured))]
		}
		w.rate[i] = rate
		w.flakies = append(w.flakies, i)
		for range 1 + w.random.IntN(3) {
			w.prints[i] = append(w.prints[i], w.print())
		}
	}
	slices.Sort(w.flakies)
}

// moments are n times in order, more of them by day than by night.
func (w *world) moments(n int, from, to time.Time) []time.Time {
	var all []time.Time
	for len(all) < n {
		at := from.Add(time.Duration(w.random.Int64N(int64(to.Sub(from)))))
		if h := at.Hour(); (h < 7 || h > 20) && w.random.Float64() < 0.7 {
			continue
		}
		all = append(all, at)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func worldEnd() time.Time { return worldStart.AddDate(0, 0, worldDays) }

func (w *world) choosePushes() {
	for i, at := range w.moments(worldPush*worldDays, worldStart, worldEnd()) {
		w.pushes = append(w.pushes, push{at: at, number: i})
	}
}

// some are n different tests: half of the time neighbours, as a module's are,
// else anywhere.
func (w *world) some(n int) []int {
	if w.random.IntN(2) == 0 {
		return w.random.Perm(worldTests)[:n]
	}
	first := w.random.IntN(worldTests)
	var all []int
	for i := range n {
		all = append(all, (first+i)%worldTests)
	}
	return all
}

// few is how many tests something hits: one most often, up to most.
func (w *world) few(most int) int {
	n := 1
	for n < most && w.random.Float64() < 0.7 {
		n += 1 + n/4
	}
	return min(n, most)
}

// chooseOutages makes half an event of the environment a day: 20 to 90 minutes
// in which some tests, or very many, fail with the same words.
func (w *world) chooseOutages() {
	for range worldDays / 2 {
		at := w.moments(1, worldStart, worldEnd())[0]
		w.outages = append(w.outages, outage{
			from: at, to: at.Add(time.Duration(20+w.random.IntN(70)) * time.Minute),
			tests: w.some(3 + w.random.IntN(600)), share: 0.3 + 0.7*w.random.Float64(), print: w.print(),
		})
	}
}

// chooseBreaks breaks main every other day: by a push, until a later one repairs
// it, or by a moment (a certificate ends) whatever the code.
func (w *world) chooseBreaks() {
	for range worldDays / 2 {
		b := breakage{tests: w.some(w.few(100)), from: -1, to: -1}
		b.prints = w.words(b.tests)
		if w.random.Float64() < 0.7 {
			b.from = w.random.IntN(len(w.pushes))
			b.to = b.from + 1 + w.random.IntN(8)
		} else {
			b.at = w.moments(1, worldStart, worldEnd())[0]
			b.end = b.at.Add(time.Duration(1+w.random.IntN(8)) * time.Hour)
		}
		w.breaks = append(w.breaks, b)
	}
}

// usual are the words that a test has for whatever happens to it, such as the
// message of its time-out.
func usual(test int) Fingerprint { return fingerprintVersion<<56 | 1<<40 | Fingerprint(test) }

// words are what broken tests say: half of the time all the same. A flaky test
// says in one of three what it says when it fails at random, and another one what
// it says to everything.
func (w *world) words(tests []int) []Fingerprint {
	one := w.print()
	same := w.random.IntN(2) == 0
	var all []Fingerprint
	for _, t := range tests {
		switch {
		case len(w.prints[t]) > 0 && w.random.IntN(3) == 0:
			all = append(all, w.prints[t][0])
		case w.random.IntN(3) == 0:
			all = append(all, usual(t))
		case same:
			all = append(all, one)
		default:
			all = append(all, w.print())
		}
	}
	return all
}

// play makes a run of what its code has broken, and of what chance adds, and
// perhaps another attempt of it.
func (w *world) play(r Run, broken []breakage) {
	for attempt := 1; ; attempt++ {
		w.nextRun++
		r.ID, r.Tests, r.Trusted, r.Check = w.nextRun, worldTests, true, "test"
		s := w.once(r, broken)
		w.runs = append(w.runs, s)
		again := 0.6
		if s.run.Failed > massTests {
			again = 0.15
		}
		if s.run.Failed == 0 || attempt == 2 || w.random.Float64() > again {
			return
		}
		r.At = r.At.Add(time.Duration(15+w.random.IntN(30)) * time.Minute)
	}
}

func (w *world) once(r Run, broken []breakage) simulated {
	failed := map[int]Fingerprint{}
	s := simulated{run: r}
	w.environment(r, failed)
	for _, b := range broken {
		for i, t := range b.tests {
			failed[t] = b.prints[i]
			s.real = append(s.real, t)
		}
	}
	for _, t := range w.flakies {
		if _, already := failed[t]; !already && w.random.Float64() < w.rate[t] {
			failed[t] = w.prints[t][min(w.random.IntN(8)/5*w.random.IntN(3), len(w.prints[t])-1)]
			s.flaky = append(s.flaky, t)
		}
	}
	for t, print := range failed {
		s.failures = append(s.failures, Result{Test: w.ids[t], Failed: true, Ambiguous: w.ambiguous[t], Fingerprint: print})
	}
	slices.SortFunc(s.failures, func(a, b Result) int { return slices.Compare(a.Test[:], b.Test[:]) })
	s.run.Failed, s.failed = len(failed), failed
	return s
}

// environment adds what is nobody's fault: outages, and in 1 % of runs a machine
// that fails, and with it everything, many tests or a few.
func (w *world) environment(r Run, failed map[int]Fingerprint) {
	for _, o := range w.outages {
		if r.At.Before(o.from) || r.At.After(o.to) {
			continue
		}
		for _, t := range o.tests {
			if w.random.Float64() < o.share {
				failed[t] = o.print
			}
		}
	}
	if w.random.Float64() > 0.01 {
		return
	}
	n := worldTests
	if w.random.IntN(3) > 0 {
		n = w.few(300)
	}
	print, own := w.print(), w.random.IntN(3) == 0
	for _, t := range w.random.Perm(worldTests)[:n] {
		if own { // tests that time out in different places
			print = usual(t)
		}
		failed[t] = print
	}
}

// onMain are the breaks in the code of a push, and of a moment.
func (w *world) onMain(number int, at time.Time) []breakage {
	var all []breakage
	for _, b := range w.breaks {
		if b.from >= 0 && number >= b.from && number < b.to || b.from < 0 && !at.Before(b.at) && at.Before(b.end) {
			all = append(all, b)
		}
	}
	return all
}

// mainRuns are a queue's run of each push and main's, of the same tree.
func (w *world) mainRuns() {
	for _, p := range w.pushes {
		tree := "main-" + strconv.Itoa(p.number)
		r := Run{At: p.at, Kind: Queue, Branch: "main", Commit: "queue-" + tree, Tree: tree, PullRequests: []int{100_000 + p.number}}
		w.play(r, w.onMain(p.number, r.At))
		r = Run{At: p.at.Add(25 * time.Minute), Kind: Stable, Branch: "main", Commit: tree, Tree: tree}
		w.play(r, w.onMain(p.number, r.At))
	}
}

// pullRuns are pull requests of one to five pushes each; 35 % of them break
// tests in their first pushes.
func (w *world) pullRuns() {
	for number, at := range w.moments(worldPulls*worldDays, worldStart, worldEnd()) {
		pushes := 1 + w.random.IntN(5)
		var own breakage
		until := 0
		if w.random.Float64() < 0.35 {
			own.tests = w.some(w.few(500))
			own.prints = w.words(own.tests)
			until = 1 + w.random.IntN(pushes)
		}
		for i := range pushes {
			base, _ := slices.BinarySearchFunc(w.pushes, at, func(p push, at time.Time) int { return p.at.Compare(at) })
			base = max(base-1-w.random.IntN(3), 0)
			broken := w.onMain(base, at)
			if i < until {
				broken = append(broken, own)
			}
			head := "pull-" + strconv.Itoa(number) + "-" + strconv.Itoa(i)
			w.play(Run{At: at, Kind: PullRequest, Commit: head, Head: head, Base: "main-" + strconv.Itoa(base),
				PullRequests: []int{number + 1}}, broken)
			at = at.Add(time.Duration(30+w.random.IntN(300)) * time.Minute)
		}
	}
}

// figures are what came of a world.
type figures struct {
	called, right      int // tests called flaky at any time, and rightly
	flaky, once, twice int // flaky tests; those that failed; that failed twice or more
	twins              int // flaky tests that share their id
	hit                int // flaky tests that were found
	apart              int // flaky tests that failed on two half days
	failuresAll        int // failures at random
	failuresApart      int // those of tests that failed on two half days
	failures2          int // those of tests that failed twice or more
	covered            int // those of tests that were found
	real               int // failures of broken tests
	masked             int // those that quarantine would have excused
	maskedByTest       int // those of quarantined tests, whatever they said
}

// service does with runs what the service does: it keeps histories only of tests
// that failed, and tells them of passes only while they are watched.
type service struct {
	w        *world
	history  map[uuid.UUID]*History
	watched  map[uuid.UUID]*History
	failures map[uuid.UUID]int
	runs     int
	last     map[string]Arrival // newest run of each line
	same     map[string][]Arrival
	found    map[int]bool
	figures
}

func (w *world) serve() figures {
	s := &service{w: w, history: map[uuid.UUID]*History{}, watched: map[uuid.UUID]*History{}, failures: map[uuid.UUID]int{},
		last: map[string]Arrival{}, same: map[string][]Arrival{}, found: map[int]bool{}}
	for i := range w.runs {
		s.upload(&w.runs[i])
	}
	s.count()
	return s.figures
}

func (s *service) upload(r *simulated) {
	s.mask(r)
	s.runs++
	a := Arrival{Run: r.run, Failures: r.failures, Passed: func(id uuid.UUID) bool {
		t := s.w.index[id]
		_, failed := r.failed[t]
		return !failed && !s.w.ambiguous[t]
	}}
	histories := maps.Clone(s.watched)
	for _, f := range r.failures {
		s.failures[f.Test]++
		if h := s.history[f.Test]; h != nil {
			histories[f.Test] = h
		}
	}
	code := r.run.Tree + "\x00" + r.run.Head + "\x00" + r.run.Base
	for _, o := range s.same[code] {
		for _, f := range o.Failures {
			histories[f.Test] = s.history[f.Test]
		}
	}
	entered := Enter(a, histories, s.same[code], slices.Collect(maps.Values(s.last)))
	s.same[code] = append(s.same[code], a)
	if line := r.run.Line(); line != "" {
		s.last[line] = a
	}
	for _, id := range entered.Touched {
		s.judge(id, histories[id], r.run.At)
	}
}

func (s *service) judge(id uuid.UUID, h *History, now time.Time) {
	if j := h.Judge(now, Tally{Runs: s.runs, Failures: s.failures[id]}); j.Status == Flaky {
		s.found[s.w.index[id]] = true
	}
	s.history[id] = h
	if h.Watched() {
		s.watched[id] = h
	} else {
		delete(s.watched, id)
	}
}

// mask counts the failures of broken tests that would have been excused.
func (s *service) mask(r *simulated) {
	for _, t := range r.real {
		s.real++
		h := s.history[s.w.ids[t]]
		if h == nil {
			continue
		}
		q := Rules{Automatic: true}.Decide(h, Override{}, r.run.At)
		if q.On {
			s.maskedByTest++
		}
		if ok, _ := q.Excuses(h, r.failed[t], r.run.At); ok {
			s.masked++
		}
	}
}

// count compares what was found with the truth. Flaky tests that share their id
// with another test are counted apart: nobody can say which of the two failed.
func (s *service) count() {
	random := map[int][]time.Time{}
	for i := range s.w.runs {
		for _, t := range s.w.runs[i].flaky {
			random[t] = append(random[t], s.w.runs[i].run.At)
		}
	}
	for _, t := range s.w.flakies {
		if s.w.ambiguous[t] {
			s.twins++
			continue
		}
		s.flaky++
		s.failed(random[t], s.found[t])
	}
	s.called = len(s.found)
	for t := range s.found {
		if s.w.rate[t] > 0 {
			s.right++
		}
	}
}

// failed takes in one flaky test by the moments at which it failed, in order.
func (f *figures) failed(at []time.Time, found bool) {
	n := len(at)
	if n > 0 {
		f.once++
	}
	if n > 1 {
		f.twice++
		f.failures2 += n
	}
	if n > 1 && epochOf(at[0]) != epochOf(at[n-1]) {
		f.apart++
		f.failuresApart += n
	}
	f.failuresAll += n
	if found {
		f.hit++
		f.covered += n
	}
}

func (f *figures) add(o figures) {
	f.called += o.called
	f.right += o.right
	f.flaky += o.flaky
	f.twins += o.twins
	f.once += o.once
	f.twice += o.twice
	f.hit += o.hit
	f.apart += o.apart
	f.failuresAll += o.failuresAll
	f.failuresApart += o.failuresApart
	f.failures2 += o.failures2
	f.covered += o.covered
	f.real += o.real
	f.masked += o.masked
	f.maskedByTest += o.maskedByTest
}

// How many repositories the benchmark makes of each kind, and which.
var (
	worlds    = flag.Int("worlds", 3, "how many simulated repositories TestFindsFlakyTestsAndHidesNoBugs has of each kind")
	firstSeed = flag.Int("seed", 1, "number of the first of them")
)

// bound is what a figure must be.
type bound struct {
	name        string
	of          func(figures) (part, whole int)
	least, most float64
}

// bounds are the figures that the benchmark holds. Those without a limit are only
// told: the ceiling is what a rule would find that finds all that failed on two half
// days, and no other rule is allowed to call a test flaky.
func bounds() []bound {
	return []bound{
		{"precision", func(f figures) (int, int) { return f.right, f.called }, 0.98, 1},
		{"recall of those that failed twice", func(f figures) (int, int) { return f.hit, f.twice }, 0.82, 1},
		{"recall of those that failed at all", func(f figures) (int, int) { return f.hit, f.once }, 0, 1},
		{"  its ceiling", func(f figures) (int, int) { return f.apart, f.once }, 0, 1},
		{"covered of those that failed twice", func(f figures) (int, int) { return f.covered, f.failures2 }, 0.995, 1},
		{"covered of all failures", func(f figures) (int, int) { return f.covered, f.failuresAll }, 0, 1},
		{"  its ceiling", func(f figures) (int, int) { return f.failuresApart, f.failuresAll }, 0, 1},
		{"masked without a look at the words", func(f figures) (int, int) { return f.maskedByTest, f.real }, 0, 0.013},
		{"masked", func(f figures) (int, int) { return f.masked, f.real }, 0, 0.013},
	}
}

func (b bound) ratio(f figures) float64 {
	part, whole := b.of(f)
	return float64(part) / float64(whole)
}

// The figures are those of all worlds of a kind together, with the least and the
// greatest of one world. docs/flaky-tests.md says what each of them means and why its
// bound is where it is.
func TestFindsFlakyTestsAndHidesNoBugs(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.02, 0.005} {
		t.Run(fmt.Sprintf("%.1f%% of tests are flaky", 100*share), func(t *testing.T) {
			t.Parallel()
			var f figures
			var each []figures
			for i := range *worlds {
				one := newWorld(uint64(*firstSeed+i), share).serve()
				each = append(each, one)
				f.add(one)
			}
			t.Logf("%d of %d flaky tests failed at all, %d twice or more, %d on two half days; %d have a twin", f.once, f.flaky, f.twice, f.apart, f.twins)
			for _, b := range bounds() {
				var single []float64
				for _, one := range each {
					single = append(single, b.ratio(one))
				}
				got := b.ratio(f)
				t.Logf("%-36s %.4f (%.4f to %.4f)", b.name, got, slices.Min(single), slices.Max(single))
				if !(got >= b.least && got <= b.most) {
					t.Errorf("%s is %.4f, want %.4f to %.4f", b.name, got, b.least, b.most)
				}
			}
		})
	}
}
