package sim

import (
	"fmt"
	"time"
)

// The cells of the benchmark. Headline is a subset that is played in less than a
// minute; Grid is everything, one thing varied at a time around four typical queues.

// typical are the lengths of tests that the grid knows.
var (
	fixed20  = Length{Minutes: 20}
	narrow20 = Length{Minutes: 20, Sigma: 0.3}
	wide27   = Length{Minutes: 27, Sigma: 0.6, Most: 120}
	twoKinds = Length{Minutes: 5, Slow: 0.5, SlowMinutes: 60}
)

// Goal is what a policy must reach in a cell, and what is hoped for.
type Goal struct {
	ID         string
	Must, Want Limits
}

// Limits bound a result. 0 = no bound.
type Limits struct {
	P50, P95, P99, Cost, Runs float64 // at most; the first four divided by the oracles
	Throughput                float64 // at least
}

// Goals are those of the headline cells, by the name of the cell.
var Goals = map[string]Goal{
	"A1 lanes 100/h": {"A1, A2", Limits{P50: 1.1, P95: 1.5, P99: 1.6, Cost: 1.30}, Limits{P50: 1.05, P95: 1.20, P99: 1.25, Cost: 1.15}},
	"A1 lanes 300/h": {"A1, A2", Limits{P50: 1.1, P95: 1.5, P99: 1.6, Cost: 1.30}, Limits{P50: 1.05, P95: 1.20, P99: 1.25, Cost: 1.15}},
	"A1 lanes 500/h": {"A1, A2", Limits{P50: 1.1, P95: 1.5, P99: 1.6, Cost: 1.30}, Limits{P50: 1.05, P95: 1.20, P99: 1.25, Cost: 1.15}},
	"A3 single 60/h": {"A3", Limits{P50: 0.9, P95: 1.2, P99: 1.3, Cost: 0.95}, Limits{P50: 0.65, P95: 0.70, P99: 0.75, Cost: 0.6}},
	"A4 cost p=1%":   {"A4", Limits{Runs: 0.20}, Limits{Runs: 0.13}},
	"A4 cost p=2%":   {"A4", Limits{Runs: 0.28}, Limits{Runs: 0.18}},
	"A4 cost p=5%":   {"A4", Limits{Runs: 0.48}, Limits{Runs: 0.33}},
	"A5 heavy":       {"A5", Limits{}, Limits{P50: 1.1, P95: 2.0, Cost: 2.0}},
	"A8 overload 2":  {"A8", Limits{Throughput: 1.5}, Limits{Throughput: 3}},
	"A8 overload 4":  {"A8", Limits{Throughput: 1.5}, Limits{Throughput: 3}},
}

// Met reports whether a row keeps within limits.
func (l Limits) Met(r Row) bool {
	within := func(limit, value float64) bool { return limit == 0 || value <= limit }
	return within(l.P50, r.P50.Value) && within(l.P95, r.P95.Value) && within(l.P99, r.P99.Value) &&
		within(l.Cost, r.Cost.Value) && within(l.Runs, r.Runs.Value) && r.Throughput.Value >= l.Throughput
}

// Headline are the cells that the goals are about, and a few beside them, with
// so many changes each.
func Headline(changes int) []Cell {
	lanes := func(name string, perHour float64, workers int, p, q, overlaps float64) Cell {
		return Cell{Name: name, PerHour: perHour, Workers: workers, Fails: p, Breaks: q, Overlaps: overlaps, Test: wide27, Predictor: 0.97}
	}
	single := func(name string, perHour float64, workers int, p float64) Cell {
		return Cell{Name: name, PerHour: perHour, Workers: workers, Fails: p, Breaks: 5e-5, Test: fixed20, Predictor: 0.97}
	}
	with := func(c Cell, change func(*Cell)) Cell { change(&c); return c }
	cells := []Cell{
		lanes("A1 lanes 100/h", 100, 100, 0.04, 0.01, 2),
		lanes("A1 lanes 300/h", 300, 300, 0.04, 0.01, 2),
		lanes("A1 lanes 500/h", 500, 500, 0.04, 0.01, 2),
		single("A3 single 60/h", 60, 20, 0.05),
		single("A4 cost p=1%", 240, 20, 0.01),
		single("A4 cost p=2%", 240, 20, 0.02),
		single("A4 cost p=5%", 240, 20, 0.05),
		lanes("A5 heavy", 300, 300, 0.08, 0.035, 3.3),
		single("A6 no flakes", 20, 20, 0.02),
		with(single("A6 flakes 5%", 20, 20, 0.02), func(c *Cell) { c.Flakes = 0.05 }),
		with(lanes("A7 short and long", 60, 80, 0.04, 0.01, 2), func(c *Cell) { c.Test = twoKinds }),
		single("A8 overload 2", 120, 20, 0.02),
		single("A8 overload 4", 240, 20, 0.02),
		with(single("A9 single 20/h", 20, 20, 0.05), func(c *Cell) { c.Predictor = 0 }),
		with(single("A9 single 60/h", 60, 20, 0.05), func(c *Cell) { c.Predictor = 0 }),
		with(lanes("A9 lanes 100/h", 100, 100, 0.04, 0.01, 2), func(c *Cell) { c.Predictor = 0 }),
		with(lanes("roots and favourites", 60, 60, 0.04, 0.01, 2), func(c *Cell) { c.Zipf, c.Roots, c.Predictor = 1.1, 0.01, 0 }),
		with(single("few workers", 20, 5, 0.05), func(c *Cell) { c.Test, c.Predictor = narrow20, 0 }),
		with(single("half the cost is shared", 60, 20, 0.05), func(c *Cell) { c.Fixed, c.Predictor = 0.5, 0 }),
		with(single("by day and night", 40, 20, 0.05), func(c *Cell) { c.Arrive, c.Predictor = "diurnal", 0 }),
		with(single("all at once", 60, 20, 0.05), func(c *Cell) { c.Arrive, c.Predictor = "burst", 0 }),
		with(single("slow to react", 20, 20, 0.05), func(c *Cell) { c.Delay, c.Predictor = 30*time.Second, 0 }),
	}
	for i := range cells {
		cells[i].Changes, cells[i].Warm = changes, changes/4
	}
	return cells
}

// Grid varies one thing at a time around typical queues: two in a single line,
// two with lanes.
func Grid(changes int) []Cell {
	var cells []Cell
	add := func(of Cell, what string, change func(*Cell)) {
		change(&of)
		of.Name = of.Name + ", " + what
		of.Changes, of.Warm = changes, changes/4
		cells = append(cells, of)
	}
	for _, of := range []Cell{
		{Name: "single 20/h", PerHour: 20, Workers: 20, Fails: 0.05, Breaks: 5e-5, Test: fixed20},
		{Name: "single 60/h", PerHour: 60, Workers: 20, Fails: 0.05, Breaks: 5e-5, Test: fixed20},
		{Name: "lanes 60/h", PerHour: 60, Workers: 60, Fails: 0.05, Breaks: 0.01, Overlaps: 2, Test: wide27},
		{Name: "lanes 300/h", PerHour: 300, Workers: 300, Fails: 0.05, Breaks: 0.01, Overlaps: 2, Test: wide27},
	} {
		add(of, "as it is", func(*Cell) {})
		for _, p := range []float64{0.01, 0.02, 0.10, 0.20} {
			add(of, fmt.Sprintf("p=%g", p), func(c *Cell) { c.Fails = p })
		}
		for _, f := range []float64{0.01, 0.05, 0.10} {
			add(of, fmt.Sprintf("flakes %g", f), func(c *Cell) { c.Flakes = f })
		}
		for _, right := range []float64{0.90, 0.97, 1} {
			add(of, fmt.Sprintf("predictor %g", right), func(c *Cell) { c.Predictor = right })
		}
		for _, rho := range []float64{0.5, 0.9, 1.2, 2, 4} {
			add(of, fmt.Sprintf("load %g", rho), func(c *Cell) {
				c.Workers = max(1, int(c.PerHour*c.Test.mean()/60/rho))
			})
		}
		for name, l := range map[string]Length{"lognormal .3": narrow20, "short and long": twoKinds} {
			add(of, name, func(c *Cell) { c.Test = l })
		}
		for _, phi := range []float64{0.5, 0.1} {
			add(of, fmt.Sprintf("shared cost %g", phi), func(c *Cell) { c.Fixed = phi })
		}
		for _, how := range []string{"diurnal", "burst"} {
			add(of, how, func(c *Cell) { c.Arrive = how })
		}
		for _, d := range []time.Duration{5 * time.Second, 30 * time.Second} {
			add(of, "delay "+d.String(), func(c *Cell) { c.Delay = d })
		}
		if of.Overlaps == 0 {
			for _, q := range []float64{0, 5e-4} {
				add(of, fmt.Sprintf("q=%g", q), func(c *Cell) { c.Breaks = q })
			}
			continue
		}
		for _, q := range []float64{0, 0.035} {
			add(of, fmt.Sprintf("q=%g", q), func(c *Cell) { c.Breaks = q })
		}
		for _, n := range []float64{0.5, 8} {
			add(of, fmt.Sprintf("overlaps %g", n), func(c *Cell) { c.Overlaps = n })
		}
		for _, r := range []float64{0.005, 0.02} {
			add(of, fmt.Sprintf("roots %g", r), func(c *Cell) { c.Roots = r })
		}
		add(of, "zipf 1.1", func(c *Cell) { c.Zipf = 1.1 })
	}
	return cells
}
