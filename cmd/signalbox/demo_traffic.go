package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"signalbox/gitprovider/githubsim"
)

// people are the authors of the demo.
var people = []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "olivia"}

// works are what they do, and where.
var works = []struct{ title, path string }{
	{"Cache the parsed templates", "template/cache.go"},
	{"Close idle connections", "net/idle.go"},
	{"Explain the error", "report/error.go"},
	{"Retry what may work later", "net/retry.go"},
	{"Drop the old flag", "cmd/flags.go"},
	{"Read the file once", "store/read.go"},
	{"Sort before comparing", "report/sort.go"},
	{"Count in bytes", "store/size.go"},
	{"Name the timeout", "net/timeout.go"},
	{"Test the empty case", "template/empty.go"},
}

// traffic goes on until ctx ends.
func (d *demoCommand) traffic(ctx context.Context, s *stage, tell *narrator) error {
	p := &play{sim: s.sim, client: newClient(s.where, s.where.AdminToken, demoRepo), tell: tell.say}
	if err := p.prepare(ctx, githubsim.CI{
		MinSeconds: d.CIMin.Seconds(), MaxSeconds: d.CIMax.Seconds(), FlakeRate: d.FlakeRate, Seed: d.Seed,
	}); err != nil {
		return err
	}
	tell.say("Dashboard %s   GitHub %s/%s   (Ctrl-C stops everything)", s.where.Dashboard, s.where.GitHub, p.repo())
	tests := newDemoTests(s, p.client)
	tell.say("CI sends the test reports of the last two weeks")
	if err := tests.history(ctx, time.Now()); err != nil && ctx.Err() == nil {
		return err
	}
	dice := rand.New(rand.NewPCG(uint64(d.Seed), 2))
	next := time.NewTimer(0)
	defer next.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			tell.say("Stopping.")
			return nil
		case err := <-s.ended:
			s.done = true
			return errors.Join(errors.New("the server ended by itself"), err)
		case <-next.C:
		}
		if err := d.contribute(ctx, p, dice, n); err != nil && ctx.Err() == nil {
			return err
		}
		run := demoRun{at: time.Now()}
		if dice.IntN(4) == 0 {
			run.failed = []string{flakyTest}
		}
		if o := tests.send(ctx, run); len(run.failed) > 0 {
			tell.say("a test fails on main: %s", o.verdict.Text)
		}
		next.Reset(time.Duration((0.5 + dice.Float64()) * float64(d.Pace)))
	}
}

// contribute opens the nth pull request and asks for it to be merged.
func (d *demoCommand) contribute(ctx context.Context, p *play, dice *rand.Rand, n int) error {
	author := people[dice.IntN(d.Authors)]
	work := works[dice.IntN(len(works))]
	path := fmt.Sprintf("%s.%d", work.path, n)
	files := map[string]string{path: author + "\n"}
	how := ""
	if dice.Float64() < d.FailureRate {
		check := demoChecks[dice.IntN(len(demoChecks))]
		rule, other := fmt.Sprintf(".ci-sim/%s/%d", check, n), fmt.Sprintf("%d", n-1)
		if files[rule] = ""; dice.IntN(2) == 0 && n > 1 {
			// It breaks only together with the change before it.
			files[rule] = "mark/" + other + "\n" + path + "\n"
		}
		how = " (it breaks something)"
	}
	files[fmt.Sprintf("mark/%d", n)] = "\n" // what a later change may break with
	opened, err := p.sim.OpenPull(ctx, githubsim.OpenPull{Repo: p.repo(), Title: work.title, Author: author, Files: filesOf(files)})
	if err != nil {
		return err
	}
	p.tell("%s opens #%d: %s%s", author, opened.Number, work.title, how)
	comment := "/merge"
	if dice.IntN(10) == 0 {
		comment = "/merge --priority=high"
	}
	if _, err := p.sim.Comment(p.repo(), opened.Number, author, comment); err != nil {
		return err
	}
	if dice.IntN(20) == 0 {
		p.tell("%s changes their mind about #%d: /cancel", author, opened.Number)
		_, err = p.sim.Comment(p.repo(), opened.Number, author, "/cancel")
	}
	return err
}
