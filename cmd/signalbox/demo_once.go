package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"signalbox/db"
	"signalbox/gitprovider/github"
	"signalbox/gitprovider/githubsim"
)

// onceLimit ends a demo in which something hangs. It takes half a minute on a
// machine that does nothing else, and several on a small one that is busy.
const onceLimit = 10 * time.Minute

// once plays ten pull requests, says how each ended, and checks the promises.
func (d *demoCommand) once(ctx context.Context, c console, s *stage, tell *narrator) error {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	p := &play{sim: s.sim, client: newClient(s.where, s.where.AdminToken, demoRepo), tell: tell.say}
	tell.say("Dashboard %s   GitHub %s/%s", s.where.Dashboard, s.where.GitHub, p.repo())
	err := p.prepare(ctx, githubsim.CI{MinSeconds: 1, MaxSeconds: 2})
	tests := newDemoTests(s, p.client)
	if err == nil {
		tell.say("CI sends the test reports of the last two weeks")
		err = tests.history(ctx, time.Now())
	}
	if err == nil {
		err = p.perform(ctx)
	}
	if err != nil {
		return errors.Join(errors.New("the demo did not come to its end"), err)
	}
	store, err := db.Open(ctx, db.Config{DSN: s.where.Database, MaxOpen: 2})
	if err != nil {
		return err
	}
	host, err := github.New(hostConfig(s.cfg))
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer host.Close()
	found, broken := (&auditor{sim: s.sim, host: host, client: p.client, db: store}).check(ctx)
	if err := errors.Join(p.table(c, found), store.Close()); err != nil {
		return err
	}
	found.print(c.out, false)
	told, unproven := tests.check(ctx)
	if err := errors.Join(p.verdicts(), broken, unproven); err != nil {
		return fmt.Errorf("promises were broken: %w", err)
	}
	_, err = fmt.Fprintf(c.out, "\n%d commits landed on main. Each of them passes CI, each has exactly the tree that was tested, and no pull request landed twice.\n%s\n", found.Commits, told)
	return err
}

// table prints how every pull request ended.
func (p *play) table(c console, found verified) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nPR\tAUTHOR\tENDED\tWHY\tLANDED AS\tTIME\n")
	for i, part := range tenParts {
		e := p.ended[i]
		sha := "-"
		if at := found.landed[int64(i+1)]; len(at) > 0 {
			sha = found.Landings[at[0]].Commit[:12]
		}
		fmt.Fprintf(t, "#%d\t%s\t%s\t%s\t%s\t%.1fs\n", i+1, part.author, e.State, e.Reason.Code, sha, e.ChangedAt.Sub(p.begun[i]).Seconds())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.out)
	for i, part := range tenParts {
		if e := p.ended[i]; e.State == "failed" {
			fmt.Fprintf(c.out, "#%d %q: %s\n", i+1, part.title, e.Reason.Message)
		}
	}
	return nil
}
