package flaky

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// History is what is remembered of one test that failed at some time. A test
// that never failed needs none. It is a value that can be stored as JSON; its
// size is bounded whatever happens.
//
// A history that is not [History.Watched] need not see passes: before it sees
// the next failure, it is told of the run before that on the same line, and of
// the last one on the stable branch, if the test passed there.
type History struct {
	Lines        []Line        `json:"lines,omitempty"`
	Stable       Tail          `json:"stable"`
	Guarded      Tail          `json:"guarded"`
	PullRequests []PullFailure `json:"pull_requests,omitempty"`
	Epochs       []Epoch       `json:"epochs,omitempty"`
	Known        []Known       `json:"known,omitempty"`
	Outage       Stretch       `json:"outage"`

	Flaky       bool      `json:"flaky,omitempty"`       // found flaky and not yet recovered
	Quarantined bool      `json:"quarantined,omitempty"` // the score was once high enough for it
	Broken      bool      `json:"broken,omitempty"`
	LastAt      time.Time `json:"last_at,omitzero"` // of the newest evidence
	Rate        float64   `json:"rate,omitempty"`   // failures per run when evidence was last found
	Passes      int       `json:"passes,omitempty"` // runs that passed since then
	Unrated     bool      `json:"unrated,omitempty"`
}

// Line is the memory of one sequence of runs that must be green.
type Line struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`            // of the newest run; older ones come too late to matter
	Pass int64     `json:"pass"`          // the run, if it passed; else 0
	Fail *Lone     `json:"fail,omitzero"` // a failure right after a pass
}

// Lone is a failure that becomes evidence if the next run passes.
type Lone struct {
	Run          int64       `json:"run"`
	At           time.Time   `json:"at"`
	PullRequests []int       `json:"pull_requests,omitempty"`
	Fingerprint  Fingerprint `json:"fingerprint,omitempty"`
	Crowded      bool        `json:"crowded,omitempty"` // see Evidence
}

// Tail is how a sequence of runs ends.
type Tail struct {
	At     time.Time `json:"at,omitzero"`
	Run    int64     `json:"run,omitempty"`
	Passed time.Time `json:"passed,omitzero"`  // when it passed last
	Fails  int       `json:"fails,omitempty"`  // failures since the last pass, at most 1000
	Commit string    `json:"commit,omitempty"` // of the first of them
	Spread bool      `json:"spread,omitempty"` // they are of two commits or more
}

// Stretch is a time in which the test was broken.
type Stretch struct {
	From time.Time `json:"from,omitzero"` // the last pass before
	To   time.Time `json:"to,omitzero"`   // the first pass after; zero while it lasts
}

func (s Stretch) has(at time.Time) bool {
	return !s.From.IsZero() && at.After(s.From) && (s.To.IsZero() || !at.After(s.To))
}

// PullFailure is a pull request on which the test failed.
type PullFailure struct {
	Number      int         `json:"number"`
	At          time.Time   `json:"at"`
	Run         int64       `json:"run"`
	Fingerprint Fingerprint `json:"fingerprint,omitempty"`
	Check       string      `json:"check,omitempty"` // of the run
	// Waiting: the stable branch was green before, and the next run there will
	// tell whether it still was; that run is Passed. And the test may fail on the
	// pull request again; a pass there has Cleared it.
	Waiting bool  `json:"waiting,omitempty"`
	Passed  int64 `json:"passed,omitempty"`
	Cleared bool  `json:"cleared,omitempty"`
	// Repeated: it failed again there before it passed. Then the pull request has
	// most likely broken it, and proves nothing.
	Repeated bool `json:"repeated,omitempty"`
	// Unexplained is that of the failure; see Result.
	Unexplained int  `json:"unexplained,omitempty"`
	Recognised  bool `json:"recognised,omitempty"` // its words have become evidence
}

// Known is a fingerprint that evidence has shown to be flakiness.
type Known struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	First       time.Time   `json:"first"`
	Last        time.Time   `json:"last"`
	// Proof is when the first contradiction with these words was; zero: none was.
	Proof time.Time `json:"proof,omitzero"`
	// PullRequest is the one that all contradictions are of; 0 if they are of
	// several or of none.
	PullRequest int `json:"pull_request,omitempty"`
}

// Bounds of a history. Beyond them the oldest is forgotten.
const (
	maxLines = 32
	maxPulls = 64
	maxKnown = 64
	// KnownFor is how long a fingerprint stays known: as long as a test can stay
	// flaky without new evidence.
	KnownFor = longestFlaky
)

// Observe tells the history of a run in which the test was not skipped, in the
// order in which runs arrive, and returns evidence that it made complete. clue
// says that the failure is one of the run's [Clues]. What Observe returns, and
// what comes from [Retried] and [Contradictions], is given to [History.Add].
func (h *History) Observe(r Run, f Result, clue bool) []Evidence {
	if r.Infrastructure || f.Ambiguous && !f.Failed {
		return nil
	}
	var found []Evidence
	if line := r.Line(); line != "" && r.Trusted {
		found = h.onLine(line, r, f, clue)
		h.Guarded.step(r, f)
		h.outage()
		if r.Kind == Stable {
			found = append(found, h.onStable(r, f)...)
		}
	}
	if r.Kind == PullRequest {
		found = append(found, h.onPullRequest(r, f, clue)...)
	}
	if !f.Failed && r.At.After(h.LastAt) {
		h.Passes++
	}
	return found
}

// onLine looks for one failure between two passes. The pass behind it must have
// tested the same pull requests, or the failure was theirs.
func (h *History) onLine(name string, r Run, f Result, clue bool) []Evidence {
	line := h.line(name)
	if r.At.Before(line.At) {
		return nil
	}
	line.At = r.At
	if f.Failed {
		after := line.Pass
		line.Pass, line.Fail = 0, nil
		if after != 0 && clue && !f.Passed {
			line.Fail = &Lone{Run: r.ID, At: r.At, PullRequests: r.PullRequests, Fingerprint: f.Fingerprint, Crowded: f.Unexplained > company}
		}
		if f.Passed {
			line.Pass = r.ID
		}
		return nil
	}
	lone := line.Fail
	line.Pass, line.Fail = r.ID, nil
	if lone == nil || !r.contains(lone.PullRequests) {
		return nil
	}
	return []Evidence{{Test: f.Test, Kind: LoneFailure, At: lone.At,
		FailedRun: lone.Run, PassedRun: r.ID, Fingerprint: lone.Fingerprint, Crowded: lone.Crowded}}
}

// line finds a line or begins it.
func (h *History) line(name string) *Line {
	i := slices.IndexFunc(h.Lines, func(l Line) bool { return l.Name == name })
	if i < 0 {
		if len(h.Lines) == maxLines {
			oldest := 0
			for j := range h.Lines {
				if h.Lines[j].At.Before(h.Lines[oldest].At) {
					oldest = j
				}
			}
			h.Lines = slices.Delete(h.Lines, oldest, oldest+1)
		}
		h.Lines = append(h.Lines, Line{Name: name})
		i = len(h.Lines) - 1
	}
	return &h.Lines[i]
}

// step adds a run to the tail. A test that passed when it was tried again is
// not broken. A run that is older than the newest is too late.
func (t *Tail) step(r Run, f Result) {
	if r.At.Before(t.At) {
		return
	}
	t.At, t.Run = r.At, r.ID
	if f.Passed || !f.Failed {
		t.Passed, t.Fails, t.Commit, t.Spread = r.At, 0, "", false
		return
	}
	if t.Fails == 0 {
		t.Commit = r.Commit
	}
	t.Fails = min(t.Fails+1, 1000)
	t.Spread = t.Spread || t.Commit != r.Commit
}

// outageFailures is how many failures in a row on branches that must be green
// are no chance: a test that fails in 6 % of its runs does that once in twenty
// million.
const outageFailures = 6

// outage forgets what a broken test seemed to prove: around the moment when it
// breaks, and again when it is repaired, the same code passes and fails, and if
// that is not on the same half day it would look like two accidents.
func (h *History) outage() {
	switch {
	case h.Guarded.Fails == 0:
		if !h.Outage.From.IsZero() && h.Outage.To.IsZero() {
			h.Outage.To = h.Guarded.Passed
		}
	case h.Guarded.Fails >= outageFailures && h.Guarded.Spread && h.Outage.From != h.Guarded.Passed:
		h.Outage = Stretch{From: h.Guarded.Passed}
		h.Epochs = slices.DeleteFunc(h.Epochs, func(e Epoch) bool { return h.Outage.has(e.First) })
		h.Known = slices.DeleteFunc(h.Known, func(k Known) bool { return h.Outage.has(k.First) })
	}
}

// onStable moves the memory of the stable branch and settles which failures on
// pull requests happened while it was green.
func (h *History) onStable(r Run, f Result) []Evidence {
	if r.At.Before(h.Stable.At) {
		return nil
	}
	h.Stable.step(r, f)
	var found []Evidence
	kept := h.PullRequests[:0]
	for _, p := range h.PullRequests {
		if p.Waiting && p.Passed == 0 && !p.At.After(r.At) {
			if h.Stable.Fails > 0 {
				continue // the branch was broken: the pull request need not be
			}
			p.Passed = r.ID
		}
		kept = append(kept, p)
	}
	h.PullRequests = kept
	for i := range h.PullRequests {
		found = append(found, h.settle(&h.PullRequests[i], f.Test, r.At)...)
	}
	return found
}

// settle ends the waiting of a failure on a pull request of which enough is known:
// the stable branch was green behind it, too, and the pull request has passed
// since, or had half a day for failing again.
func (h *History) settle(p *PullFailure, test uuid.UUID, now time.Time) []Evidence {
	if !p.Waiting || p.Passed == 0 || !p.Cleared && now.Sub(p.At) < EpochLength {
		return nil
	}
	others := slices.ContainsFunc(h.PullRequests, func(o PullFailure) bool { return !o.Waiting && !o.Repeated })
	p.Waiting = false
	if !others {
		return nil // each pull request is there once
	}
	return []Evidence{{Test: test, Kind: DistinctPullRequest, At: p.At,
		FailedRun: p.Run, PassedRun: p.Passed, PullRequest: p.Number, Fingerprint: p.Fingerprint, Crowded: p.Unexplained > company}}
}

// onPullRequest notes the first failure on each pull request while the stable
// branch was green, and what the test does there afterwards.
func (h *History) onPullRequest(r Run, f Result, clue bool) []Evidence {
	if !r.Trusted {
		return nil
	}
	var found []Evidence
	for _, number := range r.PullRequests {
		i := slices.IndexFunc(h.PullRequests, func(p PullFailure) bool { return p.Number == number })
		if i < 0 {
			if clue {
				h.onNewPullRequest(r, f, number)
			}
			continue
		}
		switch p := &h.PullRequests[i]; {
		case !p.Waiting:
		case f.Failed && !f.Passed && !p.Cleared:
			p.Waiting, p.Repeated = false, true
		case !f.Failed && r.Check == p.Check && r.At.After(p.At):
			p.Cleared = true
			found = append(found, h.settle(p, f.Test, r.At)...)
		}
	}
	return found
}

func (h *History) onNewPullRequest(r Run, f Result, number int) {
	if h.Stable.Run == 0 || h.Stable.Fails > 0 {
		return
	}
	h.PullRequests = slices.DeleteFunc(h.PullRequests, func(p PullFailure) bool { return r.At.Sub(p.At) > Window })
	if len(h.PullRequests) == maxPulls {
		h.PullRequests = slices.Delete(h.PullRequests, 0, 1)
	}
	h.PullRequests = append(h.PullRequests, PullFailure{Number: number, At: r.At, Run: r.ID, Check: r.Check, Fingerprint: f.Fingerprint, Waiting: true, Unexplained: f.Unexplained})
}

// Recognise finds failures on pull requests that have the words of a
// contradiction. That may come before or after them, but at another time: what
// goes wrong at one has one cause. Who fails without a word is never recognised.
// What is returned is given to [History.Add].
func (h *History) Recognise(test uuid.UUID) []Evidence {
	var found []Evidence
	for i := range h.PullRequests {
		p := &h.PullRequests[i]
		if p.Waiting || p.Repeated || p.Recognised || p.Fingerprint == 0 || p.Unexplained > company || !slices.ContainsFunc(h.Known, p.shownBy) {
			continue
		}
		p.Recognised = true
		found = append(found, Evidence{Test: test, Kind: KnownWords, At: p.At, FailedRun: p.Run, PassedRun: p.Passed,
			PullRequest: p.Number, Fingerprint: p.Fingerprint})
	}
	return found
}

// shownBy reports whether a contradiction shows that the failure was flakiness.
func (p *PullFailure) shownBy(k Known) bool {
	return k.Fingerprint == p.Fingerprint && !k.Proof.IsZero() && k.PullRequest != p.Number && p.At.Sub(k.Proof).Abs() >= EpochLength
}

// Add takes evidence into the account. Each piece is added once; what failed
// while the test was broken is none.
func (h *History) Add(found ...Evidence) {
	for _, e := range found {
		if h.Outage.has(e.At) {
			continue
		}
		h.know(e)
		h.count(e)
		if e.At.After(h.LastAt) {
			h.LastAt, h.Passes = e.At, 0
		}
		h.Unrated = true
	}
}

func (h *History) count(e Evidence) {
	number := epochOf(e.At)
	oldest := number - int64(Window/EpochLength)
	h.Epochs = slices.DeleteFunc(h.Epochs, func(o Epoch) bool { return o.Number < oldest })
	i := slices.IndexFunc(h.Epochs, func(o Epoch) bool { return o.Number == number })
	if i < 0 {
		h.Epochs = append(h.Epochs, Epoch{Number: number, First: e.At})
		i = len(h.Epochs) - 1
	}
	epoch := &h.Epochs[i]
	epoch.Weight = min(epochLimit, epoch.Weight+e.Weight())
	if e.At.Before(epoch.First) {
		epoch.First = e.At
	}
}

func (h *History) know(e Evidence) {
	for i := range h.Known {
		if k := &h.Known[i]; k.Fingerprint == e.Fingerprint {
			if e.At.After(k.Last) {
				k.Last = e.At
			}
			if e.At.Before(k.First) {
				k.First = e.At
			}
			k.prove(e)
			return
		}
	}
	if len(h.Known) == maxKnown {
		oldest := slices.IndexFunc(h.Known, func(k Known) bool {
			return !slices.ContainsFunc(h.Known, func(o Known) bool { return o.Last.Before(k.Last) })
		})
		h.Known = slices.Delete(h.Known, oldest, oldest+1)
	}
	k := Known{Fingerprint: e.Fingerprint, First: e.At, Last: e.At}
	k.prove(e)
	h.Known = append(h.Known, k)
}

// prove takes evidence with these words into the account.
func (k *Known) prove(e Evidence) {
	switch {
	case !e.Kind.contradicts():
	case k.Proof.IsZero():
		k.Proof, k.PullRequest = e.At, e.PullRequest
	default:
		if e.At.Before(k.Proof) {
			k.Proof = e.At
		}
		if k.PullRequest != e.PullRequest {
			k.PullRequest = 0
		}
	}
}

// knewBefore reports whether the fingerprint was known at a moment.
func (h *History) knewBefore(f Fingerprint, at time.Time) bool {
	return slices.ContainsFunc(h.Known, func(k Known) bool { return k.Fingerprint == f && k.First.Before(at) })
}

// Knows reports whether evidence has shown this fingerprint to be flakiness, not
// longer ago than [KnownFor].
func (h *History) Knows(f Fingerprint, now time.Time) bool {
	return slices.ContainsFunc(h.Known, func(k Known) bool { return k.Fingerprint == f && now.Sub(k.Last) <= KnownFor })
}

// Joined is the history of a test that was renamed: of its time under the old
// name, and of that under the new one with its evidence. Either may be nil; both
// belong to the result.
func Joined(before, after *History, evidence []Evidence) *History {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	}
	before.Lines, before.Stable, before.Guarded, before.PullRequests = after.Lines, after.Stable, after.Guarded, after.PullRequests
	if after.Outage != (Stretch{}) {
		before.Outage = after.Outage
	}
	before.Add(evidence...)
	return before
}

// Example is a failure that was seen before.
type Example struct {
	Fingerprint Fingerprint
	Failure
}

// KnowsText does what [History.Knows] does for a failure of which a client gives
// only a text, its message or its body, without the error's type: it is known if
// it has the words of an example with a known fingerprint.
func (h *History) KnowsText(text string, seen []Example, now time.Time) bool {
	asked, _ := Describe(Failure{Message: text})
	if h.Knows(asked, now) {
		return true
	}
	return asked != 0 && slices.ContainsFunc(seen, func(e Example) bool {
		if !h.Knows(e.Fingerprint, now) {
			return false
		}
		message, _ := Describe(Failure{Message: e.Message})
		body, _ := Describe(Failure{Message: e.Text})
		return message == asked || body == asked
	})
}

// Watched reports whether the next pass of the test may change something, so
// that it must be observed.
func (h *History) Watched() bool {
	return h.Flaky || h.Broken || h.Stable.Fails > 0 || h.Guarded.Fails > 0 ||
		slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Pass == 0 }) ||
		slices.ContainsFunc(h.PullRequests, func(p PullFailure) bool { return p.Waiting })
}
