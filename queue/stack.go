package queue

import (
	"fmt"
	"slices"
	"strings"
)

// This file is about stacks: pull requests that are based on one another, the
// lowest on the queue's branch.
//
//	main ── #1 ── #2 ── #3        #2 is based on the branch of #1, #3 on that of #2
//
// A stack is submitted as one unit, and it is one entry: that of its top. The
// top's head contains the heads of all the others, so that its change is the
// change of the whole stack. It is tested once, it lands as one step, and it
// fails as a whole. All that a stack adds to an entry are the pull requests
// beneath its own, its layers: they must be ready too, and whatever happens to
// one of them happens to the stack. What is not ready, and what ends a stack,
// names the pull request.
//
// A pull request is in a queue once: by itself or in one stack. In parallel
// mode a stack overlaps everything, because what its top impacts is known only
// on top of what is beneath.

// Layer is a pull request beneath an entry's own in a stack.
type Layer struct {
	PullRequest
	// BoundHead is the head commit that the submission lands, as
	// Entry.BoundHead is for the top.
	BoundHead       string       `json:"boundHead"`
	Mergeability    Mergeability `json:"mergeability"`
	MergeabilityWhy string       `json:"mergeabilityWhy,omitempty"`
	MergeabilityFor string       `json:"mergeabilityFor,omitempty"`
}

// same reports whether two layers are equal.
func (l Layer) same(o Layer) bool {
	return l.PullRequest.same(&o.PullRequest) && l.BoundHead == o.BoundHead &&
		l.Mergeability == o.Mergeability && l.MergeabilityWhy == o.MergeabilityWhy && l.MergeabilityFor == o.MergeabilityFor
}

// Under is a layer as a landing needs it.
type Under struct {
	PR   int64  `json:"pr"`
	Head string `json:"head"`
	On   string `json:"on,omitempty"` // the branch that it stands on: its base, as long as that is not the target
}

// Stacked reports whether the entry is a stack of several pull requests.
func (e *Entry) Stacked() bool { return len(e.Stack) > 0 }

// Onto is the branch that the entry would land on as far as its pull requests
// go: the base of its own, and of a stack that of the lowest. It is "" for a
// stack with a layer that is not ready, and for one that is no longer one.
func (e *Entry) Onto() string {
	if !e.Stacked() {
		return e.Base
	}
	lowest := e.Stack[0].Base
	for i, l := range e.Stack {
		if !e.inOrder(i, lowest) || l.lacks(e) != "" {
			return ""
		}
	}
	if !e.inOrder(len(e.Stack), lowest) {
		return ""
	}
	return lowest
}

// inOrder reports whether the i-th pull request of a stack, from below, is
// based on the one beneath it or on the target. The host changes the first
// into the second when the one beneath has landed, and so do we to land it.
func (e *Entry) inOrder(i int, target string) bool {
	base := e.Base
	if i < len(e.Stack) {
		base = e.Stack[i].Base
	}
	return base == target || i > 0 && base == e.on(i)
}

// lacks says what keeps a layer from being ready, a sentence; "" = nothing.
func (l *Layer) lacks(e *Entry) string {
	of := fmt.Sprintf("#%d, in its stack, ", l.Number)
	switch {
	case l.Merged:
		return ""
	case !l.Open:
		return of + "is closed. Reopen it."
	case l.Draft:
		return of + "is a draft. Mark it ready for review."
	case e.Forced || l.Mergeability == Mergeable:
		return ""
	case l.Mergeability == NotMergeable:
		return of + "cannot be merged: " + l.MergeabilityWhy
	default:
		return of + "may or may not be mergeable: the host has not said yet."
	}
}

// layers are pull requests as the layers of a submission.
func layers(pulls []PullRequest) []Layer {
	var stack []Layer
	for _, pr := range pulls {
		stack = append(stack, Layer{PullRequest: pr, BoundHead: pr.Head, Mergeability: MergeabilityUnspecified})
	}
	return stack
}

// layer is the place of a pull request among the layers; -1 = it is none.
func (e *Entry) layer(pr int64) int {
	return slices.IndexFunc(e.Stack, func(l Layer) bool { return l.Number == pr })
}

// hasHead reports whether a commit is the head of the entry's pull request, or
// of one beneath it.
func (e *Entry) hasHead(commit string) bool {
	return e.Head == commit || slices.ContainsFunc(e.Stack, func(l Layer) bool { return l.Head == commit })
}

// setLayer replaces a layer. The old list is left alone: others may hold it.
func (e *Entry) setLayer(i int, l Layer) {
	e.Stack = slices.Clone(e.Stack)
	e.Stack[i] = l
}

// StackWith finds the active entry that has a pull request among its layers,
// nil if none in the window has.
func (s *Snapshot) StackWith(pr int64) *Entry {
	for _, e := range s.Entries { // at most one has it: see QueuedAlready
		if e.Active() && e.layer(pr) >= 0 {
			return e
		}
	}
	return nil
}

// QueuedAlready refuses a submission that would put a pull request into the
// queue a second time, by itself and in a stack or in two stacks. The window
// must have been read for all pull requests of the submission.
func (s *Snapshot) QueuedAlready(f Submitted) (no Answer, refused bool) {
	refuse := func(format string, args ...any) (Answer, bool) {
		return Answer{RefusedInStack, fmt.Sprintf(format, args...)}, true
	}
	top := f.PullRequest.Number
	if other := s.StackWith(top); other != nil {
		return refuse("#%d is in this queue already, in the stack of #%d. Cancel that first to queue it by itself.", top, other.Number)
	}
	for _, l := range f.Stack {
		if other := s.ByPR(l.Number); other != nil && other.Active() {
			return refuse("#%d is in this queue by itself. Cancel it there, or wait until it has landed; then submit the stack.", l.Number)
		}
		if other := s.StackWith(l.Number); other != nil && other.Number != top {
			return refuse("#%d is in this queue already, in the stack of #%d. Cancel that first.", l.Number, other.Number)
		}
	}
	return Answer{}, false
}

// seeLayer takes over a newer state of a layer, see decision.see.
func (d *decision) seeLayer(e *Entry, i int, f PullRequestSeen) {
	l := e.Stack[i]
	if f.UpdatedAt.Before(l.UpdatedAt) {
		return
	}
	if f.UpdatedAt.Equal(l.UpdatedAt) && !f.Read {
		e.Doubted = e.Doubted || !samePullRequest(f.PullRequest, l.PullRequest)
		return
	}
	if f.Head != l.Head || f.Base != l.Base {
		l.Mergeability, l.MergeabilityWhy = MergeabilityUnspecified, ""
		e.judgeAbove(i)
	}
	if f.Head != l.Head || f.Base != l.Base || f.Draft != l.Draft || f.Open != l.Open {
		e.Doubted = true
	}
	l.PullRequest = f.PullRequest
	if e.State == NotReady {
		l.BoundHead = f.Head
	}
	e.setLayer(i, l)
}

// judgeAbove forgets what was said about the pull request above the i-th layer: it
// was judged with another head beneath it, which it contained, or did not.
func (e *Entry) judgeAbove(i int) {
	if i+1 == len(e.Stack) {
		e.Mergeability, e.MergeabilityWhy = MergeabilityUnspecified, ""
		return
	}
	above := e.Stack[i+1]
	above.Mergeability, above.MergeabilityWhy = MergeabilityUnspecified, ""
	e.setLayer(i+1, above)
}

// below is the head of what the i-th pull request of a stack is judged with: that
// of the one beneath it, unless that has landed.
func (e *Entry) below(i int) string {
	if i == 0 || e.Stack[i-1].Merged {
		return ""
	}
	return e.Stack[i-1].Head
}

// layerMergeable takes over what the host says about a layer. The answer about
// the top ends the refresh, whenever that comes.
func (d *decision) layerMergeable(e *Entry, i int, f MergeabilitySeen) {
	l := e.Stack[i]
	certain := f.Value == Mergeable || f.Value == NotMergeable
	switch {
	case f.Head != l.Head || f.Below != e.below(i):
		e.Doubted = e.Doubted || f.Head != l.Head || e.State == NotReady
		return
	case !certain && l.MergeabilityFor == f.Head && (l.Mergeability == Mergeable || l.Mergeability == NotMergeable):
		return // unknown never replaces known for the same head
	}
	l.Mergeability, l.MergeabilityWhy, l.MergeabilityFor = f.Value, f.Why, f.Head
	e.setLayer(i, l)
}

// uncertain reports whether nobody knows yet if an entry can be merged.
func (e *Entry) uncertain() bool {
	unknown := func(m Mergeability) bool { return m != Mergeable && m != NotMergeable }
	return unknown(e.Mergeability) || slices.ContainsFunc(e.Stack, func(l Layer) bool { return l.Open && unknown(l.Mergeability) })
}

// layerLeft judges whether a layer ends the submission of its stack.
func (d *decision) layerLeft(e *Entry) (ending, bool) {
	target := d.s.Queue.Branch
	gone := func(format string, args ...any) (ending, bool) {
		return ending{to: Cancelled, why: StackMemberChanged, message: fmt.Sprintf(format, args...)}, true
	}
	for i, l := range e.Stack {
		admitted := e.State != NotReady
		switch {
		case l.Merged && l.Base == target: // it has landed before the others
		case l.Merged:
			return gone("#%d, which is in its stack, was merged into %s.", l.Number, l.Base)
		case !l.Open:
			return gone("#%d, which is in its stack, was closed.", l.Number)
		case admitted && l.Head != l.BoundHead:
			return gone("A push changed #%d, which is in its stack, from %s to %s after the stack was queued. Submit the stack again to queue the new commits.", l.Number, short(l.BoundHead), short(l.Head))
		case admitted && !e.inOrder(i, target):
			return gone("#%d, which is in its stack, now targets %s.", l.Number, l.Base)
		case admitted && l.Draft:
			return gone("#%d, which is in its stack, was converted to a draft.", l.Number)
		}
	}
	return ending{}, false
}

// stacked lists the conditions for admission that only a stack has.
func (d *decision) stacked(e *Entry) Condition {
	for i, l := range e.Stack {
		why := l.lacks(e)
		if why == "" && !l.Merged && !e.inOrder(i, d.s.Queue.Branch) {
			why = fmt.Sprintf("#%d, in its stack, targets %s, which leads not to %s.", l.Number, l.Base, d.s.Queue.Branch)
		}
		if why != "" {
			return Condition{"stack", false, why}
		}
	}
	return Condition{"stack", true, fmt.Sprintf("So are those beneath it in its stack: %s.", e.beneath())}
}

// beneath names the layers that have not landed.
func (e *Entry) beneath() string {
	var names []string
	for _, l := range e.Stack {
		if !l.Merged {
			names = append(names, fmt.Sprintf("#%d", l.Number))
		}
	}
	return list(names)
}

// targets says where an entry leads to.
func (d *decision) targets(e *Entry) string {
	if e.Base == d.s.Queue.Branch {
		return fmt.Sprintf("The pull request targets %s.", e.Base)
	}
	return fmt.Sprintf("The pull request targets %s, which leads to %s.", e.Base, d.s.Queue.Branch)
}

// baseFits reports whether the base of the entry's own pull request leads to
// the queue's branch.
func (d *decision) baseFits(e *Entry) bool { return e.inOrder(len(e.Stack), d.s.Queue.Branch) }

// under are the layers that land with an entry.
func (e *Entry) under() []Under {
	var list []Under
	for i, l := range e.Stack {
		if !l.Merged {
			list = append(list, Under{PR: l.Number, Head: l.BoundHead, On: e.on(i)})
		}
	}
	return list
}

// on is the branch on which the i-th pull request of a stack stands, from
// below; "" for the lowest, and for a pull request by itself.
func (e *Entry) on(i int) string {
	if i == 0 {
		return ""
	}
	return e.Stack[i-1].HeadRef
}

// layerNumbers are the pull requests beneath an entry's own, those that have
// landed left out.
func (e *Entry) layerNumbers() []int64 {
	var numbers []int64
	for _, u := range e.under() {
		numbers = append(numbers, u.PR)
	}
	return numbers
}

// layersShown is what people see of the layers.
func (e *Entry) layersShown() string {
	var b strings.Builder
	for _, l := range e.Stack {
		fmt.Fprint(&b, l.Number, l.BoundHead, l.Merged)
		if e.State == NotReady {
			b.WriteString(l.lacks(e))
		}
	}
	return b.String()
}
