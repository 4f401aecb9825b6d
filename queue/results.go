package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Standing says how a failing test stands with what is known of it.
type Standing string

// The standings.
const (
	KnownFlaky    Standing = "known_flaky"
	FailingOnBase Standing = "failing_on_base" // it also fails on the branch itself
	NewlyFailing  Standing = "new"             // nothing else explains the failure
)

// FailingTest is a test that failed, as the flaky-test service sees it.
type FailingTest struct {
	ID   string `json:"id"`
	Name string `json:"name"` // for people
	// Quarantined: its failures are excused, unless NewFailure says that nobody
	// has seen it fail in this way before.
	Quarantined bool     `json:"quarantined,omitempty"`
	NewFailure  bool     `json:"newFailure,omitempty"`
	Standing    Standing `json:"standing"`
}

// Excused reports whether the failure counts for nothing.
func (t FailingTest) Excused() bool { return t.Quarantined && !t.NewFailure }

// Bounds of what a run keeps of test results. MaxFailingTests is per upload;
// whoever makes a TestResults lists those that are not excused first.
const (
	MaxFailingTests = 20
	maxTestName     = 200
	maxResults      = 50
)

// TestResults is what one upload of test reports says: an upload is sent by one
// attempt of one CI job, which reports to the host as Check. A check may be told
// of by several uploads.
type TestResults struct {
	Commit string `json:"commit"` // that the check is reported on
	// Check is the name under which the job reports to the host. "" is unknown:
	// such results are shown and clear nothing.
	Check   string `json:"check,omitempty"`
	Job     string `json:"job,omitempty"`     // the same in each attempt
	Attempt int64  `json:"attempt,omitempty"` // of the job, from 1
	Upload  int64  `json:"upload"`            // number of the upload: the same again is old news
	// Complete: every report that the job should have made is there and whole,
	// and they explain how the job ended.
	Complete bool `json:"complete"`
	// Failed is how many tests failed, Blocking how many of those are not
	// excused. Failing has at most MaxFailingTests of them.
	Failed   int64         `json:"failed,omitempty"`
	Blocking int64         `json:"blocking,omitempty"`
	Failing  []FailingTest `json:"failing,omitempty"`
}

// same reports whether two lots of results are equal.
func (f TestResults) same(o TestResults) bool {
	return f.Commit == o.Commit && f.Check == o.Check && f.Job == o.Job && f.Attempt == o.Attempt && f.Upload == o.Upload &&
		f.Complete == o.Complete && f.Failed == o.Failed && f.Blocking == o.Blocking && slices.Equal(f.Failing, o.Failing)
}

// normal is results that agree with themselves and are bounded, whoever made
// them. Where the list and the counts differ, what blocks more is believed.
func (f TestResults) normal() TestResults {
	tests := slices.Clone(f.Failing)
	var blocking int64
	for i := range tests {
		tests[i].Name = shown(cmp.Or(tests[i].Name, tests[i].ID))
		if !tests[i].Excused() {
			blocking++
		}
	}
	f.Blocking = max(f.Blocking, blocking)
	f.Failed = max(f.Failed, f.Blocking, int64(len(tests)))
	f.Attempt = max(f.Attempt, 1)
	f.Failing = atMost(tests)
	return f
}

// atMost is tests in order, those that block first, as many as are kept.
func atMost(tests []FailingTest) []FailingTest {
	slices.SortStableFunc(tests, func(a, b FailingTest) int {
		if a.Excused() != b.Excused() {
			return map[bool]int{false: -1, true: 1}[a.Excused()]
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	tests = slices.CompactFunc(tests, func(a, b FailingTest) bool { return a == b })
	return slices.Clip(tests[:min(len(tests), MaxFailingTests)])
}

// shown is a name that fits into a sentence.
func shown(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > maxTestName {
		return string(runes[:maxTestName-1]) + "…"
	}
	return name
}

// testResults keeps results on the runs of their commit. Once a run has passed
// only attempts that its verdict was made of are heard: whoever runs a check
// again afterwards changes nothing.
func (d *decision) testResults(f TestResults) {
	if f.Commit == "" || f.Upload == 0 {
		return
	}
	f = f.normal()
	for _, r := range d.s.Runs {
		if r.Commit == f.Commit && r.State != Stopped && r.State != Building {
			r.keep(f)
		}
	}
}

// keep adds results to a run. Of each job only the newest attempt is kept.
func (r *Run) keep(f TestResults) {
	kept := make([]TestResults, 0, len(r.Results)+1)
	for _, old := range r.Results {
		same := old.Check == f.Check && old.Job == f.Job
		switch {
		case old.Upload == f.Upload || same && old.Attempt > f.Attempt:
			return
		case same && old.Attempt < f.Attempt && r.State != RunTesting:
			return
		case same && old.Attempt < f.Attempt:
		default:
			kept = append(kept, old)
		}
	}
	if len(kept) == maxResults { // whoever sends more makes sure of nothing
		r.Crowded = true
		return
	}
	kept = append(kept, f)
	slices.SortFunc(kept, func(a, b TestResults) int { return cmp.Compare(a.Upload, b.Upload) })
	r.Results = kept
}

// Excuse is what test results make of a required check that failed.
type Excuse string

// What results make of a failure.
const (
	// ExcusePending: nothing that came so far blocks, and something is missing
	// that could excuse the failure.
	ExcusePending Excuse = "pending"
	ExcuseRefused Excuse = "refused" // it counts
	ExcuseCleared Excuse = "cleared" // everything that failed is quarantined: it counts as passed
)

// Excuse judges a failed check by the results of its job. It is cleared only by
// complete results in which something failed, and everything that failed is
// excused, of every job that tells of the check, and of its newest attempt: as
// many attempts must have told of their tests as have told that they ended.
func (r *Run) Excuse(want Required) Excuse {
	var attempts, failed int64
	newest := map[string]int64{}
	for i := range r.Results {
		f := &r.Results[i]
		if f.Check != want.Name || f.Check == "" {
			continue
		}
		if !f.Complete || f.Blocking > 0 {
			return ExcuseRefused
		}
		failed += f.Failed
		newest[f.Job] = f.Attempt
	}
	for _, n := range newest {
		attempts += n
	}
	switch {
	case r.Crowded:
		return ExcuseRefused
	case failed == 0 || attempts < r.told(want):
		return ExcusePending
	default:
		return ExcuseCleared
	}
}

// told is how many check runs have told of a required status.
func (r *Run) told(want Required) int64 {
	var n int64
	for _, report := range r.Checks {
		if want.matches(report) {
			n += report.Earlier + 1
		}
	}
	return n
}

// Tests are the tests that failed under a check, as far as results tell: those
// that block first, and at most MaxFailingTests. more is how many others there are.
func (r *Run) Tests(check string) (tests []FailingTest, more int64) {
	var all []FailingTest
	var failed int64
	for i := range r.Results {
		if r.Results[i].Check == check {
			all = append(all, r.Results[i].Failing...)
			failed += r.Results[i].Failed
		}
	}
	listed := int64(len(all))
	all = atMost(all)
	if listed > MaxFailingTests || failed > listed {
		more = failed - int64(len(all))
	}
	return all, more
}

// ClearedText says which required checks failed and were passed by quarantine;
// "" if none was. Of a run that has passed it tells what its pass rests on.
func (r *Run) ClearedText() string {
	var texts []string
	for _, want := range r.Required {
		if r.PassedByQuarantine(want) {
			texts = append(texts, r.clearing(want.Name))
		}
	}
	return strings.Join(texts, " ")
}

// PassedByQuarantine reports whether a required status failed and counts as
// passed. What was so when a run passed stays so, whatever is told afterwards.
func (r *Run) PassedByQuarantine(want Required) bool {
	if r.State == RunPassed {
		return slices.Contains(r.Cleared, want.Name)
	}
	report, found := r.Report(want)
	return found && report.Outcome() == VerdictFailed && r.Excuse(want) == ExcuseCleared
}

// namedTests is how many tests a sentence names.
const namedTests = 5

func (r *Run) clearing(check string) string {
	tests, more := r.Tests(check)
	n := int64(len(tests)) + more
	return fmt.Sprintf("%s: failed, and passed by quarantine: %d %s known flaky: %s.", check, n, plural(int(min(n, 2)), "test"), testNames(tests, more))
}

func testNames(tests []FailingTest, more int64) string {
	var names []string
	for _, t := range tests[:min(len(tests), namedTests)] {
		names = append(names, t.Name)
	}
	if more += int64(len(tests) - len(names)); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return list(names)
}

// Unexplained says why results excuse nothing of a failed check although no
// test is known that blocks it; "" if there are none, or such a test is known.
func (r *Run) Unexplained(check string) string {
	var blocking, failed int64
	complete, told := true, false
	for i := range r.Results {
		if f := &r.Results[i]; f.Check == check {
			told, complete = true, complete && f.Complete
			blocking, failed = blocking+f.Blocking, failed+f.Failed
		}
	}
	switch {
	case !told || blocking > 0:
		return ""
	case !complete:
		return "its test results are incomplete, so nobody knows what else failed."
	case r.Crowded:
		return fmt.Sprintf("there are more than %d uploads of test results, too many to tell what failed.", maxResults)
	case failed == 0:
		return "no test failed in its test results, so they do not explain why it did."
	default:
		return "its test results are those of an earlier attempt."
	}
}

// unexcusedText says why results do not excuse a failed check, a sentence; "" if
// there are none.
func (r *Run) unexcusedText(check string) string {
	var blocking []FailingTest
	var n int64
	for i := range r.Results {
		f := &r.Results[i]
		if f.Check != check {
			continue
		}
		n += f.Blocking
		for _, t := range f.Failing {
			if !t.Excused() {
				blocking = append(blocking, t)
			}
		}
	}
	blocking = atMost(blocking)
	if n > 0 {
		return fmt.Sprintf("%s: %d %s failed that quarantine does not excuse: %s.", check, n, plural(int(min(n, 2)), "test"), testNames(blocking, n-int64(len(blocking))))
	}
	if why := r.Unexplained(check); why != "" {
		return check + ": " + why
	}
	return ""
}

// awaited is until when the results of a failed check are waited for: a little
// after it failed, and never longer than the tests may take. It is zero for a
// check under which nobody uploads results, or whose failures nobody excuses.
func (r *Run) awaited(report Report, testChecks []string) time.Time {
	if !slices.Contains(testChecks, report.Name) {
		return time.Time{}
	}
	until := later(report.At, r.StartedAt).Add(resultsPatience)
	if !r.Deadline.IsZero() && until.After(r.Deadline) {
		return r.Deadline
	}
	return until
}

// uncleared has a group tested again whose pass rests on results that no longer
// hold: of the attempts that they told of more has come, and it blocks. It has
// lost its proof; what has landed has landed.
func (d *decision) uncleared(g *Group, r *Run) bool {
	if g.Part != nil { // lands nothing
		return false
	}
	for _, check := range r.Cleared {
		if r.Excuse(Required{Name: check}) == ExcuseRefused {
			d.restart(g, ProofLost, fmt.Sprintf("More test results came after the check had been passed by quarantine. %s",
				r.unexcusedText(check)), Actor{})
			return true
		}
	}
	return false
}
