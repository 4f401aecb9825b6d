package githubsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider/githubspec"
)

// world is a simulated GitHub, an App that listens to it, and the clients
// that real programs use: go-github with ghinstallation, and git.
type world struct {
	*Server
	t   *testing.T
	ctx context.Context
	app *receiver
}

const testSecret = "it is a secret"

// newWorld starts a simulator with a repository acme/app whose CI runs the
// check "test" and takes no time.
func newWorld(t *testing.T, tweak ...func(*Config)) *world {
	t.Helper()
	t.Parallel()
	w := emptyWorld(t, tweak...)
	w.repo(NewRepo{Owner: "acme", Name: "app", Checks: []string{"test"}})
	return w
}

var testKey = sync.OnceValue(func() []byte {
	key, err := NewAppKey()
	if err != nil {
		panic(err)
	}
	return key
})

func emptyWorld(t *testing.T, tweak ...func(*Config)) *world {
	t.Helper()
	app := newReceiver(t)
	cfg := Config{
		DataDir: t.TempDir(), AppKeyPEM: testKey(), WebhookURL: app.URL, WebhookSecret: testSecret,
		MergeableDelay: 5 * time.Millisecond,
		Around:         githubspec.Calls(githubspec.ValidUnlessRefused, func(err error) { t.Error(err) }),
		Sent: func(event string, payload []byte) {
			if err := githubspec.Webhook(event, payload); err != nil {
				t.Error(err)
			}
		},
	}
	for _, f := range tweak {
		f(&cfg)
	}
	s, err := Start(t.Context(), cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &world{Server: s, t: t, ctx: t.Context(), app: app}
}

func (w *world) repo(n NewRepo) {
	w.t.Helper()
	w.must(w.CreateRepo(w.ctx, n))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// files makes the map that pulls and pushes take.
func files(pairs ...string) map[string]*string {
	m := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &pairs[i+1]
	}
	return m
}

// pull opens a pull request by alice.
func (w *world) pull(pairs ...string) Opened {
	w.t.Helper()
	return w.open(OpenPull{Files: files(pairs...)})
}

func (w *world) open(in OpenPull) Opened {
	w.t.Helper()
	in.Repo = orElse(in.Repo, "acme/app")
	in.Author = orElse(in.Author, "alice")
	in.Title = orElse(in.Title, "Change")
	p, err := w.OpenPull(w.ctx, in)
	w.must(err)
	return p
}

// tip is the commit that a branch of acme/app points to.
func (w *world) tip(branch string) string {
	w.t.Helper()
	log, err := w.Log(w.ctx, "acme/app", branch)
	w.must(err)
	return log[0].SHA
}

// appClient acts as the App itself, with JWTs.
func (w *world) appClient() *github.Client {
	w.t.Helper()
	rt, err := ghinstallation.NewAppsTransport(http.DefaultTransport, w.AppID(), testKey())
	w.must(err)
	return w.client(&http.Client{Transport: rt})
}

// installation acts as the App's installation on acme.
func (w *world) installation() *github.Client {
	w.t.Helper()
	rt := w.transport()
	return w.client(&http.Client{Transport: rt})
}

func (w *world) transport() *ghinstallation.Transport {
	w.t.Helper()
	inst, _, err := w.appClient().Apps.FindRepositoryInstallation(w.ctx, "acme", "app")
	w.must(err)
	rt, err := ghinstallation.New(http.DefaultTransport, w.AppID(), inst.GetID(), testKey())
	w.must(err)
	rt.BaseURL = w.URL() + "/api/v3"
	rt.InstallationTokenOptions = &github.InstallationTokenOptions{} // else its body is "null"
	return rt
}

func (w *world) client(hc *http.Client) *github.Client {
	w.t.Helper()
	c, err := github.NewClient(hc).WithEnterpriseURLs(w.URL(), w.URL())
	w.must(err)
	return c
}

// token is an installation token for git.
func (w *world) token() string {
	w.t.Helper()
	token, err := w.transport().Token(w.ctx)
	w.must(err)
	return token
}

// clone is a work tree in which git runs with a token.
type clone struct {
	t     *testing.T
	dir   string
	token string
}

func (w *world) clone(token, repo string) *clone {
	w.t.Helper()
	c := &clone{w.t, filepath.Join(w.t.TempDir(), "clone"), token}
	w.must(os.Mkdir(c.dir, 0o755))
	c.git("clone", "--quiet", w.URL()+"/"+repo+".git", ".")
	return c
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// try runs git and returns everything that it printed.
func (c *clone) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(gitEnv(), "HOME="+c.dir,
		"GIT_AUTHOR_NAME=dev", "GIT_AUTHOR_EMAIL=dev@example.com", "GIT_COMMITTER_NAME=dev", "GIT_COMMITTER_EMAIL=dev@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic "+basic(c.token))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func basic(token string) string {
	r, _ := http.NewRequest("GET", "/", nil)
	r.SetBasicAuth("x-access-token", token)
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
}

// commit writes a file and commits it.
func (c *clone) commit(path, content string) string {
	c.t.Helper()
	full := filepath.Join(c.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", "-A")
	c.git("commit", "--quiet", "-m", "write "+path)
	return c.git("rev-parse", "HEAD")
}

// receiver is the App's end of the webhooks: it checks every signature.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	events []event
	status int
}

type event struct {
	Name, ID string
	Header   http.Header
	Raw      []byte
	Body     map[string]any
}

func (e event) action() string { a, _ := e.Body["action"].(string); return a }

// at digs into the payload.
func (e event) at(path ...string) any {
	var v any = e.Body
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, status: http.StatusAccepted}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the simulator was closed while it sent this
	}
	mac := hmac.New(sha256.New, []byte(testSecret))
	mac.Write(body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); req.Header.Get("X-Hub-Signature-256") != want {
		r.t.Errorf("signature of %s is %q, want %q", req.Header.Get("X-GitHub-Event"), req.Header.Get("X-Hub-Signature-256"), want)
	}
	e := event{Name: req.Header.Get("X-GitHub-Event"), ID: req.Header.Get("X-GitHub-Delivery"), Header: req.Header, Raw: body}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&e.Body); err != nil {
		r.t.Errorf("payload of %s: %v", e.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status < 300 {
		r.events = append(r.events, e)
	}
	w.WriteHeader(r.status)
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// all returns the events of a name and an action ("" for any) so far.
func (r *receiver) all(name, action string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []event
	for _, e := range r.events {
		if e.Name == name && (action == "" || e.action() == action) {
			out = append(out, e)
		}
	}
	return out
}

// wait returns the first event of a name and action that pleases ok.
func (r *receiver) wait(t *testing.T, name, action string, ok func(event) bool) event {
	t.Helper()
	var found event
	eventually(t, "a webhook "+name+" "+action, func() bool {
		for _, e := range r.all(name, action) {
			if ok == nil || ok(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 10 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// delivered waits until every webhook has been sent.
func (w *world) delivered() {
	w.t.Helper()
	eventually(w.t, "all webhooks to be sent", w.hooks.idle)
}
