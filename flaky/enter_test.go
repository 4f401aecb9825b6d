package flaky

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// Tests that fail together for no known reason, and pass when the code is run
// again, have had a bad machine: what each of them shows counts half. Failures with
// words that are known do not count as company, and are evidence as ever.
func TestWhatFailsInCompanyCountsHalf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strangers, known int
		want             float64 // of a stranger
	}{{1, 0, 3}, {company, 0, 3}, {company + 1, 0, 1.5}, {company, 5, 3}, {company + 1, 5, 1.5}} {
		histories := map[uuid.UUID]*History{}
		failed := Run{ID: 10, At: monday.Add(48 * time.Hour), Kind: Stable, Branch: "main", Commit: "a", Trusted: true, Tests: 1000}
		var failures []Result
		fail := func(n int) uuid.UUID {
			r := Result{Test: uuid.UUID{byte(n)}, Failed: true, Fingerprint: Fingerprint(n)}
			failures = append(failures, r)
			return r.Test
		}
		for n := range c.strangers {
			fail(1 + n)
		}
		for n := range c.known {
			id := fail(100 + n)
			histories[id] = &History{}
			histories[id].Add(Evidence{Test: id, Kind: SameCode, At: monday, Fingerprint: Fingerprint(100 + n)})
		}
		failed.Failed = len(failures)
		first := Arrival{Run: failed, Failures: failures, Passed: func(uuid.UUID) bool { return false }}
		Enter(first, histories, nil, nil)
		again := failed
		passed := func(uuid.UUID) bool { return true }
		// Run twice more: what the first repetition proves explains nothing to the
		// second one.
		for range 2 {
			again.ID, again.At, again.Failed = again.ID+1, again.At.Add(time.Hour), 0
			found := Enter(Arrival{Run: again, Passed: passed}, histories, []Arrival{first}, nil).Evidence
			if len(found) != len(failures) {
				t.Fatalf("%+v: %d pieces of evidence of %d failures", c, len(found), len(failures))
			}
			for _, e := range found {
				want := c.want
				if e.Test[0] >= 100 {
					want = 3
				}
				if e.Weight() != want {
					t.Errorf("%+v: test %d weighs %g, want %g", c, e.Test[0], e.Weight(), want)
				}
			}
		}
	}
}
