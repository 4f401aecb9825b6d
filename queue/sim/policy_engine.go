package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/queue"
)

// engine is what ships: package queue, driven as the service drives it. What
// happens reaches it as facts, each decision sees a window of the queue, and
// what the plan asks for is done at once.
type engine struct {
	*race
	s     *queue.Snapshot
	pool  []*queue.Entry // free pending entries outside the window, in order
	facts []queue.Received
	runs  map[queue.RunID]*trial
	built []*trial // by the number in the name of a commit
	at    map[*trial]queue.RunID
	// untold: the predictor of the cell is not asked.
	untold bool
	wake   time.Duration // the moment for which a wake-up is arranged
	due    bool
}

// withSettings is the engine with settings. Those that are the race's own (the
// checks, the way of landing) are set here.
func withSettings(settings queue.Settings) func(*race) policy {
	return func(p *race) policy {
		settings.RequiredStatuses = []string{"ci"}
		settings.MergeMethod, settings.ChosenLandingMode = queue.MergeCommit, queue.LandExact
		settings.CreatePRsForTestingBranches = false
		settings.TestingTimeoutMinutes = queue.MaxNumber
		settings.Mode = queue.Single
		if p.w.lanes {
			settings.Mode = queue.Parallel
		}
		q := queue.Queue{ID: 1, Key: "4b3bb2ee-3c0c-4b6c-9b53-4d1f3b1f5a10", Branch: "main", State: queue.Running, Settings: settings}
		q.Target.Commit, q.Target.Tree = "m0", treeName(0)
		s := queue.NewSnapshot(q)
		s.Predicted = map[queue.EntryID]float64{}
		return &engine{race: p, s: s, runs: map[queue.RunID]*trial{}, at: map[*trial]queue.RunID{}}
	}
}

func treeName(tree uint64) string { return "t" + strconv.FormatUint(tree, 36) }

// submitted puts a change before the queue as the store shows one whose
// submission was noted and whose state the host has told.
func (e *engine) submitted(i int) {
	now := e.clock()
	x := &e.w.Changes[i]
	entry := &queue.Entry{
		ID: entryID(int64(i + 1)), Submission: 1, State: queue.NotReady,
		BoundHead: "h" + strconv.Itoa(i+1), Mergeability: queue.Mergeable, Priority: queue.Medium,
		SubmittedAt: now, StateChangedAt: now, RefreshAfter: now,
	}
	entry.Number, entry.Head, entry.Base, entry.Open = int64(i+1), entry.BoundHead, "main", true
	entry.MergeabilityFor = entry.Head
	if e.w.lanes {
		set := queue.TargetSet{All: x.All}
		for _, t := range x.Targets {
			set.Hashes = append(set.Hashes, uint64(t))
		}
		entry.Targets = queue.TargetsID(i + 1)
		e.s.Targets[entry.Targets] = set
	}
	e.s.Entries[entry.ID] = entry
	if e.w.Cell.Predictor > 0 && !e.untold {
		e.s.Predicted[entry.ID] = x.Risk
	}
	e.due = true
}

func (e *engine) ended(t *trial) {
	result := "success"
	if t.state == trialFailed {
		result = "failure"
	}
	if r := e.s.Runs[e.at[t]]; r != nil {
		e.report(r.Commit, "completed", result)
	}
}

func (e *engine) report(commit, status, result string) {
	e.serial++
	e.tell(queue.CheckReported{Commit: commit, Report: queue.Report{
		Kind: queue.CheckRun, Name: "ci", ID: e.serial, Status: status, Result: result, At: e.clock(),
	}})
}

func (e *engine) tell(f queue.Fact) { e.facts = append(e.facts, queue.Received{Fact: f}) }

func (e *engine) clock() time.Time { return Start.Add(e.now) }

// decide decides and performs until nothing is left to do at this moment.
func (e *engine) decide() {
	for rounds := 0; e.due || len(e.facts) > 0 || e.wake > 0 && e.wake <= e.now; rounds++ {
		if rounds > 10_000 {
			e.fail("no end: decisions keep asking for more at %s", e.now)
			return
		}
		e.once()
	}
}

func (e *engine) once() {
	e.fill()
	facts := e.facts
	e.facts, e.due, e.wake = nil, false, 0
	plan := queue.Reconcile(e.s, facts, e.clock())
	for _, a := range plan.Actions {
		e.perform(a)
	}
	e.follow(plan)
	e.empty()
	if plan.Wake.IsZero() {
		return
	}
	e.wake = max(plan.Wake.Sub(Start), e.now)
	e.race.at(e.wake, func() {})
}

// follow notes who has ended, and forgets it where no bisection asks for it, and
// the runs that are of no group any more.
func (e *engine) follow(plan queue.Plan) {
	for _, m := range plan.Moves {
		if m.To == queue.Failed || m.To == queue.Cancelled {
			if m.Reason != queue.RequiredStatusFailed && m.Reason != queue.FailedByOptimization {
				e.fail("#%d ended because of %s: %s", m.PR, m.Reason, m.Message)
			}
			e.reject(int(m.PR - 1))
		}
	}
	kept := map[queue.EntryID]bool{}
	for _, b := range e.s.Queue.Bisections {
		for _, id := range b.Members {
			kept[id] = true
		}
	}
	maps.DeleteFunc(e.s.Entries, func(id queue.EntryID, entry *queue.Entry) bool {
		gone := entry.State.Final() && !kept[id]
		if gone {
			delete(e.s.Targets, entry.Targets)
			delete(e.s.Predicted, id)
		}
		return gone
	})
	maps.DeleteFunc(e.s.Runs, func(id queue.RunID, r *queue.Run) bool {
		g := e.s.Groups[r.Group]
		gone := g == nil || g.Run != id && r.Hedge == ""
		if gone {
			delete(e.at, e.runs[id])
			delete(e.runs, id)
		}
		return gone
	})
}

// room is how many free entries a window has: what free slots can take, and,
// where batches are looked for among those that overlap, more.
func (e *engine) room() int {
	q := &e.s.Queue
	const most = 500
	size := int64(1)
	if q.Batch {
		size = min(q.BatchingMinSize, most)
		if q.Mode == queue.Parallel {
			return most
		}
	}
	return int(min((min(max(freeSlots(e.s), 0), most)+1)*size, most))
}

// freeSlots are the slots of the line that no live run holds; hedges give way.
func freeSlots(s *queue.Snapshot) int64 {
	free := s.Queue.Concurrency
	for _, r := range s.Runs {
		if r.State.Live() && r.Kind == queue.MainRun && r.Hedge == "" {
			free--
		}
	}
	return free
}

// fill brings free entries into the window, empty takes those beyond it out again.
func (e *engine) fill() {
	free := 0
	for _, entry := range e.s.Entries {
		if entry.Free() {
			free++
		}
	}
	if n := min(e.room()-free, len(e.pool)); n > 0 {
		for _, entry := range e.pool[:n] {
			e.s.Entries[entry.ID] = entry
		}
		e.pool = e.pool[n:]
	}
	e.s.Waiting = e.left > 0
	e.s.More = len(e.pool) > 0
}

func (e *engine) empty() {
	room := e.room()
	if len(e.s.Entries) <= room {
		return
	}
	var free []*queue.Entry
	for _, entry := range e.s.Entries {
		if entry.Free() && entry.ConflictsWith == "" {
			free = append(free, entry)
		}
	}
	if len(free) <= room {
		return
	}
	slices.SortFunc(free, queue.Compare)
	out := free[room:]
	for _, entry := range out {
		delete(e.s.Entries, entry.ID)
	}
	if len(e.pool) > 0 && queue.Compare(out[len(out)-1], e.pool[0]) > 0 {
		e.pool = append(out, e.pool...)
		slices.SortFunc(e.pool, queue.Compare)
	} else {
		e.pool = append(out, e.pool...)
	}
}

func (e *engine) perform(a queue.Action) {
	switch a := a.(type) {
	case queue.BuildRuns:
		for _, b := range a.Runs {
			e.build(b)
		}
	case queue.StopRun:
		e.stop(e.runs[a.Run])
	case queue.Land:
		e.landing(a)
	case queue.Resync:
		e.tell(queue.ResyncEnded{Resync: a.Resync})
	case queue.RunPreflight:
		e.tell(queue.PreflightSeen{At: e.clock()})
	case queue.SyncPR: // nobody looks
	default:
		e.fail("nobody performs %s", a.Kind())
	}
}

// build makes a run's branch and starts its trial. It goes on where the chain is
// built already. The name of a commit says which trial made it and how many of
// its steps are in it.
func (e *engine) build(b queue.BuildRun) {
	from, known := b.Base.Commit, 0
	for i, s := range b.Chain {
		if s.Commit != "" {
			from, known = s.Commit, i+1
		}
	}
	base, steps := e.content(from)
	tree := treeWith(e.trees[base], steps...)
	chain := make([]queue.Step, len(b.Chain))
	for i, s := range b.Chain {
		chain[i] = s.Step
		if i < known {
			continue
		}
		change := int(s.PR - 1)
		steps, tree = append(steps, change), treeWith(tree, change)
		chain[i].Commit, chain[i].Tree = fmt.Sprintf("c%d-%d", len(e.built), len(steps)), treeName(tree)
	}
	t := e.test(base, steps, b.Own)
	e.built = append(e.built, t)
	e.runs[b.Run], e.at[t] = t, b.Run
	e.tell(queue.RunBuilt{Run: b.Run, Base: b.Base, Chain: chain, Required: []queue.Required{{Name: "ci"}}, RequiredSource: queue.FromQueue, At: e.clock()})
	e.report(chain[len(chain)-1].Commit, "in_progress", "")
}

// content is what is in a commit: main after so many landings, and the steps
// on top of it.
func (e *engine) content(commit string) (base int, steps []int) {
	if n, isMain := strings.CutPrefix(commit, "m"); isMain {
		base, _ = strconv.Atoi(n)
		return base, nil
	}
	t, n := e.madeBy(commit)
	base, steps = t.base, t.steps[:n]
	for len(steps) > 0 && base < e.landings() && e.order[base] == steps[0] {
		base, steps = base+1, steps[1:]
	}
	return base, slices.Clone(steps)
}

// madeBy is the trial that made a commit, and how many of its steps are in it.
func (e *engine) madeBy(commit string) (t *trial, steps int) {
	of, upTo, _ := strings.Cut(commit[1:], "-")
	k, _ := strconv.Atoi(of)
	steps, _ = strconv.Atoi(upTo)
	return e.built[k], steps
}

// landing puts on main what was tested.
func (e *engine) landing(a queue.Land) {
	ended := queue.LandingEnded{Landing: a.Landing, At: e.clock()}
	by, _ := e.madeBy(a.Steps[len(a.Steps)-1].Commit)
	changes := make([]int, len(a.Steps))
	tree := e.trees[e.landings()]
	for n, s := range a.Steps {
		changes[n] = int(s.PR - 1)
		tree = treeWith(tree, changes[n])
		commit := s.Commit
		if a.Recompute {
			commit = fmt.Sprintf("m%d", e.landings()+n+1)
		}
		ended.Landed = append(ended.Landed, queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: commit, Tree: treeName(tree)})
		ended.Commit, ended.Tree = commit, treeName(tree)
		if !a.Recompute && s.Tree != treeName(tree) {
			e.fail("#%d lands as another tree than it was tested as", s.PR)
		}
	}
	e.land(by, changes...)
	e.tell(ended)
}
