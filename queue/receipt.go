package queue

import (
	"slices"
	"time"
)

// Receipt is what is kept for good of one step that landed, so that anybody
// can compare later what is on the branch with what was tested. Receipts are
// only ever added, in the decision that hears of the landing.
type Receipt struct {
	Seq        int64 // counts the steps landed by this queue, as Landed.Seq
	Landing    int64 // the landing that it was a step of; steps of one landing follow each other
	Entry      EntryID
	Submission int64
	PR         int64
	Head       string // of the pull request: what was tested and landed
	// Run is the run that proves it; "" when it landed without one.
	Run    RunID
	Method MergeMethod
	Mode   LandingMode
	// On is the commit that the target was at before this step.
	On     string
	Commit string // with which it is on the target
	Tree   string // of that commit; "" = nobody saw it land, see Late
	// Tested is the tree that Run had after this step; "" when it landed
	// without a run.
	Tested string
	// Recomputed: other lanes landed since the run began, or there was no run.
	// The tree to expect is that of the head merged on On.
	Recomputed bool
	// Last: no further step was to land with it. The tree of an earlier step
	// was not tested by itself: the steps after it belong to it.
	Last bool
	// Differs says in words how the tree was found not to be the expected one
	// when it landed; "" = it was the expected one.
	Differs string
	At      time.Time
}

// Late reports whether the host did it when its landing had been given up.
func (r Receipt) Late() bool { return r.Tree == "" }

// receipt writes down a step that has landed.
func (d *decision) receipt(l *Landing, step LandedStep, run RunID, on string) {
	at := slices.IndexFunc(l.Land.Steps, func(s StepSpec) bool { return s.Entry == step.Entry && s.Submission == step.Submission })
	if at < 0 {
		return // the host told of a step that was not asked for: it is no landing of ours
	}
	spec := l.Land.Steps[at]
	d.receipts = append(d.receipts, Receipt{
		Seq: d.s.Queue.LandedSeq(), Landing: l.ID, Entry: step.Entry, Submission: step.Submission, PR: spec.PR, Head: spec.Head,
		Run: run, Method: l.Land.Method, Mode: l.Land.Mode, On: on, Commit: step.Commit, Tree: step.Tree,
		Tested: spec.Tree, Recomputed: l.Land.Recompute, Last: at == len(l.Land.Steps)-1, Differs: step.Differs, At: d.now,
	})
}
