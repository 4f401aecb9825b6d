package sim

import (
	"cmp"
	"container/heap"
	"slices"
)

// speculation is the planner that Uber published as SubmitQueue: for every
// change it considers the outcomes of those ahead that it overlaps, and builds
// the likeliest combinations over all changes first. What runs is kept while
// it is still possible. How likely a combination is comes from the predictor
// alone; what has passed meanwhile does not change it.
type speculation struct {
	*race
	items  []int
	trials [][]*trial // by change: live or ended, still possible
}

// speculationWindow bounds what is looked at: changes beyond so many times the
// workers are not worth a thought.
const speculationWindow = 2

func speculate(p *race) policy {
	return &speculation{race: p, trials: make([][]*trial, len(p.w.Changes))}
}

func (s *speculation) submitted(i int) { s.items = append(s.items, i) }
func (s *speculation) ended(*trial)    {}

func (s *speculation) decide() {
	for s.settle() {
	}
	s.plan()
}

// settle ends the first change whose fate is known, and stops what has become
// impossible.
func (s *speculation) settle() bool {
	for at, i := range s.items {
		ahead := s.ahead(s.items[:at], i)
		if len(ahead) > 0 {
			if !s.w.lanes {
				return false
			}
			continue
		}
		for _, t := range s.trials[i] {
			if t.live() || !s.sees(t, i) {
				continue
			}
			s.items = slices.Delete(s.items, at, at+1)
			if t.state == trialPassed {
				s.land(t, i)
			} else {
				s.reject(i)
			}
			for _, other := range s.trials[i] {
				s.stop(other)
			}
			s.trials[i] = nil
			s.prune()
			return true
		}
	}
	return false
}

// prune stops the trials that assume what did not come true.
func (s *speculation) prune() {
	for _, i := range s.items {
		s.trials[i] = slices.DeleteFunc(s.trials[i], func(t *trial) bool {
			possible := s.sees(t, i)
			for _, j := range t.steps[:len(t.steps)-1] {
				possible = possible && (s.open(j) || s.landedAs[j] > 0)
			}
			if !possible {
				s.stop(t)
			}
			return !possible
		})
	}
}

// plan gives the free workers to the likeliest combinations.
func (s *speculation) plan() {
	free := s.free
	for _, t := range s.waiting {
		if t.state == trialWaits {
			free--
		}
	}
	if free <= 0 {
		return
	}
	var q candidates
	for at, i := range s.items[:min(len(s.items), speculationWindow*s.w.Cell.Workers)] {
		heap.Push(&q, s.first(i, s.ahead(s.items[:at], i)))
	}
	for free > 0 && len(q) > 0 && q[0].chance > 1e-6 {
		c := heap.Pop(&q).(*candidate)
		steps := c.steps()
		if !slices.ContainsFunc(s.trials[c.change], func(t *trial) bool { return slices.Equal(s.unlanded(t), steps) }) {
			s.trials[c.change] = append(s.trials[c.change], s.test(s.landings(), steps, 1))
			free--
		}
		for _, next := range c.next() {
			heap.Push(&q, next)
		}
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

// candidate is one combination of outcomes for those ahead of a change: the
// likeliest one, with some of them turned around.
type candidate struct {
	change int
	ahead  []int
	lands  []bool // the likeliest outcome of each
	order  []int  // those ahead, the least certain first
	costs  []float64
	turned []int // places in order, ascending
	chance float64
}

// first is the likeliest combination.
func (s *speculation) first(i int, ahead []int) *candidate {
	c := &candidate{change: i, ahead: ahead, lands: make([]bool, len(ahead)), chance: 1}
	c.order, c.costs = make([]int, len(ahead)), make([]float64, len(ahead))
	for k, j := range ahead {
		risk := s.w.Changes[j].Risk
		c.lands[k], c.order[k] = risk < 0.5, k
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
	more := *c
	more.turned = append(slices.Clone(c.turned), last+1)
	more.chance = c.chance * cost(last+1)
	list := []*candidate{&more}
	if last >= 0 && cost(last) > 0 {
		other := *c
		other.turned = slices.Clone(c.turned)
		other.turned[len(other.turned)-1] = last + 1
		other.chance = c.chance / cost(last) * cost(last+1)
		list = append(list, &other)
	}
	return list
}

func (c *candidate) steps() []int {
	turned := map[int]bool{}
	for _, at := range c.turned {
		turned[c.order[at]] = true
	}
	var steps []int
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
