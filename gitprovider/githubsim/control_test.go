package githubsim

// The control API as a program in any language sees it, and faults.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"
)

// control makes a control call and decodes the answer.
func (w *world) control(method, path, body string) (int, map[string]any, []any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.URL()+path, strings.NewReader(body))
	w.must(err)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	var buf bytes.Buffer
	buf.ReadFrom(resp.Body)
	var m map[string]any
	var l []any
	if buf.Bytes()[0] == '[' {
		w.must(json.Unmarshal(buf.Bytes(), &l))
	} else {
		w.must(json.Unmarshal(buf.Bytes(), &m))
	}
	return resp.StatusCode, m, l
}

func TestAStoryToldOverTheControlAPI(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	ok := func(method, path, body string) map[string]any {
		t.Helper()
		status, m, _ := w.control(method, path, body)
		if status != 200 {
			t.Fatalf("%s %s: %d %v", method, path, status, m)
		}
		return m
	}
	made := ok("POST", "/_control/repos", `{"owner":"acme","name":"app","checks":["test"],"requiredChecks":["test"],
		"ci":{"minSeconds":0,"maxSeconds":0,"flakeRate":0,"seed":1,"pullRequests":true},"files":{"go.mod":"module x\n"}}`)
	if made["fullName"] != "acme/app" || made["headSha"] == "" {
		t.Errorf("repository: %v", made)
	}
	p := ok("POST", "/_control/pulls", `{"repo":"acme/app","title":"T","body":"B","author":"alice","files":{"a.txt":"a\n","go.mod":null}}`)
	if p["number"] != 1.0 || len(p["headSha"].(string)) != 40 {
		t.Errorf("pull: %v", p)
	}
	ok("POST", "/_control/pulls", `{"repo":"acme/app","title":"F","author":"fay","fork":true,"draft":true,"files":{"f.txt":"f\n"}}`)
	ok("POST", "/_control/push", `{"repo":"acme/app","branch":"main","files":{"m.txt":"m\n"},"message":"by hand","author":"bob"}`)
	ok("POST", "/_control/comment", `{"repo":"acme/app","number":1,"author":"alice","body":"/merge"}`)
	ok("POST", "/_control/review", `{"repo":"acme/app","number":1,"author":"bob","state":"approved","body":""}`)
	ok("POST", "/_control/collaborators", `{"repo":"acme/app","login":"carol","permission":"admin"}`)
	ok("POST", "/_control/edit", `{"repo":"acme/app","number":1,"author":"alice","title":"T2","addLabels":["x"]}`)
	ok("POST", "/_control/report", `{"repo":"acme/app","sha":"main","name":"test","conclusion":"success"}`)
	ok("POST", "/_control/close", `{"repo":"acme/app","number":2,"author":"fay"}`)
	ok("POST", "/_control/faults", `{"next":[],"webhooks":{"lose":0,"repeat":false,"delayMs":0,"reorder":false,"seed":3}}`)
	merged := ok("POST", "/_control/merge", `{"repo":"acme/app","number":1,"author":"bob","method":"squash"}`)
	status, _, log := w.control("GET", "/_control/log?repo=acme/app&branch=main", "")
	if status != 200 || len(log) != 3 {
		t.Fatalf("log: %d %v", status, log)
	}
	top := log[0].(map[string]any)
	if top["sha"] != merged["sha"] || top["pr"] != 1.0 || len(top["parents"].([]any)) != 1 || !strings.HasPrefix(top["message"].(string), "T2 (#1)") {
		t.Errorf("top of the log: %v", top)
	}
	w.delivered()
	if _, _, sent := w.control("GET", "/_control/deliveries", ""); len(sent) == 0 {
		t.Error("no deliveries")
	}
}

func TestMistakesOnTheControlAPIAreExplained(t *testing.T) {
	w := newWorld(t)
	w.pull("a.txt", "a\n")
	for _, test := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"repos", `{"owner":"acme","name":"app"}`, 400, "exists already"},
		{"repos", `{"owner":"repos","name":"x"}`, 400, "owner"},
		{"repos", `{"owner":"acme","name":"../x"}`, 400, "name"},
		{"repos", `{"owner":"acme","name":"x","ci":{"flakeRate":2}}`, 400, "flakeRate"},
		{"repos", `{"owner":"acme","name":"x","checks":["a/b"]}`, 400, "without slashes"},
		{"repos", `{"owner":"acme","name":"x","files":{"../etc/passwd":"x"}}`, 400, "not a path"},
		{"repos", `{"owner":"acme","nmae":"x"}`, 400, "nmae"},
		{"repos", `[`, 400, "JSON"},
		{"pulls", `{"repo":"acme/none","author":"alice"}`, 404, "acme/none"},
		{"pulls", `{"repo":"acme/app","author":""}`, 400, "login"},
		{"pulls", `{"repo":"acme/app","author":"alice","base":"nope","files":{"x":"x"}}`, 404, "nope"},
		{"pulls", `{"repo":"acme/app","author":"alice","branch":"a..b","files":{"x":"x"}}`, 400, "ref name"},
		{"pulls", `{"repo":"acme/app","author":"alice","branch":"main"}`, 422, "Validation Failed"},
		{"pulls", `{"repo":"acme/app","author":"alice","files":{".git/config":"x"}}`, 400, "not a path"},
		{"push", `{"repo":"acme/app","branch":"main","files":{"x":7},"author":"a"}`, 400, "JSON"},
		{"comment", `{"repo":"acme/app","number":9,"author":"alice","body":"x"}`, 404, "#9"},
		{"comment", `{"repo":"acme/app","number":1,"author":"alice","body":" "}`, 422, "Validation Failed"},
		{"review", `{"repo":"acme/app","number":1,"author":"alice","state":"meh"}`, 400, "state"},
		{"collaborators", `{"repo":"acme/app","login":"x","permission":"owner"}`, 400, "permission"},
		{"merge", `{"repo":"acme/app","number":1,"author":"x","method":"magic"}`, 422, "magic"},
		{"report", `{"repo":"acme/app","sha":"zzz","name":"x","conclusion":"success"}`, 404, "zzz"},
		{"report", `{"repo":"acme/app","sha":"main","name":"x","conclusion":"so great"}`, 400, "conclusion"},
		{"faults", `{"next":[{"path":"/x","action":"explode"}]}`, 400, "explode"},
		{"faults", `{"next":[{"path":"x","action":"fail"}]}`, 400, "must begin"},
		{"faults", `{"webhooks":{"lose":3}}`, 400, "between 0 and 1"},
		{"rulesets", `{"repo":"acme/app","bypass":"sometimes"}`, 400, "bypass"},
		{"nothing", `{}`, 404, "POST /_control/repos"},
	} {
		status, m, _ := w.control("POST", "/_control/"+test.path, test.body)
		said, _ := json.Marshal(m)
		if status != test.status || !strings.Contains(string(said), test.says) {
			t.Errorf("%s %s: %d %s, want %d and %q", test.path, test.body, status, said, test.status, test.says)
		}
	}
	if _, err := w.CIRule(w.ctx, "acme/none", "test", "x"); err == nil {
		t.Error("a rule for no repository")
	}
	// What failed left nothing behind.
	w.repo(NewRepo{Owner: "acme", Name: "x"})
}

func TestTheControlAPIAnswersThisMachineOnly(t *testing.T) {
	w := newWorld(t)
	req := httptest.NewRequest("GET", "/_control/deliveries", nil)
	req.RemoteAddr = "192.0.2.7:1234"
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, req)
	if rec.Code != http.StatusForbidden {
		t.Errorf("a stranger got %d", rec.Code)
	}
	if _, err := Start(w.ctx, Config{DataDir: t.TempDir()}, "0.0.0.0:0"); err == nil {
		t.Error("it listens to the world")
	}
}

func TestCallsFailAsPlanned(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	gh := w.installation()
	comment := func() error {
		_, _, err := gh.Issues.CreateComment(w.ctx, "acme", "app", p.Number, &github.IssueComment{Body: github.String("hi")})
		return err
	}
	count := func() int {
		t.Helper()
		list, _, err := gh.Issues.ListComments(w.ctx, "acme", "app", p.Number, nil)
		w.must(err)
		return len(list)
	}
	path := "/repos/acme/app/issues/*/comments"
	var answered *github.ErrorResponse

	w.must(w.Fail(Fault{Method: "POST", Path: path, Action: "fail", Status: 500}))
	if err := comment(); !errors.As(err, &answered) || answered.Response.StatusCode != 500 || count() != 0 {
		t.Errorf("fail: %v, %d comments", err, count())
	}
	w.must(w.Fail(Fault{Method: "POST", Path: path, Action: "failAfter", Status: 502, Times: 2}))
	for range 2 {
		if err := comment(); !errors.As(err, &answered) || answered.Response.StatusCode != 502 {
			t.Errorf("failAfter: %v", err)
		}
	}
	if count() != 2 {
		t.Errorf("failAfter: %d comments, want 2", count())
	}
	w.must(w.Fail(Fault{Method: "POST", Path: path, Action: "dropAfter"}))
	if err := comment(); err == nil || errors.As(err, &answered) && answered.Response.StatusCode != 502 || count() != 3 {
		t.Errorf("dropAfter: %v, %d comments", err, count())
	}
	w.must(w.Fail(Fault{Path: path, Action: "limit", RetryAfter: 7}))
	var limited *github.AbuseRateLimitError
	if err := comment(); !errors.As(err, &limited) || limited.GetRetryAfter() != 7*time.Second {
		t.Errorf("limit: %v", err)
	}
	gh = w.installation() // the client above waits the seven seconds out
	w.must(w.Fail(Fault{Method: "POST", Path: path, Action: "slow", DelayMs: 30_000}))
	ctx, cancel := context.WithCancel(w.ctx)
	slow := make(chan error, 1)
	go func() {
		_, _, err := gh.Issues.CreateComment(ctx, "acme", "app", p.Number, &github.IssueComment{Body: github.String("hi")})
		slow <- err
	}()
	eventually(t, "the slow call to come", func() bool { return w.FaultsLeft() == 0 })
	cancel()
	if err := <-slow; err == nil {
		t.Error("slow: it was fast")
	}
	before := count()
	w.must(w.Fail(Fault{Method: "POST", Path: path, Action: "late"}))
	if err := comment(); err == nil || count() != before {
		t.Errorf("late: %v, %d comments before it arrived, want %d", err, count(), before)
	}
	if n := w.Arrive(); n != 1 || count() != before+1 || w.Arrive() != 0 {
		t.Errorf("late: %d calls arrived, %d comments, want %d", n, count(), before+1)
	}
	w.must(w.Fail(Fault{Path: "/repos", Action: "fail", Times: 9}))
	w.ClearFaults()
	w.must(comment())
}

func TestAPushCanFailThoughItHappened(t *testing.T) {
	w := newWorld(t)
	c := w.clone(w.token(), "acme/app")
	sha := c.commit("a.txt", "a\n")
	w.must(w.Fail(Fault{Path: "/acme/app.git/git-receive-pack", Action: "failAfter", Status: 500}))
	if out, err := c.try("push", "origin", "HEAD:main"); err == nil {
		t.Errorf("the push succeeded:\n%s", out)
	}
	if got := w.tip("main"); got != sha {
		t.Errorf("main is at %s, want %s", got, sha)
	}
}

func TestReactionsAndComments(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	id, err := w.Comment("acme/app", p.Number, "alice", "/merge")
	w.must(err)
	gh := w.installation()
	for _, content := range []string{"+1", "eyes", "+1"} {
		_, _, err := gh.Reactions.CreateIssueCommentReaction(w.ctx, "acme", "app", id, content)
		w.must(err)
	}
	list, _, err := gh.Reactions.ListIssueCommentReactions(w.ctx, "acme", "app", id, nil)
	w.must(err)
	if len(list) != 2 || list[0].GetUser().GetLogin() != "signalbox[bot]" {
		t.Errorf("reactions: %v", list)
	}
	if _, resp, err := gh.Reactions.CreateIssueCommentReaction(w.ctx, "acme", "app", id, "shrug"); err == nil || resp.StatusCode != 422 {
		t.Errorf("a reaction that is none: %v", err)
	}
	own, _, err := gh.Issues.CreateComment(w.ctx, "acme", "app", p.Number, &github.IssueComment{Body: github.String("- [ ] submit")})
	w.must(err)
	if own.GetUser().GetType() != "Bot" {
		t.Errorf("our comment is by a %s", own.GetUser().GetType())
	}
	w.must(w.EditComment(own.GetID(), "alice", "- [x] submit"))
	e := w.app.wait(t, "issue_comment", "edited", nil)
	if e.at("sender", "login") != "alice" || e.at("comment", "user", "login") != "signalbox[bot]" || e.at("changes", "body", "from") != "- [ ] submit" || e.at("issue", "pull_request") == nil {
		t.Errorf("edited: %v by %v", e.at("changes"), e.at("sender", "login"))
	}
	_, err = gh.Issues.DeleteComment(w.ctx, "acme", "app", own.GetID())
	w.must(err)
	if _, resp, err := gh.Issues.GetComment(w.ctx, "acme", "app", own.GetID()); err == nil || resp.StatusCode != 404 {
		t.Errorf("after deletion: %v", err)
	}
}
