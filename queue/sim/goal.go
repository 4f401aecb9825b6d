package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Goal is what a policy must reach in a cell, and what is hoped for.
type Goal struct {
	ID, Cell   string
	Must, Want Limits
}

// Limits bound a result. 0 = no bound.
type Limits struct {
	P50, P95, P99, Cost, Runs float64 // at most; the first four divided by the oracles
	Throughput                float64 // at least, divided by the oracle's
}

var (
	nearTheOracle   = Limits{P50: 1.1, P95: 1.5, P99: 1.6}
	nearerTheOracle = Limits{P50: 1.05, P95: 1.20, P99: 1.25}
)

// Goals are those of the headline cells that can be read off a row. The others
// compare rows: A5 and A9 with other policies, A6 and A7 with another cell or setting.
var Goals = []Goal{
	{"A1", "A1 lanes 100/h", nearTheOracle, nearerTheOracle},
	{"A1", "A1 lanes 300/h", nearTheOracle, nearerTheOracle},
	{"A1", "A1 lanes 500/h", nearTheOracle, nearerTheOracle},
	{"A2", "A1 lanes 100/h", Limits{Cost: 1.30}, Limits{Cost: 1.15}},
	{"A2", "A1 lanes 300/h", Limits{Cost: 1.30}, Limits{Cost: 1.15}},
	{"A2", "A1 lanes 500/h", Limits{Cost: 1.30}, Limits{Cost: 1.15}},
	{"A3", "A3 single 60/h", Limits{P50: 0.9, P95: 1.2, P99: 1.3, Cost: 0.95}, Limits{P50: 0.65, P95: 0.70, P99: 0.75, Cost: 0.6}},
	{"A4", "A4 cost p=1%", Limits{Runs: 0.20}, Limits{Runs: 0.13}},
	{"A4", "A4 cost p=2%", Limits{Runs: 0.28}, Limits{Runs: 0.18}},
	{"A4", "A4 cost p=5%", Limits{Runs: 0.48}, Limits{Runs: 0.33}},
	{"A5", "A5 heavy", Limits{}, Limits{P50: 1.1, P95: 2.0, Cost: 2.0}},
	{"A8", "A8 overload 2", Limits{Throughput: 1.5}, Limits{Throughput: 3}},
	{"A8", "A8 overload 4", Limits{Throughput: 1.5}, Limits{Throughput: 3}},
}

// Met reports whether a row keeps within limits.
func (l Limits) Met(r Row) bool { return l.miss(r) <= 1 }

// miss is the largest factor by which a row is beyond a limit; up to 1 it keeps all.
func (l Limits) miss(r Row) float64 {
	worst := 0.0
	for _, v := range []struct{ limit, value float64 }{
		{l.P50, r.P50.Value}, {l.P95, r.P95.Value}, {l.P99, r.P99.Value}, {l.Cost, r.Cost.Value}, {l.Runs, r.Runs.Value},
	} {
		worst = max(worst, safeDivide(v.value, v.limit))
	}
	if l.Throughput > 0 {
		worst = max(worst, l.Throughput/max(r.Throughput.Value, 1e-9))
	}
	return worst
}

// WriteGoals says for each goal of the cells that were played who comes closest to it:
// of Signalbox's settings, of those of them that expect only what history says, where
// the cell has a predictor, and of the other policies.
func WriteGoals(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "goal\tcell\tclosest\tby the goal\tmust\twanted")
	for _, g := range Goals {
		for _, of := range []func(Row) bool{
			func(r Row) bool { return r.Ours && !r.FromHistory },
			func(r Row) bool { return r.FromHistory },
			func(r Row) bool { return !r.Ours },
		} {
			best := g.closest(rows, of)
			if best == nil {
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", g.ID, g.Cell, best.Policy, g.figures(*best), yesNo(g.Must.Met(*best)), yesNo(g.Want.Met(*best)))
		}
	}
	return t.Flush()
}

func yesNo(yes bool) string {
	if yes {
		return "met"
	}
	return "missed"
}

// closest is the row, of some, that comes closest to what is wanted, nil when there
// is none.
func (g Goal) closest(rows []Row, of func(Row) bool) *Row {
	var those []Row
	for _, r := range rows {
		if r.Cell.Name == g.Cell && of(r) {
			those = append(those, r)
		}
	}
	if len(those) == 0 {
		return nil
	}
	best := slices.MinFunc(those, func(a, b Row) int {
		return cmp.Or(cmp.Compare(g.Must.miss(a), g.Must.miss(b)), cmp.Compare(g.Want.miss(a), g.Want.miss(b)))
	})
	return &best
}

// figures are those that the goal is about.
func (g Goal) figures(r Row) string {
	switch l := g.Want; {
	case l.P95 > 0 && l.Cost > 0:
		return fmt.Sprintf("%s/%s/%s, CI %s", r.P50, r.P95, r.P99, r.Cost)
	case l.P50 > 0:
		return fmt.Sprintf("%s/%s/%s", r.P50, r.P95, r.P99)
	case l.Cost > 0:
		return "CI " + r.Cost.String()
	case l.Runs > 0:
		return r.Runs.String() + " runs"
	}
	return r.Throughput.String() + " landed"
}
