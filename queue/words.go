package queue

import (
	"slices"
	"time"
)

// The keys of the things a queue is made of.
type (
	// RepoID is our own number of a repository; it survives renames.
	RepoID int64
	// ID is our own number of a queue.
	ID int64
	// EntryID is a UUID: one for each pull request in each queue, for ever.
	EntryID string
	// GroupID counts the groups of one queue.
	GroupID int64
	// RunID is the test run id of the API and the last part of a test branch's name.
	RunID string
	// TargetsID numbers uploaded sets of impacted targets; a set never changes.
	TargetsID int64
)

// Repo names a repository on its host.
type Repo struct {
	ID           RepoID `json:"id"`
	Host         string `json:"host"` // "github.com"
	Owner        string `json:"owner"`
	Name         string `json:"name"`
	HostID       int64  `json:"hostId"`       // the host's number of it; 0 until the App is installed there
	Installation int64  `json:"installation"` // the App installation that serves it; 0 until installed
}

// String is host/owner/name, as messages name a repository.
func (r Repo) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// Queue is one target branch with its settings and everything that the engine
// remembers between decisions apart from its entries, groups and runs.
type Queue struct {
	ID     ID
	Key    string // a random UUID, the name space of this queue's run ids
	Repo   Repo
	Branch string
	State  State
	// StateWhy is the sentence shown with a state that nobody asked for, such
	// as a queue that paused itself; "" otherwise.
	StateWhy string
	Settings
	// WantedMode is the mode that a switch will end in, "" when none is under
	// way. It is kept beside State so that pausing does not forget it.
	WantedMode Mode

	Target Target
	// Landed are the steps that this queue put on the target, oldest first,
	// as far back as the oldest chain in the window began.
	Landed     []Landed
	Landing    *Landing    // the one landing in flight
	Bisections []Bisection // under way, oldest first
	Bisected   int64       // bisections begun so far

	Runs       int64     // runs made so far; the next run's id comes from it
	Groups     int64     // groups made so far
	Landings   int64     // landings begun so far
	ResyncDue  time.Time // when to read the host again; zero = nothing waits
	ResyncRuns int64     // resyncs asked for so far
	CreatedAt  time.Time
}

// Target is what we know of the head of the queue's branch.
type Target struct {
	Commit string
	Tree   string
	// Version grows with every change that we learn of. A read of the host
	// carries the version that it was asked at, so that a late one loses.
	Version int64
	// Epoch grows when the target moves by anything but this queue's landing.
	// A chain belongs to the epoch it began in.
	Epoch int64
	// Doubted says that something hinted at a move we do not know: the host
	// must be read before it is believed or dismissed.
	Doubted bool
	// Hints are the unknown heads that raised the doubt: a landing in flight
	// may explain them.
	Hints []string
	// ReadAsked is when the read that is under way was asked for, zero if none.
	ReadAsked time.Time
	// Missing says that the branch does not exist on the host.
	Missing bool
}

// Landed is one step that this queue put on its target.
type Landed struct {
	Seq        int64   `json:"seq"` // counts the steps landed by this queue
	Entry      EntryID `json:"entry"`
	Submission int64   `json:"submission"`
	PR         int64   `json:"pr"`
	Commit     string  `json:"commit"`
	Tree       string  `json:"tree"`
}

// LandedSeq is the number of the newest landed step.
func (q *Queue) LandedSeq() int64 {
	if len(q.Landed) == 0 {
		return 0
	}
	return q.Landed[len(q.Landed)-1].Seq
}

// Landing is a landing in flight: begun in one decision, ended by the fact
// that tells how it went.
type Landing struct {
	ID      int64     `json:"id"`
	Groups  []GroupID `json:"groups"` // in line order
	Attempt int       `json:"attempt"`
	Asked   time.Time `json:"asked"` // of this attempt
	// Retry is when an attempt that ended without an answer may be repeated; zero while one is under way.
	Retry time.Time `json:"retry,omitzero"`
	Land  Land      `json:"land"` // what was asked for, kept so that asking again asks the same
	// Ended is how it went, until it is decided on.
	Ended *LandingEnded `json:"ended,omitempty"`
}

// Mergeability is what the host, and our own reading of its rules, say about a
// pull request's head.
type Mergeability string

// The values, as the API shows them.
const (
	MergeabilityUnspecified Mergeability = "unspecified" // nobody has asked yet
	MergeabilityInProgress  Mergeability = "in_progress" // the host is still computing, or says something we do not know
	Mergeable               Mergeability = "mergeable"
	NotMergeable            Mergeability = "not_mergeable"
)

// PullRequest is what the host says about a pull request.
type PullRequest struct {
	Number  int64    `json:"number"`
	Title   string   `json:"title"`
	URL     string   `json:"url"`
	Author  Actor    `json:"author"`
	Head    string   `json:"head"`    // commit
	HeadRef string   `json:"headRef"` // branch name, for people only
	Fork    bool     `json:"fork,omitempty"`
	Base    string   `json:"base"` // branch
	Draft   bool     `json:"draft,omitempty"`
	Open    bool     `json:"open"`
	Merged  bool     `json:"merged,omitempty"`
	Labels  []string `json:"labels,omitempty"`
	// CommitTitle is the text of a "merge-commit-title:" line of the body.
	CommitTitle string `json:"commitTitle,omitempty"`
	// UpdatedAt is the host's own time of this state (whole seconds on
	// GitHub): an older one never replaces a newer one.
	UpdatedAt time.Time `json:"updatedAt"`
}

// Entry is one pull request's place in one queue.
type Entry struct {
	ID         EntryID
	Submission int64 // 1 for the first; places, chains and commands are bound to it
	State      EntryState
	Reason     Reason // of the move into State
	Message    string // of the move into State
	PullRequest
	// BoundHead is the commit that this submission tests and lands. While
	// not ready it follows the head; once admitted it stays.
	BoundHead       string
	Mergeability    Mergeability
	MergeabilityWhy string // what is missing, in words
	MergeabilityFor string // the head commit that it was computed for
	// Doubted says that something may have changed on the host since it was read.
	Doubted bool
	// RefreshAsked is when the refresh that is under way was asked for; zero if none.
	RefreshAsked time.Time
	// RefreshAfter is the earliest moment for the next refresh.
	RefreshAfter time.Time
	RefreshTries int // in a row that brought no certain answer

	SubmittedBy    Actor
	Via            Via
	Priority       int64
	PriorityGiven  bool // false: medium because nobody said anything
	NoBatch        bool
	Forced         bool // an administrator said to skip the host's mergeability
	SubmittedAt    time.Time
	AdmittedAt     time.Time // zero while not ready
	StateChangedAt time.Time

	Group GroupID // 0 = in none
	// Cancel and Restart are wishes recorded by Apply and not decided yet.
	Cancel  *Wish
	Restart *Wish
	// Removed says that the repository left us; its text is the message.
	Removed string
	// ConflictsWith is the undecided entry whose end this one waits for,
	// because the two do not merge; "" if none.
	ConflictsWith EntryID
	// Direct is the target's commit that BoundHead contains with all required
	// statuses passed on it, so that it needs no run on that target; "" = none.
	Direct string
	// Alone: tested in a group of its own until it leaves.
	Alone bool
	// Targets names the newest set of impacted targets known for Head, as the
	// store found it; 0 = none. BoundTargets is what counts for the group
	// that the entry is in: the set known when that was formed.
	Targets      TargetsID
	BoundTargets TargetsID
	// Returned orders entries that came back from a bisection: before all
	// others but urgent ones; 0 = it did not.
	Returned int64

	VerifiedBy   RunID  // the run that proves it, once passed
	LandedCommit string // once merged

	Version int64 // grows with every change; late renderings of an older one lose
}

// Wish is something a person or a program asked for.
type Wish struct {
	By  Actor     `json:"by"`
	Via Via       `json:"via"`
	At  time.Time `json:"at"`
}

// Active reports whether the present submission has not ended.
func (e *Entry) Active() bool { return e.State != Never && !e.State.Final() }

// Free reports whether a pending entry is in no group.
func (e *Entry) Free() bool { return e.State == Pending && e.Group == 0 }

// Group is one or more entries tested together, in this order. It exists from
// its forming until its last member leaves or lands.
type Group struct {
	ID      GroupID
	Members []EntryID
	// Part says where in a bisection the group stands; nil for a group of the line.
	Part *Part
	// Run is the newest run of the group; "" when it waits for one.
	Run RunID
	// Interrupted counts the interrupted runs of these very members.
	Interrupted int
	// BuildTries counts builds that ended without an answer, NotBefore is
	// when the next may be asked for.
	BuildTries int
	NotBefore  time.Time
	// Proof is the group whose passed run proves this one too, because it
	// includes it (optimistic merging); 0 = its own run does.
	Proof GroupID
	// LandTries counts landings of this group that the world's changes stopped.
	LandTries int
	// OneByOne: land this group without those behind it, because a joint
	// landing was refused without naming anybody.
	OneByOne bool
	FormedAt time.Time
	// Direct: it lands without a run, see Entry.Direct.
	Direct bool
	// Urgent: formed of an urgent entry, whatever its priority is by now.
	Urgent bool
}

// Part says which bisection a group is a part of. The order of the parts is
// that of Snapshot.Parts.
type Part struct {
	Bisection int64 `json:"bisection"`
}

// Bisection is the search for the culprit of a failed batch. It stands beside
// the line, on the base of the run that failed, and only ever blames.
type Bisection struct {
	ID   int64 `json:"id"` // counts the bisections of one queue
	Base Base  `json:"base"`
	// Steps are the entries in their old order: those of the parts, and
	// those that passed and so stay in the base of later parts.
	Steps []Step `json:"steps"`
	// Failed are the chains on Base that are known to fail.
	Failed [][]Step `json:"failed"`
	// Members are all entries that it began with, in order.
	Members []EntryID `json:"members"`
}

// RunState is where a run stands.
type RunState string

// The states of a run. Building and RunTesting are live.
const (
	Building    RunState = "building"    // asked for; not on the host yet, as far as we know
	RunTesting  RunState = "testing"     // its branch is on the host; CI is at work
	RunPassed   RunState = "passed"      // all required statuses passed
	RunFailed   RunState = "failed"      // a required status failed, or time ran out
	Interrupted RunState = "interrupted" // a required status was cancelled by somebody else
	Stopped     RunState = "stopped"     // what it tested is no longer wanted; later reports mean nothing
)

// Live reports whether the run holds a slot.
func (s RunState) Live() bool { return s == Building || s == RunTesting }

// RunKind says which line a run belongs to.
type RunKind string

// The kinds, as metrics label them.
const (
	MainRun      RunKind = "main"
	BisectionRun RunKind = "bisection"
)

// Step is one entry's change in a chain. Commit and Tree are "" until built;
// with the rebase method Commit is the last of the entry's commits.
type Step struct {
	Entry      EntryID `json:"entry"`
	Submission int64   `json:"submission"`
	PR         int64   `json:"pr"`
	Head       string  `json:"head"`
	Commit     string  `json:"commit,omitempty"`
	Tree       string  `json:"tree,omitempty"`
}

// same reports whether two steps are the same change, built or not.
func (s Step) same(o Step) bool {
	return s.Entry == o.Entry && s.Submission == o.Submission && s.Head == o.Head
}

// Base is where a chain begins.
type Base struct {
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	Epoch  int64  `json:"epoch"` // of the target, when the chain began
	Seq    int64  `json:"seq"`   // LandedSeq of the queue, when the chain began
}

// Run is one test of one group on one predicted base.
type Run struct {
	ID      RunID
	Group   GroupID
	Kind    RunKind
	State   RunState
	Members []EntryID // the group's members when it was built
	Base    Base
	Chain   []Step // the entries ahead, then the group's own
	Branch  string // without refs/heads/
	// Commit and Tree are those of the last step: what CI tests.
	Commit string
	Tree   string

	MergeMethod    MergeMethod
	LandingMode    LandingMode
	Required       []Required
	RequiredSource RequiredSource
	DraftPR        int64 // the pull request opened for it; 0 = none

	Checks map[string]Report // the newest report of each name, by Report.Key

	AskedAt   time.Time // when building was asked for
	StartedAt time.Time // when the branch was on the host
	Deadline  time.Time // of the present state
	EndedAt   time.Time
	// Why is the reason code of a failed, interrupted or stopped run, Message its sentence.
	Why     Reason
	Message string
	// NotBuilt is what a build reported that did not succeed, until it is decided on.
	NotBuilt *RunNotBuilt
	// Spoilt says in words what somebody else did to the test branch; "" = nothing.
	Spoilt string
	// ReadAfter is when to read the commit's checks, because something hinted
	// that reports were missed; zero = no need.
	ReadAfter time.Time
}

// Own are the steps of the group itself.
func (r *Run) Own() []Step { return r.Chain[len(r.Chain)-len(r.Members):] }

// Ahead are the steps of the entries that the run includes but does not test.
func (r *Run) Ahead() []Step { return r.Chain[:len(r.Chain)-len(r.Members)] }

// Includes reports whether the run's chain has that submission of an entry.
func (r *Run) Includes(e *Entry) bool {
	return slices.ContainsFunc(r.Chain, func(s Step) bool {
		return s.Entry == e.ID && s.Submission == e.Submission
	})
}

// Required is one check that must pass on the test commit.
type Required struct {
	Name string `json:"name"`
	// AppID restricts who may report it, as rulesets can; 0 = anybody.
	AppID int64 `json:"appId,omitempty"`
}

// RequiredSource says where the required statuses came from, in the API's words.
type RequiredSource string

// The sources, first one that has any wins.
const (
	FromQueue      RequiredSource = "merge_instance"
	FromConfigFile RequiredSource = "service_config"
	FromProtection RequiredSource = "repo_provider_branch_protection"
)

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
	// AppID is the App that made the check run; 0 for statuses.
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
}

// Key tells apart reports that do not replace each other.
func (r Report) Key() string {
	if r.Kind == CommitStatus {
		return "status\x1f" + r.Name
	}
	return "check\x1f" + r.Name + "\x1f" + itoa(r.AppID)
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
