package github

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// Every way in which the host refuses a landing: what is decided, whose fault it
// is, the host's own words, and the one thing to do. Pushes are real ones.
func TestEachRefusalSaysWhatToDo(t *testing.T) {
	no := false
	type refusal struct {
		name   string
		mode   queue.LandingMode
		method queue.MergeMethod
		world  func(*githubsim.NewRepo)
		before func(w *world, work *queue.Land) // between the test and the landing
		want   queue.Trouble
		says   []string
	}
	ruleset := func(bypass string, rules ...githubsim.Rule) func(*world, *queue.Land) {
		return func(w *world, _ *queue.Land) {
			_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Bypass: bypass, Rules: rules})
			w.must(err)
		}
	}
	// forced: our own reading of the rules stands aside, so that the host's is seen.
	forced := func(do func(*world, *queue.Land)) func(*world, *queue.Land) {
		return func(w *world, work *queue.Land) {
			do(w, work)
			for _, s := range work.Steps {
				work.Forced = append(work.Forced, s.Entry)
			}
		}
	}
	unruled := func(n *githubsim.NewRepo) { n.RequiredChecks = nil }
	setting := func(field string, value bool) func(*world, *queue.Land) {
		return func(w *world, _ *queue.Land) {
			body := fmt.Sprintf(`{%q: %t}`, field, value)
			ask, err := http.NewRequest(http.MethodPatch, w.URL()+"/repos/acme/app", strings.NewReader(body))
			w.must(err)
			ask.Header.Set("Authorization", "Bearer "+personsToken(w, "root"))
			ask.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(ask)
			w.must(err)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				w.t.Fatal(answer.Status)
			}
		}
	}
	for _, c := range []refusal{
		{name: "ruleset that does not exempt us", mode: queue.LandExact, method: queue.MergeCommit, want: queue.TroubleDenied,
			before: forced(ruleset("", githubsim.Rule{Type: "update"})),
			says:   []string{"GH013", "Cannot update this protected ref", "bypass list", "landingMode host"}},
		{name: "bypass for pull requests only", mode: queue.LandExact, method: queue.MergeCommit, want: queue.TroubleDenied,
			before: forced(ruleset("pull_request", githubsim.Rule{Type: "pull_request"})),
			says:   []string{"GH013", "Changes must be made through a pull request", "as Exempt"}},
		{name: "required check of a ruleset", mode: queue.LandExact, method: queue.Squash, want: queue.TroubleDenied,
			world:  func(n *githubsim.NewRepo) { n.Bypass = &no },
			before: forced(ruleset("", githubsim.Rule{Type: "required_status_checks", Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": "other"}}}})),
			says:   []string{"GH013", `"other" is expected`, "as Exempt"}},
		{name: "linear history", mode: queue.LandExact, method: queue.MergeCommit, want: queue.TroubleDenied,
			before: forced(ruleset("", githubsim.Rule{Type: "required_linear_history"})),
			says:   []string{"GH013", "must not contain merge commits"}},
		{name: "signed commits", mode: queue.LandExact, method: queue.Squash, want: queue.TroubleDenied,
			before: forced(ruleset("", githubsim.Rule{Type: "required_signatures"})),
			says:   []string{"GH013", "verified signatures", "set a signing key", "landingMode host"}},
		{name: "signed commits, exempt", mode: queue.LandExact, method: queue.Squash, want: queue.TroubleDenied,
			before: ruleset("exempt", githubsim.Rule{Type: "required_signatures"}),
			says:   []string{"would not be signed", "set a signing key", "landingMode host"}},
		{name: "classic protection", mode: queue.LandExact, method: queue.MergeCommit, want: queue.TroubleDenied, world: unruled,
			before: forced(func(w *world, _ *queue.Land) {
				w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Reviews: 1}))
			}),
			says: []string{"GH006", "Changes must be made through a pull request", "In the protection of main"}},
		{name: "target moved meanwhile", mode: queue.LandExact, method: queue.Squash, want: queue.TroubleStale,
			before: func(w *world, _ *queue.Land) {
				_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("x", "x"), Message: "x", Author: "alice"})
				w.must(err)
			},
			says: []string{"main", "moved"}},
		{name: "target rewritten", mode: queue.LandExact, method: queue.Squash, want: queue.TroubleStale,
			before: func(w *world, _ *queue.Land) {
				_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("x", "x"), Message: "x", Author: "alice", Force: true})
				w.must(err)
			},
			says: []string{"main"}},

		{name: "method not allowed", mode: queue.LandHost, method: queue.Squash, want: queue.TroubleDenied,
			before: setting("allow_squash_merge", false),
			says:   []string{"Squash merges are not allowed", "allow the method squash", "another mergeMethod"}},
		{name: "required check at the merge", mode: queue.LandHost, method: queue.Squash, want: queue.TroubleDenied,
			before: forced(ruleset("", githubsim.Rule{Type: "required_status_checks", Parameters: map[string]any{"required_status_checks": []any{map[string]any{"context": "other"}}}})),
			says:   []string{`"other" is expected`, "exempt"}},
		{name: "reviews at the merge", mode: queue.LandHost, method: queue.MergeCommit, want: queue.TroubleDenied, world: unruled,
			before: forced(func(w *world, _ *queue.Land) {
				w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Reviews: 1}))
			}),
			says: []string{"1 approving review is required", "meet the rules of main"}},
		{name: "pushed at the last moment", mode: queue.LandHost, method: queue.Squash, want: queue.TroubleStale,
			before: func(w *world, work *queue.Land) {
				pr, err := w.c.PullRequest(w.ctx, w.repo, work.Steps[0].PR)
				w.must(err)
				w.must(w.Fail(githubsim.Fault{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "fail", Status: 409}))
				_, err = w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: pr.HeadRef, Files: files("y", "y"), Message: "y", Author: "alice"})
				w.must(err)
			},
			says: []string{"no longer at"}},
		{name: "a permission is missing", mode: queue.LandHost, method: queue.Squash, want: queue.TroubleDenied,
			before: func(w *world, _ *queue.Land) {
				w.must(w.Fail(githubsim.Fault{Method: "PUT", Path: "/repos/acme/app/pulls/*/merge", Action: "fail", Status: 403, Times: 9}))
			},
			says: []string{"Give the App the permission"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tweaks := []func(*githubsim.NewRepo){func(n *githubsim.NewRepo) { n.Creator = "root" }}
			if c.world != nil {
				tweaks = append(tweaks, c.world)
			}
			w := newWorld(t, tweaks...)
			step := w.open("a.txt", "a\n")
			run := oneRun("r1", c.method, 1, step)
			built := w.build(queue.BuildRuns{Runs: []queue.BuildRun{run}, RequiredStatuses: []string{"test"}})["r1"].(queue.RunBuilt)
			step.Step = built.Chain[0]
			work := queue.Land{Landing: 1, Branch: "main", Mode: c.mode, Method: c.method, Expect: built.Base.Commit, Steps: []queue.StepSpec{step}}
			for _, sha := range []string{step.Commit, step.Head} {
				w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: sha, Name: "test", Conclusion: "success"}))
			}
			if c.before != nil {
				c.before(w, &work)
			}
			end, _ := w.land(work)
			if end.Trouble != c.want || len(end.Landed) != 0 {
				t.Fatalf("%+v", end)
			}
			if c.want == queue.TroubleDenied && end.Entry != step.Entry {
				t.Errorf("it is %q's fault", end.Entry)
			}
			for _, words := range c.says {
				if !strings.Contains(strings.ToLower(end.Message), strings.ToLower(words)) {
					t.Errorf("%q does not say %q", end.Message, words)
				}
			}
		})
	}
}

// BC-73: a pull request that changes a workflow needs a permission of its own, and
// the reason names it. With it, the pull request lands.
func TestAChangedWorkflowNamesThePermissionThatIsMissing(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			w := newWorld(t)
			if !allowed {
				w.Grant("workflows", "")
				w.restart()
			}
			s := w.open(".github/workflows/ci.yml", "on: push\n")
			if allowed {
				if end, _ := w.land(w.tested(queue.Squash, queue.LandExact, s)); end.Trouble != "" {
					t.Errorf("%+v", end)
				}
				return
			}
			f := w.notBuilt(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, s)}})
			if f.Trouble != queue.TroubleDenied || !strings.Contains(f.Message, "`.github/workflows/ci.yml`") || !strings.Contains(f.Message, "workflows: write") {
				t.Errorf("%+v", f)
			}
			plain := w.open("plain.txt", "x\n")
			if end, _ := w.land(w.tested(queue.Squash, queue.LandExact, plain)); end.Trouble != "" {
				t.Errorf("one without: %+v", end)
			}
		})
	}
}

// GitHub takes no file of more than a hundred megabytes (here ten thousand
// bytes), which two pull requests can make together of one that is not. The
// reason says which file it is, and what to do. A pointer of Git LFS is small.
func TestAFileThatIsTooLargeIsNamed(t *testing.T) {
	w := newWorld(t)
	lines := func(n int, what string) (text string) {
		for i := range n {
			text += fmt.Sprintf("%s %x\n", what, sha256.Sum256([]byte(fmt.Sprint(what, i))))
		}
		return text
	}
	middle := lines(60, "middle")
	_, err := w.Push(w.ctx, githubsim.Push{Repo: "acme/app", Branch: "main", Files: files("data.csv", middle), Message: "data", Author: "alice"})
	w.must(err)
	above, below := w.open("data.csv", lines(50, "above")+middle), w.open("data.csv", middle+lines(50, "below"))
	f := w.notBuilt(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.MergeCommit, 2, above, below)}})
	if f.Trouble != queue.TroubleDenied {
		t.Errorf("%+v", f)
	}
	for _, words := range []string{"data.csv is 0.01 MB", "file size limit", "GH001", "What to do: take the large file out", "Git LFS"} {
		if !strings.Contains(f.Message, words) {
			t.Errorf("%q does not say %q", f.Message, words)
		}
	}
	pointer := w.open("data.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 987654321\n", ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	for _, s := range []queue.StepSpec{above, pointer} {
		if end, _ := w.land(w.tested(queue.MergeCommit, queue.LandExact, s)); end.Trouble != "" {
			t.Errorf("#%d: %+v", s.PR, end)
		}
	}
}

// A ruleset over the test branches says how to let them be.
func TestARefusedTestBranchSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Include: []string{"refs/heads/signalbox/**"}, Rules: []githubsim.Rule{{Type: "creation"}}})
	w.must(err)
	f := w.notBuilt(queue.BuildRuns{Runs: []queue.BuildRun{oneRun("r1", queue.Squash, 1, w.open("a.txt", "a\n"))}})
	if f.Trouble != queue.TroubleDenied || !strings.Contains(f.Message, "GH013") || !strings.Contains(f.Message, "exclude signalbox/** from the ruleset") {
		t.Errorf("%+v", f)
	}
}

// With a signing key, signed commits pass the rule that asks for them.
func TestSignedCommitsLandWhereTheyMustBeSigned(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("there is no ssh-keygen here")
	}
	w := newWorld(t)
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	w.cfg.SigningKey, w.cfg.CommitterName, w.cfg.CommitterEmail = key, "machine", "machine@example.org"
	w.restart()
	work := w.tested(queue.Squash, queue.LandExact, w.open("a.txt", "a\n"))
	_, err := w.AddRuleset(githubsim.NewRuleset{Repo: "acme/app", Rules: []githubsim.Rule{{Type: "required_signatures"}}})
	w.must(err)
	if end, _ := w.land(work); end.Trouble != "" || len(end.Landed) != 1 {
		t.Errorf("%+v", end)
	}
}
