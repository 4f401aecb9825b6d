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
	free := q.Concurrency
	for _, r := range e.s.Runs {
		if r.State.Live() && r.Kind == queue.MainRun {
			free--
		}
	}
	var entry *queue.Entry
	for _, x := range e.s.Entries {
		if x.Number == int64(i+1) {
			entry = x
		}
	}
	switch {
	case free <= 0 || entry == nil && q.Batch:
		return false
	case entry == nil:
		return true // it waits outside the window
	case entry.Free():
		return !q.Batch || entry.Returned != 0 || e.clock().Sub(entry.AdmittedAt) >= time.Duration(q.BatchingMaxWaitTimeMinutes)*time.Minute
	}
	g := e.s.Groups[entry.Group]
	return g != nil && g.Part == nil && g.Run == "" && g.Proof == 0 && !e.behind(i, g)
}

// behind reports whether something that a change overlaps stands before its group in the
// line, which need not be the order of arrival.
func (e *engine) behind(i int, g *queue.Group) bool {
	for _, id := range e.s.Line[:max(slices.Index(e.s.Line, g.ID), 0)] {
		for _, m := range e.s.Groups[id].Members {
			if e.overlaps(i, int(e.s.Entries[m].Number-1)) {
				return true
			}
		}
	}
	return false
}
