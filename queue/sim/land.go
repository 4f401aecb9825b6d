package sim

import (
	"fmt"
	"slices"
	"time"

	"signalbox/queue"
)

// land puts steps on the target, as the host would let us, and tells how it
// went. It first finds out what an earlier attempt did.
func (w *World) land(a queue.Land) []queue.Fact {
	l := &lander{w: w, a: a, ended: queue.LandingEnded{Landing: a.Landing, At: w.clock()}}
	l.found()
	l.heads()
	l.rules()
	l.steps()
	head := w.host.branches[a.Branch]
	if l.ended.Missing = head == ""; !l.ended.Missing {
		l.ended.Commit, l.ended.Tree = head, w.host.commits[head].treeID
	}
	if len(l.new) > 0 {
		w.landed = append(w.landed, landing{a, w.state.Queue.Mode, l.new, l.ended.Tree, l.differs})
		w.notify(queue.TargetMoved{Branch: a.Branch, Before: a.Expect, After: head})
	}
	return append(l.differ, l.ended)
}

// lander is one attempt to land.
type lander struct {
	w       *World
	a       queue.Land
	ended   queue.LandingEnded
	new     []queue.Step // landed by this attempt
	differs bool
	differ  []queue.Fact // pull requests that are not as they should be
}

func (l *lander) stop(t queue.Trouble, e queue.EntryID, message string) {
	if l.ended.Trouble == "" {
		l.ended.Trouble, l.ended.Entry, l.ended.Message = t, e, message
	}
}

// found looks for steps that an earlier attempt landed: the first commits on
// top of the one that was expected. Anything else there is somebody's push.
func (l *lander) found() {
	history := l.w.host.history(l.a.Branch)
	at := slices.IndexFunc(history, func(c *commit) bool { return c.id == l.a.Expect })
	if at < 0 {
		l.stop(queue.TroubleStale, "", "The target moved.")
		return
	}
	for _, c := range history[at+1:] {
		n := len(l.ended.Landed)
		if n == len(l.a.Steps) {
			break
		}
		s := l.a.Steps[n]
		if c.pr != s.PR || len(c.parents) < 2 || c.parents[1] != s.Head {
			l.stop(queue.TroubleStale, "", "The target moved.")
			return
		}
		l.done(s, c.id)
	}
}

// done tells of a step on the target.
func (l *lander) done(s queue.StepSpec, id string) {
	step := queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: id, Tree: l.w.host.commits[id].treeID}
	if l.another(s, id) {
		step.Differs = "The trees differ."
	}
	l.ended.Landed = append(l.ended.Landed, step)
}

// another reports whether a step is on the target as another tree than asked for.
func (l *lander) another(s queue.StepSpec, id string) bool {
	want := s.Tree
	if l.a.Recompute {
		want = l.w.host.merged(s.PR, s.Head, l.w.host.commits[id].parents[0])
	}
	differs := l.w.host.commits[id].treeID != want
	l.differs = l.differs || differs
	return differs
}

// heads reads the pull requests again: all, before the first merge.
func (l *lander) heads() {
	for _, s := range l.a.Steps[len(l.ended.Landed):] {
		for _, u := range append(slices.Clone(s.Stack), queue.Under{PR: s.PR, Head: s.Head, On: s.On}) {
			if p := l.w.host.pulls[u.PR]; p.Head != u.Head || !p.Open || p.Draft || p.Base != l.a.Branch && (u.On == "" || p.Base != u.On) {
				l.differ = append(l.differ, l.w.host.seen(u.PR))
				l.stop(queue.TroubleStale, s.Entry, fmt.Sprintf("#%d has changed.", u.PR))
			}
		}
	}
}

// rules asks the host's rules for all steps before the first merge.
func (l *lander) rules() {
	for _, s := range l.a.Steps[len(l.ended.Landed):] {
		for _, pr := range together(s) {
			if why, refused := l.w.host.refused[pr]; refused {
				named := s.Entry
				if l.w.host.unnamed[pr] {
					named = ""
				}
				l.stop(queue.TroubleDenied, named, why)
			}
		}
	}
}

// together are the pull requests that land with a step, its own the last.
func together(s queue.StepSpec) []int64 {
	var list []int64
	for _, u := range s.Stack {
		list = append(list, u.PR)
	}
	return append(list, s.PR)
}

// steps lands what is left. The host's merges can stop between two, one push can not.
func (l *lander) steps() {
	for _, s := range l.a.Steps[len(l.ended.Landed):] {
		if l.ended.Trouble != "" {
			return
		}
		host := l.w.host
		if l.a.Mode == queue.LandHost && len(l.ended.Landed) > 0 && l.halfWay(s) {
			return
		}
		if l.a.Mode == queue.LandHost && l.hangs(s) {
			return
		}
		at, ok := s.Commit, true
		if tested := host.commits[s.Commit]; l.a.Mode == queue.LandHost || tested == nil || tested.parents[0] != host.branches[l.a.Branch] {
			at, ok = host.land(s.PR, s.Head, host.branches[l.a.Branch]) // written once more, or by the host
		}
		if !ok {
			l.stop(queue.TroubleConflict, s.Entry, fmt.Sprintf("#%d no longer merges.", s.PR))
			return
		}
		if l.a.Mode == queue.LandHost && l.w.Faults.draw("another tree", 25) > 23 { // the host merges in a way of its own
			odd := host.commits[at].tree.with(files{fmt.Sprintf("odd%d", s.PR): "1"})
			at = host.commit(odd, s.PR, host.commits[at].parents...)
		}
		host.branches[l.a.Branch] = at
		l.new = append(l.new, s.Step)
		for _, pr := range together(s) {
			p := host.pulls[pr]
			merged := l.a.Method == queue.MergeCommit || l.a.Mode == queue.LandHost && pr == s.PR
			p.Open, p.Merged = false, merged // else closed by us
			if merged {
				p.Base = l.a.Branch // so that the host sees it
				p.landed = at
			}
			p.touch(l.w.Now)
			l.hear(queue.PullRequestSeen{PullRequest: p.PullRequest, Landed: p.landed})
		}
		// Noted also when nobody hears of it.
		l.another(s, at)
		if l.a.Mode == queue.LandHost && l.w.Faults.draw("no answer", 20) > 18 { // nobody knows that it landed
			l.stop(queue.TroubleTransient, "", "The host does not answer.")
			return
		}
		l.done(s, at)
	}
}

// hear tells of what has landed. Of a landing that has been decided on, and is performed
// once more, nobody awaits anything: as with a merge that comes late, its message is
// delivered until it arrives, because the host is asked again for what found no server.
func (l *lander) hear(f queue.Fact) {
	if flying := l.w.state.Queue.Landing; flying != nil && flying.ID == l.a.Landing {
		l.w.notify(f)
	} else {
		l.w.tell(f)
	}
}

// hangs may have the network hold back the call that merges a step, so that the
// landing ends without it, and deliver it up to two hours later.
func (l *lander) hangs(s queue.StepSpec) bool {
	w := l.w
	if w.host.hung[s.PR] {
		delete(w.host.hung, s.PR)
		w.late = append(w.late, func() { w.mergeLate(s) })
		l.stop(queue.TroubleDenied, s.Entry, "The host does not answer, then says no.")
		return true
	}
	n := w.Faults.draw("merge call", 24)
	if n < 21 || len(s.Stack) > 0 {
		return false
	}
	l.stop([]queue.Trouble{queue.TroubleTransient, queue.TroubleStale, queue.TroubleDenied}[n-21], s.Entry, "The host does not answer, then says no.")
	w.after(time.Duration(1+w.Faults.draw("held back for", 120))*time.Minute, func() { w.mergeLate(s) })
	return true
}

// mergeLate has the host do a merge call that was held back: it looks at the head,
// and at nothing else that we know. Its message is delivered until it arrives.
func (w *World) mergeLate(s queue.StepSpec) {
	p := w.host.pulls[s.PR]
	before := w.host.branches[p.Base]
	if !p.Open || p.Draft || p.Head != s.Head || before == "" {
		return
	}
	at, ok := w.host.land(s.PR, s.Head, before)
	if !ok {
		return
	}
	w.host.branches[p.Base] = at
	p.Open, p.Merged, p.landed = false, true, at
	p.touch(w.Now)
	w.lately = append(w.lately, at)
	w.tell(queue.PullRequestSeen{PullRequest: p.PullRequest, Landed: at})
	w.notify(queue.TargetMoved{Branch: p.Base, Before: before, After: at})
}

// halfWay may stop a landing between two of the host's merges.
func (l *lander) halfWay(s queue.StepSpec) bool {
	switch l.w.Faults.draw("half way", 12) {
	case 9:
		l.stop(queue.TroubleTransient, "", "The host does not answer.")
	case 10:
		l.stop(queue.TroubleStale, "", "Base branch was modified.")
	case 11:
		l.stop(queue.TroubleDenied, s.Entry, "The host says no.")
	default:
		return false
	}
	return true
}
