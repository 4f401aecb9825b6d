package proof_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/queue"
	"signalbox/queue/proof"
)

// step is a step of a chain, named by its pull request: head h1, commit c1, tree t1.
func step(pr int64, targets queue.TargetsID) queue.Step {
	n := string(rune('0' + pr))
	return queue.Step{Entry: queue.EntryID("e" + n), Submission: 1, PR: pr, Head: "h" + n, Commit: "c" + n, Tree: "t" + n, Targets: targets}
}

func receipt(seq, landing int64, s queue.Step, run queue.RunID, on string, last bool) queue.Receipt {
	return queue.Receipt{Seq: seq, Landing: landing, Entry: s.Entry, Submission: 1, PR: s.PR, Head: s.Head, Run: run, Method: queue.MergeCommit,
		On: on, Commit: s.Commit, Tree: s.Tree, Tested: s.Tree, Last: last}
}

func passed(id queue.RunID, seq int64, chain ...queue.Step) queue.Run {
	return queue.Run{ID: id, State: queue.RunPassed, Chain: chain, Tree: chain[len(chain)-1].Tree, Base: queue.Base{Seq: seq}}
}

// line is
//
//	c0 ── c1 ── c2    #1 and #2 passed together, in run r2
//	       └── c3     #3 in run r3, which began on c0: a lane of its own
//	            └ c4  #4 without a run
func line() proof.History {
	lane := receipt(3, 2, step(3, 3), "r3", "c2", true)
	lane.Recomputed, lane.Tested = true, "t3 alone"
	alone := step(3, 3)
	alone.Tree = "t3 alone"
	direct := receipt(4, 3, step(4, 0), "", "c3", true)
	direct.Recomputed, direct.Tested = true, ""
	return proof.History{
		Commits: []proof.Commit{{ID: "c0", Tree: "t0"}, {"c1", "t1", []string{"c0", "h1"}}, {"c2", "t2", []string{"c1", "h2"}},
			{"c3", "t3", []string{"c2", "h3"}}, {"c4", "t4", []string{"c3", "h4"}}},
		Receipts: []queue.Receipt{
			receipt(1, 1, step(1, 1), "r2", "c0", false), receipt(2, 1, step(2, 1), "r2", "c1", true), lane, direct},
		Runs:    map[queue.RunID]queue.Run{"r2": passed("r2", 0, step(1, 1), step(2, 1)), "r3": passed("r3", 0, alone)},
		Targets: map[queue.TargetsID]queue.TargetSet{1: queue.NewTargetSet([]string{"a"}), 3: queue.NewTargetSet([]string{"c"})},
		Merged:  map[string]string{"c3": "t3", "c4": "t4"},
	}
}

func TestEveryWayOfProof(t *testing.T) {
	t.Parallel()
	r := proof.Check(line())
	want := []proof.How{proof.Together, proof.Tested, proof.Lane, proof.Direct}
	for i, l := range r.Landings {
		if l.How != want[i] || l.Problem != "" || l.Note != "" {
			t.Errorf("#%d: %+v, want %s", l.PR, l, want[i])
		}
	}
	if r.Problems() != 0 || len(r.Others) != 0 || r.Commits != 4 {
		t.Errorf("%+v", r)
	}
}

// Each row breaks one thing; of which pull request, and in what words that is said.
func TestWhatIsNotProven(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(h *proof.History)
		pr    int64
		says  string
	}{
		{"a run that is gone", func(h *proof.History) { delete(h.Runs, "r2") }, 2, "is not there"},
		{"a run that failed", func(h *proof.History) { r := h.Runs["r2"]; r.State = queue.RunFailed; h.Runs["r2"] = r }, 1, "is failed"},
		{"a run without it", func(h *proof.History) { h.Runs["r2"] = passed("r2", 0, step(2, 1)) }, 1, "did not test it"},
		{"another head", func(h *proof.History) { h.Receipts[1].Head = "h9" }, 2, "did not test it"},
		{"another submission", func(h *proof.History) { h.Receipts[1].Submission = 2 }, 2, "did not test it"},
		{"another tree in the run", func(h *proof.History) {
			other := step(2, 1)
			other.Tree = "t9"
			h.Runs["r2"] = passed("r2", 0, step(1, 1), other)
		}, 2, "had tree t9"},
		{"another tree on the branch", func(h *proof.History) { h.Commits[2].Tree = "t9" }, 2, "its tree is t9"},
		{"another tree than tested", func(h *proof.History) { h.Commits[2].Tree, h.Receipts[1].Tree = "t9", "t9" }, 2, "landed with tree t9"},
		{"a loud mismatch", func(h *proof.History) { h.Receipts[1].Differs = "they differ in x" }, 2, "they differ in x"},
		{"a commit that is gone", func(h *proof.History) { h.Commits = append(h.Commits[:2:2], h.Commits[3:]...) }, 2, "not on the branch"},
		{"another order", func(h *proof.History) { h.Receipts[0], h.Receipts[1] = h.Receipts[1], h.Receipts[0] }, 1, "before what landed before it"},
		{"twice", func(h *proof.History) {
			again := h.Receipts[0]
			again.Commit, again.Seq = "c4", 4
			h.Receipts[3] = again
		}, 1, "it landed before"},
		{"another merge", func(h *proof.History) { h.Merged["c3"] = "t9" }, 3, "gives tree t9"},
		{"a lane on somebody's push", func(h *proof.History) {
			h.Commits = slices.Insert(h.Commits, 3, proof.Commit{ID: "c9", Tree: "t9", Parents: []string{"c2"}})
			h.Commits[4].Parents[0] = "c9"
		}, 3, "was not tested on that"},
		{"no run, on somebody's push", func(h *proof.History) { h.Commits[4].Parents[0] = "c9" }, 4, "was not tested on that"},
		{"no merge", func(h *proof.History) { delete(h.Merged, "c4") }, 4, "cannot be merged again"},
		{"merged late, on something else", func(h *proof.History) { h.Receipts[1].Tree, h.Commits[2].Tree = "", "t9" }, 2, "nobody tested that"},
		{"merged late, and gone", func(h *proof.History) { h.Receipts[3].Tree, h.Receipts[3].Commit = "", "c9" }, 4, "not on the branch"},
		{"a lane that was none", func(h *proof.History) { h.Targets[3] = h.Targets[1] }, 3, "tested without #1"},
		{"a lane that said nothing", func(h *proof.History) {
			r := h.Runs["r3"]
			r.Chain[0].Targets = 0
		}, 3, "tested without #1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := line()
			tt.spoil(&h)
			report := proof.Check(h)
			said := false
			for _, l := range report.Landings {
				if l.PR == tt.pr && strings.Contains(l.Problem, tt.says) && l.How == proof.NotProven {
					said = true
				}
			}
			if !said || report.Problems() == 0 {
				t.Errorf("nobody says of #%d that %q: %+v", tt.pr, tt.says, report.Landings)
			}
		})
	}
}

// What is no broken promise of the queue's is said all the same.
func TestWhatIsWorthKnowing(t *testing.T) {
	t.Parallel()
	late := line()
	late.Receipts[1].Tree, late.Receipts[1].Differs = "", "late"
	if l := proof.Check(late).Landings[1]; l.How != proof.Tested || !l.Told || l.Tree != "t2" || !strings.Contains(l.Note, "after its landing had been given up") {
		t.Errorf("merged late as what was tested: %+v", l)
	}
	h := line()
	h.Receipts = h.Receipts[:1] // the host stopped after #1
	if l := proof.Check(h).Landings[0]; l.Problem != "" || !strings.Contains(l.Note, "half way") {
		t.Errorf("%+v", l)
	}
	if r := proof.Check(h); strings.Join(r.Others, " ") != "c2 c3 c4" {
		t.Errorf("put there by others: %v", r.Others)
	}
	h = line()
	h.Commits = slices.Insert(h.Commits, 3, proof.Commit{ID: "c9", Tree: "t2", Parents: []string{"c2"}}) // an empty commit
	h.Commits[4].Parents[0] = "c9"
	if l := proof.Check(h).Landings[2]; l.Problem != "" || !strings.Contains(l.Note, "somebody moved the branch") {
		t.Errorf("%+v", l)
	}
	// Rebased, a landing is several commits.
	h = line()
	for i := range h.Receipts {
		h.Receipts[i].Method = queue.Rebase
	}
	h.Receipts[3].On = "c3"
	h.Commits = append(h.Commits[:4:4], proof.Commit{ID: "c4a", Tree: "t4a", Parents: []string{"c3"}}, proof.Commit{ID: "c4", Tree: "t4", Parents: []string{"c4a"}})
	if r := proof.Check(h); r.Problems() > 0 || len(r.Others) > 0 {
		t.Errorf("%+v", r)
	}
}
