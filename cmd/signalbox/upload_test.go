package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/flaky"
	"signalbox/flaky/report"
)

// fakeService takes uploads, reads them as the service does, and says of each
// test that failed what a test wants it to say.
type fakeService struct {
	*httptest.Server
	mu      sync.Mutex // of all that follows; tests use between
	queries []url.Values
	reads   []flaky.Read
	asked   int
	// answers in place of what it would say; nil: none.
	instead func(w http.ResponseWriter, r *http.Request) bool
	excused map[string]flaky.QuarantineCode // by name; others fail with NOT_FLAKY
	lookups []string                        // what forks asked, as JSON
}

// public answers CI of a fork, which has the repository's public id and may do
// nothing else with it.
func (f *fakeService) public(w http.ResponseWriter, r *http.Request, body []byte) {
	switch q := r.URL.Query(); {
	case r.URL.Path == "/v1/test-results" && q.Get("org") == "acme":
		f.queries = append(f.queries, q)
		_, _ = io.WriteString(w, `{"id":"7","new":true}`)
	case r.URL.Path == "/v1/metrics/getQuarantineConfig":
		f.lookups = append(f.lookups, string(body))
		var asked struct {
			OrgURLSlug      string
			TestIdentifiers []struct{ ID, Name string }
		}
		_ = json.Unmarshal(body, &asked)
		ids := []string{}
		for _, t := range asked.TestIdentifiers {
			if _, excused := f.excused[t.Name]; excused && asked.OrgURLSlug == "acme" {
				ids = append(ids, t.ID)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"isDisabled": false, "testIds": ids})
	default:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"code":"PUBLIC_REPO_ID_UNKNOWN","message":"The id is not one."}}`)
	}
}

func newFakeService(t *testing.T) *fakeService {
	f := &fakeService{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// between runs do while no request is answered.
func (f *fakeService) between(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if f.instead != nil && f.instead(w, r) {
		return
	}
	switch {
	case r.Header.Get("x-api-token") == "" && r.Header.Get("x-trunk-public-repo-id") == "k3wq7ab2":
		f.public(w, r, body)
	case r.Header.Get("x-api-token") != "secret":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"code":"TOKEN_UNKNOWN","message":"This token is not known."}}`)
	case r.URL.Path == "/v1/test-results":
		q := r.URL.Query()
		f.queries = append(f.queries, q)
		var expected int
		_ = json.Unmarshal([]byte(q.Get("expected")), &expected)
		f.reads = append(f.reads, report.Read(flaky.Upload{Org: "acme", Repo: "github.com/acme/shop", Received: time.Now(),
			Sent: flaky.Sent{ContentType: r.Header.Get("Content-Type"), Expected: expected, Variant: q.Get("variant")}}, body))
		_, _ = io.WriteString(w, `{"id":"7","new":true}`)
	case r.URL.Path == "/v1/flaky-tests/get-upload" && bytes.Contains(body, []byte(`"upload_id":"7"`)):
		f.asked++
		kept := keptReport{ID: "7", Status: "waiting"}
		if f.asked > 1 {
			read := f.reads[len(f.reads)-1]
			kept.Status, kept.Complete = "read", read.Complete()
			for _, s := range read.Tests {
				if s.Failed {
					code, excused := f.excused[s.Name]
					if !excused {
						code = flaky.NotFlaky
					}
					kept.Failures = append(kept.Failures, keptFailure{s.Name, s.Parent, s.File, s.Classname, s.Variant, excused, string(code)})
				}
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"upload": kept})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// signalboxIn runs the program in a folder and returns what it printed and its
// exit code.
func signalboxIn(t *testing.T, dir string, env map[string]string, args ...string) (out, warned string, code int) {
	t.Helper()
	return signalboxFed(t, "", dir, env, args...)
}

// signalboxFed does so with something on standard input.
func signalboxFed(t *testing.T, input, dir string, env map[string]string, args ...string) (out, warned string, code int) {
	t.Helper()
	cmd := signalboxCommand(t, dir, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// signalboxCommand is the program as it is called in a folder, with nothing in
// its environment but what it needs and env.
func signalboxCommand(t *testing.T, dir string, env map[string]string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = []string{childVariable + "=" + ownArguments, "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// programDir is a folder for PATH in which signalbox is this program.
func programDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"signalbox": "#!/bin/sh\n" + childVariable + "='" + ownArguments + "' exec '" + os.Args[0] + "' \"$@\"\n"})
	if err := os.Chmod(filepath.Join(dir, "signalbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// Reports that tests of the client send.
const (
	twoPass  = `<testsuite name="shop" tests="2"><testcase classname="Cart" name="total"/><testcase classname="Cart" name="empty"/></testsuite>`
	oneFails = `<testsuite name="pay" tests="2"><testcase classname="Card" name="charge"><failure message="no answer after 3s"/></testcase><testcase classname="Card" name="refund"/></testsuite>`
	cutOff   = `<testsuite name="shop" tests="2"><testcase classname="Cart" name="total"/><testcase class`
)

// gitHubEnv is a job of GitHub Actions.
var gitHubEnv = map[string]string{
	"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/shop", "GITHUB_SHA": "0123456789012345678901234567890123456789",
	"GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main", "GITHUB_RUN_ID": "99", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "test", "SIGNALBOX_TOKEN": "secret",
}

// What upload ends with, whatever the tests, the reports and the service do.
func TestUploadEndsAsTheJobShould(t *testing.T) {
	t.Parallel()
	quarantined := map[string]flaky.QuarantineCode{"charge": flaky.KnownFailure}
	says := func(status int, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	onUpload := func(path string, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				_, _ = io.WriteString(w, text)
			}
			return r.URL.Path == path
		}
	}
	good, bad := map[string]string{"a.xml": twoPass}, map[string]string{"a.xml": twoPass, "b.xml": oneFails}
	fork := map[string]string{"SIGNALBOX_TOKEN": "", "SIGNALBOX_PUBLIC_REPO_ID": "k3wq7ab2"}
	const loud = "WARNING: Signalbox does not know about these test results"
	for name, c := range map[string]struct {
		files   map[string]string
		args    string // after "upload"; "" is *.xml
		excused map[string]flaky.QuarantineCode
		instead func(http.ResponseWriter, *http.Request) bool
		env     map[string]string
		code    int
		out     []string // parts of what is printed
		warned  string
	}{
		"nothing failed":                             {files: good, out: []string{"1 report, 2 tests, 0 failed, 0 skipped", "No test failed. Exit code 0."}},
		"nothing failed, the command did":            {files: good, args: "--exit-code 2 *.xml", code: 2, out: []string{"although no test failed"}},
		"a failure":                                  {files: bad, args: "--exit-code 3 *.xml", code: 3, out: []string{"FAILED       pay > Card > charge", "no answer after <duration>", "not known to be flaky", "2 reports, 4 tests, 1 failed"}},
		"a failure, and nobody gave a code":          {files: bad, code: 1},
		"all that failed is quarantined":             {files: bad, args: "--exit-code 3 *.xml", excused: quarantined, out: []string{"quarantined  pay > Card > charge", "has failed like this before", "Exit code 0."}},
		"quarantined, but the command was killed":    {files: bad, args: "--exit-code 137 *.xml", excused: quarantined, code: 137, out: []string{"ended from outside"}},
		"quarantined, but a report is cut off":       {files: map[string]string{"a.xml": cutOff, "b.xml": oneFails}, args: "--exit-code 3 *.xml", excused: quarantined, code: 3, out: []string{"not complete"}},
		"nothing failed, but a report is cut off":    {files: map[string]string{"a.xml": cutOff}, args: "--exit-code 0 *.xml", code: 1, out: []string{"not complete"}},
		"a pattern matches nothing":                  {files: good, args: "--exit-code 0 *.xml none/**/*.xml", code: 1, out: []string{"no report matches none/**/*.xml"}},
		"quarantined, but a pattern matches nothing": {files: bad, args: "--exit-code 4 *.xml none/**/*.xml", excused: quarantined, code: 4},
		"nothing matches at all":                     {args: "--exit-code 0 *.xml", code: 1, out: []string{"no report matches *.xml"}, warned: "there is nothing to send"},
		"fewer reports than expected":                {files: good, args: "--exit-code 0 --expect 2 *.xml", code: 1, out: []string{"only 1 of 2"}},
		"as many as expected":                        {files: bad, args: "--exit-code 1 --expect 2 *.xml", excused: quarantined},
		"a pattern in depth, and a name":             {files: map[string]string{"x/y/T.xml": twoPass, "b.xml": oneFails}, args: "--expect 2 **/*.xml x/y/T.xml", excused: quarantined, out: []string{"2 reports, 4 tests"}},
		"an exit code that Unix cuts to 0":           {files: bad, args: "--exit-code 256 *.xml", code: 1, out: []string{"Exit code 1."}},
		"an exit code below 0":                       {files: good, args: "--exit-code=-1 *.xml", code: 255, out: []string{"Exit code 255."}},
		"a folder":                                   {files: map[string]string{"x/y/T.xml": twoPass}, args: "--exit-code 0 x/y", code: 1, out: []string{"x/y is a folder: give its reports, as in 'x/y/**/*.xml'"}, warned: "there is nothing to send"},
		"one of several reports is cut off":          {files: map[string]string{"x/T.xml": cutOff, "y/T.xml": twoPass, "z/T.xml": cutOff}, args: "--exit-code 0 **/T.xml", code: 1, out: []string{"the rest is missing (x/T.xml and 1 more file)."}},
		"a repository of GitHub":                     {files: bad, args: "--exit-code 3 --repo acme/shop *.xml", excused: quarantined, out: []string{"Exit code 0."}},
		"no repository":                              {files: good, args: "--repo shop *.xml", code: 2, warned: `repo is "shop": give host/owner/name`},
		"numbers that are none":                      {files: good, args: "--pr=-4 --attempt=-1 --expect=-2 *.xml", code: 2, warned: "expect is -2"},
		"no pattern":                                 {files: good, args: "[", code: 1, out: []string{"[ is no pattern"}, warned: "there is nothing to send"},

		"an error of the service":                    {files: bad, args: "--timeout 1s --exit-code 3 *.xml", excused: quarantined, instead: says(500, "oops"), code: 3, warned: "500"},
		"an error, and nothing failed":               {files: good, args: "--timeout 1s --exit-code 0 *.xml", instead: says(500, "oops"), warned: loud},
		"an error, and a report is cut off":          {files: map[string]string{"a.xml": cutOff}, args: "--timeout 1s --exit-code 0 *.xml", instead: says(503, "oops"), code: 1, warned: loud},
		"an unknown token":                           {files: bad, args: "--exit-code 3 *.xml", env: map[string]string{"SIGNALBOX_TOKEN": "other"}, code: 3, warned: "This token is not known."},
		"a page instead of an answer":                {files: bad, args: "--exit-code 3 *.xml", instead: says(200, "<html>Welcome</html>"), code: 3, warned: "is not Signalbox"},
		"JSON of somebody else":                      {files: bad, args: "--exit-code 3 *.xml", instead: says(200, `{"ok":true}`), code: 3, warned: "is not Signalbox"},
		"a redirect":                                 {files: bad, args: "--exit-code 3 *.xml", instead: says(302, ""), code: 3, warned: "302"},
		"it forgets the upload":                      {files: bad, args: "--exit-code 3 *.xml", instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":null}`), code: 3, warned: "is not Signalbox"},
		"another upload":                             {files: bad, args: "--exit-code 3 *.xml", instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":{"id":"8","status":"read","complete":true}}`), code: 3, warned: "is not Signalbox"},
		"it never reads":                             {files: bad, args: "--timeout 1s --exit-code 3 *.xml", instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":{"id":"7","status":"waiting"}}`), code: 3, warned: "has not read them in time"},
		"it read nothing":                            {files: bad, args: "--exit-code 3 *.xml", instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":{"id":"7","status":"read","complete":true}}`), code: 3},
		"it says that something is missing":          {files: good, args: "--exit-code 0 *.xml", instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":{"id":"7","status":"read","complete":false}}`), code: 1, out: []string{"not complete"}},
		"it left something out":                      {files: good, instead: onUpload("/v1/flaky-tests/get-upload", `{"upload":{"id":"7","status":"read","complete":true,"notes":[{"code":"TOO_MANY_NEW_TESTS","count":3,"text":"3 tests are left out."}]}}`), out: []string{"note: 3 tests are left out."}},
		"nobody is there":                            {files: bad, args: "--timeout 1s --exit-code 3 *.xml", env: map[string]string{"SIGNALBOX_URL": "http://127.0.0.1:1"}, code: 3, warned: "cannot be reached"},
		"nobody is there, and nothing failed":        {files: good, args: "--timeout 1s *.xml", env: map[string]string{"SIGNALBOX_URL": "http://127.0.0.1:1"}, warned: loud},
		"no settings":                                {files: bad, args: "--exit-code 3 *.xml", env: map[string]string{"SIGNALBOX_URL": "", "SIGNALBOX_TOKEN": "", "GITHUB_ACTIONS": ""}, code: 3, warned: "SIGNALBOX_PUBLIC_REPO_ID stands in for it"},
		"a fork, and all that failed is quarantined": {files: bad, args: "--exit-code 3 *.xml", excused: quarantined, env: fork, out: []string{"quarantined  pay > Card > charge", "Exit code 0."}},
		"a fork, and nothing is quarantined":         {files: bad, args: "--exit-code 3 *.xml", env: fork, code: 3, out: []string{"FAILED       pay > Card > charge"}},
		"a fork, and a report is cut off":            {files: map[string]string{"a.xml": cutOff, "b.xml": oneFails}, args: "--exit-code 3 *.xml", excused: quarantined, env: fork, code: 3, out: []string{"not complete"}},
		"a fork, and nothing failed":                 {files: good, args: "--exit-code 0 *.xml", env: fork, out: []string{"No test failed. Exit code 0."}},
		"a fork with an id that is none":             {files: bad, args: "--exit-code 3 --public-repo-id other *.xml", excused: quarantined, env: fork, code: 3, warned: "This token is not known."},
		"a fork in another organisation":             {files: bad, args: "--exit-code 3 --org other *.xml", excused: quarantined, env: fork, code: 3, warned: "The id is not one."},
		"a fork, and no answer about quarantine":     {files: bad, args: "--timeout 1s --exit-code 3 *.xml", excused: quarantined, env: fork, instead: onUpload("/v1/metrics/getQuarantineConfig", `no`), code: 3, warned: "is not Signalbox"},
		"a token and a public id: the token counts":  {files: bad, args: "--exit-code 3 --public-repo-id other *.xml", excused: quarantined, out: []string{"has failed like this before", "Exit code 0."}},

		"no command line that makes sense": {files: good, args: "--nonsense", code: 2, warned: "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t)
			f.between(func() { f.excused, f.instead = c.excused, c.instead })
			dir := t.TempDir()
			putFiles(t, dir, c.files)
			env := maps.Clone(gitHubEnv)
			env["SIGNALBOX_URL"] = f.URL
			maps.Copy(env, c.env)
			args := strings.Fields("upload " + c.args)
			if c.args == "" {
				args = append(args, "*.xml")
			}
			out, warned, code := signalboxIn(t, dir, env, args...)
			if code != c.code {
				t.Errorf("ended with %d, not %d:\n%s%s", code, c.code, out, warned)
			}
			for _, part := range c.out {
				if !strings.Contains(out, part) {
					t.Errorf("does not say %q:\n%s%s", part, out, warned)
				}
			}
			if c.warned == "" && warned != "" || !strings.Contains(warned, c.warned) {
				t.Errorf("warns %q, wanted %q", warned, c.warned)
			}
		})
	}
}

// CI of a fork asks about what failed, with its words; about no test it does not
// ask, as that would be to ask about all.
func TestForksAskOnlyAboutWhatFailed(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{twoPass: "", oneFails: `"failure_message":"no answer after 3s"`} {
		f := newFakeService(t)
		dir := t.TempDir()
		putFiles(t, dir, map[string]string{"a.xml": file})
		env := maps.Clone(gitHubEnv)
		maps.Copy(env, map[string]string{"SIGNALBOX_URL": f.URL, "SIGNALBOX_TOKEN": "", "SIGNALBOX_PUBLIC_REPO_ID": " k3wq7ab2\n"})
		_, warned, _ := signalboxIn(t, dir, env, "upload", "*.xml")
		f.between(func() {
			asked := strings.Join(f.lookups, "\n")
			if warned != "" || len(f.queries) != 1 || (asked == "") != (want == "") || !strings.Contains(asked, want) || strings.Contains(asked, "refund") {
				t.Errorf("%d uploads, asked %q, want %q; warned %q", len(f.queries), asked, want, warned)
			}
		})
	}
}

// What is said of the reports: the CI system's facts, the Git repository's and
// the flags'. The same reports are the same bytes each time.
func TestUploadSaysWhatWasTested(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"a.xml": oneFails, "CODEOWNERS": "* @acme/shop\n"})
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	run("remote", "add", "origin", "git@github.com:acme/shop.git")
	run("commit", "-q", "--allow-empty", "-m", "base")
	base := run("rev-parse", "HEAD")
	run("checkout", "-q", "-b", "topic")
	run("commit", "-q", "--allow-empty", "-m", "tree 0123\n\nparent of all\n\ntree nonsense")
	head := run("rev-parse", "HEAD")
	run("checkout", "-q", "main")
	run("merge", "-q", "--no-ff", "-m", "merge", "topic")
	merge, tree := run("rev-parse", "HEAD"), run("rev-parse", "HEAD^{tree}")

	send := func(env map[string]string, args ...string) url.Values {
		t.Helper()
		env = maps.Clone(env)
		env["SIGNALBOX_URL"], env["SIGNALBOX_TOKEN"] = f.URL, "secret"
		out, warned, code := signalboxIn(t, dir, env, append([]string{"upload", "a.xml"}, args...)...)
		var sent []url.Values
		f.between(func() { sent, f.queries = f.queries, nil })
		if code != 1 || warned != "" || len(sent) == 0 {
			t.Fatalf("%d, %d sent\n%s%s", code, len(sent), out, warned)
		}
		return sent[len(sent)-1]
	}
	event := filepath.Join(dir, "event.json")
	putFiles(t, dir, map[string]string{"event.json": `{"pull_request":{"head":{"repo":{"full_name":"eve/shop"}},"base":{"repo":{"full_name":"acme/shop"}}}}`})
	pull := maps.Clone(gitHubEnv)
	maps.Copy(pull, map[string]string{"GITHUB_SHA": merge, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_HEAD_REF": "topic", "GITHUB_EVENT_PATH": event})
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want map[string]string
	}{
		"a pull request": {pull, nil, map[string]string{"ci": "GitHub Actions", "host": "github.com", "owner": "acme", "name": "shop", "sha": merge, "tree": tree, "head": head, "base": base, "pr": "7",
			"branch": "topic", "job": "99/test", "attempt": "2", "check": "test", "fork": "true", "expected": "1", "link": "https://github.com/acme/shop/actions/runs/99"}},
		"another commit than the one around us": {gitHubEnv, []string{"--check", "unit", "--variant", "linux", "--exit-code", "1", "--infrastructure"}, map[string]string{"ci": "GitHub Actions", "host": "github.com", "owner": "acme", "name": "shop",
			"sha": gitHubEnv["GITHUB_SHA"], "branch": "main", "job": "99/test", "attempt": "2", "check": "unit", "variant": "linux", "exit_code": "1", "infrastructure": "true", "expected": "1", "link": "https://github.com/acme/shop/actions/runs/99"}},
		"no CI":      {nil, []string{"--job", "mine"}, map[string]string{"host": "github.com", "owner": "acme", "name": "shop", "sha": merge, "tree": tree, "branch": "main", "job": "mine", "attempt": "1", "expected": "1"}},
		"flags only": {nil, []string{"--job", "mine", "--repo", "gitlab.com/a/b/c", "--sha", strings.ToUpper(head), "--branch", "x", "--pr", "4", "--attempt", "3"}, map[string]string{"host": "gitlab.com", "owner": "a/b", "name": "c", "sha": head, "branch": "x", "pr": "4", "job": "mine", "attempt": "3", "expected": "1"}},
	} {
		got := map[string]string{}
		env := c.env
		if env == nil {
			env = map[string]string{}
		}
		for k, v := range send(env, c.args...) {
			got[k] = v[0]
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s:\n%v, want\n%v", name, got, c.want)
		}
	}
	f.between(func() {
		if owners := f.reads[0].Owners; owners != "* @acme/shop\n" {
			t.Errorf("CODEOWNERS came as %q", owners)
		}
	})
	files := []string{filepath.Join(dir, "a.xml")}
	one, kind, err := pack(files)
	two, again, err2 := pack(files)
	if err != nil || err2 != nil || !bytes.Equal(one, two) || kind != again {
		t.Errorf("packed differently: %v %v %s %s", err, err2, kind, again)
	}
}

// For programs: everything is in the JSON, and control characters of a report
// do not reach a terminal.
func TestUploadPrintsForProgramsAndTerminals(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.excused = map[string]flaky.QuarantineCode{"charge": flaky.SetAlways}
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"a.xml": `<testsuite name="pay"><testcase classname="Card" name="charge"><failure message="m"/></testcase><testcase name="x&#10;::set-output name=a::b"><failure message="n"/></testcase><testcase name="s"><skipped/></testcase></testsuite>`})
	env := maps.Clone(gitHubEnv)
	env["SIGNALBOX_URL"] = f.URL
	out, _, code := signalboxIn(t, dir, env, "upload", "--json", "a.xml")
	var got printedOutcome
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 {
		t.Fatalf("%d %v %s", code, err, out)
	}
	excused := slices.IndexFunc(got.Failures, func(p printedFailed) bool { return p.Name == "charge" })
	if got.ExitCode != 1 || got.Code != "FAILED" || got.Tests != 3 || got.Skipped != 1 || got.UploadID != "7" || got.Warning != "" || len(got.Failures) != 2 ||
		!got.Failures[excused].Quarantined || got.Failures[excused].ReasonCode != "SET_ALWAYS" || got.Failures[1-excused].Quarantined {
		t.Errorf("%s", out)
	}
	out, _, _ = signalboxIn(t, dir, env, "upload", "a.xml")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a line of the log is a command for the CI system: %q", line)
		}
	}
	if !strings.Contains(out, "somebody set it to be always quarantined") {
		t.Errorf("%s", out)
	}
}
