package sim

import (
	"fmt"
	"maps"
	"slices"

	"signalbox/queue"
)

// do does what a decision asked for and returns what there is to tell.
func (w *World) do(a queue.Action) []queue.Fact {
	switch a := a.(type) {
	case queue.BuildRuns:
		var facts []queue.Fact
		failed := map[queue.EntryID]bool{}
		for _, b := range a.Runs {
			facts = append(facts, w.build(b, a, failed))
		}
		return facts
	case queue.StopRun:
		delete(w.host.branches, a.Branch)
		return nil
	case queue.Land:
		return w.land(a)
	case queue.RefreshPR:
		facts := w.readStack(a.Stack, a.PR)
		if a.Direct {
			facts = append(facts, w.direct(a.PR))
		}
		return facts
	case queue.ReadTarget:
		return []queue.Fact{w.readTarget(a.Branch, a.Version)}
	case queue.ReadChecks:
		return w.reports(a.Commit)
	case queue.Resync:
		facts := []queue.Fact{w.readTarget(a.Branch, a.Version)}
		for _, pr := range a.PRs {
			facts = append(facts, w.read(pr)...)
		}
		for _, commit := range a.Commits {
			facts = append(facts, w.reports(commit)...)
		}
		for _, pr := range slices.Sorted(maps.Keys(a.Waiting)) {
			facts = append(facts, w.host.seen(pr))
		}
		return append(facts, queue.ResyncEnded{Resync: a.Resync})
	case queue.SyncPR: // nobody looks
		return nil
	case queue.RunPreflight: // all is well here
		return []queue.Fact{queue.PreflightSeen{At: w.clock()}}
	default:
		w.err = fmt.Errorf("nobody performs %s", a.Kind())
		return nil
	}
}

func (w *World) read(pr int64) []queue.Fact {
	return []queue.Fact{w.host.seen(pr), w.host.mergeability(pr)}
}

// readStack reads pull requests of which each must contain the one before.
func (w *World) readStack(beneath []int64, top int64) []queue.Fact {
	var facts []queue.Fact
	var below queue.PullRequest
	for _, pr := range append(slices.Clone(beneath), top) {
		p, m := w.host.pulls[pr], w.host.mergeability(pr)
		m.Below = below.Head
		if below.Head != "" && !w.host.contains(p.Head, below.Head) {
			m.Value = queue.NotMergeable
			m.Why = fmt.Sprintf("Its branch does not contain the newest commits of pull request %d, on which it stands; bring it up to date.", below.Number)
		}
		facts, below = append(facts, w.host.seen(pr), m), p.PullRequest
	}
	return facts
}

// reports are what CI has said about a commit.
func (w *World) reports(commit string) []queue.Fact {
	var facts []queue.Fact
	for _, r := range w.host.reports[commit] {
		facts = append(facts, queue.CheckReported{Commit: commit, Report: r})
	}
	return facts
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
			return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleStale, Message: "Something ahead was not built.", At: w.clock()}
		}
		if step.Commit == "" {
			if p := w.host.pulls[step.PR]; p.Head != step.Head {
				failed[step.Entry] = true
				return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleStale, Entry: step.Entry, Message: fmt.Sprintf("The head of #%d moved.", step.PR), At: w.clock()}
			}
			next, ok := w.host.landStamped(step.Stamp, step.PR, step.Head, at)
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
		return queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleNoRequired, Message: "Nothing is required.", At: w.clock()}
	}
	w.startCI(b.Branch, at)
	return queue.RunBuilt{Run: b.Run, Base: b.Base, Chain: chain, Required: required, RequiredSource: queue.FromQueue, At: w.clock()}
}

// conflict finds out whom the i-th step of a chain does not merge with.
func (w *World) conflict(b queue.BuildRun, i int) queue.RunNotBuilt {
	step := b.Chain[i]
	f := queue.RunNotBuilt{Run: b.Run, Trouble: queue.TroubleConflict, Entry: step.Entry, At: w.clock(),
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
