package queue

import (
	"maps"
	"slices"
)

// known is what a decision has looked up and need not look up again. Nothing in
// it is news: each is made from the snapshot when it is first asked for, and
// forgotten by whoever changes what it was made from.
type known struct {
	lineup  *lineup  // of the line; see lineChanged
	full    *bool    // whether there are more than slots; see lineChanged
	order   []*Entry // all entries, in queue order if ordered; see orderChanged
	ordered bool
	near    *neighbours // free entries by target, the newest index
	pulls   map[int64]*Entry
	layers  map[int64]*Entry  // by pull request, the entries that have it in their stack; see stacksChanged
	landed  map[landing]int64 // what is in Queue.Landed: its Seq
	tally   *tally            // of Snapshot.Recent
	risks   map[EntryID]float64
	numbers *numbers           // of targets
	hedged  map[GroupID][]*Run // see hedgesChanged
	doubts  map[GroupID]float64
}

// landing is one submission that landed, by its pull request: that has one entry
// in a queue, and a number is found faster than a text.
type landing struct {
	pr         int64
	submission int64
}

// sorted returns the entries that satisfy keep, in queue order. Maps are never
// ranged over for a decision: their order would be a coin toss.
func (d *decision) sorted(keep func(*Entry) bool) []*Entry {
	if len(d.known.order) != len(d.s.Entries) { // there are only ever more
		d.known.order, d.known.ordered = slices.AppendSeq(make([]*Entry, 0, len(d.s.Entries)), maps.Values(d.s.Entries)), false
	}
	if !d.known.ordered {
		slices.SortFunc(d.known.order, Compare) // most often nearly in order
		d.known.ordered = true
	}
	var entries []*Entry
	for _, e := range d.known.order {
		if keep(e) {
			entries = append(entries, e)
		}
	}
	return entries
}

// orderChanged forgets the order of entries: there is another one, or something
// that Compare looks at has changed. Where those stand that have ended does not
// matter: nobody asks for them in order.
func (d *decision) orderChanged() { d.known.ordered = false }

// byPR finds an entry by its pull request, nil if it is not in the window.
func (d *decision) byPR(number int64) *Entry {
	if d.known.pulls == nil {
		d.known.pulls = make(map[int64]*Entry, len(d.s.Entries))
		for _, e := range d.s.Entries {
			d.known.pulls[e.Number] = e
		}
	}
	return d.known.pulls[number]
}

// stackWith finds the active entry that has a pull request among its layers,
// nil if none in the window has.
func (d *decision) stackWith(pr int64) *Entry {
	if d.known.layers == nil {
		d.known.layers = map[int64]*Entry{}
		for _, e := range d.s.Entries {
			for i := range e.Stack {
				if e.Active() { // at most one: see QueuedAlready
					d.known.layers[e.Stack[i].Number] = e
				}
			}
		}
	}
	if e := d.known.layers[pr]; e != nil && e.Active() {
		return e
	}
	return nil
}

// stacksChanged forgets which entry has which layers: one got another stack.
func (d *decision) stacksChanged() { d.known.layers = nil }

// landedAs is the number under which a step landed on the target, 0 if it did
// not, or so long ago that no chain in the window began before.
func (d *decision) landedAs(s Step) int64 {
	if d.known.landed == nil {
		d.known.landed = make(map[landing]int64, len(d.s.Queue.Landed))
		for _, l := range d.s.Queue.Landed {
			d.known.landed[landing{l.PR, l.Submission}] = l.Seq
		}
	}
	return d.known.landed[landing{s.PR, s.Submission}]
}
