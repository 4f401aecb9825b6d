package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"signalbox/account"
)

// SetUpConfig is what a SetUp is made of. Everything but Log is mandatory.
type SetUpConfig struct {
	// Code is the one-time code that whoever started the server knows.
	Code string
	// HostURL is the web address of the Git host, BaseURL that of this server.
	HostURL, BaseURL string
	// Manifest is the App's manifest, without the addresses of this server.
	Manifest map[string]any
	// Exchange trades the host's code for the App that was made.
	Exchange func(ctx context.Context, code string) (account.App, error)
	// Keep stores the App. After it the server can start.
	Keep func(ctx context.Context, app account.App) error
	// Log gets what a reader must not see; nil = nowhere.
	Log *slog.Logger
}

// SetUp serves the pages on which the App is made when a server has none, by
// the host's manifest flow:
//
//	the one-time code ─► a form that posts the manifest to the host ─► the host
//	leads back with a code ─► it is traded for the App's keys, which are kept
//
// Only who knows the one-time code gets past the first page, and only the
// browser that entered it may come back from the host. It is safe for
// concurrent use.
type SetUp struct {
	cfg   SetUpConfig
	page  *template.Template
	style []byte
	done  chan struct{}

	mu     sync.Mutex
	state  string // of the visit to the host that is under way; "" if none
	cookie string // of the browser that began it
	failed int    // wrong codes so far
	app    *account.App
}

// setUpTries is how many wrong codes are taken before nobody gets in any more.
const setUpTries = 20

// setUpCookie names the browser that entered the code.
const setUpCookie = "signalbox_setup"

// NewSetUp makes a SetUp.
func NewSetUp(cfg SetUpConfig) (*SetUp, error) {
	if cfg.Code == "" || cfg.HostURL == "" || cfg.BaseURL == "" || cfg.Manifest == nil || cfg.Exchange == nil || cfg.Keep == nil {
		return nil, errors.New("make the set-up page: something is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	page, err := template.ParseFS(files, "pages/setup.html")
	if err != nil {
		return nil, fmt.Errorf("make the set-up page: %w", err)
	}
	style, err := files.ReadFile("pages/style.css")
	if err != nil {
		return nil, fmt.Errorf("make the set-up page: %w", err)
	}
	return &SetUp{cfg: cfg, page: page, style: style, done: make(chan struct{})}, nil
}

// Done is closed when the App is made and kept.
func (s *SetUp) Done() <-chan struct{} { return s.done }

// setUpView is what the page shows.
type setUpView struct {
	Title, Problem, Step string
	Host, Hook           string
	Action, Manifest     string
	App, Install         string
}

// ServeHTTP serves one page.
func (s *SetUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self' "+s.cfg.HostURL+"; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	switch r.Method + " " + r.URL.Path {
	case "GET /assets/setup.css":
		head.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(s.style)
	case "GET /setup":
		s.show(w, http.StatusOK, setUpView{Step: "code"})
	case "POST /setup":
		s.begin(w, r)
	case "GET /setup/callback":
		s.finish(w, r)
	case "GET /":
		http.Redirect(w, r, "/setup", http.StatusFound)
	default:
		// Nothing else is there before the App is.
		head.Set("Retry-After", "10")
		http.Error(w, "This server has no GitHub App yet; open "+s.cfg.BaseURL+"/setup", http.StatusServiceUnavailable)
	}
}

func (s *SetUp) show(w http.ResponseWriter, status int, v setUpView) {
	if v.Title == "" {
		v.Title = "Set up Signalbox"
	}
	v.Host, v.Hook = strings.TrimPrefix(strings.TrimPrefix(s.cfg.HostURL, "https://"), "http://"), s.cfg.BaseURL+"/webhook"
	var body bytes.Buffer
	if err := s.page.Execute(&body, v); err != nil {
		s.cfg.Log.Error("page not rendered", "page", "setup", "err", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

var orgName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$`)

// begin checks the code and shows the form that leads to the host.
func (s *SetUp) begin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	code, org := strings.TrimSpace(r.PostFormValue("code")), strings.TrimSpace(r.PostFormValue("org"))
	if org != "" && !orgName.MatchString(org) {
		s.show(w, http.StatusBadRequest, setUpView{Step: "code", Problem: "This is no name of an organisation."})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed >= setUpTries {
		s.show(w, http.StatusForbidden, setUpView{Step: "code", Problem: "Too many wrong codes. Start the server again; it prints a new one."})
		return
	}
	if subtle.ConstantTimeCompare([]byte(code), []byte(s.cfg.Code)) != 1 {
		s.failed++
		s.show(w, http.StatusForbidden, setUpView{Step: "code", Problem: "This is not the code that the server printed when it started."})
		return
	}
	s.state, s.cookie = secretText(), secretText()
	http.SetCookie(w, &http.Cookie{Name: setUpCookie, Value: s.cookie, Path: "/setup", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(s.cfg.BaseURL, "https://"), MaxAge: int(time.Hour / time.Second)})
	manifest, err := s.manifest()
	if err != nil {
		s.cfg.Log.Error("the App's manifest cannot be written", "err", err)
		s.show(w, http.StatusInternalServerError, setUpView{Step: "code", Problem: "The App's manifest cannot be written; the log says why."})
		return
	}
	action := s.cfg.HostURL + "/settings/apps/new"
	if org != "" {
		action = s.cfg.HostURL + "/organizations/" + url.PathEscape(org) + "/settings/apps/new"
	}
	s.show(w, http.StatusOK, setUpView{Title: "Create the App", Step: "manifest", Action: action + "?state=" + s.state, Manifest: manifest})
}

// manifest is the App's manifest with the addresses of this server.
func (s *SetUp) manifest() (string, error) {
	m := map[string]any{}
	for k, v := range s.cfg.Manifest {
		m[k] = v
	}
	m["hook_attributes"] = map[string]any{"url": s.cfg.BaseURL + "/webhook", "active": true}
	m["redirect_url"] = s.cfg.BaseURL + "/setup/callback"
	m["callback_urls"] = []string{s.cfg.BaseURL + "/auth/callback"}
	m["url"] = s.cfg.BaseURL
	text, err := json.Marshal(m)
	return string(text), err
}

// finish trades the host's code for the App, once.
func (s *SetUp) finish(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.app != nil {
		s.showDone(w)
		return
	}
	cookie, _ := r.Cookie(setUpCookie)
	state, code := r.URL.Query().Get("state"), r.URL.Query().Get("code")
	if s.state == "" || cookie == nil || code == "" || subtle.ConstantTimeCompare([]byte(state), []byte(s.state)) != 1 ||
		subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(s.cookie)) != 1 {
		s.show(w, http.StatusForbidden, setUpView{Step: "code", Problem: "This visit did not begin here, or it is over. Begin again."})
		return
	}
	s.state, s.cookie = "", "" // the code works once, too
	app, err := s.cfg.Exchange(r.Context(), code)
	if err == nil {
		err = s.cfg.Keep(r.Context(), app)
	}
	if err != nil {
		s.cfg.Log.Error("the App was not set up", "err", err)
		s.show(w, http.StatusBadGateway, setUpView{Step: "code", Problem: "The App's keys could not be fetched and kept; the server's log says why. Delete the App on the host if it is there, and begin again."})
		return
	}
	s.app = &app
	close(s.done)
	s.showDone(w)
}

func (s *SetUp) showDone(w http.ResponseWriter) {
	s.show(w, http.StatusOK, setUpView{Title: "The App is ready", Step: "done", App: s.app.Slug,
		Install: s.cfg.HostURL + "/apps/" + url.PathEscape(s.app.Slug) + "/installations/new"})
}

func secretText() string {
	var bits [24]byte
	rand.Read(bits[:])
	return hex.EncodeToString(bits[:])
}
