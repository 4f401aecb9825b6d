package sim

import (
	"testing"
	"time"

	"signalbox/queue"
)

// hedging is a queue in which #2 has failed on top of #1, which is bad, and is also
// tested without it, beside #3 that overlaps neither.
func hedging(t *testing.T) *World {
	t.Helper()
	s := queue.DefaultSettings()
	s.Mode, s.Concurrency, s.Speculation = queue.Parallel, 4, queue.AdaptiveSpeculation
	w := world(t, s, 0)
	for n, target := range []string{"a", "a", "z"} {
		pr := int64(n + 1)
		change := files{string(rune('a' + n)): "1"}
		if pr == 1 {
			change[".ci-sim/ci/bad"] = ""
		}
		ok(t, w.Open(pr, "alice", change))
		ok(t, w.Targets(pr, []string{target}))
		ok(t, w.Submit(pr, Wish{}))
	}
	ok(t, w.Settle())
	report(t, w, w.RunOf(2), "failure")
	return w
}

func report(t *testing.T, w *World, r *queue.Run, result string) {
	t.Helper()
	if r == nil {
		t.Fatal("there is no such run")
	}
	w.Report(r.Commit, "ci", result)
	ok(t, w.Settle())
}

// What landed since a hedge began was landed by a program that knows hedges, or it may
// lack that: an older program lands beside them and drops none.
func TestAHedgeServesOnlyIfWhoLandedSinceKnewOfIt(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		w := hedging(t)
		hedge := w.HedgeOf(2, 1)
		report(t, w, hedge, "success")
		report(t, w, w.RunOf(3), "success")
		state(t, w, 3, queue.Merged)
		if older {
			for i := range w.state.Queue.Landed {
				w.state.Queue.Landed[i].Hedged = false
			}
		}
		report(t, w, w.RunOf(1), "failure")
		if older {
			state(t, w, 2, queue.Testing)
			report(t, w, w.RunOf(2), "success")
		}
		state(t, w, 2, queue.Merged)
		if by := w.Entry(2).VerifiedBy; (by == hedge.ID) == older {
			t.Errorf("landed by an older program %v: #2 landed by run %s, and was tested without #1 by %s", older, by, hedge.ID)
		}
	}
}

// Of a hedge that could not be built, or whose branch or checks somebody else ended,
// nothing follows, and it is not begun again and again.
func TestAHedgeThatEndsForNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *World, r *queue.Run){
		"its branch was deleted":  func(w *World, r *queue.Run) { w.notify(queue.TestBranchMoved{Branch: r.Branch}) },
		"its check was cancelled": func(w *World, r *queue.Run) { w.Report(r.Commit, "ci", "cancelled") },
		"it is still being built, and nobody tells": func(w *World, r *queue.Run) {
			r.State, r.Deadline = queue.Building, w.clock().Add(time.Minute)
		},
		"its build failed": func(w *World, r *queue.Run) {
			r.State = queue.Building
			w.notify(queue.RunNotBuilt{Run: r.ID, Trouble: queue.TroubleConflict, Message: "It does not merge."})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hedging(t)
			hedge, before := w.HedgeOf(2, 1), w.state.Queue.Runs
			if hedge == nil {
				t.Fatal("#2 is not tested without #1")
			}
			end(w, w.state.Runs[hedge.ID])
			ok(t, w.Advance(10*time.Minute))
			if r := w.HedgeOf(2, 1); r == nil || r.State != queue.Interrupted || w.state.Queue.Runs != before {
				t.Fatalf("there are %d runs, %d before; the hedge is %+v: want it interrupted, and no other", w.state.Queue.Runs, before, r)
			}
			report(t, w, w.RunOf(1), "failure")
			state(t, w, 2, queue.Testing)
			if r := w.RunOf(2); r.ID == hedge.ID {
				t.Fatal("#2 is tested by a run of which nothing follows")
			}
			report(t, w, w.RunOf(2), "success")
			state(t, w, 2, queue.Merged)
		})
	}
}
