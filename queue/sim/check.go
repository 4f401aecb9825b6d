package sim

import (
	"fmt"
	"slices"

	"signalbox/queue"
)

// Checker holds the invariants of a queue against a world, after every
// decision and at the end. It remembers what it needs to see changes.
type Checker struct {
	// Deterministic: CI judges by the tree alone, so an entry that is blamed
	// must be to blame.
	Deterministic bool

	seen      int // moves judged so far
	heard     int
	live      map[queue.RunKind]int64
	landings  int64
	landed    int // landings of the host judged so far
	stacks    int // of them, by whole
	told      int // of them, by loud
	lastState map[queue.EntryID]queue.EntryState
	state     queue.State
	passed    map[string]bool // trees that a run passed with
	landing   int64           // the newest landing judged
	sets      map[int64]queue.TargetSet
	known     map[queue.GroupID]bool
}

// Watch has every decision of a world checked.
func (c *Checker) Watch(w *World) {
	c.live, c.lastState, c.passed = map[queue.RunKind]int64{}, map[queue.EntryID]queue.EntryState{}, map[string]bool{}
	c.sets, c.known = map[int64]queue.TargetSet{}, map[queue.GroupID]bool{}
	c.state = w.state.Queue.State
	w.Check = c.check
}

func (c *Checker) check(w *World) error {
	for _, hold := range []func(*World) error{c.shape, c.slots, c.moves, c.pausedMeansPaused, c.green, c.once,
		c.cancelled, c.formed, c.landingBegins, c.loud, c.onePlace, c.whole} {
		if err := hold(w); err != nil {
			return fmt.Errorf("%w at %s", err, w.Now.Format("15:04:05"))
		}
	}
	c.state = w.state.Queue.State
	return nil
}

// shape: entries, groups and the line agree about who is where.
func (c *Checker) shape(w *World) error {
	s := w.state
	if n := len(s.Line) + len(s.Parts); n != len(s.Groups) {
		return fmt.Errorf("%d groups are in order, %d exist", n, len(s.Groups))
	}
	for _, id := range slices.Concat(s.Line, s.Parts) {
		g := s.Groups[id]
		if g == nil || len(g.Members) == 0 {
			return fmt.Errorf("group %d is in order but has no members", id)
		}
		state := s.Entries[g.Members[0]].State
		for _, m := range g.Members {
			if e := s.Entries[m]; e.Group != id || e.State != state {
				return fmt.Errorf("#%d is %s in group %d, whose first member is %s in group %d", e.Number, e.State, e.Group, state, id)
			}
		}
	}
	for _, e := range s.Entries {
		if g := s.Groups[e.Group]; e.Group != 0 && (g == nil || !slices.Contains(g.Members, e.ID)) {
			return fmt.Errorf("#%d says it is in group %d, which does not have it", e.Number, e.Group)
		}
		if grouped := e.State == queue.Testing || e.State == queue.TestsPassed || e.State == queue.PendingFailure; grouped && e.Group == 0 {
			return fmt.Errorf("#%d is %s in no group", e.Number, e.State)
		}
	}
	return nil
}

// slots: no run starts above the limits.
func (c *Checker) slots(w *World) error {
	q := w.state.Queue
	live := map[queue.RunKind]int64{}
	perGroup := map[queue.GroupID]int{}
	for _, r := range w.state.Runs {
		if r.State.Live() {
			live[r.Kind]++
			g := w.state.Groups[r.Group]
			if r.Hedge == "" {
				perGroup[r.Group]++
			}
			if perGroup[r.Group] > 1 {
				return fmt.Errorf("group %d has two live runs", r.Group)
			}
			if g == nil || (r.Hedge == "") != (g.Run == r.ID) {
				return fmt.Errorf("run %s lives without its group", r.ID)
			}
		}
	}
	for kind, limit := range map[queue.RunKind]int64{queue.MainRun: q.Concurrency, queue.BisectionRun: q.BisectionConcurrency} {
		if live[kind] > c.live[kind] && live[kind] > limit {
			return fmt.Errorf("%d %s runs live, the limit is %d", live[kind], kind, limit)
		}
	}
	c.live = live
	return nil
}

// moves: every move is in the table, follows the one before, and has words.
func (c *Checker) moves(w *World) error {
	for _, m := range w.Moves[c.seen:] {
		if !queue.Legal(m.From, m.To, m.Reason) {
			return fmt.Errorf("#%d moved from %q to %q because of %s", m.PR, m.From, m.To, m.Reason)
		}
		if last := c.lastState[m.Entry]; last != m.From {
			return fmt.Errorf("#%d moved from %q, but was %q", m.PR, m.From, last)
		}
		if m.Message == "" {
			return fmt.Errorf("#%d moved to %s without a word", m.PR, m.To)
		}
		c.lastState[m.Entry] = m.To
		if c.Deterministic {
			if err := c.innocent(w, m); err != nil {
				return err
			}
		}
	}
	c.seen = len(w.Moves)
	return nil
}

// innocent: who fails for a status fails on a base where everything else passed.
func (c *Checker) innocent(w *World, m queue.Move) error {
	if m.To != queue.Failed || m.Reason != queue.RequiredStatusFailed {
		return nil
	}
	r := w.state.Runs[m.Run]
	if r != nil && w.Judge(r.Commit, "ci") == "success" {
		return fmt.Errorf("#%d failed though its tree is good", m.PR)
	}
	if r == nil || len(r.Members) != 1 {
		return fmt.Errorf("#%d failed without a run of its own", m.PR)
	}
	base, main := r.Base.Commit, r.Base.Commit // main: as far as the chain has landed
	for _, s := range r.Ahead() {
		if main == base && (w.landedBy(s.Entry, s.Submission) || w.landedLate(s.PR)) {
			main = s.Commit
		}
		base = s.Commit
	}
	if tree := w.host.commits[main]; tree.tree.fails("ci") && !c.passed[tree.treeID] {
		return nil // lanes that said they do not overlap broke main together
	}
	for _, check := range w.Checks {
		if w.Judge(base, check) != "success" {
			return fmt.Errorf("#%d is blamed for a base that fails without it", m.PR)
		}
	}
	return nil
}

// pausedMeansPaused: no landing starts while the queue is paused.
func (c *Checker) pausedMeansPaused(w *World) error {
	q := w.state.Queue
	began := q.Landings > c.landings
	c.landings = q.Landings
	if began && c.state == queue.Paused && q.State == queue.Paused {
		return fmt.Errorf("a landing began in a paused queue")
	}
	return nil
}

// green: the last step of each landing was tested as that very tree. In
// parallel mode the tree on the target also holds what other lanes landed; then
// the entry must have been tested with everything that it overlaps.
func (c *Checker) green(w *World) error {
	for _, r := range w.state.Runs {
		if r.State == queue.RunPassed {
			c.passed[r.Tree] = true
		}
	}
	for head := range w.host.green { // what CI passed on a pull request's head counts for direct merges
		c.passed[w.host.commits[head].treeID] = true
	}
	for _, l := range w.landed[c.landed:] {
		if l.steps[len(l.steps)-1] != l.land.Steps[len(l.land.Steps)-1].Step || l.differs {
			continue // stopped half way, or loudly not what was tested: see loud
		}
		if l.mode == queue.Single && !c.passed[l.tree] {
			return fmt.Errorf("a tree landed that no run passed with, up to #%d", l.steps[len(l.steps)-1].PR)
		}
	}
	c.landed = len(w.landed)
	return nil
}

// once: a pull request lands at most once, and everything the queue calls
// merged is on the target.
func (c *Checker) once(w *World) error {
	times := map[int64]int{}
	for _, commit := range w.host.ancestry(w.main()) {
		if commit.pr == 0 {
			continue
		}
		if times[commit.pr]++; times[commit.pr] > 1 {
			return fmt.Errorf("#%d is on main twice", commit.pr)
		}
	}
	for _, e := range w.state.Entries {
		if e.State == queue.Merged && times[e.Number] == 0 {
			return fmt.Errorf("#%d is called merged but is not on main", e.Number)
		}
	}
	return nil
}

// Ended checks that after quiet every submission has ended, with a reason.
func Ended(w *World) error {
	for _, e := range w.state.Entries {
		if e.Active() {
			return fmt.Errorf("#%d is still %s: %s", e.Number, e.State, queue.Explain(w.state, e, w.Now).WaitsFor)
		}
		if e.Reason == "" || e.Message == "" {
			return fmt.Errorf("#%d ended as %s without a reason", e.Number, e.State)
		}
	}
	if s := w.state; len(s.Line)+len(s.Parts)+len(s.Queue.Bisections) > 0 || s.Queue.Landing != nil {
		return fmt.Errorf("the queue is not empty: line %v, parts %v, bisections %v, landing %v", s.Line, s.Parts, s.Queue.Bisections, s.Queue.Landing)
	}
	for _, l := range w.landed {
		if err := w.told(l); err != nil {
			return err
		}
	}
	for branch := range w.host.branches {
		if branch != "main" {
			return fmt.Errorf("the test branch %s was left behind", branch)
		}
	}
	return nil
}
