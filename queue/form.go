package queue

import "slices"

// form chooses the members of the next group from the free entries in their
// order, nil when none can go now. A batch that waits for more entries holds
// up those that it overlaps, and only those. So does an entry behind a group
// that holds it up: in the line it would hold no slot, and while that lasts
// everybody else would follow it there, out of reach of priorities and batches.
func (d *decision) form() []*Entry {
	free := d.sorted(d.awaits)
	var waiting crowd
	heldUp := d.heldUp()
	most := d.batchSize(free)
	var m *mates // nil where nobody goes together
	if most > 1 && d.s.Queue.Batch {
		m = d.mates(free)
	}
	for i, e := range free {
		if d.risky(e) { // it is tested on nobody, and nobody on it
			return free[i : i+1 : i+1]
		}
		if d.meets(&waiting, e) || d.meets(heldUp, e) {
			d.join(&waiting, e)
			continue
		}
		batch, closed := free[i:i+1:i+1], true
		if m != nil && d.batched(e) {
			batch, closed = d.batch(m, i, most, heldUp)
		}
		if int64(len(batch)) >= most || closed || d.waitedEnough(e) {
			return batch
		}
		d.join(&waiting, e) // the others of its batch meet it, each when it comes
	}
	return nil
}

// awaits reports whether an entry is free to go into a group.
func (d *decision) awaits(e *Entry) bool { return e.Free() && !d.conflictUndecided(e) }

// waitedEnough reports whether the first of a batch has waited long enough for
// others: since it was admitted, and what came back not at all. In an adaptive queue
// many come back, where slots are scarce, and wait for each other.
func (d *decision) waitedEnough(e *Entry) bool {
	since := e.AdmittedAt
	if e.Returned != 0 {
		if !d.adaptive() {
			return true
		}
		since = e.StateChangedAt
	}
	return d.due(since.Add(minutes(d.s.Queue.BatchingMaxWaitTimeMinutes)))
}

// heldUp are the entries of the line on top of which no run can begin now: of
// groups that hold others up, and of those that such a group is ahead of.
func (d *decision) heldUp() *crowd {
	var c crowd
	heldUp := map[GroupID]bool{}
	for _, g := range inBase(d.line()) {
		waits := func(a *Group) bool { return heldUp[a.ID] }
		if !d.built(g) || slices.ContainsFunc(d.ahead(g), waits) {
			heldUp[g.ID] = true
			d.join(&c, d.s.members(g)...)
		}
	}
	return &c
}

// batched reports whether an entry may be tested together with others.
func (d *decision) batched(e *Entry) bool {
	return d.s.Queue.Batch && !e.NoBatch && !e.Alone && e.Priority != Urgent && !d.risky(e)
}

// batch collects the entries that go together with the one at a place of those that are
// free: those behind it that overlap it, directly or through one another, in order.
// closed says that it can grow no more, because an entry that goes alone stands behind
// it. Of one that is held up it takes nothing from there on: whoever waits for nothing
// does not wait with it. Nor does an adaptive queue put what is much more likely to fail
// together with what is not, such as what has come back and has passed once.
func (d *decision) batch(m *mates, first int, most int64, heldUp *crowd) (batch []*Entry, closed bool) {
	lead := m.free[first]
	batch = m.free[first : first+1 : first+1]
	m.begin(first)
	pass := 1 - d.doubtful(lead)
	for i := first + 1; i < len(m.free) && int64(len(batch)) < most; i++ {
		e := m.free[i]
		if !m.overlaps(i) || d.risky(e) {
			continue
		}
		if d.meets(heldUp, e) || d.unlike(e, lead) {
			return batch, false
		}
		if !d.batched(e) {
			return batch, true
		}
		if pass *= 1 - d.doubtful(e); pass < batchFloor {
			return batch, true
		}
		m.joins(i)
		batch = append(batch, e)
	}
	return batch, false
}

// unlike reports whether one of two entries is much more likely to fail than the other.
func (d *decision) unlike(a, b *Entry) bool {
	x, y := d.risk(a), d.risk(b)
	return max(x, y) > likeRisks*min(x, y)
}
