package githubsim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// maxPush bounds the body of one push.
const maxPush = 512 << 20

// gitCall is a request of git's smart HTTP protocol.
type gitCall struct {
	repo    string // owner/name
	suffix  string // /info/refs, /git-upload-pack or /git-receive-pack
	receive bool   // it is about pushing
}

// gitPath recognises git's paths: /{owner}/{name}[.git]/….
func gitPath(path string) *gitCall {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if len(parts) != 3 || parts[0] == "repos" {
		return nil
	}
	g := &gitCall{repo: parts[0] + "/" + strings.TrimSuffix(parts[1], ".git"), suffix: "/" + parts[2]}
	switch parts[2] {
	case "info/refs", "git-upload-pack":
		return g
	case "git-receive-pack":
		g.receive = true
		return g
	}
	return nil
}

// serveGit answers git: it checks who asks, looks into pushes before git does,
// and has `git http-backend` do the work.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request, g *gitCall) {
	if r.URL.Query().Get("service") == "git-receive-pack" {
		g.receive = true
	}
	if g.suffix == "/info/refs" && r.URL.Query().Get("service") == "" {
		http.Error(w, "Please upgrade your git client.\nGitHub.com no longer supports git over dumb-http.", http.StatusForbidden)
		return
	}
	who, rp, ok := s.admitGit(w, r, g)
	if !ok {
		return
	}
	body, err := plainBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if g.suffix == "/git-receive-pack" {
		s.receivePush(w, r, g, who, rp, body)
		return
	}
	if err := s.httpBackend(w, r, g, who, rp, body, nil); err != nil {
		s.log.Warn("serve git", "repo", g.repo, "error", err)
	}
}

// admitGit checks the caller's right to fetch or push, and answers when there is none.
func (s *Server) admitGit(w http.ResponseWriter, r *http.Request, g *gitCall) (caller, *repo, bool) {
	who, err := s.authenticate(r)
	s.mu.Lock()
	rp := s.repoNamed(g.repo)
	seen := err == nil && rp != nil && s.sees(who, rp)
	allowed := seen && s.may(who, rp, "contents:read")
	if g.receive {
		allowed = seen && s.may(who, rp, "contents:write")
	}
	s.mu.Unlock()
	switch {
	case allowed:
		return who, rp, true
	case err != nil || who.kind == anonymous:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Invalid username or password.", http.StatusUnauthorized)
	case seen:
		http.Error(w, "Write access to repository not granted.", http.StatusForbidden)
	default:
		http.Error(w, "Repository not found.", http.StatusNotFound)
	}
	return who, nil, false
}

// plainBody is a request's body without compression.
func plainBody(r *http.Request) (io.Reader, error) {
	limited := http.MaxBytesReader(nil, r.Body, maxPush)
	if r.Header.Get("Content-Encoding") != "gzip" {
		return limited, nil
	}
	z, err := gzip.NewReader(limited)
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	return io.LimitReader(z, maxPush), nil
}

// httpBackend runs `git http-backend` as CGI for one request.
func (s *Server) httpBackend(w http.ResponseWriter, r *http.Request, g *gitCall, who caller, rp *repo, body io.Reader, config map[string]string) error {
	cmd := exec.CommandContext(r.Context(), "git", "http-backend")
	user := "anonymous"
	if who.account != nil {
		user = who.account.login
	}
	cmd.Env = append(gitEnv(),
		"GIT_PROJECT_ROOT="+filepath.Dir(rp.git.dir), "GIT_HTTP_EXPORT_ALL=1",
		"PATH_INFO=/"+filepath.Base(rp.git.dir)+g.suffix, "REQUEST_METHOD="+r.Method, "QUERY_STRING="+r.URL.RawQuery,
		"CONTENT_TYPE="+r.Header.Get("Content-Type"), "REMOTE_USER="+user, "REMOTE_ADDR=127.0.0.1",
		"GIT_PROTOCOL="+r.Header.Get("Git-Protocol"), "GATEWAY_INTERFACE=CGI/1.1",
		"GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	n := 0
	for key, value := range config {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = body, &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		http.Error(w, "git is not available", http.StatusInternalServerError)
		return fmt.Errorf("start git http-backend: %w", err)
	}
	copyErr := copyCGI(w, bufio.NewReader(stdout))
	io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git http-backend: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return copyErr
}

// copyCGI passes a CGI answer on.
func copyCGI(w http.ResponseWriter, out *bufio.Reader) error {
	header, err := textproto.NewReader(out).ReadMIMEHeader()
	if err != nil {
		http.Error(w, "git gave no answer", http.StatusInternalServerError)
		return fmt.Errorf("read the answer of git http-backend: %w", err)
	}
	status := http.StatusOK
	if text := header.Get("Status"); text != "" {
		code, _, _ := strings.Cut(text, " ")
		if n, err := strconv.Atoi(code); err == nil && n >= 200 && n <= 599 {
			status = n
		}
		header.Del("Status")
	}
	for k, v := range header {
		w.Header()[k] = v
	}
	w.WriteHeader(status)
	_, err = io.Copy(flushing{w}, out)
	return err
}

// flushing sends on what it gets at once, so that a fetch shows progress.
type flushing struct{ w http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if fl, ok := f.w.(http.Flusher); ok {
		fl.Flush()
	}
	return n, err
}
