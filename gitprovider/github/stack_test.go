package github

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// on opens a pull request by alice on top of a branch.
func (w *world) on(base, branch string, pairs ...string) int64 {
	w.t.Helper()
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "Change " + branch, Author: "alice", Base: base, Branch: branch, Files: files(pairs...)})
	w.must(err)
	return int64(p.Number)
}

// judged is what a read of a stack says about each pull request.
func (w *world) judged(numbers ...int64) map[int64]string {
	w.t.Helper()
	said := map[int64]string{}
	for range 400 { // the host computes mergeability when it is first asked
		facts, err := w.c.Stack(w.ctx, w.repo, "main", numbers)
		w.must(err)
		computing := false
		for _, f := range facts {
			if m, ok := f.(queue.MergeabilitySeen); ok {
				said[m.PR] = strings.TrimSpace(fmt.Sprintf("%s %s", m.Value, m.Why))
				computing = computing || m.Value == queue.MergeabilityInProgress
			}
		}
		if !computing {
			return said
		}
	}
	w.t.Fatal("the host never says")
	return nil
}

// A stack is judged by the rules of the branch where it lands: the branches
// between have none, and the host calls what is based on them mergeable.
func TestAStackIsJudgedByTheRulesOfTheTarget(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	w.must(w.SetPermission("acme/app", "rev", "write"))
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Branch: "main", Reviews: 1, AppMayPush: true}))
	one := w.on("main", "first", "a.txt", "a\n")
	two := w.on("first", "second", "b.txt", "b\n")
	w.must(w.Review("acme/app", int(one), "rev", "approved", ""))
	said := w.judged(one, two)
	if said[one] != "mergeable" || !strings.HasPrefix(said[two], "not_mergeable") || !strings.Contains(said[two], "approv") {
		t.Errorf("without an approval of the upper one: %v", said)
	}
	w.must(w.Review("acme/app", int(two), "rev", "approved", ""))
	if said := w.judged(one, two); said[one] != "mergeable" || said[two] != "mergeable" {
		t.Errorf("with both approved: %v", said)
	}
}

// What the top does not contain would not land with it.
func TestEachPullRequestOfAStackMustContainTheOneBeneath(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	one := w.on("main", "first", "a.txt", "a\n")
	two := w.on("first", "second", "b.txt", "b\n")
	if said := w.judged(one, two); said[two] != "mergeable" {
		t.Errorf("at first: %v", said)
	}
	_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "first", Author: "alice", Message: "More", Files: files("a.txt", "aa\n")})
	w.must(err)
	want := fmt.Sprintf("not_mergeable Its branch does not contain the newest commits of pull request %d, on which it stands; bring it up to date.", one)
	if said := w.judged(one, two); said[one] != "mergeable" || said[two] != want {
		t.Errorf("after a push to the lower one: %v, want %q", said, want)
	}
}

// A pull request stands on the open ones that come from its base branch in this
// very repository.
func TestFromFindsThePullRequestsOfABranch(t *testing.T) {
	w := newWorld(t)
	one := w.on("main", "first", "a.txt", "a\n")
	w.on("first", "second", "b.txt", "b\n")
	_, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "A fork's", Author: "eve", Branch: "first", Fork: true, Files: files("c.txt", "c\n")})
	w.must(err)
	for branch, want := range map[string][]int64{"first": {one}, "main": nil, "a/b: c&d=e#f": nil} {
		found, err := w.c.From(w.ctx, w.repo, branch)
		w.must(err)
		if got := numbersOf(found); !slices.Equal(got, want) {
			t.Errorf("from %q come %v, want %v", branch, got, want)
		}
	}
	w.must(w.ClosePull("acme/app", int(one), "alice"))
	if found, err := w.c.From(w.ctx, w.repo, "first"); err != nil || len(found) != 0 {
		t.Errorf("after it was closed: %v %v", found, err)
	}
}

// Whatever of a stack has changed, or is not allowed, keeps all of it from
// landing, and its pull requests keep their bases.
func TestAStackLandsWholeOrNotAtAll(t *testing.T) {
	for name, change := range map[string]func(w *world, one, two int64){
		"pushed to": func(w *world, one, two int64) {
			_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "first", Author: "alice", Message: "More", Files: files("a.txt", "aa\n")})
			w.must(err)
		},
		"closed": func(w *world, one, two int64) { w.must(w.ClosePull("acme/app", int(one), "alice")) },
		"drafted": func(w *world, one, two int64) {
			draft := true
			w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(one), Author: "alice", Draft: &draft}))
		},
		"not approved": func(w *world, one, two int64) {
			w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Branch: "main", Reviews: 1, AppMayPush: true}))
			w.must(w.SetPermission("acme/app", "rev", "write"))
			w.must(w.Review("acme/app", int(two), "rev", "approved", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
			one := w.on("main", "first", "a.txt", "a\n")
			two := w.on("first", "second", "b.txt", "b\n")
			lower := w.stepOf(one)
			top := w.stepOf(two)
			top.Stack, top.On = []queue.Under{{PR: one, Head: lower.Head}}, "first"
			built := w.build(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.MergeCommit, 1, top)}, RequiredStatuses: []string{"test"}})["r1"].(queue.RunBuilt)
			top.Step = built.Chain[0]
			change(w, one, two)
			ended, _, err := w.c.Land(w.ctx, w.repo, queue.Land{Landing: 1, Branch: "main", Mode: queue.LandExact, Method: queue.MergeCommit, Expect: built.Base.Commit, Steps: []queue.StepSpec{top}}, w.turn)
			w.must(err)
			if ended.Trouble == "" || len(ended.Landed) != 0 || !strings.Contains(ended.Message, fmt.Sprint("ull request ", one)) {
				t.Errorf("the landing ended as %+v, want it stopped because of #%d", ended, one)
			}
			if pr, _ := w.raw("/pulls/" + itoa(two)); pr["merged"] != false || pr["base"].(map[string]any)["ref"] != "first" {
				t.Errorf("the top is merged: %v, based on %v", pr["merged"], pr["base"].(map[string]any)["ref"])
			}
		})
	}
}

// Labels are compared without regard to case, and those of others stay.
func TestLabelsAreGivenAndTaken(t *testing.T) {
	w := newWorld(t)
	s := w.open("a.txt", "a\n")
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(s.PR), Author: "alice", AddLabel: []string{"bug", "Queue", "signalbox: in line"}}))
	labels := func() string {
		pulls, err := w.Pulls("acme/app")
		w.must(err)
		return strings.Join(pulls[0].Labels, ", ")
	}
	for range 2 { // the second time there is nothing to do
		w.must(w.c.Labels(w.ctx, w.repo, s.PR, []string{"signalbox: testing"}, []string{"queue", "signalbox: in line", "nobody's"}))
		if got := labels(); got != "bug, signalbox: testing" {
			t.Errorf("labels: %s", got)
		}
	}
	if n := w.calls["POST /repos/{owner}/{repo}/issues/{issue_number}/labels"]; n > 1 {
		t.Errorf("labels were given %d times", n)
	}
}
