package github

// One look at the host: what a query of GraphQL says is what REST says, page by page.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

func TestALookSeesWhatRESTSees(t *testing.T) {
	w := newWorld(t)
	own := w.open("a.txt", "a\n")
	w.must(w.EditPull(githubsim.Edit{Repo: "acme/app", Number: int(own.PR), Author: "alice", AddLabel: []string{"Big"}}))
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "From\na fork", Body: "merge-commit-title: Short", Author: "mallory", Fork: true, Draft: true, Files: files("b.txt", "b\n")})
	w.must(err)
	bot, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "Update", Author: "dependabot[bot]", Branch: "dependabot/c", Files: files("c.txt", "c\n")})
	w.must(err)
	closed, landed := w.open("d.txt", "d\n"), w.open("e.txt", "e\n")
	w.must(w.ClosePull("acme/app", int(closed.PR), "alice"))
	if end, _ := w.land(w.tested(queue.Squash, queue.LandHost, landed)); end.Trouble != "" {
		t.Fatalf("%+v", end)
	}
	numbers := []int64{own.PR, int64(p.Number), int64(bot.Number), closed.PR, landed.PR}
	k, err := w.c.conn(w.repo)
	w.must(err)
	f, err := w.c.look(w.ctx, k, w.repo, question{pulls: numbers, branch: "main"})
	w.must(err)
	for _, n := range numbers {
		var rest github.PullRequest
		_, err := k.call(w.ctx, "GET", at(w.repo, "pulls", n), nil, &rest)
		w.must(err)
		pr, got, err := w.c.seenOf(w.repo, f, n)
		w.must(err)
		if diff := cmp.Diff(w.c.seen(&rest), got); diff != "" {
			t.Errorf("pull request %d (-REST +GraphQL):\n%s", n, diff)
		}
		if ours := got.Landed != ""; ours != (n == landed.PR) {
			t.Errorf("pull request %d was merged by us: %v", n, ours)
		}
		if got.Merged && pr.GetMergeCommitSHA() != rest.GetMergeCommitSHA() || pr.GetNodeID() != rest.GetNodeID() {
			t.Errorf("pull request %d: merged as %q, %q; %q, %q", n, pr.GetMergeCommitSHA(), rest.GetMergeCommitSHA(), pr.GetNodeID(), rest.GetNodeID())
		}
	}
	commit, tree, err := w.c.Target(w.ctx, w.repo, "main")
	w.must(err)
	if f.missing || f.target != commit || f.tree != tree || !f.unprotected {
		t.Errorf("main is %+v, want %s %s", f, commit, tree)
	}
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Checks: []string{"classic"}}))
	if f, err := w.c.look(w.ctx, k, w.repo, question{branch: "main"}); err != nil || f.unprotected {
		t.Errorf("main is protected now: %+v %v", f, err)
	}
}

func TestALookSeesAllReports(t *testing.T) {
	w := newWorld(t)
	head := w.open("a.txt", "a\n").Head
	for i := range 103 {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: head, Name: fmt.Sprint("check ", i), Conclusion: []string{"success", "failure"}[i%2]}))
	}
	for i := range 5 {
		w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: head, Name: fmt.Sprint("status ", i/2), Conclusion: []string{"pending", "success", "failure"}[i%3], Status: true}))
	}
	k, err := w.c.conn(w.repo)
	w.must(err)
	got, err := w.c.reported(w.ctx, k, w.repo, head)
	w.must(err)
	want, err := w.c.Checks(w.ctx, w.repo, head)
	w.must(err)
	byKey := func(list []queue.Report) map[string]queue.Report {
		m := map[string]queue.Report{}
		for _, r := range list {
			if r.Kind == queue.CommitStatus {
				r.ID = 0 // GraphQL does not tell it
			}
			m[r.Key()] = r
		}
		return m
	}
	if diff := cmp.Diff(byKey(want), byKey(got)); diff != "" || len(got) != 106 {
		t.Errorf("%d reports (-REST +GraphQL):\n%s", len(got), diff)
	}
}

// What has no place in one query is asked for with the next, and the branch with the last.
func TestALookAtManyTakesSeveralQueries(t *testing.T) {
	w := newWorld(t)
	var numbers []int64
	for i := range pullsTogether + 2 {
		numbers = append(numbers, w.open(fmt.Sprint("file", i), strings.Repeat("x", i+1)).PR)
	}
	k, err := w.c.conn(w.repo)
	w.must(err)
	before := w.calls["POST /graphql"]
	f, err := w.c.look(w.ctx, k, w.repo, question{pulls: numbers, branch: "main"})
	w.must(err)
	if got := slices.Sorted(maps.Keys(f.pulls)); !slices.Equal(got, numbers) || f.target == "" || w.calls["POST /graphql"]-before != 2 {
		t.Errorf("%v, %+v, %d queries", got, f.target, w.calls["POST /graphql"]-before)
	}
}
