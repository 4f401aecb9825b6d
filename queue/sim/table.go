package sim

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// String is a mean for a table.
func (m Mean) String() string { return m.text("%.2f", 1) }

// percent is a share for a table, short a number of many digits.
func (m Mean) percent() string { return m.text("%.1f", 100) + "%" }
func (m Mean) short() string   { return m.text("%.0f", 1) }

func (m Mean) text(format string, times float64) string {
	s := fmt.Sprintf(format, times*m.Value)
	if m.PlusMinus > 0 {
		s += "±" + fmt.Sprintf(format, times*m.PlusMinus)
	}
	return s
}

// column is one of a table: what is above it, and what a row has in it.
type column struct {
	heading string
	of      func(Row) string
}

func plain(heading string, of func(Row) Mean) column {
	return column{heading, func(r Row) string { return of(r).String() }}
}

func short(heading string, of func(Row) Mean) column {
	return column{heading, func(r Row) string { return of(r).short() }}
}

func share(heading string, of func(Row) Mean) column {
	return column{heading, func(r Row) string { return of(r).percent() }}
}

var policyColumn = column{"policy", func(r Row) string { return r.Policy }}

// goalColumns are what the goals are about, moreColumns the rest.
var (
	goalColumns = []column{
		policyColumn,
		plain("P50", func(r Row) Mean { return r.P50 }),
		plain("P95", func(r Row) Mean { return r.P95 }),
		plain("P99", func(r Row) Mean { return r.P99 }),
		plain("landed/h", func(r Row) Mean { return r.Throughput }),
		plain("CI", func(r Row) Mean { return r.Cost }),
		plain("runs/change", func(r Row) Mean { return r.Runs }),
		share("wrongly rejected", func(r Row) Mean { return r.Falsely }),
		share("wrongly landed", func(r Row) Mean { return r.Wrongly }),
	}
	moreColumns = []column{
		policyColumn,
		short("min P50", func(r Row) Mean { return r.Minutes50 }),
		short("P95", func(r Row) Mean { return r.Minutes95 }),
		short("P99", func(r Row) Mean { return r.Minutes99 }),
		plain("of O2 P50", func(r Row) Mean { return r.Free50 }),
		plain("P95", func(r Row) Mean { return r.Free95 }),
		plain("P99", func(r Row) Mean { return r.Free99 }),
		short("small P99", func(r Row) Mean { return r.Small99 }),
		short("most waiting", func(r Row) Mean { return r.MostQueue }),
		plain("CI of O3 batched", func(r Row) Mean { return r.BatchedCost }),
		plain("retests", func(r Row) Mean { return r.Retests }),
		share("stopped", func(r Row) Mean { return r.Stopped }),
		share("CI wasted", func(r Row) Mean { return r.Wasted }),
		share("rightly rejected", func(r Row) Mean { return r.Rightly }),
		{"ms/decision", func(r Row) string {
			if !r.Ours {
				return ""
			}
			return r.PlanningMillis.String()
		}},
	}
)

// Says says what the figures of the tables are.
const Says = `First table: P50, P95 and P99 of the turnaround, changes landed an hour and minutes of CI for each that landed are divided by those of the oracle that knows every outcome and runs each change once, in order (O1, O3). Below 1 is possible with batches, and where what passes takes along what is ahead.
Second table: the turnaround in minutes, and divided by that of the oracle that waits for nobody (O2); the turnaround of the tenth with the shortest tests; CI divided by the least with batches (O3 batched: the entropy of the outcomes); tests of a change after its first; runs stopped, and the part of CI's time in them; the real time of a decision on this machine.
`

// lines are a cell's headings and rows, column by column.
func lines(columns []column, rows []Row) [][]string {
	all := [][]string{make([]string, len(columns))}
	for k, c := range columns {
		all[0][k] = c.heading
	}
	for _, r := range rows {
		line := make([]string, len(columns))
		for k, c := range columns {
			line[k] = c.of(r)
		}
		all = append(all, line)
	}
	return all
}

// byCell are rows that follow one another and belong to one cell.
func byCell(rows []Row) [][]Row {
	var cells [][]Row
	for i, r := range rows {
		if i == 0 || r.Cell.Name != rows[i-1].Cell.Name {
			cells = append(cells, nil)
		}
		cells[len(cells)-1] = append(cells[len(cells)-1], r)
	}
	return cells
}

// WriteTable writes rows for a terminal, cell by cell.
func WriteTable(w io.Writer, rows []Row) error {
	for _, of := range byCell(rows) {
		fmt.Fprintf(w, "\n%s: %s\n%s\n", of[0].Cell.Name, of[0].Cell, of[0].Oracles)
		for _, columns := range [][]column{goalColumns, moreColumns} {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			for _, line := range lines(columns, of) {
				fmt.Fprintln(t, strings.Join(line, "\t"))
			}
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteMarkdown writes rows for a page.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	for _, of := range byCell(rows) {
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n%s\n", of[0].Cell.Name, of[0].Cell, of[0].Oracles)
		for _, columns := range [][]column{goalColumns, moreColumns} {
			for n, line := range lines(columns, of) {
				if n == 0 {
					b.WriteString("\n")
				}
				fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
				if n == 0 {
					fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(line)))
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String says what the oracles do, in a line.
func (o Oracles) String() string {
	minutes := func(q [3]Mean) string {
		return fmt.Sprintf("%.0f/%.0f/%.0f", q[0].Value, q[1].Value, q[2].Value)
	}
	return fmt.Sprintf("P50/P95/P99 in minutes: O1 %s, landing %.1f an hour; O2 %s; O4 %s. O3: %.1f minutes of CI for each that lands; with batches of up to %d %.1f, %.2f runs for each change.",
		minutes(o.O1), o.PerHour.Value, minutes(o.O2), minutes(o.O4), o.Minutes.Value, BatchAtMost, o.MinutesBatched.Value, o.RunsBatch.Value)
}

// String says what a cell is, in a line.
func (c Cell) String() string {
	mode := "one line"
	if c.Overlaps > 0 {
		mode = fmt.Sprintf("lanes, %.2g overlaps", c.Overlaps)
	}
	text := fmt.Sprintf("%g an hour, %d workers (load %.2g), %s, tests of %g minutes, %.3g%% fail, %.3g%% of pairs break", c.PerHour, c.Workers, c.Load(), mode, c.Test.Minutes, 100*c.Fails, 100*c.Breaks)
	if c.Flakes > 0 {
		text += fmt.Sprintf(", %g%% of runs flake", 100*c.Flakes)
	}
	if c.Predictor > 0 {
		text += fmt.Sprintf(", predictor %g%%", 100*c.Predictor)
	}
	return text
}
