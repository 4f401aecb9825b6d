package githubspec

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
)

// reported sends one call through Calls and returns what was reported.
func reported(t *testing.T, rule Rule, method, path, body string, status int, answer string) string {
	t.Helper()
	var said []string
	h := Calls(rule, func(err error) { said = append(said, err.Error()) })(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if answer == "" && status == 0 {
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), req)
	return strings.Join(said, "\n")
}

func TestCallsAreJudged(t *testing.T) {
	t.Parallel()
	const (
		repo  = "/api/v3/repos/acme/app"
		none  = `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`
		ref   = `{"ref":"refs/heads/a/b","node_id":"x","url":"https://x.example/r","object":{"type":"commit","sha":"7d1b31e74ee336d15cbd21741bc88a537ed063a0","url":"https://x.example/c"}}`
		refs  = repo + "/git/ref/heads/a/b"
		check = repo + "/commits/feature/x/check-runs"
	)
	tests := []struct {
		name         string
		rule         Rule
		method, path string
		body         string
		status       int
		answer       string
		want         string // in the report; "" for none
	}{
		{"a good answer", Valid, "GET", refs, "", 200, ref, ""},
		{"the same without the prefix of a server of one's own", Valid, "GET", "/repos/acme/app/git/ref/heads/a/b", "", 200, ref, ""},
		{"a field is missing", Valid, "GET", refs, "", 200, strings.Replace(ref, `"node_id":"x",`, "", 1), `"node_id" is missing`},
		{"a field is of another type", Valid, "GET", refs, "", 200, strings.Replace(ref, `"x"`, "1", 1), "/node_id"},
		{"a status that the call does not have", Valid, "GET", refs, "", 204, ref, "status is not supported"},
		{"an answer that is not JSON", Valid, "GET", refs, "", 200, "<html>", "the answer"},
		{"an error that is not listed", Valid, "GET", refs, "", 418, none, ""},
		{"an error without its form", Valid, "GET", refs, "", 418, `{}`, "needs a message"},
		{"a server that is down", Valid, "GET", refs, "", 502, `bad gateway`, ""},
		{"nobody who listens", Valid, "GET", refs, "", 0, "", ""},
		{"the longest match, ref with a slash", Valid, "GET", check, "", 200, `{"total_count":0,"check_runs":[]}`, ""},
		{"a wrong answer of the longest match", Valid, "GET", check, "", 200, `{"total_count":0}`, "check_runs"},
		{"a call that nobody has", Valid, "GET", repo + "/nothing", "", 200, `{}`, `make github-spec`},
		{"a call that nobody has, not found", Valid, "GET", repo + "/nothing", "", 404, none, ""},
		{"git", Valid, "GET", "/acme/app.git/info/refs", "", 200, "x", ""},
		{"a parameter that is unknown", Valid, "GET", check + "?perpage=3", "", 200, `{"total_count":0,"check_runs":[]}`, `no parameter "perpage"`},
		{"a parameter of another type", Valid, "GET", check + "?per_page=x", "", 200, `{"total_count":0,"check_runs":[]}`, "per_page"},
		{"a body", Valid, "POST", repo + "/git/refs", `{"ref":"refs/heads/a/b","sha":"x"}`, 201, ref, ""},
		{"a body with a field that is unknown", Valid, "POST", repo + "/git/refs", `{"ref":"r","sha":"x","force":true}`, 201, ref, `a field "force"`},
		{"a body that lacks a field", Valid, "POST", repo + "/git/refs", `{"ref":"r"}`, 201, ref, `"sha" is missing`},
		{"a body that lacks a field, refused", Valid, "POST", repo + "/git/refs", `{"ref":"r"}`, 422, none, `"sha" is missing`},
		{"the same, of somebody who tries it", ValidUnlessRefused, "POST", repo + "/git/refs", `{"ref":"r"}`, 422, none, ""},
		{"the same, taken", ValidUnlessRefused, "POST", repo + "/git/refs", `{"ref":"r"}`, 201, ref, `"sha" is missing`},
		{"the lasting address of a repository", Valid, "GET", "/api/v3/repositories/7/git/ref/heads/a/b", "", 200, ref, ""},
		{"rules of tomorrow", Valid, "GET", repo + "/rules/branches/main", "", 200, `[{"type":"x_of_tomorrow"}]`, ""},
		{"rules that are none", Valid, "GET", repo + "/rules/branches/main", "", 200, `[{"type":"x"}]`, "/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := reported(t, tt.rule, tt.method, tt.path, tt.body, tt.status, tt.answer)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("reported %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWebhooksAreJudged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ event, body, want string }{
		{"push", `{"ref":"refs/heads/main"}`, `"repository" is missing`},
		{"pull_request", `{"action":"assigned"}`, "make github-spec"},
		{"earthquake", `{}`, "make github-spec"},
		{"push", `[]`, "not a JSON object"},
	} {
		if err := Webhook(tt.event, []byte(tt.body)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.event, tt.body, err, tt.want)
		}
	}
}

// Every route of the simulator is described, and the description has no more
// than those.
func TestTheDescriptionIsThatOfTheSimulatorsCalls(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, c := range githubsim.Calls() {
		method, path, _ := strings.Cut(c, " ")
		want = append(want, method+" "+shape(path))
	}
	for path, item := range load().doc.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+shape(path))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		for _, c := range want {
			if !slices.Contains(got, c) {
				t.Errorf("testdata/api.json lacks %s; run \"make github-spec\"", c)
			}
		}
		for _, c := range got {
			if !slices.Contains(want, c) {
				t.Errorf("testdata/api.json has %s, which the simulator has not; run \"make github-spec\"", c)
			}
		}
	}
}

// Every event of the table is in GitHub's own schemas, and the community's has
// those that it knows.
func TestTheEventsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	kept := loadEvents()
	for event, actions := range events {
		for _, action := range actions {
			if kept[eventName(event, action)] == nil {
				t.Errorf("testdata/events.json lacks %s %s; run \"make github-spec\"", event, action)
			}
		}
	}
	if n := len(loadSchemas().known); n < 30 {
		t.Errorf("testdata/schemas.json has %d definitions", n)
	}
	// Each can be compiled, and refuses what is nothing.
	for name := range loadSchemas().known {
		if !strings.HasPrefix(name, "event:") {
			continue
		}
		if err := loadSchemas().validate(name, map[string]any{}); err == nil || strings.Contains(err.Error(), "compile") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheFilesAreJSONWithALineForEachPart(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{"api.json": apiJSON, "events.json": eventsJSON, "schemas.json": schemasJSON} {
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if lines := strings.Count(string(text), "\n"); lines < 50 || len(text) > 2<<20 {
			t.Errorf("%s has %d lines and %d bytes", name, lines, len(text))
		}
	}
}
