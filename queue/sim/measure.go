package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Result is how a policy did on one workload, after the warm-up.
type Result struct {
	Policy string
	// Turnaround are the times from submission to the end, landed or not,
	// sorted; Small those of the tenth of changes with the shortest tests, and of all
	// with tests as short.
	Turnaround []time.Duration
	Small      []time.Duration
	// FIFO, Free and Batched are those of the oracles on the same changes, sorted.
	FIFO, Free, Batched []time.Duration

	Merged   int
	PerHour  float64 // merged, by the hour, until the last arrival
	Rejected int
	// FalselyRejected were thrown out and fail neither by themselves nor with
	// anything that landed; WronglyLanded are on main and do.
	FalselyRejected, WronglyLanded int

	Minutes   float64 // of CI, for each change that landed
	Runs      float64 // for each change
	Retests   float64 // tests of a change after its first, for each change
	Stopped   float64 // share of runs
	Wasted    float64 // share of CI's minutes that went into runs that were stopped
	MostQueue int     // changes open at once
	// Planning is the mean real time of a decision, on a machine that may do other work.
	Planning time.Duration
	// Bounds on the same workload; its lists are in the order of arrival.
	Bounds Bounds
}

// Play plays a policy on a workload. It fails when the policy breaks what every
// policy must keep.
func Play(ctx context.Context, w *Workload, of Policy) (Result, error) {
	p := newRace(w, of.make)
	if err := p.run(ctx); err != nil {
		return Result{}, fmt.Errorf("%s on %s, seed %d: %w", of.Name, w.Cell.Name, w.Seed, err)
	}
	return p.result(of.Name), nil
}

func (p *race) result(name string) Result {
	w, b := p.w, p.w.Bounds()
	warm := w.Cell.Warm
	r := Result{Policy: name, Bounds: b, Planning: p.planning / time.Duration(max(p.decisions, 1))}
	var landings []time.Duration
	var begins, ends []time.Duration
	again := 0
	for i, f := range p.endings {
		if f.landed {
			landings = append(landings, f.at)
			r.Merged++
		} else {
			r.Rejected++
		}
		begins, ends = append(begins, w.Changes[i].At), append(ends, f.at)
		again += max(f.trials-1, 0)
		if i >= warm {
			r.Turnaround = append(r.Turnaround, f.at-w.Changes[i].At)
		}
	}
	r.Small = p.small()
	r.FIFO, r.Free, r.Batched = slices.Clone(b.FIFO[warm:]), slices.Clone(b.Free[warm:]), slices.Clone(b.Batched[warm:])
	for _, list := range [][]time.Duration{r.Turnaround, r.FIFO, r.Free, r.Batched} {
		slices.Sort(list)
	}
	n := float64(len(p.endings))
	r.PerHour = w.perHour(landings)
	r.FalselyRejected, r.WronglyLanded = p.wrongs()
	r.Minutes = p.spent.Minutes() / float64(max(r.Merged, 1))
	r.Runs = float64(p.trials) / n
	r.Retests = float64(again) / n
	r.Stopped = safeDivide(float64(p.stopped), float64(p.trials))
	r.Wasted = safeDivide(p.wasted.Minutes(), p.spent.Minutes())
	r.MostQueue = mostAtOnce(begins, ends)
	return r
}

// small are the turnarounds of the tenth with the shortest tests, and of all with tests
// as short.
func (p *race) small() []time.Duration {
	var order []int
	for i := p.w.Cell.Warm; i < len(p.endings); i++ {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(p.w.Changes[a].Test - p.w.Changes[b].Test) })
	var list []time.Duration
	n := (len(order) + 9) / 10
	for n > 0 && n < len(order) && p.w.Changes[order[n]].Test == p.w.Changes[order[n-1]].Test {
		n++
	}
	for _, i := range order[:n] {
		list = append(list, p.endings[i].at-p.w.Changes[i].At)
	}
	slices.Sort(list)
	return list
}

// wrongs counts who was thrown out and was good, and who is on main and is not. Of
// two that break together one has to go, whichever.
func (p *race) wrongs() (falsely, wrongly int) {
	for i, f := range p.endings {
		x := &p.w.Changes[i]
		broken := x.Bad
		for _, j := range x.breaks {
			broken = broken || p.landedAs[j] > 0 && (!f.landed || p.landedAs[j] < p.landedAs[i])
		}
		switch {
		case !f.landed && !broken:
			falsely++
		case f.landed && broken:
			wrongly++
		}
	}
	return falsely, wrongly
}

// mostAtOnce is how many were there at one time, of those that came and went.
func mostAtOnce(begins, ends []time.Duration) int {
	begins, ends = slices.Clone(begins), slices.Clone(ends)
	slices.Sort(begins)
	slices.Sort(ends)
	most, ended := 0, 0
	for i, at := range begins {
		for ended < len(ends) && ends[ended] <= at {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}

// Quantile is a quantile of sorted durations, in minutes.
func Quantile(sorted []time.Duration, q float64) float64 { return quantile(sorted, q).Minutes() }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// Ratio is a quantile of the turnaround divided by that of O1.
func (r Result) Ratio(q float64) float64 {
	return safeDivide(Quantile(r.Turnaround, q), Quantile(r.FIFO, q))
}

// FreeRatio is the same divided by O2.
func (r Result) FreeRatio(q float64) float64 {
	return safeDivide(Quantile(r.Turnaround, q), Quantile(r.Free, q))
}

// Throughput is the merged changes an hour divided by those of O1.
func (r Result) Throughput() float64 { return safeDivide(r.PerHour, r.Bounds.MergedPerHour) }

// Cost is CI's minutes for each merged change divided by O3 with one run for each.
func (r Result) Cost() float64 { return safeDivide(r.Minutes, r.Bounds.Minutes) }

// BatchedCost is the same divided by O3 with batches.
func (r Result) BatchedCost() float64 { return safeDivide(r.Minutes, r.Bounds.MinutesBatched) }

// Mean is a mean over seeds, with what to add and take away for an interval
// that holds the true mean with 95 % confidence; 0 for a single seed.
type Mean struct{ Value, PlusMinus float64 }

// MeanOf is the mean of some values.
func MeanOf(values []float64) Mean {
	n := float64(len(values))
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	m := Mean{Value: safeDivide(sum, n)}
	if n < 2 {
		return m
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - m.Value) * (v - m.Value)
	}
	m.PlusMinus = student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
	return m
}

// student is the quantile .975 of Student's distribution.
func student(degrees int) float64 {
	table := []float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093}
	if degrees <= len(table) {
		return table[degrees-1]
	}
	return 2
}
