package sim

import (
	"cmp"
	"container/heap"
	"math"
	"time"
)

// Bounds are what no policy of a kind can beat on a workload.
type Bounds struct {
	// FIFO (O1) is the turnaround of each change when its outcome is known
	// beforehand: one run each, on the right base, begun in the order of arrival
	// as soon as a worker is free; it ends when its run and everything before it
	// that it overlaps have ended.
	FIFO []time.Duration
	// Free (O2) is the same without waiting for those before: no policy with one
	// run for each change is faster.
	Free []time.Duration
	// Batched (O4) is its tests and the wait for CI, of which it takes up no more than
	// the part of a run that Runs says: all that a policy with batches need take.
	Batched []time.Duration
	// Merged is how many may land, MergedPerHour how many do between the end of the
	// warm-up and the last arrival, by FIFO.
	Merged        int
	MergedPerHour float64
	// Minutes (O3) are those of CI for each change that lands with one run for each
	// change, MinutesBatched with batches of any kind up to BatchAtMost.
	Minutes        float64
	MinutesBatched float64
	// Runs are those for each change with such batches: no fewer than tell the outcomes
	// apart (their entropy, given what a predictor says), and one for each batch that lands.
	Runs float64
}

// BatchAtMost is the largest batch that the bounds know of.
const BatchAtMost = 16

// Bounds computes them for a workload.
func (w *Workload) Bounds() Bounds {
	n := len(w.Changes)
	b := Bounds{FIFO: make([]time.Duration, n), Free: w.tested(1)}
	landed := make([]bool, n)
	resolved := make([]time.Duration, n)
	var front, testing, landing time.Duration
	var landings []time.Duration
	for i := range w.Changes {
		x := &w.Changes[i]
		at := x.At + b.Free[i]
		if !w.lanes {
			at = max(at, front)
			front = at
		} else {
			for _, j := range x.before {
				at = max(at, resolved[j])
			}
		}
		resolved[i] = at
		landed[i] = !x.Bad
		for _, j := range x.breaks {
			landed[i] = landed[i] && !(j < i && landed[j])
		}
		b.FIFO[i] = at - x.At
		testing += x.Test
		if landed[i] {
			landing += x.Test
			landings = append(landings, at)
		}
	}
	b.Merged = len(landings)
	b.MergedPerHour = w.perHour(landings)
	merged := float64(max(b.Merged, 1))
	b.Minutes = testing.Minutes() / merged
	share := merged / float64(n)
	b.Runs = min(1, max(w.doubt(1-share), share/BatchAtMost))
	b.Batched = w.tested(b.Runs)
	// What of a run does not grow with its batch is spent on each run, the rest once
	// on each change that lands.
	fixed := cmp.Or(w.Cell.Fixed, 1)
	b.MinutesBatched = fixed*b.Runs*b.Minutes + (1-fixed)*landing.Minutes()/merged
	return b
}

// tested is how long it takes from each arrival until CI has tested the change, first
// come first served, when each takes up a worker for a part of the time that its tests take.
func (w *Workload) tested(part float64) []time.Duration {
	took := make([]time.Duration, len(w.Changes))
	workers := make(times, w.Cell.Workers)
	for i := range w.Changes {
		x := &w.Changes[i]
		start := max(x.At, workers[0])
		workers[0] = start + time.Duration(part*float64(x.Test))
		heap.Fix(&workers, 0)
		took[i] = start + x.Test - x.At
	}
	return took
}

// perHour is how many of some moments lie in the time that is measured, by the
// hour: from the end of the warm-up to the last arrival.
func (w *Workload) perHour(moments []time.Duration) float64 {
	from, to := w.Changes[w.Cell.Warm].At, w.Changes[len(w.Changes)-1].At
	count := 0
	for _, at := range moments {
		if at >= from && at <= to {
			count++
		}
	}
	return float64(count) / max((to-from).Hours(), 1.0/60)
}

// doubt is the mean entropy of what is known of the outcomes beforehand: how many fail,
// or what the predictor says of each.
func (w *Workload) doubt(fail float64) float64 {
	if w.Cell.Predictor == 0 {
		return entropy(fail)
	}
	sum := 0.0
	for i := range w.Changes {
		sum += entropy(w.Changes[i].Risk)
	}
	return sum / float64(len(w.Changes))
}

// entropy is how much is learned, in bits, from one yes or no that is yes with
// chance p: no way of testing groups needs fewer runs for each change.
func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

// times is a heap of moments, the earliest first.
type times []time.Duration

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(time.Duration)) }
func (t *times) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
