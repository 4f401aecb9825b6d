package db

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"signalbox/flaky"
)

// Tests have numbers that grow, and what is counted of them is kept for many
// at once: a chunk is 4,096 numbers. A report of 10,000 tests touches a handful
// of chunks, and one test's week is seven short rows.
const chunkSize = 4096

var errPacked = errors.New("packed test results are damaged")

// tallies are runs and failures by the test's number.
type tallies map[int64]flaky.Tally

// pack writes the tallies of one chunk: for each test, in order, the distance
// from the one before, its runs and its failures, as variable-length numbers.
func (t tallies) pack() []byte {
	b := make([]byte, 0, 4*len(t))
	var last int64
	for _, n := range slices.Sorted(maps.Keys(t)) {
		b = binary.AppendUvarint(b, uint64(n-last))
		b = binary.AppendUvarint(b, uint64(t[n].Runs))
		b = binary.AppendUvarint(b, uint64(t[n].Failures))
		last = n
	}
	return b
}

// count adds to the tally of one test.
func (t tallies) count(number int64, more flaky.Tally) {
	sum := t[number]
	t[number] = flaky.Tally{Runs: sum.Runs + more.Runs, Failures: sum.Failures + more.Failures}
}

// add adds packed tallies; keep says which tests are wanted, nil all.
func (t tallies) add(packed []byte, keep func(int64) bool) error {
	var number int64
	for len(packed) > 0 {
		var of [3]uint64
		for i := range of {
			v, n := binary.Uvarint(packed)
			if n <= 0 {
				return errPacked
			}
			of[i], packed = v, packed[n:]
		}
		number += int64(of[0])
		if keep == nil || keep(number) {
			t.count(number, flaky.Tally{Runs: int(of[1]), Failures: int(of[2])})
		}
	}
	return nil
}

// What a test did in an upload, as bits.
const (
	bitFailed    = 1 // an attempt failed
	bitPassed    = 2 // the last one passed
	bitAmbiguous = 4
	outcomeBits  = 3
)

// outcomes are those of an upload by the test's number.
type outcomes map[int64]uint8

func outcomeOf(r flaky.Result) uint8 {
	var bits uint8
	if r.Failed {
		bits |= bitFailed
	}
	if r.Passed {
		bits |= bitPassed
	}
	if r.Ambiguous {
		bits |= bitAmbiguous
	}
	return bits
}

// passed reports whether the test ran, passed at once and is one test.
func (o outcomes) passed(number int64) bool { return o[number] == bitPassed }

// pack writes for each test, in order, the distance from the one before and
// its bits as one variable-length number: a byte or two a test.
func (o outcomes) pack() []byte {
	b := make([]byte, 0, 2*len(o))
	var last int64
	for _, n := range slices.Sorted(maps.Keys(o)) {
		b = binary.AppendUvarint(b, uint64(n-last)<<outcomeBits|uint64(o[n]))
		last = n
	}
	return b
}

func unpackOutcomes(packed []byte) (outcomes, error) {
	o := make(outcomes, len(packed)/2+1)
	var number int64
	for len(packed) > 0 {
		v, n := binary.Uvarint(packed)
		if n <= 0 {
			return nil, errPacked
		}
		packed = packed[n:]
		number += int64(v >> outcomeBits)
		o[number] = uint8(v & (1<<outcomeBits - 1))
	}
	return o, nil
}
