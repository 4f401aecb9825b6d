package queue

// neighbours finds who overlaps whom among free entries, for batches in parallel
// mode: an index from target to the entries that have it.
type neighbours struct {
	place map[EntryID]int
	sets  []impact
	by    byTarget // of indexed sets
	wide  []int    // the places whose set is everything or too large to index
}

// neighbours is the index of free entries, made anew when it misses one.
func (d *decision) neighbours(free []*Entry) *neighbours {
	if n := d.known.near; n != nil && n.knows(free) {
		return n
	}
	sets, occurrences := d.impacts(free)
	n := &neighbours{place: make(map[EntryID]int, len(free)), sets: sets, by: d.byTarget(occurrences)}
	for i, e := range free {
		n.place[e.ID] = i
	}
	for i, s := range n.sets {
		if s.indexed() {
			n.by.add(s, i)
		} else {
			n.wide = append(n.wide, i)
		}
	}
	d.known.near = n
	return n
}

func (n *neighbours) knows(free []*Entry) bool {
	for _, e := range free {
		if _, known := n.place[e.ID]; !known {
			return false
		}
	}
	return true
}

// eachNear calls f with the place of everybody who overlaps the entry at one.
func (n *neighbours) eachNear(place int, f func(place int)) {
	s := n.sets[place]
	if !s.indexed() {
		for p, o := range n.sets {
			if s.Overlaps(o.TargetSet) {
				f(p)
			}
		}
		return
	}
	for _, number := range s.numbers {
		n.by.each(number, f)
	}
	for _, p := range n.wide {
		if s.Overlaps(n.sets[p].TargetSet) {
			f(p)
		}
	}
}

// mates are free entries in order, of which batches are made.
type mates struct {
	free []*Entry
	// near finds who overlaps whom; nil in single mode, where everybody does.
	near  *neighbours
	place []int // of each in near
	batch []int // the batch, by its number, that each place of near was found to overlap last
	last  int
}

func (d *decision) mates(free []*Entry) *mates {
	m := &mates{free: free}
	if d.s.Queue.Mode == Single {
		return m
	}
	m.near = d.neighbours(free)
	m.place, m.batch = make([]int, len(free)), make([]int, len(m.near.sets))
	for i, e := range free {
		m.place[i] = m.near.place[e.ID]
	}
	return m
}

// begin begins another batch with one of them.
func (m *mates) begin(i int) {
	m.last++
	m.joins(i)
}

// joins notes that one is in the batch.
func (m *mates) joins(i int) {
	if m.near != nil {
		m.near.eachNear(m.place[i], func(p int) { m.batch[p] = m.last })
	}
}

// overlaps reports whether one overlaps any in the batch.
func (m *mates) overlaps(i int) bool { return m.near == nil || m.batch[m.place[i]] == m.last }
