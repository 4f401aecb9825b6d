package github

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// Each kind of trouble is set up in the simulator, and the preflight finds it
// and says the one thing to do. testdata/preflight.txt has what it says, to be
// read as prose: "go test ./gitprovider/github -run Preflight -rewrite" writes
// it anew. What is well is left out there, but for the first case.

var rewrite = flag.Bool("rewrite", false, "write testdata/preflight.txt anew")

// trouble is one case: what is set up, and which queue is looked at.
type trouble struct {
	name string
	repo func(*githubsim.NewRepo)
	set  func(w *world)
	work queue.RunPreflight
}

func (w *world) ruleset(n githubsim.NewRuleset) {
	w.t.Helper()
	if n.Org == "" {
		n.Repo = "acme/app"
	}
	_, err := w.AddRuleset(n)
	w.must(err)
}

func noChecks(n *githubsim.NewRepo) { n.RequiredChecks = nil }

func bound(n *githubsim.NewRepo) {
	no := false
	n.Bypass = &no
}

var (
	exactWork = queue.RunPreflight{Method: queue.MergeCommit, DraftPRs: true}
	hostWork  = queue.RunPreflight{Method: queue.Squash}
)

func requires(name string, strict bool) githubsim.Rule {
	return githubsim.Rule{Type: "required_status_checks", Parameters: map[string]any{
		"strict_required_status_checks_policy": strict, "required_status_checks": []any{map[string]any{"context": name}}}}
}

var troubles = []trouble{
	{name: "nothing is wrong", work: exactWork},
	{name: "the App is not installed", work: exactWork, set: func(w *world) { w.repo.Name = "other" }},
	{name: "the host does not accept the key", work: exactWork, set: func(w *world) {
		key, err := githubsim.NewAppKey()
		w.must(err)
		w.cfg.PrivateKey = key
		w.restart()
	}},
	{name: "permissions are missing, and others not accepted", work: exactWork, set: func(w *world) {
		fewer := maps.Clone(account.Permissions)
		delete(fewer, "workflows")
		fewer["checks"] = "read"
		w.SetApp(fewer, account.Events)
		w.AcceptPermissions()
		asked := maps.Clone(account.Permissions)
		asked["checks"] = "read"
		w.SetApp(asked, account.Events)
	}},
	{name: "events are missing", work: exactWork, set: func(w *world) {
		w.SetApp(account.Permissions, []string{"push", "pull_request", "issue_comment"})
	}},
	{name: "webhooks go elsewhere", work: exactWork, set: func(w *world) {
		w.SetWebhook("http://127.0.0.1:1/elsewhere", "s")
		w.cfg.WebhookURL = "https://signalbox.example/webhook"
		w.restart()
	}},
	{name: "no webhook was sent yet", work: exactWork, set: func(w *world) { w.ForgetDeliveries() }},
	{name: "webhooks do not arrive", work: exactWork, set: func(w *world) { w.deliver(http.StatusBadGateway) }},
	{name: "webhooks are refused", work: exactWork, set: func(w *world) { w.deliver(http.StatusUnauthorized) }},
	{name: "there is no such branch", work: queue.RunPreflight{Branch: "release", Method: queue.MergeCommit}},
	{name: "git cannot fetch", work: exactWork, set: func(w *world) {
		w.must(w.Fail(githubsim.Fault{Path: "/acme/app.git/*", Action: "fail", Status: 502, Times: 1000}))
	}},
	{name: "the configuration file is wrong", work: exactWork, repo: func(n *githubsim.NewRepo) {
		n.Files = files(".signalbox.yaml", "merge:\n  required_statuses: test\n")
	}},
	{name: "nothing is required", work: exactWork, repo: noChecks},
	{name: "a check never reported on test branches",
		work: queue.RunPreflight{Method: queue.MergeCommit, DraftPRs: true, Silent: []string{"e2e", "docs"}}},
	{name: "the host opens no drafts", work: queue.RunPreflight{Method: queue.MergeCommit, DraftPRs: true, NoDrafts: true}},
	{name: "the App is not exempt, and nobody chose how to land", work: exactWork, repo: bound, set: func(w *world) { w.reported("test") }},
	{name: "the App is not exempt, and exact landing is chosen", repo: bound,
		work: queue.RunPreflight{Method: queue.Squash, Chosen: queue.LandExact}},
	{name: "the App may always bypass, which is less than exempt", work: exactWork, repo: noChecks, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Org: "acme", Name: "company", Bypass: "always", Rules: []githubsim.Rule{{Type: "update"}, requires("test", false)}})
	}},
	{name: "nobody may update the branch", work: hostWork, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "frozen", Rules: []githubsim.Rule{{Type: "update"}}})
	}},
	{name: "the host does not say how a ruleset binds the App", work: exactWork, set: func(w *world) {
		w.must(w.Fail(githubsim.Fault{Path: "/repos/acme/app/rulesets/*", Action: "fail", Status: 403, Times: 1000}))
	}},
	{name: "classic protection does not let the App push", work: exactWork, repo: noChecks, set: func(w *world) {
		w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Checks: []string{"test"}, Reviews: 1, Signed: true}))
		w.reported("test")
	}},
	{name: "classic protection lets the App push", work: exactWork, repo: noChecks, set: func(w *world) {
		w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Checks: []string{"test"}, Reviews: 1, AppMayPush: true}))
	}},
	{name: "the branch is locked", work: exactWork, set: func(w *world) {
		w.must(w.ProtectBranch(githubsim.Protect{Repo: "acme/app", Locked: true}))
	}},
	{name: "the rules want a linear history", work: exactWork, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "straight", Bypass: "exempt", Rules: []githubsim.Rule{{Type: "required_linear_history"}}})
	}},
	{name: "the rules allow other methods", work: exactWork, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "squashed", Bypass: "exempt", Rules: []githubsim.Rule{reviewsRule("allowed_merge_methods", []any{"squash", "rebase"})}})
	}},
	{name: "the repository does not allow the method", work: hostWork, set: func(w *world) { w.disallow("allow_squash_merge") }},
	{name: "pull requests must be up to date", work: hostWork, repo: noChecks, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "strict", Rules: []githubsim.Rule{requires("test", true)}})
		w.reported("test")
	}},
	{name: "a required check does not run on pull requests", work: hostWork, repo: func(n *githubsim.NewRepo) {
		bound(n)
		n.RequiredChecks = []string{"unit", "e2e", "Signalbox (main)"}
	}, set: func(w *world) { w.reported("unit") }},
	{name: "nobody can see whether required checks run on pull requests", work: hostWork, repo: bound},
	{name: "the host's own merge queue is on", work: exactWork, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "host's queue", Bypass: "exempt", Rules: []githubsim.Rule{{Type: "merge_queue"}}})
	}},
	{name: "a broad ruleset covers test branches", work: exactWork, set: func(w *world) {
		w.ruleset(githubsim.NewRuleset{Name: "everything", Include: []string{"~ALL"}, Exclude: []string{"~DEFAULT_BRANCH"}, Rules: []githubsim.Rule{
			{Type: "deletion"}, {Type: "creation"}, {Type: "non_fast_forward"}}})
		w.ruleset(githubsim.NewRuleset{Name: "harmless", Include: []string{"~ALL"}, Rules: []githubsim.Rule{{Type: "non_fast_forward"}}})
		w.ruleset(githubsim.NewRuleset{Name: "passed", Include: []string{"~ALL"}, Bypass: "exempt", Rules: []githubsim.Rule{{Type: "creation"}}})
	}},
	{name: "our own check is required", work: exactWork, repo: func(n *githubsim.NewRepo) { n.RequiredChecks = []string{"test", "Signalbox (main)"} }},
	{name: "rules may not be read", work: exactWork, set: func(w *world) {
		fewer := maps.Clone(account.Permissions)
		delete(fewer, "administration")
		w.SetApp(fewer, account.Events)
		w.AcceptPermissions()
		w.restart()
	}},
}

var anyPort = regexp.MustCompile(`http://127\.0\.0\.1:\d{2,}`)

// deliver has the host send webhooks to a server that answers with a status.
func (w *world) deliver(status int) {
	w.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(status) }))
	w.t.Cleanup(server.Close)
	w.eventually("earlier deliveries", w.Delivered)
	w.ForgetDeliveries()
	w.SetWebhook(server.URL, "secret")
	w.AcceptPermissions()
	w.eventually("deliveries", func() bool {
		done := w.Deliveries()
		return w.Delivered() && len(done) > 0 && done[len(done)-1].StatusCode == status
	})
}

// disallow turns a setting of the repository off, as its owner does.
func (w *world) disallow(setting string) {
	w.t.Helper()
	w.must(w.SetPermission("acme/app", "root", "admin"))
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPatch, w.URL()+"/repos/acme/app", strings.NewReader(fmt.Sprintf(`{%q:false}`, setting)))
	w.must(err)
	req.Header.Set("Authorization", "token "+w.UserToken("root"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		w.t.Fatal(resp.Status)
	}
}

// reported opens a pull request on whose head a check ran.
func (w *world) reported(name string) {
	w.t.Helper()
	a := w.open("a.txt", "a\n")
	w.must(w.Report(w.ctx, githubsim.Report{Repo: "acme/app", SHA: a.Head, Name: name, Conclusion: "success"}))
}

// told is what a preflight found, as text.
func (w *world) told(seen queue.PreflightSeen, everything bool) string {
	var b strings.Builder
	for _, f := range seen.Findings {
		if f.Level == queue.LevelOK && !everything {
			continue
		}
		fmt.Fprintf(&b, "%s %s: %s\n", f.Level, f.Check, f.Message)
		if f.Action != "" {
			fmt.Fprintf(&b, "    → %s\n", f.Action)
		}
	}
	if seen.NoExact != "" {
		fmt.Fprintf(&b, "no exact landing: %s\n", seen.NoExact)
	}
	text := strings.ReplaceAll(b.String(), w.URL(), "https://host")
	text = strings.ReplaceAll(text, strings.TrimPrefix(w.URL(), "http://"), "host")
	return anyPort.ReplaceAllString(text, "http://our.server")
}

func TestPreflightFindsEachTrouble(t *testing.T) {
	t.Parallel()
	told := make([]string, len(troubles))
	t.Run("troubles", func(t *testing.T) {
		for i, c := range troubles {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, func(n *githubsim.NewRepo) {
					if c.repo != nil {
						c.repo(n)
					}
				})
				w.SetApp(account.Permissions, account.Events)
				w.AcceptPermissions()
				w.deliver(http.StatusAccepted)
				if c.set != nil {
					c.set(w)
				}
				if c.work.Branch == "" {
					c.work.Branch = "main"
				}
				seen, err := w.c.Preflight(w.ctx, w.repo, c.work)
				w.must(err)
				told[i] = fmt.Sprintf("# %s\n%s\n", c.name, w.told(seen, i == 0))
				for _, f := range seen.Findings {
					if f.Message == "" || f.Level == queue.LevelProblem && f.Action == "" {
						t.Errorf("%+v does not help anybody", f)
					}
				}
			})
		}
	})
	got := strings.Join(told, "")
	golden := filepath.Join("testdata", "preflight.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the preflight says something else than %s (-want +got):\n%s", golden, diff)
	}
}

// A host that does not answer is no finding: it is asked again.
func TestAPreflightWithoutAnAnswerIsRepeated(t *testing.T) {
	w := newWorld(t)
	w.must(w.Fail(githubsim.Fault{Path: "/repos/acme/app/rules/*", Action: "fail", Status: 502}))
	if _, err := w.c.Preflight(w.ctx, w.repo, queue.RunPreflight{Branch: "main", Method: queue.Squash}); err == nil || gitprovider.KindOf(err) != gitprovider.Transient {
		t.Errorf("%v", err)
	}
}
