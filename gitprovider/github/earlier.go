package github

import (
	"context"
	"fmt"
	"slices"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// historyLimit bounds how far back the target is read to find what landed.
const historyLimit = 2000

// already finds out what an earlier attempt landed. Exact landings are found
// by the very commits in the target's history, those of the host by the merge
// commit that it names for a merged pull request.
func (l *landing) already(ctx context.Context) error {
	if l.target == l.work.Expect {
		return nil
	}
	gained, ok, err := l.gained(ctx)
	if err != nil {
		return err
	}
	if !ok {
		l.stop(queue.TroubleStale, "", fmt.Sprintf("%s is at %.10s, which does not extend %.10s", l.work.Branch, l.target, l.work.Expect))
		return nil
	}
	commits, err := l.landingCommits(ctx, gained)
	if err != nil {
		return err
	}
	var there []mirror.Commit // of the steps that landed
	last := -1
	for i := range l.work.Steps {
		at := slices.IndexFunc(gained, func(k mirror.Commit) bool { return commits[i] != "" && k.ID == commits[i] })
		if at <= last {
			break
		}
		last = at
		there = append(there, gained[at])
	}
	if len(there) > 0 {
		trees, err := l.wanted(ctx)
		if err != nil {
			return err
		}
		for i, k := range there {
			l.landed(ctx, l.work.Steps[i], k.ID, k.Tree, trees[i])
		}
	}
	if l.left() > 0 && last < len(gained)-1 {
		l.stop(queue.TroubleStale, "", fmt.Sprintf("%s has moved to %.10s", l.work.Branch, l.target))
	}
	return nil
}

// wanted are the trees that the steps had to give on the target as it was
// expected: those that were tested, or where others landed in between, those of
// merges that we compute, and noTree where that cannot be done.
func (l *landing) wanted(ctx context.Context) ([]string, error) {
	trees := make([]string, len(l.work.Steps))
	var merged []queue.Step
	if l.work.Recompute {
		var err error
		merged, err = l.rewrite(ctx, l.work.Expect, l.work.Steps)
		if kind := gitprovider.KindOf(err); err != nil && kind != gitprovider.Conflict && kind != gitprovider.Stale {
			return nil, err
		}
	}
	for i, s := range l.work.Steps {
		switch {
		case !l.work.Recompute:
			trees[i] = s.Tree
		case i < len(merged):
			trees[i] = merged[i].Tree
		default:
			trees[i] = noTree
		}
	}
	return trees, nil
}

// noTree is no tree: whatever landed is another one.
const noTree = "none"

func (l *landing) gained(ctx context.Context) ([]mirror.Commit, bool, error) {
	return l.since(ctx, l.work.Expect, historyLimit)
}

// since is what the target has gained since a commit, see mirror.Mirrors.Since.
func (l *landing) since(ctx context.Context, commit string, limit int) (gained []mirror.Commit, ok bool, err error) {
	err = l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) (err error) {
		gained, ok, err = l.c.mirrors.Since(ctx, src, l.work.Branch, commit, limit)
		return err
	})
	return gained, ok, err
}

// landingCommits are the commits with which the steps are, or would be, on
// the target; "" where nobody can know.
func (l *landing) landingCommits(ctx context.Context, gained []mirror.Commit) ([]string, error) {
	commits := make([]string, len(l.work.Steps))
	found := false
	for i, s := range l.work.Steps {
		commits[i] = s.Commit
		if merged := l.pulls[i].GetMergeCommitSHA(); l.seen[i].Merged && merged != "" && !has(gained, s.Commit) {
			commits[i] = merged
		}
		found = found || has(gained, commits[i])
	}
	if found || l.work.Mode != queue.LandExact {
		return commits, nil
	}
	// An exact landing may have written the steps again on the target.
	steps, err := l.rewrite(ctx, l.work.Expect, l.work.Steps)
	if kind := gitprovider.KindOf(err); kind == gitprovider.Conflict || kind == gitprovider.Stale {
		return commits, nil
	}
	for i, s := range steps {
		commits[i] = s.Commit
	}
	return commits, err
}

func has(list []mirror.Commit, id string) bool {
	return slices.ContainsFunc(list, func(k mirror.Commit) bool { return k.ID == id })
}

// rewrite builds steps on a commit; see mirror.Mirrors.Chain.
func (l *landing) rewrite(ctx context.Context, onto string, steps []queue.StepSpec) (built []queue.Step, err error) {
	err = l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) (err error) {
		built, err = l.c.mirrors.Chain(ctx, src, onto, l.work.Method, steps)
		return err
	})
	return built, err
}

// rewritten is the remaining steps written again on the target. What keeps
// them from it stops the landing.
func (l *landing) rewritten(ctx context.Context) ([]queue.Step, error) {
	steps, err := l.rewrite(ctx, l.target, l.rest())
	switch kind := gitprovider.KindOf(err); {
	case kind == gitprovider.Conflict:
		l.stop(queue.TroubleConflict, l.rest()[len(steps)].Entry, err.Error())
		return nil, nil
	case kind == gitprovider.Stale:
		l.stop(queue.TroubleStale, "", err.Error())
		return nil, nil
	case err != nil:
		return nil, err
	}
	return steps, nil
}

// asTested reports whether the remaining steps give the trees that were
// tested, where those are stated, and stops the landing if one does not.
func (l *landing) asTested(steps []queue.Step) bool {
	for i, s := range l.rest() {
		if want := l.stated(s); want != "" && steps[i].Tree != want {
			l.stop(queue.TroubleStale, "", fmt.Sprintf("on %.10s pull request %d gives another tree than the tested one", l.target, s.PR))
			return false
		}
	}
	return true
}
