package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/flaky"
	"signalbox/queue"
)

// told makes decisions until nothing is due and returns the test results that
// the queue heard of, and the checks that may be excused.
func (w *world) told() (results []queue.TestResults, checks []string) {
	w.t.Helper()
	w.must(w.Append(w.t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	w.must(w.Route(w.t.Context(), epoch))
	for {
		_, ok := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			for _, f := range facts {
				if r, is := f.Fact.(queue.TestResults); is {
					results = append(results, r)
				}
			}
			checks = s.TestChecks
			return unchanged(s)
		})
		if !ok {
			return results, checks
		}
	}
}

// What an upload says about a commit that a queue tests is told to that queue,
// with what is known of each test that failed in the end.
func TestAQueueHearsOfTestResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := liveRun("run", 1, "tested", "tree")
	run.Members, run.Chain = []queue.EntryID{entry(1).ID}, []queue.Step{{Entry: entry(1).ID, PR: 1, Head: "h1", Commit: "tested", Tree: "tree"}}
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{run} })
	w.send(report{hour: -3, commit: "m1", names: "always a b"})
	w.send(report{hour: -2, commit: "m2", names: "onbase-"})
	_, err := w.SQL().Exec(`UPDATE test_cases SET setting = 'ALWAYS_QUARANTINE', owner = 'o', reason = 'r', expires_at = now() + interval '10 years' WHERE name = 'always'`)
	w.must(err)
	if got, _ := w.told(); len(got) > 0 {
		t.Errorf("told of a commit that no queue tests: %+v", got)
	}
	sent := flaky.Sent{Facts: flaky.Facts{Branch: "x", Check: "test", Job: "9/unit", Attempt: 2}}
	test := func(name string, quarantined bool, standing queue.Standing) queue.FailingTest {
		return queue.FailingTest{ID: testID(name).String(), Name: name, Quarantined: quarantined, Standing: standing}
	}
	crashed := 137
	for _, c := range []struct {
		name   string
		commit string
		names  string
		change func(*flaky.Sent)
		want   []queue.TestResults
	}{
		{"what failed in the end, what blocks first", "tested", "always- a~ b- onbase- d?", func(*flaky.Sent) {}, []queue.TestResults{{
			Check: "test", Job: "9/unit", Attempt: 2, Complete: true, Failed: 3, Blocking: 2,
			Failing: []queue.FailingTest{test("b", false, queue.NewlyFailing), test("onbase", false, queue.FailingOnBase), test("always", true, queue.KnownFlaky)},
		}}},
		{"a pull request's merge with its base, of which the head is the commit", "merge", "always- z", func(s *flaky.Sent) { s.Head, s.Pull = "tested", 5 }, []queue.TestResults{{
			Check: "test", Job: "9/unit", Attempt: 2, Complete: true, Failed: 1, Failing: []queue.FailingTest{test("always", true, queue.KnownFlaky)},
		}}},
		{"a command that was killed", "tested", "always- y", func(s *flaky.Sent) { s.ExitCode = &crashed }, []queue.TestResults{{
			Check: "test", Job: "9/unit", Attempt: 2, Failed: 1, Failing: []queue.FailingTest{test("always", true, queue.KnownFlaky)},
		}}},
		{"without a check", "tested", "a x", func(s *flaky.Sent) { s.Check = "" }, []queue.TestResults{{Job: "9/unit", Attempt: 2, Complete: true}}},
		{"from a fork", "tested", "always-", func(s *flaky.Sent) { s.Fork = true }, nil},
		{"another commit", "other", "always-", func(*flaky.Sent) {}, nil},
	} {
		s := sent
		c.change(&s)
		id := w.send(report{commit: c.commit, sent: s, names: c.names})
		for i := range c.want {
			c.want[i].Commit, c.want[i].Upload = "tested", id
		}
		got, _ := w.told()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +told):\n%s", c.name, diff)
		}
	}
}

// Checks whose jobs upload results are known to the queue where failures of
// quarantined tests are excused, and forgotten when they no longer do.
func TestChecksThatMayBeExcused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(report{commit: "c1", sent: flaky.Sent{Facts: flaky.Facts{Check: "unit"}}, names: "a-"})
	w.send(report{commit: "c2", sent: flaky.Sent{Facts: flaky.Facts{Check: "e2e", Pull: 4}}, names: "a"})
	w.send(report{commit: "c3", sent: flaky.Sent{Facts: flaky.Facts{Check: "forked", Pull: 4, Fork: true}}, names: "a"})
	expect := func(when string, want ...string) {
		t.Helper()
		if _, got := w.told(); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("quarantine is off")
	w.automatic()
	expect("it is on", "e2e", "unit")
	_, err := w.SQL().Exec(`UPDATE test_checks SET seen_at = $1 WHERE name = 'unit'`, epoch.Add(-15*24*time.Hour))
	w.must(err)
	expect("nothing came for two weeks", "e2e")
	w.send(report{commit: "c4", sent: flaky.Sent{Facts: flaky.Facts{Check: "unit"}}, names: "a b"})
	expect("results came again", "e2e", "unit")
	_, err = w.SQL().Exec(`UPDATE test_settings SET automatic = false`)
	w.must(err)
	expect("it is off again")
	_, err = w.SQL().Exec(`UPDATE test_cases SET quarantined_at = $1 WHERE name = 'b'`, epoch)
	w.must(err)
	expect("one test is quarantined by hand", "e2e", "unit")
}

// The queue tests one tree twice: a failure that the second run does not have is
// evidence, whatever commits carry the tree.
func TestRepeatsInTheQueueAreEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(id queue.RunID, group queue.GroupID, commit string) queue.Run {
		r := liveRun(id, group, commit, "b"+commit)
		r.Members, r.Chain = []queue.EntryID{entry(1).ID}, []queue.Step{{Entry: entry(1).ID, PR: 1, Head: "h1", Commit: commit, Tree: "tree"}}
		return r
	}
	w.store(func(p *queue.Plan) { p.Runs = []queue.Run{run("r1", 1, "first"), run("r2", 2, "again")} })
	facts := flaky.Sent{Facts: flaky.Facts{Check: "test", Branch: "x"}}
	w.send(report{commit: "first", sent: facts, names: "a- b"})
	w.send(report{commit: "again", sent: facts, names: "a b"})
	if got := w.column(`SELECT kind FROM test_evidence`); got != "same_code" {
		t.Errorf("evidence: %q", got)
	}
}
