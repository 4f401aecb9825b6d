package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// buildRuns makes and publishes test branches. A failure is one of every run
// that was asked for: an error of Build means that nothing is known of any.
func (e *Engine) buildRuns() deed[queue.BuildRuns] {
	return deed[queue.BuildRuns]{
		place: func(ctx context.Context, a queue.BuildRuns) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.BuildRuns) ([]queue.Fact, error) {
			return e.host.Build(ctx, at.repo, a)
		},
		failed: func(a queue.BuildRuns, f failure) []queue.Fact {
			facts := make([]queue.Fact, len(a.Runs))
			for i, r := range a.Runs {
				facts[i] = queue.RunNotBuilt{Run: r.Run, Trouble: f.trouble, Message: f.message}
			}
			return facts
		},
		about: func(a queue.BuildRuns) []any {
			runs := make([]queue.RunID, len(a.Runs))
			for i, r := range a.Runs {
				runs[i] = r.Run
			}
			return []any{"queue", a.Queue, "runs", runs}
		},
	}
}

// stopRun takes a run off the host. No decision waits for it: what cannot be
// removed is litter, and logged.
func (e *Engine) stopRun() deed[queue.StopRun] {
	return deed[queue.StopRun]{
		place: func(ctx context.Context, a queue.StopRun) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.StopRun) ([]queue.Fact, error) {
			err := e.host.Stop(ctx, at.repo, a)
			if err != nil && gitprovider.KindOf(err) == gitprovider.Gone {
				return nil, nil
			}
			return nil, err
		},
		about: func(a queue.StopRun) []any { return []any{"queue", a.Queue, "run", a.Run} },
	}
}

// land puts steps on the target. A repetition is safe because Land first finds
// out what an earlier attempt did.
//
// Where a rule of the host requires our own status check, Host.Land sets it to
// success first, on the heads of the pull requests (host landing) or on the
// tested commit (exact). The SyncPR that follows the landing corrects it if the
// landing failed.
func (e *Engine) land() deed[queue.Land] {
	return deed[queue.Land]{
		place: func(ctx context.Context, a queue.Land) (queue.Repo, queue.ID, error) { return e.inQueue(ctx, a.Queue) },
		do: func(ctx context.Context, at task, a queue.Land) ([]queue.Fact, error) {
			ended, seen, err := e.host.Land(ctx, at.repo, a, func(ctx context.Context, number int64, do func(context.Context) error) error {
				return e.store.InTurn(ctx, at.repo.ID, number, do)
			})
			if err != nil {
				return nil, err
			}
			facts := []queue.Fact{ended}
			for _, pr := range seen {
				facts = append(facts, pr)
			}
			return facts, nil
		},
		failed: func(a queue.Land, f failure) []queue.Fact {
			if f.again {
				// An earlier attempt may have landed something: whatever
				// this one ran into, nobody knows how it went.
				f.trouble = queue.TroubleTransient
			}
			return []queue.Fact{queue.LandingEnded{Landing: a.Landing, Trouble: f.trouble, Message: f.message}}
		},
		about: func(a queue.Land) []any { return []any{"queue", a.Queue, "landing", a.Landing, "steps", len(a.Steps)} },
	}
}

// refreshPR reads a pull request and its mergeability.
func (e *Engine) refreshPR() deed[queue.RefreshPR] {
	return deed[queue.RefreshPR]{
		place: func(ctx context.Context, a queue.RefreshPR) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.RefreshPR) ([]queue.Fact, error) {
			if len(a.Stack) > 0 {
				return e.host.Stack(ctx, at.repo, a.Branch, append(slices.Clone(a.Stack), a.PR))
			}
			facts, err := e.host.Mergeability(ctx, at.repo, a.PR)
			if err != nil {
				return nil, err
			}
			if ended, gone := facts[0].(queue.RefreshEnded); gone {
				return nil, cmp.Or(e.present(ctx, at.repo), error(&gitprovider.Error{Kind: gitprovider.Gone, Message: ended.Message}))
			}
			if a.Direct {
				direct, err := e.host.Direct(ctx, at.repo, a.PR, a.Branch, a.RequiredStatuses)
				if err != nil {
					return nil, err
				}
				facts = append(facts, direct)
			}
			return facts, nil
		},
		failed: func(a queue.RefreshPR, f failure) []queue.Fact {
			return []queue.Fact{queue.RefreshEnded{PR: a.PR, Gone: f.kind == gitprovider.Gone, Message: f.message}}
		},
		about: func(a queue.RefreshPR) []any { return []any{"queue", a.Queue, "pr", a.PR} },
	}
}

// readTarget reads the head of the queue's branch. A failure needs no fact:
// the read has a deadline in the queue, after which it is asked for again.
func (e *Engine) readTarget() deed[queue.ReadTarget] {
	return deed[queue.ReadTarget]{
		place: func(ctx context.Context, a queue.ReadTarget) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.ReadTarget) ([]queue.Fact, error) {
			read, err := e.target(ctx, at.repo, a.Branch, a.Version)
			if err == nil && read.Missing {
				err = e.present(ctx, at.repo)
			}
			if err != nil {
				return nil, err
			}
			return []queue.Fact{read}, nil
		},
		about: func(a queue.ReadTarget) []any { return []any{"queue", a.Queue, "branch", a.Branch} },
	}
}

func (e *Engine) target(ctx context.Context, repo queue.Repo, branch string, version int64) (queue.TargetRead, error) {
	commit, tree, err := e.host.Target(ctx, repo, branch)
	switch {
	case err == nil:
		return queue.TargetRead{Commit: commit, Tree: tree, Version: version}, nil
	case gitprovider.KindOf(err) == gitprovider.Gone:
		return queue.TargetRead{Missing: true, Version: version}, nil
	default:
		return queue.TargetRead{}, err
	}
}

// readChecks reads all reports on a commit. A failure needs no fact: a resync
// reads them again while the run lives.
func (e *Engine) readChecks() deed[queue.ReadChecks] {
	return deed[queue.ReadChecks]{
		place: func(ctx context.Context, a queue.ReadChecks) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.ReadChecks) ([]queue.Fact, error) {
			return e.checks(ctx, at.repo, a.Commit)
		},
		about: func(a queue.ReadChecks) []any { return []any{"queue", a.Queue, "run", a.Run, "sha", a.Commit} },
	}
}

func (e *Engine) checks(ctx context.Context, repo queue.Repo, commit string) ([]queue.Fact, error) {
	reports, err := e.host.Checks(ctx, repo, commit)
	if err != nil {
		return nil, err
	}
	facts := make([]queue.Fact, len(reports))
	for i, r := range reports {
		facts[i] = queue.CheckReported{Commit: commit, Report: r}
	}
	return facts, nil
}

// preflight looks at a queue's set-up on the host. A failure is a finding, too.
func (e *Engine) preflight() deed[queue.RunPreflight] {
	return deed[queue.RunPreflight]{
		place: func(ctx context.Context, a queue.RunPreflight) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.RunPreflight) ([]queue.Fact, error) {
			seen, err := e.host.Preflight(ctx, at.repo, a)
			if err != nil {
				return nil, err
			}
			return []queue.Fact{seen}, nil
		},
		failed: func(a queue.RunPreflight, f failure) []queue.Fact {
			return []queue.Fact{queue.PreflightSeen{Failed: true, Findings: []queue.Finding{{
				Check: "preflight", Level: queue.LevelUnknown, Message: "The set-up could not be looked at: " + f.message,
				Action: "Nothing, unless this stays: it is tried again in ten minutes.",
			}}}}
		},
		about: func(a queue.RunPreflight) []any { return []any{"queue", a.Queue, "branch", a.Branch} },
	}
}

// resync reads everything that a queue waits for. One thing that cannot be
// read does not keep the others from being read; only when nothing could be
// read is it tried again.
func (e *Engine) resync() deed[queue.Resync] {
	ended := func(a queue.Resync) queue.Fact { return queue.ResyncEnded{Resync: a.Resync} }
	return deed[queue.Resync]{
		place: func(ctx context.Context, a queue.Resync) (queue.Repo, queue.ID, error) {
			return e.inQueue(ctx, a.Queue)
		},
		do: func(ctx context.Context, at task, a queue.Resync) ([]queue.Fact, error) {
			facts, err := e.readAll(ctx, at.repo, a)
			if err != nil {
				return nil, err
			}
			return append(facts, ended(a)), nil
		},
		failed: func(a queue.Resync, f failure) []queue.Fact { return []queue.Fact{ended(a)} },
		about:  func(a queue.Resync) []any { return []any{"queue", a.Queue, "resync", a.Resync} },
	}
}

// prsTogether is how many pull requests a resync asks about at a time.
const prsTogether = 25

// readAll reads what a resync names: the target, the runs' checks, the pull
// requests. Each resync begins its list of pull requests elsewhere, so that
// one that runs out of time does not always miss the same ones.
func (e *Engine) readAll(ctx context.Context, repo queue.Repo, a queue.Resync) ([]queue.Fact, error) {
	var facts []queue.Fact
	var first error // the first failure
	read := false   // something could be read
	note := func(what string, subject any, err error) {
		if err == nil {
			read = true
			return
		}
		e.log.Warn("resync could not read one thing", "queue", a.Queue, what, subject, "error", err)
		if first == nil {
			first = fmt.Errorf("read %s %v: %w", what, subject, err)
		}
	}
	target, err := e.target(ctx, repo, a.Branch, a.Version)
	if err == nil {
		facts = append(facts, target)
	}
	note("branch", a.Branch, err)
	if target.Missing {
		if err := e.present(ctx, repo); err != nil {
			return nil, err
		}
	}
	for _, commit := range a.Commits {
		reports, err := e.checks(ctx, repo, commit)
		facts = append(facts, reports...)
		note("sha", commit, err)
	}
	if len(a.Branches) > 0 {
		moved, err := e.movedBranches(ctx, repo, a.Branches)
		facts = append(facts, moved...)
		note("branches", len(a.Branches), err)
	}
	if len(a.Waiting) > 0 {
		changed, err := e.changedWaiting(ctx, repo, a.Branch, a.Waiting)
		facts = append(facts, changed...)
		note("waiting", len(a.Waiting), err)
	}
	from := int(uint64(a.Resync) % uint64(max(len(a.PRs), 1)))
	for some := range slices.Chunk(slices.Concat(a.PRs[from:], a.PRs[:from]), prsTogether) {
		list, err := e.host.Mergeability(ctx, repo, some...)
		facts = append(facts, list...)
		note("prs", some, err)
		if ctx.Err() != nil {
			break // what was read counts; the rest is for the next resync
		}
	}
	if !read {
		return nil, first
	}
	return facts, nil
}

// movedBranches tells which test branches are not where they were put.
func (e *Engine) movedBranches(ctx context.Context, repo queue.Repo, expected map[string]string) ([]queue.Fact, error) {
	heads, err := e.host.TestBranches(ctx, repo)
	if err != nil {
		return nil, err
	}
	var facts []queue.Fact
	for _, branch := range slices.Sorted(maps.Keys(expected)) {
		if heads[branch] != expected[branch] {
			facts = append(facts, queue.TestBranchMoved{Branch: branch, After: heads[branch]})
		}
	}
	return facts, nil
}

// mostStrays bounds how many pull requests that are not in the list of open
// ones are read one by one in a resync; the rest is for the next.
const mostStrays = 20

// changedWaiting tells what is different about pull requests that wait: one
// list for all of them, and one read for each that is not in it any more.
func (e *Engine) changedWaiting(ctx context.Context, repo queue.Repo, branch string, waiting map[int64]string) ([]queue.Fact, error) {
	list, err := e.host.OpenPullRequests(ctx, repo, branch)
	if err != nil {
		return nil, err
	}
	var facts []queue.Fact
	there := map[int64]bool{}
	for _, pr := range list {
		head, waits := waiting[pr.Number]
		if there[pr.Number] = true; waits && (pr.Head != head || pr.Draft) {
			facts = append(facts, pr)
		}
	}
	strays := 0
	for _, number := range slices.Sorted(maps.Keys(waiting)) {
		if there[number] || strays == mostStrays {
			continue
		}
		strays++
		seen, err := e.host.PullRequest(ctx, repo, number)
		switch {
		case err == nil:
			seen.Read = true
			facts = append(facts, seen)
		case gitprovider.KindOf(err) == gitprovider.Gone:
			facts = append(facts, queue.RefreshEnded{PR: number, Gone: true, Message: sentence(err)})
		default:
			return facts, err
		}
	}
	return facts, nil
}
