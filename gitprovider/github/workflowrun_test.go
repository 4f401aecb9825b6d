package github

import (
	"testing"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
)

// A run of CI speaks for a pull request from a fork while it runs, and at no
// other time.
func TestAForkRunIsOneInProgressFromAFork(t *testing.T) {
	w := newWorld(t)
	w.must(w.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "acme", Name: "other"}))
	open := func(repo string, fork bool) githubsim.Opened {
		p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: repo, Title: "Change", Author: "mallory", Fork: fork, Files: files("m.txt", "1")})
		w.must(err)
		return p
	}
	forked, own, elsewhere := open("acme/app", true), open("acme/app", false), open("acme/other", true)
	run := func(in githubsim.WorkflowRun) int64 {
		if in.Repo == "" {
			in.Repo = "acme/app"
		}
		id, err := w.SetWorkflowRun(w.ctx, in)
		w.must(err)
		return id
	}
	tests := []struct {
		name string
		run  int64
		live bool
		head string
	}{
		{"in progress for a fork's pull request", run(githubsim.WorkflowRun{Number: forked.Number}), true, forked.HeadSHA},
		{"queued", run(githubsim.WorkflowRun{Number: forked.Number, Status: "queued"}), false, forked.HeadSHA},
		{"over", run(githubsim.WorkflowRun{Number: forked.Number, Status: "completed"}), false, forked.HeadSHA},
		{"not from a fork", run(githubsim.WorkflowRun{Number: own.Number}), false, own.HeadSHA},
		{"not for a pull request", run(githubsim.WorkflowRun{Number: forked.Number, Event: "push"}), false, forked.HeadSHA},
		{"with the secrets of the repository", run(githubsim.WorkflowRun{Number: forked.Number, Event: "pull_request_target"}), false, forked.HeadSHA},
	}
	for _, tt := range tests {
		head, live, err := w.c.ForkRun(w.ctx, w.repo, tt.run)
		if err != nil || live != tt.live || head != tt.head {
			t.Errorf("%s: %s, live %v, %v", tt.name, head, live, err)
		}
	}
	for name, id := range map[string]int64{
		"that nobody began": 99, "of another repository": run(githubsim.WorkflowRun{Repo: "acme/other", Number: elsewhere.Number}),
	} {
		if _, live, err := w.c.ForkRun(w.ctx, w.repo, id); gitprovider.KindOf(err) != gitprovider.Gone || live {
			t.Errorf("a run %s: live %v, %v", name, live, err)
		}
	}
	// It ends between two questions.
	run(githubsim.WorkflowRun{ID: tests[0].run, Number: forked.Number, Status: "completed"})
	if _, live, err := w.c.ForkRun(w.ctx, w.repo, tests[0].run); live || err != nil {
		t.Errorf("after its end: live %v, %v", live, err)
	}
}
