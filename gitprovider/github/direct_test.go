package github

import (
	"testing"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// A head that contains the branch's head and has passed what is required there
// needs no run; one that has not passed, or that the branch has left behind, does.
func TestWhoIsTestedOnTopAlready(t *testing.T) {
	w := newWorld(t)
	s := w.open("a.txt", "a\n")
	ask := func(required ...string) string {
		t.Helper()
		seen, err := w.c.Direct(w.ctx, w.repo, s.PR, "main", required)
		w.must(err)
		if seen.PR != s.PR || seen.Head != s.Head {
			t.Fatalf("about another: %+v", seen)
		}
		return seen.Target
	}
	main := w.log()[0].SHA
	if got := ask(); got != "" {
		t.Errorf("nothing has passed on it, and it is called tested on %s", got)
	}
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: s.Head, Name: "test", Conclusion: "success"}))
	if got := ask(); got != main {
		t.Errorf("it passed what the ruleset requires: tested on %q, want %s", got, main)
	}
	if got := ask("lint"); got != "" {
		t.Errorf("the queue requires another check, and it is called tested on %s", got)
	}
	_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("other.txt", "o\n"), Message: "other", Author: "alice"})
	w.must(err)
	if got := ask(); got != "" {
		t.Errorf("main has moved on, and it is called tested on %s", got)
	}
}

// Another lane landed in between: the tested tree no longer is what lands, and
// the tree to expect is that of the merge on the new head.
func TestAnotherLaneLandedInBetween(t *testing.T) {
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			w := newWorld(t)
			work := w.tested(method, queue.LandHost, w.open("a.txt", "a\n"))
			sha, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("lane.txt", "l\n"), Message: "the other lane", Author: "alice"})
			w.must(err)
			work.Expect = sha
			if end, _ := w.land(work); end.Trouble != queue.TroubleStale || len(end.Landed) != 0 {
				t.Fatalf("a tree that was not tested would land: %+v", end)
			}
			work.Recompute = true
			end, _ := w.land(work)
			if end.Trouble != "" || len(end.Landed) != 1 || end.Landed[0].Differs != "" || end.Landed[0].Tree == work.Steps[0].Tree {
				t.Fatalf("%+v", end)
			}
			if again, _ := w.land(work); again.Trouble != "" || len(again.Landed) != 1 || again.Landed[0].Differs != "" {
				t.Errorf("again: %+v", again)
			}
			clash := w.tested(method, queue.LandHost, w.open("b.txt", "mine\n"))
			if clash.Expect, err = w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("b.txt", "theirs\n"), Message: "same file", Author: "alice"}); err != nil {
				t.Fatal(err)
			}
			clash.Recompute = true
			if end, _ := w.land(clash); end.Trouble != queue.TroubleConflict || end.Entry != clash.Steps[0].Entry || len(end.Landed) != 0 {
				t.Errorf("a conflict with the other lane: %+v", end)
			}
		})
	}
}
