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
	f, _ := ciFacts(getenv)
	host, owner, name := repoOf(u.Repo)
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

// ciFacts is what the CI system says about the job that we run in, if we do,
// and the head commit of its pull request, which need not be what is checked out.
func ciFacts(getenv func(string) string) (f flaky.Facts, head string) {
	f = report.FactsOf(getenv)
	head = f.Head
	if path := getenv("GITHUB_EVENT_PATH"); f.CI == "GitHub Actions" && path != "" {
		head = gitHubEvent(path, &f)
	}
	return f, head
}

// repoOf is the repository that somebody named: host/owner/name, or owner/name on
// github.com. What is anything else has no name.
func repoOf(text string) (host, owner, name string) {
	if strings.Count(text, "/") == 1 {
		text = "github.com/" + text
	}
	return splitRepo(text)
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
		f.Host, f.Owner, f.Name = report.SplitURL(git(ctx, "config", "--get", "remote."+remoteOf(ctx)+".url"))
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

// remoteOf is the remote that has the repository with the queue: who works on a
// fork has named that upstream, as the Git hosts advise.
func remoteOf(ctx context.Context) string {
	if git(ctx, "config", "--get", "remote.upstream.url") != "" {
		return "upstream"
	}
	return "origin"
}

// defaultBranch is the branch that a remote calls its default, "" if that is not
// known.
func defaultBranch(ctx context.Context, remote string) string {
	return strings.TrimPrefix(git(ctx, "symbolic-ref", "--quiet", "--short", "refs/remotes/"+remote+"/HEAD"), remote+"/")
}

// git is what a git command prints, or "" if it fails: there need not be a
// repository, nor git.
func git(ctx context.Context, args ...string) string {
	out, err := gitCommand(ctx, args...).Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

// gitCommand is git in the working directory. It never asks for a password.
func gitCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	return cmd
}

// gitHubEvent adds what the event says that started a GitHub workflow, when it
// is about a pull request: its number, its base branch, and whether it comes
// from another repository. It returns its head commit. The variables have less:
// the number only where its merge is what is checked out, and never the head.
func gitHubEvent(path string, f *flaky.Facts) (head string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	type side struct {
		Ref  string `json:"ref"`
		SHA  string `json:"sha"`
		Repo *struct {
			FullName string `json:"full_name"`
		} `json:"repo"` // null when it was deleted
	}
	var event struct {
		PullRequest struct {
			Number int  `json:"number"`
			Head   side `json:"head"`
			Base   side `json:"base"`
		} `json:"pull_request"`
		Issue struct { // of a comment
			Number      int       `json:"number"`
			PullRequest *struct{} `json:"pull_request"`
		} `json:"issue"`
	}
	if json.Unmarshal(text, &event) != nil {
		return ""
	}
	if event.Issue.PullRequest != nil && f.Pull == 0 {
		f.Pull = event.Issue.Number
	}
	pull := event.PullRequest
	if pull.Base.Repo == nil {
		return ""
	}
	f.Fork = pull.Head.Repo == nil || !strings.EqualFold(pull.Head.Repo.FullName, pull.Base.Repo.FullName)
	if f.Pull == 0 {
		f.Pull = pull.Number
	}
	if f.Target == "" {
		f.Target = pull.Base.Ref
	}
	return pull.Head.SHA
}
