package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox/queue"
)

// blame finds out with whom step i conflicts: with the target itself, else
// with the first step before it on whose commit it no longer merges.
func (b *builder) blame(ctx context.Context, made Made, run queue.BuildRun, i int, why *conflictError) (Made, error) {
	s := run.Chain[i]
	own := i >= len(run.Chain)-run.Own
	with, number := queue.EntryID(""), int64(0)
	base, err := b.commit(ctx, made.Base.Commit)
	if err != nil {
		return made, err
	}
	clean, first, err := b.merges(ctx, base.tip(), run.Method, s)
	if err != nil {
		return made, err
	}
	if !clean {
		why = first
	}
	for j := 0; clean && j < i; j++ {
		with, number = run.Chain[j].Entry, run.Chain[j].PR
		id := made.Chain[j].Commit
		if id == "" || j == i-1 || slices.Contains(b.gone, id) {
			continue
		}
		at, err := b.commit(ctx, id)
		if err != nil {
			return made, err
		}
		var there *conflictError
		if clean, there, err = b.merges(ctx, at.tip(), run.Method, s); err != nil {
			return made, err
		}
		if !clean {
			why = there
		}
	}
	other := run.Target
	if with != "" {
		other = fmt.Sprintf("pull request %d", number)
	}
	message := fmt.Sprintf("pull request %d does not merge with %s: %s", s.PR, other, why)
	if !own && with == "" {
		// The chain is not what it was thought to be; nobody's own fault here. Two of the
		// chain that do not merge with each other may be of different lanes.
		return b.not(made, run, queue.TroubleStale, s.Entry, message), nil
	}
	made = b.not(made, run, queue.TroubleConflict, s.Entry, message)
	made.With = with
	return made, nil
}

// merges reports whether a step can be put on a tip.
func (b *builder) merges(ctx context.Context, on tip, method queue.MergeMethod, s queue.StepSpec) (bool, *conflictError, error) {
	_, err := b.oneStep(ctx, on, method, s)
	var conflict *conflictError
	if errors.As(err, &conflict) {
		return false, conflict, nil
	}
	return err == nil, nil, err
}
