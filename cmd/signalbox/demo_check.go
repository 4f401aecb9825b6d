package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/api"
	"signalbox/db"
	"signalbox/gitprovider/github"
	"signalbox/gitprovider/githubsim"
)

// auditor compares what is on main with what was tested, as verify-history does,
// and with the rule of the simulated CI.
type auditor struct {
	sim    *githubsim.Server
	host   *github.Client
	client *api.Queue // names the queue
	db     *db.DB
	// foreign are commits that somebody is known to have put there past the queue.
	foreign map[string]bool
}

// check looks at every commit of main. Its error names every promise that was
// broken. On a host where nobody else lands, a commit without a receipt is one.
func (c *auditor) check(ctx context.Context) (verified, error) {
	var v verified
	q, err := queueOf(ctx, c.db, c.client.Repo(), c.client.Branch)
	if err != nil {
		return v, err
	}
	if v, err = verify(ctx, c.db, c.host, q, time.Time{}); err != nil {
		return v, err
	}
	var broken []error
	for _, l := range v.Landings {
		if l.Told && len(c.foreign) > 0 {
			continue // GitHub merged on top of what somebody pushed at that moment, and the queue said so
		}
		if l.Problem != "" {
			broken = append(broken, fmt.Errorf("#%d landed as %.10s: %s", l.PR, l.Commit, l.Problem))
		}
	}
	for _, fault := range v.Faults {
		broken = append(broken, fmt.Errorf("the timeline: %s", fault))
	}
	for _, sha := range v.Others {
		if c.foreign[sha] {
			continue
		}
		broken = append(broken, fmt.Errorf("%.10s is on main, and nobody knows why", sha))
	}
	for pr, places := range v.landed {
		if len(places) > 1 {
			broken = append(broken, fmt.Errorf("#%d landed %d times", pr, len(places)))
		}
	}
	return v, errors.Join(append(broken, c.green(ctx))...)
}

// green asks the rule of the simulated CI about every commit of main.
func (c *auditor) green(ctx context.Context) error {
	repo := c.client.Owner + "/" + c.client.Name
	log, err := c.sim.Log(ctx, repo, c.client.Branch)
	if err != nil {
		return fmt.Errorf("read the history of main: %w", err)
	}
	var broken []error
	for _, commit := range log {
		for _, check := range demoChecks {
			if passes, err := c.sim.CIRule(ctx, repo, check, commit.SHA); err != nil || !passes {
				broken = append(broken, errors.Join(fmt.Errorf("main is not green: %.10s fails %s", commit.SHA, check), err))
			}
		}
	}
	return errors.Join(broken...)
}
