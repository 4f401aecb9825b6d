package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
)

// ledger is what is known of a branch without asking the queue: its commits, as
// git has them, what CI said of trees, and what people did. It is compared with
// the one thing that the queue says, which pull requests it has merged. Unlike
// verify-history it believes no receipt, and no run.
type ledger struct {
	commits []githubsim.Logged // along first parents, newest first
	paths   []string           // of all files of the newest
	passed  map[string]bool    // trees that CI has passed
	foreign map[string]bool    // commits that people pushed past the queue
	own     map[int]string     // of each pull request a path that nobody else adds
	merged  map[int]bool       // pull requests that the queue calls merged, ever
	// lanes: what lands need not have a tree that was tested, as several lanes meet.
	lanes bool
}

// faults says in words what is amiss.
func (l ledger) faults() []string {
	return slices.Concat(l.untested(), l.twice(), l.lost(), l.overwritten())
}

// untested: every commit of the queue has a tree that CI has passed, or stands
// right beneath one of the queue that has: they landed together.
func (l ledger) untested() (faults []string) {
	together := false
	for _, c := range l.commits {
		ours := !l.foreign[c.SHA] && len(c.Parents) > 0
		together = ours && (together || l.passed[c.Tree])
		if ours && !together && !l.lanes {
			faults = append(faults, fmt.Sprintf("%.10s (#%d) is on main, and CI has passed neither its tree nor what landed with it", c.SHA, c.PR))
		}
	}
	return faults
}

// twice: each pull request is one commit.
func (l ledger) twice() (faults []string) {
	times := map[int]int{}
	for _, c := range l.commits {
		times[c.PR]++
	}
	for _, pr := range slices.Sorted(maps.Keys(times)) {
		if pr != 0 && times[pr] > 1 {
			faults = append(faults, fmt.Sprintf("#%d is on main %d times", pr, times[pr]))
		}
	}
	return faults
}

// lost: what the queue calls merged is there, and nothing else is.
func (l ledger) lost() (faults []string) {
	there := map[string]bool{}
	for _, path := range l.paths {
		there[path] = true
	}
	for _, pr := range slices.Sorted(maps.Keys(l.own)) {
		switch path := l.own[pr]; {
		case l.merged[pr] && !there[path]:
			faults = append(faults, fmt.Sprintf("#%d is called merged, and its file %s is not on main", pr, path))
		case !l.merged[pr] && there[path]:
			faults = append(faults, fmt.Sprintf("#%d was never merged, and its file %s is on main", pr, path))
		}
	}
	return faults
}

// overwritten: what people pushed is still there.
func (l ledger) overwritten() (faults []string) {
	for _, sha := range slices.Sorted(maps.Keys(l.foreign)) {
		if !slices.ContainsFunc(l.commits, func(c githubsim.Logged) bool { return c.SHA == sha }) {
			faults = append(faults, fmt.Sprintf("%.10s was pushed to main, and is gone", sha))
		}
	}
	return faults
}

// The one who checks is checked: each row breaks one promise.
func TestTheLedgerSeesEveryBrokenPromise(t *testing.T) {
	t.Parallel()
	on := func(sha, tree string, pr int, below ...string) githubsim.Logged {
		return githubsim.Logged{SHA: sha, Tree: tree, PR: pr, Parents: below}
	}
	for name, c := range map[string]struct {
		spoil func(l *ledger)
		says  string
	}{
		"nothing":                          {func(*ledger) {}, ""},
		"untested":                         {func(l *ledger) { delete(l.passed, "t2") }, "c1 (#1) is on main, and CI"},
		"half of what was tested together": {func(l *ledger) { l.commits = slices.Delete(l.commits, 2, 3); l.own, l.merged = nil, nil }, "c1 (#1) is on main, and CI"},
		"on top of what somebody pushed":   {func(l *ledger) { l.commits[0].Tree = "t4 and x" }, "c4 (#4) is on main, and CI"},
		"lanes need no tree":               {func(l *ledger) { l.passed, l.lanes = nil, true }, ""},
		"twice":                            {func(l *ledger) { l.commits[0].PR = 1 }, "#1 is on main 2 times"},
		"lost":                             {func(l *ledger) { l.paths = l.paths[1:] }, "#1 is called merged, and its file a is not on main"},
		"landed though it was cancelled":   {func(l *ledger) { l.paths = append(l.paths, "c") }, "#3 was never merged, and its file c is on main"},
		"a push overwritten":               {func(l *ledger) { l.foreign["c9"] = true }, "c9 was pushed to main, and is gone"},
	} {
		l := ledger{
			commits: []githubsim.Logged{on("c4", "t4", 4, "x1"), on("x1", "tx", 0, "c2"), on("c2", "t2", 2, "c1"), on("c1", "t1", 1, "c0"), on("c0", "t0", 0)},
			paths:   []string{"a", "b", "d"}, passed: map[string]bool{"t2": true, "t4": true}, foreign: map[string]bool{"x1": true},
			own: map[int]string{1: "a", 2: "b", 3: "c", 4: "d"}, merged: map[int]bool{1: true, 2: true, 4: true},
		}
		c.spoil(&l)
		if said := strings.Join(l.faults(), "\n"); c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %q, want %q", name, said, c.says)
		}
	}
}
