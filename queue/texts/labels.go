package texts

import (
	"maps"
	"slices"

	"signalbox/queue"
)

// stateLabels are the labels that show where an entry stands. A state that is
// not here has none.
var stateLabels = map[queue.EntryState]string{
	queue.NotReady:       "signalbox: waiting",
	queue.Pending:        "signalbox: in line",
	queue.Testing:        "signalbox: testing",
	queue.PendingFailure: "signalbox: testing",
	queue.TestsPassed:    "signalbox: passed",
	queue.Merged:         "signalbox: merged",
	queue.Failed:         "signalbox: failed",
}

// StateLabel is the label that shows a state, "" if none does.
func StateLabel(s queue.EntryState) string { return stateLabels[s] }

// StateLabels are all labels that show a state, sorted.
func StateLabels() []string {
	return slices.Compact(slices.Sorted(maps.Values(stateLabels)))
}
