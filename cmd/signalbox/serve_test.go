package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/api"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// command runs a command line in this process and returns what it printed.
func command(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, log := &lockedBuffer{}, &lockedBuffer{}
	err = run(ctx, args, console{out: out, err: log})
	return out.tail(1 << 20), err
}

func TestWhatCannotWorkIsSaidInOneSentence(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	app := []string{"serve", "--dashboard-auth=none", "--dashboard-public=yes", "--app-id=1", "--app-private-key-file=" + key(t), "--webhook-secret=x", "--metrics-listen=off", "--data-dir=" + t.TempDir()}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"the database is not there": {slices.Concat(app, []string{"--database-url=postgres://u@127.0.0.1:1/x?sslmode=disable"}), "Check that Postgres runs"},
		"the port is taken":         {slices.Concat(app, []string{"--database-url=" + dbtest.DSN(t), "--listen=" + taken.Addr().String()}), "another program listens there"},
		"the key is no key":         {[]string{"serve", "--dashboard-auth=none", "--dashboard-public=yes", "--app-id=1", "--app-private-key=x", "--webhook-secret=x"}, "PEM"},
		"there is no such command":  {[]string{"surf"}, "unexpected argument surf"},
		"there is no such flag":     {[]string{"serve", "--lisen=:1"}, "unknown flag --lisen"},
		"the scope is unknown":      {[]string{"token", "create", "--org=acme", "--scope=god"}, "read, submit, admin"},
		"the end has passed":        {[]string{"token", "create", "--org=acme", "--expires=2001-01-01"}, "has passed"},
		"the pace is too fast":      {[]string{"demo", "--pace=1ms"}, "pace is 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := command(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want something with %q", err, c.want)
			}
		})
	}
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	dsn := "--database-url=" + dbtest.DSN(t)
	out, err := command(t, "token", "create", dsn, "--org=Acme", "--scope=submit", "--name=ci", "--expires=30d", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID         int64
		Token, Org string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Org != "acme" || !strings.HasPrefix(made.Token, "sbx_") {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err = command(t, "token", "create", dsn, "--org=acme"); err != nil || !strings.HasPrefix(out, "sbx_") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := command(t, "token", "revoke", dsn, "--org=acme", "1", "--json"); err != nil || out != `{"id":1,"org":"acme","revoked":true}`+"\n" {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := command(t, "migrate", dsn, "--json"); err != nil || out != `{"upToDate":true}`+"\n" {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := command(t, "token", "revoke", dsn, "--org=acme", "99"); err == nil || !strings.Contains(err.Error(), "no token 99") {
		t.Errorf("%v", err)
	}
	out, err = command(t, "token", "list", dsn, "--org=acme", "--json")
	var listed []listedToken
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed) != 2 || listed[0].RevokedAt == nil || listed[1].RevokedAt != nil || strings.Contains(out, made.Token) {
		t.Errorf("%v: %s", err, out)
	}
	if err != nil {
		t.Error(err)
	}
}

// A small install names no database: it gets a private one, which other
// commands find while the server runs.
func TestServeWithoutADatabaseBringsItsOwn(t *testing.T) {
	t.Parallel()
	host, err := githubsim.Start(context.Background(), githubsim.Config{DataDir: t.TempDir()}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	dir := filepath.Join(t.TempDir(), "data")
	// When we are root, Postgres runs as another user and must come through.
	if err := os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711); err != nil {
		t.Fatal(err)
	}
	s := settingsFor(host, "", dir, "x")
	s.MetricsListen = "127.0.0.1:0"
	cfg, err := s.check(discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan addresses, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, cfg, replacements{}, func(a addresses) { ready <- a }) }()
	var where addresses
	select {
	case where = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	for _, c := range []struct {
		url    string
		status int
		body   string
	}{
		{"http://" + where.main + "/healthz", 200, "ok"},
		{"http://" + where.main + "/readyz", 200, "ok"},
		{"http://" + where.main + "/", 200, "<html"},
		{"http://" + where.main + "/metrics", 404, ""},
		{"http://" + where.main + "/v1/nothing", 404, `"error"`},
		{"http://" + where.main + "/webhook", 405, ""},
		{"http://" + where.metrics + "/metrics", 200, "signalbox_decision_seconds_bucket"},
		{"http://" + where.metrics + "/metrics", 200, "go_goroutines"},
	} {
		resp, err := http.Get(c.url)
		if err != nil {
			t.Error(err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(body), c.body) {
			t.Errorf("%s: %d, want %d with %q:\n%.300s", c.url, resp.StatusCode, c.status, c.body, body)
		}
	}
	if out, err := command(t, "token", "create", "--data-dir="+dir, "--org=acme"); err != nil || !strings.HasPrefix(out, "sbx_") {
		t.Errorf("a token while the server runs: %v %q", err, out)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the server did not stop")
	}
	if out, err := command(t, "token", "list", "--data-dir="+dir, "--org=acme"); err != nil || !strings.Contains(out, "command line") {
		t.Errorf("what was kept: %v %q", err, out)
	}
}

// The demo as a program in another language drives it: one line of JSON, then
// nothing, until its parent is gone.
func TestDemoForAnotherProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts everything")
	}
	// A shell that ends when we say so: the demo must notice.
	parent := exec.Command("sh", "-c", `"$0" & read line`, os.Args[0])
	parent.Env = append(os.Environ(), childVariable+"=demo --serve --listen 127.0.0.1:0 --json")
	log := &lockedBuffer{}
	parent.Stderr = log
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	parent.Stdout = write
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	stdout := bufio.NewReader(read)
	line, err := stdout.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, log.tail(4000))
	}
	var w whereabouts
	if err := json.Unmarshal(line, &w); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	drive(t, w)
	stdin.Close() // the shell ends
	rest, err := io.ReadAll(stdout)
	if err != nil || len(rest) != 0 {
		t.Errorf("%v; more on standard output: %s", err, rest)
	}
	if err := parent.Wait(); err == nil {
		t.Error("the shell read a line that nobody wrote") // read fails at the end of its input
	}
}

// drive lands one pull request through the two APIs, each call right after
// the one before it.
func drive(t *testing.T, w whereabouts) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	post := func(path, body string) {
		t.Helper()
		resp, err := http.Post(w.GitHub+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	admin := newClient(w, w.AdminToken, "web")
	submitter := newClient(w, w.Token, "web")
	post("/_control/repos", `{"owner":"acme","name":"web","checks":["ci"],"requiredChecks":["ci"],"ci":{"minSeconds":0.1}}`)
	if err := submitter.Call(ctx, "createQueue", nil, nil); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a token with the scope submit creates a queue: %v", err)
	}
	if err := admin.Call(ctx, "createQueue", nil, nil); err != nil {
		t.Fatal(err)
	}
	post("/_control/pulls", `{"repo":"acme/web","title":"One","author":"zoe","files":{"a.txt":"1"}}`)
	if _, err := submitter.Pull(ctx, "submitPullRequest", 1); err != nil {
		t.Fatal(err)
	}
	var e api.PullRequest
	err := persist(ctx, func() (err error) {
		if e, err = submitter.Pull(ctx, "getSubmittedPullRequest", 1); err == nil && !e.Final() {
			err = errNotYet
		}
		return err
	})
	if err != nil || e.State != "merged" {
		t.Errorf("#1 is %s: %s; %v", e.State, e.Reason.Message, err)
	}
}
