package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"signalbox/flaky"
)

// action is a composite action, as action.yml describes it.
type action struct {
	Name, Description string
	Inputs            map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			Name, ID, Shell, Run string
			Env                  map[string]string
		}
	}
}

const actionsDir = "../../deploy/actions"

// actionNames are the actions that there are.
func actionNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(actionsDir + "/*/action.yml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v %v", files, err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

func readAction(t *testing.T, name string) action {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(actionsDir, name, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.UnmarshalWithOptions(text, &a, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return a
}

// input is where the value of an input goes into a variable; nothing else may.
var input = regexp.MustCompile(`^\$\{\{ inputs\.([a-z0-9-]+) \}\}$`)

// looked are variables that a script need not name: the step that fetches the
// program, and the program, look at them themselves.
const looked = "$BINARY_URL$BINARY_SHA256$SIGNALBOX_URL$SIGNALBOX_TOKEN$SIGNALBOX_ORG$SIGNALBOX_PUBLIC_REPO_ID"

// An input never becomes part of a script, each is used and documented, and the
// examples of the READMEs give only inputs that there are.
func TestActionsTakeInputsAsVariablesAlone(t *testing.T) {
	t.Parallel()
	for _, name := range actionNames(t) {
		a := readAction(t, name)
		readme, err := os.ReadFile(filepath.Join(actionsDir, name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		if a.Runs.Using != "composite" || a.Name == "" || a.Description == "" {
			t.Errorf("%s is not a described composite action", name)
		}
		used := map[string]bool{}
		for _, step := range a.Runs.Steps {
			if step.Shell != "bash" || step.Name == "" || strings.Contains(step.Run, "${{") {
				t.Errorf("%s, step %q: an expression stands in the script, or it is not for bash", name, step.Name)
			}
			for variable, value := range step.Env {
				m := input.FindStringSubmatch(value)
				if m == nil || !strings.Contains(step.Run+looked, "$"+variable) {
					t.Errorf("%s, step %q: %s is %q, and is no input that the script looks at", name, step.Name, variable, value)
					continue
				}
				used[m[1]] = true
			}
		}
		for in, about := range a.Inputs {
			if !used[in] || about.Description == "" || !strings.Contains(string(readme), "`"+in+"`") {
				t.Errorf("%s: input %s is not used, not described, or not in the README", name, in)
			}
		}
		for in := range used {
			if _, ok := a.Inputs[in]; !ok {
				t.Errorf("%s uses an input %s that it does not have", name, in)
			}
		}
		checkExample(t, name, a, string(readme))
	}
}

// checkExample holds the workflow of a README against the action.
func checkExample(t *testing.T, name string, a action, readme string) {
	t.Helper()
	_, block, found := strings.Cut(readme, "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]any
			}
		}
	}
	if err := yaml.Unmarshal([]byte(block), &workflow); !found || !closed || err != nil {
		t.Fatalf("%s: no workflow in the README: %v", name, err)
	}
	n := 0
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if !strings.Contains(step.Uses, "/deploy/actions/"+name+"@") {
				continue
			}
			n++
			for in := range step.With {
				if _, ok := a.Inputs[in]; !ok {
					t.Errorf("%s: the example gives %s, which is no input", name, in)
				}
			}
			for in, about := range a.Inputs {
				if _, given := step.With[in]; about.Required && !given {
					t.Errorf("%s: the example lacks %s", name, in)
				}
			}
		}
	}
	if n != 1 {
		t.Errorf("%s: its example uses it %d times", name, n)
	}
}

// runner runs actions as GitHub's does, in a folder, with what a job has in its
// environment.
type runner struct {
	t    *testing.T
	dir  string
	env  map[string]string
	path string
}

func newRunner(t *testing.T, dir string, env map[string]string) *runner {
	t.Helper()
	return &runner{t, dir, env, programDir(t) + ":" + os.Getenv("PATH")}
}

// does runs an action with inputs. It returns how its last step ended, what it
// printed, and its outputs.
func (r *runner) does(name string, with map[string]string) (code int, printed string, outputs map[string]string) {
	r.t.Helper()
	a := readAction(r.t, name)
	value := func(expression string) string {
		in := input.FindStringSubmatch(expression)[1]
		if v, given := with[in]; given {
			return v
		}
		return a.Inputs[in].Default
	}
	here, err := filepath.Abs(filepath.Join(actionsDir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	files := r.t.TempDir()
	putFiles(r.t, files, map[string]string{"path": "", "output": ""})
	outputs = map[string]string{}
	for _, step := range a.Runs.Steps {
		path := r.path
		if more, _ := os.ReadFile(filepath.Join(files, "path")); len(more) > 0 {
			path = strings.TrimSpace(string(more)) + ":" + path
		}
		env := maps.Clone(r.env)
		maps.Copy(env, map[string]string{"PATH": path, "HOME": r.dir, "RUNNER_TEMP": files, "GITHUB_ACTION_PATH": here,
			"GITHUB_PATH": filepath.Join(files, "path"), "GITHUB_OUTPUT": filepath.Join(files, "output"), "GIT_CEILING_DIRECTORIES": filepath.Dir(r.dir)})
		for variable, expression := range step.Env {
			env[variable] = value(expression)
		}
		cmd := exec.CommandContext(r.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir = r.dir
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		printed += out.String()
		if code = cmd.ProcessState.ExitCode(); err != nil {
			break
		}
	}
	lines, _ := os.ReadFile(filepath.Join(files, "output"))
	for line := range strings.Lines(string(lines)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	return code, printed, outputs
}

// hostile is text that does something if it is ever read as a script.
var hostile = []string{"$(touch pwned)", "`touch pwned`", "; touch pwned #", "\" && touch pwned && \"", "'; touch pwned; '", "${IFS}", "--url=http://127.0.0.1:1", "a\ntouch pwned"}

// The actions against the whole service: what they do, how they end, and that no
// input becomes a command.
func TestActionsOnTheWholeService(t *testing.T) {
	t.Parallel()
	s := newStation(t)
	s.does(0, "queue create concurrency=4 merge-method=merge_commit --branch main")
	s.open("Fine", map[string]string{"a": "1"})
	s.open("Broken", map[string]string{"b": "1", ".ci-sim/test/b": ""})
	s.open("Later", map[string]string{"services/pay/c": "1"})
	r := newRunner(t, s.dir, map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://" + demoHost, "GITHUB_REPOSITORY": "acme/app",
		"GITHUB_SHA": "0123456789012345678901234567890123456789", "GITHUB_REF": "refs/pull/3/merge", "GITHUB_BASE_REF": "main", "GITHUB_RUN_ID": "9", "GITHUB_JOB": "test"})
	inputs := func(more ...string) map[string]string {
		return with(map[string]string{"url": "http://" + s.listen, "token": s.token}, more...)
	}
	for _, c := range []struct {
		action  string
		with    map[string]string
		code    int
		outcome string // "" = none
		says    string
	}{
		{"submit", inputs("pr", "1", "wait", "true"), 0, "merged", "#1 is merged."},
		{"submit", inputs("pr", "2", "wait", "true", "priority", "high", "no-batch", "true"), exitFailed, "failed", "#2 failed."},
		{"submit", inputs("pr", "77"), exitRefused, "", "PR_NOT_FOUND"},
		{"submit", inputs("pr", "3", "priority", "soon"), exitUsage, "", "priority is"},
		{"submit", inputs("token", "x"), exitToken, "", "TOKEN_INVALID"},
		{"submit", inputs(), 0, "queued", "#3 "},
		{"upload-targets", inputs("targets", "web\nlib\n"), 0, "", "2 targets are impacted."},
		{"upload-targets", inputs("targets", "ALL"), 0, "", "Everything is impacted"},
		{"upload-targets", inputs("base", "nowhere"), exitUsage, "", "nowhere is not in this checkout"},
		{"upload-targets", inputs("branch", "release"), exitUsage, "", "refs/remotes/origin/release is not in this checkout"},
		{"upload-targets", inputs("targets", "web", "branch", "release"), exitRefused, "", "QUEUE_NOT_FOUND"},
	} {
		code, printed, outputs := r.does(c.action, c.with)
		if code != c.code || outputs["outcome"] != c.outcome || !strings.Contains(printed, c.says) {
			t.Errorf("%s %v: ended with %d %v, want %d %q and %q:\n%s", c.action, c.with, code, outputs, c.code, c.outcome, c.says, printed)
		}
	}
	// What the pull request changes, as GitHub's merge of it has it.
	s.git("fetch", "-q", "origin", "main", "refs/pull/3/head")
	s.git("checkout", "-q", "FETCH_HEAD")
	s.git("checkout", "-q", "origin/main")
	s.git("merge", "-q", "--no-ff", "-m", "merge", s.git("ls-remote", "origin", "refs/pull/3/head")[:40])
	r.env["GITHUB_SHA"] = s.git("rev-parse", "HEAD")
	if code, printed, _ := r.does("upload-targets", inputs()); code != 0 || !strings.Contains(printed, "1 target is impacted (1 file changed") || !strings.Contains(printed, "Uploaded for #3") {
		t.Errorf("%d %s", code, printed)
	}
	for _, name := range actionNames(t) {
		for in := range readAction(t, name).Inputs {
			if slices.Contains([]string{"url", "token", "wait-timeout"}, in) {
				continue
			}
			for _, text := range hostile {
				r.does(name, inputs("reports", "none.xml", in, text))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "pwned")); err == nil {
		t.Error("an input was run as a command")
	}
}

// upload-results ends as the tests did, or green if everything that failed is
// quarantined.
func TestTheActionForResultsEndsAsTheTestsDid(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.excused = map[string]flaky.QuarantineCode{"charge": flaky.KnownFailure}
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"good/a.xml": twoPass, "bad/b.xml": oneFails, "odd name/c.xml": strings.ReplaceAll(twoPass, "Cart", "Shelf")})
	r := newRunner(t, dir, gitHubEnv)
	for _, c := range []struct {
		with []string
		code int
		says string
	}{
		{[]string{"reports", "good/*.xml", "test-outcome", "success"}, 0, "1 report, 2 tests"},
		{[]string{"reports", "\n  good/*.xml\n  odd name/c.xml  \n\n", "test-outcome", "success", "expect", "2", "variant", "linux", "check", "unit"}, 0, "2 reports, 4 tests"},
		{[]string{"reports", "good/*.xml", "test-outcome", "failure"}, 1, "although no test failed"},
		{[]string{"reports", "bad/*.xml", "test-outcome", "failure"}, 0, "quarantined  pay > Card > charge"},
		{[]string{"reports", "bad/*.xml", "exit-code", "7", "expect", "2"}, 7, "only 1 of 2"},
		{[]string{"reports", "bad/*.xml", "test-outcome", "cancelled"}, 143, "ended from outside"},
		{[]string{"reports", "none/*.xml", "test-outcome", "success"}, 1, "no report matches none/*.xml"},
		{[]string{"reports", "good/*.xml", "test-outcome", "success", "token", ""}, 0, "SIGNALBOX_TOKEN"},
		{[]string{"reports", "--help", "test-outcome", "success"}, 1, "no report matches --help"},
	} {
		f.between(func() { f.asked = 0 })
		if code, printed, _ := r.does("upload-results", with(map[string]string{"url": f.URL, "token": "secret"}, c.with...)); code != c.code || !strings.Contains(printed, c.says) {
			t.Errorf("%v: ended with %d, want %d and %q:\n%s", c.with, code, c.code, c.says, printed)
		}
	}
}

// The program is fetched only as what it has to be.
func TestActionsFetchTheProgram(t *testing.T) {
	t.Parallel()
	program := "#!/bin/sh\necho \"fetched $*\"\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/signalbox" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, program)
	}))
	t.Cleanup(s.Close)
	sum := fmt.Sprintf("%X", sha256.Sum256([]byte(program)))
	r := newRunner(t, t.TempDir(), map[string]string{})
	for _, c := range []struct {
		url, sum string
		code     int
		says     string
	}{
		{s.URL + "/signalbox", sum, 0, "fetched submit -- 1\n"},
		{s.URL + "/signalbox", strings.Repeat("0", 64), 2, "is not what binary-sha256 says: it is " + strings.ToLower(sum)},
		{s.URL + "/signalbox", "", 2, "binary-url needs binary-sha256"},
		{s.URL + "/nothing", sum, 2, "could not be fetched"},
		{"file:///etc/passwd", sum, 2, "could not be fetched"},
	} {
		code, printed, outputs := r.does("submit", map[string]string{"url": "https://x", "token": "x", "pr": "1", "binary-url": c.url, "binary-sha256": c.sum})
		if code != c.code || !strings.Contains(printed, c.says) || code == 0 && outputs["outcome"] != "queued" {
			t.Errorf("%s %s: %d %s", c.url, c.sum, code, printed)
		}
	}
	r.path = "/usr/bin:/bin"
	if code, printed, _ := r.does("submit", map[string]string{"url": "https://x", "token": "x"}); code != 2 || !strings.Contains(printed, "::error title=signalbox::The program signalbox is not on this runner.") {
		t.Errorf("%d %s", code, printed)
	}
}
