package engine

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// Config is what an engine is made of. Store and Host are needed; the zero
// value of everything else works.
type Config struct {
	Store  Store
	Host   gitprovider.Host
	Decide Decide       // nil = queue.Reconcile
	Clock  Clock        // nil = the clock on the wall
	Log    *slog.Logger // nil = nowhere
	// Workers is how many queues are decided on at once; 0 = 2.
	Workers int
	// Poll is how often everything is looked at though nothing rang, in case
	// a wake-up of the store was lost; 0 = 5 seconds.
	Poll time.Duration
	// Site is what is special to us in everything that people read.
	Site texts.Site
	// AllowedBots are the logins whose commands are obeyed although the host
	// says that they are Apps or bot accounts.
	AllowedBots []string
	// Privileged is the right that --force and urgent priority take; 0 = admin.
	Privileged gitprovider.Permission
	// NewID makes the id of a new entry; nil = a random UUID.
	NewID func() string
	Hooks Hooks
}

// Hooks are told what the engine does, for metrics. Any may be nil. They are
// called by several goroutines and must not block.
type Hooks struct {
	// Decided is called after each saved decision with the number of facts
	// folded into it and the time it took, storage included.
	Decided func(facts int, took time.Duration)
	// Moved is called for each move of a saved decision.
	Moved func(queue.Move)
	// Landed is called for each pull request that a saved decision calls
	// merged, with the time since it was submitted.
	Landed func(took time.Duration)
	// Performed is called after each attempt at an action.
	Performed func(kind string, outcome Outcome, took time.Duration)
	// Astray is called when an action finds that the host does not let us
	// work on its repository any more, or not under that name: whoever keeps
	// the installations should read them.
	Astray func(queue.Repo)
	// Failed is called when the loop that is named (listen, route, decide,
	// time) ran into an error, or "panic" when a decision panicked.
	Failed func(where string)
}

// Outcome is how one attempt at an action ended, as a metric label.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"    // performed, or there was nothing to do
	Refused Outcome = "refused" // stale, denied, conflict or gone: repeating it is useless
	Retried Outcome = "retried" // failed, and will be tried again
	PutOff  Outcome = "putoff"  // the host's limit is reached: it sleeps until that is over
	GivenUp Outcome = "givenup" // failed for the last time
)

// The defaults of Config.
const (
	defaultWorkers = 2
	defaultPoll    = 5 * time.Second
)

// Engine runs queues. Run decides; the workers of AddWorkers perform. Both may
// run in the same process or not, in any number of copies on one store.
type Engine struct {
	store   Store
	host    gitprovider.Host
	decide  Decide
	clock   Clock
	log     *slog.Logger
	workers int
	poll    time.Duration
	site    texts.Site
	bots    map[string]bool // in lower case
	// privileged is Config.Privileged.
	privileged gitprovider.Permission
	newID      func() string
	hooks      Hooks

	routing  bell // unrouted facts may wait
	deciding bell // a queue may be due
	timing   bell // the next wake time may have changed

	mu sync.Mutex // guards what follows; held for map operations only
	// failures counts the failed decisions of a queue in a row.
	failures map[queue.ID]int
	// next is the wake time that keepTime waits for, if sure: see waits.
	next time.Time
	sure bool
	// repos remembers which repository a queue belongs to: it never changes.
	repos map[queue.ID]queue.RepoID
	// upTo is the newest version of an entry that this process told people
	// about: older work has nothing to add. It only spares calls: a restart, or
	// another copy, does without.
	upTo map[queue.EntryID]int64
}

// mostTold bounds Engine.upTo.
const mostTold = 20000

// New makes an engine. It starts nothing. The error names everything that is
// missing.
func New(c Config) (*Engine, error) {
	var missing []error
	if c.Store == nil {
		missing = append(missing, errors.New("make engine: Config.Store is nil; package db has one"))
	}
	if c.Host == nil {
		missing = append(missing, errors.New("make engine: Config.Host is nil; package gitprovider/github has one"))
	}
	if err := errors.Join(missing...); err != nil {
		return nil, err
	}
	e := &Engine{
		store: c.Store, host: c.Host, decide: c.Decide,
		clock: c.Clock, log: c.Log,
		workers: cmp.Or(max(c.Workers, 0), defaultWorkers),
		poll:    cmp.Or(max(c.Poll, 0), defaultPoll),
		site:    c.Site, bots: map[string]bool{}, privileged: cmp.Or(c.Privileged, gitprovider.AdminPermission), newID: c.NewID, hooks: c.Hooks,
		routing: newBell(), deciding: newBell(), timing: newBell(),
		failures: map[queue.ID]int{}, repos: map[queue.ID]queue.RepoID{}, upTo: map[queue.EntryID]int64{},
	}
	if e.decide == nil {
		e.decide = queue.Reconcile
	}
	if e.clock == nil {
		e.clock = Wall{}
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.newID == nil {
		e.newID = uuid.NewString
	}
	for _, login := range c.AllowedBots {
		e.bots[strings.ToLower(login)] = true
	}
	return e, nil
}
