package sim

import (
	"slices"
	"strings"
	"testing"
)

// The headline cells of the benchmark: every policy plays the same workloads.
// What every policy must keep is held while they play; here is held what must be
// true of ours, and the musts that are met stay met. go test -v shows the table;
// docs/benchmarks.md has a longer run, and says which goals are not met.
func TestHeadline(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of processor time")
	}
	t.Parallel()
	rows, err := Compare(t.Context(), Headline(200), []uint64{1}, Contenders, unwatched)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := WriteTable(&table, rows); err != nil {
		t.Fatal(err)
	}
	t.Log(Says + "\n" + table.String())

	at := map[string]Row{}
	for _, r := range rows {
		at[r.Cell.Name+"/"+r.Policy] = r
		if r.Wrongly.Value > 0 {
			t.Errorf("%s, %s: %v of the changes landed and break main", r.Cell.Name, r.Policy, r.Wrongly.percent())
		}
		if r.Falsely.Value > 0 && r.Cell.Flakes == 0 {
			t.Errorf("%s, %s: %v of the changes were thrown out, and CI never erred", r.Cell.Name, r.Policy, r.Falsely.percent())
		}
	}
	for _, tt := range []struct{ id, cell, policy string }{
		{"A1", "A1 lanes 100/h", "… batches of 4, optimistic"},
		{"A1", "A1 lanes 300/h", "… batches of 4, optimistic"},
		{"A1", "A1 lanes 500/h", "… batches of 4, optimistic"},
		{"A2", "A1 lanes 100/h", "… batches of 4, optimistic"},
		{"A2", "A1 lanes 300/h", "… batches of 4, optimistic"},
		{"A2", "A1 lanes 500/h", "… batches of 4, optimistic"},
		{"A4", "A4 cost p=1%", "… batches of 16, a line of 1"},
		{"A4", "A4 cost p=2%", "… batches of 16, a line of 1"},
		{"A4", "A4 cost p=5%", "… batches of 16, a line of 1"},
		{"A8", "A8 overload 2", "… batches of 16"},
		{"A8", "A8 overload 4", "… batches of 16"},
		{"A1", "A1 lanes 100/h", "adaptive"},
		{"A1", "A1 lanes 300/h", "adaptive"},
		{"A1", "A1 lanes 500/h", "adaptive"},
		{"A2", "A1 lanes 100/h", "adaptive"},
		{"A2", "A1 lanes 300/h", "adaptive"},
		{"A2", "A1 lanes 500/h", "adaptive"},
		{"A3", "A3 single 60/h", "adaptive"},
		{"A4", "A4 cost p=1%", "adaptive"},
		{"A4", "A4 cost p=2%", "adaptive"},
		{"A4", "A4 cost p=5%", "adaptive"},
		{"A8", "A8 overload 2", "adaptive"},
		{"A8", "A8 overload 4", "adaptive"},
	} {
		goal := Goals[slices.IndexFunc(Goals, func(g Goal) bool { return g.ID == tt.id && g.Cell == tt.cell })]
		if r := at[tt.cell+"/"+tt.policy]; !goal.Must.Met(r) {
			t.Errorf("%s, %s: the must %+v of %s is not met any more: %s", tt.cell, tt.policy, goal.Must, goal.ID, goal.figures(r))
		}
	}
	for _, cell := range []string{"A9 single 20/h", "A9 single 60/h", "A9 lanes 100/h"} {
		ours, zuul := at[cell+"/signalbox"], at[cell+"/zuul"]
		if ours.P50.Value > 1.02*zuul.P50.Value || ours.P95.Value > 1.02*zuul.P95.Value || ours.P99.Value > 1.02*zuul.P99.Value {
			t.Errorf("%s: worse than Zuul's gate: %v", cell, lines(goalColumns, []Row{ours, zuul}))
		}
	}
	calm, flaky := at["A6 no flakes/… optimistic, depth 2"], at["A6 flakes 5%/… optimistic, depth 2"]
	if flaky.Falsely.Value > 0.002 || flaky.Minutes95.Value > 1.3*calm.Minutes95.Value {
		t.Errorf("flakes: %v are thrown out for nothing, and the turnaround is %v instead of %v minutes", flaky.Falsely.percent(), flaky.Minutes95, calm.Minutes95)
	}
}
