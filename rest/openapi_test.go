package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// described is the description, and a judge of requests and answers.
type described struct {
	doc    *openapi3.T
	router routers.Router
}

func init() {
	openapi3filter.RegisterBodyDecoder("application/x-protobuf", openapi3filter.FileBodyDecoder) // anything
}

func loadDescription(t *testing.T) described {
	t.Helper()
	w := newWorld(t, nil)
	got := w.send(httptest.NewRequest("GET", "/v1/openapi.json", nil))
	if got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	doc, err := openapi3.NewLoader().LoadFromData(got.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return described{doc, router}
}

func TestEveryRouteIsDescribedAndEveryDescriptionHasARoute(t *testing.T) {
	t.Parallel()
	d := loadDescription(t)
	var routes, descriptions []string
	for _, rt := range newWorld(t, nil).api.routes() {
		path, ours := strings.CutPrefix(rt.path, "/v1")
		if !ours {
			continue // a page for people
		}
		routes = append(routes, rt.method+" "+path)
		item := d.doc.Paths.Find(path)
		if item == nil || item.GetOperation(rt.method) == nil {
			t.Errorf("%s %s is not described", rt.method, rt.path)
			continue
		}
		op := item.GetOperation(rt.method)
		if op.Summary == "" || op.Description == "" || op.OperationID == "" || len(op.Tags) != 1 {
			t.Errorf("%s lacks words", rt.path)
		}
		if scope, _ := op.Extensions["x-scope"].(string); scope != string(rt.scope) {
			t.Errorf("%s says that it needs the scope %q, and needs %q", rt.path, scope, rt.scope)
		}
		if open := op.Security != nil && (len(*op.Security) == 0 || slices.ContainsFunc(*op.Security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })); open != (rt.scope == "" || rt.open != nil) {
			t.Errorf("%s: whether it works without a token is not what it says", rt.path)
		}
	}
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			descriptions = append(descriptions, method+" "+path)
		}
	}
	for _, name := range descriptions {
		if !slices.Contains(routes, name) {
			t.Errorf("%s is described and does not exist", name)
		}
	}
}

// Whatever the scripts ask and are answered is as the description says: each
// script is played with a judge between it and the API.
func TestWhatTheScriptsSendAndGetIsAsDescribed(t *testing.T) {
	t.Parallel()
	d := loadDescription(t)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, nil)
		w.judge = func(r *http.Request, body []byte, got *httptest.ResponseRecorder) {
			if problem := d.judge(r, body, got); problem != nil {
				t.Errorf("%s: %s %s\n%s\nis answered with %d\n%s\n%v", file, r.Method, r.URL, body, got.Code, clip(got.Body.String()), problem)
			}
			if got.Code == http.StatusOK {
				seen[r.Method+" "+r.URL.Path] = true
			}
		}
		runScript(w, string(text))
	}
	for _, rt := range newWorld(t, nil).api.routes() {
		if rt.path != "/docs/api" && !seen[rt.method+" "+rt.path] {
			t.Errorf("no script has %s %s succeed", rt.method, rt.path)
		}
	}
}

// judge holds a request and its answer against the description: the answer
// always, the request when it was granted, because the description does not
// say less than the truth about what is wrong.
func (d described) judge(r *http.Request, body []byte, got *httptest.ResponseRecorder) error {
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return nil // a page for people
	}
	route, parameters, err := d.router.FindRoute(r)
	if err != nil {
		if got.Code == http.StatusNotFound || got.Code == http.StatusMethodNotAllowed {
			return nil // no path of the API
		}
		return fmt.Errorf("find the route: %w", err)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if got.Code == http.StatusOK && !lenient(body) {
		if err := openapi3filter.ValidateRequest(r.Context(), request); err != nil {
			return fmt.Errorf("the request was granted and is not as described: %w", err)
		}
	}
	if err := openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: got.Code, Header: got.Header(),
		Body: io.NopCloser(bytes.NewReader(got.Body.Bytes())), Options: request.Options,
	}); err != nil {
		return err
	}
	media := route.Operation.Responses.Status(got.Code).Value.Content.Get("application/json")
	if media == nil || route.Path == "/openapi.json" {
		return nil
	}
	var answer any
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		return err
	}
	if extra := undescribed("", answer, media.Schema); len(extra) > 0 {
		return fmt.Errorf("the answer has what is not described: %v", extra)
	}
	return nil
}

// lenient reports whether a request uses what is taken beyond the description:
// words in upper case, and zero for pendingFailureDepth from one client.
func lenient(body []byte) bool {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return false
	}
	for name, v := range fields {
		if text, ok := v.(string); ok && name != "targetBranch" && name != "cursor" && name != "testRunId" && strings.ToLower(text) != text {
			return true
		}
	}
	return fields["pendingFailureDepth"] == float64(0)
}

// undescribed are the paths of members that no part of a schema names.
func undescribed(path string, v any, schema *openapi3.SchemaRef) []string {
	var extra []string
	switch v := v.(type) {
	case []any:
		items := find(schema, func(s *openapi3.Schema) *openapi3.SchemaRef { return s.Items })
		for _, item := range v {
			if items == nil {
				return []string{path + "[]"}
			}
			extra = append(extra, undescribed(path+"[]", item, items)...)
		}
	case map[string]any:
		for name, member := range v {
			inner := find(schema, func(s *openapi3.Schema) *openapi3.SchemaRef { return s.Properties[name] })
			if inner == nil {
				extra = append(extra, path+"."+name)
				continue
			}
			extra = append(extra, undescribed(path+"."+name, member, inner)...)
		}
	}
	return extra
}

func find(schema *openapi3.SchemaRef, what func(*openapi3.Schema) *openapi3.SchemaRef) *openapi3.SchemaRef {
	if found := what(schema.Value); found != nil {
		return found
	}
	for _, part := range slices.Concat(schema.Value.AllOf, schema.Value.OneOf) {
		if found := find(part, what); found != nil {
			return found
		}
	}
	return nil
}

func TestThePageAboutTheAPIHasEveryEndpointAndNoScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	got := w.send(httptest.NewRequest("GET", "/docs/api", nil))
	if got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	if policy := got.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("policy %q", policy)
	}
	page := got.Body.String()
	for _, rt := range w.api.routes() {
		if strings.HasPrefix(rt.path, "/v1/") && !strings.Contains(page, "<code>"+rt.method+" "+rt.path+"</code>") {
			t.Errorf("%s is not on the page", rt.path)
		}
	}
	for _, want := range []string{"enqueuedPullRequests[].prNumber", "integer from 1 to 4294967295", `scope admin`, "repo.owner", "running | paused"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<no value>", "map[", "%!", "<script"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, link := range links.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(link[2], "#") && link[2] != "/v1/openapi.json" {
			t.Errorf("the page leads to %s", link[2])
		}
	}
}

var links = regexp.MustCompile(`\b(src|href|action)="([^"]*)"`)
