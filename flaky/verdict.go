package flaky

import (
	"fmt"
	"slices"
	"strings"
)

// Failing is a test whose last attempt failed, as the verdict sees it.
type Failing struct {
	Name    string
	Excused bool
	Code    QuarantineCode
}

// Job is what a CI job has to show at its end.
type Job struct {
	// ExitCode is how the test command ended; HasExitCode is false where nobody
	// said.
	ExitCode    int
	HasExitCode bool
	Failing     []Failing
	// Problems are what keeps the results from being complete: a report that is
	// cut off, or expected and missing. Empty means complete.
	Problems []string
}

// VerdictCode is the reason for a verdict.
type VerdictCode string

// The reasons for a verdict.
const (
	AllPassed   VerdictCode = "PASSED"
	AllExcused  VerdictCode = "QUARANTINED" // everything that failed is quarantined
	TestsFailed VerdictCode = "FAILED"      // a test failed that is not
	Incomplete  VerdictCode = "INCOMPLETE"  // nobody knows what did not report
	Crashed     VerdictCode = "CRASHED"     // the command was ended before its end
	Unexplained VerdictCode = "UNEXPLAINED" // the command failed and no test did
)

// Verdict is what the job should end with.
type Verdict struct {
	ExitCode int
	Code     VerdictCode
	Text     string // a sentence for the job's log
}

// Green reports whether the job may pass.
func (v Verdict) Green() bool { return v.ExitCode == 0 }

// Exit codes at and above which a command did not end by itself: timeout (124),
// could not be run (125 to 127), ended by a signal (128 and more).
const endedByOthers = 124

// Judge says what a job should end with: 0 if nothing failed, or if everything
// that failed is quarantined and the results are complete; else the code of the
// test command. A failed command is never made green by results that do not
// explain why it failed: a crash leaves the tests that it never reached out of
// the report.
func Judge(j Job) Verdict {
	var blocking []string
	for _, f := range j.Failing {
		if !f.Excused {
			blocking = append(blocking, f.Name)
		}
	}
	original := j.ExitCode
	if !j.HasExitCode {
		original = 0
		if len(blocking) > 0 {
			original = 1
		}
	}
	if len(j.Problems) > 0 { // never green, even where the command itself did not notice
		original = max(original, 1)
	}
	switch {
	case len(blocking) > 0:
		return Verdict{original, TestsFailed, fmt.Sprintf(Worded(len(blocking), "%d {test failed and is|tests failed and are} not quarantined: %s."),
			len(blocking), some(blocking))}
	case len(j.Problems) > 0:
		return Verdict{original, Incomplete, "The results are not complete: " + some(j.Problems) + "."}
	case Crash(original):
		return Verdict{original, Crashed, fmt.Sprintf("The test command was ended from outside (exit code %d), so tests may be missing from the reports.", original)}
	case len(j.Failing) == 0 && original != 0:
		return Verdict{original, Unexplained, fmt.Sprintf("The test command failed (exit code %d) although no test failed.", original)}
	case len(j.Failing) == 0:
		return Verdict{0, AllPassed, "No test failed."}
	}
	return Verdict{0, AllExcused, fmt.Sprintf(Worded(len(j.Failing), "%d {test failed, and it is|tests failed, and all of them are} quarantined."), len(j.Failing))}
}

// shownNames is how many names a sentence lists.
const shownNames = 5

// Crash reports whether an exit code says that a command did not end by itself,
// so that results of its tests may be missing.
func Crash(exitCode int) bool { return exitCode >= endedByOthers || exitCode < 0 }

func some(names []string) string {
	names = slices.Clone(names)
	if more := len(names) - shownNames; more > 0 {
		names = append(names[:shownNames], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
