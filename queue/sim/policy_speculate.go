package sim

import (
	"cmp"
	"container/heap"
	"slices"
)

// speculationRules are what the planners differ in that consider, for every change,
// the outcomes of those ahead that it overlaps, and test the likeliest combinations
// over all changes first. What a combination is worth is the chance that it comes true.
type speculationRules struct {
	// blind takes every outcome for equally likely; else the predictor is asked.
	blind bool
	// learns: what a change's own trials have said changes its chance.
	learns bool
	// preempts stops what is not among the best any more. Else what runs is kept
	// while it is possible.
	preempts bool
	// floor is the least chance that is tested.
	floor float64
	// bypass lets a change that is tested much sooner than those ahead of it land
	// before them, once it passed with every combination of their outcomes.
	bypass bool
}

var (
	speculateAll    = speculationRules{blind: true}
	submitQueue     = speculationRules{}
	submitQueue2019 = speculationRules{learns: true, preempts: true}
	submitQueue2024 = speculationRules{learns: true, floor: 0.2, bypass: true}
)

// speculationWindow bounds what is looked at: changes beyond so many times the
// workers are not worth a thought.
const speculationWindow = 2

// bypassAtMost is how many slow changes one may bypass at once: the trials that takes
// double with each. slower is how many times as long their tests take at least.
const (
	bypassAtMost = 3
	slower       = 2
)

type speculation struct {
	*race
	speculationRules
	items  []int
	trials [][]*trial // by change: live or ended, still possible
	// over has, by change, those that landed before it though they came later, and
	// proofs the trials of these with it in them, all of which passed.
	over   [][]int
	proofs [][]*trial
}

func (r speculationRules) policy(p *race) policy {
	n := len(p.w.Changes)
	return &speculation{race: p, speculationRules: r, trials: make([][]*trial, n), over: make([][]int, n), proofs: make([][]*trial, n)}
}

func (s *speculation) submitted(i int) { s.items = append(s.items, i) }
func (s *speculation) ended(*trial)    {}

// eligible: what has nothing ahead has one combination, and it is certain.
func (s *speculation) eligible(i int) bool {
	return slices.Index(s.items, i) < speculationWindow*s.w.Cell.Workers
}

func (s *speculation) decide() {
	for s.settle() {
	}
	s.plan()
}

// aheadOf are the open changes before one that it overlaps, in order.
func (s *speculation) aheadOf(place, i int) []int {
	if !s.w.lanes {
		return s.items[:place]
	}
	near := s.neighbours(i)
	at, _ := slices.BinarySearch(near, i)
	return near[:at]
}

// settle ends the first change whose fate is known, and stops what has become
// impossible.
func (s *speculation) settle() bool {
	for at, i := range s.items {
		ahead := s.aheadOf(at, i)
		switch {
		case len(ahead) == 0:
			if s.concludes(at, i) {
				return true
			}
		case s.bypass && s.bypasses(at, i, ahead):
			return true
		case !s.w.lanes && !s.bypass:
			return false
		}
	}
	return false
}

// concludes ends a change with nothing ahead, if it has been tested.
func (s *speculation) concludes(at, i int) bool {
	for _, t := range s.trials[i] {
		if t.live() || !s.stands(t, i) {
			continue
		}
		if t.state != trialPassed {
			s.gone(at, i)
			s.reject(i)
		} else if t = s.proofOf(t, i); t != nil {
			s.gone(at, i)
			s.land(t, i)
		} else { // what bypassed it did not leave a proof: it is tested once more
			s.over[i], s.proofs[i] = nil, nil
		}
		s.prune()
		return true
	}
	return false
}

// gone takes a change out of the line.
func (s *speculation) gone(at, i int) {
	s.items = slices.Delete(s.items, at, at+1)
	for _, t := range s.trials[i] {
		s.stop(t)
	}
	s.trials[i] = nil
}

// stands reports whether a trial has all that landed and that a change overlaps,
// but for what bypassed it.
func (s *speculation) stands(t *trial, i int) bool {
	for _, j := range s.missing(t) {
		if !slices.Contains(s.over[i], j) {
			return false
		}
	}
	return true
}

// prune stops the trials that assume what did not come true.
func (s *speculation) prune() {
	for _, i := range s.items {
		s.trials[i] = slices.DeleteFunc(s.trials[i], func(t *trial) bool {
			possible := s.stands(t, i)
			for _, j := range t.under() {
				possible = possible && (s.open(j) || s.landedAs[j] > 0)
			}
			if !possible {
				s.stop(t)
			}
			return !possible
		})
	}
}

// bypasses lands a change before those ahead of it when it is known to pass
// whatever becomes of them.
func (s *speculation) bypasses(at, i int, ahead []int) bool {
	if s.slowOnes(i, ahead) != len(ahead) || !s.closed(at, i, ahead) {
		return false
	}
	var alone *trial
	var proofs []*trial
	seen := map[uint64]bool{} // by tree on top of main
	for _, t := range s.trials[i] {
		rest := s.unlanded(t)
		whole := t.state == trialPassed && len(s.missing(t)) == 0
		for _, j := range rest {
			whole = whole && (j == i || slices.Contains(ahead, j) && s.sees(t, j))
		}
		if tree := treeWith(0, rest...); whole && !seen[tree] {
			seen[tree] = true
			proofs = append(proofs, t)
			if len(rest) == 1 {
				alone = t
			}
		}
	}
	if len(proofs) < 1<<len(ahead) {
		return false
	}
	s.gone(at, i)
	s.land(alone, i)
	for _, j := range ahead {
		s.over[j] = append(s.over[j], i)
		s.proofs[j] = proofs
	}
	s.prune()
	return true
}

// slowOnes is how many of those ahead one may bypass: 0 where they are too many.
func (s *speculation) slowOnes(i int, ahead []int) int {
	n := 0
	for _, j := range ahead {
		if s.slow(i, j) {
			n++
		}
	}
	if n > bypassAtMost {
		return 0
	}
	return n
}

func (s *speculation) slow(i, j int) bool {
	return s.bypass && s.w.Changes[j].Test >= slower*s.w.Changes[i].Test
}

// closed reports whether everything ahead of those ahead is ahead of i too: what
// becomes of them then is among the combinations.
func (s *speculation) closed(at, i int, ahead []int) bool {
	if !s.w.lanes {
		return true
	}
	for _, j := range ahead {
		for _, k := range s.aheadOf(at, j) {
			if !slices.Contains(ahead, k) {
				return false
			}
		}
	}
	return true
}

// proofOf is the trial by which a change lands whose own one passed: that, or one
// of what bypassed it.
func (s *speculation) proofOf(t *trial, i int) *trial {
	if len(s.over[i]) == 0 {
		return t
	}
	for _, u := range s.proofs[i] {
		if rest := s.unlanded(u); len(rest) == 1 && rest[0] == i && s.sees(u, i) {
			return u
		}
	}
	return nil
}

// plan gives the workers to the likeliest combinations.
func (s *speculation) plan() {
	places := s.idle()
	if s.preempts {
		places = s.w.Cell.Workers
	}
	if places <= 0 {
		return
	}
	var q candidates
	for at, i := range s.items[:min(len(s.items), speculationWindow*s.w.Cell.Workers)] {
		q = append(q, s.first(i, s.aheadOf(at, i)))
	}
	heap.Init(&q)
	wanted := map[*trial]bool{}
	var fresh []*candidate
	for places > 0 && len(q) > 0 && q[0].chance > max(1e-6, s.floor-1e-9) {
		c := heap.Pop(&q).(*candidate)
		steps := c.steps()
		at := slices.IndexFunc(s.trials[c.change], func(t *trial) bool { return slices.Equal(s.unlanded(t), steps) })
		switch {
		case at < 0:
			fresh = append(fresh, c)
			places--
		case s.preempts && s.trials[c.change][at].live():
			wanted[s.trials[c.change][at]] = true
			places--
		}
		for _, next := range c.next() {
			heap.Push(&q, next)
		}
	}
	if s.preempts && len(fresh) > s.idle() {
		s.dropAllBut(wanted)
	}
	for _, c := range fresh {
		if s.idle() > 0 {
			s.trials[c.change] = append(s.trials[c.change], s.test(s.landings(), c.steps(), 1))
		}
	}
}

// dropAllBut stops what runs and is not wanted.
func (s *speculation) dropAllBut(wanted map[*trial]bool) {
	for _, i := range s.items {
		s.trials[i] = slices.DeleteFunc(s.trials[i], func(t *trial) bool {
			drop := t.live() && !wanted[t]
			if drop {
				s.stop(t)
			}
			return drop
		})
	}
}

// unlanded are the steps of a trial that are not on main.
func (p *race) unlanded(t *trial) []int {
	at := slices.IndexFunc(t.steps, func(i int) bool { return p.landedAs[i] == 0 })
	if at < 0 {
		return nil
	}
	if !slices.ContainsFunc(t.steps[at:], func(i int) bool { return p.landedAs[i] > 0 }) {
		return t.steps[at:]
	}
	return slices.DeleteFunc(slices.Clone(t.steps), func(i int) bool { return p.landedAs[i] > 0 })
}

// risk is the chance that a change fails. A trial that failed, and is still possible,
// has nothing on it that is known to fail, so it speaks against the change; one that
// passed speaks for it. A tenth of the doubt is left either way: for what it breaks
// with, and for flakes.
func (s *speculation) risk(i int) float64 {
	if s.blind {
		return 0.5
	}
	risk := s.w.Changes[i].Risk
	if !s.learns {
		return risk
	}
	for _, t := range s.trials[i] {
		switch t.state {
		case trialPassed:
			return risk / 10
		case trialFailed:
			return 1 - (1-risk)/10
		}
	}
	return risk
}

// candidate is one combination of outcomes for those ahead of a change: the
// likeliest one, with some of them turned around.
type candidate struct {
	*outlook
	turned []int // places in order, ascending
	chance float64
}

// outlook is what is thought of those ahead of a change.
type outlook struct {
	change int
	ahead  []int
	lands  []bool // the likeliest outcome of each
	order  []int  // those ahead, the least certain first
	costs  []float64
}

// first is the likeliest combination. The outcomes of what may be bypassed are all
// needed, so they are all certain.
func (s *speculation) first(i int, ahead []int) *candidate {
	c := &candidate{outlook: &outlook{change: i, ahead: ahead, lands: make([]bool, len(ahead))}, chance: 1}
	c.order, c.costs = make([]int, len(ahead)), make([]float64, len(ahead))
	bypass := s.bypass && s.slowOnes(i, ahead) > 0
	for k, j := range ahead {
		risk := s.risk(j)
		c.lands[k], c.order[k] = risk < 0.5, k
		if bypass && s.slow(i, j) {
			c.costs[k] = 1
			continue
		}
		likely := max(risk, 1-risk)
		c.chance *= likely
		c.costs[k] = (1 - likely) / likely
	}
	slices.SortStableFunc(c.order, func(a, b int) int { return cmp.Compare(c.costs[b], c.costs[a]) })
	return c
}

// next are the combinations that follow in likelihood: each is reached once.
func (c *candidate) next() []*candidate {
	last := -1
	if n := len(c.turned); n > 0 {
		last = c.turned[n-1]
	}
	if last+1 >= len(c.order) {
		return nil
	}
	cost := func(at int) float64 { return c.costs[c.order[at]] }
	more := &candidate{c.outlook, append(slices.Clone(c.turned), last+1), c.chance * cost(last+1)}
	list := []*candidate{more}
	if last >= 0 && cost(last) > 0 {
		other := &candidate{c.outlook, slices.Clone(c.turned), c.chance / cost(last) * cost(last+1)}
		other.turned[len(other.turned)-1] = last + 1
		list = append(list, other)
	}
	return list
}

func (c *candidate) steps() []int {
	steps := make([]int, 0, len(c.ahead)+1)
	turned := make([]bool, len(c.ahead))
	for _, at := range c.turned {
		turned[c.order[at]] = true
	}
	for k, j := range c.ahead {
		if c.lands[k] != turned[k] {
			steps = append(steps, j)
		}
	}
	return append(steps, c.change)
}

type candidates []*candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	if c[i].chance != c[j].chance {
		return c[i].chance > c[j].chance
	}
	return c[i].change < c[j].change
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(*candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
