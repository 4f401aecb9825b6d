package sim

import (
	"strings"
	"testing"
)

// A goal names the closest of ours, of ours without a predictor, and of the others,
// each by itself: what history alone earns is not hidden behind the predictor.
func TestWhoComesClosestToAGoal(t *testing.T) {
	t.Parallel()
	of := func(p Policy, runs float64) Row {
		return Row{Cell: Cell{Name: "A4 cost p=1%"}, Policy: p.Name, Ours: p.Ours, FromHistory: p.FromHistory, Runs: Mean{Value: runs}}
	}
	rows := []Row{
		of(Policy{Name: "theirs"}, 0.3), of(Policy{Name: "of theirs the best"}, 0.19),
		of(Engine("ours", Fixed(1)), 0.25), of(Engine("of ours the best", Fixed(1)), 0.15),
		of(Untold("history", Fixed(1)), 0.21),
	}
	var out strings.Builder
	if err := WriteGoals(&out, rows); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	want := "goal cell closest by the goal must wanted " +
		"A4 A4 cost p=1% of ours the best 0.15 runs met missed " +
		"A4 A4 cost p=1% history 0.21 runs missed missed " +
		"A4 A4 cost p=1% of theirs the best 0.19 runs met missed"
	if got != want {
		t.Errorf("the goals say\n%s\nwant\n%s", got, want)
	}
}

// Who is told nothing expects what history says: where one in ten fails, and the predictor
// knows who, it does not keep them apart as the other does.
func TestUntoldAsksNoPredictor(t *testing.T) {
	t.Parallel()
	w := Generate(Cell{PerHour: 30, Workers: 20, Fails: 0.1, Test: fixed20, Predictor: 1, Changes: 60}, 1)
	runs := func(p Policy) float64 {
		r, err := Play(t.Context(), w, p)
		if err != nil {
			t.Fatal(err)
		}
		return r.Runs
	}
	told, untold := runs(Engine("told", Adaptive(20))), runs(Untold("untold", Adaptive(20)))
	if told != 1 || untold <= 1.1 {
		t.Errorf("told who fails it makes %v runs for each change, untold %v: want 1 and more", told, untold)
	}
}
