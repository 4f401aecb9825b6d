package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"

	"signalbox/flaky"
	"signalbox/flaky/report"
)

// sent is what is said of the reports: what the CI system knows, then what the
// Git repository around us knows, and above all what the flags say.
func (u *uploadCommand) sent(ctx context.Context, getenv func(string) string) flaky.Sent {
	f := report.FactsOf(getenv)
	if path := getenv("GITHUB_EVENT_PATH"); f.CI == "GitHub Actions" && path != "" {
		f.Fork = fromFork(path)
	}
	host, owner, name := splitRepo(u.Repo)
	for _, over := range []struct {
		to   *string
		text string
	}{{&f.Commit, strings.ToLower(u.Sha)}, {&f.Branch, u.Branch}, {&f.Job, u.Job}, {&f.Check, u.Check}, {&f.Host, host}, {&f.Owner, owner}, {&f.Name, name}} {
		if over.text != "" {
			*over.to = over.text
		}
	}
	if u.PR > 0 {
		f.Pull = u.PR
	}
	if u.Attempt > 0 {
		f.Attempt = u.Attempt
	}
	around(ctx, &f)
	f.Attempt = max(f.Attempt, 1)
	return flaky.Sent{Facts: f, Variant: u.Variant, ExitCode: u.ExitCode, Infrastructure: u.Infrastructure, Trusted: true}
}

// splitRepo takes host/owner/name apart. The owner may have slashes, as groups
// of GitLab have.
func splitRepo(repo string) (host, owner, name string) {
	host, rest, _ := strings.Cut(repo, "/")
	if i := strings.LastIndexByte(rest, '/'); i > 0 {
		return strings.ToLower(host), rest[:i], rest[i+1:]
	}
	return "", "", ""
}

// around adds what the Git repository of the working directory knows: the tree
// that was tested, by which runs of the same code are recognised, and what of
// the rest is not known. It is believed only if it has checked out the commit
// that the CI system names.
func around(ctx context.Context, f *flaky.Facts) {
	head := git(ctx, "rev-parse", "--verify", "HEAD")
	if head == "" || f.Commit != "" && f.Commit != head {
		return
	}
	f.Commit = head
	if f.Owner == "" || f.Name == "" {
		f.Host, f.Owner, f.Name = report.SplitURL(git(ctx, "config", "--get", "remote.origin.url"))
	}
	if f.CI == "" && f.Branch == "" {
		f.Branch = git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	}
	// The object has its parents even where the history was cut off.
	var parents []string
	header, _, _ := strings.Cut(git(ctx, "cat-file", "commit", head), "\n\n")
	for line := range strings.Lines(header) {
		switch key, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); key {
		case "tree":
			f.Tree = id
		case "parent":
			parents = append(parents, id)
		}
	}
	if f.CI == "GitHub Actions" && f.Pull > 0 && len(parents) == 2 { // GitHub's merge of the pull request
		f.Base, f.Head = parents[0], parents[1]
	}
}

// git is what a git command prints, or "" if it fails: there need not be a
// repository, nor git.
func git(ctx context.Context, args ...string) string {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

// fromFork reports whether the event that started a GitHub workflow is about a
// pull request from another repository.
func fromFork(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	type repository struct {
		FullName string `json:"full_name"`
	}
	var event struct {
		PullRequest struct {
			Head struct{ Repo *repository } // null when it was deleted
			Base struct{ Repo *repository }
		} `json:"pull_request"`
	}
	if json.Unmarshal(text, &event) != nil || event.PullRequest.Base.Repo == nil {
		return false
	}
	head := event.PullRequest.Head.Repo
	return head == nil || !strings.EqualFold(head.FullName, event.PullRequest.Base.Repo.FullName)
}
