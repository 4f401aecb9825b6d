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

// A pull request that breaks twenty tests explains them: they fail again when its
// code is run again. What passed then had no company.
func TestWhatFailsAgainIsNoCompany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		broken, passing int
		want            float64
	}{{12, 1, 3}, {12, company, 3}, {0, company + 1, 1.5}, {8, company + 1, 1.5}} {
		failed := Run{ID: 10, At: monday, Kind: PullRequest, Head: "a", Base: "b", PullRequests: []int{1}, Trusted: true, Tests: 1000, Failed: c.broken + c.passing}
		var failures []Result
		for n := range c.broken + c.passing {
			failures = append(failures, Result{Test: uuid.UUID{byte(n)}, Failed: true, Fingerprint: Fingerprint(1 + n)})
		}
		passes := func(id uuid.UUID) bool { return int(id[0]) >= c.broken }
		first, again := Arrival{Run: failed, Failures: failures, Passed: func(uuid.UUID) bool { return false }}, failed
		again.ID, again.At, again.Failed = 11, monday.Add(time.Hour), c.broken
		second := Arrival{Run: again, Failures: failures[:c.broken], Passed: passes}
		for _, order := range [][2]Arrival{{first, second}, {second, first}} { // whichever is uploaded first
			histories := map[uuid.UUID]*History{}
			Enter(order[0], histories, nil, nil)
			found := Enter(order[1], histories, order[:1], nil).Evidence
			if len(found) != c.passing {
				t.Fatalf("%+v: found %+v", c, found)
			}
			for _, e := range found {
				if e.Weight() != c.want {
					t.Errorf("%+v: test %d weighs %g, want %g", c, e.Test[0], e.Weight(), c.want)
				}
			}
		}
	}
}
