package sim

import (
	"fmt"
	"slices"
	"time"
)

// The cells of the benchmark. Headline is a subset that is played in about a
// minute; Grid is everything, one thing varied at a time around four typical queues.

// typical are the lengths of tests that the grid knows.
var (
	fixed20  = Length{Minutes: 20}
	narrow20 = Length{Minutes: 20, Sigma: 0.3}
	wide27   = Length{Minutes: 27, Sigma: 0.6, Most: 120}
	twoKinds = Length{Minutes: 5, Slow: 0.5, SlowMinutes: 60}
)

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
	alone := func(name string, p float64) Cell {
		return with(single(name, 240, 20, p), func(c *Cell) { c.Breaks = 0 })
	}
	cells := []Cell{
		lanes("A1 lanes 100/h", 100, 100, 0.04, 0.01, 2),
		lanes("A1 lanes 300/h", 300, 300, 0.04, 0.01, 2),
		lanes("A1 lanes 500/h", 500, 500, 0.04, 0.01, 2),
		single("A3 single 60/h", 60, 20, 0.05),
		alone("A4 cost p=1%", 0.01), // what batches cost is reckoned where each fails by itself
		alone("A4 cost p=2%", 0.02),
		alone("A4 cost p=5%", 0.05),
		lanes("A5 heavy", 300, 300, 0.08, 0.035, 3.3),
		single("A6 no flakes", 20, 20, 0.02),
		with(single("A6 flakes 5%", 20, 20, 0.02), func(c *Cell) { c.Flakes = 0.05 }),
		with(lanes("A7 short and long", 60, 80, 0.04, 0.01, 0.3), func(c *Cell) { c.Test = twoKinds }), // 2 overlaps during a mean test
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
		with(single("slow to stop", 60, 20, 0.05), func(c *Cell) { c.Abort, c.Predictor = time.Minute, 0 }),
		with(lanes("tested as long as it is large", 100, 100, 0.04, 0.01, 2), func(c *Cell) { c.Fixed, c.Predictor = 0.1, 0 }),
	}
	for i := range cells {
		cells[i].Changes, cells[i].Warm = changes, changes/4
	}
	return cells
}

// Ablated are those of the headline cells that show what the engine's features are
// worth.
func Ablated(changes int) []Cell {
	return slices.DeleteFunc(Headline(changes), func(c Cell) bool {
		return !slices.Contains([]string{"A1 lanes 100/h", "A3 single 60/h", "A6 flakes 5%", "A8 overload 2"}, c.Name)
	})
}

// Grid varies one thing at a time around typical queues: two in a single line, two
// with lanes; and how many come, with as many workers as come in an hour.
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
		for _, l := range []struct {
			name string
			Length
		}{{"fixed 20", fixed20}, {"lognormal .3", narrow20}, {"lognormal .6", wide27}, {"short and long", twoKinds}} {
			if l.Length != of.Test {
				add(of, l.name, func(c *Cell) { c.Test = l.Length })
			}
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
		add(of, "abort 1m", func(c *Cell) { c.Abort = time.Minute })
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
	for _, perHour := range []float64{20, 60, 100, 300, 500} {
		diagonal := func(c *Cell) { c.PerHour, c.Workers = perHour, int(perHour) }
		add(Cell{Name: "single", Fails: 0.05, Breaks: 5e-5, Test: fixed20}, fmt.Sprintf("%g/h", perHour), diagonal)
		add(Cell{Name: "lanes", Fails: 0.05, Breaks: 0.01, Overlaps: 2, Test: wide27}, fmt.Sprintf("%g/h", perHour), diagonal)
	}
	return cells
}
