package flaky

import (
	"time"

	"github.com/google/uuid"
)

// Facts are what a CI system says about the job in which tests ran. What it
// does not say is "" or 0.
type Facts struct {
	CI      string `json:"ci,omitempty"` // its name, for people
	Host    string `json:"host,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Name    string `json:"name,omitempty"`
	Commit  string `json:"commit,omitempty"` // what is checked out
	Tree    string `json:"tree,omitempty"`   // git's name of the files
	Head    string `json:"head,omitempty"`   // of the pull request, if it is not what is checked out
	Base    string `json:"base,omitempty"`   // what the head was merged into, if it was
	Branch  string `json:"branch,omitempty"` // of a push, or of the pull request
	Pull    int    `json:"pull,omitempty"`
	Target  string `json:"target,omitempty"`  // branch that the pull request is to be merged into
	Job     string `json:"job,omitempty"`     // this job in this run, the same in each attempt
	Attempt int    `json:"attempt,omitempty"` // from 1
	Check   string `json:"check,omitempty"`   // name under which the job reports to the host
	Link    string `json:"link,omitempty"`    // to the job, for people
	Fork    bool   `json:"fork,omitempty"`    // the pull request comes from another repository
}

// Upload is a test report as it was sent.
type Upload struct {
	ID         int64
	Repository int64 // number of the repository
	Org        string
	Repo       string // "host/owner/name", of the identity of its tests
	Received   time.Time
	Sent
}

// Sent is what was sent along with a report.
type Sent struct {
	Facts
	Variant string `json:"variant,omitempty"`
	// Expected is how many reports the job should have; 0 = nobody said.
	Expected int  `json:"expected,omitempty"`
	ExitCode *int `json:"exit_code,omitempty"` // of the test command
	Trusted  bool `json:"trusted,omitempty"`   // it came with a token, and not from a fork
	// Infrastructure: whoever sent it says that the run failed for reasons
	// outside the tests.
	Infrastructure bool `json:"infrastructure,omitempty"`
	Bundle         bool `json:"bundle,omitempty"` // of the analytics CLI
	// ContentType is that of the body: multipart/form-data is several reports,
	// anything else one.
	ContentType string `json:"content_type,omitempty"`
}

// AskedFailure is a failure of which a client asks whether it is excused.
type AskedFailure struct {
	Tests []uuid.UUID // ids that the test may have
	Text  string      // what the report says of it, its message or its body; "" is unknown
}

// Seen is what an upload says of one test.
type Seen struct {
	Test
	ID      uuid.UUID
	Skipped bool // it did not run, or nobody knows how it ended
	Result
	Failure Failure // with Failed: of the last attempt that failed
	Summary string  // of the failure; see Describe
}

// Note is one thing that was wrong with an upload.
type Note struct {
	Code       string `json:"code"`
	Count      int    `json:"count"`
	Text       string `json:"text"` // a sentence for people
	Incomplete bool   `json:"incomplete,omitempty"`
}

// TestCase is a test as it is shown.
type TestCase struct {
	Test
	Number        int64 // the service's own
	ID            uuid.UUID
	Codeowners    []string
	Status        Status
	StatusAt      time.Time
	StatusCode    ReasonCode
	StatusReason  string
	Suspected     bool
	Score         float64
	Override      Override
	TicketID      string    // what its tracker calls the ticket of its repair; "" is none
	Ticket        string    // the ticket's address; "" is none or unknown
	QuarantinedAt time.Time // zero: it is not
	PullRequests  int       // on which it failed in 7 days
}

// Common is one way in which a test fails.
type Common struct {
	Summary string
	Count   int64
	Last    time.Time
}

// TestDetails is a test with what happened to it of late.
type TestDetails struct {
	TestCase
	Failures  []Common // the most frequent of 30 days, at most five
	Week, Day Tally    // of the last 7 days and 24 hours
}

// ReadUpload asks for the reading of an upload that is kept.
type ReadUpload struct {
	Upload int64 `json:"upload"`
}

// Kind names the job.
func (ReadUpload) Kind() string { return "read_test_upload" }

// KeepTests asks for what time does to tests: old results go, the partitions of
// the next days come, quarantines end, tests recover, and renamed ones are found.
type KeepTests struct {
	Hour time.Time `json:"hour"` // for which it was asked, so that it is asked for once
}

// Kind names the job.
func (KeepTests) Kind() string { return "keep_tests" }

// Read is what was read of an upload.
type Read struct {
	Format string
	Tests  []Seen
	// At is when the tests began, as far as the reports say; zero is unknown.
	At    time.Time
	Notes []Note
	// Owners is the CODEOWNERS that came along; "" is none.
	Owners string
	// Bundle is what a bundle says about itself; nil for other uploads, of
	// which all is known when they are sent.
	Bundle *BundleFacts
}

// BundleFacts are what is known of a bundle once it is read.
type BundleFacts struct {
	Sent
	// Reports is a hash of the reports in it, of its job and of the attempt:
	// when a client sends them again, it wraps them anew.
	Reports [32]byte
}

// Complete reports whether nothing is missing.
func (r Read) Complete() bool {
	for _, n := range r.Notes {
		if n.Incomplete {
			return false
		}
	}
	return true
}

// Skipped is how many tests did not run.
func (r Read) Skipped() int {
	n := 0
	for i := range r.Tests {
		if r.Tests[i].Skipped {
			n++
		}
	}
	return n
}

// Proof is evidence as it is shown: with what is known of the two runs.
type Proof struct {
	Evidence
	Summary                    string // how the test failed; "" if that is forgotten
	FailedCommit, PassedCommit string
	FailedLink, PassedLink     string // to the jobs; "" if they said none
}

// Change is one change of a state or of a quarantine.
type Change struct {
	At            time.Time
	What          string // "status" or "quarantine"
	Before, After string
	Code, Reason  string
	Actor         string // "" is the service itself
	Upload        int64  // the run that made the difference; 0 if time or a person did
	Score         float64
}

// UploadDetails is an upload as it is shown.
type UploadDetails struct {
	Upload
	Entered time.Time // zero: it waits to be read, and the rest is not known yet
	Kind    Kind      // what it was found to have tested
	// Complete: nothing is missing, as far as anybody can tell.
	Complete bool
	// How many tests ran, how many of them failed in any attempt, and how many
	// did not run.
	Tests, Failed, Skipped int
	Notes                  []Note
	Failures               []UploadFailure // at most MaxShownFailures
}

// MaxShownFailures bounds how many failures of one upload are shown.
const MaxShownFailures = 10_000

// UploadFailure is a test that failed in an upload, with what was decided about
// the failure when the upload was read.
type UploadFailure struct {
	Test
	ID      uuid.UUID
	Summary string
	Passed  bool // when it was tried again
	Excused bool
	Code    QuarantineCode
}
