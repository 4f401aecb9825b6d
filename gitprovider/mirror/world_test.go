package mirror

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

// world is a real bare repository, as a host would have it, and a mirror of it.
type world struct {
	t      *testing.T
	origin string // bare
	work   string // a work tree to make commits in
	clock  int64
	m      *Mirrors
	src    Source
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, origin: filepath.Join(dir, "origin.git"), work: filepath.Join(dir, "work"), clock: 1_700_000_000}
	w.run(dir, "git", "init", "-q", "--bare", "-b", "main", w.origin)
	for _, kv := range []string{"uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true", "http.receivepack=true"} {
		k, v, _ := strings.Cut(kv, "=")
		w.run(dir, "git", "-C", w.origin, "config", k, v)
	}
	w.run(dir, "git", "init", "-q", "-b", "main", w.work)
	w.commit("first", "base.txt", lines(20), "keep.txt", "keep\n")
	w.push("HEAD:refs/heads/main")
	w.m = w.mirror(Config{})
	w.src = sourceOf(w.origin)
	return w
}

func sourceOf(origin string) Source {
	return Source{Repo: queue.Repo{ID: 7, Host: "github.com", Owner: "acme", Name: "app"}, URL: origin}
}

func (w *world) mirror(cfg Config) *Mirrors {
	w.t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(w.t.TempDir(), "mirrors")
	}
	cfg.AllowFile = true
	m, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(m.Close)
	return m
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	return b.String()
}

// run runs a program with a clean git configuration and a clock that moves
// only with commits.
func (w *world) run(dir, name string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Alice", "GIT_AUTHOR_EMAIL=7+alice@users.noreply.github.com", "GIT_COMMITTER_NAME=Alice", "GIT_COMMITTER_EMAIL=alice@example.org",
		"GIT_AUTHOR_DATE=@"+strconv.FormatInt(w.clock, 10)+" +0200", "GIT_COMMITTER_DATE=@"+strconv.FormatInt(w.clock, 10)+" +0200")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (w *world) git(args ...string) string { w.t.Helper(); return w.run(w.work, "git", args...) }

func (w *world) at(ref string) string {
	w.t.Helper()
	return w.run(w.origin, "git", "rev-parse", ref)
}

// commit writes files (name, content, …; an empty content removes) and commits.
func (w *world) commit(message string, files ...string) string {
	w.t.Helper()
	w.clock += 10
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(w.work, files[i])
		if files[i+1] == "" {
			w.git("rm", "-q", "--", files[i])
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", message)
	return w.git("rev-parse", "HEAD")
}

func (w *world) push(refspec string) {
	w.t.Helper()
	w.git("push", "-q", "--force", w.origin, refspec)
}

// onMain checks out what the host has as main.
func (w *world) onMain() {
	w.t.Helper()
	w.git("fetch", "-q", w.origin, "refs/heads/main")
	w.git("checkout", "-q", "--detach", "FETCH_HEAD")
}

// pull makes a pull request off main with one commit, and its step.
func (w *world) pull(n int64, title string, files ...string) queue.StepSpec {
	w.t.Helper()
	w.onMain()
	w.commit(title, files...)
	return w.open(n, title)
}

// open makes a pull request of what is checked out.
func (w *world) open(n int64, title string) queue.StepSpec {
	w.t.Helper()
	w.push("HEAD:" + pullRef(n))
	id := strconv.FormatInt(n, 10)
	return queue.StepSpec{
		Step:  queue.Step{Entry: queue.EntryID("entry-" + id), Submission: 1, PR: n, Head: w.git("rev-parse", "HEAD")},
		Title: title, Author: queue.Actor{Login: "alice", ID: 7}, URL: "https://github.com/acme/app/pull/" + id,
	}
}

func buildRun(id string, method queue.MergeMethod, own int, chain ...queue.StepSpec) queue.BuildRun {
	return queue.BuildRun{Run: queue.RunID(id), Branch: "signalbox/pr-1/" + id, Target: "main", Method: method, Chain: chain, Own: own}
}

func (w *world) make(runs ...queue.BuildRun) []Made {
	w.t.Helper()
	made, err := w.m.Make(context.Background(), w.src, runs)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(made) != len(runs) {
		w.t.Fatalf("made %d of %d runs", len(made), len(runs))
	}
	return made
}

// built is make for one run that must not be in trouble.
func (w *world) built(run queue.BuildRun) Made {
	w.t.Helper()
	made := w.make(run)[0]
	if made.Trouble != "" {
		w.t.Fatalf("%s: %s", made.Trouble, made.Message)
	}
	return made
}

func (w *world) publish(made ...Made) {
	w.t.Helper()
	var branches []Branch
	for _, r := range made {
		branches = append(branches, Branch{r.Branch, r.Commit()})
	}
	refused, err := w.m.Publish(context.Background(), w.src, branches)
	if err != nil || len(refused) > 0 {
		w.t.Fatalf("publish: %v %v", refused, err)
	}
}

// serve makes the repository reachable over HTTP, for a token only.
func (w *world) serve(token string) {
	w.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		w.t.Fatal(err)
	}
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(w.origin), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "REMOTE_USER=signalbox"}}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			rw.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		if v := r.Header.Get("Git-Protocol"); v != "" {
			h := *backend
			h.Env = append(append([]string{}, backend.Env...), "GIT_PROTOCOL="+v)
			h.ServeHTTP(rw, r)
			return
		}
		backend.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(server.Close)
	w.src.URL, w.src.Token = server.URL+"/origin.git", token
}

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 10 * time.Minute

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
