package sim

import (
	"container/heap"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// oneLine is a cell of one line with workers enough.
func oneLine(fails float64) Cell {
	return Cell{Name: "line", PerHour: 20, Workers: 100, Fails: fails, Test: fixed20, Changes: 150, Warm: 50}
}

// Workloads are what their cell says, and the same for the same seed.
func TestWorkloadsAreWhatTheirCellSays(t *testing.T) {
	t.Parallel()
	c := Cell{PerHour: 100, Workers: 10, Fails: 0.1, Breaks: 0.02, Overlaps: 2, Roots: 0.01, Test: Length{Minutes: 30, Sigma: 0.3}, Predictor: 0.9, Changes: 8000}
	w := Generate(c, 7)
	if !reflect.DeepEqual(w, Generate(c, 7)) {
		t.Error("the same seed gives another workload")
	}
	if reflect.DeepEqual(w.Changes, Generate(c, 8).Changes) {
		t.Error("another seed gives the same workload")
	}
	bad, overlaps, pairs, breaks, said, saidAndBad := 0, 0, 0, 0, 0, 0
	for i, x := range w.Changes {
		if x.Bad {
			bad++
		}
		if x.Risk > 0.3 {
			said++
			if x.Bad {
				saidAndBad++
			}
		}
		for j := i - 1; j >= 0 && x.At-w.Changes[j].At < branchAge; j-- {
			if !w.overlap(i, j) {
				continue
			}
			pairs++
			if x.At-w.Changes[j].At < 30*time.Minute && !x.All && !w.Changes[j].All {
				overlaps++
			}
		}
		breaks += len(x.breaks)
	}
	n := float64(len(w.Changes))
	near(t, "changes an hour", n/w.Changes[len(w.Changes)-1].At.Hours(), 100, 0.05)
	near(t, "share that fails", float64(bad)/n, 0.1, 0.1)
	near(t, "overlaps during a test", float64(overlaps)/n, 2, 0.15)
	near(t, "share of pairs that break", float64(breaks)/2/float64(pairs), 0.02*0.9*0.9, 0.15)
	near(t, "share of the risky that fail", float64(saidAndBad)/float64(said), w.Changes[slices.IndexFunc(w.Changes, func(x Change) bool { return x.Risk > 0.3 })].Risk, 0.15)
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s: %.4f, want %.4f", what, got, want)
	}
}

// The oracle by hand: two workers, three changes that arrive together, the
// second fails.
func TestOracle(t *testing.T) {
	t.Parallel()
	minutes := func(list ...int) (all []time.Duration) {
		for _, m := range list {
			all = append(all, time.Duration(m)*time.Minute)
		}
		return all
	}
	w := &Workload{Cell: Cell{Workers: 2, Changes: 3}, Changes: []Change{{Test: 30 * time.Minute}, {Test: 10 * time.Minute, Bad: true}, {Test: 10 * time.Minute}}}
	b := w.Bounds()
	if want := minutes(30, 30, 30); !slices.Equal(b.FIFO, want) {
		t.Errorf("O1: %v, want %v", b.FIFO, want)
	}
	if want := minutes(30, 10, 20); !slices.Equal(b.Free, want) {
		t.Errorf("O2: %v, want %v", b.Free, want)
	}
	if b.Merged != 2 || b.Minutes != 25 {
		t.Errorf("O3: %d land at %v minutes each, want 2 at 25", b.Merged, b.Minutes)
	}
	// A third of three fails: 0.918 bits each. Half of a run's cost grows with its batch.
	w.Cell.Fixed = 0.5
	if b := w.Bounds(); math.Abs(b.Runs-0.918) > 0.001 || math.Abs(b.MinutesBatched-(0.5*0.918*25+0.5*20)) > 0.01 {
		t.Errorf("O3 with batches: %v runs, %v minutes", b.Runs, b.MinutesBatched)
	}
	// Each takes up 0.918 of its time: the third begins when the second is that far.
	if b := w.Bounds(); b.Batched[0] != 30*time.Minute || b.Batched[1] != 10*time.Minute || b.Batched[2].Round(time.Second) != 19*time.Minute+11*time.Second {
		t.Errorf("O4: %v", b.Batched)
	}
	w.lanes = true // now nobody overlaps anybody
	if b := w.Bounds(); !slices.Equal(b.FIFO, b.Free) {
		t.Errorf("without overlaps O1 is %v, O2 %v", b.FIFO, b.Free)
	}
}

// Two queues of one kind, written apart, come out the same to the second: the
// engine with as many slots as anybody wants, and the policy that tests each
// change on all ahead and throws the first out that fails.
func TestTheEngineIsACumulativeQueue(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		w := Generate(oneLine(0.05), seed)
		ours, err := Play(t.Context(), w, Engine("ours", Fixed(100)))
		if err != nil {
			t.Fatal(err)
		}
		other, err := Play(t.Context(), w, Policy{Name: "cumulative", make: cumulative.policy})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ours.Turnaround, other.Turnaround) || ours.Merged != other.Merged {
			t.Errorf("seed %d: the engine lands %d, median %v; the other %d, median %v", seed,
				ours.Merged, Quantile(ours.Turnaround, .5), other.Merged, Quantile(other.Turnaround, .5))
		}
	}
}

// With nothing that fails, nobody waits for more than his own test.
func TestNothingFails(t *testing.T) {
	t.Parallel()
	w := Generate(oneLine(0), 1)
	for _, p := range Contenders(w.Cell) {
		if !slices.Contains([]string{"optimistic", "zuul", "github-like", "signalbox", "… optimistic, depth 2"}, p.Name) {
			continue // they wait, or build what nobody needs
		}
		r, err := Play(t.Context(), w, p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ratio(.99) != 1 || r.Runs != 1 || r.Rejected != 0 {
			t.Errorf("%s: P99 %.2f of the oracle's, %.2f runs a change, %d rejected", p.Name, r.Ratio(.99), r.Runs, r.Rejected)
		}
	}
}

// cheat is a policy that breaks a rule.
type cheat struct {
	*race
	how   string
	first *trial
}

func (c *cheat) submitted(i int) {
	switch {
	case c.how == "lazy":
	case c.how == "crossed":
		if i == 1 {
			c.test(0, []int{0, 1}, 1)
			c.test(0, []int{1, 0}, 1)
		}
	case c.first == nil:
		c.first = c.test(0, []int{i}, 1)
	case i == 1 && c.how == "untested":
		c.land(c.first, 1)
	case i == 1 && c.how == "too early":
		c.land(c.first, 0)
	}
}

func (c *cheat) ended(t *trial) {
	switch c.how {
	case "twice":
		c.land(t, 0)
		c.reject(0)
	case "beside":
		if len(t.steps) == 1 && t.steps[0] == 0 {
			second, third := c.test(0, []int{1}, 1), c.test(0, []int{2}, 1)
			second.state, third.state = trialPassed, trialPassed
			c.land(second, 1)
			c.land(third, 2)
		}
	}
}
func (c *cheat) decide()           {}
func (c *cheat) eligible(int) bool { return c.how == "lazy" }

// What every policy must keep is held.
func TestWhoBreaksARuleIsCaught(t *testing.T) {
	t.Parallel()
	for how, says := range map[string]string{
		"untested":  "land by a trial that did not pass",
		"too early": "land by a trial that did not pass",
		"twice":     "ends twice",
		"beside":    "was tested without",
		"idle":      "nothing happens any more",
		"lazy":      "100 workers are idle and nothing is ahead of change 0",
		"crossed":   "changes 1 and 0 are tested each on top of the other",
	} {
		_, err := Play(t.Context(), Generate(oneLine(0), 1), Policy{Name: "cheat", make: func(r *race) policy { return &cheat{race: r, how: how} }})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", how, err, says)
		}
	}
}

func TestMeans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{nil, "0.00"},
		{[]float64{2}, "2.00"},
		{[]float64{1, 2, 3}, "2.00±2.48"},
	} {
		if got := fmt.Sprint(MeanOf(tt.values)); got != tt.want {
			t.Errorf("the mean of %v is %s, want %s", tt.values, got, tt.want)
		}
	}
}

// A run that is stopped keeps its worker for a while, and that costs.
func TestWhatIsStoppedEndsLater(t *testing.T) {
	t.Parallel()
	c := oneLine(0)
	c.Abort = time.Minute
	r := newRace(Generate(c, 1), func(r *race) policy { return &cheat{race: r, how: "lazy"} })
	trial := r.test(0, []int{0}, 1)
	r.now = 5 * time.Minute
	r.stop(trial)
	if r.free != 99 || r.spent != 6*time.Minute || r.wasted != 6*time.Minute {
		t.Errorf("stopped after 5 minutes: %d workers free, %s spent", r.free, r.spent)
	}
	for r.events[0].at <= 6*time.Minute {
		r.now = r.events[0].at
		heap.Pop(&r.events).(raceEvent).do()
	}
	if r.free != 100 {
		t.Errorf("a minute later %d workers are free", r.free)
	}
}

// Those with the shortest tests are all that are as short, however few a tenth is.
func TestSmallOnesAreAllThatAreAsShort(t *testing.T) {
	t.Parallel()
	w := &Workload{Cell: Cell{Workers: 4, Warm: 1}, Changes: make([]Change, 21)}
	for i := range w.Changes {
		w.Changes[i].Test = time.Duration(1+i%2) * time.Hour
	}
	p := newRace(w, oneByOne.policy)
	for i := range p.endings {
		p.endings[i].at = time.Duration(i) * time.Minute
	}
	small := p.small()
	if len(small) != 10 || small[0] != 2*time.Minute || small[9] != 20*time.Minute {
		t.Errorf("%v", small)
	}
}

// A short change lands before the long one ahead of it once it passed with and without
// it, and the long one lands on top of it without being tested again.
func TestBypass(t *testing.T) {
	t.Parallel()
	w := &Workload{Cell: Cell{Workers: 4, Changes: 2}, Changes: []Change{{Test: 60 * time.Minute}, {At: time.Minute, Test: 5 * time.Minute}}}
	for _, tt := range []struct {
		bad         bool
		first, last time.Duration
		landed      int
	}{
		{false, 60 * time.Minute, 5 * time.Minute, 2},
		{true, 60 * time.Minute, 59 * time.Minute, 1}, // it passed only without: it waits
	} {
		w.Changes[0].Bad = tt.bad
		r, err := Play(t.Context(), w, Policy{make: submitQueue2024.policy})
		if err != nil {
			t.Fatal(err)
		}
		if r.Turnaround[1] != tt.first || r.Turnaround[0] != tt.last || r.Merged != tt.landed || r.Runs != 1.5 {
			t.Errorf("bad %v: %v, %d land, %v runs each", tt.bad, r.Turnaround, r.Merged, r.Runs)
		}
	}
}

// A batch with one culprit, in the trunk-like policy: it is searched on main, the
// others land in the next batch.
func TestTrunkLikeSearchesBeside(t *testing.T) {
	t.Parallel()
	w := &Workload{Cell: Cell{Workers: 8, Changes: 4}, Changes: []Change{{Test: 20 * time.Minute}, {Test: 20 * time.Minute, Bad: true}, {Test: 20 * time.Minute}, {Test: 20 * time.Minute}}}
	r, err := Play(t.Context(), w, Policy{make: trunkLike.policy})
	if err != nil {
		t.Fatal(err)
	}
	// All four; halves; the third and fourth again, and the first half's two; the first.
	if r.Merged != 3 || r.FalselyRejected != 0 || r.Runs != 1.75 {
		t.Errorf("%d land, %v runs each, %v", r.Merged, r.Runs, r.Turnaround)
	}
}

// Every policy keeps the rules that are held while it plays, with few workers, late
// hands and all that can fail; and without flakes nobody is wronged.
func TestEveryPolicyKeepsTheRules(t *testing.T) {
	t.Parallel()
	one := Cell{PerHour: 60, Workers: 5, Fails: 0.1, Breaks: 5e-4, Predictor: 0.9, Test: wide27, Delay: 5 * time.Second, Abort: time.Minute, Changes: 60}
	lanes := one
	lanes.Breaks, lanes.Overlaps, lanes.Roots = 0.02, 2, 0.02
	flaky := lanes
	flaky.Flakes, flaky.Test = 0.1, twoKinds
	for n, c := range []Cell{one, lanes, flaky} {
		c.Name = fmt.Sprintf("cell %d", n)
		for seed := uint64(1); seed <= 2; seed++ {
			w := Generate(c, seed)
			for _, p := range Contenders(c) {
				r, err := Play(t.Context(), w, p)
				if err != nil {
					t.Error(err)
				}
				if r.WronglyLanded > 0 || r.FalselyRejected > 0 && c.Flakes == 0 {
					t.Errorf("%s on %s, seed %d: %d landed wrongly, %d were thrown out wrongly", p.Name, c.Name, seed, r.WronglyLanded, r.FalselyRejected)
				}
			}
		}
	}
}
