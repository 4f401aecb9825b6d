package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

// A history is replayed with the settings of then and with others: what landed
// and what failed does so again, and one slot is slower than four.
func TestReplay(t *testing.T) {
	t.Parallel()
	h := queue.History{Since: Start, Until: Start.Add(24 * time.Hour), Runs: 50, Testing: 9 * time.Hour}
	for i := range 40 {
		at := Start.Add(time.Duration(i) * 10 * time.Minute)
		h.Ended = append(h.Ended, queue.Past{PR: int64(i), ReadyAt: at, EndedAt: at.Add(30 * time.Minute), Failed: i%10 == 9, Test: 15 * time.Minute, Targets: queue.Everything})
	}
	h.Ended[3].Test = 0 // not known: the median
	one, four := Fixed(1), Fixed(4)
	p, err := Replay(t.Context(), h, one, four)
	if err != nil {
		t.Fatal(err)
	}
	if p.Happened.Merged != 36 || p.Happened.Failed != 4 || p.Happened.P50 != 30*time.Minute || p.Happened.Runs != 1.25 || p.Happened.CIMinutes != 15 {
		t.Errorf("what happened: %+v", p.Happened)
	}
	for _, f := range []queue.Figures{p.AsIs, p.Changed} {
		if f.Merged != 36 || f.Failed != 4 {
			t.Errorf("replayed, %d land and %d fail; 36 and 4 did", f.Merged, f.Failed)
		}
	}
	if p.Changed.P50 != 15*time.Minute || p.AsIs.P50 < time.Hour || p.AsIs.MostWaiting < 10 || p.Changed.MostWaiting > 6 {
		t.Errorf("one slot: %+v\nfour: %+v", p.AsIs, p.Changed)
	}

	four.Mode = queue.Parallel
	for i := range h.Ended { // nobody overlaps anybody: a failure holds up nobody
		h.Ended[i].Targets = queue.TargetSet{Hashes: []uint64{uint64(i)}}
	}
	if p, err = Replay(t.Context(), h, one, four); err != nil || p.Changed.P99 != 15*time.Minute || p.Changed.Runs != 1 {
		t.Errorf("in lanes of their own: %+v, %v", p.Changed, err)
	}
	if _, err := Replay(t.Context(), queue.History{}, one, four); !errors.Is(err, queue.ErrNoHistory) {
		t.Errorf("an empty history: %v", err)
	}
}

// Both forms of a file say the same; what is wrong is said with its line.
func TestReadHistory(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"csv":  "ready,outcome,minutes,targets\n2026-01-31T12:00:00Z,merged,12.5,a b\n2026-01-31T12:01:00Z,failed,3,\n",
		"json": `[{"ready":"2026-01-31T12:00:00Z","minutes":12.5,"outcome":"merged","targets":["a","b"]},{"ready":"2026-01-31T12:01:00Z","minutes":3,"outcome":"failed"}]`,
	} {
		h, err := ReadHistory(strings.NewReader(text))
		if err != nil || len(h.Ended) != 2 {
			t.Errorf("%s: %v, %v", name, h, err)
			continue
		}
		if a, b := h.Ended[0], h.Ended[1]; a.Failed || a.Test != 750*time.Second || len(a.Targets.Hashes) != 2 || !b.Failed || !b.Targets.All {
			t.Errorf("%s: %+v", name, h.Ended)
		}
	}
	for text, says := range map[string]string{
		"":                                    "is empty",
		"ready,minutes\n":                     `no column "outcome"`,
		"ready,minutes,outcome\nx,1,merged\n": "line 2 of the history: ready",
		"ready,minutes,outcome\n2026-01-31T12:00:00Z,x,merged\n":   "line 2 of the history: minutes",
		"ready,minutes,outcome\n2026-01-31T12:00:00Z,NaN,merged\n": "minutes is NaN",
		"ready,minutes,outcome\n2026-01-31T12:00:00Z,1,landed\n":   `outcome is "landed"`,
		"ready,minutes,outcome\n2026-01-31T12:00:00Z,1\n":          "as CSV",
		"[1]":                                "as JSON",
		`[{"minutes":1,"outcome":"merged"}]`: "ready is missing",
	} {
		if _, err := ReadHistory(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that says %q", text, err, says)
		}
	}
}

// Where one line is overloaded the advice is batches; where flakes throw out good
// changes, it is what forgives them; where there is room, one by one.
func TestAdvice(t *testing.T) {
	t.Parallel()
	over := Cell{PerHour: 120, Workers: 20, Fails: 0.02, Test: fixed20, Changes: 150}
	flaky := Cell{PerHour: 20, Workers: 20, Flakes: 0.1, Test: fixed20, Changes: 150}
	room := Cell{PerHour: 1, Workers: 20, Test: fixed20, Changes: 60}
	for _, tt := range []struct {
		cell Cell
		want string
	}{{over, "batches"}, {flaky, "optimistic"}, {room, "concurrency"}} {
		a, err := Recommend(t.Context(), []*Workload{Generate(tt.cell, 1)}, tt.cell.Workers)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a.Choices[0].Name, tt.want) || !strings.HasPrefix(a.Says, a.Choices[0].Name) {
			t.Errorf("%s: the advice is %s", tt.cell, a.Says)
		}
	}
}
