package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
)

// Row is how a policy did in a cell: means over the seeds.
type Row struct {
	Cell   Cell   `json:"cell"`
	Policy string `json:"policy"`
	// P50, P95 and P99 are quantiles of the turnaround divided by O1's, Free95 the
	// second divided by O2's, Minutes50 and Minutes95 as they are.
	P50, P95, P99, Free95, Minutes50, Minutes95 Mean
	// Small95 is that of the tenth with the shortest tests, in minutes.
	Small95    Mean
	Throughput Mean // divided by O1's
	Cost       Mean // CI's minutes for each that landed, divided by O3's for one run each
	CIMinutes  Mean // as they are
	Runs       Mean // for each change
	Retests    Mean
	Stopped    Mean
	Wasted     Mean
	Falsely    Mean // share of all changes that was thrown out and good
	Wrongly    Mean // and that landed and was not
	Rejected   Mean
	MostQueue  Mean
	// Curve are the quantiles 0 to 100 % of the turnaround, in minutes, means over
	// the seeds.
	Curve []float64
}

// Compare plays the policies of each cell on the same workloads, one for each
// seed. It uses all processors, and ends early, with an error, when ctx does or
// when a policy breaks what every policy must keep.
func Compare(ctx context.Context, cells []Cell, seeds int, policies func(Cell) []Policy) ([]Row, error) {
	var f field
	for _, c := range cells {
		workloads := make([]*Workload, seeds)
		for s := range workloads {
			workloads[s] = Generate(c, uint64(s+1))
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
}

// add has a policy play the workloads of a cell: a row.
func (f *field) add(c Cell, workloads []*Workload, p Policy) {
	results := make([]Result, len(workloads))
	for s, w := range workloads {
		f.tasks = append(f.tasks, task{w, p, &results[s]})
	}
	f.results = append(f.results, results)
	f.rows = append(f.rows, Row{Cell: c, Policy: p.Name})
}

// play plays all and returns the rows in the order in which they were added.
func (f *field) play(ctx context.Context) ([]Row, error) {
	if err := playAll(ctx, f.tasks); err != nil {
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

// playAll plays on all processors, until ctx ends.
func playAll(ctx context.Context, tasks []task) error {
	errs := make([]error, len(tasks))
	var next sync.Mutex
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
	r.Free95 = of(func(x Result) float64 { return x.FreeRatio(.95) })
	r.Minutes50 = of(func(x Result) float64 { return Quantile(x.Turnaround, .5) })
	r.Minutes95 = of(func(x Result) float64 { return Quantile(x.Turnaround, .95) })
	r.Small95 = of(func(x Result) float64 { return Quantile(x.Small, .95) })
	r.Throughput, r.Cost = of(Result.Throughput), of(Result.Cost)
	r.CIMinutes = of(func(x Result) float64 { return x.Minutes })
	r.Runs = of(func(x Result) float64 { return x.Runs })
	r.Retests = of(func(x Result) float64 { return x.Retests })
	r.Stopped = of(func(x Result) float64 { return x.Stopped })
	r.Wasted = of(func(x Result) float64 { return x.Wasted })
	r.Falsely = share(func(x Result) int { return x.FalselyRejected })
	r.Wrongly = share(func(x Result) int { return x.WronglyLanded })
	r.Rejected = share(func(x Result) int { return x.Rejected })
	for q := range 101 {
		r.Curve = append(r.Curve, of(func(x Result) float64 { return Quantile(x.Turnaround, float64(q)/100) }).Value)
	}
	r.MostQueue = of(func(x Result) float64 { return float64(x.MostQueue) })
}

// String is a mean for a table.
func (m Mean) String() string {
	if m.PlusMinus == 0 {
		return fmt.Sprintf("%.2f", m.Value)
	}
	return fmt.Sprintf("%.2f±%.2f", m.Value, m.PlusMinus)
}

// percent is a share for a table.
func (m Mean) percent() string {
	if m.PlusMinus == 0 {
		return fmt.Sprintf("%.1f%%", 100*m.Value)
	}
	return fmt.Sprintf("%.1f±%.1f%%", 100*m.Value, 100*m.PlusMinus)
}

// Says says in one line what the figures of a table are.
const Says = `P50, P95 and P99 of the turnaround, changes landed an hour and minutes of CI for each that landed are divided by those of the oracle that knows every outcome and runs each change once, in order. Below 1 is possible with batches.`

// headings are the columns of a table.
var headings = []string{"policy", "P50", "P95", "P99", "landed/h", "CI", "runs/change", "stopped", "wrongly rejected", "wrongly landed"}

func (r Row) cells() []string {
	return []string{r.Policy, r.P50.String(), r.P95.String(), r.P99.String(), r.Throughput.String(), r.Cost.String(),
		r.Runs.String(), r.Stopped.percent(), r.Falsely.percent(), r.Wrongly.percent()}
}

// WriteTable writes rows for a terminal, cell by cell.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cell := ""
	for _, r := range rows {
		if r.Cell.Name != cell {
			cell = r.Cell.Name
			fmt.Fprintf(t, "\n%s: %s\n%s\n", cell, r.Cell, strings.Join(headings, "\t"))
		}
		fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
	}
	return t.Flush()
}

// WriteMarkdown writes rows for a page.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| cell | %s |\n|%s\n", strings.Join(headings, " | "), strings.Repeat("---|", len(headings)+1))
	cell := ""
	for _, r := range rows {
		name := ""
		if r.Cell.Name != cell {
			cell, name = r.Cell.Name, "**"+r.Cell.Name+"**"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(r.cells(), " | "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String says what a cell is, in a line.
func (c Cell) String() string {
	mode := "one line"
	if c.Overlaps > 0 {
		mode = fmt.Sprintf("lanes, %.2g overlaps", c.Overlaps)
	}
	text := fmt.Sprintf("%g an hour, %d workers, %s, tests of %g minutes, %g%% fail, %g%% of pairs break", c.PerHour, c.Workers, mode, c.Test.Minutes, 100*c.Fails, 100*c.Breaks)
	if c.Flakes > 0 {
		text += fmt.Sprintf(", %g%% of runs flake", 100*c.Flakes)
	}
	if c.Predictor > 0 {
		text += fmt.Sprintf(", predictor %g%%", 100*c.Predictor)
	}
	return text
}
