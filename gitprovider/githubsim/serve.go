package githubsim

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// maxBody bounds the body of a REST call.
const maxBody = 25 << 20

// call is one REST call.
type call struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	asked  string // the path as the client wrote it
	params map[string]string
	who    caller
	full   string // the repository's "owner/name" when the call began
	repo   *repo  // on paths under /repos/{owner}/{repo}: found, and the caller may
	body   []byte
}

// serve sends a request to the control API, git or the REST API.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.URL() == "" {
		s.url.CompareAndSwap("", "http://"+r.Host)
	}
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			s.log.Error("panic", "path", r.URL.Path, "value", v, "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler)
		} else if v != nil {
			panic(v)
		}
	}()
	asked := r.URL.EscapedPath()
	if strings.HasPrefix(asked, "/_control/") {
		s.serveControl(w, r)
		return
	}
	if m := newAppPath.FindStringSubmatch(asked); m != nil {
		s.serveNewApp(w, r, m[1])
		return
	}
	if oauthPath(asked) {
		s.serveOAuth(w, r)
		return
	}
	path := asked
	for _, prefix := range []string{"/api/v3", "/api/uploads"} {
		if rest, ok := strings.CutPrefix(asked, prefix); ok && (rest == "" || rest[0] == '/') {
			path = rest
		}
	}
	if asked == "/api/graphql" { // where an Enterprise Server has it
		path = "/graphql"
	}
	s.withFaults(w, r, path, func(w http.ResponseWriter) {
		if service := gitPath(path); service != nil && path == asked {
			s.serveGit(w, r, service)
			return
		}
		s.serveREST(w, r, asked, path)
	})
}

// serveREST answers one REST call.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request, asked, path string) {
	w.Header().Set("Server", "GitHub.com")
	w.Header().Set("X-GitHub-Request-Id", strings.ToUpper(uuid.NewString()[:18]))
	w.Header().Set("X-GitHub-Media-Type", mediaType(r.Header.Get("Accept")))
	w.Header().Set("X-GitHub-Api-Version-Selected", "2022-11-28")
	w.Header().Set("Vary", "Accept, Authorization, Cookie, Accept-Encoding")
	c := &call{s: s, w: w, r: r, asked: asked}
	value, err := c.do(path)
	s.answer(c, value, err)
	s.log.Debug("call", "method", r.Method, "path", path, "error", err)
}

// do authenticates, finds the route and its repository, and runs the handler.
func (c *call) do(path string) (any, error) {
	var err error
	if c.who, err = c.s.authenticate(c.r); err != nil {
		return nil, err
	}
	if err := c.s.spend(c.w, c.who, path); errors.Is(err, errGraphQLQuota) {
		return object{"errors": []any{object{"type": "RATE_LIMITED", "message": "API rate limit exceeded for installation."}}}, nil
	} else if err != nil {
		return nil, err
	}
	rt, params := c.s.find(c.r.Method, c.s.byName(path))
	if rt == nil {
		return nil, notFound()
	}
	c.params = params
	if err := c.admit(rt); err != nil {
		return nil, err
	}
	c.body, err = io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	if err != nil || len(c.body) > maxBody {
		return nil, &apiError{status: 400, message: "Problems reading the body"}
	}
	return rt.serve(c)
}

// byName turns /repositories/{id}/… into /repos/{owner}/{name}/….
func (s *Server) byName(path string) string {
	rest, ok := strings.CutPrefix(path, "/repositories/")
	if !ok {
		return path
	}
	text, tail, deeper := strings.Cut(rest, "/")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return path
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reposByID[id]
	if r == nil {
		return path
	}
	path = "/repos/" + r.fullName()
	if deeper {
		path += "/" + tail
	}
	return path
}

// admit checks that the caller may make this call and finds the repository.
func (c *call) admit(rt *route) error {
	switch rt.need {
	case "":
		return nil
	case "app":
		if c.who.kind != asApp {
			return &apiError{status: 401, message: "A JSON web token could not be decoded"}
		}
		return nil
	case "installation":
		if c.who.kind != asInstallation {
			return forbidden()
		}
		return nil
	case "token":
		if c.who.kind == anonymous {
			return &apiError{status: 401, message: "Requires authentication"}
		}
		return nil
	}
	if c.who.kind == asApp {
		return forbidden()
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	r := c.s.repoNamed(c.params["owner"] + "/" + c.params["repo"])
	if r == nil || !c.s.sees(c.who, r) {
		return notFound()
	}
	if !c.s.may(c.who, r, rt.need) {
		if c.who.kind == asInstallation {
			c.w.Header().Set("X-Accepted-GitHub-Permissions", strings.ReplaceAll(rt.need, ":", "="))
			return forbidden()
		}
		return notFound()
	}
	c.repo, c.full = r, r.fullName()
	return nil
}

// number reads a path parameter that is a number; anything else is not found.
func (c *call) number(name string) (int64, error) {
	n, err := strconv.ParseInt(c.params[name], 10, 64)
	if err != nil || n < 1 {
		return 0, notFound()
	}
	return n, nil
}

// query is a parameter of the query, or a default.
func (c *call) query(name, otherwise string) string {
	return orElse(c.r.URL.Query().Get(name), otherwise)
}

func mediaType(accept string) string {
	first, _, _ := strings.Cut(accept, ",")
	first = strings.TrimSpace(first)
	rest, ok := strings.CutPrefix(first, "application/vnd.github.")
	if !ok {
		return "github.v3; format=json"
	}
	param, format, plus := strings.Cut(rest, "+")
	if !plus {
		format = "json"
	}
	return "github." + param + "; format=" + format
}

// held collects an answer instead of sending it.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newHeld() *held { return &held{header: http.Header{}, status: http.StatusOK} }

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }

// send passes the answer on.
func (h *held) send(w http.ResponseWriter) {
	for k, v := range h.header {
		w.Header()[k] = v
	}
	w.WriteHeader(h.status)
	w.Write(h.body.Bytes())
}
