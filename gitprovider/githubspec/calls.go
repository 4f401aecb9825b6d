package githubspec

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

//go:embed testdata/api.json
var apiJSON []byte

// described is GitHub's description of its REST API, ready to judge calls.
type described struct {
	doc   *openapi3.T
	paths []string // the templates
}

// load reads the description once; it takes a tenth of a second.
var load = sync.OnceValue(func() described {
	doc, err := openapi3.NewLoader().LoadFromData(apiJSON)
	if err != nil {
		panic("githubspec: testdata/api.json: " + err.Error())
	}
	doc.Servers = nil
	d := described{doc: doc}
	for path := range doc.Paths.Map() {
		d.paths = append(d.paths, path)
	}
	slices.Sort(d.paths)
	return d
})

// Rule says how requests are judged.
type Rule int

const (
	// Valid requests are expected, whatever becomes of them. For clients.
	Valid Rule = iota
	// ValidUnlessRefused expects that an invalid request is answered with an
	// error. For the tests of a server, which try that.
	ValidUnlessRefused
)

// Calls returns what to put around a GitHub's handler, so that each request
// and each answer of its REST API that is not as GitHub describes it is
// reported. Parameters of the query and fields of the body that GitHub does
// not know count, too. Git, GraphQL and paths under /_control/ and /login/ are not judged,
// and neither are answers of status 500 and more, which nobody describes.
// report is called from the goroutines of the handler.
func Calls(rule Rule, report func(error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !judged(r.URL.EscapedPath()) {
				next.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client hung up
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			seen := &watched{ResponseWriter: w}
			next.ServeHTTP(seen, r)
			if err := judge(rule, r, body, seen); err != nil {
				report(fmt.Errorf("%s %s, answered %d, is not as GitHub describes it:\n%w", r.Method, r.URL.RequestURI(), seen.status, err))
			}
		})
	}
}

func judged(path string) bool {
	return !strings.HasPrefix(path, "/_control/") && !strings.HasPrefix(path, "/login/") && !strings.Contains(path, ".git/") &&
		!strings.HasSuffix(path, "/graphql")
}

// watched keeps what is answered. Its status is 0 when nothing was, because
// the client hung up.
type watched struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// options are the same for requests and answers; see briefly.
var options = sync.OnceValue(func() *openapi3filter.Options {
	o := &openapi3filter.Options{
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true,
		MultiError:            true,
	}
	o.WithCustomSchemaErrorFunc(briefly)
	return o
})

// briefly says what is wrong and where, without the schema and the value.
func briefly(err *openapi3.SchemaError) string {
	return "/" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
}

// judge compares one call with the description.
func judge(rule Rule, r *http.Request, body []byte, got *watched) error {
	if got.status == 0 || got.status >= 500 {
		return nil
	}
	d := load()
	path := r.URL.EscapedPath()
	for _, prefix := range []string{"/api/v3", "/api/uploads"} {
		path = strings.TrimPrefix(path, prefix)
	}
	// The lasting address of a repository, which no description has.
	if _, rest, ok := strings.Cut(strings.TrimPrefix(path, "/repositories/"), "/"); strings.HasPrefix(path, "/repositories/") {
		path = "/repos/o/r"
		if ok {
			path += "/" + rest
		}
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	route, params := d.find(method, path)
	if route == nil {
		if got.status == http.StatusNotFound || got.status == http.StatusUnauthorized {
			return nil
		}
		return fmt.Errorf("testdata/api.json does not have the call; if GitHub has it, add it with \"make github-spec\"")
	}
	// The description is about the host of the real one, and so is the filter.
	req := r.Clone(r.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options()}
	if rule == Valid || got.status < 400 {
		if err := askedRight(in, body); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	if err := answeredRight(in, got); err != nil {
		return fmt.Errorf("the answer: %w\n%.2000s", err, got.body.Bytes())
	}
	return nil
}

// manySegments are the parameters that hold slashes.
var manySegments = []string{"ref", "path", "branch", "basehead"}

// find returns the call that a path belongs to: of those that match the one
// with the most words that are not parameters.
func (d described) find(method, escaped string) (*routers.Route, map[string]string) {
	parts := strings.Split(strings.Trim(escaped, "/"), "/")
	for i := range parts {
		if p, err := url.PathUnescape(parts[i]); err == nil {
			parts[i] = p
		}
	}
	best, bestWords, bestParams := "", -1, map[string]string(nil)
	for _, template := range d.paths {
		if d.doc.Paths.Value(template).GetOperation(method) == nil {
			continue
		}
		params := map[string]string{}
		words, ok := match(strings.Split(template[1:], "/"), parts, params)
		if ok && words > bestWords {
			best, bestWords, bestParams = template, words, params
		}
	}
	if bestWords < 0 {
		return nil, nil
	}
	item := d.doc.Paths.Value(best)
	return &routers.Route{Spec: d.doc, Path: best, PathItem: item, Method: method, Operation: item.GetOperation(method)}, bestParams
}

// match compares a template with a path, and counts the words they share.
func match(template, path []string, params map[string]string) (words int, ok bool) {
	if len(template) == 0 || len(path) == 0 {
		return 0, len(template) == len(path)
	}
	name, param := strings.CutPrefix(template[0], "{")
	if !param {
		if template[0] != path[0] {
			return 0, false
		}
		words, ok = match(template[1:], path[1:], params)
		return words + 1, ok
	}
	name = strings.TrimSuffix(name, "}")
	most := 1
	if slices.Contains(manySegments, name) {
		most = len(path) - len(template) + 1
	}
	if most < 1 {
		return 0, false
	}
	params[name] = strings.Join(path[:most], "/")
	return match(template[1:], path[most:], params)
}

// askedRight judges a request.
func askedRight(in *openapi3filter.RequestValidationInput, body []byte) error {
	if err := openapi3filter.ValidateRequest(in.Request.Context(), in); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, list := range []openapi3.Parameters{in.Route.PathItem.Parameters, in.Route.Operation.Parameters} {
		for _, p := range list {
			if p.Value.In == openapi3.ParameterInQuery {
				known[p.Value.Name] = true
			}
		}
	}
	for name := range in.Request.URL.Query() {
		if !known[name] {
			return fmt.Errorf("there is no parameter %q", name)
		}
	}
	if in.Route.Operation.RequestBody == nil {
		if len(bytes.TrimSpace(body)) > 0 {
			return fmt.Errorf("it takes no body")
		}
		return nil
	}
	return knownFields(in.Route.Operation.RequestBody.Value.GetMediaType("application/json"), body)
}

// knownFields checks that every field of a body stands somewhere in its schema.
func knownFields(media *openapi3.MediaType, body []byte) error {
	var fields map[string]json.RawMessage
	if media == nil || json.Unmarshal(body, &fields) != nil {
		return nil // no object: the filter has judged it
	}
	known := map[string]bool{}
	if any := namesIn(media.Schema, known); any {
		return nil
	}
	for name := range fields {
		if !known[name] {
			return fmt.Errorf("the body has a field %q, which GitHub does not know", name)
		}
	}
	return nil
}

// namesIn collects the properties of a schema; it reports whether any name will do.
func namesIn(ref *openapi3.SchemaRef, known map[string]bool) (any bool) {
	s := ref.Value
	for name := range s.Properties {
		known[name] = true
	}
	any = s.AdditionalProperties.Schema != nil
	for _, list := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range list {
			any = namesIn(part, known) || any
		}
	}
	return any
}

// answeredRight judges an answer. Errors that a call does not list must have
// the form that all of them have.
func answeredRight(in *openapi3filter.RequestValidationInput, got *watched) error {
	answer := withoutTomorrow(got.body.Bytes())
	listed := in.Route.Operation.Responses.Status(got.status)
	switch {
	case listed == nil && got.status >= 400 || got.status == http.StatusUnauthorized:
		var e struct {
			Message string `json:"message"`
			Doc     string `json:"documentation_url"`
		}
		if err := json.Unmarshal(got.body.Bytes(), &e); err != nil || e.Message == "" || e.Doc == "" {
			return fmt.Errorf("an error of status %d needs a message and a documentation_url", got.status)
		}
		return nil
	case got.status == http.StatusNotModified:
		if got.body.Len() > 0 {
			return fmt.Errorf("%d bytes with status 304", got.body.Len())
		}
		return nil
	case listed == nil && (got.status == http.StatusMovedPermanently || got.status == http.StatusTemporaryRedirect):
		return nil // any GET of what was renamed
	}
	return openapi3filter.ValidateResponse(in.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.status, Header: got.Header(), Options: options(),
		Body: io.NopCloser(bytes.NewReader(answer)),
	})
}

// tomorrow ends the type of a rule, and the conclusion of a check, that GitHub
// does not have yet. Clients must bear such words, so tests make them.
const tomorrow = "_of_tomorrow"

// withoutTomorrow leaves such words out of an answer.
func withoutTomorrow(answer []byte) []byte {
	if !bytes.Contains(answer, []byte(tomorrow+`"`)) {
		return answer
	}
	var v any
	if json.Unmarshal(answer, &v) != nil {
		return answer
	}
	kept, _ := json.Marshal(present(v))
	return kept
}

// present is a value without rules of tomorrow in its lists, and in which
// conclusions of tomorrow are still open.
func present(v any) any {
	switch v := v.(type) {
	case []any:
		kept := []any{}
		for _, part := range v {
			m, _ := part.(map[string]any)
			if kind, _ := m["type"].(string); !strings.HasSuffix(kind, tomorrow) {
				kept = append(kept, present(part))
			}
		}
		return kept
	case map[string]any:
		for name, part := range v {
			if word, _ := part.(string); name == "conclusion" && strings.HasSuffix(word, tomorrow) {
				part = nil
			}
			v[name] = present(part)
		}
	}
	return v
}
