package flaky

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kind says what a run tested, by what the queue and the host know of its
// commit. An uploaded branch name alone never makes a run Stable or Queue.
type Kind string

// The kinds of runs.
const (
	Stable      Kind = "stable"       // a branch that people start from, such as main
	Queue       Kind = "queue"        // a commit that the queue made to test what would land
	PullRequest Kind = "pull_request" // the head of a pull request, or its merge with the base
	Other       Kind = "other"        // any other branch
)

// Run is what is known of one uploaded report: one attempt of one job.
type Run struct {
	ID int64     // the upload's number
	At time.Time // when the tests ended

	// Check is the name under which the job reports to the host. A run without
	// one may be compared with any.
	Check string

	Kind   Kind
	Branch string // for Stable and Queue: the branch, of the queue the one it lands on
	Commit string // what was checked out
	Tree   string // git's name of the tested files, where known
	Head   string // head of the branch or pull request that is tested
	Base   string // what Head was merged into for the test, where known
	// PullRequests are those under test, in any order; none on a stable branch.
	PullRequests []int

	// Trusted is false for what came from a fork or without a token.
	Trusted bool
	// Infrastructure marks a run that failed for reasons outside the tests. It
	// counts for nothing.
	Infrastructure bool

	Tests  int // how many tests ran: not the skipped ones
	Failed int // how many of them failed in any attempt
}

// Mass failure: a run with more failures than the greater of these two says
// something about the run and not about its tests.
const (
	massTests = 15
	massShare = 0.02
)

// Mass reports whether so many tests failed that no single failure proves
// anything.
func (r Run) Mass() bool {
	return float64(r.Failed) > max(massTests, massShare*float64(r.Tests))
}

// Line is the name of the sequence that the run belongs to: runs of one check on
// one branch that must be green. Other runs have none.
func (r Run) Line() string {
	if r.Kind != Stable && r.Kind != Queue {
		return ""
	}
	return string(r.Kind) + " " + r.Branch + " " + r.Check // git allows no blank in a branch
}

// SameCodeAs reports whether two runs tested the same code in the same way: the
// same tree; where a tree is unknown, the same head on the same base; and off
// pull requests, whose merge with the base changes unseen, the same commit.
//
// Jobs of different names are never the same code: a test that always fails on
// one platform and passes on another is not flaky.
func (r Run) SameCodeAs(o Run) bool {
	if r.Check != o.Check && r.Check != "" && o.Check != "" {
		return false
	}
	if r.Tree != "" && o.Tree != "" {
		return r.Tree == o.Tree
	}
	if r.Head != "" && o.Head != "" && r.Base != "" && o.Base != "" {
		return r.Head == o.Head && r.Base == o.Base
	}
	return r.Kind != PullRequest && o.Kind != PullRequest && r.Commit != "" && r.Commit == o.Commit
}

// contains reports whether every pull request under test in o is in r, too.
func (r Run) contains(prs []int) bool {
	for _, pr := range prs {
		if !slices.Contains(r.PullRequests, pr) {
			return false
		}
	}
	return true
}

// pullRequest is the one under test; 0 for none or several.
func (r Run) pullRequest() int {
	if r.Kind == PullRequest && len(r.PullRequests) == 1 {
		return r.PullRequests[0]
	}
	return 0
}

// Result is what a run says about one test. Skipped tests have none.
type Result struct {
	Test uuid.UUID
	// Failed: at least one of its attempts in this run failed.
	Failed bool
	// Passed: its last attempt in this run passed. Failed and Passed together
	// are a test that passed when it was tried again.
	Passed bool
	// Ambiguous: several tests of the run share the id and cannot be told apart.
	Ambiguous bool
	// Fingerprint is that of the last failed attempt.
	Fingerprint Fingerprint
	// Unexplained is how many tests of the run, this one among them, failed with
	// words that were not known to be flakiness then; 0 if this one's were. It is
	// found out of clues only.
	Unexplained int
}

// sharedBy is how many tests of a run must fail with the same fingerprint for
// it to be the environment's fault.
const sharedBy = 3

// Clues returns those failures of a run that may be evidence about a test: none
// of a run that is untrusted, marked or failed everywhere, and none that is
// ambiguous or that fails with the words of two other tests of the run.
// Failures without any text share nothing.
func Clues(r Run, results []Result) []Result {
	if !r.Trusted || r.Infrastructure || r.Mass() {
		return nil
	}
	tests := map[Fingerprint]int{}
	for _, f := range results {
		if f.Failed && f.Fingerprint != 0 {
			tests[f.Fingerprint]++
		}
	}
	var clues []Result
	for _, f := range results {
		if f.Failed && !f.Ambiguous && tests[f.Fingerprint] < sharedBy {
			clues = append(clues, f)
		}
	}
	return clues
}
