package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"signalbox/db"
	"signalbox/gitprovider/github"
	"signalbox/queue"
)

// doctorCommand looks at the set-up of queues on their host and says what is
// wrong and what to do. What it finds is kept, so that the pages show it too.
type doctorCommand struct {
	settings
	someQueues
	All  bool `help:"Show what is well, too."`
	JSON bool `name:"json" help:"Print JSON."`
}

// someQueues narrows a command down to some of the queues in the database.
type someQueues struct {
	Repo   string `help:"Only the queues of this repository, as owner/name."`
	Branch string `help:"Only the queues of this branch."`
}

// list lists them; there may be none.
func (s someQueues) list(ctx context.Context, d *db.DB) ([]queue.Queue, error) {
	queues, err := d.ListQueues(ctx)
	return slices.DeleteFunc(queues, func(q queue.Queue) bool {
		return s.Repo != "" && !strings.EqualFold(s.Repo, q.Repo.Owner+"/"+q.Repo.Name) || s.Branch != "" && s.Branch != q.Branch
	}), err
}

// errTrouble is the exit code of a doctor that found something.
var errTrouble = errors.New("something is wrong with the set-up; what to do is said above")

// examined is one queue with what was found.
type examined struct {
	Repo        string          `json:"repo"`
	Branch      string          `json:"branch"`
	LandingMode string          `json:"landingMode"`
	Problems    int             `json:"problems"`
	Findings    []queue.Finding `json:"findings"`
}

// Run looks at every queue that is asked for. It fails when one has a problem.
func (c *doctorCommand) Run(ctx context.Context, out console) error {
	cfg, err := c.complete(ctx, false, out)
	if err != nil {
		return err
	}
	d, err := openDatabase(ctx, cfg.storageConfig, nil, cfg.log)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	host, err := github.New(hostConfig(cfg))
	if err != nil {
		return err
	}
	queues, err := c.list(ctx, d.DB)
	if err != nil {
		return err
	}
	var all []examined
	for _, q := range queues {
		seen, err := host.Preflight(ctx, q.Repo, q.PreflightWork())
		if err != nil {
			return err
		}
		if err := d.Append(ctx, q.Repo.ID, q.ID, seen); err != nil {
			return err
		}
		q.Preflight.Findings, q.Preflight.NoExact = seen.Findings, seen.NoExact
		all = append(all, examined{q.Repo.String(), q.Branch, string(q.LandingMode()), q.Preflight.Problems(), seen.Findings})
	}
	if len(all) == 0 {
		return errors.New("there is no such queue: make one with createQueue, then look again")
	}
	return c.tell(out, all)
}

// tell prints what was found.
func (c *doctorCommand) tell(out console, all []examined) error {
	problems := 0
	for _, e := range all {
		problems += e.Problems
	}
	if c.JSON {
		if err := printJSON(out, all); err != nil {
			return err
		}
	} else {
		for _, e := range all {
			e.print(out.out, c.All)
		}
	}
	if problems > 0 {
		return errTrouble
	}
	return nil
}

// print writes a queue's findings for a person, with all also what is well.
func (e examined) print(w io.Writer, all bool) {
	fmt.Fprintf(w, "%s %s (lands by %s)\n", e.Repo, e.Branch, e.LandingMode)
	well := 0
	for _, f := range e.Findings {
		if f.Level == queue.LevelOK {
			well++
			if !all {
				continue
			}
		}
		fmt.Fprintf(w, "  %-8s %s\n", f.Level, f.Message)
		if f.Action != "" {
			fmt.Fprintf(w, "           → %s\n", f.Action)
		}
	}
	if well == len(e.Findings) {
		fmt.Fprintf(w, "  all is well (%d checks)\n", well)
	}
}
