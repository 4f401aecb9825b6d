// Package flaky tells tests that fail at random from tests that are broken. It
// decides from its arguments alone: it reads no clock, stores nothing and
// starts nothing.
//
// # From a report to a quarantine
//
//	report ──► Test.ID ──► Result ─┬─ Clues ──► SameCode ─┐
//	           (who)      (what)   │                      ├──► History ──► Judge ──► Status
//	                               └─────── Observe ──────┘      (per test)              │
//	                                                              Rules.Decide ◄─────────┘
//	                                                                   │
//	                                                                Verdict
//
// A [Run] is one test report: one attempt of one job on one commit. What it
// says of one test is a [Result]. [Clues] keeps the failures that may prove
// something: a run that failed everywhere, a message that many tests share, and
// what a stranger uploaded prove nothing about a test.
//
// What remains becomes [Evidence] in several ways: the same code passed and
// failed ([SameCode]); a test failed once on a branch that must be green,
// between two passes; a test failed on several unrelated pull requests while
// the branch that they start from was green, which shows more when it failed with
// words that one of the others has shown to be flakiness ([KnownWords]). All but
// the first need memory, which is [History]: a small value for each test that ever
// failed.
//
// [History.Judge] adds the evidence up to a score and names the state. A test is
// healthy, flaky or broken:
//
//	         score ≥ 5 from two half days
//	HEALTHY ─────────────────────────────► FLAKY ──┐ three runs in a row failed on
//	   ▲   ◄───────────────────────────────  ▲     │ branches that must be green,
//	   │     so many passes that the old     │     ▼ over two commits or more
//	   │     rate is unlikely              BROKEN (from HEALTHY, too)
//	   └────────────────────────────────────┘
//	                a pass there
//
// [Rules.Decide] says whether failures of the test are excused, and
// [Quarantine.Excuses] whether this failure is. [Judge] makes of it what a CI job
// should exit with.
//
// The package errs on the side of no evidence: a flaky test that is found a day
// later costs a rerun; a broken test that is excused costs a bug.
package flaky
