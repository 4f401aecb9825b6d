// Package gitprovider says what Signalbox needs of a Git host: four small
// interfaces, named in the queue's verbs, and the kinds of error that decide
// what happens next. Package github implements them for GitHub; the tests and
// the demo use the same implementation against a simulated GitHub.
//
// The interfaces live here and not with one consumer because the engine and
// the command line share them.
//
// # Errors
//
// An error of a method has one of four kinds, found with [KindOf]; whatever
// has none is transient: the caller tries again later, a bounded number of
// times. Status codes and fields decide the kind, never the host's prose.
package gitprovider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/queue"
)

// Reader reads the host. Reads may be answered from a cache that the host
// confirmed as unchanged.
type Reader interface {
	// PullRequest reads a pull request. Its fact has Read set. Gone: there
	// is no such pull request.
	PullRequest(ctx context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, error)
	// Mergeability reads what stands between pull requests and their bases: for
	// each a PullRequestSeen, then a MergeabilitySeen with the host's word and our
	// own reading of its rules; of one that does not exist a RefreshEnded. A host
	// that is still computing answers MergeabilityInProgress without waiting. Many
	// cost few calls.
	Mergeability(ctx context.Context, repo queue.Repo, numbers ...int64) ([]queue.Fact, error)
	// Stack reads the pull requests of a stack, the lowest first: for each a
	// PullRequestSeen, then a MergeabilitySeen that judges it by the rules of
	// the branch on which the stack is to land, wherever its own base is. One
	// that does not contain the head of the one beneath it (Below) is not mergeable.
	Stack(ctx context.Context, repo queue.Repo, branch string, numbers []int64) ([]queue.Fact, error)
	// From reads the open pull requests whose head is that branch of the
	// repository itself: those on which a pull request based on it stands.
	From(ctx context.Context, repo queue.Repo, branch string) ([]queue.PullRequestSeen, error)
	// Direct reads whether a pull request's head contains the head of a
	// branch with every required status passed on it: those named, else the
	// repository's own. Its answer has Target "" where it is not so.
	Direct(ctx context.Context, repo queue.Repo, number int64, branch string, required []string) (queue.DirectSeen, error)
	// Target reads the head of a branch. Gone: there is no such branch.
	Target(ctx context.Context, repo queue.Repo, branch string) (commit, tree string, err error)
	// OpenPullRequests reads the open pull requests into a branch, all pages,
	// each as a list shows it: of two states with the same UpdatedAt it may be
	// the older one.
	OpenPullRequests(ctx context.Context, repo queue.Repo, branch string) ([]queue.PullRequestSeen, error)
	// TestBranches reads where the branches under signalbox/ stand: name → commit.
	TestBranches(ctx context.Context, repo queue.Repo) (map[string]string, error)
	// Checks reads every report on a commit, check runs and statuses, all pages.
	Checks(ctx context.Context, repo queue.Repo, commit string) ([]queue.Report, error)
	// Permission reads what a person may do on the repository, by the user
	// id if the actor has one: a login that has changed hands has no rights.
	Permission(ctx context.Context, repo queue.Repo, who queue.Actor) (Permission, error)
	// Preflight looks at a queue's set-up on the host: at all that would make
	// trouble for every pull request. What it may not read is a finding, and
	// so is an App that is not installed.
	Preflight(ctx context.Context, repo queue.Repo, work queue.RunPreflight) (queue.PreflightSeen, error)
	// Find looks a repository up by name and fills in HostID and
	// Installation. Gone: no such repository, or the App is not installed on it.
	Find(ctx context.Context, host, owner, name string) (queue.Repo, error)
}

// Permission is what a person may do on a repository.
type Permission int

// The permissions, each including those before it.
const (
	NoPermission Permission = iota
	ReadPermission
	WritePermission
	AdminPermission
)

// Builder makes and removes test branches.
type Builder interface {
	// Build makes the branches of a BuildRuns and publishes them with one
	// push. It returns one RunBuilt or RunNotBuilt for each run it knows the
	// outcome of: after a run that cannot be built, those that include it
	// are reported stale. The same input makes the same commits, so a
	// repetition after an unknown outcome finds its branches in place.
	// An error means that nothing is known about any run.
	Build(ctx context.Context, repo queue.Repo, work queue.BuildRuns) ([]queue.Fact, error)
	// Stop removes what Build made for a run. What is gone is fine.
	Stop(ctx context.Context, repo queue.Repo, work queue.StopRun) error
}

// Lander lands.
type Lander interface {
	// Land puts the steps on the target, see queue.Land. A repetition after
	// an unknown outcome reads the target and the pull requests back first
	// and reports what an earlier attempt landed. It also returns the
	// states of pull requests that it read and that differ from what was
	// stated. An error means that nothing is known and it may be repeated.
	//
	// What it tells people on a pull request, it tells in the turn on that.
	Land(ctx context.Context, repo queue.Repo, work queue.Land, turn Turn) (queue.LandingEnded, []queue.PullRequestSeen, error)
}

// Turn calls do while nobody else tells people anything on a pull request, in
// this process or another, and returns what do does. What is told is first
// looked for and then written, and two that look at once both find nothing. Do
// not wait for another turn in do.
type Turn func(ctx context.Context, number int64, do func(context.Context) error) error

// Teller tells people things on a pull request. Everything is level-triggered:
// the argument is what shall be there.
type Teller interface {
	// Tell makes the sticky comment and the status checks of a pull request read
	// so, with one call of the host for all of them. Each is written or not by
	// itself; what became of it, Told says.
	Tell(ctx context.Context, repo queue.Repo, number int64, t Telling) Told
	// Notice adds a comment that carries marker unless one with the same
	// marker is there.
	Notice(ctx context.Context, repo queue.Repo, number int64, marker, body string) error
	// Labels gives a pull request the labels in want that it lacks and takes
	// those in drop from it; others are left alone. Case does not matter.
	Labels(ctx context.Context, repo queue.Repo, number int64, want, drop []string) error
	// React puts a reaction ("+1", "-1", "eyes") on a comment.
	React(ctx context.Context, repo queue.Repo, comment int64, reaction string) error
}

// Telling is what people shall see on a pull request.
type Telling struct {
	Comment  *Sticky // nil: it is left alone
	Statuses []Status
}

// Sticky is the one comment of the App that carries a marker. It is edited, or
// made when there is none.
type Sticky struct {
	ID     int64 // from an earlier telling, or 0
	Marker string
	Body   string
}

// Told is what became of a telling.
type Told struct {
	CommentID int64 // of the sticky comment; 0 if it is not known
	Comment   error
	Statuses  []error // as Telling.Statuses
}

// OwnCheck is the name of the App's own check run for the queue of a branch. It
// is never waited for, even where a rule of the host requires it.
func OwnCheck(branch string) string { return "Signalbox (" + branch + ")" }

// Status is how the App's own check run of a name on a commit shall be.
type Status struct {
	Commit     string
	Name       string
	Status     string // queued, in_progress or completed
	Conclusion string // success, failure, cancelled …; "" unless completed
	Title      string
	Summary    string // Markdown
	URL        string // where its details link leads
	// New: the App has no unfinished check run of that name on the commit, so none
	// is looked for.
	New bool
}

// Host is everything together.
type Host interface {
	Reader
	Builder
	Lander
	Teller
}

// Kind sorts errors by what is to be done about them.
type Kind string

// The kinds of error.
const (
	Transient Kind = "transient" // unknown; try again later
	Conflict  Kind = "conflict"  // the change's own fault
	Stale     Kind = "stale"     // the world moved: decide again
	Denied    Kind = "denied"    // an operator must act; the message names what is missing
	Gone      Kind = "gone"      // it does not exist
)

// Error is an error with a kind. Message is for people and says what to do.
type Error struct {
	Kind    Kind
	Message string
	Err     error // the cause; may be nil
	// After, if not zero, is when it may work: the host's limit is reached
	// until then. Whatever nobody waits for is put off, not tried in vain.
	After time.Time
}

// Error is the message, and the cause after it.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of an error, Transient when nobody gave it one.
func KindOf(err error) Kind {
	var known *Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return Transient
}
