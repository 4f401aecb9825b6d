package main

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
)

// The examples of the documents are run, on the demo's stage: a Postgres, a
// simulated GitHub and the server. What cannot be run here is named below with
// the reason; of that, at least the commands of ours are held against the
// command line, and make knows its targets.

// notRun are the blocks that are not run, by the words that they begin with.
var notRun = map[string]string{
	"make build": "make has been told to build before",
	"export SIGNALBOX_URL=https://signalbox.example.com\nexport SIGNALBOX_TOKEN=…": "says what the reader has to fill in",
	"signalbox serve":          "runs until it is stopped",
	"signalbox doctor":         "asks GitHub itself",
	"signalbox verify-history": "asks GitHub itself",
	"docker":                   "no container engine is here",
	"kubectl":                  "no cluster is here",
	"install":                  "changes the machine",
	"export SIGNALBOX_APP_ID=": "runs until it is stopped",
	"pg_dump":                  "not every machine has it",
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// shellBlocks are the examples of a document.
func shellBlocks(t *testing.T, path string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, strings.TrimSpace(m[1]))
	}
	return blocks
}

// reasonNotToRun is "" for a block that is run.
func reasonNotToRun(block string) string {
	for begins, why := range notRun {
		if strings.HasPrefix(block, begins) {
			return why
		}
	}
	return ""
}

var ourCommand = regexp.MustCompile(`(?m)^(?:export \w+=\$\()?(?:bin/)?signalbox ([^#)\n]*)`)

// TestCommandsOfTheDocumentsAreThere: every command of ours in an example is
// one, with the flags that it has, and every target of make too.
func TestCommandsOfTheDocumentsAreThere(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range append(paths, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.Join(shellBlocks(t, path), "\n")
		for _, m := range ourCommand.FindAllStringSubmatch(code, -1) {
			seen++
			args := strings.Fields(regexp.MustCompile(`["']`).ReplaceAllString(strings.ReplaceAll(m[1], `"release bot"`, "bot"), ""))
			if i := slices.IndexFunc(args, func(a string) bool { return a == "||" || a == "|" || a == ">" || a == "&&" }); i >= 0 {
				args = args[:i]
			}
			if _, err := commandLine(t).Parse(args); err != nil {
				t.Errorf("%s: signalbox %s: %v", path, m[1], err)
			}
		}
		for _, m := range regexp.MustCompile("(?m)^(?:    |`)?make ([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			seen++
			if out, err := exec.CommandContext(t.Context(), "make", "-n", "-C", "../..", m[1]).CombinedOutput(); err != nil {
				t.Errorf("%s: make %s: %v\n%s", path, m[1], err, out)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d commands were found", seen)
	}
}

// TestTheExamplesOfTheDocumentsRun as a reader would run them, in order.
func TestTheExamplesOfTheDocumentsRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := setStage(ctx, stageOptions{listen: "127.0.0.1:0", log: discard, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.clear(); err != nil {
			t.Error(err)
		}
	})
	r := newReader(t, s)
	// The API's examples name a pull request that is being tested.
	demand(t)(s.sim.CreateRepo(ctx, githubsim.NewRepo{Owner: "acme", Name: "app", Checks: []string{"test"}, CI: githubsim.CI{MinSeconds: 600, MaxSeconds: 600}}))
	line := "a line\n"
	_, err = s.sim.OpenPull(ctx, githubsim.OpenPull{Repo: "acme/app", Author: "alice", Title: "One line", Files: map[string]*string{"a.txt": &line}})
	demand(t)(err)

	r.run(ctx, "../../docs/getting-started.md")
	r.shell(ctx, "forget that queue", `curl -fsS "$SIGNALBOX_URL/v1/deleteQueue" -H "x-api-token: $SIGNALBOX_TOKEN" -H 'Content-Type: application/json' -d '{"repo": {"host": "github.com", "owner": "acme", "name": "app"}, "targetBranch": "main"}'`)
	r.run(ctx, "../../docs/api.md")
	r.run(ctx, "../../README.md")
	// The README has the reader look until it has landed.
	for {
		out := r.shell(ctx, "look", `curl -fsS "$SIGNALBOX_URL/v1/getSubmittedPullRequest" -H "x-api-token: $SIGNALBOX_TOKEN" -H 'Content-Type: application/json' -d '{"repo": {"host": "github.localhost", "owner": "acme", "name": "hello"}, "targetBranch": "main", "pr": {"number": 1}}'`)
		if strings.Contains(out, `"state":"merged"`) {
			break
		}
		if ctx.Err() != nil || strings.Contains(out, `"state":"failed"`) {
			t.Fatalf("it has not landed: %s", out)
		}
	}
	if r.ran < 9 {
		t.Errorf("only %d examples were run", r.ran)
	}
}

// reader types what documents say.
type reader struct {
	t   *testing.T
	env map[string]string
	ran int
}

func newReader(t *testing.T, s *stage) *reader {
	dir := programDir(t)
	return &reader{t: t, env: map[string]string{
		"PATH": dir + ":" + os.Getenv("PATH"), "HOME": dir, "DATABASE_URL": s.where.Database,
		"SIGNALBOX_URL": strings.TrimSuffix(s.where.API, "/v1"), "SIGNALBOX_TOKEN": s.where.AdminToken, "GITHUB": s.where.GitHub,
	}}
}

// run runs the examples of a document.
func (r *reader) run(ctx context.Context, path string) {
	r.t.Helper()
	for _, block := range shellBlocks(r.t, path) {
		if reasonNotToRun(block) != "" {
			continue
		}
		r.ran++
		r.shell(ctx, path, block)
	}
}

// toFillIn are lines in which the reader puts what is theirs.
var toFillIn = regexp.MustCompile(`(?m)^export \w+=(?:\S*example\.com|\S*PORT|TOKEN|…).*\n`)

// shell runs a block, which ends at the first command that fails, and returns
// what it printed.
func (r *reader) shell(ctx context.Context, where, block string) string {
	r.t.Helper()
	block = toFillIn.ReplaceAllString(block, "")
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	for name, value := range maps.All(r.env) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s\n%s", where, err, block, out)
	}
	return string(out)
}
