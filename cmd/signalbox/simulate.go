package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"signalbox/db"
	"signalbox/queue"
	"signalbox/queue/sim"
)

// simulateCommand plays a queue in virtual time: with numbers that somebody
// gives, with what has happened in a queue, or with the cells of the benchmark.
type simulateCommand struct {
	storage  `group:"storage"`
	logging  `group:"logging"`
	PerHour  float64 `name:"per-hour" default:"20" help:"How many pull requests are ready to land in an hour."`
	Workers  int     `default:"20" help:"How many test runs CI takes at once."`
	Minutes  float64 `default:"20" help:"How long the tests take: the median."`
	Spread   float64 `default:"0.3" help:"How much that varies: sigma of a lognormal distribution; 0 is not at all."`
	Fails    float64 `default:"5" help:"How many of 100 pull requests fail by themselves."`
	Breaks   float64 `default:"0.005" help:"How many of 100 pairs, of those that overlap and are made within an hour, break only together."`
	Flakes   float64 `default:"0" help:"How many of 100 test runs fail for no reason."`
	Overlaps float64 `default:"0" help:"In parallel mode: how many of the pull requests that come while one is tested it overlaps. 0 is single mode."`
	Changes  int     `default:"500" help:"How many pull requests are played."`
	Seeds    int     `default:"3" help:"How many different histories are played."`
	Seed     uint64  `default:"1" help:"The number of the first history; the others follow."`

	History string `type:"existingfile" placeholder:"FILE" help:"Play what is recorded in this file instead: CSV or JSON with ready (a time), minutes, outcome (merged or failed) and, in parallel mode, targets."`
	Repo    string `placeholder:"OWNER/NAME" help:"Play what has happened in a queue of this repository, from the database."`
	Branch  string `default:"main" help:"The queue's branch."`
	Days    int    `default:"7" help:"How many days back."`

	Cells    string   `enum:"none,headline,grid,ablation" default:"none" help:"Play the benchmark, every policy beside the others: headline or grid; or Signalbox without each of its features in turn: ablation."`
	Only     []string `placeholder:"TEXT,…" help:"Of these cells only those with one of these in their name."`
	Policies []string `placeholder:"TEXT,…" help:"In these cells only the policies with one of these in their name."`
	Markdown bool     `help:"Print its tables as Markdown."`

	Plots string `type:"path" placeholder:"FOLDER" help:"Draw what came out as SVG into this folder."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Validate reports every number that makes no sense.
func (s *simulateCommand) Validate() error {
	var problems []error
	within := func(name string, value, least, most float64) {
		if !(value >= least && value <= most) {
			problems = append(problems, fmt.Errorf("--%s is %v: give a number from %v to %v", name, value, least, most))
		}
	}
	within("per-hour", s.PerHour, 0.1, 10_000)
	within("workers", float64(s.Workers), 1, 10_000)
	within("minutes", s.Minutes, 0.1, 10_000)
	within("spread", s.Spread, 0, 2)
	within("fails", s.Fails, 0, 100)
	within("breaks", s.Breaks, 0, 100)
	within("flakes", s.Flakes, 0, 100)
	within("overlaps", s.Overlaps, 0, 1000)
	within("changes", float64(s.Changes), 10, 100_000)
	within("seeds", float64(s.Seeds), 1, 100)
	within("days", float64(s.Days), 1, 365)
	if s.History != "" && s.Repo != "" {
		problems = append(problems, errors.New("give --history or --repo, not both"))
	}
	return errors.Join(problems...)
}

// Run plays and prints.
func (s *simulateCommand) Run(ctx context.Context, c console) error {
	// Decisions leave much behind that is small, and keep little: collected as it is
	// by default, a quarter of the time goes into that.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if s.Cells != "none" {
		return s.benchmark(ctx, c)
	}
	workloads, workers, err := s.workloads(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.err, "Playing …")
	advice, err := sim.Recommend(ctx, workloads, workers)
	if err != nil {
		return err
	}
	if s.Plots != "" {
		if err := s.draw(c, "settings", advicePlots(advice)); err != nil {
			return err
		}
	}
	if s.JSON {
		return printJSON(c, advice)
	}
	return tellAdvice(c.out, advice, workloads[0])
}

// workloads are what is played: the numbers of the command line, or what happened.
func (s *simulateCommand) workloads(ctx context.Context, c console) ([]*sim.Workload, int, error) {
	switch {
	case s.History != "":
		f, err := os.Open(s.History)
		if err != nil {
			return nil, 0, fmt.Errorf("read the history: %w", err)
		}
		defer f.Close()
		h, err := sim.ReadHistory(f)
		if err != nil {
			return nil, 0, err
		}
		return s.recorded(h, s.mode()), s.Workers, nil
	case s.Repo != "":
		var h queue.History
		var q queue.Queue
		err := s.with(ctx, s.logging, c, func(d *db.DB) (err error) {
			if q, err = queueOf(ctx, d, s.Repo, s.Branch); err != nil {
				return err
			}
			until := time.Now()
			h, err = d.History(ctx, q, until.AddDate(0, 0, -s.Days), until, sim.HistoryAtMost)
			if err == nil && len(h.Ended) == 0 {
				err = queue.ErrNoHistory
			}
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		return s.recorded(h, q.ReportedMode()), s.Workers, nil
	}
	cell := sim.Cell{
		Name: "your numbers", PerHour: s.PerHour, Workers: s.Workers, Fails: s.Fails / 100, Breaks: s.Breaks / 100, Flakes: s.Flakes / 100,
		Overlaps: s.Overlaps, Test: sim.Length{Minutes: s.Minutes, Sigma: s.Spread}, Changes: s.Changes, Warm: s.Changes / 4,
	}
	var workloads []*sim.Workload
	for _, seed := range s.seeds() {
		workloads = append(workloads, sim.Generate(cell, seed))
	}
	return workloads, s.Workers, nil
}

// seeds are the numbers of the histories that are played.
func (s *simulateCommand) seeds() []uint64 {
	seeds := make([]uint64, s.Seeds)
	for i := range seeds {
		seeds[i] = s.Seed + uint64(i)
	}
	return seeds
}

func (s *simulateCommand) mode() queue.Mode {
	if s.Overlaps > 0 {
		return queue.Parallel
	}
	return queue.Single
}

// recorded is a history as the one workload there is of it, with the workers
// that somebody says CI has.
func (s *simulateCommand) recorded(h queue.History, mode queue.Mode) []*sim.Workload {
	w := sim.FromHistory(h, mode)
	w.Cell.Workers = s.Workers
	return []*sim.Workload{w}
}

// queueOf finds a queue by the name of its repository.
func queueOf(ctx context.Context, d *db.DB, repo, branch string) (queue.Queue, error) {
	queues, err := d.ListQueues(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	for _, q := range queues {
		if strings.EqualFold(repo, q.Repo.Owner+"/"+q.Repo.Name) && q.Branch == branch {
			return q, nil
		}
	}
	return queue.Queue{}, fmt.Errorf("there is no queue for branch %q of %s", branch, repo)
}

// tellAdvice prints what came out, the advice first.
func tellAdvice(w io.Writer, a sim.Advice, played *sim.Workload) error {
	fmt.Fprintf(w, "%d pull requests: %s.\n\n", len(played.Changes), played.Cell)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "settings\thalf through\t95 of 100\truns each\tCI min/merged\tmost waiting\tthrown out wrongly")
	for _, c := range a.Choices {
		r := c.Row
		fmt.Fprintf(t, "%s\t%.0f min\t%.0f min\t%.2f\t%.1f\t%.0f\t%.1f%%\n", c.Name,
			r.Minutes50.Value, r.Minutes95.Value, r.Runs.Value, r.CIMinutes.Value, r.MostQueue.Value, 100*r.Falsely.Value)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe advice is %s\n%s\n", a.Says, settingsAdvised(a.Choices[0].Settings))
	return err
}

// settingsAdvised is how the settings are called in the API.
func settingsAdvised(s queue.Settings) string {
	list := []string{fmt.Sprintf("concurrency=%d", s.Concurrency)}
	if s.Batch {
		list = append(list, fmt.Sprintf("bisectionConcurrency=%d batch=true batchingMinSize=%d batchingMaxWaitTimeMinutes=%d optimizationMode=%s",
			s.BisectionConcurrency, s.BatchingMinSize, s.BatchingMaxWaitTimeMinutes, s.OptimizationMode))
	}
	if s.Speculation == queue.AdaptiveSpeculation {
		list = append(list, "speculation=adaptive")
	}
	if s.CanOptimisticallyMerge {
		list = append(list, fmt.Sprintf("canOptimisticallyMerge=true pendingFailureDepth=%d", s.PendingFailureDepth))
	}
	return strings.Join(list, " ")
}

// benchmark plays every policy on the cells of the benchmark, one cell after the
// other: what is played is printed, and how far it is told.
func (s *simulateCommand) benchmark(ctx context.Context, c console) error {
	cells, policies := s.chosen()
	if len(cells) == 0 {
		return fmt.Errorf("no cell of %s has any of %q in its name and a policy with any of %q", s.Cells, s.Only, s.Policies)
	}
	write := sim.WriteTable
	switch {
	case s.JSON:
		write = func(io.Writer, []sim.Row) error { return nil }
	case s.Markdown:
		write = sim.WriteMarkdown
	default:
		fmt.Fprint(c.out, sim.Says)
		for _, p := range sim.Others() {
			fmt.Fprintf(c.out, "  %s: %s.\n", p.Name, p.Says)
		}
	}
	var all []sim.Row
	p := pace{out: newProgress(c.err), began: time.Now(), cells: len(cells)}
	for _, cell := range cells {
		p.all += len(policies(cell)) * s.Seeds
	}
	for _, cell := range cells {
		p.next(cell.Name, len(policies(cell))*s.Seeds)
		rows, err := sim.Compare(ctx, []sim.Cell{cell}, s.seeds(), policies, p.played)
		if err != nil {
			return err
		}
		p.out.leave() // what is printed now stands below it
		all = append(all, rows...)
		if s.Plots != "" {
			if err := s.draw(c, plotName(cell.Name), cellPlots(rows)); err != nil {
				return err
			}
		}
		if err := write(c.out, rows); err != nil {
			return err
		}
	}
	switch {
	case s.JSON:
		return printJSON(c, all)
	case s.Markdown:
		return nil
	}
	fmt.Fprintln(c.out)
	return sim.WriteGoals(c.out, all)
}

// chosen are the cells of the benchmark that are played, and with which policies.
func (s *simulateCommand) chosen() ([]sim.Cell, func(sim.Cell) []sim.Policy) {
	cells, contenders := sim.Headline(s.Changes), sim.Contenders
	switch s.Cells {
	case "grid":
		cells = sim.Grid(s.Changes)
	case "ablation":
		cells, contenders = sim.Ablated(s.Changes), sim.Ablation
	}
	policies := func(cell sim.Cell) []sim.Policy {
		return slices.DeleteFunc(contenders(cell), func(p sim.Policy) bool { return !named(p.Name, s.Policies) })
	}
	return slices.DeleteFunc(cells, func(cell sim.Cell) bool { return !named(cell.Name, s.Only) || len(policies(cell)) == 0 }), policies
}

// named reports whether a name has one of some texts in it; no texts are any.
func named(name string, texts []string) bool {
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(name, text) })
}

// draw writes plots into the folder.
func (s *simulateCommand) draw(c console, name string, plots map[string]plot) error {
	if err := os.MkdirAll(s.Plots, 0o755); err != nil {
		return fmt.Errorf("make the folder of plots: %w", err)
	}
	for _, kind := range slices.Sorted(maps.Keys(plots)) {
		path := filepath.Join(s.Plots, name+"-"+kind+".svg")
		if err := os.WriteFile(path, []byte(plots[kind].svg()), 0o644); err != nil {
			return fmt.Errorf("write a plot: %w", err)
		}
		fmt.Fprintln(c.err, "Drawn:", path)
	}
	return nil
}

// plotName is a cell's name as a file's.
func plotName(cell string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, cell)
	return strings.Trim(strings.ReplaceAll(name, "--", "-"), "-")
}
