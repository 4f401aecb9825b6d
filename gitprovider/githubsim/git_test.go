package githubsim

// Real git against the simulator: clone, fetch, push, and what pushes do to
// pull requests.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPushWithTheInstallationTokenMovesTheBranchAndTellsTheApp(t *testing.T) {
	w := newWorld(t)
	c := w.clone(w.token(), "acme/app")
	before := c.git("rev-parse", "HEAD")
	sha := c.commit("a.txt", "a\n")
	c.git("push", "origin", "HEAD:main", "HEAD:refs/heads/feature/x")

	if got := w.tip("main"); got != sha {
		t.Errorf("main is at %s, want %s", got, sha)
	}
	ref, _, err := w.installation().Git.GetRef(w.ctx, "acme", "app", "heads/feature/x")
	w.must(err)
	if ref.Object.GetSHA() != sha {
		t.Errorf("feature/x is at %s, want %s", ref.Object.GetSHA(), sha)
	}
	e := w.app.wait(t, "push", "", func(e event) bool { return e.at("ref") == "refs/heads/main" })
	if e.at("before") != before || e.at("after") != sha || e.at("head_commit", "id") != sha || e.at("sender", "login") != "signalbox[bot]" {
		t.Errorf("push event says %v..%v by %v", e.at("before"), e.at("after"), e.at("sender", "login"))
	}
	if id := e.at("installation", "id"); id == nil {
		t.Error("push event names no installation")
	}
}

func TestAPushThatMakesAHeadReachableMergesItsPullRequest(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	other := w.pull("b.txt", "b\n")
	c := w.clone(w.token(), "acme/app")
	base := c.git("rev-parse", "HEAD")
	c.git("fetch", "--quiet", "origin", "refs/pull/1/head")
	c.git("merge", "--no-ff", "--quiet", "-m", "land #1", "FETCH_HEAD")
	sha := c.git("rev-parse", "HEAD")
	c.git("push", "--force-with-lease=main:"+base, "origin", "HEAD:main")

	pr, _, err := w.installation().PullRequests.Get(w.ctx, "acme", "app", p.Number)
	w.must(err)
	if !pr.GetMerged() || pr.GetState() != "closed" || pr.GetMergeCommitSHA() != sha || pr.GetMergedBy().GetLogin() != "signalbox[bot]" {
		t.Errorf("#1 is merged=%v %s at %s by %s", pr.GetMerged(), pr.GetState(), pr.GetMergeCommitSHA(), pr.GetMergedBy().GetLogin())
	}
	e := w.app.wait(t, "pull_request", "closed", nil)
	if e.at("pull_request", "merged") != true || e.at("pull_request", "merge_commit_sha") != sha {
		t.Errorf("closed event says merged=%v at %v", e.at("pull_request", "merged"), e.at("pull_request", "merge_commit_sha"))
	}
	pr, _, err = w.installation().PullRequests.Get(w.ctx, "acme", "app", other.Number)
	w.must(err)
	if pr.GetState() != "open" {
		t.Errorf("#2 is %s, want open", pr.GetState())
	}
}

func TestALeaseThatIsStaleIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.clone(w.token(), "acme/app")
	base := c.git("rev-parse", "HEAD")
	c.commit("a.txt", "a\n")
	moved, err := w.Push(w.ctx, Push{Repo: "acme/app", Branch: "main", Author: "bob", Files: files("b.txt", "b\n")})
	w.must(err)
	out, err := c.try("push", "--porcelain", "--force-with-lease=main:"+base, "origin", "HEAD:main")
	if err == nil || !strings.Contains(out, "stale info") {
		t.Errorf("push: %v\n%s", err, out)
	}
	if got := w.tip("main"); got != moved {
		t.Errorf("main is at %s, want %s", got, moved)
	}
}

func TestPushesToAHeadAreFollowed(t *testing.T) {
	w := newWorld(t)
	p := w.open(OpenPull{Branch: "topic", Files: files("a.txt", "a\n")})
	c := w.clone(w.UserToken("alice"), "acme/app")
	c.git("checkout", "--quiet", "topic")
	sha := c.commit("a.txt", "better\n")
	c.git("push", "--quiet", "origin", "topic")

	e := w.app.wait(t, "pull_request", "synchronize", nil)
	if e.at("before") != p.HeadSHA || e.at("after") != sha || e.at("pull_request", "head", "sha") != sha {
		t.Errorf("synchronize says %v..%v", e.at("before"), e.at("after"))
	}
	if got := c.git("ls-remote", "origin", "refs/pull/1/head"); !strings.HasPrefix(got, sha) {
		t.Errorf("refs/pull/1/head: %s, want %s", got, sha)
	}
	c.git("push", "--quiet", "origin", "--delete", "topic")
	e = w.app.wait(t, "pull_request", "closed", nil)
	if e.at("pull_request", "merged") != false {
		t.Error("a pull request whose branch was deleted counts as merged")
	}
}

func TestWhoMayNotIsToldSoByGit(t *testing.T) {
	w := newWorld(t)
	url := w.URL() + "/acme/app.git"
	for _, test := range []struct{ name, token, want string }{
		{"no such token", "ghs_wrong", "could not read Username|Authentication failed"},
		{"no access", w.UserToken("mallory"), "not found"},
	} {
		c := &clone{t, t.TempDir(), test.token}
		out, err := c.try("ls-remote", url)
		if err == nil {
			t.Errorf("%s: ls-remote succeeded", test.name)
		}
		ok := false
		for _, want := range strings.Split(test.want, "|") {
			ok = ok || strings.Contains(out, want)
		}
		if !ok {
			t.Errorf("%s: git said %s", test.name, out)
		}
	}
	w.must(w.SetPermission("acme/app", "rita", "read"))
	c := w.clone(w.UserToken("rita"), "acme/app")
	c.commit("a.txt", "a\n")
	if out, err := c.try("push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "403") {
		t.Errorf("push by a reader: %v\n%s", err, out)
	}
}

func TestGitCanAskForTheToken(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "askpass"), []byte("#!/bin/sh\necho \"$TOKEN\"\n"), 0o755))
	cmd := exec.Command("git", "ls-remote", strings.Replace(w.URL(), "http://", "http://x-access-token@", 1)+"/acme/app.git", "main")
	cmd.Env = append(gitEnv(), "GIT_ASKPASS="+filepath.Join(dir, "askpass"), "TOKEN="+w.token())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), w.tip("main")) {
		t.Errorf("git: %v\n%s", err, out)
	}
}

func TestAnEarlierRunsFolderIsNotUsed(t *testing.T) {
	w := newWorld(t)
	if _, err := New(Config{DataDir: w.cfg.DataDir}); err == nil || !strings.Contains(err.Error(), "earlier run") {
		t.Errorf("got %v", err)
	}
}

func TestAPartialMirrorCanBeMadeAndFetchesAnyCommit(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	c := &clone{t, t.TempDir(), w.token()}
	c.git("clone", "--quiet", "--bare", "--filter=blob:none", w.URL()+"/acme/app.git", "mirror.git")
	c.dir += "/mirror.git"
	c.git("fetch", "--quiet", "origin", p.HeadSHA)
	if got := c.git("cat-file", "-p", p.HeadSHA+":a.txt"); got != "a" {
		t.Errorf("a.txt is %q", got)
	}
	c.git("fsck", "--full")
}
