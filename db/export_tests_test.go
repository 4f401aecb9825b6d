package db

import "signalbox/flaky"

// ChunkSize is how many tests are counted together.
const ChunkSize = chunkSize

// PackOutcomes packs what the tests of an upload did, by their numbers.
func PackOutcomes(failed map[int64]bool, first, last int64) []byte {
	o := make(outcomes, last-first+1)
	for n := first; n <= last; n++ {
		o[n] = outcomeOf(flaky.Result{Failed: failed[n], Passed: !failed[n]})
	}
	return o.pack()
}

// PackTallies packs how often each test of a chunk ran and failed.
func PackTallies(of map[int64]flaky.Tally) []byte { return tallies(of).pack() }
