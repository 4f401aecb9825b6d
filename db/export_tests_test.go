package db

import "signalbox/flaky"

// ChunkSize is how many tests are counted together.
const ChunkSize = chunkSize

// PackOutcomes packs what the tests of an upload did, by their numbers.
func PackOutcomes(failed map[int64]bool, first, last int64) []byte {
	var o outcomes
	for n := first; n <= last; n++ {
		o = append(o, outcome{n, outcomeOf(flaky.Result{Failed: failed[n], Passed: !failed[n]})})
	}
	return o.pack()
}

// PackTallies packs how often each test of a chunk ran and failed.
func PackTallies(of map[int64]flaky.Tally) []byte {
	var t tallies
	for place, tally := range of {
		t[place] = tally
	}
	return t.pack()
}
