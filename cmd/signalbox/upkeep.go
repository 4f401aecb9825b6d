package main

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

// How often the chores are done that nothing wakes.
const (
	presenceEvery  = 10 * time.Second // show that we live, take over from who does not
	maintainEvery  = time.Hour        // remove what was kept long enough
	connectEvery   = 10 * time.Minute // read what the App is installed on, in case a webhook was lost
	connectAgain   = 20 * time.Second // after a failure
	countEvery     = time.Minute      // count what has happened, for charts
	redeliverEvery = 5 * time.Minute  // have webhooks delivered again that did not arrive
)

// deliverySlack is how far back missed webhooks are looked for beyond the last
// one that arrived: the host does not deliver in order.
const deliverySlack = 10 * time.Minute

// connectTimeLimit bounds the reading of all installations.
const connectTimeLimit = 2 * time.Minute

// upkeep does the chores until ctx ends.
func (s *service) upkeep(ctx context.Context) {
	presence := time.NewTicker(presenceEvery)
	defer presence.Stop()
	maintain := s.clock.After(maintainEvery) // what is old is old by this clock
	redeliver := time.NewTicker(redeliverEvery)
	defer redeliver.Stop()
	count := time.NewTicker(countEvery)
	defer count.Stop()
	connect := time.NewTimer(connectEvery)
	defer connect.Stop()
	s.maintain(ctx)
	if !s.connected.Load() {
		connect.Reset(connectAgain)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-presence.C:
			s.watchJobs(ctx)
		case <-maintain:
			s.maintain(ctx)
			maintain = s.clock.After(maintainEvery)
		case <-redeliver.C:
			s.redeliver(ctx)
		case <-s.astray:
			s.look(ctx)
		case <-count.C:
			if _, err := s.db.CountHours(ctx); err != nil && ctx.Err() == nil {
				s.cfg.log.Warn("what has happened was not counted; it is tried again in a minute", "error", err)
			}
		case <-connect.C:
			s.connect(ctx)
			connect.Reset(connectEvery)
			if !s.connected.Load() {
				connect.Reset(connectAgain)
			}
		}
	}
}

// watchJobs frees jobs that nobody works: those of copies that ended, and our
// own whose start or end was lost with a connection to the database.
func (s *service) watchJobs(ctx context.Context) {
	err := s.presence.Renew(ctx)
	if err == nil {
		err = s.takeOver(ctx)
	}
	if err == nil {
		var n int64
		if n, err = s.presence.Release(ctx, s.jobs.inHand.jobs(time.Now())); n > 0 {
			s.cfg.log.Info("jobs that got lost with a connection to the database are worked again", "jobs", n)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.log.Warn("jobs that nobody works were not looked for; it is tried again soon", "error", err)
	}
}

func (s *service) maintain(ctx context.Context) {
	now := s.clock.Now()
	if err := errors.Join(s.db.Maintain(ctx, now), s.db.KeepTestsSoon(ctx, now)); err != nil && ctx.Err() == nil {
		s.cfg.log.Warn("old rows were not removed; it is tried again in an hour", "error", err)
	}
}

// connect reads what the App is installed on. A host that does not answer is
// no reason not to start: what is connected already works, and it is tried
// again.
func (s *service) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeLimit)
	defer cancel()
	before, err := s.db.Connected(ctx, s.cfg.host)
	if err == nil {
		var answer []account.Connection
		if answer, err = s.host.Installations(ctx); err == nil {
			for _, c := range changes(before, answer) {
				err = errors.Join(err, s.db.Connect(ctx, c))
			}
		}
	}
	s.connected.Store(err == nil)
	if err != nil {
		s.cfg.log.Error("what the App is installed on could not be read; it is tried again soon. Check the App's number, its key and the GitHub URL", "error", err)
	}
}

// wentAstray hears that the host does not let us work on a repository.
func (s *service) wentAstray(queue.Repo) {
	s.looking.Add(1)
	select {
	case s.astray <- struct{}{}:
	default:
		s.looking.Add(-1) // somebody is about to look
	}
}

// look reads what the App is installed on because something is not where it
// was, though not many times in a row: every action may find that out.
func (s *service) look(ctx context.Context) {
	defer s.looking.Add(-1)
	now := s.clock.Now()
	if now.Sub(s.looked) < connectAgain {
		return
	}
	s.looked = now
	s.connect(ctx)
}

// catchUp has everything read that a server could have missed that did not
// run: what queues wait for, and webhooks that found nobody.
func (s *service) catchUp(ctx context.Context) {
	if err := s.db.ResyncSoon(ctx, s.clock.Now()); err != nil {
		s.cfg.log.Warn("a resync was not asked for; the next one comes by itself in two minutes", "error", err)
	}
	s.redeliver(ctx)
}

// redeliver asks the host for webhooks that did not arrive, and looks for what
// webhooks would have told that the host does not send again. What did arrive is
// known by its id and changes nothing.
func (s *service) redeliver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeLimit)
	defer cancel()
	last, err := s.db.LastDelivery(ctx)
	if err != nil || last.IsZero() {
		last = s.clock.Now() // nothing ever arrived: there is nothing to go on from
	}
	since := last.Add(-deliverySlack)
	if !s.redelivered.IsZero() && s.redelivered.Before(since) {
		since = s.redelivered
	}
	asked := s.clock.Now()
	n, err := s.host.Redeliver(ctx, since)
	if n > 0 {
		s.cfg.log.Info("webhooks that did not arrive are delivered again", "webhooks", n)
	}
	if err != nil {
		s.cfg.log.Warn("missed webhooks were not looked for; a resync finds what they said, and commands are looked for in comments", "error", err)
	} else {
		s.redelivered = asked.Add(-deliverySlack)
	}
	s.findCommands(ctx, since)
	s.findStrays(ctx)
}

// visitsAtOnce is at how many repositories chores look at a time.
const visitsAtOnce = 8

// visit has do called for each of many, some at a time and in any order, so that
// whoever runs out of time does not always miss the same ones. It returns what
// went wrong.
func visit[T any](all []T, do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(visitsAtOnce)
	errs := make([]error, len(all))
	for _, i := range rand.Perm(len(all)) {
		group.Go(func() error {
			errs[i] = do(all[i])
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(errs...))
}

// findCommands looks for commands in comments of which the host sent no
// webhook and knows of no failure. It costs a call for each repository that
// has a queue, every five minutes, and that one is free while no comment there
// changes. Commands in reviews are not looked for: they would take a call for
// each pull request. What was said before there was a queue was not said to us.
func (s *service) findCommands(ctx context.Context, since time.Time) {
	listening, err := s.db.Listening(ctx)
	var mu sync.Mutex // of heard
	err = errors.Join(err, visit(listening, func(l db.Listening) error {
		mu.Lock()
		from, known := s.heard[l.Repo.ID]
		mu.Unlock()
		if !known {
			from = since
		}
		if from.Before(l.Since) {
			from = l.Since
		}
		comments, err := s.host.Comments(ctx, l.Repo, from)
		n := 0
		if err == nil {
			n, err = s.hooks.Missed(ctx, l.Repo.HostID, comments)
		}
		if n > 0 {
			s.cfg.log.Info("commands of which no webhook came were found", "repo", l.Repo.String(), "commands", n)
		}
		if err != nil {
			return err
		}
		if len(comments) > 0 {
			from = comments[len(comments)-1].Updated
		}
		mu.Lock()
		defer mu.Unlock()
		s.heard[l.Repo.ID] = from
		return nil
	}))
	if err != nil && ctx.Err() == nil {
		s.cfg.log.Warn("comments were not looked through for missed commands; it is tried again in five minutes", "error", err)
	}
}

const (
	// strayFor is for how long after the last run was asked for a repository is
	// looked at each time for branches that arrived late, and how often after that:
	// hardly a network holds a push back as long.
	strayFor = 24 * time.Hour
	// strayAfter is when a branch whose run has ended should be gone: before, its
	// removal may still be under way.
	strayAfter = 5 * time.Minute
)

// findStrays looks for test branches that are on the host although their runs
// have ended: a push that hung in the network may arrive when its branch has been
// removed, and its webhook may be lost. The queue is told of them as that webhook
// would have done, and has them removed. It costs a call for each repository with
// a run of the last day, and for each other with a run a call a day, spread over it.
// A branch of which we do not know that its run has ended
// is left alone.
func (s *service) findStrays(ctx context.Context) {
	now := s.clock.Now()
	turns := int64(strayFor / redeliverEvery)
	repos, err := s.db.Tested(ctx, now.Add(-strayFor), now.Unix()/int64(redeliverEvery/time.Second)%turns, turns)
	err = errors.Join(err, visit(repos, func(repo queue.Repo) error {
		there, err := s.host.TestBranches(ctx, repo)
		if err != nil || len(there) == 0 {
			return err
		}
		strays, err := s.db.Strays(ctx, repo.ID, slices.Sorted(maps.Keys(there)), now.Add(-strayAfter))
		for _, stray := range strays {
			s.cfg.log.Warn("a test branch was left over by a run that has ended; it is removed", "repo", repo.String(), "branch", stray.Branch)
			err = errors.Join(err, s.db.Append(ctx, repo.ID, stray.Queue, queue.TestBranchMoved{Branch: stray.Branch, After: there[stray.Branch]}))
		}
		s.metrics.strays.Add(float64(len(strays)))
		return err
	}))
	if err != nil && ctx.Err() == nil {
		s.cfg.log.Warn("test branches that are left over were not looked for; it is tried again in five minutes", "error", err)
	}
}
