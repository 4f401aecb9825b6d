package rest

import (
	"time"

	"signalbox/queue"
)

// standing is where a pull request stands in its queue.
type standing struct {
	waitingFor []condition
	position   *int64 // from 1; null when it has none
	estimate   *moment
}

// explain puts the queue's own reading of an entry into the API's words.
func explain(s *queue.Snapshot, e *queue.Entry, now time.Time) standing {
	x := queue.Explain(s, e, now)
	out := standing{position: valueOrNull(x.Position), estimate: momentOrNull(x.EstimatedMergeAt)}
	for _, c := range x.Conditions {
		out.waitingFor = append(out.waitingFor, condition{c.Name, c.Met, c.Message})
	}
	return out
}
