package queue

import "time"

// Past is one submission that has ended, as far as it matters to those who ask
// what other settings would have done: see sim.Preview.
type Past struct {
	PR         int64
	Submission int64
	ReadyAt    time.Time // when it was admitted
	EndedAt    time.Time
	Failed     bool // else it landed
	// Test is how long the tests took that decided about it; zero = not known.
	Test time.Duration
	// Targets are what it impacted; everything when nobody said so.
	Targets TargetSet
}

// History is what happened in a queue from one moment to another. Submissions
// that were cancelled, merged by hand or stopped by the set-up are not in it.
type History struct {
	Since, Until time.Time
	// Ended are in the order of their ending. LeftOut counts those before them that
	// are not here because there are too many.
	Ended   []Past
	LeftOut int64
	// Runs is how many runs were asked for, Testing how long they kept CI at
	// work together.
	Runs    int64
	Testing time.Duration
}

// Figures are how the submissions of a time fared.
type Figures struct {
	Merged, Failed int
	// P50, P95 and P99 are quantiles of the time from being ready to the end.
	P50, P95, P99 time.Duration
	Runs          float64 // for each submission
	CIMinutes     float64 // for each that landed
	MostWaiting   int     // in the queue at one time
}

// Preview is what a queue's settings and changed ones would have done in a
// time, next to what happened.
type Preview struct {
	Since, Until time.Time
	Replayed     int
	LeftOut      int64 // not replayed, because there were too many
	Happened     Figures
	// AsIs and Changed are simulated. Both differ from Happened by what the
	// simulation does not know: people, flakes, and a CI that was busy.
	AsIs, Changed Figures
}
