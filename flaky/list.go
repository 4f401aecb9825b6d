package flaky

import "time"

// Show says which tests of a repository a list has.
type Show string

// What lists show.
const (
	// ShowNotable are the tests that somebody should know of: those that are
	// not healthy, are suspected or quarantined, and those about which a
	// person decided.
	ShowNotable     Show = "notable"
	ShowFlaky       Show = "flaky"
	ShowBroken      Show = "broken"
	ShowSuspected   Show = "suspected"
	ShowQuarantined Show = "quarantined"
	ShowDecided     Show = "decided" // a person set ALWAYS or NEVER
	ShowAll         Show = "all"
)

// Shows are all of them, in the order in which people read them.
var Shows = []Show{ShowNotable, ShowFlaky, ShowBroken, ShowSuspected, ShowQuarantined, ShowDecided, ShowAll}

// Filter is which tests of a repository are listed, and from where on.
type Filter struct {
	Show  Show
	Text  string // a part of the name, file, class or suite, in any case; "" = any
	Owner string // one of the code owners; "" = any
	// After is the last test that the reader has seen; zero begins with the
	// first one.
	After Mark
}

// Selection is which tests of a repository a list has that is read in numbered
// pages.
type Selection struct {
	Show Show
	// FailedFrom and FailedTo: only tests that failed in a run that counts, at
	// or after the one and before the other. Both or none are set.
	FailedFrom, FailedTo time.Time
}

// Mark is a place in a list of tests, which begins with the test whose state
// changed last. What changes while somebody reads the list moves to its
// beginning: they meet nothing twice and miss nothing that was there.
type Mark struct {
	At     time.Time // when the test's state changed
	Number int64     // of the test
}

// MarkOf is the place of a test.
func MarkOf(t *TestCase) Mark { return Mark{t.StatusAt, t.Number} }

// Counts are how many tests of a repository each list has but that of all, and
// how quarantine is set there.
type Counts struct {
	Notable, Flaky, Broken, Suspected, Quarantined, Decided int
	Automatic                                               bool
	// LastUpload is when the newest report came; zero is never.
	LastUpload time.Time
}

// Of is how many tests a list has. known is false for that of all, which
// nobody counts.
func (c Counts) Of(s Show) (n int, known bool) {
	n, known = map[Show]int{
		ShowNotable: c.Notable, ShowFlaky: c.Flaky, ShowBroken: c.Broken, ShowSuspected: c.Suspected,
		ShowQuarantined: c.Quarantined, ShowDecided: c.Decided,
	}[s]
	return n, known
}

// DayTally is how often a test ran and failed on one day, UTC.
type DayTally struct {
	Day time.Time
	Tally
}

// FailureKind is one way in which a test fails: all failures with one
// fingerprint.
type FailureKind struct {
	Fingerprint Fingerprint
	Common
	// Known: evidence has shown it to be flakiness, so that automatic
	// quarantine excuses it.
	Known bool
}

// Occurrence is one failure of a test, with what is known of the run.
type Occurrence struct {
	Failure
	Summary            string
	Fingerprint        Fingerprint
	Upload             int64
	At                 time.Time
	Passed             bool // when it was tried again
	Ambiguous, Excused bool
	Code               QuarantineCode
	// What follows is forgotten earlier than the failure, and then empty.
	Kind         Kind
	Branch       string
	Commit       string
	PullRequests []int
	Check, Link  string
}
