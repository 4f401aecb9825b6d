package sim

import (
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
	// Test (O4) is the time of the tests alone, which is all that a policy with
	// batches and workers enough need take.
	Test []time.Duration
	// Merged is how many may land, MergedPerHour how many do between the end of the
	// warm-up and the last arrival, by FIFO.
	Merged        int
	MergedPerHour float64
	// Minutes (O3) are those of CI for each change that lands: with one run for
	// each change, and with batches of so many.
	Minutes        float64
	MinutesBatched float64
}

// Bounds computes them for a workload. most is the largest batch that MinutesBatched allows.
func (w *Workload) Bounds(most int) Bounds {
	n := len(w.Changes)
	b := Bounds{FIFO: make([]time.Duration, n), Free: make([]time.Duration, n), Test: make([]time.Duration, n)}
	landed := make([]bool, n)
	resolved := make([]time.Duration, n)
	workers := make(times, w.Cell.Workers)
	var front, testing time.Duration
	var landings []time.Duration
	bad := 0
	for i := range w.Changes {
		x := &w.Changes[i]
		start := max(x.At, workers[0])
		done := start + x.Test
		workers[0] = done
		heap.Fix(&workers, 0)
		at := done
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
		b.FIFO[i], b.Free[i], b.Test[i] = at-x.At, done-x.At, x.Test
		testing += x.Test
		if landed[i] {
			b.Merged++
			landings = append(landings, at)
		} else {
			bad++
		}
	}
	b.MergedPerHour = w.perHour(landings)
	b.Minutes = testing.Minutes() / float64(max(b.Merged, 1))
	p := float64(bad) / float64(n)
	mean := testing.Minutes() / float64(n)
	b.MinutesBatched = mean*entropy(p)/(1-p) + mean/float64(most)
	return b
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
