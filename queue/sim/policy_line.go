package sim

import (
	"slices"
	"time"
)

// The policies of others, as they are published, written anew. Each is given
// the overlap rule of parallel mode, so that what is compared is the policy and
// not what it knows of the code.

// lineRules are what policies differ in that keep one line.
type lineRules struct {
	// batch is how many changes are tested together at most, wait how long the first
	// waits for the others.
	batch int
	wait  time.Duration
	// guesses: tests on top of what is not decided. Without it nothing is tested
	// that has something open ahead.
	guesses bool
	// skips: what failed is no base any more, at once. Without it everybody behind
	// goes on until it is thrown out.
	skips bool
	// window is how many units from the front may be tested, 0 = all. With adapts it
	// grows by one with each that lands and is halved by each that fails.
	window int
	adapts bool
	// lanes: what is ahead of what is ahead of a unit is ahead of it too.
	lanes bool
	// optimistic: what passes takes along all that it was tested on. depth is how many
	// units behind one that failed are waited for, to see whether one passes.
	optimistic bool
	depth      int
	// beside: a batch that fails is searched beside the line, part by part on main,
	// and who passes there comes back to the front. Without it the halves take its place.
	beside bool
}

var (
	oneByOne   = lineRules{batch: 1}
	halving    = lineRules{batch: 8}
	cumulative = lineRules{batch: 1, guesses: true}
	optimistic = lineRules{batch: 1, guesses: true, skips: true}
	zuulGate   = lineRules{batch: 1, guesses: true, skips: true, window: 20, adapts: true}
	trunkLike  = lineRules{batch: 4, wait: 5 * time.Minute, guesses: true, lanes: true, optimistic: true, depth: 2, beside: true}
)

// line is a policy of one line.
type line struct {
	*race
	lineRules
	units []*unit // in order
	fresh []int   // of no unit, in the order in which they are taken
	of    []*unit // by change
	back  []bool  // by change: it was in a batch that failed, and waits no more
	alone []bool  // by change: it is tested without others
	parts []*unit // of batches that failed, beside the line
	looks int     // calls of aheadOf
}

// unit is what is tested together, in this order.
type unit struct {
	members []int
	trial   *trial
	place   int     // in the line, as of the last look
	ahead   []*unit // likewise
	failing bool    // likewise
	seen    int     // by which aheadOf
	search  *search // whose part it is
}

// search is the search for culprits in a batch: how many parts are left, whether
// one was found, and who was searched.
type search struct {
	left  int
	found bool
	all   []int
}

func (r lineRules) policy(p *race) policy {
	n := len(p.w.Changes)
	return &line{race: p, lineRules: r, of: make([]*unit, n), back: make([]bool, n), alone: make([]bool, n)}
}

func (l *line) submitted(i int) {
	if l.batch == 1 {
		l.join(&unit{members: []int{i}})
		return
	}
	l.fresh = append(l.fresh, i)
	if l.wait > 0 {
		l.at(l.now+l.wait, func() {})
	}
}

func (l *line) ended(*trial) {}

// join puts a unit at the end of the line.
func (l *line) join(u *unit) {
	l.units = append(l.units, u)
	for _, i := range u.members {
		l.of[i] = u
	}
}

// decide concludes what can be concluded, and only then gives free workers away:
// to the searches, then along the line from the front.
func (l *line) decide() {
	for l.searched() || l.look() {
	}
	for _, u := range l.parts {
		l.start(u)
	}
	for _, u := range l.testable() {
		l.start(u)
	}
	for l.batch > 1 && l.idle() > 0 {
		u := l.form()
		if u == nil {
			return
		}
		l.join(u)
		l.look()
		l.start(u)
	}
}

// testable are the units that may be tested.
func (l *line) testable() []*unit {
	if l.window > 0 {
		return l.units[:min(l.window, len(l.units))]
	}
	if !l.w.lanes && !l.guesses {
		return l.units[:min(1, len(l.units))]
	}
	return l.units
}

// start starts a unit's trial where there is none, it may, and a worker is free.
func (l *line) start(u *unit) {
	if u.trial == nil && l.idle() > 0 && (l.guesses || u.search != nil || len(u.ahead) == 0) {
		u.trial = l.test(l.landings(), append(u.base(), u.members...), len(u.members))
	}
}

// look goes along the line once, from the front, stops what tests something else
// than what would land, and reports whether what it concluded may change the rest.
func (l *line) look() bool {
	for at, u := range l.units {
		u.place, u.failing = at, false
	}
	for _, u := range l.testable() {
		if u.trial == nil && l.idle() <= 0 && !l.lanes {
			continue
		}
		u.ahead = l.aheadOf(u)
		if u.trial != nil && !l.current(u) {
			l.stop(u.trial)
			u.trial = nil
		}
		u.failing = l.skips && u.trial != nil && u.trial.state == trialFailed
	}
	return slices.ContainsFunc(l.units, l.conclude)
}

// base is what a unit is tested on top of.
func (u *unit) base() []int {
	var base []int
	for _, a := range u.ahead {
		if !a.failing {
			base = append(base, a.members...)
		}
	}
	return base
}

// aheadOf are the units before one that it is tested on top of, in line order.
func (l *line) aheadOf(u *unit) []*unit {
	if !l.w.lanes {
		return l.units[:u.place]
	}
	l.looks++
	least := u.place
	add := func(a *unit) {
		a.seen = l.looks
		least = min(least, a.place)
	}
	for _, i := range u.members {
		for _, j := range l.neighbours(i) {
			if a := l.of[j]; a != nil && a.search == nil && a.place < u.place && a.seen != l.looks {
				add(a)
				if l.lanes {
					for _, b := range a.ahead {
						add(b)
					}
				}
			}
		}
	}
	ahead := u.ahead[:0]
	for _, a := range l.units[least:u.place] {
		if a.seen == l.looks {
			ahead = append(ahead, a)
		}
	}
	return ahead
}

// current reports whether a unit's trial tests what would land: what has not landed
// of what it is built on is what is ahead and not failing, and nothing that landed is
// missing.
func (l *line) current(u *unit) bool {
	under := u.trial.under()
	next := func() int {
		for len(under) > 0 && l.landedAs[under[0]] > 0 {
			under = under[1:]
		}
		if len(under) == 0 {
			return -1
		}
		i := under[0]
		under = under[1:]
		return i
	}
	for _, a := range u.ahead {
		if a.failing {
			continue
		}
		for _, i := range a.members {
			if next() != i {
				return false
			}
		}
	}
	return next() < 0 && len(l.missing(u.trial)) == 0
}

// conclude ends what a unit's trial has decided, if anything.
func (l *line) conclude(u *unit) bool {
	if u.trial == nil || u.trial.live() {
		return false
	}
	switch {
	case u.trial.state == trialPassed && (l.optimistic || len(u.ahead) == 0):
		l.lands(u)
	case u.trial.state == trialFailed && len(u.ahead) == 0 && !l.awaited(u):
		l.fails(u)
	default:
		return false
	}
	return true
}

// lands lands a unit with all that it was tested on and has not landed.
func (l *line) lands(u *unit) {
	changes := slices.Clone(l.unlanded(u.trial))
	l.land(u.trial, changes...)
	for _, a := range append(slices.Clone(u.ahead), u) {
		if a.trial != nil {
			l.stop(a.trial)
		}
		l.leave(a)
		if l.adapts {
			l.window++
		}
	}
}

// leave takes a unit out of the line.
func (l *line) leave(u *unit, instead ...*unit) {
	at := slices.Index(l.units, u)
	l.units = slices.Replace(l.units, at, at+1, instead...)
	for _, i := range u.members {
		l.of[i] = nil
	}
	for _, v := range instead {
		for _, i := range v.members {
			l.of[i] = v
		}
	}
}

// awaited reports whether one of the first units behind a failed one that include
// it may still pass.
func (l *line) awaited(u *unit) bool {
	seen := 0
	for _, b := range l.units[u.place+1:] {
		if seen == l.depth {
			break
		}
		if !slices.Contains(b.ahead, u) {
			continue
		}
		seen++
		if b.trial == nil || b.trial.live() {
			return true
		}
	}
	return false
}

// fails throws a unit out, or looks for who it was.
func (l *line) fails(u *unit) {
	if l.adapts {
		l.window = max(3, l.window/2)
	}
	if len(u.members) == 1 {
		l.leave(u)
		l.reject(u.members[0])
		return
	}
	halves := u.halves()
	if !l.beside {
		l.leave(u, halves...)
		return
	}
	l.leave(u)
	l.split(u, &search{all: u.members})
}

func (u *unit) halves() []*unit {
	n := len(u.members)
	return []*unit{{members: u.members[:n/2]}, {members: u.members[n/2:]}}
}

// split has the halves of a unit searched.
func (l *line) split(u *unit, s *search) {
	for _, h := range u.halves() {
		h.search = s
		for _, i := range h.members {
			l.of[i] = h
		}
		l.parts = append(l.parts, h)
		s.left++
	}
}

// searched concludes a part of a search whose trial has ended. Parts are tested on
// main as it is.
func (l *line) searched() bool {
	for at, u := range l.parts {
		if u.trial != nil && !u.trial.live() {
			l.parts = slices.Delete(l.parts, at, at+1)
			l.found(u)
			return true
		}
	}
	return false
}

// found does what the end of a part's trial asks for.
func (l *line) found(u *unit) {
	s := u.search
	switch {
	case u.trial.state == trialPassed:
		for _, i := range u.members {
			l.of[i], l.back[i] = nil, true
		}
		l.fresh = append(slices.Clone(u.members), l.fresh...)
	case len(u.members) == 1:
		s.found = true
		l.of[u.members[0]] = nil
		l.reject(u.members[0])
	default:
		l.split(u, s)
	}
	if s.left--; s.left == 0 && !s.found { // they fail only together, or by a flake
		for _, i := range s.all {
			l.alone[i] = true
		}
	}
}

// form makes a batch of the first fresh change that may begin, and of those
// behind it that overlap it, directly or through one another. Without guesses
// nothing of what is ahead of a member may be open but other members.
func (l *line) form() *unit {
	waits := map[int]bool{}
	for at, i := range l.fresh {
		if waits[i] {
			continue
		}
		batch := l.batchFrom(at)
		if len(batch) == 0 {
			if !l.w.lanes {
				return nil
			}
			continue
		}
		if len(batch) < l.batch && !l.ready(i) {
			for _, j := range batch {
				waits[j] = true
			}
			continue
		}
		l.fresh = slices.DeleteFunc(l.fresh, func(j int) bool { return slices.Contains(batch, j) })
		return &unit{members: batch}
	}
	return nil
}

// ready reports whether a change waits for nobody any more.
func (l *line) ready(i int) bool {
	return l.back[i] || l.alone[i] || l.now >= l.w.Changes[i].At+l.wait
}

// batchFrom is the batch that begins with a fresh change, empty when none may.
func (l *line) batchFrom(at int) []int {
	if !l.guesses && !l.w.lanes && len(l.units) > 0 {
		return nil
	}
	var batch []int
	for _, i := range l.fresh[at:] {
		if len(batch) == l.batch || len(batch) > 0 && !l.w.lanes && l.alone[i] {
			break
		}
		if len(batch) > 0 && l.alone[i] || !l.joins(i, batch) {
			if len(batch) == 0 {
				return nil
			}
			continue
		}
		batch = append(batch, i)
		if l.alone[i] {
			break
		}
	}
	return batch
}

// joins reports whether a change may go into a batch.
func (l *line) joins(i int, batch []int) bool {
	if !l.w.lanes {
		return true
	}
	overlaps := len(batch) == 0
	for _, j := range l.neighbours(i) {
		in := slices.Contains(batch, j)
		overlaps = overlaps || in
		if !l.guesses && j < i && !in {
			return false
		}
	}
	return overlaps
}

func (l *line) eligible(i int) bool {
	u := l.of[i]
	switch {
	case u == nil && !l.w.lanes && !l.guesses:
		return len(l.units) == 0
	case u == nil:
		return l.ready(i)
	case u.search != nil:
		return u.trial == nil
	}
	at := slices.Index(l.units, u)
	return u.trial == nil && (l.window == 0 || at < l.window) && (l.guesses || len(u.ahead) == 0)
}
