package github

import (
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// Cases from the field about landing. The test's name has the case's number.

// The process ends before the push, or after it and before anybody wrote down that
// it happened. Asked again, it lands once, and says so.
func TestBC14ACrashAroundThePushLandsOnce(t *testing.T) {
	for _, pushed := range []bool{false, true} {
		w := &world{}
		t.Run(map[bool]string{false: "before", true: "after"}[pushed], func(t *testing.T) {
			w = newWorld(t)
			work := w.tested(queue.MergeCommit, queue.LandExact, w.open("a.txt", "a\n"), w.open("b.txt", "b\n"))
			if pushed {
				w.land(work) // and nobody heard
			}
			w.restart()
			end, _ := w.land(work)
			if end.Trouble != "" || len(end.Landed) != 2 || len(w.log()) != 3 || w.log()[0].SHA != work.Steps[1].Commit {
				t.Errorf("%+v", end)
			}
		})
	}
}

// Branches of authors are read and never pushed to: whatever approvals they have
// stay.
func TestBC43AnAuthorsBranchIsNeverPushedTo(t *testing.T) {
	for _, mode := range []queue.LandingMode{queue.LandExact, queue.LandHost} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			s := w.open("a.txt", "a\n")
			// Main moves on, so that somebody might think of updating the branch.
			_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("m", "m"), Message: "m", Author: "bob"})
			w.must(err)
			if end, _ := w.land(w.tested(queue.Squash, mode, s)); end.Trouble != "" || len(end.Landed) != 1 {
				t.Fatalf("%+v", end)
			}
			pr, err := w.c.PullRequest(w.ctx, w.repo, s.PR)
			w.must(err)
			branch, status := w.raw("/git/ref/heads/" + pr.HeadRef)
			if status != 0 || branch["object"].(map[string]any)["sha"] != s.Head {
				t.Errorf("the author's branch is %v", branch)
			}
		})
	}
}

// The host says later that it merged a pull request that we know as landed, or
// somebody opens it again: it does not land twice.
func TestBC89WhatLandedDoesNotLandAgain(t *testing.T) {
	w := newWorld(t)
	s := w.open("a.txt", "a\n")
	work := w.tested(queue.Squash, queue.LandHost, s)
	w.land(work)
	once := w.log()
	again := work
	again.Landing, again.Expect = 2, once[0].SHA
	end, _ := w.land(again)
	if len(end.Landed) != 0 || end.Trouble != queue.TroubleStale || !strings.Contains(end.Message, "merged already") || len(w.log()) != len(once) {
		t.Errorf("%+v", end)
	}
}

// The fork that a pull request came from is deleted. Its head is still on the host
// as refs/pull/N/head: it is tested and lands, or the reason is clear.
func TestBC35APullRequestOutlivesItsFork(t *testing.T) {
	w := newWorld(t)
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "From a fork", Author: "mallory", Fork: true, Files: files("f.txt", "f\n")})
	w.must(err)
	w.must(w.DeleteRepo("mallory/app", "mallory"))
	s := w.stepOf(int64(p.Number))
	seen, err := w.c.PullRequest(w.ctx, w.repo, s.PR)
	w.must(err)
	facts := w.build(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, s)}})
	if b, ok := facts["r1"].(queue.RunBuilt); !ok || b.Chain[0].Commit == "" {
		t.Fatalf("%+v", facts["r1"])
	}
	if !seen.Open {
		return // the host closed it: nothing lands
	}
	if end, _ := w.land(w.tested(queue.Squash, queue.LandExact, s)); end.Trouble != "" || len(end.Landed) != 1 {
		t.Errorf("%+v", end)
	}
}
