package main

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox/flaky"
	"signalbox/queue"
)

// ciSteps are where the command stands in each example of the docs, and what
// its CI system tells a job.
var ciSteps = []struct {
	ci, block string
	path      string // of the command in the YAML; "" is a block that is not YAML
	env       map[string]string
}{
	{"GitHub Actions", "### GitHub Actions", "$.jobs.test.steps[1].run", gitHubEnv},
	{"GitLab CI", "### GitLab CI", "$.test.script[0]", map[string]string{"GITLAB_CI": "true", "CI_SERVER_HOST": "gitlab.com", "CI_PROJECT_NAMESPACE": "acme", "CI_PROJECT_NAME": "shop", "CI_COMMIT_SHA": "0123456789012345678901234567890123456789", "CI_PIPELINE_ID": "5", "CI_JOB_NAME": "test"}},
	{"CircleCI", "### CircleCI", "$.jobs.test.steps[1].run.command", map[string]string{"CIRCLECI": "true", "CIRCLE_REPOSITORY_URL": "git@github.com:acme/shop.git", "CIRCLE_SHA1": "0123456789012345678901234567890123456789", "CIRCLE_WORKFLOW_ID": "w", "CIRCLE_JOB": "test"}},
	{"Buildkite", "### Buildkite", "$.steps[0].command", map[string]string{"BUILDKITE": "true", "BUILDKITE_REPO": "https://github.com/acme/shop.git", "BUILDKITE_COMMIT": "0123456789012345678901234567890123456789", "BUILDKITE_BUILD_ID": "b", "BUILDKITE_STEP_ID": "s"}},
	{"Jenkins", "### Jenkins", "", map[string]string{"JENKINS_URL": "https://ci", "GIT_URL": "https://github.com/acme/shop.git", "GIT_COMMIT": "0123456789012345678901234567890123456789", "BUILD_TAG": "jenkins-shop-12", "JOB_NAME": "shop"}},
}

// The steps of the docs do what they say, each in an environment like that of
// its CI system: a failure that is quarantined passes, another one keeps the
// exit code of the tests.
func TestTheStepsOfTheDocsWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/flaky-tests.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ciSteps {
		t.Run(c.ci, func(t *testing.T) {
			t.Parallel()
			_, section, found := strings.Cut(string(text), c.block+"\n")
			_, block, fenced := strings.Cut(section, "```")
			block, _, closed := strings.Cut(block, "```")
			if !found || !fenced || !closed {
				t.Fatalf("the docs have no example for %s", c.ci)
			}
			_, block, _ = strings.Cut(block, "\n")
			command := commandIn(t, c.path, block)
			if c.ci == "Buildkite" { // its agent puts variables in, and a doubled dollar becomes one
				command = strings.ReplaceAll(command, "$$", "$")
			}
			f := newFakeService(t)
			for _, excused := range []bool{true, false} {
				want, excuses := 3, map[string]flaky.QuarantineCode{}
				if excused {
					excuses["charge"], want = flaky.KnownFailure, 0
				}
				f.between(func() { f.excused, f.asked = excuses, 0 })
				if code := step(t, c.env, f.URL, command); code != want {
					t.Errorf("excused %v: the step ends with %d, not %d", excused, code, want)
				}
			}
			f.between(func() {
				if len(f.queries) != 2 || f.queries[0].Get("ci") != c.ci || f.queries[0].Get("name") != "shop" {
					t.Errorf("uploaded: %v", f.queries)
				}
			})
		})
	}
}

// commandIn is the shell command of an example.
func commandIn(t *testing.T, path, block string) string {
	t.Helper()
	if path == "" {
		_, command, _ := strings.Cut(block, "'''")
		command, _, found := strings.Cut(command, "'''")
		if !found {
			t.Fatalf("no command in\n%s", block)
		}
		return command
	}
	where, err := yaml.PathString(path)
	if err != nil {
		t.Fatal(err)
	}
	var command string
	if err := where.Read(strings.NewReader(block), &command); err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	return command
}

// step runs a command as CI systems do, with tests of which one fails, and
// returns the exit code.
func step(t *testing.T, facts map[string]string, service, command string) int {
	t.Helper()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{
		"run-tests": "#!/bin/sh\nmkdir -p reports/unit && cp saved reports/unit/junit.xml && exit 3\n",
		"saved":     oneFails,
	})
	if err := os.Chmod(filepath.Join(dir, "run-tests"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := maps.Clone(facts)
	maps.Copy(env, map[string]string{"SIGNALBOX_URL": service, "SIGNALBOX_TOKEN": "secret", "PATH": programDir(t) + ":" + os.Getenv("PATH")})
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", command)
	cmd.Dir = dir
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, _ := cmd.CombinedOutput() // how it ended is what is returned
	t.Logf("%s", out)
	return cmd.ProcessState.ExitCode()
}

// The client against the whole service: what failed blocks until a person
// quarantines it, and then it does not.
func TestUploadToTheWholeService(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := newTown(ctx, t, queue.DefaultSettings(), false)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"a.xml": oneFails})
	base := "http://" + w.service.main.address()
	env := map[string]string{"SIGNALBOX_URL": base, "SIGNALBOX_TOKEN": w.token}
	send := func(job string, want int, says string) {
		t.Helper()
		out, warned, code := signalboxIn(t, dir, env, "upload", "--exit-code", "3", "--repo", demoHost+"/"+townRepo, "--sha", strings.Repeat("ab", 20), "--job", job, "a.xml")
		if code != want || warned != "" || !strings.Contains(out, says) {
			t.Errorf("ended with %d, not %d, or does not say %q:\n%s%s", code, want, says, out, warned)
		}
	}
	send("1", 3, "the repository has automatic quarantine switched off")
	id := flaky.Test{Org: "acme", Repo: demoHost + "/acme/app", Parent: "pay", Classname: "Card", Name: "charge"}.ID()
	if err := w.api().About(ctx, "flaky-tests/set-quarantine", map[string]any{"test_id": id.String(), "setting": "ALWAYS_QUARANTINE", "owner": "alice", "reason": "the bank is slow",
		"expires_at": w.clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)}, nil); err != nil {
		t.Fatal(err)
	}
	send("2", 0, "somebody set it to be always quarantined")
}
