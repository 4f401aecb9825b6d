package flaky

import (
	"time"

	"github.com/google/uuid"
)

// EvidenceKind says how a test showed that it is flaky.
type EvidenceKind string

// The kinds of evidence, the strongest first.
const (
	// SameCode: the same code passed and failed, in two runs or in two attempts
	// of one run.
	SameCode EvidenceKind = "same_code"
	// LoneFailure: one failure between two passes on a branch that must be
	// green.
	LoneFailure EvidenceKind = "lone_failure"
	// KnownWords: a failure on one more pull request, once, while the branch that
	// it starts from was green, without company (see there), and with words that a
	// contradiction (SameCode or LoneFailure) showed to be flakiness at another
	// time and not on that pull request alone.
	KnownWords EvidenceKind = "known_words"
	// DistinctPullRequest: a failure on one more pull request, once, while the
	// branch that it starts from was green. Who fails there twice before a pass is
	// most likely broken by it.
	DistinctPullRequest EvidenceKind = "distinct_pull_request"
)

// weights are how much one piece of evidence of each kind adds to the score.
var weights = map[EvidenceKind]float64{SameCode: 3, LoneFailure: 2, KnownWords: 2, DistinctPullRequest: 0.7}

// contradicts reports whether evidence of this kind shows by itself that the test
// both fails and passes.
func (k EvidenceKind) contradicts() bool { return k == SameCode || k == LoneFailure }

// company is how many unexplained failures of a run, the test's own one among
// them, may be that many flaky tests. With more of them, something has more likely
// happened to the run, such as a machine without memory, and what each of them
// shows counts half.
const company = 3

// Evidence is one observation that a test fails without being broken.
type Evidence struct {
	Test uuid.UUID
	Kind EvidenceKind
	At   time.Time // when the failed run ended
	// FailedRun and PassedRun are the runs that contradict each other; the same
	// one if the test passed when it was tried again.
	FailedRun, PassedRun int64
	// PullRequest is the one on which the test failed; 0 if the run tested none,
	// or several.
	PullRequest int
	Fingerprint Fingerprint
	// Crowded: more tests failed in the run, unexplained, than company allows.
	Crowded bool
}

// Weight is how much the evidence adds to the score.
func (e Evidence) Weight() float64 {
	if e.Crowded {
		return weights[e.Kind] / 2
	}
	return weights[e.Kind]
}

// Retried is the evidence that one run holds in itself: tests that failed and
// then passed. clues come from [Clues].
func Retried(r Run, clues []Result) []Evidence {
	var found []Evidence
	for _, c := range clues {
		if c.Failed && c.Passed {
			found = append(found, sameCode(c, r, r))
		}
	}
	return found
}

// Contradictions is the evidence between two runs of the same code: tests that
// failed in one and passed in the other. clues are those of the failed run, from
// [Clues]; passed reports whether a test ran in the other one and passed at
// once.
func Contradictions(failed Run, clues []Result, other Run, passed func(uuid.UUID) bool) []Evidence {
	if !other.Trusted || other.Infrastructure || !failed.SameCodeAs(other) {
		return nil
	}
	var found []Evidence
	for _, c := range flipped(clues, passed) {
		found = append(found, sameCode(c, failed, other))
	}
	return found
}

// flipped are the clues of a run whose tests passed in another one, each with the
// company that it has among these alone. What failed in both is broken in the code
// and explains itself: a pull request that breaks twenty tests says nothing about
// the machine on which a further one failed once.
func flipped(clues []Result, passed func(uuid.UUID) bool) []Result {
	var all []Result
	unexplained := 0
	for _, c := range clues {
		if passed(c.Test) {
			all = append(all, c)
			unexplained += min(c.Unexplained, 1)
		}
	}
	for i := range all {
		if all[i].Unexplained > 0 {
			all[i].Unexplained = unexplained
		}
	}
	return all
}

func sameCode(c Result, failed, passed Run) Evidence {
	return Evidence{Test: c.Test, Kind: SameCode, At: failed.At,
		FailedRun: failed.ID, PassedRun: passed.ID, PullRequest: failed.pullRequest(), Fingerprint: c.Fingerprint, Crowded: c.Unexplained > company}
}

// What the score is made of.
const (
	// EpochLength is the time in which failures are taken for one: whatever
	// goes wrong within it has one cause.
	EpochLength = 12 * time.Hour
	// Window is how long evidence counts.
	Window = 14 * 24 * time.Hour
	// epochLimit is the most that one epoch adds to the score.
	epochLimit = 3.0
)

// Epoch is the evidence of one half day, UTC.
type Epoch struct {
	Number int64     `json:"number"` // half days since 1970
	Weight float64   `json:"weight"` // at most 3
	First  time.Time `json:"first"`  // of its evidence
}

func epochOf(at time.Time) int64 { return at.Unix() / int64(EpochLength/time.Second) }

// score is the sum of what each epoch of the last 14 days may add, and of how
// many epochs it is made. Two epochs that begin to count less than an epoch's
// length apart, one before noon and one after it, are one.
func score(epochs []Epoch, now time.Time) (sum float64, from int) {
	oldest := epochOf(now.Add(-Window))
	var first, last time.Time
	for _, e := range epochs {
		if e.Number <= oldest {
			continue
		}
		sum += e.Weight
		from++
		if first.IsZero() || e.First.Before(first) {
			first = e.First
		}
		if e.First.After(last) {
			last = e.First
		}
	}
	if from > 1 && last.Sub(first) < EpochLength {
		return min(sum, epochLimit), 1
	}
	return sum, from
}
