package queue

// allLanes finds for every group of the line who is ahead of it, in one walk
// from the front. It keeps, for each target, the last group that has it: whoever
// had it before is ahead of that one, and so of all that follow.
func (d *decision) allLanes() map[GroupID][]*Group {
	line := d.s.line()
	lanes := make(map[GroupID][]*Group, len(line))
	if d.s.Queue.Mode == Single {
		for i, g := range line {
			lanes[g.ID] = line[:i:i]
		}
		return lanes
	}
	w := walk{last: map[uint64]int{}, ahead: make([]places, len(line)), sets: make([][]TargetSet, len(line))}
	for i, g := range line {
		for _, e := range d.s.members(g) {
			w.sets[i] = append(w.sets[i], d.targetsOf(e))
		}
		w.step(i)
		lanes[g.ID] = w.ahead[i].of(line)
	}
	return lanes
}

// walk is how far allLanes has come.
type walk struct {
	last  map[uint64]int // the last place with a target, of indexed sets
	wide  []int          // the places with a set that is everything or too large to index
	ahead []places
	sets  [][]TargetSet
}

// step finds what is ahead of the group at place i, and adds it to the index.
func (w *walk) step(i int) {
	w.ahead[i] = make(places, i/64+1)
	wide := false
	for _, s := range w.sets[i] {
		if s.All || len(s.Hashes) > indexedTargets {
			wide = true
			w.compare(i, s, nil)
			continue
		}
		for _, h := range s.Hashes {
			if p, found := w.last[h]; found {
				w.put(i, p)
			}
		}
		w.compare(i, s, w.wide)
	}
	for _, s := range w.sets[i] {
		if !s.All && len(s.Hashes) <= indexedTargets {
			for _, h := range s.Hashes {
				w.last[h] = i
			}
		}
	}
	if wide {
		w.wide = append(w.wide, i)
	}
}

// compare looks for overlaps with some places one by one; nil are all so far.
func (w *walk) compare(i int, s TargetSet, some []int) {
	if some == nil && (s.All || len(s.Hashes) > indexedTargets) {
		for p := i - 1; p >= 0; p-- {
			w.compareOne(i, p, s)
		}
		return
	}
	for _, p := range some {
		w.compareOne(i, p, s)
	}
}

func (w *walk) compareOne(i, p int, s TargetSet) {
	if w.ahead[i].has(p) {
		return
	}
	for _, o := range w.sets[p] {
		if s.Overlaps(o) {
			w.put(i, p)
			return
		}
	}
}

// put puts place p, and all that is ahead of it, ahead of place i.
func (w *walk) put(i, p int) {
	if w.ahead[i].has(p) {
		return
	}
	w.ahead[i][p/64] |= 1 << (p % 64)
	for k, word := range w.ahead[p] {
		w.ahead[i][k] |= word
	}
}

// places is a set of places in the line.
type places []uint64

func (p places) has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }

func (p places) of(line []*Group) []*Group {
	var groups []*Group
	for i := range line {
		if i/64 < len(p) && p.has(i) {
			groups = append(groups, line[i])
		}
	}
	return groups
}
