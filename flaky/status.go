package flaky

import (
	"fmt"
	"math"
	"time"
)

// Status is the state of a test, in the words of the API.
type Status string

// The states.
const (
	Healthy Status = "HEALTHY"
	Flaky   Status = "FLAKY"
	Broken  Status = "BROKEN"
)

// Scores at which something is said or done.
const (
	// SuspectedScore is shown to people and changes nothing: one contradiction.
	SuspectedScore = 3
	// FlakyScore makes a test flaky: two contradictions, on two half days, as
	// one half day gives 3 at most.
	FlakyScore = 5
	// QuarantineScore lets its failures be excused: a third piece of evidence.
	QuarantineScore = 6.5
)

// Recovery: so many passes that the old rate would have let them all pass with
// at most this probability; and bounds in time.
const (
	recoveryDoubt  = 0.05
	shortestQuiet  = 3 * 24 * time.Hour
	longestFlaky   = 45 * 24 * time.Hour
	brokenFailures = 3
)

// ReasonCode says why a test is in its state. The codes are part of the API.
type ReasonCode string

// The reasons.
const (
	NoEvidence     ReasonCode = "NO_EVIDENCE"      // healthy: nothing speaks against it
	EvidenceFound  ReasonCode = "EVIDENCE_FOUND"   // flaky: the score is high enough
	StillFlaky     ReasonCode = "STILL_FLAKY"      // flaky: not enough passes yet to believe otherwise
	Recovered      ReasonCode = "RECOVERED"        // healthy: enough passes
	EvidenceTooOld ReasonCode = "EVIDENCE_EXPIRED" // healthy: nothing seen for 45 days
	AlwaysFails    ReasonCode = "ALWAYS_FAILS"     // broken
	PassedAgain    ReasonCode = "PASSED_AGAIN"     // no longer broken
)

// Tally is how often a test ran, and how many of these runs failed, in the last
// 14 days. Runs marked as infrastructure failures, and skipped ones, are not
// counted.
type Tally struct{ Runs, Failures int }

// Plus is the tally of both.
func (t Tally) Plus(o Tally) Tally { return Tally{t.Runs + o.Runs, t.Failures + o.Failures} }

// Rate is the share of runs that failed, from 0 to 1; 0 without runs.
func (t Tally) Rate() float64 {
	if t.Runs <= 0 {
		return 0
	}
	return min(1, float64(t.Failures)/float64(t.Runs))
}

// Judgement is what a history amounts to at one moment.
type Judgement struct {
	Status Status
	// Suspected: some evidence, not enough to call the test flaky. It is shown
	// and has no other effect.
	Suspected bool
	Score     float64
	Epochs    int // half days that the score comes from
	Code      ReasonCode
	// Changed: the state is another than before.
	Changed bool

	passes, needed, fails int
}

// Judge moves the test to the state that it should be in and says why. It is
// called after evidence was added or a watched test was observed, and once a
// day for flaky tests, since time heals, too. tally is up to now.
func (h *History) Judge(now time.Time, tally Tally) Judgement {
	if h.Unrated {
		h.Rate, h.Unrated = tally.Rate(), false
	}
	before, wasBroken := h.Status(), h.Broken
	j := Judgement{passes: h.Passes, needed: PassesToRecover(h.Rate), fails: h.Guarded.Fails}
	j.Score, j.Epochs = score(h.Epochs, now)
	j.Code = h.flakiness(now, j)
	h.Broken = h.Guarded.Fails >= brokenFailures && h.Guarded.Spread
	switch {
	case h.Broken:
		j.Code = AlwaysFails
	case wasBroken && !h.Flaky:
		j.Code = PassedAgain
	}
	j.Status = h.Status()
	j.Suspected = !h.Flaky && j.Score >= SuspectedScore
	j.Changed = j.Status != before
	return j
}

// Reason is the judgement as a sentence for people.
func (j Judgement) Reason() string {
	switch j.Code {
	case EvidenceFound:
		return fmt.Sprintf(Worded(j.Epochs, "It failed without being broken: its score is %.1f from %d half {day|days} of the last 14 days, and %d makes a test flaky."), j.Score, j.Epochs, FlakyScore)
	case StillFlaky:
		return fmt.Sprintf(Worded(j.passes, "It passed %d {time|times} since it last failed at random; %d passes and three days make the old rate unlikely."), j.passes, j.needed)
	case Recovered:
		return fmt.Sprintf(Worded(j.passes, "It passed %d {time|times} since it last failed at random; at the old rate that would be unlikely."), j.passes)
	case EvidenceTooOld:
		return "Nothing has shown for 45 days that it fails at random."
	case AlwaysFails:
		return fmt.Sprintf("The last %d runs on branches that must be green all failed, on more than one commit.", j.fails)
	case PassedAgain:
		return "It passed again where it had always failed."
	}
	return "Nothing shows that it fails at random."
}

// Status is the state that the last judgement left the test in.
func (h *History) Status() Status {
	switch {
	case h.Broken:
		return Broken
	case h.Flaky:
		return Flaky
	}
	return Healthy
}

// flakiness moves between healthy and flaky, which goes on unseen while the
// test is broken.
func (h *History) flakiness(now time.Time, j Judgement) ReasonCode {
	quiet := now.Sub(h.LastAt) >= shortestQuiet && h.Passes >= j.needed
	switch {
	case j.Score >= FlakyScore && !quiet:
		h.Flaky = true
		h.Quarantined = h.Quarantined || j.Score >= QuarantineScore
		return EvidenceFound
	case !h.Flaky:
		return NoEvidence
	case now.Sub(h.LastAt) >= longestFlaky:
		h.recover()
		return EvidenceTooOld
	case quiet:
		h.recover()
		return Recovered
	}
	return StillFlaky
}

// recover lets the test begin anew: what it did before counts no more.
func (h *History) recover() { h.Flaky, h.Quarantined, h.Epochs = false, false, nil }

// PassesToRecover is how many passes in a row are at most 5 % likely for a test
// that fails at that rate: the least n with (1-rate)^n ≤ 0.05. A rate of 0 is
// never disproved.
func PassesToRecover(rate float64) int {
	switch {
	case rate <= 0:
		return math.MaxInt32
	case rate >= 1:
		return 1
	}
	return int(math.Ceil(math.Log(recoveryDoubt) / math.Log1p(-rate)))
}
