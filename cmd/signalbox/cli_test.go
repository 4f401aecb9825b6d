package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// update writes what the program prints into the files that it is compared with.
var update = flag.Bool("update", false, "write the files that help, the output of commands and docs/commands.md are compared with")

// golden compares text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; go test -run %s -update writes it (-file +now):\n%s", path, t.Name(), diff)
	}
}

// station is the whole service as serve runs it, on a simulated GitHub and on
// the clock of the wall, and a folder with a checkout from which commands are
// given.
type station struct {
	t      *testing.T
	sim    *githubsim.Server
	listen string
	token  string
	cfg    config
	dir    string // the checkout of acme/app
	halt   func() // stops the server
}

// newStation starts it. The repository acme/app has CI that passes everything
// but what breaks its rule, and there is no queue yet.
func newStation(t *testing.T) *station {
	t.Helper()
	ctx := context.Background()
	s := &station{t: t}
	var err error
	s.sim, err = githubsim.Start(ctx, githubsim.Config{DataDir: t.TempDir(), MergeableDelay: -1}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.sim.Close)
	s.listen = freeAddress(t)
	set := settingsFor(s.sim, dbtest.DSN(t), t.TempDir(), "secret")
	set.Listen = s.listen
	if s.cfg, err = set.check(discard); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() { s.halt() })
	d := dbtest.Open(t, set.DatabaseURL)
	if _, s.token, err = createToken(ctx, d, "acme", "cli", account.Admin, time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.sim.SetWebhook("http://"+s.listen+"/webhook", "secret")
	if err := s.sim.CreateRepo(ctx, githubsim.NewRepo{Owner: "acme", Name: "app", Creator: "alice", Checks: []string{"test"}, RequiredChecks: []string{"test"}, CI: githubsim.CI{MinSeconds: 0.1},
		Files: filesOf(map[string]string{".signalbox.yaml": "impacted_targets:\n  folders: [\"services/*\"]\n  targets: {docs: [docs]}\n"})}); err != nil {
		t.Fatal(err)
	}
	s.dir = t.TempDir()
	s.git("clone", "-q", s.remote(), ".")
	return s
}

// start starts the server, and waits until it is ready.
func (s *station) start() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- serve(ctx, s.cfg, replacements{}, func(addresses) { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		stop()
		s.t.Fatal(err)
	}
	s.halt = func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		s.halt = func() {}
	}
}

// remote is the repository's address, with alice's right to fetch.
func (s *station) remote() string {
	return strings.Replace(s.sim.URL(), "http://", "http://x-access-token:"+s.sim.UserToken("alice")+"@", 1) + "/acme/app.git"
}

func (s *station) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// open opens a pull request that changes files, and returns its number.
func (s *station) open(title string, files map[string]string) int {
	s.t.Helper()
	opened, err := s.sim.OpenPull(s.t.Context(), githubsim.OpenPull{Repo: "acme/app", Title: title, Author: "alice", Branch: strings.ToLower(strings.ReplaceAll(title, " ", "-")), Files: filesOf(files)})
	if err != nil {
		s.t.Fatal(err)
	}
	return opened.Number
}

// env is what a person has set, changed as a test wants.
func (s *station) env(more ...string) map[string]string {
	return with(map[string]string{"SIGNALBOX_URL": "http://" + s.listen, "SIGNALBOX_TOKEN": s.token, "SIGNALBOX_REPO": demoHost + "/acme/app", "TZ": "UTC"}, more...)
}

// with sets more in a map: names and values in turns.
func with(m map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// does gives a command and demands an exit code. It returns what was printed.
func (s *station) does(code int, line string, more ...string) (out, warned string) {
	s.t.Helper()
	out, warned, got := signalboxIn(s.t, s.dir, s.env(more...), words(line)...)
	if got != code {
		s.t.Errorf("signalbox %s: exit code %d, want %d\n%s%s", line, got, code, out, warned)
	}
	return out, warned
}

// words takes a command line apart at spaces, but for those within '…'.
func words(line string) []string {
	var list []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			list = append(list, part)
		} else {
			list = append(list, strings.Fields(part)...)
		}
	}
	return list
}

// unstable is what differs from run to run.
var unstable = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b|\b[0-9a-f]{7}\b`), "COMMIT"},
	{regexp.MustCompile(`, request [0-9A-Za-z-]+\)`), ", request ID)"},
	// Over midnight a moment has a day, and takes more of its column.
	{regexp.MustCompile(`(?:\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d) {2,}`), "TIME  "},
	{regexp.MustCompile(`\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`signalbox/main/[0-9a-z-]+`), "TEST-BRANCH"},
	{regexp.MustCompile(`(?m)^Run .*\n`), ""},
}

func stable(text string) string {
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.name)
	}
	return text
}

// Queues and pull requests, from the first command of a new installation on:
// what people read, what programs read, and exit codes.
func TestCommandsOnTheWholeService(t *testing.T) {
	t.Parallel()
	s := newStation(t)
	var story strings.Builder
	tell := func(code int, line string, more ...string) {
		t.Helper()
		out, warned := s.does(code, line, more...)
		fmt.Fprintf(&story, "$ signalbox %s\n%s%s", line, out, warned)
		if code != 0 {
			fmt.Fprintf(&story, "exit code %d\n", code)
		}
		story.WriteString("\n")
	}
	tell(0, "queue list")
	tell(3, "status 1")
	tell(0, "queue create concurrency=2 merge-method=merge_commit required-statuses=test --branch main")
	tell(3, "queue create --branch main")
	tell(2, "queue set concurency=3 batch=perhaps concurrency=0 mode=fast nonsense batch=on")
	tell(0, "queue pause")
	tell(0, "queue set batch=on batchingMinSize=3 pendingFailureDepth=0")
	tell(0, "queue get")

	s.open("Greet people", map[string]string{"greeting.txt": "Hello\n"})
	s.git("fetch", "-q", "origin", "refs/pull/1/head")
	s.git("checkout", "-q", "FETCH_HEAD")
	tell(3, "status")
	tell(0, "submit -p high --no-batch")
	tell(0, "status '#1'")
	tell(0, "explain 1")
	tell(3, "restart 1")
	tell(0, "queue get")
	tell(0, "cancel 1")
	tell(3, "cancel 1")
	tell(3, "submit 99")
	tell(2, "submit one")
	tell(2, "submit 1 -p soon")
	s.git("checkout", "-q", "main")
	tell(2, "submit")
	tell(4, "status 1", "SIGNALBOX_TOKEN", "sbx_unknown")
	tell(2, "status 1", "SIGNALBOX_TOKEN", "", "SIGNALBOX_URL", "")
	tell(5, "status 1 --timeout 200ms", "SIGNALBOX_URL", "http://127.0.0.1:1")
	tell(3, "status 1 --branch release")
	tell(2, "queue delete")
	tell(0, "queue resume")
	tell(0, "queue drain")
	tell(0, "queue delete --branch main")
	golden(t, "testdata/cli/queues.txt", stable(story.String()))

	for _, c := range []struct{ line, want string }{
		{"queue create --branch main --json", `"concurrency":1`},
		{"queue pause --json", `"state":"paused"`},
		{"queue set --json batch=on", `"batch":true`},
		{"queue get --json", `"enqueuedPullRequests":[]`},
		{"queue list --json", `"organization":"acme"`},
		{"submit 1 --json", `"prNumber":1`},
		{"status 1 --json", `"isCurrentlySubmittedToQueue":true`},
		{"explain 1 --json", `"timeline":[`},
		{"cancel 1 --json", `"state":"cancelled"`},
		{"queue resume --json", `"state":"running"`},
		{"queue drain --json", `"state":"draining"`},
		{"queue delete --json --branch=other", `{}`},
	} {
		if out, warned := s.does(0, c.line); warned != "" || !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 || !strings.Contains(out, c.want) {
			t.Errorf("signalbox %s prints no line of JSON with %s:\n%s%s", c.line, c.want, out, warned)
		}
	}
}

// begun is a command that runs, whose progress is read as it comes.
type begun struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bytes.Buffer
	err  *lockedBuffer
	done chan error
}

// begin gives a command and goes on.
func (s *station) begin(line string) *begun {
	s.t.Helper()
	b := &begun{t: s.t, cmd: signalboxCommand(s.t, s.dir, s.env(), words(line)...), out: &bytes.Buffer{}, err: &lockedBuffer{}, done: make(chan error, 1)}
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.err
	if err := b.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { b.done <- b.cmd.Wait() }()
	return b
}

// says waits until the progress has said something.
func (b *begun) says(what string) {
	b.t.Helper()
	for !strings.Contains(b.err.tail(1<<20), what) {
		select {
		case err := <-b.done:
			b.t.Fatalf("it ended (%v) without %q:\n%s%s", err, what, b.out, b.err.tail(1<<20))
		case <-b.t.Context().Done():
			b.t.Fatalf("it never said %q:\n%s", what, b.err.tail(1<<20))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ends waits for the end, and demands an exit code.
func (b *begun) ends(code int) (out, progress string) {
	b.t.Helper()
	<-b.done
	out, progress = b.out.String(), b.err.tail(1<<20)
	if got := b.cmd.ProcessState.ExitCode(); got != code {
		b.t.Errorf("%v: exit code %d, want %d\n%s%s", b.cmd.Args[1:], got, code, out, progress)
	}
	return out, progress
}

// submit --wait says how it goes and returns how it ended, whatever happens to
// the server meanwhile; who stops waiting cancels nothing.
func TestWaitingReturnsTheOutcome(t *testing.T) {
	t.Parallel()
	s := newStation(t)
	s.does(0, "queue create concurrency=4 merge-method=merge_commit --branch main")
	s.open("Fine", map[string]string{"a": "1"})
	s.open("Broken", map[string]string{"b": "1", ".ci-sim/test/b": ""})
	s.open("Unwanted", map[string]string{"c": "1"})
	s.open("Later", map[string]string{"d": "1"})

	out, progress := s.begin("submit 1 --wait --interval 50ms").ends(0)
	if !strings.HasPrefix(out, "#1 is merged. ") || !strings.Contains(progress, "  #1 is merged. ") {
		t.Errorf("%s%s", out, progress)
	}
	if out, _ := s.begin("submit 2 --wait --interval 50ms").ends(exitFailed); !strings.HasPrefix(out, "#2 failed. ") || !strings.Contains(out, "test") {
		t.Error(out)
	}
	s.does(0, "queue pause")
	b := s.begin("submit 3 --wait --interval 50ms --json")
	b.says("#3 ")
	s.does(0, "cancel 3")
	if out, _ := b.ends(exitCancelled); !json.Valid([]byte(out)) || !strings.Contains(out, `"state":"cancelled"`) {
		t.Error(out)
	}
	if _, progress := s.begin("submit 4 --wait --interval 50ms --wait-timeout 100ms").ends(exitWaiting); !strings.Contains(progress, "The time is up. #4 stays in the queue") {
		t.Error(progress)
	}
	b = s.begin("status 4 --wait --interval 50ms")
	b.says("#4 ")
	if err := b.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, progress := b.ends(exitInterrupted); !strings.Contains(progress, "#4 stays in the queue: signalbox status 4 --wait goes on, signalbox cancel 4 takes it out.") {
		t.Error(progress)
	}
	b = s.begin("status 4 --wait --interval 50ms")
	b.says("#4 ")
	s.halt()
	b.says("cannot be reached: ")
	s.start()
	s.does(0, "queue resume")
	out, progress = b.ends(0)
	if !strings.HasPrefix(out, "#4 is merged. ") || strings.Count(progress, "cannot be reached") != 1 {
		t.Errorf("%s%s", out, progress)
	}
	s.does(exitDone, "status 4 --wait") // it has ended already
	s.does(exitFailed, "status 2 --wait")
	s.does(exitUsage, "status 4 --wait-timeout 5s")
	s.does(exitRefused, "status 77 --wait")
}
