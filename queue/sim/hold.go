package sim

import (
	"slices"
	"time"
)

// What is held of every policy while it plays:
//
//   - what lands passed, as the very tree that lands, once (land, end),
//   - with everything in it that landed before and that it overlaps (missesNothing),
//   - no two open changes are tested each on top of the other (crossed),
//   - no worker is idle while a change with nothing open ahead of it, which is sure to
//     be needed, is not tested though the policy's own rules let it (idles).

// held is what this needs to know.
type held struct {
	begun   []*trial   // since the last look
	testing []int      // by change, the live trials that it is a step of
	trials  [][]*trial // by change, the live trials that test it
	first   int        // in a single line: everything before it has ended
	heads   []int      // with lanes: the open changes with nothing open ahead
	since   map[int]time.Duration
}

// comes notes an arrival, goes an ending.
func (p *race) comes(i int) {
	if p.w.lanes && p.leads(i) {
		p.held.heads = append(p.held.heads, i)
	}
}

func (p *race) goes(i int) {
	delete(p.held.since, i)
	for p.held.first < len(p.endings) && p.endings[p.held.first].done {
		p.held.first++
	}
	if !p.w.lanes {
		return
	}
	p.held.heads = slices.DeleteFunc(p.held.heads, func(j int) bool { return j == i })
	for _, j := range p.neighbours(i) {
		if j > i && p.leads(j) {
			p.held.heads = append(p.held.heads, j)
		}
	}
}

// leads reports whether nothing open is ahead of a change, with lanes.
func (p *race) leads(i int) bool {
	near := p.neighbours(i)
	return len(near) == 0 || near[0] > i
}

// begins notes a trial, over its end.
func (p *race) begins(t *trial) {
	p.held.begun = append(p.held.begun, t)
	for _, i := range t.steps {
		p.held.testing[i]++
	}
	for _, i := range t.members() {
		p.held.trials[i] = append(p.held.trials[i], t)
	}
}

func (p *race) over(t *trial) {
	for _, i := range t.steps {
		p.held.testing[i]--
	}
	for _, i := range t.members() {
		p.held.trials[i] = slices.DeleteFunc(p.held.trials[i], func(o *trial) bool { return o == t })
	}
}

// members are the steps of a trial that it tests, under those that it tests them on.
func (t *trial) members() []int { return t.steps[len(t.steps)-t.own:] }
func (t *trial) under() []int   { return t.steps[:len(t.steps)-t.own] }

// hold looks after each decision.
func (p *race) hold() {
	for _, t := range p.held.begun {
		if t.live() {
			p.crossed(t)
		}
	}
	p.held.begun = p.held.begun[:0]
	p.idles()
}

// crossed holds that nothing a trial is built on is itself tested on top of what
// the trial tests: neither could land as it was tested.
func (p *race) crossed(t *trial) {
	for _, j := range t.under() {
		for _, other := range p.held.trials[j] {
			for _, i := range t.members() {
				if p.open(i) && p.open(j) && slices.Contains(other.under(), i) {
					p.fail("changes %d and %d are tested each on top of the other", i, j)
				}
			}
		}
	}
}

// idles holds that CI works while there is work that is sure to be needed.
func (p *race) idles() {
	heads := p.held.heads
	if !p.w.lanes {
		heads = nil
		if i := p.held.first; i < len(p.endings) && p.w.Changes[i].At <= p.now {
			heads = []int{i}
		}
	}
	idle := p.idle() > 0
	for _, i := range heads {
		if !idle || p.held.testing[i] > 0 || !p.policy.eligible(i) {
			delete(p.held.since, i)
			continue
		}
		since, known := p.held.since[i]
		if !known {
			p.held.since[i] = p.now
		} else if since < p.now {
			p.fail("at %s, %d workers are idle and nothing is ahead of change %d, which is not tested since %s", p.now, p.idle(), i, since)
		}
	}
}

// missesNothing holds that all that landed since a trial's base was in it, or
// overlaps nothing that lands.
func (p *race) missesNothing(by *trial, changes []int) {
	for _, i := range by.steps {
		p.marks[i] = by.id
	}
	for _, j := range p.order[by.base:] {
		for _, i := range changes {
			if p.marks[j] != by.id && p.overlaps(i, j) {
				p.fail("change %d lands, and was tested without %d, which landed before", i, j)
			}
		}
	}
}
