package sim

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/queue"
)

// HistoryAtMost is how many submissions are replayed: the last ones.
const HistoryAtMost = 1000

// wideSet is the size from which impacted targets count as everything: looking
// at each would take longer than the answer is worth.
const wideSet = 1000

// FromHistory makes a workload of what happened. What landed is good, what failed
// is bad by itself, tests take as long as they took (the median where that is not
// known), and CI takes whatever is asked of it.
func FromHistory(h queue.History, mode queue.Mode) *Workload {
	past := slices.Clone(h.Ended)
	slices.SortStableFunc(past, func(a, b queue.Past) int { return a.ReadyAt.Compare(b.ReadyAt) })
	w := &Workload{lanes: mode == queue.Parallel, Changes: make([]Change, len(past))}
	names := map[uint64]int{}
	typical := typicalTest(past)
	failed := 0
	for i, p := range past {
		x := &w.Changes[i]
		x.At, x.Test, x.Bad = p.ReadyAt.Sub(past[0].ReadyAt), p.Test, p.Failed
		if x.Test <= 0 {
			x.Test = typical
		}
		if p.Failed {
			failed++
		}
		x.All = p.Targets.All || len(p.Targets.Hashes) > wideSet
		if !x.All {
			x.Targets = numbered(p.Targets.Hashes, names)
		}
	}
	w.Cell = Cell{Name: "history", Workers: max(len(past), 1), Fails: safeDivide(float64(failed), float64(len(past))), Changes: len(past), Test: Length{Minutes: typical.Minutes()}}
	if n := len(past); n > 1 {
		w.Cell.PerHour = math.Round(10*float64(n)/max(w.Changes[n-1].At.Hours(), 0.1)) / 10
	}
	w.relate()
	return w
}

// numbered gives targets small numbers.
func numbered(hashes []uint64, names map[uint64]int) []int {
	var list []int
	for _, h := range hashes {
		n, known := names[h]
		if !known {
			n = len(names)
			names[h] = n
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// typicalTest is the median of what is known, ten minutes when nothing is.
func typicalTest(past []queue.Past) time.Duration {
	var known []time.Duration
	for _, p := range past {
		if p.Test > 0 {
			known = append(known, p.Test)
		}
	}
	if len(known) == 0 {
		return 10 * time.Minute
	}
	slices.Sort(known)
	return quantile(known, .5)
}

// Replay plays a history with the settings that a queue has, and with changed ones.
func Replay(ctx context.Context, h queue.History, now, changed queue.Settings) (queue.Preview, error) {
	if len(h.Ended) == 0 {
		return queue.Preview{}, queue.ErrNoHistory
	}
	var asIs, other Result
	w, v := FromHistory(h, now.Mode), FromHistory(h, changed.Mode)
	err := playAll(ctx, []task{
		{w, Engine("the settings of now", now), &asIs},
		{v, Engine("the changed settings", changed), &other},
	}, unwatched)
	if err != nil {
		return queue.Preview{}, fmt.Errorf("replay %d submissions: %w", len(h.Ended), err)
	}
	return queue.Preview{Since: h.Since, Until: h.Until, Replayed: len(h.Ended), LeftOut: h.LeftOut,
		Happened: happened(h), AsIs: asIs.figures(), Changed: other.figures()}, nil
}

func (r Result) figures() queue.Figures {
	at := func(q float64) time.Duration { return quantile(r.Turnaround, q) }
	return queue.Figures{Merged: r.Merged, Failed: r.Rejected, P50: at(.5), P95: at(.95), P99: at(.99),
		Runs: r.Runs, CIMinutes: r.Minutes, MostWaiting: r.MostQueue}
}

func happened(h queue.History) queue.Figures {
	var f queue.Figures
	var took []time.Duration
	var begins, ends []time.Duration
	for _, p := range h.Ended {
		took = append(took, p.EndedAt.Sub(p.ReadyAt))
		begins, ends = append(begins, p.ReadyAt.Sub(h.Since)), append(ends, p.EndedAt.Sub(h.Since))
		if p.Failed {
			f.Failed++
		} else {
			f.Merged++
		}
	}
	slices.Sort(took)
	f.P50, f.P95, f.P99 = quantile(took, .5), quantile(took, .95), quantile(took, .99)
	f.Runs = safeDivide(float64(h.Runs), float64(len(h.Ended)))
	f.CIMinutes = safeDivide(h.Testing.Minutes(), float64(f.Merged))
	f.MostWaiting = mostAtOnce(begins, ends)
	return f
}

// recorded is a line of a history in a file.
type recorded struct {
	Ready   time.Time `json:"ready"`
	Minutes float64   `json:"minutes"`
	Outcome string    `json:"outcome"` // merged or failed
	Targets []string  `json:"targets,omitempty"`
}

// ReadHistory reads what somebody exported: JSON, a list of objects with ready,
// minutes, outcome and targets, or CSV with these columns, targets separated by
// spaces. ready is when the pull request was ready to land (RFC 3339), minutes how
// long its tests take, outcome "merged" or "failed". Errors name the line.
func ReadHistory(r io.Reader) (queue.History, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64<<20))
	if err != nil {
		return queue.History{}, fmt.Errorf("read the history: %w", err)
	}
	var lines []recorded
	if trimmed := strings.TrimSpace(string(text)); strings.HasPrefix(trimmed, "[") {
		if err := json.Unmarshal([]byte(trimmed), &lines); err != nil {
			return queue.History{}, fmt.Errorf("read the history as JSON: %w", err)
		}
	} else if lines, err = fromCSV(trimmed); err != nil {
		return queue.History{}, err
	}
	var h queue.History
	for i, l := range lines {
		p, err := l.past()
		if err != nil {
			return queue.History{}, fmt.Errorf("line %d of the history: %w", i+1, err)
		}
		p.PR = int64(i + 1)
		h.Ended = append(h.Ended, p)
	}
	if len(h.Ended) == 0 {
		return queue.History{}, errors.New("the history is empty")
	}
	return h, nil
}

func (l recorded) past() (queue.Past, error) {
	p := queue.Past{ReadyAt: l.Ready, Test: time.Duration(l.Minutes * float64(time.Minute)), Targets: queue.Everything}
	const longest = 7 * 24 * 60
	switch {
	case l.Ready.IsZero():
		return p, errors.New("ready is missing: when the pull request was ready, as 2026-01-31T12:00:00Z")
	case !(l.Minutes >= 0 && l.Minutes <= longest):
		return p, fmt.Errorf("minutes is %v: how long the tests took, at most a week", l.Minutes)
	case l.Outcome != "merged" && l.Outcome != "failed":
		return p, fmt.Errorf("outcome is %q: merged or failed", l.Outcome)
	}
	p.Failed = l.Outcome == "failed"
	if len(l.Targets) > 0 && !slices.Equal(l.Targets, []string{"ALL"}) {
		p.Targets = queue.NewTargetSet(l.Targets)
	}
	return p, nil
}

// fromCSV reads lines by the names in the first one.
func fromCSV(text string) ([]recorded, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the history as CSV: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, name := range []string{"ready", "minutes", "outcome"} {
		if _, found := column[name]; !found {
			return nil, fmt.Errorf("the first line of the history has no column %q; it names the columns ready, minutes, outcome and, if there are any, targets", name)
		}
	}
	var lines []recorded
	for n, row := range rows[1:] {
		var l recorded
		if l.Ready, err = time.Parse(time.RFC3339, row[column["ready"]]); err != nil {
			return nil, fmt.Errorf("line %d of the history: ready is %q: give a time such as 2026-01-31T12:00:00Z", n+2, row[column["ready"]])
		}
		if l.Minutes, err = strconv.ParseFloat(row[column["minutes"]], 64); err != nil {
			return nil, fmt.Errorf("line %d of the history: minutes is %q, which is no number", n+2, row[column["minutes"]])
		}
		l.Outcome = row[column["outcome"]]
		if i, found := column["targets"]; found {
			l.Targets = strings.Fields(row[i])
		}
		lines = append(lines, l)
	}
	return lines, nil
}
