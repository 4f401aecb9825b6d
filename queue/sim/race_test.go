package sim

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is a cell of one line with workers enough.
func line(fails float64) Cell {
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
	b := w.Bounds(16)
	if want := minutes(30, 30, 30); !slices.Equal(b.FIFO, want) {
		t.Errorf("O1: %v, want %v", b.FIFO, want)
	}
	if want := minutes(30, 10, 20); !slices.Equal(b.Free, want) {
		t.Errorf("O2: %v, want %v", b.Free, want)
	}
	if b.Merged != 2 || b.Minutes != 25 {
		t.Errorf("O3: %d land at %v minutes each, want 2 at 25", b.Merged, b.Minutes)
	}
	w.lanes = true // now nobody overlaps anybody
	if b := w.Bounds(16); !slices.Equal(b.FIFO, b.Free) {
		t.Errorf("without overlaps O1 is %v, O2 %v", b.FIFO, b.Free)
	}
}

// Two queues of one kind, written apart, come out the same to the second: the
// engine with as many slots as anybody wants, and the policy that tests each
// change on all ahead and throws the first out that fails.
func TestTheEngineIsACumulativeQueue(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		w := Generate(line(0.05), seed)
		ours, err := Play(t.Context(), w, Engine("ours", Fixed(100)))
		if err != nil {
			t.Fatal(err)
		}
		other, err := Play(t.Context(), w, Policy{Name: "cumulative", make: cumulative})
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
	w := Generate(line(0), 1)
	for _, p := range Contenders(w.Cell) {
		if p.Name == "single" || p.Name == "halving 8" || strings.Contains(p.Name, "batches") || p.Name == "speculate" {
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
func (c *cheat) decide() {}

// What every policy must keep is held.
func TestWhoBreaksARuleIsCaught(t *testing.T) {
	t.Parallel()
	for how, says := range map[string]string{
		"untested":  "land by a trial that did not pass",
		"too early": "land by a trial that did not pass",
		"twice":     "ends twice",
		"beside":    "was tested without",
		"idle":      "nothing happens any more",
	} {
		_, err := Play(t.Context(), Generate(line(0), 1), Policy{Name: "cheat", make: func(r *race) policy { return &cheat{race: r, how: how} }})
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
