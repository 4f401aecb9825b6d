package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answers is a server that gives these, one after the other, the last one for
// ever.
type answers []func(w http.ResponseWriter, r *http.Request)

func says(status int, body string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangsUp ends the connection without an answer.
func hangsUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// calling starts a server and returns a client that does not really wait.
func calling(t *testing.T, cfg Config, a answers) (c *Client, waits *[]time.Duration, calls *int) {
	t.Helper()
	calls, waits = new(int), new([]time.Duration)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := min(*calls, len(a)-1)
		*calls++
		a[n](w, r)
	}))
	t.Cleanup(s.Close)
	cfg.URL = s.URL
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = func(ctx context.Context, d time.Duration) bool {
		*waits = append(*waits, d)
		return ctx.Err() == nil
	}
	return c, waits, calls
}

// A call is made again while that may help, and not before the server wants it.
func TestCallsAreRepeatedWhileThatMayHelp(t *testing.T) {
	t.Parallel()
	const refusal = `{"error":{"code":"QUEUE_NOT_FOUND","message":"There is no such queue."}}`
	good := says(200, `{"state":"running"}`)
	for name, c := range map[string]struct {
		answers answers
		calls   int
		wait    time.Duration // that the first pause has to have at least
		err     string        // "" = it works
	}{
		"at once":                           {answers{good}, 1, 0, ""},
		"too many calls":                    {answers{says(429, `{}`, "Retry-After", "7"), good}, 2, 7 * time.Second, ""},
		"the host of the repository sleeps": {answers{says(503, `{}`, "Retry-After", "10"), says(503, `{}`), good}, 3, 10 * time.Second, ""},
		"a date instead of a number":        {answers{says(503, `{}`, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), good}, 2, 9 * time.Minute, ""},
		"it is being restarted":             {answers{hangsUp, says(502, "<html>"), good}, 3, 0, ""},
		"a refusal":                         {answers{says(404, refusal, "X-Request-Id", "r1")}, 1, 0, "There is no such queue. (404 QUEUE_NOT_FOUND, request r1)"},
		"a redirect":                        {answers{says(301, "", "Location", "https://elsewhere.example/")}, 1, 0, `answered 301 Moved Permanently, and not as Signalbox does, and names another address: "https://elsewhere.example/"`},
		"a page":                            {answers{says(200, "<html>")}, 1, 0, "is not Signalbox"},
		"a refusal after silence":           {answers{hangsUp, says(409, refusal)}, 2, 0, "An earlier try of this call got no answer"},
		"a refusal after too many calls":    {answers{says(429, `{}`), says(409, refusal)}, 2, 0, "There is no such queue. (409 QUEUE_NOT_FOUND)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, waits, calls := calling(t, Config{Patience: time.Hour}, c.answers)
			var got struct{ State string }
			err := client.Post(t.Context(), "getQueue", map[string]string{"a": "b"}, &got)
			switch {
			case c.err == "" && (err != nil || got.State != "running"):
				t.Errorf("%v, %+v", err, got)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%v, want %q", err, c.err)
			case c.err != "" && strings.Contains(err.Error(), "earlier try") != strings.Contains(c.err, "earlier try"):
				t.Errorf("%v", err)
			}
			if *calls != c.calls || len(*waits) != c.calls-1 {
				t.Errorf("%d calls and %v between them, want %d", *calls, *waits, c.calls)
			}
			if c.wait > 0 && (*waits)[0] < c.wait {
				t.Errorf("waited %v, not %v", *waits, c.wait)
			}
		})
	}
}

// Patience ends: with the first try where there is none, with the context, and
// where the server asks for more time than there is.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience time.Duration
		answer   func(http.ResponseWriter, *http.Request)
	}{
		"none":                         {0, says(503, `{}`)},
		"less than the server demands": {time.Minute, says(503, `{}`, "Retry-After", "100")},
	} {
		client, waits, calls := calling(t, Config{Patience: c.patience}, answers{c.answer})
		err := client.Get(t.Context(), "status", nil)
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != 503 || *calls != 1 || len(*waits) != 0 {
			t.Errorf("%s: %v after %d calls", name, err, *calls)
		}
	}
	client, _, calls := calling(t, Config{Patience: time.Hour}, answers{says(503, `{}`)})
	ctx, cancel := context.WithCancel(t.Context())
	client.wait = func(context.Context, time.Duration) bool { cancel(); return ctx.Err() == nil }
	if err := client.Get(ctx, "status", nil); err == nil || *calls != 1 {
		t.Errorf("%v after %d calls", err, *calls)
	}
	ctx, cancel = context.WithCancel(t.Context())
	timeIsUp := func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }
	client, _, _ = calling(t, Config{Patience: time.Hour}, answers{says(500, `{}`), timeIsUp})
	var refused *Error
	if err := client.Get(ctx, "status", nil); !errors.As(err, &refused) || refused.Status != 500 {
		t.Errorf("the time was up after an error: %v", err)
	}
	client, _, _ = calling(t, Config{}, answers{hangsUp})
	var silent *Unreachable
	if err := client.Get(t.Context(), "status", nil); !errors.As(err, &silent) || strings.Contains(err.Error(), "/v1") {
		t.Errorf("%v", err)
	}
}

// What goes along with each call.
func TestCallsSayWhoCalls(t *testing.T) {
	t.Parallel()
	var seen http.Header
	var path, body string
	note := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		seen, path, body = r.Header, r.URL.Path, string(text)
		_, _ = io.WriteString(w, `{}`)
	}
	c, _, _ := calling(t, Config{Token: "sbx_secret", StandIn: StandIn{"7", "abc"}, UserAgent: "signalbox/1.2"}, answers{note})
	q := Queue{Client: c, Host: "github.com", Owner: "Acme", Name: "shop", Branch: "main"}
	if _, err := q.Pull(t.Context(), "getSubmittedPullRequest", 7); err != nil {
		t.Fatal(err)
	}
	want := `{"pr":{"number":7},"repo":{"host":"github.com","name":"shop","owner":"Acme"},"targetBranch":"main"}`
	if seen.Get("x-api-token") != "sbx_secret" || seen.Get("User-Agent") != "signalbox/1.2" || seen.Get("Content-Type") != "application/json" ||
		seen.Get("x-forked-workflow-run-id") != "" || seen.Get("x-trunk-public-repo-id") != "" || c.Anonymous() || path != "/v1/getSubmittedPullRequest" || body != want {
		t.Errorf("%s %s %v", path, body, seen)
	}
	if err := q.About(t.Context(), "flaky-tests/get-upload", nil, nil); err != nil || !strings.Contains(body, `"org_url_slug":"acme"`) {
		t.Errorf("%v %s", err, body)
	}
	c, _, _ = calling(t, Config{StandIn: StandIn{ForkRun: "7"}}, answers{note})
	if err := c.Get(t.Context(), "status", nil); err != nil || seen.Get("x-forked-workflow-run-id") != "7" || seen.Get("x-api-token") != "" || !c.Anonymous() {
		t.Errorf("%v %v", err, seen)
	}
	c, _, _ = calling(t, Config{StandIn: StandIn{PublicRepo: "abc"}}, answers{note})
	if err := c.Get(t.Context(), "status", nil); err != nil || seen.Get("x-trunk-public-repo-id") != "abc" || seen.Get("x-forked-workflow-run-id") != "" {
		t.Errorf("%v %v", err, seen)
	}
}

// An address is checked before anything is sent, and never repeated: it may
// hold a password.
func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "signalbox.example.com", "ftp://x", "https://", "https://me:hunter2@x", "https://x?a=b", "https://x#a", "https://%zz"} {
		if _, err := New(Config{URL: url}); !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, want := range map[string]string{"https://x": "x", " http://x:8080/ ": "x:8080", "https://x/signalbox/": "x"} {
		c, err := New(Config{URL: url})
		if err != nil || c.Server() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The settings of a queue are kept by name, also those that are not known here.
func TestContentsKeepEverySetting(t *testing.T) {
	t.Parallel()
	var c Contents
	err := json.Unmarshal([]byte(`{"state":"paused","mode":"single","concurrency":4,"new":["x"],"enqueuedPullRequests":[{"prNumber":3,"state":"testing"}]}`), &c)
	if err != nil || c.State != "paused" || len(c.Enqueued) != 1 || c.Enqueued[0].Number != 3 || string(c.Settings["new"]) != `["x"]` || c.Settings["enqueuedPullRequests"] != nil {
		t.Errorf("%v %+v", err, c)
	}
}
