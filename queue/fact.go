package queue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Fact is something that was learned: from the host, from a person, from a
// program, or from an action that ended. Applying it twice or late changes
// nothing. Facts are plain values that survive a round trip through JSON.
type Fact interface {
	// Kind is the fact's name in storage and logs.
	Kind() string
	// Subject says whom it is about, so that it finds its queues.
	Subject() Subject
}

// Subject routes a fact: to the queues where the pull request has an entry,
// where the commit is a run's or an entry's head, or that stand on the branch
// or have a run on it. Everybody routes to all queues of the repository. Only
// one field is set; none means that whoever appends the fact names the queue.
type Subject struct {
	PR        int64
	Commit    string
	Branch    string
	Everybody bool
}

// PullRequestSeen is the state of a pull request on the host.
type PullRequestSeen struct {
	PullRequest
	// Read says that we asked for it, so that of two states with the same
	// UpdatedAt this one holds. A webhook with the same time as what we know
	// and another content only raises a doubt.
	Read bool `json:"read,omitempty"`
	// Landed is the commit as which our own App merged it; "" = it is not merged, or
	// somebody else did it.
	Landed string `json:"landed,omitempty"`
}

// MergeabilitySeen answers a refresh: what stands between a pull request's
// head and its base, as the host and our reading of the rules have it.
type MergeabilitySeen struct {
	PR    int64        `json:"pr"`
	Head  string       `json:"head"`
	Value Mergeability `json:"value"`
	Why   string       `json:"why,omitempty"` // what is missing, a sentence
	// Below is the head of the pull request beneath it in its stack that it was
	// judged with; "" = it was judged by itself, or is the lowest.
	Below string `json:"below,omitempty"`
}

// DirectSeen says that a pull request's head contains the target's commit and
// that every required status passed on that head. Target "" says it does not.
type DirectSeen struct {
	PR     int64  `json:"pr"`
	Head   string `json:"head"`
	Target string `json:"target"`
}

// PullRequestDoubted says that something which mergeability depends on may
// have changed: a review, a thread, a label, a rule.
type PullRequestDoubted struct {
	PR int64 `json:"pr"`
}

// RefreshEnded is a refresh that could not be made; Gone says that the host
// has no such pull request.
type RefreshEnded struct {
	PR      int64  `json:"pr"`
	Gone    bool   `json:"gone,omitempty"`
	Message string `json:"message,omitempty"`
}

// Submitted is an allowed wish to queue a pull request, with what the host
// said about it at that moment.
type Submitted struct {
	PullRequest PullRequest `json:"pullRequest"`
	// ID becomes the entry's id when the pull request has none in this queue.
	ID            EntryID `json:"id"`
	By            Actor   `json:"by"`
	Via           Via     `json:"via"`
	Priority      int64   `json:"priority"`
	PriorityGiven bool    `json:"priorityGiven,omitempty"`
	NoBatch       bool    `json:"noBatch,omitempty"`
	Force         bool    `json:"force,omitempty"`
	// Stack are the pull requests beneath this one that are to land with it,
	// the lowest first; Title is what the commit shall be called.
	Stack []PullRequest `json:"stack,omitempty"`
	Title string        `json:"title,omitempty"`
	At    time.Time     `json:"at"`
}

// CancelRequested is an allowed wish to take a pull request out.
type CancelRequested struct {
	PR  int64     `json:"pr"`
	By  Actor     `json:"by"`
	Via Via       `json:"via"`
	At  time.Time `json:"at"`
}

// RestartRequested is an allowed wish to test a pull request's group again.
type RestartRequested struct {
	PR  int64     `json:"pr"`
	By  Actor     `json:"by"`
	Via Via       `json:"via"`
	At  time.Time `json:"at"`
}

// ChangeRequested is an allowed wish to change the queue's settings or state.
type ChangeRequested struct {
	Change Change    `json:"change"`
	By     Actor     `json:"by"`
	Via    Via       `json:"via,omitempty"`
	Token  string    `json:"token,omitempty"` // name of the API token, with ViaAPI
	At     time.Time `json:"at"`
}

// TargetMoved is a hint that a branch has a new head, from a push event.
// Before and After are commits; "" stands for "did not exist".
type TargetMoved struct {
	Branch string `json:"branch"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// TargetRead is the head of the queue's branch as read from the host.
type TargetRead struct {
	Commit  string `json:"commit"`
	Tree    string `json:"tree"`
	Missing bool   `json:"missing,omitempty"`
	// Version is Target.Version when the read was asked for: if the target
	// has changed since, the read is repeated.
	Version int64 `json:"version"`
}

// CheckReported is a report of CI on a commit.
type CheckReported struct {
	Commit string `json:"commit"`
	Report
}

// ChecksDoubted says that the checks of a commit may have changed and should
// be read: a suite or a workflow ended.
type ChecksDoubted struct {
	Commit string `json:"commit"`
}

// RunBuilt is a run whose test branch is on the host.
type RunBuilt struct {
	Run            RunID          `json:"run"`
	Base           Base           `json:"base"`  // Commit and Tree; the rest is ours
	Chain          []Step         `json:"chain"` // with Commit and Tree
	Required       []Required     `json:"required"`
	RequiredSource RequiredSource `json:"requiredSource"`
	DraftPR        int64          `json:"draftPr,omitempty"`
	At             time.Time      `json:"at"`
}

// Trouble says why something that was asked of the host did not happen.
type Trouble string

// The kinds of trouble.
const (
	TroubleConflict   Trouble = "conflict"    // a change does not merge, with the target or one ahead of it
	TroubleStale      Trouble = "stale"       // the world moved; decide again
	TroubleConfig     Trouble = "config"      // the configuration file is invalid
	TroubleNoRequired Trouble = "no_required" // nothing is required, so nothing can be proved
	TroubleDraft      Trouble = "draft"       // the host allows no draft pull requests here
	TroubleDenied     Trouble = "denied"      // an operator must act
	TroubleTransient  Trouble = "transient"   // nobody knows; it may work later
)

// RunNotBuilt is a run that could not be built.
type RunNotBuilt struct {
	Run     RunID   `json:"run"`
	Trouble Trouble `json:"trouble"`
	// Entry is whose fault it is, for conflicts and refusals; "" if nobody's.
	Entry EntryID `json:"entry,omitempty"`
	// With is the entry that it conflicts with, "" for the target itself.
	With    EntryID   `json:"with,omitempty"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// same reports whether two ends of a build are one, or both none.
func (f *RunNotBuilt) same(o *RunNotBuilt) bool {
	if f == nil || o == nil {
		return f == o
	}
	return f.Run == o.Run && f.Trouble == o.Trouble && f.Entry == o.Entry && f.With == o.With && f.Message == o.Message && f.At.Equal(o.At)
}

// TestBranchMoved is a push or a deletion on a branch that may be a run's.
type TestBranchMoved struct {
	Branch string `json:"branch"`
	After  string `json:"after"` // "" = deleted
}

// LandedStep is one step of a landing that is on the target.
type LandedStep struct {
	Entry      EntryID `json:"entry"`
	Submission int64   `json:"submission"`
	Commit     string  `json:"commit"`
	Tree       string  `json:"tree"`
	// Differs says in words how the landed tree is not the expected one; "" = equal.
	Differs string `json:"differs,omitempty"`
}

// LandingEnded tells how a landing went: the steps that are on the target, in
// order, and what stopped the rest, if anything did.
type LandingEnded struct {
	Landing int64        `json:"landing"`
	Landed  []LandedStep `json:"landed"`
	// Commit and Tree of the target afterwards; "" when it could not be read.
	Commit  string    `json:"commit"`
	Tree    string    `json:"tree"`
	Missing bool      `json:"missing,omitempty"` // the target does not exist: whether anything landed cannot be seen
	Trouble Trouble   `json:"trouble,omitempty"` // "" = everything landed
	Entry   EntryID   `json:"entry,omitempty"`   // whom the host named
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

// ResyncEnded says that a resync is done, whatever it found.
type ResyncEnded struct {
	Resync int64 `json:"resync"`
}

// TargetsUploaded says that the impacted targets of a pull request's head
// commit are known. The set itself is in storage: the window brings it along.
type TargetsUploaded struct {
	PR   int64  `json:"pr"`
	Head string `json:"head"`
}

// RulesChanged says that required statuses or mergeability may have changed
// for every pull request of the repository.
type RulesChanged struct{}

// RepositoryGone says that the App can no longer work on the repository.
type RepositoryGone struct {
	Message string `json:"message"`
}

// CommandAsked is a command found in a comment or a review, not allowed yet.
// It is answered by a job, which asks the host for the author's right.
type CommandAsked struct {
	PR      int64     `json:"pr"`
	Comment int64     `json:"comment"` // the host's comment id; 0 for a review
	Review  int64     `json:"review,omitempty"`
	By      Actor     `json:"by"`
	At      time.Time `json:"at"`
	Command Command   `json:"command"`
	// Label is the label that was given or taken away, nil for what was
	// written. Whether it asks for anything depends on the queue's settings.
	Label *LabelMoved `json:"label,omitempty"`
}

// LabelMoved is a label that somebody gave to a pull request or took from it.
type LabelMoved struct {
	Name string `json:"name"`
	Gone bool   `json:"gone,omitempty"` // taken away
	Base string `json:"base"`           // branch of the pull request at that moment
}

// Command is one parsed command.
type Command struct {
	// Verb is merge, stack, cancel, restart, status, help or invalid.
	Verb          string `json:"verb"`
	Priority      int64  `json:"priority,omitempty"`
	PriorityGiven bool   `json:"priorityGiven,omitempty"`
	NoBatch       bool   `json:"noBatch,omitempty"`
	Force         bool   `json:"force,omitempty"`
	Title         string `json:"title,omitempty"` // of a stack's commit
	// Problem says what is wrong with an invalid command, a sentence.
	Problem string `json:"problem,omitempty"`
	// Text is the line as written, cut to a sane length, to quote in the reply.
	Text string `json:"text,omitempty"`
}

// The verbs of commands.
const (
	VerbMerge   = "merge"
	VerbStack   = "stack"
	VerbCancel  = "cancel"
	VerbRestart = "restart"
	VerbStatus  = "status"
	VerbHelp    = "help"
	VerbInvalid = "invalid"
)

func (PullRequestSeen) Kind() string    { return "pull_request_seen" }
func (MergeabilitySeen) Kind() string   { return "mergeability_seen" }
func (DirectSeen) Kind() string         { return "direct_seen" }
func (PullRequestDoubted) Kind() string { return "pull_request_doubted" }
func (RefreshEnded) Kind() string       { return "refresh_ended" }
func (Submitted) Kind() string          { return "submitted" }
func (CancelRequested) Kind() string    { return "cancel_requested" }
func (RestartRequested) Kind() string   { return "restart_requested" }
func (ChangeRequested) Kind() string    { return "change_requested" }
func (TargetMoved) Kind() string        { return "target_moved" }
func (TargetRead) Kind() string         { return "target_read" }
func (CheckReported) Kind() string      { return "check_reported" }
func (ChecksDoubted) Kind() string      { return "checks_doubted" }
func (TestResults) Kind() string        { return "test_results" }
func (RunBuilt) Kind() string           { return "run_built" }
func (RunNotBuilt) Kind() string        { return "run_not_built" }
func (TestBranchMoved) Kind() string    { return "test_branch_moved" }
func (LandingEnded) Kind() string       { return "landing_ended" }
func (ResyncEnded) Kind() string        { return "resync_ended" }
func (TargetsUploaded) Kind() string    { return "targets_uploaded" }
func (RulesChanged) Kind() string       { return "rules_changed" }
func (RepositoryGone) Kind() string     { return "repository_gone" }
func (CommandAsked) Kind() string       { return "command_asked" }

func (f PullRequestSeen) Subject() Subject    { return Subject{PR: f.Number} }
func (f MergeabilitySeen) Subject() Subject   { return Subject{PR: f.PR} }
func (f DirectSeen) Subject() Subject         { return Subject{PR: f.PR} }
func (f PullRequestDoubted) Subject() Subject { return Subject{PR: f.PR} }
func (f RefreshEnded) Subject() Subject       { return Subject{PR: f.PR} }
func (f TargetsUploaded) Subject() Subject    { return Subject{PR: f.PR} }
func (f CommandAsked) Subject() Subject       { return Subject{PR: f.PR} }
func (f TargetMoved) Subject() Subject        { return Subject{Branch: f.Branch} }
func (f TestBranchMoved) Subject() Subject    { return Subject{Branch: f.Branch} }
func (f CheckReported) Subject() Subject      { return Subject{Commit: f.Commit} }
func (f ChecksDoubted) Subject() Subject      { return Subject{Commit: f.Commit} }
func (f TestResults) Subject() Subject        { return Subject{Commit: f.Commit} }
func (RulesChanged) Subject() Subject         { return Subject{Everybody: true} }
func (RepositoryGone) Subject() Subject       { return Subject{Everybody: true} }
func (Submitted) Subject() Subject            { return Subject{} }
func (CancelRequested) Subject() Subject      { return Subject{} }
func (RestartRequested) Subject() Subject     { return Subject{} }
func (ChangeRequested) Subject() Subject      { return Subject{} }
func (TargetRead) Subject() Subject           { return Subject{} }
func (RunBuilt) Subject() Subject             { return Subject{} }
func (RunNotBuilt) Subject() Subject          { return Subject{} }
func (LandingEnded) Subject() Subject         { return Subject{} }
func (ResyncEnded) Subject() Subject          { return Subject{} }

// decoders reads a fact of each kind.
var decoders = map[string]func([]byte) (Fact, error){}

func learn[F Fact]() {
	var zero F
	decoders[zero.Kind()] = func(body []byte) (Fact, error) {
		var f F
		err := json.Unmarshal(body, &f)
		return f, err
	}
}

func init() {
	learn[PullRequestSeen]()
	learn[MergeabilitySeen]()
	learn[DirectSeen]()
	learn[PullRequestDoubted]()
	learn[RefreshEnded]()
	learn[Submitted]()
	learn[CancelRequested]()
	learn[RestartRequested]()
	learn[ChangeRequested]()
	learn[TargetMoved]()
	learn[TargetRead]()
	learn[CheckReported]()
	learn[ChecksDoubted]()
	learn[TestResults]()
	learn[RunBuilt]()
	learn[RunNotBuilt]()
	learn[TestBranchMoved]()
	learn[LandingEnded]()
	learn[ResyncEnded]()
	learn[TargetsUploaded]()
	learn[RulesChanged]()
	learn[RepositoryGone]()
	learn[CommandAsked]()
}

// EncodeFact writes a fact's body; its Kind is stored beside it.
func EncodeFact(f Fact) ([]byte, error) { return json.Marshal(f) }

// DecodeFact reads what EncodeFact wrote. It fails on a kind that this
// version does not know.
func DecodeFact(kind string, body []byte) (Fact, error) {
	decode, ok := decoders[kind]
	if !ok {
		return nil, fmt.Errorf("decode fact: kind %q is not known to this version", kind)
	}
	f, err := decode(body)
	if err != nil {
		return nil, fmt.Errorf("decode fact %s: %w", kind, err)
	}
	return f, nil
}

// Received is a fact in a queue's hands, with the number under which its
// sender waits for an answer.
type Received struct {
	ID   int64
	Fact Fact
}

// Answer tells the sender of a wish what became of it.
type Answer struct {
	// Refused is a code in upper snake case, "" when the wish was granted.
	Refused string `json:"refused,omitempty"`
	Message string `json:"message,omitempty"`
}

// The codes of refused wishes.
const (
	RefusedNotSubmitted = "PR_NOT_SUBMITTED"
	RefusedFinal        = "PR_NOT_ACTIVE"
	RefusedLanding      = "PR_IS_LANDING"
	RefusedNotTesting   = "PR_NOT_TESTING"
	RefusedMerged       = "PR_ALREADY_MERGED"
	RefusedClosed       = "PR_CLOSED"
	RefusedSwitching    = "QUEUE_IS_SWITCHING_MODES"
	RefusedInStack      = "PR_IN_STACK"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
