package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/db"
	"signalbox/docs"
	"signalbox/gitprovider"
	"signalbox/gitprovider/github"
	"signalbox/notify"
	"signalbox/queue"
	"signalbox/queue/engine"
	"signalbox/queue/texts"
	"signalbox/rest"
	"signalbox/web"
	"signalbox/webhook"
)

// service is one running server: every part of the program, wired.
type service struct {
	cfg     config
	db      *database
	host    *github.Client
	engine  *engine.Engine
	jobs    *jobClient
	notify  *notify.Service
	metrics *metrics
	handler http.Handler // of the main address
	pages   *web.Handler
	hooks   *webhook.Receiver
	clock   engine.Clock

	ready       atomic.Bool
	connected   atomic.Bool                // the last reading of the installations worked
	redelivered time.Time                  // upkeep's: missed webhooks from before were looked for
	heard       map[queue.RepoID]time.Time // upkeep's: of what comments say is known until then, by the host's clock
	astray      chan struct{}              // something is not where it was on the host
	looking     atomic.Int64               // who waits for somebody to look for it
	looked      time.Time                  // upkeep's: when somebody did
	broken      chan error                 // yields when something ended that should not have

	main, ops *listener
	presence  *db.Presence
	halt      context.CancelFunc // ends the loops
	loops     sync.WaitGroup
}

// replacements are what a test has otherwise; zero values are what the
// program has.
type replacements struct {
	clock engine.Clock
	moved func(queue.Move) // hears of each move
	store engine.Store     // what the engine works on; nil is the database
}

// now is the clock of the replacements; nil is the clock on the wall.
func (r replacements) now() func() time.Time {
	if r.clock == nil {
		return nil
	}
	return r.clock.Now
}

// newService takes the addresses, makes the parts and connects them. Nothing
// runs yet. The caller calls stop, with an error too.
func newService(cfg config, d *database, r replacements) (s *service, err error) {
	s = &service{cfg: cfg, db: d, clock: r.clock, broken: make(chan error, 1), astray: make(chan struct{}, 1), heard: map[queue.RepoID]time.Time{}, metrics: newMetrics(d)}
	if s.clock == nil {
		s.clock = engine.Wall{}
	}
	if s.main, err = listen("listen", cfg.listen, cfg.log); err != nil {
		return s, err
	}
	if cfg.metricsListen != "" {
		if s.ops, err = listen("metrics-listen", cfg.metricsListen, cfg.log); err != nil {
			return s, err
		}
	}
	if s.cfg.baseURL == "" {
		s.cfg.baseURL = "http://" + s.main.address()
	}
	host := hostConfig(s.cfg)
	host.OnCall, host.OnBudget, host.Now, host.After = s.metrics.called, s.metrics.left, s.clock.Now, s.clock.After
	s.host, err = github.New(host)
	if err != nil {
		return s, err
	}
	var store engine.Store = d.DB
	if r.store != nil {
		store = r.store
	}
	hooks := s.metrics.engineHooks(r.moved)
	hooks.Astray = s.wentAstray
	site := texts.Site{Base: s.cfg.baseURL, Prefix: cmp.Or(s.cfg.prefixes...)}
	s.engine, err = engine.New(engine.Config{
		Store: store, Host: s.host, Clock: s.clock, Log: cfg.log, Workers: cfg.deciders,
		Site: site, AllowedBots: cfg.bots, Privileged: cfg.privileged, Hooks: hooks,
	})
	if err != nil {
		return s, err
	}
	s.notify, err = notify.New(notify.Config{
		Store: d.DB, Box: &vault{file: cfg.secretKeyFile, db: d.DB}, Clock: s.clock, Allowed: cfg.subscriberNetworks,
		Links: notify.Links{Queue: site.Queue, PullRequest: site.PR, Run: site.Run}, Attempted: s.metrics.delivered, Version: programVersion(), Log: cfg.log,
	})
	if err != nil {
		return s, err
	}
	if s.handler, err = s.routes(); err != nil {
		return s, err
	}
	s.jobs, err = newJobs(d, s.engine, s.clock, cfg.log)
	return s, err
}

// hostConfig is how the host is reached as the App.
func hostConfig(cfg config) github.Config {
	out := github.Config{
		AppID: cfg.appID, PrivateKey: cfg.appKey, APIURL: cfg.githubAPIURL, WebURL: cfg.githubURL, Host: cfg.host, WebhookURL: cfg.hook,
		CommitBody: cfg.commitBody, CommitterName: cfg.committer, CommitterEmail: cfg.committerMail, SigningKey: cfg.signingKey, MirrorSize: cfg.mirrorSize,
		BotLogin: cfg.appSlug + "[bot]", DataDir: cfg.dataDir, Log: cfg.log,
	}
	if cfg.unlimited {
		out.Limits = github.Unlimited
	}
	return out
}

// routes is everything on the main address. Paths are compared as they came:
// nothing is cleaned or redirected.
func (s *service) routes() (http.Handler, error) {
	var err error
	s.hooks, err = webhook.New(webhook.Config{
		Secret: s.cfg.webhookSecret, Store: s.db.DB, Host: s.cfg.host, AppID: s.cfg.appID, AppSlug: s.cfg.appSlug,
		Marker: texts.Marker, Checkbox: texts.Checkbox, CommandPrefixes: s.cfg.prefixes,
		OnEvent: s.metrics.received, Log: s.cfg.log, Clock: s.clock.Now,
	})
	if err != nil {
		return nil, err
	}
	previews := newPreviewer(s.db.DB, s.clock.Now)
	dashboard := web.Config{
		Store: s.db.DB, Preview: previews.preview, Subscribers: s.notify, Host: pagesHost{s.host}, Local: s.cfg.localPages, BaseURL: s.cfg.baseURL, Docs: docs.Files, Log: s.cfg.log, Clock: s.clock.Now,
	}
	if s.cfg.clientID != "" {
		dashboard.SignIn = s.host.SignIn(s.cfg.clientID, s.cfg.clientSecret)
	}
	s.pages, err = web.New(dashboard)
	if err != nil {
		return nil, err
	}
	api := rest.New(rest.Config{
		Store: s.db.DB, Tests: s.db.DB, Subscribers: s.notify, BaseURL: s.cfg.baseURL, TicketURL: s.cfg.ticketURL, Host: s.host, HostName: s.cfg.host, AllowedBots: s.cfg.bots, Version: programVersion(), Log: s.cfg.log, Now: s.clock.Now,
		RatePerSecond: s.cfg.rate, Burst: s.cfg.burst, OnRequest: s.metrics.requested,
		Preview: previews.preview,
		IsGone:  func(err error) bool { return gitprovider.KindOf(err) == gitprovider.Gone },
	})
	return newBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/webhook":
			s.hooks.ServeHTTP(w, r)
		case path == "/v1" || strings.HasPrefix(path, "/v1/") || path == "/docs/api":
			api.ServeHTTP(w, r)
		case path == "/healthz":
			health(w, nil)
		case path == "/readyz":
			health(w, s.unready(r.Context()))
		default:
			s.pages.ServeHTTP(w, r)
		}
	})), nil
}

// unready says why this copy should get no requests; nil when it should.
func (s *service) unready(ctx context.Context) error {
	if !s.ready.Load() {
		return errors.New("starting or stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return s.db.Ready(ctx)
}

func health(w http.ResponseWriter, problem error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, problem) // for the operator: it holds no secret
		return
	}
	fmt.Fprintln(w, "ok")
}

// start serves, works jobs, decides, and reads what was missed. It returns
// where it listens.
func (s *service) start(ctx context.Context) (addresses, error) {
	var loops context.Context
	loops, s.halt = context.WithCancel(context.WithoutCancel(ctx))
	s.main.server.RegisterOnShutdown(s.pages.EndStreams)
	s.loops.Go(func() { s.end(s.main.serve(s.handler)) })
	if s.ops != nil {
		s.loops.Go(func() { s.end(s.ops.serve(s.metrics)) })
	}
	where := addresses{main: s.main.address(), metrics: s.ops.address(), database: s.db.url}
	if err := s.startJobs(ctx); err != nil {
		return where, err
	}
	s.loops.Go(func() { s.end(s.engine.Run(loops)) })
	s.loops.Go(func() { s.end(s.pages.Run(loops)) })
	s.loops.Go(func() { s.end(s.notify.Run(loops)) })
	s.connect(ctx)
	s.catchUp(ctx)
	s.loops.Go(func() { s.upkeep(loops) })
	s.ready.Store(true)
	return where, nil
}

// end notes that something ended by itself.
func (s *service) end(err error) {
	if err != nil {
		select {
		case s.broken <- err:
		default: // one is enough
		}
	}
}

// startJobs shows that we are alive, frees what a killed copy had in hand, and
// works jobs.
func (s *service) startJobs(ctx context.Context) (err error) {
	if s.presence, err = s.db.Appear(ctx, s.jobs.ID()); err != nil {
		return err
	}
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	// The jobs end when stop says so, not with ctx.
	if err := s.jobs.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start jobs: %w", err)
	}
	return nil
}

func (s *service) takeOver(ctx context.Context) error {
	n, err := s.db.TakeOver(ctx)
	if n > 0 {
		s.cfg.log.Info("jobs of a copy that ended without finishing them are worked again", "jobs", n)
	}
	return err
}

// stopTimeout is how long everything may take to stop.
const stopTimeout = 28 * time.Second

// stop ends everything in order: no new requests, no new jobs, no new
// decisions; what is under way is finished, or handed back when it takes too
// long.
func (s *service) stop() error {
	s.ready.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var problems []error
	// Requests first: those that wait for a decision still get it.
	requests, done := context.WithTimeout(ctx, 8*time.Second)
	for _, l := range []*listener{s.main, s.ops} {
		if l != nil {
			problems = append(problems, l.stop(requests))
		}
	}
	done()
	if s.halt != nil {
		s.halt()
	}
	if s.jobs != nil {
		problems = append(problems, s.jobs.stop(ctx))
	}
	ended := make(chan struct{})
	go func() { s.loops.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		problems = append(problems, errors.New("some work did not stop in time; it is done again after the next start"))
	}
	if s.host != nil {
		s.host.Close()
	}
	if s.presence != nil {
		s.presence.Leave()
	}
	return errors.Join(problems...)
}
