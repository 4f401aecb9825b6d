package queue

import "time"

// Measures is what is measured of one queue, of one kind of runs: the main
// line, or bisections. Programs that watch queues read it; no decision does.
type Measures struct {
	Queue Queue
	Kind  RunKind
	// Depth counts active entries without those that are not ready, NotReady
	// these, Testing the runs that hold a testing slot.
	Depth, NotReady, Testing int64
	// LastHour is what happened in the last hour, Ever since the queue was
	// made, which only grows.
	LastHour, Ever Happened
}

// Happened is what happened to the entries of a queue in some time.
type Happened struct {
	Merged    int64 `json:"merged"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	// Restarts counts entries that went back to wait for another test.
	Restarts int64 `json:"restarts"`
	// Wait is from when an entry was to be tested until its test began, Test
	// from there until the result, InQueue from submission to the ending.
	Wait    Durations `json:"wait"`
	Test    Durations `json:"test"`
	InQueue Durations `json:"inQueue"`
}

// Durations is a histogram. None of its durations is negative: where the
// clocks of two computers disagree, nothing counts as zero.
type Durations struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // the sum
	// Within counts the durations up to each of DurationBounds, those up to
	// the smaller bounds included. Nil when there are none.
	Within []int64 `json:"within"`
}

// DurationBounds are the upper bounds of Durations, in seconds.
func DurationBounds() []float64 {
	return []float64{60, 300, 600, 900, 1800, 3600, 5400, 7200}
}

// Add adds what happened in another time.
func (h *Happened) Add(o Happened) {
	h.Merged += o.Merged
	h.Failed += o.Failed
	h.Cancelled += o.Cancelled
	h.Restarts += o.Restarts
	h.Wait.add(o.Wait)
	h.Test.add(o.Test)
	h.InQueue.add(o.InQueue)
}

func (d *Durations) add(o Durations) {
	d.Count += o.Count
	d.Seconds += o.Seconds
	if len(d.Within) != len(o.Within) {
		d.Within = append(d.Within, make([]int64, max(0, len(o.Within)-len(d.Within)))...)
	}
	for i, n := range o.Within {
		d.Within[i] += n
	}
}

// EntryPage asks for some of the entries of a queue, ended ones too, by the
// number of their pull request, the highest first. An entry keeps its number
// for ever, so that a list can be turned page by page while entries move.
type EntryPage struct {
	State EntryState // "" = all
	// Since and Until bound when the state was entered: from Since on, and
	// before Until. Zero = no bound.
	Since, Until time.Time
	Below        int64 // only numbers below this one; 0 = all
	Take         int   // how many at most
}
