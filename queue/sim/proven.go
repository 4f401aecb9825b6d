package sim

import (
	"fmt"
	"slices"

	"signalbox/queue"
	"signalbox/queue/proof"
)

// Proven has package proof compare what is on main with what was tested. What
// landed as another tree is no surprise here: the host was made to do so, and
// the queue said it.
func Proven(w *World) error {
	h := proof.History{Receipts: w.Receipts, Runs: map[queue.RunID]queue.Run{}, Targets: map[queue.TargetsID]queue.TargetSet{}, Merged: map[string]string{}}
	for _, c := range w.host.ancestry(w.main()) {
		h.Commits = append(h.Commits, proof.Commit{ID: c.id, Tree: c.treeID, Parents: c.parents})
	}
	for id, r := range w.state.Runs {
		h.Runs[id] = *r
	}
	for i, set := range w.sets {
		h.Targets[queue.TargetsID(i+1)] = set
	}
	loud := map[string]bool{}
	for _, r := range w.Receipts {
		if proof.Needs(r) {
			h.Merged[r.Commit] = w.host.merged(r.PR, r.Head, w.host.commits[r.Commit].parents[0])
		}
		loud[r.Commit] = r.Differs != ""
	}
	report := proof.Check(h)
	for _, l := range report.Landings {
		if l.Problem != "" && !loud[l.Commit] {
			return fmt.Errorf("#%d on main as %s is not proven: %s", l.PR, l.Commit, l.Problem)
		}
	}
	for _, id := range report.Others {
		if c := w.host.commits[id]; c.pr != 0 && (!w.byHand(c.pr) || slices.Contains(w.lately, id)) {
			return fmt.Errorf("#%d is on main as %s, and there is no receipt of it", c.pr, id)
		}
	}
	return nil
}

// byHand reports whether a pull request was merged past the queue, or the queue
// does not know it.
func (w *World) byHand(pr int64) bool {
	e := w.Entry(pr)
	return e == nil || e.Reason != queue.MergedByQueue && e.Reason != queue.DirectMerge
}
