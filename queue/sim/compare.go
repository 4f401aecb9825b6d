package sim

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// Row is how a policy did in a cell: means over the seeds.
type Row struct {
	Cell   Cell   `json:"cell"`
	Policy string `json:"policy"`
	Ours   bool   `json:"ours,omitempty"`
	// FromHistory: no predictor was asked, though the cell has one.
	FromHistory bool `json:"fromHistory,omitempty"`
	// P50, P95 and P99 are quantiles of the turnaround divided by O1's, Free50 and so
	// on divided by O2's, Minutes50 and so on as they are.
	P50, P95, P99                   Mean
	Free50, Free95, Free99          Mean
	Minutes50, Minutes95, Minutes99 Mean
	// Small95 and Small99 are those of the tenth with the shortest tests, in minutes.
	Small95, Small99 Mean
	Throughput       Mean // divided by O1's
	Cost             Mean // CI's minutes for each that landed, divided by O3's for one run each
	BatchedCost      Mean // divided by O3's with batches
	CIMinutes        Mean // as they are
	Runs             Mean // for each change
	Retests          Mean
	Stopped          Mean
	Wasted           Mean
	Falsely          Mean // share of all changes that was thrown out and good
	Rightly          Mean // that was thrown out and not
	Wrongly          Mean // and that landed and was not
	MostQueue        Mean
	PlanningMillis   Mean // real time of a decision
	// Oracles are what these are compared with.
	Oracles Oracles
	// Curve are the quantiles 0 to 100 % of the turnaround, in minutes, means over
	// the seeds.
	Curve []float64
}

// Oracles are the bounds of a cell: quantiles of the turnaround .5, .95 and .99 in
// minutes, landings an hour, and CI's minutes and runs with batches.
type Oracles struct {
	O1, O2, O4                         [3]Mean
	PerHour                            Mean
	Minutes, MinutesBatched, RunsBatch Mean
}

// Compare plays the policies of each cell on the same workloads, one for each
// seed. It uses all processors, and ends early, with an error, when ctx does or
// when a policy breaks what every policy must keep. After each play, of one policy
// with one seed, played is called, by one goroutine at a time.
func Compare(ctx context.Context, cells []Cell, seeds []uint64, policies func(Cell) []Policy, played func()) ([]Row, error) {
	f := field{played: played}
	for _, c := range cells {
		workloads := make([]*Workload, len(seeds))
		for i, seed := range seeds {
			workloads[i] = Generate(c, seed)
		}
		for _, p := range policies(c) {
			f.add(c, workloads, p)
		}
	}
	return f.play(ctx)
}

// field is who is compared, and on what.
type field struct {
	rows    []Row
	results [][]Result // by row, one for each workload
	tasks   []task
	played  func() // called after each task, by one goroutine at a time
}

// add has a policy play the workloads of a cell: a row.
func (f *field) add(c Cell, workloads []*Workload, p Policy) {
	results := make([]Result, len(workloads))
	for s, w := range workloads {
		f.tasks = append(f.tasks, task{w, p, &results[s]})
	}
	f.results = append(f.results, results)
	f.rows = append(f.rows, Row{Cell: c, Policy: p.Name, Ours: p.Ours, FromHistory: p.FromHistory})
}

// play plays all and returns the rows in the order in which they were added.
func (f *field) play(ctx context.Context) ([]Row, error) {
	if err := playAll(ctx, f.tasks, f.played); err != nil {
		return nil, err
	}
	for i := range f.rows {
		f.rows[i].mean(f.results[i])
	}
	return f.rows, nil
}

// task is a policy to be played on a workload.
type task struct {
	w    *Workload
	p    Policy
	into *Result
}

// unwatched is for who does not want to know how far it is.
func unwatched() {}

// playAll plays on all processors, until ctx ends.
func playAll(ctx context.Context, tasks []task, played func()) error {
	errs := make([]error, len(tasks))
	var next, told sync.Mutex
	at := 0
	take := func() int {
		next.Lock()
		defer next.Unlock()
		if at == len(tasks) || ctx.Err() != nil {
			return -1
		}
		at++
		return at - 1
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := take(); i >= 0; i = take() {
				*tasks[i].into, errs[i] = Play(ctx, tasks[i].w, tasks[i].p)
				told.Lock()
				played()
				told.Unlock()
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// mean fills in what the seeds say together.
func (r *Row) mean(results []Result) {
	of := func(value func(Result) float64) Mean {
		values := make([]float64, len(results))
		for i, x := range results {
			values[i] = value(x)
		}
		return MeanOf(values)
	}
	share := func(n func(Result) int) Mean {
		return of(func(x Result) float64 { return safeDivide(float64(n(x)), float64(x.Merged+x.Rejected)) })
	}
	r.P50 = of(func(x Result) float64 { return x.Ratio(.5) })
	r.P95 = of(func(x Result) float64 { return x.Ratio(.95) })
	r.P99 = of(func(x Result) float64 { return x.Ratio(.99) })
	r.Free50 = of(func(x Result) float64 { return x.FreeRatio(.5) })
	r.Free95 = of(func(x Result) float64 { return x.FreeRatio(.95) })
	r.Free99 = of(func(x Result) float64 { return x.FreeRatio(.99) })
	quantiles := func(list func(Result) []time.Duration) (q [3]Mean) {
		for k, at := range []float64{.5, .95, .99} {
			q[k] = of(func(x Result) float64 { return Quantile(list(x), at) })
		}
		return q
	}
	took := quantiles(func(x Result) []time.Duration { return x.Turnaround })
	r.Minutes50, r.Minutes95, r.Minutes99 = took[0], took[1], took[2]
	small := quantiles(func(x Result) []time.Duration { return x.Small })
	r.Small95, r.Small99 = small[1], small[2]
	r.Throughput, r.Cost, r.BatchedCost = of(Result.Throughput), of(Result.Cost), of(Result.BatchedCost)
	r.CIMinutes = of(func(x Result) float64 { return x.Minutes })
	r.Runs = of(func(x Result) float64 { return x.Runs })
	r.Retests = of(func(x Result) float64 { return x.Retests })
	r.Stopped = of(func(x Result) float64 { return x.Stopped })
	r.Wasted = of(func(x Result) float64 { return x.Wasted })
	r.Falsely = share(func(x Result) int { return x.FalselyRejected })
	r.Wrongly = share(func(x Result) int { return x.WronglyLanded })
	r.Rightly = share(func(x Result) int { return x.Rejected - x.FalselyRejected })
	for q := range 101 {
		r.Curve = append(r.Curve, of(func(x Result) float64 { return Quantile(x.Turnaround, float64(q)/100) }).Value)
	}
	r.MostQueue = of(func(x Result) float64 { return float64(x.MostQueue) })
	r.PlanningMillis = of(func(x Result) float64 { return x.Planning.Seconds() * 1000 })
	r.Oracles = Oracles{
		O1:             quantiles(func(x Result) []time.Duration { return x.FIFO }),
		O2:             quantiles(func(x Result) []time.Duration { return x.Free }),
		O4:             quantiles(func(x Result) []time.Duration { return x.Batched }),
		PerHour:        of(func(x Result) float64 { return x.Bounds.MergedPerHour }),
		Minutes:        of(func(x Result) float64 { return x.Bounds.Minutes }),
		MinutesBatched: of(func(x Result) float64 { return x.Bounds.MinutesBatched }),
		RunsBatch:      of(func(x Result) float64 { return x.Bounds.Runs }),
	}
}
