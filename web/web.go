package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"signalbox/account"
	"signalbox/queue"
)

// endedShown is how many recent endings a queue's page lists.
const endedShown = 25

// runsShown is how many test runs a pull request's page lists.
const runsShown = 20

// Config is what a Handler is made of.
type Config struct {
	// Store is read for every page. It is mandatory.
	Store Store
	// Subscribers are those who are told what happens; nil = there are no pages
	// about them.
	Subscribers Subscribers
	// Host is asked what people may do, and for pull requests that they
	// submit. Mandatory where somebody can do anything: with SignIn or Local.
	Host Host
	// SignIn finds out who people are; nil = nobody signs in, and whoever
	// reaches the pages may read them.
	SignIn SignIn
	// Local says that without sign-in whoever comes from this machine, by its
	// own address, acts as the administrator of the installation.
	Local bool
	// Preview replays what has happened in a queue lately with its settings and
	// with changed ones; queue.ErrNoHistory: nothing has. nil = nobody can ask.
	Preview func(ctx context.Context, q queue.Queue, changed queue.Settings) (queue.Preview, error)
	// BaseURL is where people reach the pages, without a slash at the end;
	// "" = at whatever address they ask for.
	BaseURL string
	// Docs holds the documents in Markdown, README.md as their index, and
	// their drawings; nil = there are no pages of them.
	Docs fs.FS
	// Log gets what a reader must not see; nil = nowhere.
	Log *slog.Logger
	// Clock gives the time that pages are rendered at; nil = time.Now.
	Clock func() time.Time
}

// Handler serves the pages. It is safe for concurrent use.
type Handler struct {
	store  Store
	told   Subscribers
	log    *slog.Logger
	clock  func() time.Time
	pages  pages
	live   *live
	router *httprouter.Router

	documents documents

	host        Host
	replay      func(context.Context, queue.Queue, queue.Settings) (queue.Preview, error)
	signIn      SignIn
	local       bool
	base        string
	secure      bool   // people come by https
	secret      []byte // of the forms of visitors without a session
	rights      *rights
	crossOrigin *http.CrossOriginProtection
}

// New makes a Handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Store == nil {
		return nil, errors.New("make pages: there is no store")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	parsed, err := parsePages()
	if err != nil {
		return nil, fmt.Errorf("make pages: %w", err)
	}
	if cfg.Host == nil && (cfg.SignIn != nil || cfg.Local) {
		return nil, errors.New("make pages: there is nobody to ask what people may do")
	}
	h := &Handler{
		host: cfg.Host, replay: cfg.Preview, signIn: cfg.SignIn, local: cfg.Local, base: strings.TrimRight(cfg.BaseURL, "/"),
		secure: strings.HasPrefix(cfg.BaseURL, "https://"), secret: []byte(rand.Text() + rand.Text()),
		rights: &rights{kept: map[rightKey]rightKept{}}, crossOrigin: http.NewCrossOriginProtection(),
		store: cfg.Store, told: cfg.Subscribers, log: cfg.Log, clock: cfg.Clock, pages: parsed, live: newLive(cfg.Store, cfg.Log),
	}
	if origin, err := url.Parse(h.base); err == nil && origin.Host != "" {
		// Behind a proxy that changes the name that is asked for.
		if err := h.crossOrigin.AddTrustedOrigin(origin.Scheme + "://" + origin.Host); err != nil {
			return nil, fmt.Errorf("make pages: the address %q: %w", h.base, err)
		}
	}
	if cfg.Docs != nil {
		if h.documents, err = readDocuments(cfg.Docs); err != nil {
			return nil, fmt.Errorf("make pages: %w", err)
		}
	}
	h.router = h.routes()
	return h, nil
}

func (h *Handler) routes() *httprouter.Router {
	r := httprouter.New()
	// A redirect to a path that a stranger wrote is a gift to them.
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.NotFound = h.page(func(*http.Request) (frame, error) { return frame{}, queue.ErrNotFound })
	r.MethodNotAllowed = http.HandlerFunc(h.wrongMethod)
	for path, show := range map[string]func(*http.Request) (frame, error){
		"/":                                     h.overview,
		"/q/:host/:owner/:name":                 h.queue,
		"/q/:host/:owner/:name/pr/:number":      h.pullRequest,
		"/q/:host/:owner/:name/run/:run":        h.run,
		"/q/:host/:owner/:name/settings":        h.settings,
		"/q/:host/:owner/:name/health":          h.health,
		"/q/:host/:owner/:name/endings":         h.endings,
		"/q/:host/:owner/:name/tests":           h.tests,
		"/q/:host/:owner/:name/tests/:test":     h.test,
		"/q/:host/:owner/:name/uploads":         h.uploads,
		"/q/:host/:owner/:name/uploads/:upload": h.upload,
		"/orgs/:org/tokens":                     h.tokens,
		"/orgs/:org/audit":                      h.audit,
		"/orgs/:org/subscribers":                h.subscribers,
		"/orgs/:org/subscribers/:id":            h.subscriber,
	} {
		r.Handler(http.MethodGet, path, h.guard(h.page(show)))
		r.Handler(http.MethodHead, path, h.guard(h.page(show)))
	}
	for path, serve := range map[string]http.HandlerFunc{
		"/live": h.watchAll, "/q/:host/:owner/:name/live": h.watch, "/q/:host/:owner/:name/health.csv": h.healthCSV,
	} {
		r.Handler(http.MethodGet, path, h.guard(serve))
	}
	for path, do := range map[string]func(*http.Request) (string, error){
		"/q/:host/:owner/:name/pr/:number/:deed": h.pullRequestDeed,
		"/q/:host/:owner/:name/submit":           h.submitByNumber,
		"/q/:host/:owner/:name/state":            h.changeState,
		"/q/:host/:owner/:name/settings":         h.changeSettings,
		"/q/:host/:owner/:name/look":             h.lookAgain,
		"/q/:host/:owner/:name/create":           h.createQueue,
		"/q/:host/:owner/:name/tests":            h.switchQuarantine,
		"/q/:host/:owner/:name/tests/:test":      h.setQuarantine,
		"/orgs/:org/tokens/revoke":               h.revokeToken,
	} {
		r.Handler(http.MethodPost, path, h.guard(h.deed(do)))
	}
	r.Handler(http.MethodPost, "/orgs/:org/tokens", h.guard(h.form(h.createToken)))
	r.Handler(http.MethodPost, "/orgs/:org/subscribers", h.guard(h.form(h.subscribe)))
	r.Handler(http.MethodPost, "/orgs/:org/subscribers/:id", h.guard(h.form(h.subscriberDeed)))
	if h.signIn != nil {
		r.HandlerFunc(http.MethodGet, "/sign-in", h.signInPage)
		r.HandlerFunc(http.MethodGet, "/auth/start", h.startSignIn)
		r.HandlerFunc(http.MethodGet, "/auth/callback", h.finishSignIn)
		r.Handler(http.MethodPost, "/auth/sign-out", h.guard(h.form(h.signOut)))
	}
	r.HandlerFunc(http.MethodGet, "/docs/*path", h.docs)
	r.HandlerFunc(http.MethodHead, "/docs/*path", h.docs)
	r.GET("/assets/:file", h.asset)
	r.HEAD("/assets/:file", h.asset)
	return r
}

// ServeHTTP serves one page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.router.ServeHTTP(w, r)
}

// guard lets in who may come in, and tells the rest of a request who that is.
// Who has to sign in first is led there, and afterwards to the page.
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok, err := h.welcome(r)
		switch {
		case err != nil:
			h.refuse(w, r, err)
		case ok:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, v)))
		case r.Method == http.MethodGet && r.Header.Get("Accept") != "text/event-stream":
			http.Redirect(w, r, "/sign-in?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusFound)
		default:
			h.askToSignIn(w, r, "/", "You are not signed in any more. Nothing was done.", http.StatusUnauthorized)
		}
	})
}

// moved is an error that sends the reader to another of our pages.
type moved string

func (m moved) Error() string { return "moved to " + string(m) }

// absent is a "not found" that can say what is not there.
type absent string

func (a absent) Error() string   { return string(a) }
func (absent) Is(err error) bool { return err == queue.ErrNotFound }

// page turns what a reader of the store shows, or its error, into an answer.
func (h *Handler) page(show func(*http.Request) (frame, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := show(r)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		h.render(w, r, http.StatusOK, f)
	})
}

// refuse answers with what an error means to a reader.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var to moved
	var what absent
	var refused refusal
	problem := func(status int, title, message string) {
		h.render(w, r, status, frame{View: problemView{Title: title, Message: message}})
	}
	switch {
	case errors.As(err, &to):
		http.Redirect(w, r, string(to), http.StatusFound)
	case errors.As(err, &what):
		problem(http.StatusNotFound, "Not found", string(what))
	case errors.As(err, &refused):
		h.render(w, r, refused.status, frame{View: problemView{Title: "Not done", Message: refused.message, Back: refused.back}})
	case errors.Is(err, queue.ErrNotFound):
		problem(http.StatusNotFound, "Not found", "There is no such page.")
	default:
		h.log.Error("page not shown", "path", r.URL.Path, "err", err)
		w.Header().Set("Retry-After", "10")
		problem(http.StatusServiceUnavailable, "Not available",
			"The page cannot be shown now. Nothing is lost: queues go on as soon as they can. Try again in a moment.")
	}
}

func (h *Handler) wrongMethod(w http.ResponseWriter, r *http.Request) {
	h.render(w, r, http.StatusMethodNotAllowed, frame{View: problemView{Title: "Not allowed", Message: "Pages can only be read."}})
}

// Run tells open pages of changes until ctx ends. Without it pages are true
// when they are loaded, and ask for newer ones now and then.
func (h *Handler) Run(ctx context.Context) error {
	defer h.live.end()
	return h.live.run(ctx)
}

// EndStreams ends the streams of open pages, which would outlast a server that
// waits for its requests to end. Pages find the next server by themselves.
func (h *Handler) EndStreams() { h.live.end() }

// following is a page that follows a queue. The queue was read first: what
// changes while the rest is read is then told as news. here is as in queueTabs.
func following(q *queue.Queue, here string) frame {
	return frame{Stream: pageURL("", q.Repo, "/live", q.Branch), Seen: q.Turn, Tabs: queueTabs(q, here)}
}

// queue shows one queue.
func (h *Handler) queue(r *http.Request) (frame, error) {
	if !r.URL.Query().Has("branch") {
		return h.repository(r)
	}
	q, err := h.named(r)
	if err != nil {
		return frame{}, err
	}
	f := following(&q, QueueURL("", q.Repo, q.Branch))
	s, err := h.store.Whole(r.Context(), q.ID)
	if err != nil {
		return f, fmt.Errorf("read queue %d: %w", q.ID, err)
	}
	ended, err := h.store.Ended(r.Context(), q.ID, endedShown)
	if err != nil {
		return f, fmt.Errorf("list endings of queue %d: %w", q.ID, err)
	}
	v := viewQueue(s, ended, r.URL.Query().Has("all"), h.clock())
	v.Told = told(r)
	v.Deeds, err = h.deedsOf(r.Context(), q)
	f.View = v
	return f, err
}

// pullRequest shows a pull request in a queue.
func (h *Handler) pullRequest(r *http.Request) (frame, error) {
	q, err := h.named(r)
	if err != nil {
		return frame{}, err
	}
	number, err := strconv.ParseInt(httprouter.ParamsFromContext(r.Context()).ByName("number"), 10, 64)
	if err != nil || number <= 0 {
		return frame{}, queue.ErrNotFound
	}
	f := following(&q, "")
	v, err := h.entry(r.Context(), q, number)
	if err != nil {
		return f, err
	}
	v.Told = told(r)
	v.Deeds, err = h.deedsOf(r.Context(), q)
	f.View = v
	return f, err
}

func (h *Handler) entry(ctx context.Context, q queue.Queue, number int64) (v prView, err error) {
	e, err := h.store.Entry(ctx, q.ID, number)
	if errors.Is(err, queue.ErrNotFound) {
		if s, err := h.store.Read(ctx, q.ID, number); err != nil {
			return v, fmt.Errorf("read queue %d: %w", q.ID, err)
		} else if top := s.StackWith(number); top != nil { // it is in the queue beneath another
			return v, moved(PRURL("", q.Repo, q.Branch, top.Number))
		}
		return v, absent(fmt.Sprintf("#%d was never submitted to the queue of %s. Comment /merge on the pull request to submit it.", number, q.Branch))
	}
	if err != nil {
		return v, fmt.Errorf("read entry of #%d: %w", number, err)
	}
	s, err := h.store.Read(ctx, q.ID, number)
	if err != nil {
		return v, fmt.Errorf("read queue %d: %w", q.ID, err)
	}
	if inWindow := s.ByPR(number); inWindow != nil { // of the same moment as the rest
		e = *inWindow
	}
	moves, err := h.store.Timeline(ctx, q.ID, number)
	if err != nil {
		return v, fmt.Errorf("read timeline of #%d: %w", number, err)
	}
	runs, err := h.store.RunsOf(ctx, q.ID, number, runsShown)
	if err != nil {
		return v, fmt.Errorf("read runs of #%d: %w", number, err)
	}
	return viewPR(s, &e, moves, runs, h.clock()), nil
}

// run shows a test run.
func (h *Handler) run(r *http.Request) (frame, error) {
	q, err := h.named(r)
	if err != nil {
		return frame{}, err
	}
	id := httprouter.ParamsFromContext(r.Context()).ByName("run")
	if !storable(id) {
		return frame{}, queue.ErrNotFound
	}
	f := following(&q, "")
	run, entries, err := h.store.Run(r.Context(), q.ID, queue.RunID(id))
	if errors.Is(err, queue.ErrNotFound) {
		return f, absent("There is no such test run in this queue.")
	}
	if err != nil {
		return f, fmt.Errorf("read run: %w", err)
	}
	f.View = viewRun(q, &run, entries, h.clock())
	return f, nil
}

// named finds the queue that a request names, if the reader may see it.
func (h *Handler) named(r *http.Request) (queue.Queue, error) {
	p := httprouter.ParamsFromContext(r.Context())
	host, owner, name := p.ByName("host"), p.ByName("owner"), p.ByName("name")
	branch := r.URL.Query().Get("branch")
	if !storable(host) || !storable(owner) || !storable(name) || !storable(branch) {
		return queue.Queue{}, absent("There is no such queue.")
	}
	q, err := h.store.QueueNamed(r.Context(), host, owner, name, branch)
	if errors.Is(err, queue.ErrNotFound) {
		return queue.Queue{}, absent("There is no such queue.")
	}
	if err != nil {
		return queue.Queue{}, fmt.Errorf("find queue: %w", err)
	}
	right, err := h.right(r.Context(), q.Repo, false)
	if err == nil && right < account.ReadRight {
		return queue.Queue{}, absent("There is no such queue.") // for this reader
	}
	return q, err
}

// storable reports whether a text can be a name at all, before the database
// is bothered with it.
func storable(text string) bool {
	return text != "" && len(text) <= 300 && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}
