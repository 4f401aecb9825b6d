package sim

import (
	"time"

	"signalbox/queue"
)

// eligible reports whether the engine's settings let a change be tested: a slot is
// free, and it waits for no batch. What a search for culprits has is the search's.
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
	return g != nil && g.Part == nil && g.Run == "" && g.Proof == 0
}
