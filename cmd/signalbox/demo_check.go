package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox/api"
	"signalbox/db"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// auditor compares what is on main, as git has it, with the rule of the CI and
// with what the database says was tested.
type auditor struct {
	sim    *githubsim.Server
	client *api.Queue // names the queue
	db     *db.DB
}

// findings are what a check looked at.
type findings struct {
	commits int           // on main, without the first
	landed  map[int64]int // commits on main of each pull request
	tested  int           // of the commits, those with a run of their own
	sha     map[int64]string
}

// check looks at every commit of main. Its error names every promise that was
// broken.
func (c *auditor) check(ctx context.Context) (findings, error) {
	found := findings{landed: map[int64]int{}, sha: map[int64]string{}}
	repo := c.client.Owner + "/" + c.client.Name
	log, err := c.sim.Log(ctx, repo, c.client.Branch)
	if err != nil {
		return found, fmt.Errorf("read the history of main: %w", err)
	}
	org, err := c.db.CreateOrganization(ctx, c.client.Owner)
	if err != nil {
		return found, err
	}
	q, err := c.db.FindQueue(ctx, org.ID, c.client.Host, c.client.Owner, c.client.Name, c.client.Branch)
	if err != nil {
		return found, err
	}
	var broken []error
	slices.Reverse(log)
	for i, commit := range log {
		for _, check := range demoChecks {
			if passes, err := c.sim.CIRule(ctx, repo, check, commit.SHA); err != nil || !passes {
				broken = append(broken, errors.Join(fmt.Errorf("main is not green: %.12s fails %s", commit.SHA, check), err))
			}
		}
		if i == 0 {
			continue // the repository's first commit
		}
		found.commits++
		pr := int64(commit.PR)
		found.landed[pr]++
		found.sha[pr] = commit.SHA
		if err := c.tested(ctx, q, commit); err != nil {
			broken = append(broken, err)
		} else {
			found.tested++
		}
	}
	for pr, times := range found.landed {
		if times > 1 {
			broken = append(broken, fmt.Errorf("#%d landed %d times", pr, times))
		}
	}
	return found, errors.Join(broken...)
}

// tested checks that a commit's tree is the tree of a run that passed, and
// that the run belongs to the pull request that landed with it.
func (c *auditor) tested(ctx context.Context, q queue.Queue, commit githubsim.Logged) error {
	if commit.PR == 0 {
		return fmt.Errorf("%.12s is on main, and nobody knows of which pull request", commit.SHA)
	}
	e, err := c.db.Entry(ctx, q.ID, int64(commit.PR))
	if err != nil {
		return fmt.Errorf("#%d is on main: %w", commit.PR, err)
	}
	if e.State != queue.Merged || e.LandedCommit != commit.SHA {
		return fmt.Errorf("#%d is on main as %.12s, and the queue calls it %s at %.12q", commit.PR, commit.SHA, e.State, e.LandedCommit)
	}
	run, _, err := c.db.Run(ctx, q.ID, e.VerifiedBy)
	if err != nil {
		return fmt.Errorf("#%d landed, and the run that tested it is not there: %w", commit.PR, err)
	}
	if run.State != queue.RunPassed || run.Tree != commit.Tree {
		return fmt.Errorf("#%d landed tree %.12s, and its run %s (%s) tested %.12s", commit.PR, commit.Tree, run.ID, run.State, run.Tree)
	}
	return nil
}
