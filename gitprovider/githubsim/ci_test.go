package githubsim

// The simulated CI: decided by the tree, so that the history can be checked
// against the rule afterwards.

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"
)

func TestTwoChangesThatBreakOnlyTogether(t *testing.T) {
	w := newWorld(t)
	a := w.pull("a.txt", "a\n")
	b := w.pull("b.txt", "b\n", ".ci-sim/test/a-and-b", "a.txt\nb.txt\n")
	c := w.clone(w.token(), "acme/app")
	c.git("fetch", "--quiet", "origin", "refs/pull/1/head:a", "refs/pull/2/head:b")
	c.git("checkout", "--quiet", "-b", "together", "a")
	c.git("merge", "--quiet", "--no-edit", "b")
	together := c.git("rev-parse", "HEAD")
	c.git("push", "--quiet", "origin", "a:signalbox/a", "b:signalbox/b", "together:signalbox/both", "together:elsewhere")

	for sha, want := range map[string]string{a.HeadSHA: "success", b.HeadSHA: "success", together: "failure"} {
		e := w.app.wait(t, "check_suite", "completed", func(e event) bool { return e.at("check_suite", "head_sha") == sha })
		if e.at("check_suite", "conclusion") != want || e.at("check_suite", "app", "slug") != "github-actions" {
			t.Errorf("suite of %.7s: %v by %v, want %s", sha, e.at("check_suite", "conclusion"), e.at("check_suite", "app", "slug"), want)
		}
		pass, err := w.CIRule(w.ctx, "acme/app", "test", sha)
		if err != nil || pass != (want == "success") {
			t.Errorf("CIRule of %.7s: %v, %v", sha, pass, err)
		}
		runs, _, err := w.installation().Checks.ListCheckRunsForRef(w.ctx, "acme", "app", sha, nil)
		w.must(err)
		if runs.GetTotal() != 1 || runs.CheckRuns[0].GetConclusion() != want || runs.CheckRuns[0].GetName() != "test" {
			t.Errorf("runs of %.7s: %v", sha, runs.CheckRuns)
		}
	}
	w.delivered()
	if n := len(w.app.all("check_run", "completed")); n != 3 {
		t.Errorf("%d runs completed, want 3: a commit is tested once", n)
	}
	e := w.app.wait(t, "check_run", "completed", func(e event) bool { return e.at("check_run", "head_sha") == together })
	if summary, _ := e.at("check_run", "output", "summary").(string); !strings.Contains(summary, "a.txt, b.txt") {
		t.Errorf("the summary does not say why: %q", summary)
	}
}

func TestTheRuleOfTheSimulatedCI(t *testing.T) {
	t.Parallel()
	g, err := createStore(t.Context(), filepath.Join(t.TempDir(), "r.git"), "main", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	for _, test := range []struct {
		name  string
		files map[string]*string
		pass  bool
	}{
		{"nothing said", files("a", ""), true},
		{"an empty file always fails", files(".ci-sim/test/x", ""), false},
		{"blank lines are nothing", files(".ci-sim/test/x", "\n \n"), false},
		{"all paths are there", files(".ci-sim/test/x", "a\ndir/b\n", "a", "", "dir/b", ""), false},
		{"a folder is a path", files(".ci-sim/test/x", "dir", "dir/b", ""), false},
		{"one path is not there", files(".ci-sim/test/x", "a\nb\n", "a", ""), true},
		{"one file of two fails", files(".ci-sim/test/x", "nope\n", ".ci-sim/test/y", "a\n", "a", ""), false},
		{"files in folders count", files(".ci-sim/test/deep/er", "a\n", "a", ""), false},
		{"another check's file", files(".ci-sim/lint/x", ""), true},
		{"windows line ends", files(".ci-sim/test/x", "a\r\n", "a", ""), false},
	} {
		tree, err := g.edit("", test.files)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := TreePasses(t.Context(), g.dir, "test", tree)
		if err != nil || pass != test.pass {
			t.Errorf("%s: passes %v, %v; want %v", test.name, pass, err, test.pass)
		}
	}
	if _, err := TreePasses(t.Context(), g.dir, "test", strings.Repeat("1", 40)); err == nil {
		t.Error("a tree that is not there has an answer")
	}
}

func TestAFlakeIsDecidedAnewEachTime(t *testing.T) {
	t.Parallel()
	flaky := ciState{CI: CI{FlakeRate: 0.3, MinSeconds: 1, MaxSeconds: 3}}
	failed, again := 0, 0
	for n := range 1000 {
		tree := strings.Repeat(string(rune('a'+n%26)), n/26+1)
		first := flaky.decide(7, "test", tree, 1, checkOutcome{pass: true})
		if first.took < 1e9 || first.took > 3e9 {
			t.Fatalf("it took %v", first.took)
		}
		if second := flaky.decide(7, "test", tree, 1, checkOutcome{pass: true}); second != first {
			t.Fatal("the same attempt gave another outcome")
		}
		if !first.pass {
			failed++
			if !flaky.decide(7, "test", tree, 2, checkOutcome{pass: true}).pass {
				again++
			}
		}
		if flaky.decide(7, "test", tree, 1, checkOutcome{pass: false}).pass {
			t.Fatal("a tree that fails passed by chance")
		}
	}
	if failed < 240 || failed > 360 || again < failed/6 || again > failed/2 {
		t.Errorf("%d of 1000 failed by chance and %d of them again, want about 300 and 90", failed, again)
	}
}

func TestCITakesItsTimeAndCanBeRunAgain(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.repo(NewRepo{Owner: "acme", Name: "app", Checks: []string{"unit", "lint"}, CI: CI{MinSeconds: 0.05, PullRequests: true}})
	p := w.pull("a.txt", "a\n")
	first := w.app.wait(t, "check_run", "created", nil)
	if first.at("check_run", "status") != "queued" || first.at("check_run", "conclusion") != nil {
		t.Errorf("created as %v", first.at("check_run", "status"))
	}
	if prs, _ := first.at("check_run", "pull_requests").([]any); len(prs) != 1 {
		t.Errorf("the run lists %d pull requests", len(prs))
	}
	gh := w.installation()
	pr := w.known(gh, p.Number)
	if s := pr.GetMergeableState(); s != "unstable" && s != "clean" {
		t.Errorf("state %s while CI runs", s)
	}
	w.app.wait(t, "check_suite", "completed", nil)
	suites, _, err := gh.Checks.ListCheckSuitesForRef(w.ctx, "acme", "app", p.HeadSHA, nil)
	w.must(err)
	if suites.GetTotal() != 2 { // the App's own empty one, and the one of CI
		t.Errorf("%d suites", suites.GetTotal())
	}
	runs, _, err := gh.Checks.ListCheckRunsForRef(w.ctx, "acme", "app", p.HeadSHA, &github.ListCheckRunsOptions{CheckName: github.String("lint")})
	w.must(err)
	_, err = gh.Checks.ReRequestCheckRun(w.ctx, "acme", "app", runs.CheckRuns[0].GetID())
	w.must(err)
	eventually(t, "the second run", func() bool { return len(w.app.all("check_suite", "completed")) == 2 })
	all, _, err := gh.Checks.ListCheckRunsForRef(w.ctx, "acme", "app", p.HeadSHA, &github.ListCheckRunsOptions{Filter: github.String("all")})
	w.must(err)
	latest, _, err := gh.Checks.ListCheckRunsForRef(w.ctx, "acme", "app", p.HeadSHA, nil)
	w.must(err)
	if all.GetTotal() != 3 || latest.GetTotal() != 2 {
		t.Errorf("%d runs in all, %d latest", all.GetTotal(), latest.GetTotal())
	}
}

func TestTheAppReportsItsOwnCheck(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	gh := w.installation()
	run, _, err := gh.Checks.CreateCheckRun(w.ctx, "acme", "app", github.CreateCheckRunOptions{
		Name: "Signalbox (main)", HeadSHA: p.HeadSHA, Status: github.String("in_progress"),
		Output: &github.CheckRunOutput{Title: github.String("Waiting"), Summary: github.String("second in line")},
	})
	w.must(err)
	if run.GetApp().GetSlug() != "signalbox" || run.GetStatus() != "in_progress" || run.StartedAt == nil {
		t.Errorf("made by %s, %s", run.GetApp().GetSlug(), run.GetStatus())
	}
	_, resp, err := gh.Checks.UpdateCheckRun(w.ctx, "acme", "app", run.GetID(), github.UpdateCheckRunOptions{Name: "Signalbox (main)", Status: github.String("completed")})
	if err == nil || resp.StatusCode != 422 {
		t.Errorf("completed without a conclusion: %v", err)
	}
	run, _, err = gh.Checks.UpdateCheckRun(w.ctx, "acme", "app", run.GetID(), github.UpdateCheckRunOptions{Name: "Signalbox (main)", Conclusion: github.String("success")})
	w.must(err)
	if run.GetStatus() != "completed" || run.CompletedAt == nil {
		t.Errorf("then %s", run.GetStatus())
	}
	// Another App's run is not ours to change.
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: p.HeadSHA, Name: "other", Conclusion: "pending"}))
	runs, _, err := gh.Checks.ListCheckRunsForRef(w.ctx, "acme", "app", p.HeadSHA, &github.ListCheckRunsOptions{CheckName: github.String("other")})
	w.must(err)
	_, resp, err = gh.Checks.UpdateCheckRun(w.ctx, "acme", "app", runs.CheckRuns[0].GetID(), github.UpdateCheckRunOptions{Name: "other", Conclusion: github.String("success")})
	if err == nil || resp.StatusCode != 403 {
		t.Errorf("another App's run: %v", err)
	}
}

func TestASuiteIsAsGoodAsItsWorstRun(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string][]string{
		"success": {"success", "success"}, "skipped": {"skipped", "success"}, "failure": {"failure", "cancelled"},
		"timed_out": {"timed_out", "neutral"}, "brand_new": {"failure", "brand_new"},
	} {
		u := &suite{}
		for i, conclusion := range runs {
			u.runs = append(u.runs, &checkRun{name: strconv.Itoa(i), status: "completed", conclusion: conclusion})
		}
		if status, got := u.state(); status != "completed" || got != want {
			t.Errorf("%v: %s %s, want %s", runs, status, got, want)
		}
	}
	waiting := &suite{runs: []*checkRun{{name: "a", status: "completed", conclusion: "failure"}, {name: "b", status: "queued"}}}
	if status, got := waiting.state(); status != "in_progress" || got != "" {
		t.Errorf("while a run waits: %s %s", status, got)
	}
}

func TestCommitStatusesCombine(t *testing.T) {
	w := newWorld(t)
	gh := w.installation()
	sha := w.tip("main")
	combined := func(want string, total int) {
		t.Helper()
		s, _, err := gh.Repositories.GetCombinedStatus(w.ctx, "acme", "app", "main", nil)
		w.must(err)
		if s.GetState() != want || s.GetTotalCount() != total {
			t.Errorf("combined %s of %d, want %s of %d", s.GetState(), s.GetTotalCount(), want, total)
		}
	}
	set := func(name, state string) {
		t.Helper()
		_, _, err := gh.Repositories.CreateStatus(w.ctx, "acme", "app", sha, &github.RepoStatus{Context: &name, State: &state})
		w.must(err)
	}
	combined("pending", 0)
	set("ci/a", "pending")
	combined("pending", 1)
	set("ci/a", "success")
	combined("success", 1)
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: sha, Name: "ci/b", Conclusion: "error", Status: true}))
	combined("failure", 2)
	all, _, err := gh.Repositories.ListStatuses(w.ctx, "acme", "app", sha, nil)
	w.must(err)
	if len(all) != 3 || all[0].GetContext() != "ci/b" {
		t.Errorf("history: %v", all)
	}
	w.app.wait(t, "status", "", func(e event) bool {
		return e.at("context") == "ci/b" && e.at("state") == "error" && e.at("commit", "sha") == sha
	})
}
