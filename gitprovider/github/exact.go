package github

import (
	"context"
	"fmt"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// exact moves the target from where it is expected to the commit of the last
// step, by one compare-and-swap push that is also a fast-forward.
func (l *landing) exact(ctx context.Context) error {
	steps, err := l.onTarget(ctx)
	if err != nil || l.end.Trouble != "" {
		return err
	}
	for i := range l.rest() {
		if err := l.retarget(ctx, len(l.end.Landed)+i); err != nil {
			return err
		}
	}
	// An open draft whose head the target reaches would be marked merged.
	for _, number := range l.work.Drafts {
		if err := l.c.closePull(ctx, l.k, l.repo, number); err != nil {
			return err
		}
	}
	last := steps[len(steps)-1]
	if err := l.announced(ctx, last.PR, last.Commit, func(ctx context.Context) error { return l.push(ctx, last) }); err != nil || l.end.Trouble != "" {
		return err
	}
	for i, s := range l.rest() {
		l.landed(ctx, s, steps[i].Commit, steps[i].Tree, s.Tree)
	}
	l.closeLanded(ctx)
	return nil
}

// push moves the target to the last step, and finds out whether it did.
func (l *landing) push(ctx context.Context, last queue.Step) error {
	l.begun = true
	err := l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) error {
		return l.c.mirrors.Advance(ctx, src, l.work.Branch, l.target, last.Commit)
	})
	if err != nil {
		return l.afterPush(ctx, last.Commit, err)
	}
	l.arrived(last)
	return nil
}

// arrived notes that the target is at the last step: the host's own answer
// to the push says so.
func (l *landing) arrived(last queue.Step) {
	l.target, l.tree = last.Commit, last.Tree
	l.end.Commit, l.end.Tree = last.Commit, last.Tree
}

// afterPush reads back what became of a push that did not say yes and notes
// what stopped it. No error and no trouble: it is on the target after all. An
// error means that the push did nothing, as far as can be seen, and may be
// repeated.
func (l *landing) afterPush(ctx context.Context, pushed string, outcome error) error {
	expected := l.target
	if err := l.readTarget(ctx); err != nil {
		return fmt.Errorf("%w (and then: %w)", outcome, err)
	}
	if l.target == pushed {
		return nil
	}
	if l.target != expected {
		// Somebody moved it. Did our push come first?
		gained, _, err := l.gained(ctx)
		if err != nil {
			return err
		}
		if !has(gained, pushed) {
			l.stop(queue.TroubleStale, "", fmt.Sprintf("%s has moved to %.10s", l.work.Branch, l.target))
		}
		return nil
	}
	switch gitprovider.KindOf(outcome) {
	case gitprovider.Denied:
		entry := queue.EntryID("")
		if l.left() == 1 {
			entry = l.rest()[0].Entry
		}
		l.stop(queue.TroubleDenied, entry, withRemedy("the host refuses the push to "+l.work.Branch+": "+outcome.Error(), l.pushRemedy(outcome.Error())))
		return nil
	case gitprovider.Stale:
		l.stop(queue.TroubleStale, "", outcome.Error())
		return nil
	default:
		return outcome
	}
}

// onTarget returns the remaining steps as they will land: the tested commits
// if they stand on the target's commit, else the same changes written again
// on it, with equal trees or not at all.
func (l *landing) onTarget(ctx context.Context) ([]queue.Step, error) {
	stand, steps, err := l.stand(ctx)
	if err != nil {
		return nil, err
	}
	if !stand {
		steps, err = l.rewritten(ctx)
		if err != nil || l.end.Trouble != "" {
			return nil, err
		}
	}
	if !l.asTested(steps) {
		return nil, nil
	}
	return steps, nil
}

// stand reports whether the tested commits of the remaining steps stand one
// on the other and the first on the target. It says no for rebased steps,
// which are several commits each: writing them again makes the same ones.
func (l *landing) stand(ctx context.Context) (bool, []queue.Step, error) {
	if l.work.Method == queue.Rebase {
		return false, nil, nil
	}
	var ids []string
	var steps []queue.Step
	for _, s := range l.rest() {
		if s.Commit == "" {
			return false, nil, nil
		}
		ids = append(ids, s.Commit)
	}
	var commits []mirror.Commit
	err := l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) (err error) {
		commits, err = l.c.mirrors.Read(ctx, src, ids...)
		return err
	})
	if gitprovider.KindOf(err) == gitprovider.Stale {
		return false, nil, nil // lost; they can be written again
	}
	if err != nil {
		return false, nil, err
	}
	on := l.target
	for i, k := range commits {
		if len(k.Parents) == 0 || k.Parents[0] != on {
			return false, nil, nil
		}
		on = k.ID
		step := l.rest()[i].Step
		step.Commit, step.Tree = k.ID, k.Tree
		steps = append(steps, step)
	}
	return true, steps, nil
}
