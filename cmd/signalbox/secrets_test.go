package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"

	"signalbox/api"
	"signalbox/db"
	"signalbox/gitprovider/githubsim"
)

// planted are the secrets of a server, by name, to be looked for where none may be.
type planted map[string]string

// hostTokens are tokens that GitHub gives an App, for an installation or for
// somebody who signs in, to it or elsewhere: they begin like this. A person's own (ghp_) never reaches
// a server, and stands in the arguments of git where tests beside this one play
// people who push.
var hostTokens = regexp.MustCompile(`gh[ousr]_[A-Za-z0-9]{10,}`)

// plant names the secrets of a child.
func plant(host *githubsim.Server, token string) planted {
	lines := strings.Split(string(host.AppKeyPEM()), "\n")
	return planted{"the webhook secret": childSecret, "the API token": token, "the App's key": lines[len(lines)/2]}
}

// subscribe plants the secrets of two subscribers: what deliveries to one are signed
// with, and the address of a channel in Slack, which is one.
func (p planted) subscribe(ctx context.Context, c *api.Client) error {
	const channel = "T0/B0/plantedchannel"
	var made struct {
		Secret string `json:"secret"`
	}
	// Nobody is there: deliveries fail, which is logged.
	err := c.Post(ctx, "createSubscriber", map[string]any{"name": "ops", "url": "https://hooks.invalid/x", "events": []string{"*"}}, &made)
	if err == nil && made.Secret == "" {
		err = errors.New("a subscriber has no secret")
	}
	p["what deliveries are signed with"], p["the address of a channel"] = made.Secret, channel
	return errors.Join(err, c.Post(ctx, "createSubscriber", map[string]any{
		"name": "room", "kind": "slack", "url": "https://hooks.slack.com/services/" + channel, "events": []string{"queue.settings_changed"}}, nil))
}

// in finds a secret in a text.
func (p planted) in(text string) (name string, found bool) {
	for name, secret := range p {
		if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
			return name, true
		}
	}
	return "a token of the host's", hostTokens.MatchString(text)
}

func TestWhichTokensAreTheServers(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"git-remote-http origin http://x-access-token:ghs_b8afae68573de08fda73@127.0.0.1/acme/app.git": true,
		"curl -H authorization:ghu_b8afae68573de08fda73 http://127.0.0.1/user":                         true,
		"git-remote-http origin http://x-access-token:ghp_b8afae68573de08fda73@127.0.0.1/acme/app.git": false,
		"git fetch a secret":        true,
		"git --git-dir=x.git fetch": false,
	} {
		if name, found := (planted{"it": "a secret"}).in(args); found != want {
			t.Errorf("%q is in %s: %v", name, args, found)
		}
	}
}

func (p planted) search(t *testing.T, where, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if name, found := p.in(line); found {
			t.Errorf("%s has %s: %.300s", where, name, line)
			return
		}
	}
	if text == "" {
		t.Errorf("%s is empty: there was nothing to search", where)
	}
}

// searchDatabase looks through every row of every table, the jobs' too.
func (p planted) searchDatabase(t *testing.T, store *db.DB) {
	t.Helper()
	rows, err := store.SQL().QueryContext(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	for _, table := range tables {
		var text string
		if err := store.SQL().QueryRowContext(t.Context(), `SELECT COALESCE(string_agg(r::text, E'\n'), '') FROM `+pq.QuoteIdentifier(table)+` r`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			p.search(t, "the table "+table, text)
		}
	}
}

// watching lets one test look at the arguments of processes at a time.
var watching sync.Mutex

// watch looks at the arguments of all processes that this test has brought
// about, which everybody on the machine can read, until the returned function is
// called.
func (p planted) watch(t *testing.T) (stop func()) {
	t.Helper()
	if !watching.TryLock() {
		return func() {} // somebody else looks, at ours too
	}
	end, done := make(chan struct{}), make(chan struct{})
	var bad string
	git := false
	go func() {
		defer close(done)
		for {
			all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range all {
				args, err := os.ReadFile(path)
				if err != nil {
					continue // it has ended
				}
				text := strings.ReplaceAll(string(args), "\x00", " ")
				git = git || strings.HasPrefix(text, "git --git-dir=")
				if name, found := p.in(text); found && ours(filepath.Base(filepath.Dir(path))) {
					bad = fmt.Sprintf("a process has %s in its arguments: %.300s", name, text)
				}
			}
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond): // the pace of the looks
			}
		}
	}()
	return func() {
		close(end)
		<-done
		watching.Unlock()
		if bad != "" {
			t.Error(bad)
		}
		if _, err := os.Stat("/proc/self/cmdline"); err == nil && !git {
			t.Error("no git process was seen: nothing was looked at")
		}
	}
}

// ours reports whether a process descends from this test, or from nobody any
// more. Tests of other packages run at the same time; they play people who push,
// with a token of a simulated host that is spelled as in this test's.
func ours(pid string) bool {
	for pid != strconv.Itoa(os.Getpid()) && pid != "1" && pid != "0" {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		end := bytes.LastIndexByte(text, ')')
		if err != nil || end < 0 {
			return false // it has ended: one that is ours is seen again
		}
		if strings.HasSuffix(string(text[:end]), ".test") {
			return false
		}
		if fields := strings.Fields(string(text[end+1:])); len(fields) > 1 {
			pid = fields[1]
		}
	}
	return true
}

// answers are what a server says to requests of all kinds, errors too, and its metrics.
func answers(t *testing.T, server string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{"/", "/healthz", "/readyz", "/webhook", "/v1/openapi.json", "/v1/status", "/v1/nothing", "/q/x/y/z", "/sign-in"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, server+path, strings.NewReader("{"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Token", "wrong")
			r.Header.Set("X-Hub-Signature-256", "sha256=00")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&all, "%v %s\n", resp.Header, body)
		}
	}
	return all.String()
}

func TestWhoseProcessesAreLookedAt(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system shows no processes")
	}
	shell, err := exec.LookPath("sh")
	demand(t)(err)
	program, err := os.ReadFile(shell)
	other := filepath.Join(t.TempDir(), "other.test")
	demand(t)(err, os.WriteFile(other, program, 0o755))
	for name, want := range map[string]bool{shell: true, other: false} {
		cmd := exec.Command(name, "-c", "sleep 600 & echo $!; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		demand(t)(err, cmd.Start())
		pid, err := bufio.NewReader(out).ReadString('\n')
		demand(t)(err)
		if got := ours(strings.TrimSpace(pid)); got != want {
			t.Errorf("the child of %s is ours: %v", filepath.Base(name), got)
		}
		demand(t)(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		_ = cmd.Wait() // killed
	}
}
