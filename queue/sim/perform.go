package sim

import (
	"fmt"

	"signalbox/queue"
)

// perform does what a decision asked for, as the workers of the service do,
// and tells what came of it.
func (w *World) perform(a queue.Action) {
	switch a := a.(type) {
	case queue.BuildRuns:
		failed := map[queue.EntryID]bool{}
		for _, b := range a.Runs {
			w.tell(w.build(b, a, failed))
		}
	case queue.StopRun:
		delete(w.host.branches, a.Branch)
	case queue.Land:
		ended, differ := w.land(a)
		for _, f := range differ {
			w.tell(f)
		}
		w.tell(ended)
	case queue.RefreshPR:
		w.refresh(a.PR)
		if a.Direct {
			w.tell(w.direct(a.PR))
		}
	case queue.ReadTarget:
		w.tell(w.readTarget(a.Branch, a.Version))
	case queue.ReadChecks: // reports of this world are never lost
	case queue.Resync:
		w.tell(w.readTarget(a.Branch, a.Version))
		for _, pr := range a.PRs {
			w.refresh(pr)
		}
		w.tell(queue.ResyncEnded{Resync: a.Resync})
	case queue.SyncPR: // nobody looks
	default:
		w.err = fmt.Errorf("nobody performs %s", a.Kind())
	}
}

func (w *World) refresh(pr int64) {
	w.tell(w.host.seen(pr))
	w.tell(w.host.mergeability(pr))
}

// direct tells whether CI has passed on a head that contains main's.
func (w *World) direct(pr int64) queue.DirectSeen {
	p, main := w.host.pulls[pr], w.host.branches["main"]
	f := queue.DirectSeen{PR: pr, Head: p.Head}
	if w.host.contains(p.Head, main) && w.host.green[p.Head] {
		f.Target = main
	}
	return f
}

func (w *World) readTarget(branch string, version int64) queue.TargetRead {
	head, ok := w.host.branches[branch]
	if !ok {
		return queue.TargetRead{Missing: true, Version: version}
	}
	return queue.TargetRead{Commit: head, Tree: w.host.commits[head].treeID, Version: version}
}

// build makes a test branch: it goes on where the chain is built already.
func (w *World) build(b queue.BuildRun, all queue.BuildRuns, failed map[queue.EntryID]bool) queue.Fact {
	at := b.Base.Commit
	chain := make([]queue.Step, len(b.Chain))
	for i, spec := range b.Chain {
		step := spec.Step
		if failed[step.Entry] {
			return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleStale, Message: "Something ahead was not built.", At: w.Now}
		}
		if step.Commit == "" {
			if p := w.host.pulls[step.PR]; p.Head != step.Head {
				failed[step.Entry] = true
				return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleStale, Entry: step.Entry, Message: fmt.Sprintf("The head of #%d moved.", step.PR), At: w.Now}
			}
			next, ok := w.host.land(step.PR, step.Head, at)
			if !ok {
				failed[step.Entry] = true
				return w.conflict(b, i)
			}
			step.Commit, step.Tree = next, w.host.commits[next].treeID
		}
		at, chain[i] = step.Commit, step
	}
	w.host.branches[b.Branch] = at
	required := make([]queue.Required, len(all.RequiredStatuses))
	for i, name := range all.RequiredStatuses {
		required[i] = queue.Required{Name: name}
	}
	if len(required) == 0 {
		return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleNoRequired, Message: "Nothing is required.", At: w.Now}
	}
	w.startCI(b.Branch, at)
	return queue.RunBuilt{Run: b.Run, Base: b.Base, Chain: chain, Required: required, RequiredSource: queue.FromQueue, At: w.Now}
}

// conflict finds out whom the i-th step of a chain does not merge with.
func (w *World) conflict(b queue.BuildRun, i int) queue.RunNotBuilt {
	step := b.Chain[i]
	f := queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleConflict, Entry: step.Entry, At: w.Now,
		Message: fmt.Sprintf("#%d does not merge onto %s.", step.PR, b.Target)}
	at := b.Base.Commit
	for _, other := range b.Chain[:i] {
		if _, ok := w.host.land(step.PR, step.Head, at); !ok {
			break
		}
		at, _ = w.host.land(other.PR, other.Head, at)
		f.With, f.Message = other.Entry, fmt.Sprintf("#%d does not merge with #%d.", step.PR, other.PR)
		if _, ok := w.host.land(step.PR, step.Head, at); !ok {
			return f
		}
	}
	f.With, f.Message = "", fmt.Sprintf("#%d does not merge onto %s.", step.PR, b.Target)
	return f
}

// land puts steps on the target, as the host would let us.
func (w *World) land(a queue.Land) (queue.LandingEnded, []queue.Fact) {
	ended := queue.LandingEnded{Landing: a.Landing, At: w.Now}
	stop := func(t queue.Trouble, e queue.EntryID, message string) {
		ended.Trouble, ended.Entry, ended.Message = t, e, message
	}
	var differ []queue.Fact
	for _, s := range a.Steps {
		if p := w.host.pulls[s.PR]; p.Head != s.Head || !p.Open || p.Draft || p.Base != a.Branch {
			differ = append(differ, w.host.seen(s.PR))
			stop(queue.TroubleStale, s.Entry, fmt.Sprintf("#%d has changed.", s.PR))
		}
	}
	if ended.Trouble == "" && w.host.branches[a.Branch] != a.Expect {
		stop(queue.TroubleStale, "", "The target moved.")
	}
	for _, s := range a.Steps { // the rules are asked for all before the first merge
		if why, refused := w.host.refused[s.PR]; refused && ended.Trouble == "" {
			stop(queue.TroubleDenied, s.Entry, why)
		}
	}
	var steps []queue.Step
	for _, s := range a.Steps {
		if ended.Trouble != "" {
			break
		}
		at, ok := w.host.land(s.PR, s.Head, w.host.branches[a.Branch])
		if !ok {
			stop(queue.TroubleConflict, s.Entry, fmt.Sprintf("#%d no longer merges.", s.PR))
			break
		}
		w.host.branches[a.Branch] = at
		step := queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: at, Tree: w.host.commits[at].treeID}
		if step.Tree != s.Tree && !a.Recompute {
			step.Differs = "The trees differ."
		}
		ended.Landed = append(ended.Landed, step)
		steps = append(steps, s.Step)
		p := w.host.pulls[s.PR]
		p.Open, p.Merged = false, a.Mode == queue.LandHost || a.Method == queue.MergeCommit // else closed by us
		p.touch(w.Now)
		w.tell(queue.PullRequestSeen{PullRequest: p.PullRequest})
	}
	head := w.host.branches[a.Branch]
	ended.Commit, ended.Tree = head, w.host.commits[head].treeID
	if len(steps) > 0 {
		w.landed = append(w.landed, landing{steps, ended.Tree})
		w.tell(queue.TargetMoved{Branch: a.Branch, Before: a.Expect, After: head})
	}
	return ended, differ
}
