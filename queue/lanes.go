package queue

import (
	"math/bits"
	"slices"
)

// lineup is the line as decisions ask about it: who stands where, what chains of
// them are made of, and who is ahead of whom.
type lineup struct {
	groups []*Group
	place  map[GroupID]int
	own    [][]Step   // the changes of each group
	ahead  [][]*Group // who is ahead of each, in line order
	// exact has, by place, the runs that were found to test exactly what would land.
	// They stay so while the line and the target's epoch do: what lands leaves the line.
	exact []RunID
}

// lineup is that of the line as it is.
func (d *decision) lineup() *lineup {
	if d.known.lineup == nil {
		d.known.lineup = d.lineUp()
	}
	return d.known.lineup
}

// lineChanged forgets how the line was: a group came or went, or has other
// members.
func (d *decision) lineChanged() { d.known.lineup, d.known.full = nil, nil }

// line is the groups of the main line in order, not to be changed.
func (d *decision) line() []*Group { return d.lineup().groups }

// ahead are the groups of the line that come before g and that it must be
// tested on top of, in line order: those it overlaps, and, unless chains are
// narrow, those they overlap, and so on. The list is not to be changed.
func (d *decision) ahead(g *Group) []*Group {
	l := d.lineup()
	if at, inLine := l.place[g.ID]; inLine {
		return l.ahead[at]
	}
	return nil
}

// behind are the groups of the line that must be tested on top of g, in line order.
func (d *decision) behind(g *Group) []*Group {
	l := d.lineup()
	at, inLine := l.place[g.ID]
	if !inLine {
		return nil
	}
	var behind []*Group
	for i := at + 1; i < len(l.groups); i++ {
		if slices.Contains(l.ahead[i], g) {
			behind = append(behind, l.groups[i])
		}
	}
	return behind
}

// lineUp finds for every group of the line who is ahead of it, in one walk
// from the front.
func (d *decision) lineUp() *lineup {
	groups := d.s.groups(d.s.Line)
	l := &lineup{
		groups: groups, place: make(map[GroupID]int, len(groups)), own: make([][]Step, len(groups)),
		ahead: make([][]*Group, len(groups)), exact: make([]RunID, len(groups)),
	}
	all := d.steps(groups...)
	for i, g := range groups {
		l.place[g.ID] = i
		l.own[i], all = all[:len(g.Members):len(g.Members)], all[len(g.Members):]
	}
	if d.s.Queue.Mode == Parallel {
		l.lanes(d.walk(groups))
	} else {
		l.oneLine()
	}
	return l
}

// oneLine: everybody in the base is ahead of those behind.
func (l *lineup) oneLine() {
	base := inBase(l.groups)
	before := 0 // how many of the base have been passed
	for i, g := range l.groups {
		if !g.alone() {
			l.ahead[i] = base[:before:before]
		}
		if !g.apart() {
			before++
		}
	}
}

// lanes: those are ahead whom the walk has found. All lists are one allocation.
func (l *lineup) lanes(found []places) {
	total := 0
	for _, places := range found {
		total += places.count()
	}
	all := make([]*Group, 0, total)
	for i, places := range found {
		if from := len(all); !l.groups[i].alone() {
			all = places.of(l.groups, all)
			l.ahead[i] = all[from:len(all):len(all)]
		}
	}
}

// walk is how far a walk along the line has come. It keeps, for each target, the
// groups that have it, the last one first. Unless chains are narrow that one is
// enough: whoever had the target before is ahead of it, and so of all that follow.
type walk struct {
	narrow bool
	by     byTarget // of indexed sets
	wide   []int    // the places with a set that is everything or too large to index
	ahead  []places
	sets   [][]impact
	apart  []bool // the places of groups that nobody is tested on top of
}

func (d *decision) walk(line []*Group) []places {
	w := walk{narrow: d.narrow(), ahead: make([]places, len(line)), sets: make([][]impact, len(line)), apart: make([]bool, len(line))}
	entries := make([]*Entry, 0, members(line))
	for _, g := range line {
		entries = append(entries, d.s.members(g)...)
	}
	all, occurrences := d.impacts(entries)
	for i, g := range line {
		w.apart[i] = g.apart()
		w.sets[i], all = all[:len(g.Members)], all[len(g.Members):]
	}
	w.by = d.byTarget(occurrences)
	for i := range line {
		w.step(i)
	}
	return w.ahead
}

// step finds what is ahead of the group at place i, and adds it to the index.
func (w *walk) step(i int) {
	w.ahead[i] = make(places, i/64+1)
	wide := false
	for _, s := range w.sets[i] {
		if !s.indexed() {
			wide = true
			w.compareAll(i, s.TargetSet)
			continue
		}
		for _, n := range s.numbers {
			if w.narrow {
				w.by.each(n, func(p int) { w.put(i, p) })
			} else if p, any := w.by.last(n); any {
				w.put(i, p)
			}
		}
		for _, p := range w.wide {
			w.compare(i, p, s.TargetSet)
		}
	}
	if w.apart[i] {
		return
	}
	for _, s := range w.sets[i] {
		if s.indexed() {
			w.by.add(s, i)
		}
	}
	if wide {
		w.wide = append(w.wide, i)
	}
}

// compareAll looks for overlaps with everybody before, one by one.
func (w *walk) compareAll(i int, s TargetSet) {
	for p := i - 1; p >= 0; p-- {
		w.compare(i, p, s)
	}
}

func (w *walk) compare(i, p int, s TargetSet) {
	if !w.apart[p] && !w.ahead[i].has(p) && slices.ContainsFunc(w.sets[p], func(o impact) bool { return s.Overlaps(o.TargetSet) }) {
		w.put(i, p)
	}
}

// put puts place p ahead of place i and, unless chains are narrow, all that is ahead
// of it.
func (w *walk) put(i, p int) {
	if w.ahead[i].has(p) {
		return
	}
	w.ahead[i][p/64] |= 1 << (p % 64)
	if w.narrow {
		return
	}
	for k, word := range w.ahead[p] {
		w.ahead[i][k] |= word
	}
}

// places is a set of places in the line.
type places []uint64

func (p places) has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }

func (p places) count() int {
	n := 0
	for _, word := range p {
		n += bits.OnesCount64(word)
	}
	return n
}

// of appends the groups at these places of the line, in order.
func (p places) of(line, groups []*Group) []*Group {
	for k, word := range p {
		for ; word != 0; word &= word - 1 {
			groups = append(groups, line[64*k+bits.TrailingZeros64(word)])
		}
	}
	return groups
}
