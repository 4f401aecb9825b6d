package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// demoCommand shows Signalbox at work without GitHub: a private Postgres, a
// simulated GitHub with real Git repositories, the real server, authors and CI.
type demoCommand struct {
	logging `group:"logging"`
	Once    bool   `xor:"way" help:"Land ten pull requests, one of each kind of trouble, check the history, and exit 0 only if all promises hold."`
	Serve   bool   `xor:"way" help:"Start everything without traffic, for a program that drives it."`
	Listen  string `default:"127.0.0.1:0" help:"Address of the server."`
	SignIn  bool   `help:"Have people sign in to the pages, as one of the demo's authors. Otherwise whoever opens them may do everything."`
	JSON    bool   `name:"json" help:"With --serve: print where everything is as one line of JSON."`

	Authors     int           `default:"5" help:"How many authors there are (1 to 12)."`
	Pace        time.Duration `default:"6s" help:"How often somebody opens a pull request."`
	CIMin       time.Duration `name:"ci-min" default:"8s" help:"How long the fastest run of CI takes."`
	CIMax       time.Duration `name:"ci-max" default:"24s" help:"How long the slowest run of CI takes."`
	FailureRate float64       `default:"0.15" help:"Share of pull requests that break something (0 to 1)."`
	FlakeRate   float64       `default:"0.02" help:"Share of CI runs that fail for no reason (0 to 1)."`
	Seed        int64         `default:"1" help:"The same seed, the same pull requests."`
}

// Validate reports every mistake at once.
func (d *demoCommand) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if d.Authors < 1 || d.Authors > len(people) {
		wrong("authors is %d: give a number from 1 to %d", d.Authors, len(people))
	}
	if d.Pace < 100*time.Millisecond {
		wrong("pace is %s: give at least 100ms", d.Pace)
	}
	if d.CIMin < 0 || d.CIMax < d.CIMin || d.CIMax > time.Hour {
		wrong("ci-min is %s and ci-max %s: give two durations up to an hour, the smaller one first", d.CIMin, d.CIMax)
	}
	for name, share := range map[string]float64{"failure-rate": d.FailureRate, "flake-rate": d.FlakeRate} {
		if share < 0 || share > 1 {
			wrong("%s is %v: give a share from 0 to 1", name, share)
		}
	}
	if d.JSON && !d.Serve {
		wrong("json goes with serve")
	}
	return errors.Join(problems...)
}

// Run sets the stage, plays, and clears it away.
func (d *demoCommand) Run(ctx context.Context, c console) (err error) {
	log, err := d.log(c)
	if err != nil {
		return err
	}
	tell := &narrator{out: c.out, start: time.Now()}
	if d.Serve {
		tell.out = io.Discard
	}
	tell.say("Starting a private Postgres, a simulated GitHub and the server …")
	o := stageOptions{listen: d.Listen, log: log, moved: tell.moved, seed: d.Seed, signIn: d.SignIn}
	if d.LogLevel == "debug" {
		o.simLog = log // Ctrl-C reaches its git processes too, and it complains
	}
	s, err := setStage(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.clear()) }()
	switch {
	case d.Serve:
		return d.serve(ctx, c, s)
	case d.Once:
		return d.once(ctx, c, s, tell)
	default:
		return d.traffic(ctx, s, tell)
	}
}

// log is quiet unless asked, because the demo narrates what happens.
func (d *demoCommand) log(c console) (*slog.Logger, error) {
	l := d.logging
	if l.LogLevel == "info" {
		l.LogLevel = "error"
		if d.Serve {
			l.LogLevel = "warn"
		}
	}
	return l.logger(c.err)
}

// serve says where everything is and waits. A program that started us and was
// killed cannot tell us so; we notice that we have another parent.
func (d *demoCommand) serve(ctx context.Context, c console, s *stage) error {
	ctx, stop := orphaned(ctx, time.Second)
	defer stop()
	var err error
	if d.JSON {
		err = printJSON(c, s.where)
	} else {
		_, err = fmt.Fprintf(c.out, "API        %s\ntoken      %s\nadmin      %s\nhost, org  %s, %s\ndashboard  %s\nGitHub     %s\ndatabase   %s\n",
			s.where.API, s.where.Token, s.where.AdminToken, s.where.Host, s.where.Org, s.where.Dashboard, s.where.GitHub, s.where.Database)
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.ended:
		return errors.Join(errors.New("the server ended by itself"), err)
	}
}

// orphaned ends a context when our parent dies. A broken pipe must not kill us
// before we have cleaned up.
func orphaned(ctx context.Context, every time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	signal.Ignore(syscall.SIGPIPE)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					stop()
				}
			}
		}
	}()
	return ctx, stop
}
