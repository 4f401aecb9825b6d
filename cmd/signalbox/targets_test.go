package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
)

// commit puts files into the checkout and commits them. It returns the commit.
func (s *station) commit(files map[string]string) string {
	s.t.Helper()
	putFiles(s.t, s.dir, files)
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "change")
	return s.git("rev-parse", "HEAD")
}

// impacted are the targets that testing details show for a pull request, after
// it has been submitted: what the service has kept.
func (s *station) impacted(number int, known bool) string {
	s.t.Helper()
	out, _ := s.does(0, fmt.Sprintf("submit %d --json", number))
	var p struct {
		Readiness struct {
			HasImpactedTargets bool `json:"hasImpactedTargets"`
		}
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Readiness.HasImpactedTargets != known {
		s.t.Errorf("#%d: %v, the service knows its targets: %v, want %v", number, err, p.Readiness.HasImpactedTargets, known)
	}
	return out
}

// Targets are found in a checkout and arrive at the service, with a token and
// from a fork without one.
func TestTargetsOnTheWholeService(t *testing.T) {
	t.Parallel()
	s := newStation(t)
	s.does(0, "queue create mode=parallel --branch main")
	s.does(0, "queue pause")
	s.git("checkout", "-q", "-b", "topic")
	s.commit(map[string]string{"services/pay/a.go": "1", "services/pay/b.go": "1", "docs/x.md": "1"})
	s.git("push", "-q", "origin", "topic")
	opened, err := s.sim.OpenPull(t.Context(), githubsim.OpenPull{Repo: "acme/app", Title: "Pay", Author: "alice", Branch: "topic", Files: filesOf(map[string]string{"docs/y.md": "1"})})
	if err != nil {
		t.Fatal(err)
	}
	s.git("fetch", "-q", "origin")
	s.impacted(opened.Number, false)
	s.git("checkout", "-q", opened.HeadSHA)

	out, _ := s.does(0, "targets")
	want := fmt.Sprintf("2 targets are impacted (4 files changed between %.12s and %.12s).\n  docs          docs/x.md and 1 more\n  services/pay  services/pay/a.go and 1 more\nUploaded for #%d, head %.12s, to the queue for main of acme/app.\n",
		s.git("rev-parse", "origin/main"), opened.HeadSHA, opened.Number, opened.HeadSHA)
	if out != want {
		t.Errorf("%s, want\n%s", out, want)
	}
	s.impacted(opened.Number, true)

	fork, err := s.sim.OpenPull(t.Context(), githubsim.OpenPull{Repo: "acme/app", Title: "From outside", Author: "eve", Fork: true, Files: filesOf(map[string]string{"x": "1"})})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.sim.SetWorkflowRun(t.Context(), githubsim.WorkflowRun{Repo: "acme/app", Number: fork.Number})
	if err != nil {
		t.Fatal(err)
	}
	s.impacted(fork.Number, false)
	putFiles(t, s.dir, map[string]string{".git/event.json": fmt.Sprintf(`{"pull_request":{"number":%d,"head":{"sha":%q,"repo":{"full_name":"eve/app"}},"base":{"ref":"main","repo":{"full_name":"acme/app"}}}}`, fork.Number, fork.HeadSHA)})
	inFork := []string{"SIGNALBOX_TOKEN", "", "GITHUB_ACTIONS", "true", "GITHUB_RUN_ID", fmt.Sprint(run), "GITHUB_EVENT_PATH", filepath.Join(s.dir, ".git/event.json"), "GITHUB_BASE_REF", "main", "GITHUB_SHA", fork.HeadSHA}
	if out, _ := s.does(0, "targets --all --json", inFork...); !strings.Contains(out, fmt.Sprintf(`"pr":%d,"sha":%q`, fork.Number, fork.HeadSHA)) || !strings.Contains(out, `"all":true`) {
		t.Error(out)
	}
	s.impacted(fork.Number, true)
	inFork[5] = "1" // a run that is none
	if _, warned := s.does(exitToken, "targets --all", inFork...); !strings.Contains(warned, "FORK_RUN_NOT_CONFIRMED") {
		t.Error(warned)
	}
	s.does(exitRefused, "targets --all --branch nowhere 1")
}

// Where targets come from, and what is said when that does not work.
func TestTargetsAreFoundInACheckout(t *testing.T) {
	t.Parallel()
	upstream := &station{t: t, dir: t.TempDir()}
	upstream.git("init", "-q", "-b", "main")
	upstream.commit(map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n", "a/a.go": "package a\n\nimport _ \"example.com/m/b\"\n", "b/b.go": "package b\n", "c/c.go": "package c\n", "web/x.ts": "1",
	})
	s := &station{t: t, dir: t.TempDir()}
	s.git("clone", "-q", upstream.dir, ".")
	s.git("checkout", "-q", "-b", "topic")
	s.commit(map[string]string{"b/b.go": "package b\n\nvar X = 1\n", "web/x.ts": "2", "it's": "1"})
	bin := t.TempDir()
	putFiles(t, bin, map[string]string{
		"nx":    "#!/bin/sh\n[ \"$1 $2 $3 $6\" = 'show projects --affected --json' ] || exit 1\necho \"[\\\"$4\\\", \\\"ui\\\"]\"\n",
		"bazel": "#!/bin/sh\nfor a; do case $a in --query_file=*) q=${a#--query_file=};; esac; done\ncat \"$q\" >> \"$HOME/queries\"; echo >> \"$HOME/queries\"\ncase \"$*\" in *--keep_going*) echo //b:b.go; exit 3;; esac\necho //b:b; echo //a:a\n",
	})
	for _, name := range []string{"nx", "bazel"} {
		if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	goCache := t.TempDir()
	base := map[string]string{"PATH": bin + ":" + os.Getenv("PATH"), "HOME": bin, "GOCACHE": goCache, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
	for _, c := range []struct {
		line, input string
		env         map[string]string
		code        int
		want        string // part of what is printed
	}{
		{line: "targets --dry-run", code: 2, want: "nothing says which target a file belongs to"},
		{line: "targets --dry-run --folders web", want: "Everything is impacted: b/b.go changed, and no rule knows it (3 files changed"},
		{line: "targets --dry-run --folders web --otherwise nothing", want: "1 target is impacted (3 files changed"},
		{line: "targets --dry-run --target ui=web --target lib=a,b/** --ignore *s --json", want: `"targets":["lib","ui"],"files":3`},
		{line: "targets --dry-run --everything web --otherwise nothing", want: "Everything is impacted: web/x.ts changed"},
		{line: "targets --dry-run --folders [", code: 2, want: `folders: "[" is no pattern`},
		{line: "targets --dry-run --go ./... --otherwise nothing --json", want: `"targets":["example.com/m/a","example.com/m/b"]`},
		{line: "targets --dry-run --go ./... --target ui=web,it*", want: "3 targets are impacted"},
		{line: "targets --dry-run --go ./nowhere", code: 1, want: "go list"},
		{line: "targets --dry-run --nx --json", want: `"ui"],"files":3`},
		{line: "targets --dry-run --bazel //...", want: "Everything is impacted: \"it's\" changed, which a question to Bazel cannot name"},
		{line: "targets --dry-run --bazel //... --base HEAD~1 --sha 0000000000000000000000000000000000000000", want: "Everything"},
		{line: "targets --dry-run --bazel=-x", code: 2, want: "give a universe"},
		{line: "targets --dry-run --stdin", input: "//a:b\n//c:d\n", want: "2 targets are impacted.\n  //a:b\n  //c:d\n"},
		{line: "targets --dry-run --stdin", input: `["ui"]`, want: "1 target is impacted.\n  ui\n"},
		{line: "targets --dry-run --stdin", want: "0 targets are impacted.\n"},
		{line: "targets --dry-run --stdin", input: "a\x00", code: 1, want: "is no name of a target"},
		{line: "targets --dry-run --stdin --all", code: 2, want: "can't be used together"},
		{line: "targets --dry-run --stdin --folders web", code: 2, want: "rules are not asked"},
		{line: "targets --dry-run --all", want: "Everything is impacted: the command line says so.\n"},
		{line: "targets --dry-run --all --sha 12ab", code: 2, want: "give the whole id"},
		{line: "targets --dry-run --folders web --base nowhere", code: 2, want: "nowhere is not in this checkout"},
		{line: "targets --dry-run --folders web --base=--output=x", code: 2, want: "--output=x is not in this checkout"},
		{line: "targets --dry-run --folders web --branch release", code: 2, want: "refs/remotes/origin/release is not in this checkout"},
		{line: "targets --dry-run --config none.yaml", code: 1, want: "none.yaml"},
		{line: "targets --dry-run --nx", env: map[string]string{"PATH": "/usr/bin:/bin"}, code: 1, want: "nx is not on this machine"},
		{line: "targets --all 1", code: 2, want: "set SIGNALBOX_TOKEN"},
	} {
		env := maps.Clone(base)
		maps.Copy(env, c.env)
		out, warned, code := signalboxFed(t, c.input, s.dir, env, words(c.line)...)
		if code != c.code || !strings.Contains(out+warned, c.want) {
			t.Errorf("signalbox %s: exit code %d, want %d and %q:\n%s%s", c.line, code, c.code, c.want, out, warned)
		}
	}

	// Bazel, with files that it can be asked about: what is there, what is gone.
	s.git("reset", "-q", "--hard", "origin/main")
	s.commit(map[string]string{"b/BUILD": "", "b/b.go": "package b\n\nvar Y = 1\n", "web/BUILD.bazel": ""})
	base2 := s.git("rev-parse", "HEAD")
	if err := os.Remove(filepath.Join(s.dir, "web/x.ts")); err != nil {
		t.Fatal(err)
	}
	s.commit(map[string]string{"b/b.go": "package b\n", "top.txt": "1"})
	out, warned, code := signalboxIn(t, s.dir, base, "targets", "--dry-run", "--bazel", "//...", "--base", base2)
	queries, err := os.ReadFile(filepath.Join(bin, "queries"))
	if err != nil || code != 0 || !strings.Contains(out, "2 targets are impacted (3 files changed") ||
		string(queries) != "set('b/b.go'\n'top.txt'\n'//web:all-targets'\n)\nrdeps(//..., set('//b:b.go'\n))\n" {
		t.Errorf("%v %d %s%s asked %q", err, code, out, warned, queries)
	}

	// The Git host's merge of the pull request shows the change by itself, also
	// where the history behind it was not fetched.
	s.git("checkout", "-q", "-b", "merged", "origin/main")
	s.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
	merge := s.git("rev-parse", "HEAD")
	s.git("push", "-q", "origin", "merged")
	shallow := &station{t: t, dir: t.TempDir()}
	shallow.git("clone", "-q", "--depth=2", "--branch=merged", "file://"+upstream.dir, ".")
	env := maps.Clone(base)
	maps.Copy(env, map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_SHA": merge, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_REPOSITORY": "acme/app"})
	args := []string{"targets", "--dry-run", "--json", "--folders", "b", "--otherwise", "nothing"}
	if out, warned, code := signalboxIn(t, shallow.dir, env, args...); code != 0 || !strings.Contains(out, `"targets":["b"]`) {
		t.Errorf("%d %s%s", code, out, warned)
	}
	shallow.git("checkout", "-q", "--orphan", "other")
	shallow.git("commit", "-q", "-m", "alone")
	if _, warned, code := signalboxIn(t, shallow.dir, base, append(args, "--base", merge)...); code != 2 || !strings.Contains(warned, "fetch-depth: 0") {
		t.Errorf("%d %s", code, warned)
	}
}
