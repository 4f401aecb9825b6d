package sim

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// race is one policy at work on one workload, in virtual time: the arrivals,
// CI with its workers, main, and what became of each change. It holds what must
// hold of every policy (see hold.go).
type race struct {
	w      *Workload
	policy policy
	now    time.Duration
	events events
	serial int64

	free    int      // workers
	waiting []*trial // for a worker, first come first served
	unbegun int      // trials that wait for a worker or are on their way to CI

	trees    []uint64 // of main after each landing, from none on
	order    []int    // what landed, in order
	landedAs []int    // by change, as the how many-th; 0 = not
	endings  []ending // by change
	left     int      // changes that have not ended
	attempts map[uint64]int
	marks    []int64 // by change, the trial that it was last seen in
	// near has, by change, the submitted ones that it overlaps, in order, where not
	// all do; those that have ended are taken out when it is read.
	near [][]int
	held held

	spent, wasted time.Duration // of CI, and of it for trials that were stopped
	trials        int
	stopped       int
	planning      time.Duration // real time that decisions took
	decisions     int
	err           error
}

// ending is what became of a change.
type ending struct {
	at     time.Duration
	landed bool
	done   bool
	trials int // that tested it, not those that only included it
}

// policy decides what is tested and what lands.
type policy interface {
	// submitted and ended tell what happened; decide is called after all that
	// happens at one time, and whenever the policy asked to be woken.
	submitted(i int)
	ended(t *trial)
	decide()
	// eligible reports whether the policy's own rules let a change be tested now, if
	// CI has a worker for it. Nothing open is ahead of the change.
	eligible(i int) bool
}

// trial is one run of CI: of its last own steps, on top of the steps before
// them, on top of main as it was after base landings.
type trial struct {
	id    int64
	steps []int
	own   int
	base  int
	tree  uint64

	state trialState
	// missing are the changes that landed since its base, up to landing checked, that
	// overlap what it tests and are not in it.
	missing []int
	checked int
	began   time.Duration
	lasts   time.Duration
	costs   time.Duration
}

type trialState int

const (
	trialWaits trialState = iota
	trialRuns
	trialPassed
	trialFailed
	trialStopped
)

func (t *trial) live() bool { return t.state == trialWaits || t.state == trialRuns }

// raceEvent is something that happens in a race.
type raceEvent struct {
	at     time.Duration
	serial int64
	do     func()
}

type events []raceEvent

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].serial, e[j].serial)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(raceEvent)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// newRace sets a workload up for a policy.
func newRace(w *Workload, of func(*race) policy) *race {
	n := len(w.Changes)
	p := &race{
		w: w, free: w.Cell.Workers, left: n, trees: []uint64{0}, attempts: map[uint64]int{},
		landedAs: make([]int, n), endings: make([]ending, n), marks: make([]int64, n), near: make([][]int, n),
		held: held{testing: make([]int, n), trials: make([][]*trial, n), since: map[int]time.Duration{}},
	}
	p.policy = of(p)
	for i := range w.Changes {
		p.at(w.Changes[i].At, func() { p.submit(i) })
	}
	return p
}

// submit has a change arrive.
func (p *race) submit(i int) {
	if p.w.lanes {
		for _, j := range p.w.Changes[i].before {
			if p.open(j) {
				p.near[i] = append(p.near[i], j)
				p.near[j] = append(p.near[j], i)
			}
		}
	}
	p.comes(i)
	p.policy.submitted(i)
}

// neighbours are the open changes that i overlaps, where not all do.
func (p *race) neighbours(i int) []int {
	p.near[i] = slices.DeleteFunc(p.near[i], func(j int) bool { return !p.open(j) })
	return p.near[i]
}

// run plays until every change has ended, or ctx has.
func (p *race) run(ctx context.Context) error {
	for p.left > 0 && p.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(p.events) == 0 {
			return fmt.Errorf("at %s nothing happens any more, and %d changes have not ended", p.now, p.left)
		}
		p.now = p.events[0].at
		for len(p.events) > 0 && p.events[0].at == p.now {
			heap.Pop(&p.events).(raceEvent).do()
		}
		began := time.Now()
		p.policy.decide()
		p.planning += time.Since(began)
		p.decisions++
		p.hold()
	}
	return p.err
}

// at has something happen.
func (p *race) at(when time.Duration, do func()) {
	p.serial++
	heap.Push(&p.events, raceEvent{max(when, p.now), p.serial, do})
}

func (p *race) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// test asks CI for a trial of steps on main as it was after base landings, of
// which the last own are what it tests.
func (p *race) test(base int, steps []int, own int) *trial {
	p.serial++
	t := &trial{id: p.serial, steps: steps, own: own, base: base, checked: base, tree: treeWith(p.trees[base], steps...)}
	longest, all := time.Duration(0), time.Duration(0)
	for _, i := range steps[len(steps)-own:] {
		longest = max(longest, p.w.Changes[i].Test)
		all += p.w.Changes[i].Test
		p.endings[i].trials++
	}
	fixed := cmp.Or(p.w.Cell.Fixed, 1)
	t.lasts = longest
	t.costs = time.Duration(fixed*float64(longest) + (1-fixed)*float64(all))
	p.trials++
	p.unbegun++
	p.begins(t)
	if d := p.w.Cell.Delay; d > 0 {
		p.at(p.now+d, func() { p.queue(t) })
	} else {
		p.queue(t)
	}
	return t
}

func (p *race) queue(t *trial) {
	if t.state == trialWaits {
		p.waiting = append(p.waiting, t)
		p.next()
	}
}

// next gives free workers to what waits.
func (p *race) next() {
	for p.free > 0 && len(p.waiting) > 0 {
		t := p.waiting[0]
		p.waiting = p.waiting[1:]
		if t.state != trialWaits {
			continue
		}
		p.free--
		p.unbegun--
		t.state, t.began = trialRuns, p.now
		p.at(p.now+t.lasts, func() { p.finish(t) })
	}
}

// idle is how many workers have nothing to do, and nothing on its way to them.
func (p *race) idle() int { return p.free - p.unbegun }

// finish ends a trial that was not stopped before.
func (p *race) finish(t *trial) {
	if t.state != trialRuns {
		return
	}
	p.free++
	p.spent += t.costs
	t.state = trialPassed
	if p.fails(t) || p.flakes(t) {
		t.state = trialFailed
	}
	p.over(t)
	p.policy.ended(t)
	p.next()
}

// stop ends a trial that nobody needs any more.
func (p *race) stop(t *trial) {
	if t == nil || !t.live() {
		return
	}
	if t.state == trialRuns {
		end := min(p.now+p.w.Cell.Abort, t.began+t.lasts)
		done := time.Duration(float64(t.costs) * safeDivide(float64(end-t.began), float64(t.lasts)))
		p.spent += done
		p.wasted += done
		if end == p.now {
			p.free++
		} else {
			p.at(end, func() { p.free++ })
		}
		p.at(end, p.next)
	} else {
		p.unbegun--
	}
	p.over(t)
	p.stopped++
	t.state = trialStopped
}

// fails is the truth about a trial's tree.
func (p *race) fails(t *trial) bool {
	for _, i := range t.steps {
		p.marks[i] = t.id
	}
	for _, i := range t.steps {
		x := &p.w.Changes[i]
		if x.Bad {
			return true
		}
		for _, j := range x.breaks {
			if p.marks[j] == t.id || p.landedAs[j] > 0 && p.landedAs[j] <= t.base {
				return true
			}
		}
	}
	return false
}

// flakes draws whether a tree fails for no reason this time.
func (p *race) flakes(t *trial) bool {
	f := p.w.Cell.Flakes
	if f == 0 {
		return false
	}
	p.attempts[t.tree]++
	r := rand.New(rand.NewPCG(p.w.Seed^t.tree, uint64(p.attempts[t.tree])))
	return r.Float64() < f
}

// overlaps reports whether the order of two changes matters.
func (p *race) overlaps(a, b int) bool { return p.w.overlap(a, b) }

func (w *Workload) overlap(a, b int) bool {
	if !w.lanes {
		return true
	}
	x, y := &w.Changes[a], &w.Changes[b]
	if x.All || y.All {
		return true
	}
	for _, s := range x.Targets {
		for _, t := range y.Targets {
			if s == t {
				return true
			}
		}
	}
	return false
}

// missing are the changes that landed since a trial's base, overlap what it tests,
// and are not in it.
func (p *race) missing(t *trial) []int {
	for ; t.checked < len(p.order); t.checked++ {
		j := p.order[t.checked]
		overlaps := func(i int) bool { return p.overlaps(i, j) }
		if slices.ContainsFunc(t.members(), overlaps) && !slices.Contains(t.steps, j) {
			t.missing = append(t.missing, j)
		}
	}
	return t.missing
}

// sees reports whether a trial has everything that landed since its base and
// overlaps a change.
func (p *race) sees(t *trial, i int) bool {
	for _, j := range p.order[t.base:] {
		if p.overlaps(i, j) && !slices.Contains(t.steps, j) {
			return false
		}
	}
	return true
}

// land puts changes on main, proven by a trial that passed: they are what is
// left of its steps, and nothing that they overlap has landed beside them.
func (p *race) land(by *trial, changes ...int) {
	if by.state != trialPassed {
		p.fail("changes %v land by a trial that did not pass", changes)
	}
	var rest []int
	for _, i := range by.steps {
		if p.landedAs[i] == 0 {
			rest = append(rest, i)
		}
	}
	if !slices.Equal(rest, changes) {
		p.fail("%v land, and what was tested is %v", changes, rest)
	}
	p.missesNothing(by, changes)
	for _, i := range changes {
		p.end(i, true)
		p.trees = append(p.trees, treeWith(p.trees[p.landings()], i))
		p.landedAs[i] = len(p.trees) - 1
		p.order = append(p.order, i)
	}
}

// reject throws a change out.
func (p *race) reject(i int) { p.end(i, false) }

func (p *race) end(i int, landed bool) {
	if p.endings[i].done {
		p.fail("change %d ends twice", i)
		return
	}
	p.endings[i].done, p.endings[i].landed, p.endings[i].at = true, landed, p.now
	p.left--
	p.goes(i)
}

// open reports whether a change has not ended.
func (p *race) open(i int) bool { return !p.endings[i].done }

// landings is how many changes have landed.
func (p *race) landings() int { return len(p.trees) - 1 }

// treeWith is a tree with changes added to it, in whatever order.
func treeWith(tree uint64, changes ...int) uint64 {
	for _, i := range changes {
		tree ^= stir(uint64(i) + 1)
	}
	return tree
}

// stir spreads a number over 64 bits, so that the trees of two sets of changes
// are the same only when the sets are.
func stir(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
