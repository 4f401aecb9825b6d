package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// forEverybody are the endpoints that look at no token: the description of the API, a
// bundle, whose address was signed when a token asked for it, and one whose requests
// are not even read.
var forEverybody = []string{"/v1/openapi.json", "/docs/api", "/v1/metrics/bundle", "/v1/flakytests-cli/upload-metrics"}

// Who may call what, and in what words everybody else is refused. A row for
// every endpoint and every kind of token; the answer never says more than it
// has to.
func TestEveryEndpointIsClosedToWhoeverMayNotUseIt(t *testing.T) {
	t.Parallel()
	// What a token of another organisation hears; 404 where nothing else is said.
	foreign := map[string]int{
		"/v1/createQueue":          http.StatusNotFound,
		"/v1/deleteQueue":          http.StatusOK,
		"/v1/getMergeQueueMetrics": http.StatusOK, // its own: none
		"/v1/status":               http.StatusOK,
		"/v1/listSubscribers":      http.StatusOK, // its own: none
	}
	scopes := map[string]account.Scope{"read": account.Read, "submit": account.Submit, "admin": account.Admin}
	for _, rt := range newWorld(t, nil).api.routes() {
		if rt.scope == "" {
			if !slices.Contains(forEverybody, rt.path) {
				t.Errorf("%s %s is for everybody, and nobody has said so", rt.method, rt.path)
			}
			continue
		}
		for _, token := range []string{"", "nobody", "expired", "revoked", "odd", "read", "submit", "admin", "other"} {
			t.Run(strings.TrimPrefix(rt.path, "/v1/")+" with "+fmt.Sprintf("%q", token), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				runCommands(w)
				code, name, message := w.ask(rt, token, sampleOf(rt.path))
				want := 0
				switch {
				case token == "" || token == "nobody" || token == "expired" || token == "revoked":
					want = http.StatusUnauthorized
				case token == "odd":
					want = http.StatusForbidden
				case token == "other":
					if want = foreign[rt.path]; want == 0 {
						want = http.StatusNotFound
					}
				case !scopes[token].Allows(rt.scope):
					want = http.StatusForbidden
				default:
					if code == 401 || code == 403 || code == 404 {
						t.Errorf("refused with %d %s: %s", code, name, message)
					}
					return
				}
				if code != want {
					t.Errorf("got %d %s, want %d", code, name, want)
				}
				if e := w.memory.queues[0].ByPR(12); e == nil || e.State != queue.Testing {
					t.Error("the call changed something")
				}
			})
		}
	}
}

// BC-100. A NUL in any text of any request is refused before anything is asked
// of the database, which could not take it.
func TestANULInAnyTextOfAnyRequestIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	runCommands(w)
	for _, rt := range w.api.routes() {
		if rt.method != http.MethodPost || rt.raw || rt.deaf || rt.forCI {
			continue
		}
		w.command("advance 10s") // a token is held to its rate
		body := strings.ReplaceAll(sampleOf(rt.path), "@main", mainQueue)
		for i := range len(body) {
			// After the opening quote of each text, names of fields too.
			if body[i] != '"' || strings.Count(body[:i], `"`)%2 == 1 {
				continue
			}
			code, name, message := w.ask(rt, "admin", body[:i+1]+`\u0000`+body[i+1:])
			if code != 400 || name != CodeInvalidJSON || !strings.Contains(message, "NUL") {
				t.Errorf("%s at %d: %d %s %s", rt.path, i, code, name, message)
			}
		}
	}
}

// runCommands makes a queue with #12 under test.
func runCommands(w *world) {
	w.command("pull 12")
	for _, call := range [][2]string{{"/v1/createQueue", `{@main}`}, {"/v1/submitPullRequest", `{@main,"pr":{"number":12}}`}} {
		if code, _, message := w.post(call[0], "admin", call[1]); code != 200 {
			w.t.Fatalf("%s: %d %s", call[0], code, message)
		}
	}
	for _, call := range [][2]string{
		{"/v1/createSubscriber", `{"name":"ops","url":"https://hooks.example.com/x","events":["queue.*"]}`},
		{"/v1/testSubscriber", `{"subscriberId":"` + sampleSubscriber + `"}`},
	} {
		if code, _, message := w.post(call[0], "admin", call[1]); code != 200 {
			w.t.Fatalf("%s: %d %s", call[0], code, message)
		}
	}
	w.command("work")
	w.command("tests a")
	w.command("advance 1s")
}

// What is foreign and what is missing get the same bytes, and the store is
// asked the same question.
func TestForeignAndMissingCannotBeToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	runCommands(w)
	for _, rt := range w.api.routes() {
		body := sampleOf(rt.path)
		if !strings.Contains(body, "@main") || rt.path == "/v1/createQueue" {
			continue
		}
		foreignCode, foreignName, foreignMessage := w.ask(rt, "other", body)
		missing := strings.ReplaceAll(body, "@main", strings.ReplaceAll(mainQueue, `"app"`, `"zzz"`))
		code, name, message := w.ask(rt, "other", missing)
		if foreignCode != code || foreignName != name || foreignMessage != strings.ReplaceAll(message, "zzz", "app") {
			t.Errorf("%s: foreign %d %s %q, missing %d %s %q", rt.path, foreignCode, foreignName, foreignMessage, code, name, message)
		}
	}
}

func TestATokenIsHeldToItsRateAndOthersAreNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *Config) { cfg.RatePerSecond, cfg.Burst = 0.25, 2 })
	for range 2 {
		if code, _, _ := w.post("/v1/getQueue", "read", `{@main}`); code != 404 {
			t.Fatalf("within the burst: %d", code)
		}
	}
	r := httptest.NewRequest("POST", "/v1/createQueue", strings.NewReader(`{}`)) // a scope it has not: the rate is checked first
	r.Header.Set("X-Api-Token", "read")
	if got := w.send(r); got.Code != 429 || got.Header().Get("Retry-After") != "4" {
		t.Errorf("over the rate: %d, Retry-After %q", got.Code, got.Header().Get("Retry-After"))
	}
	if code, _, _ := w.post("/v1/getQueue", "submit", `{@main}`); code != 404 {
		t.Errorf("another token: %d", code)
	}
	w.command("advance 4s")
	if code, _, _ := w.post("/v1/getQueue", "read", `{@main}`); code != 404 {
		t.Errorf("after the wait: %d", code)
	}
	if code, _, _ := w.post("/v1/getQueue", "read", `{@main}`); code != 429 {
		t.Errorf("and at once again: %d", code)
	}
}

func TestForgottenTokensTakeNoMemory(t *testing.T) {
	t.Parallel()
	l := newLimits(100, 200)
	now := time.Unix(1_800_000_000, 0)
	for id := range int64(1000) {
		l.take(caller{token: id}, now)
	}
	l.take(caller{token: 7}, now.Add(2*time.Minute))
	if n := len(l.of); n != 1 {
		t.Errorf("%d tokens remembered, want 1", n)
	}
	unlimited := newLimits(-1, 1)
	for range 1000 {
		if unlimited.take(caller{token: 1}, now) != 0 {
			t.Fatal("a negative rate limits")
		}
	}
}

// panicking is a store with a fault in it.
type panicking struct{ *memory }

func (panicking) FindQueue(context.Context, int64, string, string, string, string) (queue.Queue, error) {
	panic("index out of range: secret")
}

func TestAPanicIsA500AndALogLineAndNotTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.api.store = panicking{w.memory}
	for range 2 {
		code, name, message := w.post("/v1/getQueue", "read", `{@main}`)
		if code != 500 || name != CodeInternal || strings.Contains(message, "secret") || !strings.Contains(message, "The request id is ") {
			t.Errorf("got %d %s %q", code, name, message)
		}
	}
	log := w.log.String()
	for _, want := range []string{"a handler panicked", "index out of range: secret", "stack=", "route=/v1/getQueue", "status=500"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestTheAccessLogNamesTheRouteAndNeverTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.post("/v1/getQueue", "submit", `{@main}`)
	w.post("/v1/nothing/"+strings.Repeat("x", 500), "submit", `{}`)
	w.command("store down")
	w.post("/v1/getQueue", "submit", `{@main}`)
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	if len(lines) != 4 { // one each, and one error
		t.Fatalf("%d lines:\n%s", len(lines), w.log.String())
	}
	for i, want := range []string{
		"level=INFO msg=request request=", "path=/v1/nothing/xxx", "level=ERROR msg=\"request failed\"", "status=500",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d lacks %q: %s", i, want, lines[i])
		}
		if strings.Contains(lines[i], "token=submit") || len(lines[i]) > 500 {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	if !strings.Contains(lines[0], "method=POST route=/v1/getQueue status=404") || !strings.Contains(lines[0], "org=acme token=2") {
		t.Errorf("line 0: %s", lines[0])
	}
}

func TestABodyOver20MiBIsRefusedAndOneOfThatSizeIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	pad := func(size int) []byte {
		head, tail := []byte(`{"repo":"`), []byte(`"}`)
		return append(append(head, bytes.Repeat([]byte("x"), size-len(head)-len(tail))...), tail...)
	}
	for _, c := range []struct {
		name    string
		size    int
		stated  bool // Content-Length is there
		want    int
		message string
	}{
		{"as large as may be", maxBody, true, 400, "repo must be an object"},
		{"a byte more", maxBody + 1, true, 413, "longer than 20971520 bytes"},
		{"a byte more, unannounced", maxBody + 1, false, 413, "longer than 20971520 bytes"},
	} {
		r := httptest.NewRequest("POST", "/v1/getQueue", bytes.NewReader(pad(c.size)))
		if !c.stated {
			r.ContentLength = -1
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Token", "read")
		got := w.send(r)
		if got.Code != c.want || !strings.Contains(got.Body.String(), c.message) {
			t.Errorf("%s: %d %s", c.name, got.Code, got.Body)
		}
	}
}

// Over a real connection: a body that ends early is a 400 and no hang. One that
// is announced too large is refused at once, and whoever sends all of one before
// looking for an answer gets it too.
func TestARealConnectionIsAnsweredWhateverItsBodyDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	server := httptest.NewServer(w.api)
	defer server.Close()
	large := strings.Repeat(" ", maxBody+1)
	head := "POST /v1/getQueue HTTP/1.1\r\nHost: x\r\nX-Api-Token: read\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct{ request, want string }{
		"a chunked body that breaks off": {head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\nzz\r\n", "HTTP/1.1 400"},
		"a length over the limit":        {head + "Content-Length: 99999999999\r\n\r\n{", "HTTP/1.1 413"},
		"a large body, all of it":        {head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(large), large), "HTTP/1.1 413"},
		"a large body in chunks":         {head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(large), large), "HTTP/1.1 413"},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != c.want {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}

func TestOnAnEnterpriseServerGitHubComMeansThatServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *Config) { cfg.HostName = "Git.Example.com:8443" })
	if code, _, message := w.post("/v1/createQueue", "admin", `{@main}`); code != 200 {
		t.Fatalf("%d %s", code, message)
	}
	if host := w.memory.repos[0].Host; host != "git.example.com:8443" {
		t.Errorf("the repository is on %s", host)
	}
	for _, host := range []string{"github.com", "GITHUB.COM", "git.example.com:8443", "GIT.example.com:8443"} {
		body := strings.ReplaceAll(mainQueue, "github.com", host)
		if code, _, message := w.post("/v1/getQueue", "read", "{"+body+"}"); code != 200 {
			t.Errorf("%s: %d %s", host, code, message)
		}
	}
	body := strings.ReplaceAll(mainQueue, "github.com", "git.example.com")
	if code, _, message := w.post("/v1/getQueue", "read", "{"+body+"}"); code != 404 || !strings.Contains(message, "git.example.com/acme/app") {
		t.Errorf("%d %s", code, message)
	}
	if code, _, message := w.post("/v1/createQueue", "admin", "{"+body+"}"); code != 400 || !strings.Contains(message, "repo.host") {
		t.Errorf("%d %s", code, message)
	}
}

func TestACallerWhoHasGoneIsNoErrorOfOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.command("pull 12")
	w.post("/v1/createQueue", "admin", `{@main}`)
	w.store.stopped = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest("POST", "/v1/submitPullRequest", strings.NewReader("{"+mainQueue+`,"pr":{"number":12}}`)).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Token", "submit")
	if got := w.send(r); got.Code != 503 {
		t.Errorf("got %d", got.Code)
	}
	if log := w.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("an error is logged:\n%s", log)
	}
}

func TestTimesAreUTCWithMillisecondsWhateverTheyAreIn(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", -7*3600)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 11, 27, 13, 7, 41, 331_999_999, zone), `"2026-11-27T20:07:41.331Z"`},
		{time.Date(2026, 11, 27, 20, 0, 0, 0, time.UTC), `"2026-11-27T20:00:00.000Z"`},
	} {
		if got, err := json.Marshal(moment(c.at)); err != nil || string(got) != c.want {
			t.Errorf("got %s, %v; want %s", got, err, c.want)
		}
	}
	if momentOrNull(time.Time{}) != nil || momentOrNull(time.Date(10191, 1, 1, 0, 0, 0, 0, time.UTC)) != nil {
		t.Error("a time that cannot be written is not null")
	}
}

func TestBranchNamesAreThoseOfGit(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"main", "release/1.x", "fix-#12", "Ünïcode", "a@b", "v1.0"} {
		if problem := branchProblem(good); problem != "" {
			t.Errorf("%q: %s", good, problem)
		}
	}
	for _, bad := range []string{
		"-x", "@", "HEAD", "refs/heads/main", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "a.", "a/", "/a", "a//b",
		".a", "a/.b", "a.lock", "a.lock/b", "a@{1}", "a\tb", "a\x7f",
	} {
		if branchProblem(bad) == "" {
			t.Errorf("%q is taken for a branch", bad)
		}
	}
}

// 350,000 strings in one list are read in well under a second.
func BenchmarkParse350kStrings(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"impactedTargets":[`)
	for i := range 350_000 {
		fmt.Fprintf(&body, `"//some/package/path:target_%d",`, i)
	}
	body.WriteString(`"last"]}`)
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		root, err := parse(body.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, list := range root.members() {
			for _, item := range list.items() {
				n += len(item.text())
			}
		}
	}
}
