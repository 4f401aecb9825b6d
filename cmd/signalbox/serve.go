package main

import (
	"context"
	"errors"
	"time"
)

// serveCommand runs the server.
type serveCommand struct {
	settings
}

// tellingCalm is how long people are not told that a pull request moves on after
// it has: with the five seconds in which River looks for what has become due, twenty
// at most. Much has passed by then, and is told of once in place of three times: each
// telling is a call of the host. Of a submission and of an ending they hear at once.
const tellingCalm = 15 * time.Second

// gatherMost is how long reports of CI gather for a queue, at most, while many come
// that change nothing. It is a twentieth of what a reaction may take.
const gatherMost = 50 * time.Millisecond

// Run checks the settings and serves until ctx ends.
func (s *serveCommand) Run(ctx context.Context, c console) error {
	cfg, err := s.complete(ctx, true, c)
	if err != nil {
		return err
	}
	return serve(ctx, cfg, replacements{}, func(a addresses) {
		cfg.log.Info("ready", "listen", a.main, "metrics", a.metrics, "base_url", cfg.baseURL, "host", cfg.host, "version", programVersion())
	})
}

// addresses are where a server really listens.
type addresses struct {
	main, metrics string
	database      string // as a DSN
}

// serve runs one server from its first connection to the database until ctx
// ends, and then in order until everything has stopped. ready is called once,
// when it takes requests and works jobs.
//
//	database ─ migrate ─ listen ─ jobs ─ engine ─ what was missed ─ ready
func serve(ctx context.Context, cfg config, r replacements, ready func(addresses)) (err error) {
	log := cfg.log
	cfg.calm, cfg.gather = tellingCalm, gatherMost
	d, err := openDatabase(ctx, cfg.storageConfig, r.now(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	s, err := newService(cfg, d, r)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	where, err := s.start(ctx)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	ready(where)
	select {
	case <-ctx.Done():
		log.Info("stopping: work in hand is finished or handed back")
	case err = <-s.broken:
	case <-d.died():
		err = errors.New("the private Postgres has ended by itself; its log is above")
	}
	return errors.Join(err, s.stop())
}
