package githubsim

// Pull requests over the API: mergeability that comes late, the three ways to
// merge, and what a merge is refused for.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"
)

// known asks for a pull request until its mergeability is known.
func (w *world) known(gh *github.Client, number int) *github.PullRequest {
	w.t.Helper()
	var pr *github.PullRequest
	eventually(w.t, "mergeability", func() bool {
		var err error
		pr, _, err = gh.PullRequests.Get(w.ctx, "acme", "app", number)
		w.must(err)
		return pr.Mergeable != nil
	})
	return pr
}

func TestMergeabilityIsUnknownAtFirstAndAfterEveryMove(t *testing.T) {
	w := newWorld(t)
	p := w.open(OpenPull{Branch: "topic", Files: files("a.txt", "a\n")})
	gh := w.installation()
	unknown := func(when string) {
		t.Helper()
		pr, _, err := gh.PullRequests.Get(w.ctx, "acme", "app", p.Number)
		w.must(err)
		if pr.Mergeable != nil || pr.GetMergeableState() != "unknown" {
			t.Errorf("%s: mergeable %v, %s", when, *pr.Mergeable, pr.GetMergeableState())
		}
	}
	unknown("at first")
	if pr := w.known(gh, p.Number); !pr.GetMergeable() || pr.GetMergeableState() != "clean" || pr.GetCommits() != 1 || pr.GetChangedFiles() != 1 {
		t.Errorf("then: %v %s, %d commits, %d files", pr.GetMergeable(), pr.GetMergeableState(), pr.GetCommits(), pr.GetChangedFiles())
	}
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("a.txt", "other\n")})
	w.must(err)
	unknown("after the base moved")
	if pr := w.known(gh, p.Number); pr.GetMergeable() || pr.GetMergeableState() != "dirty" {
		t.Errorf("with a conflict: %v %s", pr.GetMergeable(), pr.GetMergeableState())
	}
	_, err = w.Push(w.ctx, Push{Repo: "acme/app", Branch: "topic", Author: "alice", Files: files("b.txt", "b\n")})
	w.must(err)
	if e := w.app.wait(t, "pull_request", "synchronize", nil); e.at("pull_request", "mergeable") != nil || e.at("pull_request", "mergeable_state") != "unknown" {
		t.Errorf("the event of a push says %v, %v", e.at("pull_request", "mergeable"), e.at("pull_request", "mergeable_state"))
	}
	unknown("after the head moved")
}

func TestAHeadThatMovesIntoItsBaseClosesThePullRequest(t *testing.T) {
	w := newWorld(t)
	p := w.open(OpenPull{Branch: "topic", Files: files("a.txt", "a\n")})
	c := w.clone(w.UserToken("alice"), "acme/app")
	c.git("push", "--quiet", "--force", "origin", "origin/main:topic")
	e := w.app.wait(t, "pull_request", "closed", nil)
	if e.at("number") != float64(p.Number) || e.at("pull_request", "merged") != false {
		t.Errorf("closed event: #%v merged %v", e.at("number"), e.at("pull_request", "merged"))
	}
}

func TestTheMergeCallMergesByThreeMethods(t *testing.T) {
	for _, test := range []struct {
		method  string
		parents int
		message string
	}{
		{"merge", 2, "Merge pull request #1 from acme/topic\n\nTwo steps"},
		{"squash", 1, "Two steps (#1)\n\n* one\n\n* two"},
		{"rebase", 1, "two"},
	} {
		t.Run(test.method, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "topic", Author: "alice", Message: "one", Files: files("a.txt", "1\n")})
			w.must(err)
			_, err = w.Push(w.ctx, Push{Repo: "acme/app", Branch: "topic", Author: "alice", Message: "two", Files: files("b.txt", "2\n")})
			w.must(err)
			p := w.open(OpenPull{Branch: "topic", Title: "Two steps"})
			moved, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("c.txt", "3\n")})
			w.must(err)
			gh := w.installation()
			result, _, err := gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", &github.PullRequestOptions{MergeMethod: test.method, SHA: p.HeadSHA})
			w.must(err)

			log, err := w.Log(w.ctx, "acme/app", "main")
			w.must(err)
			top := log[0]
			if !result.GetMerged() || top.SHA != result.GetSHA() || len(top.Parents) != test.parents || strings.TrimSpace(top.Message) != test.message {
				t.Errorf("merged %v: %d parents, %q", result.GetMerged(), len(top.Parents), top.Message)
			}
			below := log[1]
			if test.method == "rebase" {
				if strings.TrimSpace(below.Message) != "one" {
					t.Errorf("below is %q", below.Message)
				}
				below = log[2]
			}
			if below.SHA != moved || top.PR != 1 {
				t.Errorf("it stands on %s, want %s; log says #%d", below.SHA, moved, top.PR)
			}
			tree, _, err := gh.Git.GetTree(w.ctx, "acme", "app", top.SHA, true)
			w.must(err)
			if len(tree.Entries) != 4 {
				t.Errorf("the tree has %d files, want 4", len(tree.Entries))
			}
			e := w.app.wait(t, "pull_request", "closed", nil)
			if e.at("pull_request", "merged") != true || e.at("pull_request", "merge_commit_sha") != top.SHA || e.at("pull_request", "merged_by", "login") != "signalbox[bot]" {
				t.Errorf("closed event: %v %v", e.at("pull_request", "merged"), e.at("pull_request", "merge_commit_sha"))
			}
			w.clone(w.token(), "acme/app").git("fsck", "--full", "--strict")
		})
	}
}

func TestTheMergeCallSaysNoAsGitHubDoes(t *testing.T) {
	w := newWorld(t)
	w.pull("a.txt", "a\n")
	dirty := w.pull("README.md", "mine\n")
	draft := w.open(OpenPull{Draft: true, Files: files("d.txt", "d\n")})
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("README.md", "theirs\n")})
	w.must(err)
	w.must(w.ClosePull("acme/app", w.pull("c.txt", "c\n").Number, "alice"))
	gh := w.installation()
	for _, test := range []struct {
		name   string
		number int
		opt    github.PullRequestOptions
		status int
		says   string
	}{
		{"another head", 1, github.PullRequestOptions{SHA: strings.Repeat("1", 40)}, 409, "Head branch was modified. Review and try the merge again."},
		{"a conflict", dirty.Number, github.PullRequestOptions{}, 405, "Pull Request is not mergeable"},
		{"a conflict, rebase", dirty.Number, github.PullRequestOptions{MergeMethod: "rebase"}, 405, "This branch can't be rebased due to conflicts"},
		{"a draft", draft.Number, github.PullRequestOptions{}, 405, "Pull Request is still a draft"},
		{"a closed one", 4, github.PullRequestOptions{}, 405, "Pull Request is not mergeable"},
		{"a method that is none", 1, github.PullRequestOptions{MergeMethod: "magic"}, 422, "Invalid request.\n\nFor 'properties/merge_method', magic is not a member of [merge, squash, rebase]."},
		{"none such", 99, github.PullRequestOptions{}, 404, "Not Found"},
	} {
		_, resp, err := gh.PullRequests.Merge(w.ctx, "acme", "app", test.number, "", &test.opt)
		e, ok := err.(*github.ErrorResponse)
		if !ok || resp.StatusCode != test.status || e.Message != test.says {
			t.Errorf("%s: %v, want %d %q", test.name, err, test.status, test.says)
		}
	}
}

func TestDraftPullRequestsCanBeOpenedClosedAndTheirBranchDeleted(t *testing.T) {
	w := newWorld(t)
	gh := w.installation()
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "signalbox/pr-1/x", Author: "bob", Files: files("a", "a")})
	w.must(err)
	input := &github.NewPullRequest{
		Title: github.String("signalbox/pr-1/x"), Head: github.String("signalbox/pr-1/x"), Base: github.String("main"), Draft: github.Bool(true),
	}
	pr, _, err := gh.PullRequests.Create(w.ctx, "acme", "app", input)
	w.must(err)
	if !pr.GetDraft() || pr.GetUser().GetLogin() != "signalbox[bot]" || pr.GetHead().GetRef() != "signalbox/pr-1/x" {
		t.Errorf("made draft=%v by %s of %s", pr.GetDraft(), pr.GetUser().GetLogin(), pr.GetHead().GetRef())
	}
	if _, resp, err := gh.PullRequests.Create(w.ctx, "acme", "app", input); err == nil || resp.StatusCode != 422 || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second one: %v", err)
	}
	found, _, err := gh.PullRequests.List(w.ctx, "acme", "app", &github.PullRequestListOptions{Head: "acme:signalbox/pr-1/x", Base: "main"})
	w.must(err)
	if len(found) != 1 {
		t.Errorf("the list has %d", len(found))
	}
	if pr := w.known(gh, pr.GetNumber()); pr.GetMergeableState() != "draft" {
		t.Errorf("its state is %s", pr.GetMergeableState())
	}
	_, _, err = gh.PullRequests.Edit(w.ctx, "acme", "app", pr.GetNumber(), &github.PullRequest{State: github.String("closed")})
	w.must(err)
	_, err = gh.Git.DeleteRef(w.ctx, "acme", "app", "heads/signalbox/pr-1/x")
	w.must(err)
	w.delivered()
	if closed := w.app.all("pull_request", "closed"); len(closed) != 1 {
		t.Errorf("%d closed events", len(closed))
	}
}

func TestEditsAreTold(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	_, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "release", Author: "bob", Files: files("r", "r")})
	w.must(err)
	title, base, yes, no := "Better", "release", true, false
	w.must(w.EditPull(Edit{Repo: "acme/app", Number: p.Number, Author: "alice", Title: &title, Base: &base, AddLabel: []string{"queue", "size/S"}}))
	w.must(w.EditPull(Edit{Repo: "acme/app", Number: p.Number, Author: "alice", Draft: &yes, RemoveLabel: []string{"queue"}}))
	w.must(w.EditPull(Edit{Repo: "acme/app", Number: p.Number, Author: "alice", Draft: &no}))
	w.must(w.ClosePull("acme/app", p.Number, "carol"))
	open := "open"
	w.must(w.EditPull(Edit{Repo: "acme/app", Number: p.Number, Author: "alice", State: &open}))
	w.delivered()
	var actions []string
	for _, e := range w.app.all("pull_request", "") {
		actions = append(actions, e.action())
	}
	if got, want := strings.Join(actions, " "), "opened labeled labeled edited unlabeled converted_to_draft ready_for_review closed reopened"; got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
	e := w.app.wait(t, "pull_request", "edited", nil)
	if e.at("changes", "base", "ref", "from") != "main" || e.at("changes", "title", "from") != "Change" || e.at("pull_request", "base", "ref") != "release" {
		t.Errorf("edited event: %v", e.at("changes"))
	}
	gh := w.installation()
	// The library sends a bare list, which GitHub takes and does not describe.
	req, err := gh.NewRequest("POST", fmt.Sprintf("repos/acme/app/issues/%d/labels", p.Number), map[string]any{"labels": []string{"third"}})
	w.must(err)
	var labels []github.Label
	_, err = gh.Do(w.ctx, req, &labels)
	w.must(err)
	if len(labels) != 2 {
		t.Errorf("labels: %v", labels)
	}
}

func TestAForksPullRequestHasItsHeadInTheBaseRepository(t *testing.T) {
	w := newWorld(t)
	p := w.open(OpenPull{Author: "fay", Fork: true, Branch: "mine", Files: files("f.txt", "f\n")})
	gh := w.installation()
	pr, _, err := gh.PullRequests.Get(w.ctx, "acme", "app", p.Number)
	w.must(err)
	if pr.GetHead().GetRepo().GetFullName() != "fay/app" || pr.GetHead().GetLabel() != "fay:mine" || !pr.GetHead().GetRepo().GetFork() {
		t.Errorf("its head is %s of %s", pr.GetHead().GetLabel(), pr.GetHead().GetRepo().GetFullName())
	}
	level, _, err := gh.Repositories.GetPermissionLevel(w.ctx, "acme", "app", "fay")
	w.must(err)
	if level.GetPermission() != "none" {
		t.Errorf("the fork's author has %s", level.GetPermission())
	}
	// A push to the fork by real git reaches the base's refs/pull/N/head.
	c := w.clone(w.UserToken("fay"), "fay/app")
	c.git("checkout", "--quiet", "mine")
	sha := c.commit("f.txt", "better\n")
	c.git("push", "--quiet", "origin", "mine")
	base := w.clone(w.token(), "acme/app")
	base.git("fetch", "--quiet", "origin", "refs/pull/1/head")
	if got := base.git("rev-parse", "FETCH_HEAD"); got != sha {
		t.Errorf("refs/pull/1/head is %s, want %s", got, sha)
	}
	if e := w.app.wait(t, "pull_request", "synchronize", nil); e.at("after") != sha {
		t.Errorf("synchronize says %v", e.at("after"))
	}
	w.known(gh, p.Number)
	_, _, err = gh.PullRequests.Merge(w.ctx, "acme", "app", p.Number, "", &github.PullRequestOptions{MergeMethod: "squash"})
	w.must(err)
}

func TestReadingCodeOverTheAPI(t *testing.T) {
	w := newWorld(t)
	p := w.pull("dir/a b.txt", "one\ntwo\n", ".signalbox.yaml", "merge: {}\n")
	gh := w.installation()
	file, _, _, err := gh.Repositories.GetContents(w.ctx, "acme", "app", "dir/a b.txt", &github.RepositoryContentGetOptions{Ref: p.HeadSHA})
	w.must(err)
	if text, err := file.GetContent(); err != nil || text != "one\ntwo\n" {
		t.Errorf("content %q, %v", text, err)
	}
	_, _, resp, err := gh.Repositories.GetContents(w.ctx, "acme", "app", ".signalbox.yaml", nil)
	if err == nil || resp.StatusCode != 404 {
		t.Errorf("a file that main has not: %v", err)
	}
	changed, _, err := gh.PullRequests.ListFiles(w.ctx, "acme", "app", p.Number, nil)
	w.must(err)
	if len(changed) != 2 || changed[1].GetFilename() != "dir/a b.txt" || changed[1].GetAdditions() != 2 || changed[1].GetStatus() != "added" {
		t.Errorf("files: %v", changed)
	}
	commits, _, err := gh.PullRequests.ListCommits(w.ctx, "acme", "app", p.Number, nil)
	w.must(err)
	if len(commits) != 1 || commits[0].GetSHA() != p.HeadSHA || commits[0].GetAuthor().GetLogin() != "alice" {
		t.Errorf("commits: %v", commits)
	}
	diff, _, err := gh.Repositories.CompareCommits(w.ctx, "acme", "app", "main", p.HeadSHA, nil)
	w.must(err)
	if diff.GetStatus() != "ahead" || diff.GetAheadBy() != 1 || diff.GetMergeBaseCommit().GetSHA() != w.tip("main") {
		t.Errorf("compare: %s by %d", diff.GetStatus(), diff.GetAheadBy())
	}
	repo, _, err := gh.Repositories.GetByID(w.ctx, w.repoID("acme/app"))
	w.must(err)
	if repo.GetFullName() != "acme/app" || repo.GetDefaultBranch() != "main" || !repo.GetAllowSquashMerge() {
		t.Errorf("repository %s", repo.GetFullName())
	}
}

func (w *world) repoID(full string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.repoNamed(full).id
}

func TestRefsOverTheAPI(t *testing.T) {
	w := newWorld(t)
	gh := w.installation()
	main := w.tip("main")
	ref := func(name, sha string) *github.Reference {
		return &github.Reference{Ref: &name, Object: &github.GitObject{SHA: &sha}}
	}
	_, _, err := gh.Git.CreateRef(w.ctx, "acme", "app", ref("refs/heads/a/b", main))
	w.must(err)
	ahead, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("x", "x")})
	w.must(err)
	_, _, err = gh.Git.UpdateRef(w.ctx, "acme", "app", ref("refs/heads/a/b", ahead), false)
	w.must(err)
	_, resp, err := gh.Git.UpdateRef(w.ctx, "acme", "app", ref("refs/heads/a/b", main), false)
	if err == nil || resp.StatusCode != 422 || !strings.Contains(err.Error(), "not a fast forward") {
		t.Errorf("going back: %v", err)
	}
	_, _, err = gh.Git.UpdateRef(w.ctx, "acme", "app", ref("refs/heads/a/b", main), true)
	w.must(err)
	for _, bad := range []string{"refs/heads/..", "heads/x", "refs/heads/a/b/c", "refs/pull/1/head", "refs/heads/a b", "refs/heads/x.lock"} {
		status, message, _ := w.get("POST", "/repos/acme/app/git/refs", "token "+w.token(), `{"ref":"`+bad+`","sha":"`+main+`"}`)
		if status != 422 {
			t.Errorf("creating %q: %d %s", bad, status, message)
		}
	}
	_, err = gh.Git.DeleteRef(w.ctx, "acme", "app", "heads/a/b")
	w.must(err)
	if _, resp, err := gh.Git.GetRef(w.ctx, "acme", "app", "heads/a/b"); err == nil || resp.StatusCode != 404 {
		t.Errorf("after deletion: %v", err)
	}
}
