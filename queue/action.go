package queue

import "time"

// Action is something to be done to the world after the plan that holds it
// was saved. Each is idempotent: doing it twice, or not knowing whether it
// was done, is dull. The result comes back as a fact.
type Action interface {
	// Kind is the name of the job that performs it.
	Kind() string
}

// BuildRuns makes test branches and publishes them with one push. The runs
// are in line order: one may begin on the commits of the one before it.
type BuildRuns struct {
	Queue    ID         `json:"queue"`
	Runs     []BuildRun `json:"runs"`
	DraftPRs bool       `json:"draftPrs"` // open a draft pull request for each
	// RequiredStatuses is the queue's own list; when empty the repository is asked.
	RequiredStatuses []string `json:"requiredStatuses"`
}

// BuildRun is one test branch to make.
type BuildRun struct {
	Run    RunID       `json:"run"`
	Branch string      `json:"branch"`
	Target string      `json:"target"` // the branch it will land on
	Method MergeMethod `json:"method"`
	// Base.Commit is where the chain begins; "" = the target's head, which
	// the builder reads. A given base is used as it is, whatever the target's
	// head is by now: whether a run is still current is decided elsewhere.
	Base  Base       `json:"base"`
	Chain []StepSpec `json:"chain"`
	Own   int        `json:"own"` // how many steps at the end are the group's own
	// Hedge: it leaves out one that its group is on top of. That it cannot be built says
	// nothing of the group's other runs.
	Hedge bool `json:"hedge,omitempty"`
}

// StepSpec is a step with what a commit message needs. Steps whose Commit is
// known are on the host or in an earlier run of the same BuildRuns.
type StepSpec struct {
	Step
	Title       string `json:"title"`
	CommitTitle string `json:"commitTitle,omitempty"`
	Author      Actor  `json:"author"`
	URL         string `json:"url"`
	// Stack are the pull requests beneath it that land with it, the lowest
	// first: their heads are in its head.
	Stack []Under `json:"stack,omitempty"`
	On    string  `json:"on,omitempty"` // as Under.On
}

// StopRun takes a run off the host: closes its draft pull request and deletes
// its branch. What it finds gone is fine.
type StopRun struct {
	Queue   ID     `json:"queue"`
	Run     RunID  `json:"run"`
	Branch  string `json:"branch"`
	DraftPR int64  `json:"draftPr,omitempty"`
	Commit  string `json:"commit,omitempty"` // whose CI may be cancelled
	Cancel  bool   `json:"cancel,omitempty"` // CI is still at work for nothing
}

// Land puts steps on the target. It first reads the head of every pull
// request again, then the target, and stops at the first thing that is not as
// stated. A repetition first finds out what an earlier attempt did.
type Land struct {
	Queue   ID          `json:"queue"`
	Landing int64       `json:"landing"`
	Branch  string      `json:"branch"`
	Mode    LandingMode `json:"mode"`
	Method  MergeMethod `json:"method"`
	// Expect is the commit the target must be at.
	Expect string     `json:"expect"`
	Steps  []StepSpec `json:"steps"` // in order, as tested
	// Recompute: other lanes landed since the steps were tested, so their
	// commits and trees do not extend the target. The tree to expect of each
	// is that of the merge computed on the target; one that does not merge
	// is TroubleConflict.
	Recompute bool `json:"recompute,omitempty"`
	// Drafts are the draft pull requests of the runs whose tips become
	// reachable: they are closed first, or the host would call them merged.
	Drafts []int64 `json:"drafts,omitempty"`
	// Forced lists the entries that an administrator forced past the host's rules.
	Forced []EntryID `json:"forced,omitempty"`
}

// SyncPR makes what people see on a pull request (comment, status check,
// labels) tell what is true when it is performed. So one that waits tells of
// all changes up to then, and makes another unnecessary.
type SyncPR struct {
	Queue ID      `json:"queue"`
	Entry EntryID `json:"entry"`
	PR    int64   `json:"pr"`
	// Passing: it is told that something moves on, as it soon will again. That may
	// be told a little later, together with what follows.
	Passing bool `json:"passing,omitempty"`
}

// RefreshPR reads a pull request and its mergeability.
type RefreshPR struct {
	Queue ID    `json:"queue"`
	PR    int64 `json:"pr"`
	Try   int   `json:"try"`
	// Branch is where it is to land: its rules count, whatever its base is.
	Branch string `json:"branch"`
	// Stack are the pull requests beneath it that are to be read too, the
	// lowest first. Each must contain the head of the one before it.
	Stack []int64 `json:"stack,omitempty"`
	// Direct asks also whether the head could land without a run (DirectSeen);
	// RequiredStatuses are what that depends on.
	Direct           bool     `json:"direct,omitempty"`
	RequiredStatuses []string `json:"requiredStatuses,omitempty"`
}

// ReadTarget reads the head of the queue's branch.
type ReadTarget struct {
	Queue   ID     `json:"queue"`
	Branch  string `json:"branch"`
	Version int64  `json:"version"`
}

// ReadChecks reads all reports on a commit.
type ReadChecks struct {
	Queue  ID     `json:"queue"`
	Run    RunID  `json:"run"`
	Commit string `json:"commit"`
}

// Resync reads everything that a queue waits for: the target, its active pull
// requests, and the checks and the branches of its live runs.
type Resync struct {
	Queue   ID      `json:"queue"`
	Resync  int64   `json:"resync"`
	Branch  string  `json:"branch"`
	Version int64   `json:"version"` // of the target
	PRs     []int64 `json:"prs"`     // in tests: read one by one, with their mergeability
	// Commits are those of live runs, and Branches where they stand, for runs
	// old enough that every copy of the host knows the branch.
	Commits  []string          `json:"commits"`
	Branches map[string]string `json:"branches,omitempty"` // name → commit
	// Waiting are pull requests that wait for their turn, with the head that
	// is known: read as one list, and told only when something is different.
	Waiting map[int64]string `json:"waiting,omitempty"`
}

// AnswerCommand checks a command's author, does what was asked if that is
// allowed, and answers. It is made by the router, not by a decision.
type AnswerCommand struct {
	Repo    RepoID       `json:"repo"`
	Command CommandAsked `json:"command"`
}

func (BuildRuns) Kind() string     { return "build_runs" }
func (StopRun) Kind() string       { return "stop_run" }
func (Land) Kind() string          { return "land" }
func (SyncPR) Kind() string        { return "sync_pr" }
func (RefreshPR) Kind() string     { return "refresh_pr" }
func (ReadTarget) Kind() string    { return "read_target" }
func (ReadChecks) Kind() string    { return "read_checks" }
func (Resync) Kind() string        { return "resync" }
func (AnswerCommand) Kind() string { return "answer_command" }

// The limits on waiting for an answer from an action. Each is longer than all
// attempts of its job together, so that asking again means the job is gone.
const (
	buildDeadline   = 10 * time.Minute
	landDeadline    = 10 * time.Minute
	refreshDeadline = 5 * time.Minute
	readDeadline    = 5 * time.Minute
	resyncEvery     = 2 * time.Minute
	branchSettled   = time.Minute // a host may show a new branch late
)

// blindForGood is how long a landing waits for somebody to restore a target that
// does not exist any more, or to let the App look at it again.
const blindForGood = 30 * time.Minute
