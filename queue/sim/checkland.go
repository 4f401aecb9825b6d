package sim

import (
	"fmt"
	"slices"

	"signalbox/queue"
)

// cancelled: a wish to leave is kept only while the entry is landing, and no
// landing begins with an entry that somebody wants out.
func (c *Checker) cancelled(w *World) error {
	for _, e := range w.state.Entries {
		landing := w.state.Queue.Landing
		if e.Active() && e.Cancel != nil && (landing == nil || !slices.Contains(landing.Groups, e.Group)) {
			return fmt.Errorf("#%d is cancelled and still %s", e.Number, e.State)
		}
	}
	return nil
}

// formed: a group of the line is made only when it can be tested at once. One that
// was begun anew in the same decision, because something ahead of it left, may
// have lost its slot to a group ahead that had failed and so held none.
func (c *Checker) formed(w *World) error {
	free := freeSlots(w.state)
	for _, id := range w.state.Line {
		g := w.state.Groups[id]
		if !c.known[id] && g.Run == "" && !g.Direct && !g.Urgent && free > 0 {
			return fmt.Errorf("group %d was formed and waits", id)
		}
		c.known[id] = true
	}
	return nil
}

// landingBegins judges each landing at the decision that begins it.
func (c *Checker) landingBegins(w *World) error {
	l := w.state.Queue.Landing
	if l == nil || l.ID == c.landing {
		return nil
	}
	c.landing = l.ID
	for _, hold := range []func(*World, *queue.Landing) error{c.willing, c.inOrder, c.tested, c.asTested} {
		if err := hold(w, l); err != nil {
			return fmt.Errorf("landing %d: %w", l.ID, err)
		}
	}
	for _, s := range l.Land.Steps {
		c.sets[s.PR] = w.targets(w.state.Entries[s.Entry])
	}
	return nil
}

// willing: every entry has passed and still is what was tested.
func (c *Checker) willing(w *World, l *queue.Landing) error {
	for _, s := range l.Land.Steps {
		e := w.state.Entries[s.Entry]
		direct := w.state.Groups[e.Group].Direct
		switch {
		case e.Cancel != nil:
			return fmt.Errorf("#%d was cancelled before", e.Number)
		case e.Submission != s.Submission || e.BoundHead != s.Head || e.Head != s.Head:
			return fmt.Errorf("#%d is no longer at the head that was tested", e.Number)
		case e.State != queue.TestsPassed && !direct:
			return fmt.Errorf("#%d is %s", e.Number, e.State)
		}
		for _, u := range s.Stack {
			if at := e.Stack[slices.IndexFunc(e.Stack, func(l queue.Layer) bool { return l.Number == u.PR })]; at.Head != u.Head || !at.Open || at.Draft {
				return fmt.Errorf("#%d, in the stack of #%d, is no longer what was tested", u.PR, e.Number)
			}
		}
	}
	return nil
}

// inOrder: nothing lands before what it overlaps and stands behind.
func (c *Checker) inOrder(w *World, l *queue.Landing) error {
	next := 0
	var waiting []*queue.Entry
	for _, id := range w.state.Line {
		if g := w.state.Groups[id]; g.Probation != queue.NoProbation {
			continue // it is in nobody's base, and takes its place when it has passed
		}
		for _, m := range w.state.Groups[id].Members {
			e := w.state.Entries[m]
			if next == len(l.Land.Steps) {
				return nil
			}
			if l.Land.Steps[next].Entry != m {
				waiting = append(waiting, e)
				continue
			}
			next++
			for _, ahead := range waiting {
				if w.overlap(ahead, e) {
					return fmt.Errorf("#%d lands before #%d, which is ahead of it", e.Number, ahead.Number)
				}
			}
		}
	}
	if next < len(l.Land.Steps) {
		return fmt.Errorf("#%d lands out of the order of the line", l.Land.Steps[next].PR)
	}
	return nil
}

// tested: a run that passed ends with the last step, and holds nothing that will
// not be on the target. What passed with each step misses nothing there that the
// step overlaps, by the targets that counted when each was bound.
func (c *Checker) tested(w *World, l *queue.Landing) error {
	last := l.Land.Steps[len(l.Land.Steps)-1]
	e := w.state.Entries[last.Entry]
	g := w.state.Groups[e.Group]
	if g.Direct {
		return nil
	}
	r := w.state.Runs[g.Run]
	if r == nil || r.State != queue.RunPassed || r.Chain[len(r.Chain)-1].Head != last.Head {
		return fmt.Errorf("no run passed with #%d last", last.PR)
	}
	if err := w.excused(r); err != nil {
		return fmt.Errorf("#%d: %w", last.PR, err)
	}
	there := heads(w.host.ancestry(w.main()))
	will := map[int64]string{}
	for _, s := range l.Land.Steps {
		will[s.PR] = s.Head
	}
	for pr, head := range heads(w.host.ancestry(r.Commit)) {
		if there[pr] != head && will[pr] != head && !w.gone() {
			return fmt.Errorf("#%d was tested with #%d, which is not there", last.PR, pr)
		}
	}
	if w.moved(l.Land.Expect) {
		return nil
	}
	for i, s := range l.Land.Steps {
		e := w.state.Entries[s.Entry]
		proof := w.proves(l.Land.Steps[i:])
		if proof == nil {
			return fmt.Errorf("no run passed with #%d", s.PR)
		}
		have := heads(w.host.ancestry(proof.Commit))
		for pr, set := range c.sets {
			if there[pr] != "" && have[pr] == "" && set.Overlaps(w.targets(e)) {
				return fmt.Errorf("#%d was tested without #%d, which landed before it", s.PR, pr)
			}
		}
	}
	return nil
}

// proves finds the run that shows the first of some steps to be good: its own if that
// passed, else that of the first one behind which was tested with it.
func (w *World) proves(steps []queue.StepSpec) *queue.Run {
	for _, s := range steps {
		r := w.state.Runs[w.state.Groups[w.state.Entries[s.Entry].Group].Run]
		if r != nil && r.State == queue.RunPassed && slices.ContainsFunc(r.Chain, func(in queue.Step) bool {
			return in.Entry == steps[0].Entry && in.Submission == steps[0].Submission
		}) {
			return r
		}
	}
	return nil
}

// asTested: on the target as the queue knows it the steps give the very trees that
// were tested. A host that compared them first would hide that they do not.
func (c *Checker) asTested(w *World, l *queue.Landing) error {
	if l.Land.Recompute {
		return nil
	}
	at := l.Land.Expect
	for _, s := range l.Land.Steps {
		next, merges := w.host.land(s.PR, s.Head, at)
		if !merges || w.host.commits[next].treeID != s.Tree {
			return fmt.Errorf("#%d was tested as tree %s, and %s does not give that on %s", s.PR, s.Tree, s.Head, l.Land.Expect)
		}
		at = next
	}
	return nil
}

// excused: a check that failed and counted as passed did so by what was uploaded:
// something failed, and nothing of it counts.
func (w *World) excused(r *queue.Run) error {
	for _, check := range r.Cleared {
		failed := 0
		for _, f := range w.uploads {
			if f.Commit != r.Commit || f.Check != check {
				continue
			}
			if !f.Complete {
				return fmt.Errorf("%s was excused by incomplete results", check)
			}
			for _, t := range f.Failing {
				if failed++; !t.Quarantined || t.NewFailure {
					return fmt.Errorf("%s was excused though %s failed", check, t.Name)
				}
			}
		}
		if failed == 0 {
			return fmt.Errorf("%s was excused though no test is known to have failed", check)
		}
	}
	for _, want := range r.Required {
		report, _ := r.Report(want)
		if report.Outcome() == queue.VerdictFailed && !slices.Contains(r.Cleared, want.Name) && !report.At.After(r.EndedAt) && !slices.ContainsFunc(w.host.reports[r.Commit], func(o queue.Report) bool { return o.Name == want.Name && o.Result == "success" }) {
			return fmt.Errorf("%s failed, and the run passed", want.Name)
		}
	}
	return nil
}

// loud: a queue in which something else landed than was tested has stopped.
func (c *Checker) loud(w *World) error {
	for _, m := range w.Moves[c.heard:] {
		if q := w.state.Queue; m.Reason == queue.LandedTreeMismatch && (q.State != queue.Paused || q.StateWhy == "") {
			return fmt.Errorf("#%d landed as another tree, and the queue is %s", m.PR, q.State)
		}
	}
	for _, m := range w.Moves[c.heard:] {
		if m.Reason == queue.MergedByHand && (w.landedBy(m.Entry, m.Submission) || w.landedLate(m.PR)) {
			return fmt.Errorf("#%d is called merged by hand, but the queue landed it", m.PR)
		}
	}
	c.heard = len(w.Moves)
	for _, l := range w.landed[c.told:] {
		if flying := w.state.Queue.Landing; flying != nil && flying.ID == l.land.Landing {
			break // its result is not decided on
		}
		if w.unheard(l) {
			break
		}
		if err := w.told(l); err != nil {
			return err
		}
		c.told++
	}
	return nil
}

// unheard reports whether the queue believes that something is open which landed: the
// landing was performed once more after it had been decided on, and its messages are
// on their way, or lost until somebody looks.
func (w *World) unheard(l landing) bool {
	return slices.ContainsFunc(l.steps, func(s queue.Step) bool {
		e := w.state.Entries[s.Entry]
		return e != nil && e.Open
	})
}

// told: people hear of something else having landed than was tested.
func (w *World) told(l landing) error {
	if l.differs && !w.toldOf(l.land) {
		return fmt.Errorf("something else than was tested landed with #%d, and nobody was told", l.steps[0].PR)
	}
	return nil
}

// toldOf reports whether a landing was told to have landed another tree, or late: then
// nobody knows which.
func (w *World) toldOf(l queue.Land) bool {
	return slices.ContainsFunc(w.Moves, func(m queue.Move) bool {
		return (m.Reason == queue.LandedTreeMismatch || m.Reason == queue.LandedLate) && slices.ContainsFunc(l.Steps, func(s queue.StepSpec) bool {
			return s.Entry == m.Entry && s.Submission == m.Submission
		})
	})
}

// landedBy reports whether the queue has landed a submission of an entry.
func (w *World) landedBy(e queue.EntryID, submission int64) bool {
	return slices.ContainsFunc(w.landed, func(l landing) bool {
		return slices.ContainsFunc(l.steps, func(s queue.Step) bool { return s.Entry == e && s.Submission == submission })
	})
}

// landedLate reports whether a call of the queue's landed a pull request after it had
// hung.
func (w *World) landedLate(pr int64) bool {
	return slices.Contains(w.lately, w.host.pulls[pr].landed)
}

// onePlace: a pull request is in the queue once, by itself or in one stack.
func (c *Checker) onePlace(w *World) error {
	in := map[int64]int64{}
	for _, e := range w.state.Entries {
		if !e.Active() {
			continue
		}
		numbers := []int64{e.Number}
		for _, l := range e.Stack {
			numbers = append(numbers, l.Number)
		}
		for _, n := range numbers {
			if other, twice := in[n]; twice {
				return fmt.Errorf("#%d is in the queue twice, with #%d and with #%d", n, other, e.Number)
			}
			in[n] = e.Number
		}
	}
	return nil
}

// whole: when a stack has landed, every pull request of it is in what landed,
// and none is left open.
func (c *Checker) whole(w *World) error {
	for _, l := range w.landed[c.stacks:] {
		for i := range l.steps {
			s := l.land.Steps[slices.IndexFunc(l.land.Steps, func(s queue.StepSpec) bool { return s.Step == l.steps[i] })]
			for _, u := range s.Stack {
				p := w.host.pulls[u.PR]
				switch {
				case !w.host.contains(s.Head, u.Head):
					return fmt.Errorf("#%d landed with #%d, whose head it does not contain", s.PR, u.PR)
				case p.Open || l.land.Method == queue.MergeCommit && !p.Merged:
					return fmt.Errorf("#%d landed with #%d, which is left as it was", s.PR, u.PR)
				}
			}
		}
	}
	c.stacks = len(w.landed)
	return nil
}

// heads are the pull requests among commits, with the heads that were merged.
func heads(commits []*commit) map[int64]string {
	of := map[int64]string{}
	for _, c := range commits {
		if c.pr != 0 && len(c.parents) == 2 {
			of[c.pr] = c.parents[1]
		}
	}
	return of
}

// main is the head of main, while it is gone the one that it had.
func (w *World) main() string {
	if w.gone() {
		return w.host.deleted
	}
	return w.host.branches["main"]
}

// gone reports whether the target does not exist.
func (w *World) gone() bool { return w.host.branches["main"] == "" }

// moved reports whether the target is elsewhere than a landing expects: the
// host will refuse it.
func (w *World) moved(expect string) bool { return w.host.branches["main"] != expect }

// targets is the set that counts for an entry of the line.
func (w *World) targets(e *queue.Entry) queue.TargetSet {
	if w.state.Queue.Mode == queue.Single || e.BoundTargets == 0 {
		return queue.Everything
	}
	return w.sets[e.BoundTargets-1]
}

func (w *World) overlap(a, b *queue.Entry) bool { return w.targets(a).Overlaps(w.targets(b)) }
