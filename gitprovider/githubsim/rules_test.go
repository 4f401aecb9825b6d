package githubsim

// Rulesets and classic protection: what they refuse, to whom, and how it is said.

import (
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"
)

func TestARequiredCheckStopsPeopleAndNotTheExemptApp(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.repo(NewRepo{Owner: "acme", Name: "app", Checks: []string{"test"}, RequiredChecks: []string{"test"}, Creator: "root"})
	person := w.clone(w.UserToken("root"), "acme/app")
	person.commit("a.txt", "a\n")
	out, err := person.try("push", "--porcelain", "origin", "HEAD:main", "HEAD:feature")
	if err == nil {
		t.Fatal("the push of a person went through")
	}
	for _, want := range []string{
		"remote: error: GH013: Repository rule violations found for refs/heads/main.",
		`remote: - Required status check "test" is expected.`,
		"[remote rejected] (push declined due to repository rule violations)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("git did not say %q:\n%s", want, out)
		}
	}
	app := w.clone(w.token(), "acme/app")
	app.commit("b.txt", "b\n")
	app.git("push", "--quiet", "origin", "HEAD:main")

	// Once the check is green on the commit, anybody may push it.
	person.git("fetch", "--quiet", "origin")
	person.git("reset", "--quiet", "--hard", "origin/main")
	sha := person.commit("c.txt", "c\n")
	person.git("push", "--quiet", "origin", "HEAD:signalbox/try")
	w.app.wait(t, "check_suite", "completed", func(e event) bool { return e.at("check_suite", "head_sha") == sha })
	person.git("push", "--quiet", "origin", "HEAD:main")
}

func TestWithoutBypassTheAppIsStoppedToo(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	no := false
	w.repo(NewRepo{Owner: "acme", Name: "app", RequiredChecks: []string{"test"}, Bypass: &no})
	c := w.clone(w.token(), "acme/app")
	c.commit("a.txt", "a\n")
	if out, err := c.try("push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "GH013") {
		t.Errorf("the App's push: %v\n%s", err, out)
	}
	p := w.pull("b.txt", "b\n")
	gh := w.installation()
	if pr := w.known(gh, p.Number); pr.GetMergeableState() != "blocked" || !pr.GetMergeable() {
		t.Errorf("state %s", pr.GetMergeableState())
	}
	_, resp, err := gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", nil)
	if err == nil || resp.StatusCode != 405 || !strings.Contains(err.Error(), `Required status check \"test\" is expected.`) && !strings.Contains(err.Error(), `Required status check "test" is expected.`) {
		t.Errorf("the merge call: %v", err)
	}
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: p.HeadSHA, Name: "test", Conclusion: "success"}))
	_, _, err = gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", nil)
	w.must(err)
}

func TestRulesetsAreShownWithWhoMayBypass(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.repo(NewRepo{Owner: "acme", Name: "app", RequiredChecks: []string{"unit", "lint"}})
	_, err := w.AddRuleset(NewRuleset{Org: "acme", Name: "everywhere", Include: []string{"~ALL"}, Bypass: "always",
		Rules: []Rule{{Type: "update"}, {Type: "pull_request", Parameters: map[string]any{"required_approving_review_count": 1.0}}}})
	w.must(err)
	_, err = w.AddRuleset(NewRuleset{Repo: "acme/app", Name: "off", Disabled: true, Rules: []Rule{{Type: "a_rule_of_tomorrow"}}})
	w.must(err)

	gh := w.installation()
	list, _, err := gh.Repositories.GetAllRulesets(w.ctx, "acme", "app", true)
	w.must(err)
	can := map[string]string{}
	for _, entry := range list {
		req, err := gh.NewRequest("GET", "repos/acme/app/rulesets/"+itoa(int(entry.GetID())), nil)
		w.must(err)
		var full struct {
			Name        string
			Enforcement string
			Can         string `json:"current_user_can_bypass"`
			Rules       []struct{ Type string }
			Conditions  struct {
				RefName struct{ Include []string } `json:"ref_name"`
			}
		}
		_, err = gh.Do(w.ctx, req, &full)
		w.must(err)
		can[full.Name] = full.Can + " " + full.Enforcement
	}
	want := map[string]string{"main": "exempt active", "everywhere": "always active", "off": "never disabled"}
	for name := range want {
		if can[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, can[name], want[name])
		}
	}
	rules, _, err := gh.Repositories.GetRulesForBranch(w.ctx, "acme", "app", "main")
	w.must(err)
	var types []string
	for _, r := range rules {
		types = append(types, r.Type)
	}
	if strings.Join(types, " ") != "required_status_checks update pull_request" {
		t.Errorf("rules for main: %v", types)
	}
	org, _, err := gh.Organizations.GetAllOrganizationRulesets(w.ctx, "acme")
	w.must(err)
	if len(org) != 1 || org[0].Name != "everywhere" {
		t.Errorf("organisation: %v", org)
	}
}

func TestRulesOnBranchesAndWhatGitIsTold(t *testing.T) {
	w := newWorld(t)
	w.must(w.SetPermission("acme/app", "root", "write"))
	c := w.clone(w.UserToken("root"), "acme/app")
	first := c.git("rev-parse", "HEAD")
	for _, test := range []struct {
		rule   string
		branch string
		push   []string
		says   string
	}{
		{"update", "frozen", []string{"HEAD:frozen"}, "Cannot update this protected ref."},
		{"deletion", "kept", []string{"--delete", "kept"}, "Cannot delete this branch"},
		{"pull_request", "reviewed", []string{"HEAD:reviewed"}, "Changes must be made through a pull request."},
		{"non_fast_forward", "forward", []string{"--force", first + ":forward"}, "non-fast-forward"},
		{"creation", "new", []string{"HEAD:new"}, "Cannot create ref due to creations being restricted."},
	} {
		c.commit(test.branch, "one")
		if test.rule != "creation" {
			c.git("push", "--quiet", "origin", "HEAD:"+test.branch)
		}
		_, err := w.AddRuleset(NewRuleset{Repo: "acme/app", Name: test.rule, Include: []string{"refs/heads/" + test.branch}, Rules: []Rule{{Type: test.rule}}})
		w.must(err)
		c.commit(test.branch, "two")
		if out, err := c.try(append([]string{"push", "origin"}, test.push...)...); err == nil || !strings.Contains(out, test.says) {
			t.Errorf("%s: %v, git said\n%s", test.rule, err, out)
		}
	}
}

func TestClassicProtection(t *testing.T) {
	w := newWorld(t)
	w.must(w.ProtectBranch(Protect{Repo: "acme/app", Checks: []string{"test"}, Strict: true, Reviews: 1}))
	p := w.pull("a.txt", "a\n")
	gh := w.installation()
	shown, _, err := gh.Repositories.GetBranchProtection(w.ctx, "acme", "app", "main")
	w.must(err)
	if !shown.GetRequiredStatusChecks().Strict || shown.GetRequiredStatusChecks().GetContexts()[0] != "test" || shown.GetRequiredPullRequestReviews().RequiredApprovingReviewCount != 1 {
		t.Errorf("shown as %v", shown)
	}
	merge := func(status int, says string) {
		t.Helper()
		_, resp, err := gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", nil)
		if err == nil || resp.StatusCode != status || !strings.Contains(err.Error(), says) {
			t.Errorf("merge: %v, want %d %s", err, status, says)
		}
	}
	merge(405, "At least 1 approving review is required by reviewers with write access.")
	w.must(w.Review("acme/app", p.Number, "stranger", "approved", ""))
	merge(405, "At least 1 approving review")
	w.must(w.SetPermission("acme/app", "bob", "write"))
	w.must(w.Review("acme/app", p.Number, "bob", "changes_requested", "no"))
	merge(405, "Changes were requested")
	w.must(w.Review("acme/app", p.Number, "bob", "approved", "fine"))
	merge(405, "is expected.")
	w.must(w.Report(w.ctx, Report{Repo: "acme/app", SHA: p.HeadSHA, Name: "test", Conclusion: "success"}))
	_, err = w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("x", "x")})
	w.must(err)
	merge(405, "out of date")
	if pr := w.known(gh, p.Number); pr.GetMergeableState() != "behind" {
		t.Errorf("state %s", pr.GetMergeableState())
	}
	c := w.clone(w.token(), "acme/app")
	c.commit("b", "b")
	if out, err := c.try("push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "GH006: Protected branch update failed") || !strings.Contains(out, "protected branch hook declined") {
		t.Errorf("push: %v\n%s", err, out)
	}
	w.must(w.ProtectBranch(Protect{Repo: "acme/app", Checks: []string{"test"}, AppMayPush: true}))
	c.git("push", "--quiet", "origin", "HEAD:main")
}

func TestReviewsAreListedAndTold(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	w.must(w.Review("acme/app", p.Number, "bob", "approved", "/merge"))
	w.must(w.Review("acme/app", p.Number, "bob", "dismissed", ""))
	reviews, _, err := w.installation().PullRequests.ListReviews(w.ctx, "acme", "app", p.Number, &github.ListOptions{})
	w.must(err)
	if len(reviews) != 1 || reviews[0].GetState() != "DISMISSED" || reviews[0].GetCommitID() != p.HeadSHA {
		t.Errorf("reviews: %v", reviews)
	}
	e := w.app.wait(t, "pull_request_review", "submitted", nil)
	if e.at("review", "state") != "approved" || e.at("review", "body") != "/merge" {
		t.Errorf("submitted: %v", e.at("review"))
	}
	w.app.wait(t, "pull_request_review", "dismissed", nil)
}
