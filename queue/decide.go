package queue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reconcile is one decision, whole: the facts are applied, then everything is
// judged. It takes the snapshot over and changes it. It is pure: the same
// snapshot, facts (in any order) and time give the same plan.
func Reconcile(s *Snapshot, facts []Received, now time.Time) Plan {
	d := begin(s, now)
	for _, f := range canonical(facts) {
		d.apply(f)
	}
	d.settle()
	return d.plan()
}

// decision is the work on one snapshot: what it was, what it is by now, and
// what shall be done about it.
type decision struct {
	s      *Snapshot
	before *Snapshot // as read; never changed
	now    time.Time

	moves    []Move
	receipts []Receipt
	actions  []Action
	builds   []BuildRun // collected into one BuildRuns
	gone     []GroupID
	answers  map[int64]Answer
	wake     time.Time
	reported map[RunID]bool // runs whose Checks are no longer those of before

	known // what has been looked up already
}

func begin(s *Snapshot, now time.Time) *decision {
	return &decision{s: s, before: s.clone(), now: now, answers: map[int64]Answer{}, reported: map[RunID]bool{}}
}

// stages are the choices in the order in which they are made. After any
// change everything starts over, so that a stage may rely on all earlier ones
// having nothing left to do.
var stages = []struct {
	name string
	run  func(*decision) (changed bool)
}{
	{"landed", (*decision).landed},        // the result of the landing in flight
	{"leave", (*decision).leave},          // who is cancelled, closed, pushed to …
	{"stale", (*decision).stale},          // runs that no longer test what would land
	{"verdicts", (*decision).verdicts},    // builds and checks that have ended
	{"probation", (*decision).probations}, // who is tested out of everybody's base
	{"holds", (*decision).holds},          // whose failure it is
	{"admit", (*decision).admit},          // who is ready
	{"urgent", (*decision).urgent},        // who goes in front of what runs
	{"starts", (*decision).starts},        // who gets a slot
	{"hedges", (*decision).hedges},        // who is also tested without somebody
	{"landing", (*decision).land},         // who lands
	{"mode", (*decision).mode},            // the end of a mode switch
}

// settle repeats the stages until nothing changes, then asks for what is
// missing to know more.
func (d *decision) settle() {
	for d.once() {
	}
	d.ask()
}

// once runs the stages up to the first that changes something.
func (d *decision) once() bool {
	d.wake, d.known.doubts, d.known.full = time.Time{}, nil, nil
	for _, stage := range stages {
		if stage.run(d) {
			return true
		}
	}
	return false
}

// wakeAt asks for a decision at t, when t is what this one waits for.
func (d *decision) wakeAt(t time.Time) {
	if !t.IsZero() && (d.wake.IsZero() || t.Before(d.wake)) {
		d.wake = t
	}
}

// due reports whether t has come, and if not, asks to be woken then.
func (d *decision) due(t time.Time) bool {
	if !d.now.Before(t) {
		return true
	}
	d.wakeAt(t)
	return false
}

// move takes an entry from its state to another and writes the timeline. A
// move that the table does not have is a fault of this package: it panics, so
// that the decision is dropped whole rather than saved half right.
func (d *decision) move(e *Entry, to EntryState, why Reason, message string, by Actor, run RunID) {
	if !Legal(e.State, to, why) {
		panic(fmt.Sprintf("queue: #%d would move from %q to %q because of %s, which is not in the table", e.Number, e.State, to, why))
	}
	m := Move{
		Entry: e.ID, PR: e.Number, Submission: e.Submission, From: e.State, To: to,
		At: d.now, Reason: why, Message: message, Actor: by, Run: run,
	}
	d.moves = append(d.moves, m)
	if to.Final() && d.adaptive() { // what is expected of others changes with it
		d.s.Remember(m)
		d.known.tally, d.known.risks = nil, nil
	}
	e.State, e.Reason, e.Message, e.StateChangedAt = to, why, message, d.now
}

// canonical puts facts into an order of their own, so that the order in which
// they were received does not matter: wishes by time, then what the host
// said, then what came of our actions; equal ones by content.
func canonical(facts []Received) []Received {
	type keyed struct {
		Received
		rank int
		at   time.Time
		body string
	}
	sorted := make([]keyed, len(facts))
	for i, f := range facts {
		body, _ := json.Marshal(f.Fact) // plain values: cannot fail
		rank, at := precedence(f.Fact)
		sorted[i] = keyed{f, rank, at, f.Fact.Kind() + string(body)}
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.at.Compare(b.at), strings.Compare(a.body, b.body))
	})
	out := make([]Received, len(facts))
	for i, k := range sorted {
		out[i] = k.Received
	}
	return out
}

func precedence(f Fact) (rank int, at time.Time) {
	switch f := f.(type) {
	case ChangeRequested:
		return 0, f.At
	case Submitted:
		return 0, f.At
	case CancelRequested:
		return 0, f.At
	case RestartRequested:
		return 0, f.At
	case PullRequestSeen:
		return 1, f.UpdatedAt
	case CheckReported:
		return 3, f.At
	case RunBuilt, RunNotBuilt: // before the reports on what was built
		return 2, time.Time{}
	default:
		return 4, time.Time{}
	}
}

// plan compares what is with what was and writes down the difference.
func (d *decision) plan() Plan {
	s := d.s
	s.Queue.Landed = d.neededLanded()
	if len(d.builds) > 0 {
		d.actions = append(d.actions, BuildRuns{
			Queue: s.Queue.ID, Runs: d.builds,
			DraftPRs: s.Queue.CreatePRsForTestingBranches, RequiredStatuses: s.Queue.RequiredStatuses,
		})
	}
	p := Plan{Queue: s.Queue, Line: s.Line, Parts: s.Parts, Gone: d.gone, Moves: d.moves, Receipts: d.receipts, Answers: d.answers, Wake: d.wake}
	for _, e := range changed(s.Entries, d.before.Entries, (*Entry).same) {
		d.countChange(e)
		p.Entries = append(p.Entries, *e)
	}
	for _, g := range changed(s.Groups, d.before.Groups, (*Group).same) {
		p.Groups = append(p.Groups, *g)
	}
	for _, r := range changed(s.Runs, d.before.Runs, (*Run).same) {
		p.Runs = append(p.Runs, *r)
		p.Entries = append(p.Entries, d.toldOfResults(r)...)
	}
	p.Actions = d.actions
	return p
}

// changed lists what is new or is not the same as it was, by id.
func changed[K cmp.Ordered, V any](is, was map[K]*V, same func(v, was *V) bool) []*V {
	var ids []K
	for id, v := range is {
		if old := was[id]; old == nil || !same(v, old) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	list := make([]*V, len(ids))
	for i, id := range ids {
		list[i] = is[id]
	}
	return list
}

// countChange counts the change of an entry, and has people told of it, when it
// is one that they see.
func (d *decision) countChange(e *Entry) {
	was := d.before.Entries[e.ID]
	if was == nil || d.visible(d.before, was) != d.visible(d.s, e) {
		e.Version++
		passing := was != nil && was.Submission == e.Submission && was.BoundHead == e.BoundHead && !e.State.Final()
		d.actions = append(d.actions, SyncPR{Queue: d.s.Queue.ID, Entry: e.ID, PR: e.Number, Passing: passing})
	}
}

// toldOfResults are the members of a run that are told although nothing of their
// own has changed: a failed check begins to wait for test results, or no longer
// does.
func (d *decision) toldOfResults(r *Run) []Entry {
	var told []Entry
	for _, id := range r.Members {
		e, was := d.s.Entries[id], d.before.Entries[id]
		if e == nil || was == nil || !e.same(was) || d.visible(d.before, was) == d.visible(d.s, e) {
			continue // it is gone, or is told anyway
		}
		d.countChange(e)
		told = append(told, *e)
	}
	return told
}

// seen is what the texts on a pull request depend on.
type seen struct {
	state      EntryState
	reason     Reason
	message    string
	head       string
	submission int64
	cancelling bool
	missing    string
	layers     string
	run        RunID
	results    string // checks of the run that wait for test results
}

func (d *decision) visible(s *Snapshot, e *Entry) seen {
	v := seen{
		state: e.State, reason: e.Reason, message: e.Message, head: e.BoundHead, submission: e.Submission,
		cancelling: e.Cancel != nil, layers: e.layersShown(),
	}
	if e.State == NotReady {
		v.missing = string(e.Mergeability) + e.MergeabilityWhy
	}
	if g := s.Groups[e.Group]; g != nil {
		v.run = g.Run
		if r := s.run(g); r != nil && r.State == RunTesting && len(s.TestChecks) > 0 {
			if j := r.judge(d.now, s.TestChecks); !j.until.IsZero() {
				v.results = list(j.names)
			}
		}
	}
	return v
}

// neededLanded keeps the landed steps that a chain may still be compared
// with, and enough to recognise the echo of our own pushes.
func (d *decision) neededLanded() []Landed {
	const echoes = 100
	oldest := d.s.Queue.LandedSeq() - echoes
	for _, g := range d.s.Groups {
		for _, r := range append(slices.Clip(d.hedgesOf(g)), d.s.run(g)) {
			if r != nil && r.Base.Epoch == d.s.Queue.Target.Epoch {
				oldest = min(oldest, r.Base.Seq)
			}
		}
	}
	landed := d.s.Queue.Landed
	for len(landed) > 0 && landed[0].Seq <= oldest {
		landed = landed[1:]
	}
	return slices.Clip(landed)
}

// clone copies a snapshot so deeply that no change of one shows in the other. Lists
// and maps within entries, groups and runs are never changed, only replaced.
func (s *Snapshot) clone() *Snapshot {
	c := *s
	c.Line, c.Parts = slices.Clone(s.Line), slices.Clone(s.Parts)
	c.Entries, c.Groups, c.Runs = copies(s.Entries), copies(s.Groups), copies(s.Runs)
	return &c
}

// copies copies what a map points at, in one allocation.
func copies[K comparable, V any](of map[K]*V) map[K]*V {
	all := make(map[K]*V, len(of))
	list := make([]V, 0, len(of))
	for k, v := range of {
		list = append(list, *v)
		all[k] = &list[len(list)-1]
	}
	return all
}
