package db

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"signalbox/flaky"
)

// Tests have numbers that grow, and what is counted of them is kept for many
// at once: a chunk is 4,096 numbers. A report of 10,000 tests touches a handful
// of chunks, and one test's week is seven short rows.
const chunkSize = 4096

var errPacked = errors.New("packed test results are damaged")

// tallies are the runs and failures of the tests of one chunk, by their places in
// it. One that has no run is not stored.
type tallies [chunkSize]flaky.Tally

// pack writes the tallies: for each test, in order, the distance from the one
// before, its runs and its failures, as variable-length numbers.
func (t *tallies) pack() []byte {
	b := make([]byte, 0, 4*chunkSize)
	last := 0
	for place, of := range t {
		if of.Runs == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(place-last))
		b = binary.AppendUvarint(b, uint64(of.Runs))
		b = binary.AppendUvarint(b, uint64(of.Failures))
		last = place
	}
	return b
}

// add adds packed tallies.
func (t *tallies) add(packed []byte) error {
	return eachPacked(packed, chunkSize-1, func(place int, of flaky.Tally) { t[place] = t[place].Plus(of) })
}

// eachPacked yields packed tallies by their places, in order, and reads no further
// than the last place that is asked for.
func eachPacked(packed []byte, last int, yield func(place int, of flaky.Tally)) error {
	place := 0
	for len(packed) > 0 {
		var of [3]uint64
		for i := range of {
			v, n := binary.Uvarint(packed)
			if n <= 0 {
				return errPacked
			}
			of[i], packed = v, packed[n:]
		}
		if of[0] >= chunkSize || place+int(of[0]) >= chunkSize {
			return errPacked
		}
		if place += int(of[0]); place > last {
			return nil
		}
		yield(place, flaky.Tally{Runs: int(of[1]), Failures: int(of[2])})
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

// outcome is what the test of a number did in an upload.
type outcome struct {
	number int64
	bits   uint8
}

// against compares an outcome with a number; outcomes are in this order.
func (o outcome) against(number int64) int { return cmp.Compare(o.number, number) }

// outcomes are those of an upload, in the order of the numbers.
type outcomes []outcome

// inOrder sorts outcomes by their numbers. Of several of one number the first one
// stays.
func inOrder(all []outcome) outcomes {
	slices.SortStableFunc(all, func(a, b outcome) int { return a.against(b.number) })
	return slices.CompactFunc(all, func(a, b outcome) bool { return a.number == b.number })
}

// of is what a test did; ran is false if it has no outcome.
func (o outcomes) of(number int64) (bits uint8, ran bool) {
	i, ran := slices.BinarySearchFunc(o, number, outcome.against)
	if !ran {
		return 0, false
	}
	return o[i].bits, true
}

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
func (o outcomes) passed(number int64) bool {
	bits, _ := o.of(number)
	return bits == bitPassed
}

// pack writes for each test, in order, the distance from the one before and
// its bits as one variable-length number: a byte or two a test.
func (o outcomes) pack() []byte {
	b := make([]byte, 0, 2*len(o))
	var last int64
	for _, of := range o {
		b = binary.AppendUvarint(b, uint64(of.number-last)<<outcomeBits|uint64(of.bits))
		last = of.number
	}
	return b
}

func unpackOutcomes(packed []byte) (outcomes, error) {
	o := make(outcomes, 0, len(packed))
	var number int64
	for len(packed) > 0 {
		v, n := binary.Uvarint(packed)
		if n <= 0 {
			return nil, errPacked
		}
		packed = packed[n:]
		number += int64(v >> outcomeBits)
		o = append(o, outcome{number, uint8(v & (1<<outcomeBits - 1))})
	}
	return o, nil
}
