package githubsim

// GraphQL: what is asked is checked against the schema, and mistakes get
// GitHub's errors.

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

var published = flag.String("published", "", "folder with what GitHub publishes, see githubspec/testdata/fetch.sh")

// ask asks a query as a token's holder and returns the answer.
func (w *world) ask(path, token, query string, vars map[string]any) (status int, answer string) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	w.must(err)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.URL()+path, bytes.NewReader(body))
	w.must(err)
	if token != "" {
		req.Header.Set("Authorization", "bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	var out bytes.Buffer
	_, err = out.ReadFrom(resp.Body)
	w.must(err)
	return resp.StatusCode, out.String()
}

func TestGraphQL(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	w.must(w.SetPermission("acme/app", "carol", "write"))
	w.must(w.Review("acme/app", p.Number, "carol", "changes_requested", ""))
	w.must(w.Review("acme/app", p.Number, "dave", "approved", ""))
	var threads []int64
	for range 3 {
		id, err := w.Converse("acme/app", p.Number, "carol", "why?")
		w.must(err)
		threads = append(threads, id)
	}
	w.must(w.Resolve("acme/app", p.Number, threads[1], "alice", true))
	w.app.wait(t, "pull_request_review_thread", "resolved", func(e event) bool { return e.at("pull_request", "head", "sha") == p.HeadSHA })
	for _, c := range []struct {
		name, query string
		vars        map[string]any
		want        string
	}{
		{"fields, aliases, fragments and variables",
			`query($o: String!, $n: Int!) { repository(owner: $o, name: "app") { nameWithOwner a: pullRequest(number: $n) { ...f __typename } } }
			 fragment f on PullRequest { number reviewDecision all: latestOpinionatedReviews(first: 9) { totalCount } latestOpinionatedReviews(first: 9, writersOnly: true) { nodes { state author { login } } } }`,
			map[string]any{"o": "acme", "n": p.Number},
			`{"data":{"repository":{"a":{"__typename":"PullRequest","all":{"totalCount":2},"latestOpinionatedReviews":{"nodes":[{"author":{"login":"carol"},"state":"CHANGES_REQUESTED"}]},"number":1,"reviewDecision":null},"nameWithOwner":"acme/app"}}}`},
		{"pages", `{ repository(owner: "acme", name: "app") { pullRequest(number: 1) { reviewThreads(first: 2) { nodes { isResolved } pageInfo { hasNextPage endCursor } } } } }`, nil,
			`{"data":{"repository":{"pullRequest":{"reviewThreads":{"nodes":[{"isResolved":false},{"isResolved":true}],"pageInfo":{"endCursor":"cursor:2","hasNextPage":true}}}}}}`},
		{"the last page", `{ repository(owner: "acme", name: "app") { pullRequest(number: 1) { reviewThreads(first: 2, after: "cursor:2") { nodes { isResolved } pageInfo { hasNextPage endCursor } } } } }`, nil,
			`{"data":{"repository":{"pullRequest":{"reviewThreads":{"nodes":[{"isResolved":false}],"pageInfo":{"endCursor":"cursor:3","hasNextPage":false}}}}}}`},
		{"an unknown field", `{ repository(owner: "acme", name: "app") { isAwesome } }`, nil,
			`{"errors":[{"extensions":{"code":"undefinedField","fieldName":"isAwesome","typeName":"Repository"},"locations":[{"column":44,"line":1}],"message":"Field 'isAwesome' doesn't exist on type 'Repository'","path":["query","isAwesome"]}]}`},
		{"no repository", `{ repository(owner: "acme", name: "none") { nameWithOwner } }`, nil, `"type":"NOT_FOUND"`},
		{"no pull request", `{ repository(owner: "acme", name: "app") { nameWithOwner pullRequest(number: 99) { number } } }`, nil,
			`{"data":{"repository":{"nameWithOwner":"acme/app","pullRequest":null}},"errors":[{"locations":[{"column":58,"line":1}],"message":"Could not resolve to a PullRequest with the number of 99.","path":["repository","pullRequest"],"type":"NOT_FOUND"}]}`},
		{"no first", `{ repository(owner: "acme", name: "app") { pullRequest(number: 1) { reviewThreads { totalCount } } } }`, nil, "MISSING_PAGINATION_BOUNDARIES"},
		{"too many", `{ repository(owner: "acme", name: "app") { pullRequest(number: 1) { reviewThreads(first: 101) { totalCount } } } }`, nil, "EXCESSIVE_PAGINATION"},
		{"a missing variable", `query($o: String!) { repository(owner: $o, name: "app") { nameWithOwner } }`, nil, `"errors"`},
		{"no query", ``, nil, "A query attribute must be specified"},
		{"nonsense", `{{{`, nil, `"errors"`},
		{"an unknown change", `mutation { x }`, nil, `Field 'x' doesn't exist on type 'Mutation'`},
		{"two questions", `query a { __typename } query b { __typename }`, nil, "and nothing else"},
	} {
		status, got := w.ask("/graphql", w.token(), c.query, c.vars)
		if status != 200 || got != c.want && (strings.HasPrefix(c.want, "{") || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %d\n got %s\nwant %s", c.name, status, got, c.want)
		}
	}
	if status, _ := w.ask("/graphql", "", "{ __typename }", nil); status != 401 {
		t.Errorf("nobody: %d", status)
	}
	if status, got := w.ask("/api/graphql", w.token(), "{ __typename }", nil); status != 200 || got != `{"data":{"__typename":"Query"}}` {
		t.Errorf("%d %s", status, got)
	}
}

// Changes are made in their order, each by itself, under the same checks as by REST.
func TestGraphQLChangesThings(t *testing.T) {
	w := newWorld(t)
	p := w.pull("a.txt", "a\n")
	read, _, err := w.installation().PullRequests.Get(w.ctx, "acme", "app", p.Number)
	w.must(err)
	pr, repository := read.GetNodeID(), read.GetBase().GetRepo().GetNodeID()
	vars := map[string]any{
		"a": map[string]any{"subjectId": pr, "body": "first"}, "b": map[string]any{"subjectId": pr, "body": " "},
		"c": map[string]any{"repositoryId": repository, "headSha": p.HeadSHA, "name": "ours", "status": "COMPLETED", "conclusion": "SUCCESS",
			"completedAt": "2024-01-02T03:04:05Z", "output": map[string]any{"title": "t", "summary": "s"}},
		"d": map[string]any{"id": "IC_bm8", "body": "x"},
	}
	const all = `mutation($a: AddCommentInput!, $b: AddCommentInput!, $c: CreateCheckRunInput!, $d: UpdateIssueCommentInput!) {
		a: addComment(input: $a) { commentEdge { node { id fullDatabaseId } } } b: addComment(input: $b) { commentEdge { node { id } } }
		c: createCheckRun(input: $c) { checkRun { id } } d: updateIssueComment(input: $d) { issueComment { id } } }`
	_, got := w.ask("/graphql", w.token(), all, vars)
	var answer struct {
		Data struct {
			A struct {
				CommentEdge struct {
					Node struct{ ID, FullDatabaseID string } `json:"node"`
				} `json:"commentEdge"`
			} `json:"a"`
			B, D any
			C    struct {
				CheckRun struct{ ID string } `json:"checkRun"`
			} `json:"c"`
		}
		Errors []struct {
			Type string
			Path []string
		}
	}
	w.must(json.Unmarshal([]byte(got), &answer))
	comment := answer.Data.A.CommentEdge.Node
	if comment.FullDatabaseID == "" || answer.Data.B != nil || answer.Data.D != nil || len(answer.Errors) != 2 ||
		answer.Errors[0].Type != "UNPROCESSABLE" || answer.Errors[0].Path[0] != "b" || answer.Errors[1].Type != "NOT_FOUND" || answer.Errors[1].Path[0] != "d" {
		t.Errorf("%s", got)
	}
	w.app.wait(t, "check_run", "completed", func(e event) bool {
		return e.at("check_run", "name") == "ours" && e.at("check_run", "conclusion") == "success"
	})
	w.app.wait(t, "issue_comment", "created", func(e event) bool { return e.at("comment", "body") == "first" })
	_, got = w.ask("/graphql", w.token(), `mutation($d: UpdateIssueCommentInput!, $e: UpdateCheckRunInput!) {
		updateIssueComment(input: $d) { issueComment { id } } updateCheckRun(input: $e) { checkRun { id } } }`, map[string]any{
		"d": map[string]any{"id": comment.ID, "body": "second"},
		"e": map[string]any{"repositoryId": repository, "checkRunId": answer.Data.C.CheckRun.ID, "conclusion": "FAILURE", "status": "COMPLETED"},
	})
	if want := `{"data":{"updateCheckRun":{"checkRun":{"id":"` + answer.Data.C.CheckRun.ID + `"}},"updateIssueComment":{"issueComment":{"id":"` + comment.ID + `"}}}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	w.app.wait(t, "issue_comment", "edited", func(e event) bool { return e.at("comment", "body") == "second" })
	for what, in := range map[string]map[string]any{
		"no time":       {"repositoryId": repository, "headSha": p.HeadSHA, "name": "x", "completedAt": "yesterday"},
		"no repository": {"repositoryId": "R_x", "headSha": p.HeadSHA, "name": "x"},
		"no commit":     {"repositoryId": repository, "headSha": strings.Repeat("1", 40), "name": "x"},
		"no conclusion": {"repositoryId": repository, "headSha": p.HeadSHA, "name": "x", "status": "COMPLETED"},
		"no name":       {"repositoryId": repository, "headSha": p.HeadSHA},
		"no such word":  {"repositoryId": repository, "headSha": p.HeadSHA, "name": "x", "status": "DONE"},
	} {
		if _, got := w.ask("/graphql", w.token(), `mutation($c: CreateCheckRunInput!) { createCheckRun(input: $c) { checkRun { id } } }`, map[string]any{"c": in}); !strings.Contains(got, `"errors"`) {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// The schema is a cut of GitHub's: every type, field, argument and value in it
// is in the whole, with the same type. "make github-spec-check" fetches it.
func TestTheSchemaIsACutOfGitHubs(t *testing.T) {
	t.Parallel()
	if *published == "" {
		t.Skip("-published does not say where GitHub's schema is; CI does")
	}
	path := filepath.Join(*published, "graphql-schema", "package", "schema.graphql")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// As it is published it defines a field twice, so it is read and not checked.
	whole, err := parser.ParseSchema(&ast.Source{Name: path, Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	for name, ours := range schema().Types {
		if ours.BuiltIn {
			continue
		}
		theirs := whole.Definitions.ForName(name)
		if theirs == nil || theirs.Kind != ours.Kind {
			t.Errorf("type %s is not theirs", name)
			continue
		}
		for _, v := range ours.EnumValues {
			if theirs.EnumValues.ForName(v.Name) == nil {
				t.Errorf("value %s.%s is not theirs", name, v.Name)
			}
		}
		for _, f := range ours.Fields {
			their := theirs.Fields.ForName(f.Name)
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			if their == nil || their.Type.String() != f.Type.String() {
				t.Errorf("field %s.%s is not theirs: %+v", name, f.Name, their)
				continue
			}
			for _, a := range f.Arguments {
				if b := their.Arguments.ForName(a.Name); b == nil || b.Type.String() != a.Type.String() {
					t.Errorf("argument %s of %s.%s is not theirs: %+v", a.Name, name, f.Name, b)
				}
			}
			for _, b := range their.Arguments {
				if a := f.Arguments.ForName(b.Name); a == nil && b.Type.NonNull {
					t.Errorf("argument %s of %s.%s is missing", b.Name, name, f.Name)
				}
			}
		}
	}
}
