package rest

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/julienschmidt/httprouter"

	"signalbox/queue"
)

// Config is what the API works with. Store, Tests, Subscribers, Host, IsGone and
// Preview are required.
type Config struct {
	Store Store
	// Tests is what is known of the repositories' tests.
	Tests TestStore
	// Subscribers are those who are told what happens.
	Subscribers Subscribers
	Host        Host
	// IsGone reports whether an error of Host says that there is no such
	// thing; any other error counts as no answer.
	IsGone func(error) bool
	// HostName is the host whose repositories this service works on.
	// On another than github.com, "github.com" in a request means this one
	// too, because actions always send that. Default github.com.
	HostName string
	// Preview replays what has happened in a queue lately with its settings and
	// with changed ones. queue.ErrNoHistory: nothing has.
	Preview func(ctx context.Context, q queue.Queue, changed queue.Settings) (queue.Preview, error)
	// AllowedBots are the logins of bots whose commands are obeyed, for
	// getQueue to show.
	AllowedBots []string
	// BaseURL is where the dashboard is, without a slash at its end: links
	// to its pages begin with it.
	BaseURL string
	// TicketURL is where a ticket is found by its name, which takes the place
	// of "{id}": https://acme.atlassian.net/browse/{id}. "" is nowhere.
	TicketURL string
	// Version is the program's, for GET /v1/status.
	Version string
	// OnRequest hears of every request: the pattern of its route ("" when it
	// matched none), the status of the answer, and the time that it took.
	OnRequest func(route string, status int, took time.Duration)
	// Log gets one line per request and one per error. Default slog.Default().
	Log *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// NewID makes the ids of new entries. Default random UUIDs.
	NewID func() string
	// RatePerSecond and Burst limit each token. Default 100 and 200; a
	// negative rate sets no limit.
	RatePerSecond float64
	Burst         int
	// Timeout is how long one request may take after its body was read, the
	// wait for a decision included. Default 20 seconds.
	Timeout time.Duration
}

// API serves /v1. It starts no goroutines and keeps nothing but what each
// caller did in the last moments and the key of page tokens.
type API struct {
	store     Store
	tests     TestStore
	told      Subscribers
	baseURL   string
	ticketURL string
	git       Host
	isGone    func(error) bool
	preview   func(context.Context, queue.Queue, queue.Settings) (queue.Preview, error)
	hostName  string
	bots      []string // never nil
	version   string
	heard     func(route string, status int, took time.Duration)
	log       *slog.Logger
	now       func() time.Time
	newID     func() string
	timeout   time.Duration

	// wished is the time of the newest wish, in microseconds: see API.moment.
	wished atomic.Int64

	limits *limits
	forks  *limits // of callers who have no token, by address
	keys   keys
	manual manual
	router *httprouter.Router
}

// New makes the API. It serves the paths from /v1/ down, and /docs/api.
func New(cfg Config) *API {
	a := &API{
		store: cfg.Store, tests: cfg.Tests, told: cfg.Subscribers, baseURL: strings.TrimSuffix(cfg.BaseURL, "/"), ticketURL: cfg.TicketURL, git: cfg.Host, isGone: cfg.IsGone, preview: cfg.Preview,
		hostName: lower(cfg.HostName), bots: append([]string{}, cfg.AllowedBots...), version: cfg.Version, heard: cfg.OnRequest, log: cfg.Log, now: cfg.Now, newID: cfg.NewID, timeout: cfg.Timeout,
	}
	if a.hostName == "" {
		a.hostName = publicHost
	}
	if a.heard == nil {
		a.heard = func(string, int, time.Duration) {}
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.newID == nil {
		a.newID = uuid.NewString
	}
	if a.timeout <= 0 {
		a.timeout = 20 * time.Second
	}
	perSecond, burst := cfg.RatePerSecond, cfg.Burst
	if perSecond == 0 {
		perSecond = 100
	}
	if burst <= 0 {
		burst = 200
	}
	a.limits = newLimits(perSecond, burst)
	a.forks = newLimits(forksPerSecond, forksBurst)
	a.manual = newManual()
	a.router = a.newRouter()
	return a
}

// newRouter registers the routes. Nothing is redirected: a path is right or
// it is not, and a client that follows a redirect would lose its body.
func (a *API) newRouter() *httprouter.Router {
	router := httprouter.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleOPTIONS = false
	methods := map[string][]string{}
	for _, r := range a.routes() {
		router.Handle(r.method, r.path, a.serve(r))
		methods[r.path] = append(methods[r.path], r.method)
	}
	router.NotFound = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, notFound(CodePathNotFound, "There is no %s here.", clip(r.URL.Path)))
	})
	router.MethodNotAllowed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The router's own list names OPTIONS, which we do not serve.
		allow := strings.Join(methods[r.URL.Path], ", ")
		w.Header().Set("Allow", allow)
		a.refuse(w, &failure{status: http.StatusMethodNotAllowed, code: CodeMethodNotAllowed,
			message: clip(r.URL.Path) + " is called with " + allow + "."})
	})
	return router
}

// moment is the time of a wish that came with a call. No two are of the same
// moment, and none is before one that came earlier: the queue takes a submission
// that is not newer than the last for a repetition of it.
func (a *API) moment(c *call) time.Time {
	for {
		last := a.wished.Load()
		next := max(c.now.UnixMicro(), last+1)
		if a.wished.CompareAndSwap(last, next) {
			return time.UnixMicro(next).UTC()
		}
	}
}

// publicHost is what requests say for the host, wherever they come from.
const publicHost = "github.com"

// host is the host that a request means.
func (a *API) host(given string) string {
	given = lower(given)
	if given == publicHost {
		return a.hostName
	}
	return given
}
