package github

import (
	"strconv"
	"strings"
	"testing"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

func TestTwoRunsArePublishedWithOnePush(t *testing.T) {
	w := newWorld(t)
	a, b := w.open("a.txt", "a\n"), w.open("b.txt", "b\n")
	work := queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, a), oneRun("r2", queue.Squash, 1, a, b)}, DraftPRs: true}
	facts := w.build(work)
	one, two := facts["r1"].(queue.RunBuilt), facts["r2"].(queue.RunBuilt)
	if len(two.Chain) != 2 || two.Chain[0] != one.Chain[0] || two.Chain[1].Commit == "" || one.At.IsZero() {
		t.Errorf("%+v\n%+v", one, two)
	}
	if w.branches() != "signalbox/pr-1/r1 signalbox/pr-1/r2" {
		t.Errorf("branches: %s", w.branches())
	}
	for _, f := range []queue.RunBuilt{one, two} {
		pr, _ := w.raw("/pulls/" + itoa(f.DraftPR))
		if pr["draft"] != true || pr["title"] != "signalbox/pr-1/"+string(f.Run) || pr["state"] != "open" || strings.Contains(pr["body"].(string), "#") {
			t.Errorf("draft is %v %v %v\n%v", pr["draft"], pr["title"], pr["state"], pr["body"])
		}
		if len(f.Required) != 1 || f.Required[0].Name != "test" || f.RequiredSource != queue.FromProtection {
			t.Errorf("required %+v from %s", f.Required, f.RequiredSource)
		}
	}

	// The same again finds everything in place.
	w.restart()
	again := w.build(work)["r2"].(queue.RunBuilt)
	if again.DraftPR != two.DraftPR || again.Chain[1] != two.Chain[1] {
		t.Errorf("again %+v, first %+v", again, two)
	}

	// Stopping takes it off, and a second time is fine.
	for range 2 {
		for _, f := range []queue.RunBuilt{one, two} {
			w.must(w.c.Stop(w.ctx, w.repo, queue.StopRun{Run: f.Run, Branch: "signalbox/pr-1/" + string(f.Run), DraftPR: f.DraftPR, Commit: f.Chain[0].Commit, Cancel: true}))
		}
	}
	if pr, _ := w.raw("/pulls/" + itoa(one.DraftPR)); pr["state"] != "closed" || pr["merged"] != false || w.branches() != "" {
		t.Errorf("left: %v, %s", pr["state"], w.branches())
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestRequiredStatusesComeFromTheFirstSourceThatHasAny(t *testing.T) {
	w := newWorld(t, func(n *githubsim.NewRepo) { n.RequiredChecks = nil })
	a := w.open("a.txt", "a\n")
	run := func(id string, s queue.StepSpec, own ...string) queue.Fact {
		return w.build(queue.BuildRuns{Runs: []queue.BuildRun{oneRun(id, queue.Squash, 1, s)}, RequiredStatuses: own})[queue.RunID(id)]
	}
	list := func(f queue.Fact) (string, queue.RequiredSource) {
		b, ok := f.(queue.RunBuilt)
		if !ok {
			t.Fatalf("%+v", f)
		}
		var names []string
		for _, q := range b.Required {
			names = append(names, q.Name)
		}
		return strings.Join(names, ","), b.RequiredSource
	}

	if f, ok := run("none", a).(queue.RunNotBuilt); !ok || f.Trouble != queue.TroubleNoRequired || w.branches() != "" {
		t.Fatalf("%+v, %s", f, w.branches())
	}
	w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Checks: []string{"classic", "Signalbox (main)"}, AppMayPush: true}))
	w.restart() // who has just read that there is no protection believes it for a moment
	if got, from := list(run("classic", a)); got != "classic" || from != queue.FromProtection {
		t.Errorf("%s from %s", got, from)
	}
	_, err := w.AddRuleset(githubsim.NewRuleset{Org: "acme", Bypass: "exempt", Rules: []githubsim.Rule{
		{Type: "a_rule_of_tomorrow", Parameters: map[string]any{"x": []int{1}}},
		{Type: "required_status_checks", Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": "org", "integration_id": 15368}}}}}})
	w.must(err)
	f := run("org", a)
	if got, from := list(f); got != "org,classic" || from != queue.FromProtection || f.(queue.RunBuilt).Required[0].AppID != 15368 {
		t.Errorf("%s from %s: %+v", got, from, f)
	}
	for _, file := range []string{".trunk/trunk.yaml", ".github/signalbox.yaml", ".signalbox.yaml"} {
		s := w.open(file, "version: 0.1\ncli: {version: 1}\nmerge:\n  required_statuses: [\"from "+file+"\", Signalbox (main)]\n")
		if got, from := list(run("file"+itoa(s.PR), s)); got != "from "+file || from != queue.FromConfigFile {
			t.Errorf("%s from %s", got, from)
		}
	}
	if got, from := list(run("own", a, "mine", "mine")); got != "mine" || from != queue.FromQueue {
		t.Errorf("%s from %s", got, from)
	}

	for body, want := range map[string]string{
		"merge:\n  required_statuses: oops\n":      ".signalbox.yaml: line 2: ",
		"merge:\n  required_statuses: [a, \"\"]\n": ".signalbox.yaml: line 2: merge.required_statuses, entry 2, is not the name of a status",
		"merge: [\n": ".signalbox.yaml: line ",
		"merge:\n  required_statuses: [" + strings.Repeat("a,", 40000) + "]\n": ".signalbox.yaml is longer than 65536 bytes",
	} {
		s := w.open(".signalbox.yaml", body)
		if f, ok := run("bad"+itoa(s.PR), s).(queue.RunNotBuilt); !ok || f.Trouble != queue.TroubleConfig || !strings.Contains(f.Message, want) || f.Entry != s.Entry {
			t.Errorf("%.40q: %+v, want %q", body, f, want)
		}
	}
	// one that names nothing leaves the question to the next source
	s := w.open(".signalbox.yaml", "# nothing\n")
	if got, _ := list(run("empty", s)); got != "org,classic" {
		t.Errorf("%s", got)
	}
}

func TestARunThatIncludesOneInTroubleIsStale(t *testing.T) {
	w := newWorld(t)
	bad, good := w.open(".signalbox.yaml", "merge: [\n"), w.open("g.txt", "g\n")
	facts := w.build(queue.BuildRuns{Runs: []queue.BuildRun{
		oneRun("r1", queue.Squash, 1, bad), oneRun("r2", queue.Squash, 1, bad, good), oneRun("r3", queue.Squash, 1, good)}})
	if f, ok := facts["r2"].(queue.RunNotBuilt); !ok || f.Trouble != queue.TroubleStale {
		t.Errorf("%+v", facts["r2"])
	}
	if _, ok := facts["r3"].(queue.RunBuilt); !ok || w.branches() != "signalbox/pr-1/r3" {
		t.Errorf("%+v, %s", facts["r3"], w.branches())
	}
}

func TestAHostWithoutDraftsIsToldApart(t *testing.T) {
	w := newWorld(t)
	a := w.open("a.txt", "a\n")
	w.must(w.Fail(githubsim.Fault{Method: "POST", Path: "/repos/acme/app/pulls", Action: "fail", Status: 422}))
	work := queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, a)}, DraftPRs: true}
	if f := w.notBuilt(work); f.Trouble != queue.TroubleDraft || w.branches() != "" {
		t.Errorf("%+v, %s", f, w.branches())
	}
	// An unknown outcome is no refusal: the next attempt finds what there is.
	w.must(w.Fail(githubsim.Fault{Method: "POST", Path: "/repos/acme/app/pulls", Action: "failAfter", Status: 502}))
	if f := w.notBuilt(work); f.Trouble != queue.TroubleTransient {
		t.Errorf("%+v", f)
	}
	if f := w.build(work)["r1"].(queue.RunBuilt); f.DraftPR == 0 {
		t.Errorf("%+v", f)
	}
}

func TestATestBranchThatIsRefusedNamesTheRule(t *testing.T) {
	w := newWorld(t)
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Include: []string{"refs/heads/signalbox/**"}, Rules: []githubsim.Rule{{Type: "creation"}}})
	w.must(err)
	f := w.notBuilt(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, w.open("a.txt", "a\n"))}})
	if f.Trouble != queue.TroubleDenied || !strings.Contains(f.Message, "Cannot create ref due to creations being restricted") {
		t.Errorf("%+v", f)
	}
}

// Nothing but test branches is ever overwritten or deleted (BC-19).
func TestOtherBranchesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	run := oneRun("r1", queue.Squash, 1, w.open("a.txt", "a\n"))
	for _, branch := range []string{"main", "alice/change", "xsignalbox/1"} {
		run.Branch = branch
		if _, err := w.c.Build(w.ctx, w.repo, queue.BuildRuns{Runs: []queue.BuildRun{run}}); gitprovider.KindOf(err) != gitprovider.Denied {
			t.Errorf("build %s: %v", branch, err)
		}
		if err := w.c.Stop(w.ctx, w.repo, queue.StopRun{Branch: branch}); gitprovider.KindOf(err) != gitprovider.Denied {
			t.Errorf("stop %s: %v", branch, err)
		}
	}
	if len(w.log()) != 1 {
		t.Error("main was touched")
	}
}

func TestAForkIsBuiltFromItsPullRef(t *testing.T) {
	w := newWorld(t)
	p, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/app", Title: "From a fork", Author: "mallory", Fork: true, Files: files("f.txt", "f\n")})
	w.must(err)
	s := w.stepOf(int64(p.Number))
	if seen, err := w.c.PullRequest(w.ctx, w.repo, s.PR); err != nil || !seen.Fork {
		t.Errorf("%+v %v", seen, err)
	}
	work := w.tested(queue.Squash, queue.LandExact, s)
	if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 1 {
		t.Errorf("%+v", end)
	}
}
