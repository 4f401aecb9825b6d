package sim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"signalbox/queue"
)

// World is one queue and everything around it, in virtual time. It is not safe
// for use by several goroutines.
type World struct {
	// Now is the virtual time of the host and of people; it only moves forward,
	// by Advance.
	Now time.Time
	// Skew is how far the clock of the service is ahead of it. Copies of the
	// program have clocks of their own, and clocks are set right: it jumps.
	Skew time.Duration
	// Moves are all timeline rows so far.
	Moves []queue.Move
	// Receipts are of all that landed so far.
	Receipts []queue.Receipt
	// Checks are the names that CI reports, in order.
	Checks []string
	// Auto has CI judge each test branch by itself after CITime; otherwise
	// only Report does.
	Auto   bool
	CITime time.Duration
	// Flaky, when set, says whether a run of CI fails for no reason.
	Flaky func(tree string, attempt int) bool
	// Check, when set, is called with the state after every decision.
	Check func(*World) error
	// Faults, when set, decides what goes wrong.
	Faults *Faults

	host    *host
	state   *queue.Snapshot // the whole queue; decisions see copies
	wake    time.Time
	inbox   []queue.Fact
	actions []queue.Action
	later   []event
	builds  map[string]int // runs of CI for each tree
	landed  []landing
	late    []func() // merge calls that the network holds back until Arrive
	lately  []string // commits that came of calls that it held back
	answers map[int64]queue.Answer
	sets    []queue.TargetSet          // uploaded, by number from 1
	newest  map[string]queue.TargetsID // by head commit
	wishes  int64
	uploads []queue.TestResults
	err     error
}

// event is something that happens at a later time.
type event struct {
	at time.Time
	do func()
}

// landing is one landing that the host did, for the checker.
type landing struct {
	land  queue.Land
	mode  queue.Mode   // of the queue at the time
	steps []queue.Step // those that landed
	tree  string       // of the target afterwards
	// differs: the host put something else there than was asked for.
	differs bool
}

// Start is the time at which every world begins.
var Start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// NewWorld makes a world with an empty queue on main.
func NewWorld(settings queue.Settings) *World {
	w := &World{
		Now: Start, Checks: []string{"ci"}, CITime: time.Minute,
		host: newHost("main"), builds: map[string]int{}, answers: map[int64]queue.Answer{},
		newest: map[string]queue.TargetsID{},
	}
	w.state = queue.NewSnapshot(queue.Queue{
		ID: 1, Key: "4b3bb2ee-3c0c-4b6c-9b53-4d1f3b1f5a10", Branch: "main", State: queue.Running, Settings: settings,
		Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app", HostID: 1, Installation: 1},
	})
	return w
}

// tell appends a fact, as a message from outside would.
func (w *World) tell(f queue.Fact) { w.inbox = append(w.inbox, f) }

// Settle decides and performs until nothing is left to do at this moment. It
// returns the first error that the world or its Check found.
func (w *World) Settle() error {
	for rounds := 0; w.err == nil && (len(w.inbox) > 0 || len(w.actions) > 0 || w.due()); rounds++ {
		if rounds > 10000 {
			return fmt.Errorf("no end: decisions keep asking for more at %s", w.Now.Format(time.TimeOnly))
		}
		w.decide()
		actions := w.actions
		w.actions = nil
		for _, a := range actions {
			w.perform(a)
		}
	}
	return w.err
}

// clock is what the service's clock shows.
func (w *World) clock() time.Time { return w.Now.Add(w.Skew) }

func (w *World) due() bool { return !w.wake.IsZero() && !w.clock().Before(w.wake) }

// decide folds everything in the inbox into one decision and keeps its plan.
func (w *World) decide() {
	var received []queue.Received
	for _, f := range w.inbox {
		w.wishes++
		received = append(received, queue.Received{ID: w.wishes, Fact: w.sent(f)})
	}
	w.inbox = nil
	w.Faults.jump(w)
	now := w.clock()
	plan := queue.Reconcile(w.copy(), received, now)
	w.anyOrder(received, plan)
	w.save(plan)
	w.fixedPoint()
	if w.Check != nil && w.err == nil {
		w.err = w.Check(w)
	}
}

// anyOrder checks that the order of the facts of one decision does not matter.
func (w *World) anyOrder(received []queue.Received, plan queue.Plan) {
	reversed := slices.Clone(received)
	slices.Reverse(reversed)
	other := queue.Reconcile(w.copy(), reversed, w.clock())
	if !reflect.DeepEqual(plan, other) && w.err == nil {
		w.err = fmt.Errorf("the order of %d facts matters: %+v", len(received), received)
	}
}

// fixedPoint checks that a decision with nothing new asks for nothing, unless the
// one before wants another at once: the last of them is checked.
func (w *World) fixedPoint() {
	if w.due() {
		return
	}
	again := queue.Reconcile(w.copy(), nil, w.clock())
	if n := len(again.Moves) + len(again.Actions) + len(again.Entries) + len(again.Groups) + len(again.Runs); n > 0 && w.err == nil {
		w.err = fmt.Errorf("a decision with nothing new asked for %d things: %+v %+v", n, again.Moves, again.Actions)
	}
}

// sent is a fact after its way through storage.
func (w *World) sent(f queue.Fact) queue.Fact {
	body, err := queue.EncodeFact(f)
	if err == nil {
		f, err = queue.DecodeFact(f.Kind(), body)
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	return f
}

// save keeps what a plan says, and only that.
func (w *World) save(p queue.Plan) {
	s := w.state
	s.Queue, s.Line, s.Parts, w.wake = p.Queue, p.Line, p.Parts, p.Wake
	for _, e := range p.Entries {
		s.Entries[e.ID] = &e
	}
	for _, g := range p.Groups {
		s.Groups[g.ID] = &g
	}
	for _, id := range p.Gone {
		delete(s.Groups, id)
	}
	for _, r := range p.Runs {
		s.Runs[r.ID] = &r
	}
	maps.Copy(w.answers, p.Answers)
	w.Moves = append(w.Moves, p.Moves...)
	s.Targets = w.targetSets()
	for _, m := range p.Moves {
		s.Remember(m)
	}
	w.Receipts = append(w.Receipts, p.Receipts...)
	w.actions = append(w.actions, p.Actions...)
}

// targetSets are the sets that were uploaded, by number.
func (w *World) targetSets() map[queue.TargetsID]queue.TargetSet {
	sets := make(map[queue.TargetsID]queue.TargetSet, len(w.sets))
	for i, set := range w.sets {
		sets[queue.TargetsID(i+1)] = set
	}
	return sets
}

// copy is the whole state for a decision to work on.
func (w *World) copy() *queue.Snapshot {
	s := *w.state
	s.Line, s.Parts = slices.Clone(s.Line), slices.Clone(s.Parts)
	s.Entries, s.Groups, s.Runs = copied(s.Entries), copied(s.Groups), copied(s.Runs)
	for _, g := range s.Groups {
		g.Members = slices.Clone(g.Members)
	}
	for _, r := range s.Runs {
		r.Checks = maps.Clone(r.Checks)
	}
	s.Targets = w.targetSets()
	for _, e := range s.Entries {
		e.Targets = w.newest[e.Head]
	}
	return &s
}

func copied[K comparable, V any](m map[K]*V) map[K]*V {
	out := make(map[K]*V, len(m))
	for k, v := range m {
		c := *v
		out[k] = &c
	}
	return out
}

// Advance lets time pass, with everything that happens on the way.
func (w *World) Advance(d time.Duration) error {
	end := w.Now.Add(d)
	for {
		if err := w.Settle(); err != nil {
			return err
		}
		next, ok := w.next()
		if !ok || next.After(end) {
			break
		}
		w.Now = next
		w.happen()
	}
	w.Now = end
	return w.Settle()
}

// next is the time of the next thing that happens by itself.
func (w *World) next() (time.Time, bool) {
	at := w.wake
	if !at.IsZero() {
		if at = at.Add(-w.Skew); at.Before(w.Now) {
			at = w.Now
		}
	}
	for _, e := range w.later {
		if at.IsZero() || e.at.Before(at) {
			at = e.at
		}
	}
	return at, !at.IsZero()
}

// happen does what is due now.
func (w *World) happen() {
	var due []event
	w.later = slices.DeleteFunc(w.later, func(e event) bool {
		if e.at.After(w.Now) {
			return false
		}
		due = append(due, e)
		return true
	})
	for _, e := range due {
		e.do()
	}
}

func (w *World) after(d time.Duration, do func()) {
	w.later = append(w.later, event{w.Now.Add(d), do})
}

// Entry finds the entry of a pull request, nil if it was never submitted.
func (w *World) Entry(pr int64) *queue.Entry { return w.state.ByPR(pr) }

// Snapshot is the state of the queue, to look at.
func (w *World) Snapshot() *queue.Snapshot { return w.state }
