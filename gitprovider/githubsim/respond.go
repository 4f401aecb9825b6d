package githubsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// object is a JSON object under construction.
type object = map[string]any

// reply is an answer with another status than 200, or with a body that is not JSON.
type reply struct {
	status int
	body   any
	kind   string // content type of a []byte body
}

// apiError is an error in GitHub's form.
type apiError struct {
	status  int
	message string
	doc     string
	errors  []any
	headers map[string]string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s", e.status, e.message) }

const docs = "https://docs.github.com/rest"

func notFound() *apiError { return &apiError{status: 404, message: "Not Found"} }

func badCredentials() *apiError { return &apiError{status: 401, message: "Bad credentials"} }

func forbidden() *apiError {
	return &apiError{status: 403, message: "Resource not accessible by integration"}
}

// invalid is a 422 whose errors are sentences.
func invalid(format string, args ...any) *apiError {
	return &apiError{status: 422, message: fmt.Sprintf(format, args...)}
}

// invalidField is a 422 "Validation Failed" that names a field.
func invalidField(resource, field, code, message string) *apiError {
	e := object{"resource": resource, "code": code}
	if field != "" {
		e["field"] = field
	}
	if message != "" {
		e["message"] = message
	}
	return &apiError{status: 422, message: "Validation Failed", errors: []any{e}}
}

func (e *apiError) body() object {
	b := object{"message": e.message, "documentation_url": orElse(e.doc, docs), "status": strconv.Itoa(e.status)}
	if len(e.errors) > 0 {
		b["errors"] = e.errors
	}
	return b
}

// answer writes what a handler returned: its value, or its error.
func (s *Server) answer(c *call, value any, err error) {
	w, r := c.w, c.r
	status, kind := http.StatusOK, ""
	if rep, ok := value.(reply); ok {
		status, value, kind = rep.status, rep.body, rep.kind
	}
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			s.log.Error("answer call", "method", r.Method, "path", r.URL.Path, "error", err)
			e = &apiError{status: 500, message: "Server Error"}
		}
		for k, v := range e.headers {
			w.Header().Set(k, v)
		}
		status, value = e.status, e.body()
	}
	if value == nil {
		w.WriteHeader(status)
		return
	}
	data, raw := value.([]byte)
	if !raw {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			s.log.Error("encode answer", "path", r.URL.Path, "error", err)
			status = http.StatusInternalServerError
		}
		data, kind = bytes.TrimSuffix(buf.Bytes(), []byte("\n")), "application/json; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	if r.Method == http.MethodGet && status == http.StatusOK {
		sum := sha256.Sum256(data)
		tag := `"` + hex.EncodeToString(sum[:]) + `"`
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, max-age=60, s-maxage=60")
		if sameTag(r.Header.Get("If-None-Match"), tag) {
			w.Header().Del("Content-Type")
			c.refund()
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data)
}

func sameTag(header, tag string) bool {
	for _, t := range strings.Split(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(t), "W/") == tag {
			return true
		}
	}
	return false
}

// page reads page and per_page, sets the Link header for n things and returns
// the range that was asked for.
func (c *call) page(n int) (from, to int, err error) {
	q := c.r.URL.Query()
	per, num := 30, 1
	if v := q.Get("per_page"); v != "" {
		if per, err = strconv.Atoi(v); err != nil || per < 1 {
			per = 30
		}
		per = min(per, 100)
	}
	if v := q.Get("page"); v != "" {
		if num, err = strconv.Atoi(v); err != nil || num < 1 {
			num = 1
		}
	}
	last := (n + per - 1) / per
	var links []string
	link := func(page int, rel string) {
		links = append(links, fmt.Sprintf(`<%s>; rel="%s"`, c.pageURL("page", strconv.Itoa(page)), rel))
	}
	if num > 1 && last > 0 {
		link(min(num-1, last), "prev")
	}
	if num < last {
		link(num+1, "next")
		link(last, "last")
	}
	if num > 1 && last > 0 {
		link(1, "first")
	}
	if len(links) > 0 {
		c.w.Header().Set("Link", strings.Join(links, ", "))
	}
	from = min((num-1)*per, n)
	return from, min(from+per, n), nil
}

// pageURL is the address of this call with one query parameter changed.
func (c *call) pageURL(key, value string) string {
	q := c.r.URL.Query()
	q.Set(key, value)
	return c.s.URL() + c.asked + "?" + q.Encode()
}

// paged cuts a list to the page that was asked for and renders that page.
func paged[T any](c *call, all []T, render func(T) any) ([]any, error) {
	from, to, err := c.page(len(all))
	if err != nil {
		return nil, err
	}
	out := make([]any, 0, to-from)
	for _, v := range all[from:to] {
		out = append(out, render(v))
	}
	return out, nil
}

// decode reads the JSON body into v. Syntax errors are 400, wrong types 422,
// as GitHub has it.
func (c *call) decode(v any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	err := json.Unmarshal(c.body, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field == "":
		return &apiError{status: 400, message: "Body should be a JSON object"}
	case errors.As(err, &wrong):
		return invalid("Invalid request.\n\nFor 'properties/%s', %s is not of the right type.", wrong.Field, wrong.Value)
	default:
		return &apiError{status: 400, message: "Problems parsing JSON"}
	}
}
