package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"signalbox/db/dbtest"
	"signalbox/queue"
)

// inbox is somebody who subscribed: it verifies what arrives, and keeps it. As the
// documentation asks of everybody, it drops what it has seen: here the clock may
// jump by a minute while something is on its way, and then it is sent once more.
type inbox struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	secret string
	seen   map[string]bool // by webhook-id
	bodies []string
	came   chan struct{}
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{t: t, seen: map[string]bool{}, came: make(chan struct{}, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.secret != "" {
			verifier, keyErr := standardwebhooks.NewWebhook(in.secret)
			if err = errors.Join(err, keyErr); err == nil {
				err = verifier.Verify(body, r.Header)
			}
		}
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if id := r.Header.Get("webhook-id"); id != "" {
			if in.seen[id] {
				return
			}
			in.seen[id] = true
		}
		in.bodies = append(in.bodies, string(body))
		in.came <- struct{}{}
	}))
	t.Cleanup(server.Close)
	in.url = server.URL
	return in
}

// await waits until the bodies that have arrived are what is wanted.
func (in *inbox) await(ctx context.Context, what string, is func(bodies []string) bool) []string {
	in.t.Helper()
	for {
		in.mu.Lock()
		bodies := slices.Clone(in.bodies)
		in.mu.Unlock()
		if is(bodies) {
			return bodies
		}
		select {
		case <-in.came:
		case <-ctx.Done():
			in.t.Fatalf("%s: arrived only %q", what, bodies)
		}
	}
}

// The whole way: somebody subscribes by the API, and hears of a pull request's
// life in order, of what people do to the queue, and of a test; another reads it
// in Slack. None of their secrets stands in the database, the log or the metrics.
func TestSubscribersHearWhatHappens(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts everything")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.MergeMethod, settings.RequiredStatuses, settings.CreatePRsForTestingBranches = queue.MergeCommit, []string{"ci"}, false
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	do := demand(t)
	program, channel := newInbox(t), newInbox(t)
	var made struct{ ID, Secret, Address string }
	do(w.api().Call(ctx, "createSubscriber", map[string]any{"name": "deploys", "url": program.url + "/planted-path", "events": []string{"*"}}, &made),
		w.api().Call(ctx, "createSubscriber", map[string]any{"name": "#app", "kind": "slack", "url": channel.url + "/planted-slack", "events": []string{"pull_request.merged"}}, nil))
	program.mu.Lock()
	program.secret = made.Secret
	program.mu.Unlock()

	do(w.Open(1, "bob", map[string]string{"a.txt": "1"}))
	_, err = w.sim.Comment(w.name, 1, "alice", "/merge")
	do(err, w.settle(), w.CI(1, "ci", "success"), w.settle())
	type message struct {
		Type string
		Data struct {
			State       string
			Actor       json.RawMessage
			PullRequest struct {
				Number       int64  `json:"prNumber"`
				Title        string `json:"prTitle"`
				LandedCommit string
			}
			URL      string
			Status   string
			TestCase struct{ Name string } `json:"test_case"`
			Setting  string                `json:"quarantine_setting"`
		}
	}
	parse := func(body string) (m message) {
		t.Helper()
		do(json.Unmarshal([]byte(body), &m))
		return m
	}
	bodies := program.await(ctx, "the life of #1", func(b []string) bool { return len(b) >= 5 })
	var life []string
	for _, b := range bodies {
		m := parse(b)
		life = append(life, m.Type)
		if m.Data.PullRequest.Number != 1 || !strings.HasPrefix(m.Data.URL, "http") {
			t.Errorf("told: %s", b)
		}
	}
	if want := []string{"pull_request.submitted", "pull_request.queued", "pull_request.testing", "pull_request.tests_passed", "pull_request.merged"}; !slices.Equal(life, want) {
		t.Errorf("the life of #1 was told as %q", life)
	}
	log, err := w.sim.Log(ctx, w.name, "main")
	do(err)
	if first, last := parse(bodies[0]), parse(bodies[4]); !strings.Contains(string(first.Data.Actor), `"login":"alice"`) || last.Data.PullRequest.LandedCommit != log[0].SHA {
		t.Errorf("told first %s, last %s; main is at %s", bodies[0], bodies[4], log[0].SHA)
	}
	said := channel.await(ctx, "the message", func(b []string) bool { return len(b) >= 1 })
	if !strings.Contains(said[0], "has landed on") || !strings.Contains(said[0], "#1 Change 1") {
		t.Errorf("Slack reads %s", said[0])
	}

	// What people do to the queue.
	paused := queue.Paused
	do(w.Change(queue.Change{State: &paused}))
	bodies = program.await(ctx, "the pause", func(b []string) bool { return len(b) >= 6 })
	if m := parse(bodies[5]); m.Type != "queue.state_changed" || m.Data.State != "paused" || !strings.Contains(string(m.Data.Actor), `"token":"town"`) {
		t.Errorf("told: %s", bodies[5])
	}

	// A test that fails on main again and again is broken; then somebody decides.
	for i := range 3 {
		do(upload(ctx, w, fmt.Sprint(i), `<testsuite name="shop"><testcase classname="Cart" name="total"><failure message="no"/></testcase></testsuite>`))
		w.clock.advance(time.Minute)
	}
	bodies = program.await(ctx, "the test", func(b []string) bool { return len(b) >= 7 })
	if m := parse(bodies[6]); m.Type != "test_case.status_changed" || m.Data.Status != "BROKEN" || m.Data.TestCase.Name != "total" {
		t.Errorf("told: %s", bodies[6])
	}
	var test struct {
		Data struct {
			TestCase struct{ ID string } `json:"test_case"`
		}
	}
	do(json.Unmarshal([]byte(bodies[6]), &test),
		w.api().About(ctx, "flaky-tests/set-quarantine", map[string]any{"test_id": test.Data.TestCase.ID, "setting": "NEVER_QUARANTINE"}, nil))
	bodies = program.await(ctx, "the decision", func(b []string) bool { return len(b) >= 8 })
	if m := parse(bodies[7]); m.Type != "test_case.quarantining_setting_changed" || m.Data.Setting != "NEVER_QUARANTINE" {
		t.Errorf("told: %s", bodies[7])
	}

	// The server dies; what happened before it died, and was not told, is told
	// by the next one, with the same key.
	do(w.crash(), w.api().Call(ctx, "testSubscriber", map[string]any{"subscriberId": made.ID}, nil))
	program.await(ctx, "a ping after a crash", func(b []string) bool {
		return slices.ContainsFunc(b, func(body string) bool { return strings.Contains(body, `"type":"ping"`) })
	})

	for what, secret := range map[string]string{"the secret": made.Secret, "the rest of it": strings.TrimPrefix(made.Secret, "whsec_"), "the path": "planted-path", "Slack's address": "planted-slack"} {
		if strings.Contains(made.Address, secret) || strings.Contains(w.log.tail(1<<20), secret) {
			t.Errorf("%s stands in an answer or in the log", what)
		}
		var rows int
		do(w.service.db.SQL().QueryRowContext(ctx, `
			SELECT count(*) FROM subscribers s WHERE position($1 IN s.sealed::text) > 0 OR position(convert_to($2, 'UTF8') IN s.sealed) > 0 OR s.address LIKE '%' || $2 || '%'`,
			fmt.Sprintf("%x", secret), secret).Scan(&rows))
		if rows > 0 {
			t.Errorf("%s stands in the database as it is", what)
		}
		var page bytes.Buffer
		recorder := httptest.NewRecorder()
		w.service.metrics.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, _ = page.ReadFrom(recorder.Body)
		if strings.Contains(page.String(), secret) || !strings.Contains(page.String(), `signalbox_delivery_seconds_count{kind="webhook",outcome="delivered"}`) {
			t.Errorf("the metrics are not right about %s", what)
		}
	}
}

// upload sends a report of a run on main, of a commit of its own.
func upload(ctx context.Context, w *town, commit, report string) error {
	address := fmt.Sprintf("http://%s/v1/test-results?owner=acme&name=app&branch=main&job=%s&sha=%s", w.service.main.address(), commit, strings.Repeat(commit, 40))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(report))
	if err != nil {
		return err
	}
	r.Header.Set("X-Api-Token", w.token)
	r.Header.Set("Content-Type", "application/xml")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("upload: %d %s", answer.StatusCode, text)
	}
	return w.settle()
}

// Secrets open with the key that sealed them, about what they were sealed, and
// no other; a server whose key is not that of the others seals nothing.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	dir := t.TempDir()
	file := filepath.Join(dir, "deep", defaultKeyFile)
	v := &vault{file: file, db: d}
	if _, err := v.Open(ctx, []byte("x"), "a"); err == nil || !strings.Contains(err.Error(), "every copy of the server needs the same") {
		t.Errorf("without a key: %v", err)
	}
	sealed, err := v.Seal(ctx, []byte("planted"), "a")
	if err != nil || bytes.Contains(sealed, []byte("planted")) {
		t.Fatalf("%q %v", sealed, err)
	}
	again := &vault{file: file, db: d}
	if text, err := again.Open(ctx, sealed, "a"); err != nil || string(text) != "planted" {
		t.Errorf("opened: %q %v", text, err)
	}
	for about, damaged := range map[string][]byte{"b": sealed, "a": append(slices.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), "": nil} {
		if text, err := again.Open(ctx, damaged, about); err == nil {
			t.Errorf("opened about %q: %q", about, text)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	other := &vault{file: filepath.Join(t.TempDir(), defaultKeyFile), db: d}
	if _, err := other.Seal(ctx, []byte("x"), "a"); err == nil || !strings.Contains(err.Error(), "SIGNALBOX_SECRET_KEY_FILE") {
		t.Errorf("with another key: %v", err)
	}
	for _, text := range []string{"", "zz", strings.Repeat("ab", 16), strings.Repeat("ab", 33)} {
		if _, err := sealer(write(t, text), true); err == nil || strings.Contains(err.Error(), text) && text != "" {
			t.Errorf("a key of %q: %v", text, err)
		}
	}
	// Two that begin at the same moment make one key.
	shared := filepath.Join(t.TempDir(), "key")
	var group sync.WaitGroup
	marks := make([][32]byte, 8)
	for i := range marks {
		group.Go(func() {
			if key, err := sealer(shared, true); err != nil {
				t.Error(err)
			} else {
				marks[i] = key.mark
			}
		})
	}
	group.Wait()
	if len(slices.Compact(marks)) != 1 {
		t.Error("each made a key of its own")
	}
}

func TestNetworksOfSubscribers(t *testing.T) {
	t.Parallel()
	c := &checker{}
	if got := fmt.Sprint(c.networks("n", "10.1.2.3/24, 127.0.0.1,fd00::/8")); got != "[10.1.2.0/24 127.0.0.1/32 fd00::/8]" || len(c.problems) != 0 {
		t.Errorf("%s %v", got, c.problems)
	}
	c.networks("n", "here,10.0.0.0/99")
	if len(c.problems) != 2 {
		t.Errorf("%v", c.problems)
	}
}
