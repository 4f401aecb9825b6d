package queue

import (
	"cmp"
	"fmt"
	"slices"
)

// stale restarts the first group whose run no longer tests what would land.
// Groups in the landing in flight are judged when its result is known.
func (d *decision) stale() bool {
	for at, g := range d.line() {
		if d.groupLands(g.ID) {
			continue
		}
		if why, message, stale := d.staleness(at, g); stale {
			d.restart(g, why, message, Actor{})
			return true
		}
	}
	return d.staleParts()
}

// staleness says whether and why the group at that place of the line must be tested again.
func (d *decision) staleness(at int, g *Group) (Reason, string, bool) {
	r := d.s.run(g)
	if r == nil {
		d.directLost(g)
		return d.proofLost(g)
	}
	if r.Spoilt != "" {
		return GroupChanged, r.Spoilt, true
	}
	if r.State == RunPassed && r.MergeMethod != d.s.Queue.MergeMethod {
		return GroupChanged, fmt.Sprintf("The merge method of the queue is now %s; it was tested as %s.", d.s.Queue.MergeMethod, r.MergeMethod), true
	}
	exact := d.lineup().exact
	if exact[at] == r.ID && r.Base.Epoch == d.s.Queue.Target.Epoch {
		return "", "", false
	}
	chain, seq, current := d.left(r)
	if g.apart() && r.Base.Epoch == d.s.Queue.Target.Epoch { // others land before it, and it need not be on top of them
		chain, seq, current = r.Chain, r.Base.Seq, true
	}
	if !current {
		return ManualPushToTargetBranch, fmt.Sprintf("%s was moved from outside the queue, to %s.", d.s.Queue.Branch, short(d.s.Queue.Target.Commit)), true
	}
	ahead := d.ahead(g)
	groups := append(ahead[:len(ahead):len(ahead)], g)
	if d.isChain(chain, seq, groups...) {
		exact[at] = r.ID
		return "", "", false
	}
	why, message := d.whatChanged(r, d.withoutLanded(chain, seq), d.steps(groups...))
	return why, message, true
}

// unlanded returns what is left of a run's chain after the steps that have
// landed since it began. It is not current when the target moved in any other
// way: from outside, by another step, or by a step that landed another tree
// than the one the chain has. In parallel mode steps of other lanes land in
// between, and those of the chain in any order that keeps overlapping ones
// apart: what counts is that nothing it overlaps is missing.
func (d *decision) unlanded(r *Run) (rest []Step, current bool) {
	chain, seq, current := d.left(r)
	return d.withoutLanded(chain, seq), current
}

// left is the same before it is looked up what of the chain has landed after seq.
func (d *decision) left(r *Run) (chain []Step, seq int64, current bool) {
	switch {
	case r.Base.Epoch != d.s.Queue.Target.Epoch:
		return nil, 0, false
	case d.s.Queue.Mode == Parallel:
		return r.Chain, r.Base.Seq, true
	}
	chain = r.Chain
	for _, l := range d.landedSince(r.Base.Seq) {
		if len(chain) == 0 || !l.is(chain[0]) || chain[0].Tree != "" && chain[0].Tree != l.Tree {
			return nil, 0, false
		}
		chain = chain[1:]
	}
	return chain, d.s.Queue.LandedSeq(), true
}

// landedSince are the steps that have landed after the one with that number.
func (d *decision) landedSince(seq int64) []Landed {
	landed := d.s.Queue.Landed
	at, _ := slices.BinarySearchFunc(landed, seq+1, func(l Landed, seq int64) int { return cmp.Compare(l.Seq, seq) })
	return landed[at:]
}

// is reports whether a landed step is a step of a chain.
func (l Landed) is(s Step) bool {
	return l.PR == s.PR && l.Entry == s.Entry && l.Submission == s.Submission
}

// withoutLanded is a chain without the steps that have landed since it began,
// most often its first ones.
func (d *decision) withoutLanded(chain []Step, seq int64) []Step {
	if d.s.Queue.LandedSeq() <= seq {
		return chain
	}
	gone := func(s Step) bool { return d.landedAs(s) > seq }
	for len(chain) > 0 && gone(chain[0]) {
		chain = chain[1:]
	}
	if !slices.ContainsFunc(chain, gone) {
		return chain
	}
	return slices.DeleteFunc(slices.Clone(chain), gone)
}

// proofLost reports whether a group that passed by the proof of another has
// lost it: the other left, or is tested again.
func (d *decision) proofLost(g *Group) (Reason, string, bool) {
	if g.Proof == 0 {
		return "", "", false
	}
	if p := d.s.Groups[g.Proof]; p != nil && d.state(p) == TestsPassed && d.s.run(p) != nil {
		return "", "", false
	}
	return ProofLost, "The tests that proved it are no longer what would land.", true
}

// whatChanged finds the reason for a restart: the first step of the chain
// that is not where it was tells most.
func (d *decision) whatChanged(r *Run, have, want []Step) (Reason, string) {
	wanted := map[EntryID]Step{}
	for _, s := range want {
		wanted[s.Entry] = s
	}
	for i, step := range have {
		if w, ok := wanted[step.Entry]; ok && w.same(&step) {
			continue
		}
		e := d.s.Entries[step.Entry]
		if e == nil {
			break
		}
		if i >= len(have)-len(r.Members) {
			return GroupChanged, fmt.Sprintf("#%d left the group.", step.PR)
		}
		how := fmt.Sprintf("#%d, which it was tested on top of, left the queue", step.PR)
		switch {
		case e.Submission != step.Submission:
			return PrerequisiteCancelled, how + "."
		case e.State == Cancelled:
			return PrerequisiteCancelled, fmt.Sprintf("%s (%s).", how, e.Reason)
		case e.State == Failed:
			return PrerequisiteFailed, fmt.Sprintf("%s (%s).", how, e.Reason)
		case e.State == PendingFailure:
			return PrerequisiteFailed, fmt.Sprintf("#%d, which it was tested on top of, has failed its tests.", step.PR)
		case e.State == Merged:
			return PrerequisiteMergedByHand, fmt.Sprintf("#%d, which it was tested on top of, was merged by hand.", step.PR)
		default:
			return GroupChanged, fmt.Sprintf("#%d, which it was tested on top of, went back to wait.", step.PR)
		}
	}
	return GroupChanged, "What it is tested on top of has changed."
}
