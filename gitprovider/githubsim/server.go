package githubsim

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a simulated GitHub is started with.
type Config struct {
	// DataDir is where the bare repositories are kept. Required; a folder
	// that is not there is made. It must hold none of an earlier run.
	DataDir string
	// URL is where clients reach the server, without a slash at the end; it
	// stands in every link that the server gives. Start fills it in. When it
	// is empty, the Host of the first request decides.
	URL string

	// WebhookURL and WebhookSecret say where the App's webhooks go and how
	// they are signed. They can be set later with SetWebhook.
	WebhookURL    string
	WebhookSecret string

	// AppKeyPEM is the App's RSA key, private or public; only the public part
	// is kept. When empty a key is made: see Server.AppKeyPEM.
	AppKeyPEM []byte
	// AppID is the App's id; 1 when zero.
	AppID int64
	// AppSlug is the name in links and of the bot; "signalbox" when empty.
	AppSlug string
	// AppName is the App's display name; "Signalbox" when empty.
	AppName string
	// Permissions are what the App's installations grant. When nil, all that
	// a merge queue needs.
	Permissions map[string]string
	// Events are the webhook events the App subscribes to. When nil, all that
	// the simulator can send.
	Events []string

	// MergeableDelay is how long mergeability stays unknown after somebody
	// first asks for it; 30ms when zero. When negative it is never unknown,
	// for tests in virtual time.
	MergeableDelay time.Duration
	// RateLimit is how many calls a token has in an hour; a million when zero.
	RateLimit int
	// DeliveryWorkers is how many webhooks are delivered at a time; 1 when
	// zero, which keeps them in order.
	DeliveryWorkers int
	// MaxFile is how many bytes the largest file has that a push may bring; a
	// hundred megabytes when zero, as on github.com.
	MaxFile int64
	// KeepDeliveries is how many deliveries are remembered; 10,000 when zero.
	KeepDeliveries int
	// Seed decides what the CI of repositories without a seed of their own
	// leaves to chance.
	Seed int64

	// Around, if not nil, is put around the handler that Start serves, and
	// Sent is told of every webhook before it is sent. For tests that watch.
	Around func(http.Handler) http.Handler
	Sent   func(event string, payload []byte)

	// Log receives what happens; nothing is logged when nil.
	Log *slog.Logger
	// Now is the clock of every timestamp and expiry; time.Now when nil.
	// Delays (CI, mergeability, faults) always pass in real time.
	Now func() time.Time
}

// allPermissions is what the App is granted by default.
var allPermissions = map[string]string{
	"actions": "write", "administration": "read", "checks": "write", "contents": "write", "issues": "write",
	"members": "read", "metadata": "read", "pull_requests": "write", "statuses": "write", "workflows": "write",
}

// allEvents is what the App subscribes to by default.
var allEvents = []string{
	"check_run", "check_suite", "issue_comment", "label", "member", "pull_request", "pull_request_review",
	"pull_request_review_thread", "push", "repository", "repository_ruleset", "branch_protection_rule", "status",
	"workflow_run",
}

// actionsAppID is the real id of GitHub Actions, in whose name CI reports.
const actionsAppID = 15368

func (c *Config) fill() error {
	if c.DataDir == "" {
		return errors.New("githubsim: Config.DataDir is empty")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("githubsim: %w", err)
	}
	c.DataDir = dir
	c.AppID = orElse(c.AppID, 1)
	c.AppSlug = orElse(c.AppSlug, "signalbox")
	c.AppName = orElse(c.AppName, "Signalbox")
	c.MergeableDelay = orElse(c.MergeableDelay, 30*time.Millisecond)
	c.RateLimit = orElse(c.RateLimit, 1_000_000)
	c.DeliveryWorkers = orElse(c.DeliveryWorkers, 1)
	c.MaxFile = orElse(c.MaxFile, defaultMaxFile)
	c.KeepDeliveries = orElse(c.KeepDeliveries, 10_000)
	if c.Permissions == nil {
		c.Permissions = allPermissions
	}
	if c.Events == nil {
		c.Events = allEvents
	}
	if c.Around == nil {
		c.Around = func(h http.Handler) http.Handler { return h }
	}
	if c.Sent == nil {
		c.Sent = func(string, []byte) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Server is a running simulated GitHub. Its methods are safe for concurrent use.
type Server struct {
	cfg                    Config
	log                    *slog.Logger
	keyPEM                 []byte         // the App's private key when the server made it
	key                    *rsa.PublicKey // checks the App's JWTs
	routes                 []route
	control                map[string]func(*http.Request) (any, error)
	work                   *work // the one place that starts goroutines
	hooks                  *dispatcher
	faults                 faultPlan
	clientID, clientSecret string       // of people's sign-in
	forking                sync.Mutex   // held while a fork is made, so that each is made once
	url                    atomic.Value // a string: Config.URL, or what the first request said

	mu            sync.Mutex // guards everything below and the nouns of state.go
	lastID        int64
	accounts      map[string]*account // by login in lower case
	accountsByID  map[int64]*account
	app           *app               // ours
	granted       map[string]string  // what installations grant; nil for all that the App asks for
	actions       *app               // the simulated CI
	others        map[int64]*app     // Apps that report checks, by id
	made          map[string]madeApp // Apps made from a manifest, by the code that waits to be traded
	installations map[int64]*installation
	tokens        map[string]*token
	grants        map[string]grant  // by code
	callback      string            // where people who sign in are led back to
	used          map[string]*quota // by token
	repos         map[string]*repo  // by "owner/name" in lower case
	reposByID     map[int64]*repo
	deleted       []*repo // to be closed
	comments      map[int64]*comment
	runs          map[int64]*checkRun
	suites        map[int64]*suite
	orgRules      map[string][]*ruleset // by organisation in lower case

	http *http.Server // when started with Start
}

// New makes a simulated GitHub without repositories. Nothing listens yet:
// serve its Handler, or use Start.
func New(cfg Config) (*Server, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("githubsim: %w", err)
	}
	if old, _ := filepath.Glob(filepath.Join(cfg.DataDir, "*.git")); len(old) > 0 {
		return nil, fmt.Errorf("githubsim: %s holds repositories of an earlier run; use an empty folder", cfg.DataDir)
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, lastID: 1000,
		accounts: map[string]*account{}, accountsByID: map[int64]*account{},
		installations: map[int64]*installation{}, tokens: map[string]*token{}, grants: map[string]grant{},
		clientID: "Iv1.simulated", clientSecret: newSecret(""), used: map[string]*quota{},
		repos: map[string]*repo{}, reposByID: map[int64]*repo{}, comments: map[int64]*comment{},
		runs: map[int64]*checkRun{}, suites: map[int64]*suite{}, orgRules: map[string][]*ruleset{},
		others: map[int64]*app{}, made: map[string]madeApp{},
	}
	s.url.Store(cfg.URL)
	if err := s.loadKey(); err != nil {
		return nil, err
	}
	s.makeApps()
	s.routes, s.control = s.routeTable(), s.controls()
	s.work = newWork()
	s.hooks = newDispatcher(s)
	if cfg.WebhookURL != "" {
		s.hooks.target(cfg.WebhookURL, cfg.WebhookSecret)
	}
	return s, nil
}

func (s *Server) makeApps() {
	now := s.cfg.Now()
	owner := s.accountNamed("signalbox-operators", "Organization")
	s.app = &app{
		id: s.cfg.AppID, slug: s.cfg.AppSlug, name: s.cfg.AppName, owner: owner,
		bot:         s.accountNamed(s.cfg.AppSlug+"[bot]", "Bot"),
		permissions: s.cfg.Permissions, events: s.cfg.Events, created: now,
	}
	s.actions = &app{
		id: actionsAppID, slug: "github-actions", name: "GitHub Actions", owner: s.accountNamed("github", "Organization"),
		bot:         s.accountNamed("github-actions[bot]", "Bot"),
		permissions: map[string]string{"actions": "write", "checks": "write", "contents": "write", "metadata": "read"},
		events:      []string{"push", "pull_request"}, created: now,
	}
	s.app.bot.app, s.actions.bot.app = s.app.id, s.actions.id
}

// reporter is the App with an id that reports a check, made when it is new;
// 0 is GitHub Actions. mu is held.
func (s *Server) reporter(id int64) *app {
	switch id {
	case 0, s.actions.id:
		return s.actions
	case s.app.id:
		return s.app
	}
	a := s.others[id]
	if a == nil {
		slug := fmt.Sprintf("app-%d", id)
		a = &app{
			id: id, slug: slug, name: fmt.Sprintf("App %d", id), owner: s.accountNamed(slug+"-makers", "Organization"),
			bot:         s.accountNamed(slug+"[bot]", "Bot"),
			permissions: map[string]string{"checks": "write", "metadata": "read", "statuses": "write"}, events: []string{"push"}, created: s.now(),
		}
		a.bot.app = id
		s.others[id] = a
	}
	return a
}

// loadKey reads the App's key, or makes one.
func (s *Server) loadKey() error {
	text := s.cfg.AppKeyPEM
	if len(text) == 0 {
		var err error
		if text, err = NewAppKey(); err != nil {
			return err
		}
		s.keyPEM = text
	}
	key, err := parseAppKey(text)
	if err != nil {
		return fmt.Errorf("githubsim: Config.AppKeyPEM: %w", err)
	}
	s.key = key
	return nil
}

func parseAppKey(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block found")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return &key.PublicKey, nil
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if k, ok := key.(*rsa.PrivateKey); ok {
			return &k.PublicKey, nil
		}
	}
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		if k, ok := key.(*rsa.PublicKey); ok {
			return k, nil
		}
	}
	return nil, errors.New("neither an RSA private nor an RSA public key")
}

// NewAppKey makes an RSA private key in the PEM form that GitHub hands out.
func NewAppKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make App key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// Start makes a simulated GitHub that listens on a loopback address such as
// "127.0.0.1:0", until ctx ends or Close is called.
func Start(ctx context.Context, cfg Config, addr string) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("githubsim: listen address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("githubsim: %s is not a loopback address", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("githubsim: %w", err)
	}
	if cfg.URL == "" {
		cfg.URL = "http://" + listener.Addr().String()
	}
	s, err := New(cfg)
	if err != nil {
		listener.Close()
		return nil, err
	}
	s.http = &http.Server{Handler: s.cfg.Around(s.Handler()), ReadHeaderTimeout: 10 * time.Second}
	s.work.start(func(context.Context) {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serve", "error", err)
		}
	})
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	s.work.onStop(func() { stop(); s.http.Close() })
	return s, nil
}

// Close stops everything the server started and waits for it. The
// repositories stay on disk.
func (s *Server) Close() {
	s.work.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reposByID {
		r.git.close()
	}
	for _, r := range s.deleted {
		r.git.close()
	}
}

// URL is where the server is reached, without a slash at the end. It is the
// web address and the git address; the API is under it at /api/v3.
func (s *Server) URL() string { return s.url.Load().(string) }

// AppID is the App's id, the issuer of its JWTs.
func (s *Server) AppID() int64 { return s.cfg.AppID }

// AppKeyPEM is the App's private key when the server made it, else nil.
func (s *Server) AppKeyPEM() []byte { return s.keyPEM }

// SetWebhook says where webhooks go from now on and sends a ping there.
// Events that happened before are not sent.
func (s *Server) SetWebhook(url, secret string) {
	s.hooks.target(url, secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emitPing()
}

// Handler serves the API, git and the control API.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// now is the time of the injected clock in whole seconds, as GitHub tells time.
func (s *Server) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Second) }
