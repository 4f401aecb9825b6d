package queue

import "time"

// ReportKind tells check runs from commit statuses.
type ReportKind string

// The kinds of report.
const (
	CheckRun     ReportKind = "check_run"
	CommitStatus ReportKind = "status"
)

// Report is what CI said about one name on one commit.
type Report struct {
	Kind ReportKind `json:"kind"`
	Name string     `json:"name"` // check run name or status context
	// AppID is the App that made the check run or the status; 0 for a status
	// by a person.
	AppID int64 `json:"appId,omitempty"`
	// Suite groups check runs for the testing details; 0 for statuses.
	Suite int64 `json:"suite,omitempty"`
	// ID is the host's number of the report. Of two reports with one time the
	// higher is newer: a rerun makes a new check run.
	ID int64 `json:"id"`
	// Status is queued, in_progress, completed … for check runs, "" for statuses.
	Status string `json:"status,omitempty"`
	// Result is the conclusion of a check run or the state of a status, in
	// lower case; "" while there is none.
	Result string    `json:"result,omitempty"`
	URL    string    `json:"url,omitempty"`
	At     time.Time `json:"at"` // the host's time of this report
	// Earlier is how many others have told of the same name on the same commit
	// and ended, as far as we heard. A run counts it; in a fact it means nothing.
	Earlier int64 `json:"earlier,omitempty"`
}

// Key tells apart reports that do not replace each other.
func (r Report) Key() string {
	if r.Kind == CommitStatus {
		return "status\x1f" + r.Name
	}
	return "check\x1f" + r.Name + "\x1f" + itoa(r.AppID)
}

// same reports whether two reports are equal.
func (r Report) same(o Report) bool {
	at := r.At.Equal(o.At)
	r.At, o.At = time.Time{}, time.Time{}
	return at && r == o
}

// replaces reports whether r is about another attempt than old, which it is
// newer than: a rerun is a new check run. A status has a new number each time it
// changes; there an attempt has ended when it says so.
func (r Report) replaces(old Report) bool {
	return r.ID != old.ID && (r.Kind != CommitStatus || old.Outcome() != VerdictWaiting)
}

// Newer reports whether r replaces old. A completed report of one check run
// replaces an unfinished one even when the host's clock says nothing.
func (r Report) Newer(old Report) bool {
	if r.ID != old.ID {
		return r.ID > old.ID
	}
	if !r.At.Equal(old.At) {
		return r.At.After(old.At)
	}
	return r.Result != "" && old.Result == ""
}
