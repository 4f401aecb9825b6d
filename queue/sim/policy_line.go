package sim

import "slices"

// The policies of others, as they are published, written anew. Each is given
// the overlap rule of parallel mode, so that what is compared is the policy and
// not what it knows of the code.

// ahead are the open changes of a list that i overlaps, which stands behind them.
func (p *race) ahead(open []int, i int) []int {
	if !p.w.lanes {
		return open
	}
	var list []int
	for _, j := range p.w.Changes[i].before {
		if p.open(j) {
			list = append(list, j)
		}
	}
	return list
}

// linePolicy tests changes in one line, each on top of what is ahead of it.
//
//   - one by one: only what has nothing open ahead is tested (bors without batches).
//   - cumulative: a change that fails is thrown out when everything ahead has
//     landed, and what is behind is built again (GitHub's queue).
//   - Zuul's gate: what is behind a change that fails is built again without it
//     at once; how many are tested grows by one with each that lands, and is
//     halved by each that fails.
type linePolicy struct {
	*race
	items   []int
	trials  []*trial // by change
	window  int
	guesses bool // tests on top of what is not decided
	skips   bool // what is known to fail is no base
	adapts  bool // the window does
}

func oneByOne(p *race) policy {
	return &linePolicy{race: p, trials: make([]*trial, len(p.w.Changes)), window: p.w.Cell.Workers}
}

func cumulative(p *race) policy {
	return &linePolicy{race: p, trials: make([]*trial, len(p.w.Changes)), window: p.w.Cell.Workers, guesses: true}
}

func zuul(p *race) policy {
	return &linePolicy{race: p, trials: make([]*trial, len(p.w.Changes)), window: 20, guesses: true, skips: true, adapts: true}
}

func (l *linePolicy) submitted(i int) { l.items = append(l.items, i) }
func (l *linePolicy) ended(*trial)    {}

func (l *linePolicy) decide() {
	for l.pass() {
	}
}

// pass goes along the line once; what it changes may change what is behind.
func (l *linePolicy) pass() (again bool) {
	failing := map[int]bool{}
	active := 0
	for at, i := range l.items {
		if active == l.window {
			break
		}
		ahead := l.ahead(l.items[:at], i)
		if len(ahead) > 0 && !l.guesses {
			if !l.w.lanes {
				break
			}
			continue
		}
		active++
		var base []int
		for _, j := range ahead {
			if !failing[j] {
				base = append(base, j)
			}
		}
		t := l.trials[i]
		if t == nil || !l.current(t, base, i) {
			l.stop(t)
			steps := append(base[:len(base):len(base)], i)
			t = l.test(l.landings(), steps, 1)
			l.trials[i] = t
		}
		if t.state == trialFailed && l.skips {
			failing[i] = true
		}
		if len(ahead) == 0 && !t.live() {
			l.conclude(at, i, t)
			return true
		}
	}
	return false
}

// current reports whether a trial tests what would land: its steps that have
// not landed are those ahead and the change itself.
func (l *linePolicy) current(t *trial, base []int, i int) bool {
	at := 0
	for _, j := range t.steps[:len(t.steps)-1] {
		switch {
		case l.landedAs[j] > 0:
		case at < len(base) && base[at] == j:
			at++
		default:
			return false
		}
	}
	return at == len(base) && l.sees(t, i)
}

// sees reports whether a trial has everything that landed and overlaps its change.
func (p *race) sees(t *trial, i int) bool {
	for _, j := range p.order[t.base:] {
		if !slices.Contains(t.steps, j) && p.overlaps(i, j) {
			return false
		}
	}
	return true
}

func (l *linePolicy) conclude(at, i int, t *trial) {
	l.items = slices.Delete(l.items, at, at+1)
	if t.state == trialPassed {
		l.land(t, i)
		if l.adapts {
			l.window++
		}
		return
	}
	l.reject(i)
	if l.adapts {
		l.window = max(3, l.window/2)
	}
}

// halving tests batches, one after the other where they overlap: one that
// fails is split, and its halves are tested in order (bors).
type halving struct {
	*race
	most  int
	units []*unit // in order: those that run and those that were split off
	fresh []int
}

type unit struct {
	members []int
	trial   *trial
}

func halvingOf(most int) func(*race) policy {
	return func(p *race) policy { return &halving{race: p, most: most} }
}

func (h *halving) submitted(i int) { h.fresh = append(h.fresh, i) }
func (h *halving) ended(*trial)    {}

func (h *halving) decide() {
	for h.concludeOne() {
	}
	for at, u := range h.units {
		if u.trial == nil && h.clear(u.members, h.units[:at]) {
			h.start(u)
		}
	}
	for {
		u := h.form()
		if u == nil {
			return
		}
		h.units = append(h.units, u)
		h.start(u)
	}
}

func (h *halving) start(u *unit) { u.trial = h.test(h.landings(), u.members, len(u.members)) }

func (h *halving) concludeOne() bool {
	for at, u := range h.units {
		if u.trial == nil || u.trial.live() {
			continue
		}
		var halves []*unit
		switch n := len(u.members); {
		case u.trial.state == trialPassed:
			h.land(u.trial, u.members...)
		case n == 1:
			h.reject(u.members[0])
		default:
			halves = []*unit{{members: u.members[:n/2]}, {members: u.members[n/2:]}}
		}
		h.units = slices.Replace(h.units, at, at+1, halves...)
		return true
	}
	return false
}

// clear reports whether nothing of what is ahead overlaps any of them.
func (h *halving) clear(members []int, ahead []*unit) bool {
	for _, u := range ahead {
		for _, j := range u.members {
			for _, i := range members {
				if h.overlaps(i, j) {
					return false
				}
			}
		}
	}
	return true
}

// form makes a batch of the first change with nothing open ahead, and of those
// behind that overlap it and have nothing else ahead.
func (h *halving) form() *unit {
	single := !h.w.lanes
	if single && len(h.units) > 0 {
		return nil
	}
	in := map[int]bool{}
	var batch, rest []int
	for at, i := range h.fresh {
		joins := len(batch) == 0 || single
		only := true
		if !single {
			for _, j := range h.ahead(nil, i) {
				joins = joins || in[j]
				only = only && in[j]
			}
		}
		if len(batch) == h.most || single && len(batch) > 0 && !joins {
			rest = append(rest, h.fresh[at:]...)
			break
		}
		if joins && only {
			in[i] = true
			batch = append(batch, i)
		} else {
			rest = append(rest, i)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	h.fresh = rest
	return &unit{members: batch}
}
