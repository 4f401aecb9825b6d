package sim

import (
	"maps"
	"slices"
	"time"

	"signalbox/queue"
)

// Faults decides what goes wrong in a world. Everything that can go wrong asks
// it at that moment, in the order in which the world moves, so that one source
// of draws gives one history.
type Faults struct {
	// Draw returns a number from 0 to n-1; 0 means that all goes well. The
	// label says what it is about.
	Draw func(label string, n int) int
	// Jump is how far the service's clock may be from the host's, either way.
	Jump time.Duration
	// Quiet ends all faults, for the end of a history.
	Quiet bool
}

// draw is 0 in a world where nothing goes wrong.
func (f *Faults) draw(label string, n int) int {
	if f == nil || f.Quiet {
		return 0
	}
	return f.Draw(label, n)
}

// delay is how long something takes that is late. It is shorter than every
// deadline of the engine: what is later than that counts as gone.
func (f *Faults) delay(label string) time.Duration {
	return time.Duration(1+f.draw(label, 300)) * time.Second
}

// jump may set the service's clock: another copy decides, or somebody has set it
// right. Once all is quiet it is right.
func (f *Faults) jump(w *World) {
	if f == nil || f.Jump == 0 {
		return
	}
	switch n := f.draw("clock", 20); {
	case n == 0 && !f.Quiet: // as it was
	case n < 15:
		w.Skew = 0
	default:
		w.Skew = f.Jump * time.Duration(n-17) / 2 // -1, -1/2, 0, 1/2, 1
	}
}

// The fates of a message from outside.
const (
	delivered = iota // the first six of nine are
	lost      = iota + 5
	repeated
	delayed
	messageFates
)

// notify brings a message from outside: a webhook, which may be lost, come
// twice, or come after what was sent later.
func (w *World) notify(f queue.Fact) {
	switch w.Faults.draw("message", messageFates) {
	case lost:
	case repeated:
		w.tell(f)
		w.after(w.Faults.delay("again after"), func() { w.tell(f) })
	case delayed:
		w.after(w.Faults.delay("late by"), func() { w.tell(f) })
	default:
		w.tell(f)
	}
}

// The fates of an action.
const (
	performed       = iota // the first eight of twenty are
	late            = iota + 7
	lateAnswer      // done at once, told later: what is told may be old by then
	failed          // nobody could do it
	failedAfter     // done, but whoever did it never heard so
	lateFailedAfter // both
	vanished        // the job is gone, and nobody will ever tell
	answeredTwice   // the same answer comes again
	redone          // done, but whoever did it was killed before it could say so: it is done again
	torn            // the same, killed half way
	toldTwice       // done and told, but killed before the job was called done: it is done again, and told again
	barred          // the host lets nobody do it or look, now
	heldBack        // done at a second attempt; the push of the first arrives long after
	actionFates
)

// perform does what a decision asked for, as the workers of the service do,
// and tells what came of it.
func (w *World) perform(a queue.Action) {
	fate := w.Faults.draw(a.Kind(), actionFates)
	if _, stop := a.(queue.StopRun); stop && (fate > late && fate < redone || fate == barred) {
		fate = late // it is repeated until it is done, and has no answer
	}
	switch fate {
	case late:
		w.after(w.Faults.delay("late by"), func() { w.tellAll(w.do(a)) })
	case lateAnswer:
		answer := w.do(a)
		w.after(w.Faults.delay("told after"), func() { w.tellAll(answer) })
	case failed:
		w.tellAll(w.notDone(a, queue.TroubleTransient))
	case failedAfter:
		w.do(a)
		w.tellAll(w.notDone(a, queue.TroubleTransient))
	case lateFailedAfter:
		w.after(w.Faults.delay("late by"), func() {
			w.do(a)
			w.tellAll(w.notDone(a, queue.TroubleTransient))
		})
	case barred:
		w.tellAll(w.notDone(a, queue.TroubleDenied))
	case heldBack:
		answer := w.do(a)
		w.tellAll(answer)
		w.arriveLater(answer)
	case toldTwice:
		w.tellAll(w.do(a))
		w.after(w.Faults.delay("again after"), func() { w.tellAll(w.do(a)) })
	case redone, torn:
		if fate == torn {
			w.do(half(a))
		} else {
			w.do(a)
		}
		w.after(w.Faults.delay("again after"), func() { w.tellAll(w.do(a)) })
	case vanished:
	case answeredTwice:
		answer := w.do(a)
		w.tellAll(answer)
		w.after(w.Faults.delay("told again after"), func() { w.tellAll(answer) })
	default:
		w.tellAll(w.do(a))
	}
}

// arriveLater has the pushes of runs that were built arrive once more, up to two
// hours later, when their branches may have been removed.
func (w *World) arriveLater(answer []queue.Fact) {
	for _, f := range answer {
		built, ok := f.(queue.RunBuilt)
		if !ok {
			continue
		}
		w.after(time.Duration(1+w.Faults.draw("held back for", 120))*time.Minute, func() {
			branch, at := w.state.Runs[built.Run].Branch, built.Chain[len(built.Chain)-1].Commit
			w.host.branches[branch] = at
			w.notify(queue.TestBranchMoved{Branch: branch, After: at})
			w.after(lookForStrays, w.findStrays)
		})
	}
}

// lookForStrays is how often somebody looks for branches that are left over.
const lookForStrays = 5 * time.Minute

// findStrays tells of branches whose runs have ended, as the service's look does.
// It is repeated while there is one.
func (w *World) findStrays() {
	again := false
	for _, id := range slices.Sorted(maps.Keys(w.state.Runs)) {
		r := w.state.Runs[id]
		at := w.host.branches[r.Branch]
		if g := w.state.Groups[r.Group]; at == "" || r.State.Live() || g != nil && (g.Run == r.ID || r.Hedge != "" && r.State != queue.Stopped && r.State != queue.Interrupted) {
			continue
		}
		again = true
		w.tell(queue.TestBranchMoved{Branch: r.Branch, After: at})
	}
	if again {
		w.after(lookForStrays, w.findStrays)
	}
}

// half is the beginning of an action of several steps that are done one after the
// other. Landing has a way of its own to stop half way, see lander.halfWay.
func half(a queue.Action) queue.Action {
	switch b := a.(type) {
	case queue.BuildRuns:
		b.Runs = b.Runs[:len(b.Runs)/2]
		return b
	case queue.Land:
		return queue.SyncPR{} // nothing was done yet
	default:
		return a
	}
}

func (w *World) tellAll(facts []queue.Fact) {
	for _, f := range facts {
		w.tell(f)
	}
}

// notDone is what is told of an action of which nobody has seen what came of it.
func (w *World) notDone(a queue.Action, why queue.Trouble) []queue.Fact {
	message := "The host does not answer."
	if why == queue.TroubleDenied {
		message = "The App may not work on the repository."
	}
	switch a := a.(type) {
	case queue.BuildRuns:
		var facts []queue.Fact
		for _, b := range a.Runs {
			facts = append(facts, queue.RunNotBuilt{Run: b.Run, Trouble: why, Message: message, At: w.clock()})
		}
		return facts
	case queue.Land:
		return []queue.Fact{queue.LandingEnded{Landing: a.Landing, Trouble: why, Message: message, At: w.clock()}}
	case queue.RefreshPR:
		return []queue.Fact{queue.RefreshEnded{PR: a.PR, Message: message}}
	case queue.Resync:
		return []queue.Fact{queue.ResyncEnded{Resync: a.Resync}}
	default:
		return nil
	}
}
