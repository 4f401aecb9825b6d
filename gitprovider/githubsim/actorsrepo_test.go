package githubsim

// What happens to whole repositories and to installations: who still finds
// what, and what the App hears.

import (
	"strings"
	"testing"
)

// heard are the events so far of some names, in order.
func (w *world) heard(names ...string) string {
	w.t.Helper()
	w.delivered()
	w.app.mu.Lock()
	defer w.app.mu.Unlock()
	var out []string
	for _, e := range w.app.events {
		for _, name := range names {
			if e.Name == name {
				out = append(out, strings.TrimSpace(e.Name+" "+e.action()))
			}
		}
	}
	return strings.Join(out, ", ")
}

func TestRepositoriesAreRenamedTransferredAndDeleted(t *testing.T) {
	w := newWorld(t)
	gh := w.installation()
	found := func(owner, name string) bool {
		_, _, err := gh.Repositories.Get(w.ctx, owner, name)
		return err == nil
	}
	w.must(w.RenameRepo("acme/app", "tool", "alice"))
	if found("acme", "app") || !found("acme", "tool") {
		t.Error("a renamed repository is found by its old name, or not by its new one")
	}
	e := w.app.wait(t, "repository", "renamed", nil)
	if e.at("changes", "repository", "name", "from") != "app" || e.at("repository", "full_name") != "acme/tool" {
		t.Errorf("renamed: %v", e.Body)
	}

	_, err := w.Push(w.ctx, Push{Repo: "acme/tool", Branch: "trunk", Files: files("x", "x"), Message: "m", Author: "alice"})
	w.must(err)
	w.must(w.SetDefaultBranch("acme/tool", "trunk", "alice"))
	w.must(w.SetDefaultBranch("acme/tool", "trunk", "alice")) // no news
	e = w.app.wait(t, "repository", "edited", nil)
	if e.at("changes", "default_branch", "from") != "main" || e.at("repository", "default_branch") != "trunk" {
		t.Errorf("edited: %v", e.at("changes"))
	}

	w.must(w.TransferRepo("acme/tool", "other", "alice"))
	e = w.app.wait(t, "repository", "transferred", nil)
	if e.at("repository", "full_name") != "other/tool" || e.at("changes", "owner", "from", "organization", "login") != "acme" {
		t.Errorf("transferred: %v", e.at("changes"))
	}
	if found("acme", "tool") || found("other", "tool") {
		t.Error("the old owner's installation still reaches the repository")
	}
	w.must(w.DeleteRepo("other/tool", "alice"))
	if _, err := w.repository("other/tool"); err == nil {
		t.Error("a deleted repository is still there")
	}
	if got, want := w.heard("repository", "installation"), "installation created, repository renamed, repository edited, installation created, repository transferred, repository deleted"; got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
}

func TestInstallationsEndAndAreSuspended(t *testing.T) {
	w := newWorld(t)
	gh := w.installation()
	works := func() bool {
		_, _, err := gh.Repositories.Get(w.ctx, "acme", "app")
		return err == nil
	}
	fresh := func() error { _, err := w.transport().Token(w.ctx); return err }
	if !works() {
		t.Fatal("it does not work at first")
	}
	w.must(w.SetInstalled("acme/app", "alice", false))
	if works() {
		t.Error("a repository that was taken out is reached")
	}
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "x", Files: files("x", "x"), Message: "m", Author: "alice"})
	w.must(err)
	w.must(w.SetInstalled("acme/app", "alice", true))
	if !works() {
		t.Error("a repository that was put in again is not reached")
	}
	w.must(w.Suspend("acme", "alice"))
	if err := fresh(); works() || err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a suspended installation: %v", err)
	}
	_, err = w.Push(w.ctx, Push{Repo: "acme/app", Branch: "y", Files: files("x", "x"), Message: "m", Author: "alice"})
	w.must(err)
	w.must(w.Unsuspend("acme", "alice"))
	w.must(fresh())
	gh = w.installation()
	if !works() {
		t.Error("it does not work after the suspension")
	}
	w.must(w.Uninstall("acme", "alice"))
	if works() {
		t.Error("an installation that is gone works")
	}
	w.must(w.Install("acme", "alice"))
	gh = w.installation()
	if !works() {
		t.Error("a new installation does not work")
	}
	want := "installation created, installation_repositories removed, installation_repositories added, installation suspend, installation unsuspend, installation deleted, installation created"
	if got := w.heard("installation", "installation_repositories", "push"); got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
}

func TestChangesOfRulesAreTold(t *testing.T) {
	w := newWorld(t)
	protect := func(p Protect) {
		p.Repo = "acme/app"
		w.must(w.ProtectBranch(p))
	}
	protect(Protect{Checks: []string{"test"}, Reviews: 1, AppMayPush: true})
	protect(Protect{Reviews: 2})
	protect(Protect{Remove: true})
	protect(Protect{Remove: true}) // no news
	id, err := w.AddRuleset(NewRuleset{Repo: "acme/app", Rules: []Rule{{Type: "update"}, {Type: "a_rule_of_tomorrow"}}})
	w.must(err)
	w.must(w.RemoveRuleset("acme/app", id))
	_, err = w.AddRuleset(NewRuleset{Org: "acme", Rules: []Rule{{Type: "pull_request"}}})
	w.must(err)
	want := "branch_protection_rule created, branch_protection_rule edited, branch_protection_rule deleted, " +
		"repository_ruleset created, repository_ruleset deleted, repository_ruleset created"
	if got := w.heard("branch_protection_rule", "repository_ruleset"); got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
	all := w.app.all("repository_ruleset", "")
	if e := all[len(all)-1]; e.at("repository") != nil || e.at("organization", "login") != "acme" {
		t.Errorf("an organisation's ruleset: %v", e.Body)
	}
}

func TestWorkflowRunsAreTold(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	id, err := w.SetWorkflowRun(w.ctx, WorkflowRun{Repo: "acme/app", Number: p.Number, Status: "requested"})
	w.must(err)
	for _, status := range []string{"in_progress", "completed"} {
		_, err = w.SetWorkflowRun(w.ctx, WorkflowRun{ID: id, Repo: "acme/app", Number: p.Number, Status: status})
		w.must(err)
	}
	if got, want := w.heard("workflow_run"), "workflow_run requested, workflow_run in_progress, workflow_run completed"; got != want {
		t.Errorf("events: %s", got)
	}
}
