package queue

import (
	"fmt"
	"slices"
)

// admit makes ready entries pending. All of one decision are admitted at one
// time; among them the order of submission decides.
func (d *decision) admit() bool {
	if !d.s.Queue.State.Admits() {
		return false
	}
	ready := d.sorted(func(e *Entry) bool { return e.State == NotReady && d.ready(e) })
	for _, e := range ready {
		e.AdmittedAt = d.now
		d.move(e, Pending, NowReady, "Ready: it waits for its turn.", Actor{}, "")
	}
	if len(ready) == 0 {
		return false
	}
	d.orderChanged()
	return true
}

// urgent puts the first free urgent entry in front of everything that has not
// passed. What it goes in front of starts again behind it; if no slot is free
// it takes one from the back of the line.
func (d *decision) urgent() bool {
	q := &d.s.Queue
	if !q.State.StartsNew() || !d.targetKnown() {
		return false
	}
	for _, e := range d.sorted(func(e *Entry) bool { return e.Free() && e.Priority == Urgent }) {
		if d.conflictUndecided(e) || d.urgentSlots() <= 0 && d.lastDisplaceable() == nil {
			continue
		}
		g := d.group(d.urgentPlace(e), e)
		g.Urgent = true
		why := fmt.Sprintf("Urgent #%d went in front.", e.Number)
		for _, behind := range d.behind(g) {
			d.restart(behind, SkipTheLineInterrupted, why, Actor{})
		}
		for last := d.lastDisplaceable(); last != nil && d.urgentSlots() < 0; last = d.lastDisplaceable() {
			d.restart(last, SkipTheLineInterrupted, why, Actor{})
		}
		return true
	}
	return false
}

// urgentPlace is behind those groups that an urgent entry overlaps and must not
// restart: those being landed, other urgent ones, and those that have passed with
// only passed groups ahead. Where the others stand does not matter. A passed
// group behind one that is not stays behind, and is tested again: only an entry
// that overlaps two lanes meets that.
func (d *decision) urgentPlace(e *Entry) int {
	place, front := 0, true // front: only passed groups that it overlaps so far
	unpassed := func(g *Group) bool { return d.state(g) != TestsPassed }
	var own crowd
	d.join(&own, e)
	for i, g := range d.line() {
		if !d.meets(&own, d.s.members(g)...) {
			continue
		}
		front = front && !unpassed(g) && !slices.ContainsFunc(d.ahead(g), unpassed)
		if front || d.groupLands(g.ID) || g.Urgent {
			place = i + 1
		}
	}
	return place
}

// urgentSlots are the free slots that no urgent group waits for; less than none
// when more of those wait than slots are free. One that pauses before it is built
// again waits for none: the next urgent one would have its slot as if it were like
// any other, and lose it to the one after.
func (d *decision) urgentSlots() int64 {
	free := d.freeSlots()
	for _, g := range d.line() {
		if g.Urgent && d.s.run(g) == nil && g.Proof == 0 && d.due(g.NotBefore) {
			free--
		}
	}
	return free
}

// lastDisplaceable is the last group with a live run that is not urgent.
func (d *decision) lastDisplaceable() *Group {
	var last *Group
	for _, g := range d.line() {
		if r := d.s.run(g); r != nil && r.State.Live() && !g.Urgent {
			last = g
		}
	}
	return last
}
