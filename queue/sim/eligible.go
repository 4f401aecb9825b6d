package sim

import (
	"slices"
	"time"

	"signalbox/queue"
)

// eligible reports whether the engine's settings let a change be tested: a slot is
// free, it waits for no batch, and stands behind nothing in the line. What a search for
// culprits has is the search's.
func (e *engine) eligible(i int) bool {
	q := &e.s.Queue
	adaptive := q.Speculation == queue.AdaptiveSpeculation
	entry := e.s.Entries[entryID(int64(i+1))]
	switch {
	case freeSlots(e.s) <= 0 || entry == nil && q.Batch:
		return false
	case entry == nil:
		return true // it waits outside the window
	case entry.Free() && adaptive && e.behind([]queue.EntryID{entry.ID}, e.s.Line):
		return false // on top of what has failed nothing is started
	case entry.Free() && (!q.Batch || entry.Returned != 0 && !adaptive):
		return true
	case entry.Free():
		since := entry.AdmittedAt
		if entry.Returned != 0 {
			since = entry.StateChangedAt // what came back waits for others again
		}
		return e.clock().Sub(since) >= time.Duration(q.BatchingMaxWaitTimeMinutes)*time.Minute
	}
	g := e.s.Groups[entry.Group]
	return g != nil && g.Part == nil && g.Run == "" && g.Proof == 0 && !e.behind(g.Members, e.s.Line[:max(slices.Index(e.s.Line, g.ID), 0)])
}

// behind reports whether something that one of a group overlaps stands in the part of the
// line before it, which need not be the order of arrival.
func (e *engine) behind(group []queue.EntryID, line []queue.GroupID) bool {
	for _, id := range line {
		for _, m := range e.s.Groups[id].Members {
			for _, own := range group {
				if e.overlaps(int(e.s.Entries[own].Number-1), int(e.s.Entries[m].Number-1)) {
					return true
				}
			}
		}
	}
	return false
}
