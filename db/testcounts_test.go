package db

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"signalbox/flaky"
)

// Counters of a chunk come back as they were packed, those of later uploads are
// added, and who asks for one test is told of no later one.
func TestTalliesArePackedAndAddedUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.MapOf(rapid.IntRange(0, chunkSize-1), rapid.Custom(func(t *rapid.T) flaky.Tally {
			runs := rapid.IntRange(1, 1<<40).Draw(t, "runs")
			return flaky.Tally{Runs: runs, Failures: rapid.IntRange(0, runs).Draw(t, "failures")}
		}))
		before, later := of.Draw(t, "before"), of.Draw(t, "later")
		var a, b, want tallies
		for place, tally := range before {
			a[place], want[place] = tally, tally
		}
		for place, tally := range later {
			b[place], want[place] = tally, want[place].Plus(tally)
		}
		var got tallies
		for _, packed := range [][]byte{a.pack(), b.pack()} {
			if err := got.add(packed); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Fatal("the sum of two packed chunks is another one")
		}
		last := rapid.IntRange(0, chunkSize-1).Draw(t, "last")
		seen := map[int]flaky.Tally{}
		if err := eachPacked(want.pack(), last, func(place int, tally flaky.Tally) { seen[place] = tally }); err != nil {
			t.Fatal(err)
		}
		for place, tally := range want {
			if got, ok := seen[place]; ok != (place <= last && tally.Runs > 0) || got != tally && ok {
				t.Fatalf("place %d of those up to %d is %v (%v), want %v", place, last, got, ok, tally)
			}
		}
	})
}

// What tests did is found by their numbers, whatever order they came in.
func TestOutcomesArePackedInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.Int64Range(1, 1<<50), rapid.Uint8Range(0, 7)).Draw(t, "outcomes")
		var all []outcome
		for number, bits := range want {
			all = append(all, outcome{number, bits})
		}
		got, err := unpackOutcomes(inOrder(all).pack())
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d of %d outcomes come back: %v", len(got), len(want), err)
		}
		if !slices.IsSortedFunc(got, func(a, b outcome) int { return int(a.number - b.number) }) {
			t.Fatal("the outcomes are out of order")
		}
		for number, bits := range want {
			if of, ran := got.of(number); !ran || of != bits || got.passed(number) != (bits == bitPassed) {
				t.Fatalf("test %d did %d (%v), want %d", number, of, ran, bits)
			}
		}
		stranger := rapid.Int64Range(1, 1<<50).Draw(t, "stranger")
		if _, have := want[stranger]; !have {
			if _, ran := got.of(stranger); ran || got.passed(stranger) {
				t.Fatalf("test %d ran, which did not", stranger)
			}
		}
	})
}

// A row that something else wrote is an error and no panic.
func TestDamagedRowsAreErrors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		packed := rapid.SliceOf(rapid.Byte()).Draw(t, "packed")
		var sum tallies
		sum.add(packed)
		unpackOutcomes(packed)
	})
	var sum tallies
	for _, packed := range [][]byte{{0x80}, {1, 1}, {0xff, 0xff, 0x7f, 1, 0}, {0xff, 0x1f, 1, 0, 1, 1, 0}} {
		if err := sum.add(packed); err != errPacked {
			t.Errorf("%x: %v, want %v", packed, err, errPacked)
		}
	}
}
