package queue

// EntryState is where one submission of a pull request stands. The values are
// the wire values of the API and of the database.
type EntryState string

// The states of an entry, in the order in which an untroubled submission
// passes through them, then the endings.
const (
	NotReady       EntryState = "not_ready"       // submitted; a condition for testing is not met yet
	Pending        EntryState = "pending"         // admitted; waits for a slot or for its group to be retested
	Testing        EntryState = "testing"         // its group has a built test branch and CI is at work
	TestsPassed    EntryState = "tests_passed"    // tested; waits to land
	PendingFailure EntryState = "pending_failure" // its run failed; whose fault it is, is not certain yet
	Merged         EntryState = "merged"          // on the target branch
	Failed         EntryState = "failed"          // left because of its own fault or its set-up's
	Cancelled      EntryState = "cancelled"       // left because somebody wanted it or the pull request changed
)

// EntryStates lists every state, for validation and for documentation.
var EntryStates = []EntryState{NotReady, Pending, Testing, TestsPassed, PendingFailure, Merged, Failed, Cancelled}

// Final reports whether a submission in this state has ended.
func (s EntryState) Final() bool { return s == Merged || s == Failed || s == Cancelled }

// Valid reports whether s is one of the eight states.
func (s EntryState) Valid() bool {
	for _, known := range EntryStates {
		if s == known {
			return true
		}
	}
	return false
}

// Transition is one legal move of an entry. Never is the state before the
// first submission.
type Transition struct {
	From, To EntryState
	Reasons  []Reason // the only reasons with which this move is made
}

// Never is the state of a pull request that was never submitted.
const Never EntryState = ""

// Transitions is the whole state machine. Nothing else moves: the engine
// refuses a move that has no row here, the database repeats it, and the
// diagram in the documents is drawn from it.
var Transitions = []Transition{
	{Never, NotReady, submitted},
	{Merged, NotReady, submitted},
	{Failed, NotReady, submitted},
	{Cancelled, NotReady, submitted},

	{NotReady, Pending, []Reason{NowReady}},
	{NotReady, Cancelled, []Reason{CancelledByUser, CancelledByAPI, CancelledByAdmin, PRClosed, NotReadyTimeout, RepositoryRemoved, StackMemberChanged}},
	{NotReady, Merged, []Reason{MergedByHand, LandedLate}},

	{Pending, Testing, []Reason{TestRunStarted}},
	{Pending, Merged, []Reason{DirectMerge, MergedByHand, LandedTreeMismatch, LandedLate}},
	{Pending, Cancelled, left},
	{Pending, Failed, []Reason{MergeConflict, ConfigInvalid, NoRequiredStatuses, StartRetriesExhausted, TestBranchRefused, DraftPRsNotAllowed, FailedByOptimization, LandingRefused}},

	{Testing, Pending, restarted},
	{Testing, TestsPassed, []Reason{TestRunPassed, SuccessorTestRunPassed}},
	{Testing, PendingFailure, []Reason{RequiredStatusFailed, TestRunTimeout, ChecksNeverStarted}},
	{Testing, Cancelled, left},
	{Testing, Failed, []Reason{FailedByOptimization}},
	{Testing, Merged, []Reason{MergedByHand, LandedLate}},

	{PendingFailure, Pending, restarted},
	{PendingFailure, TestsPassed, []Reason{SuccessorTestRunPassed}},
	{PendingFailure, Failed, []Reason{RequiredStatusFailed, TestRunTimeout, ChecksNeverStarted, FailedByOptimization}},
	{PendingFailure, Cancelled, left},
	{PendingFailure, Merged, []Reason{MergedByHand, LandedLate}},

	{TestsPassed, Merged, []Reason{MergedByQueue, MergedByHand, LandedTreeMismatch, LandedLate}},
	{TestsPassed, Pending, append([]Reason{LandingConflict, ProofLost}, restarted...)},
	{TestsPassed, Failed, []Reason{LandingRefused}},
	{TestsPassed, Cancelled, left},

	{Failed, Merged, []Reason{LandedLate}},
	{Cancelled, Merged, []Reason{LandedLate}},
}

var (
	submitted = []Reason{SubmittedByUser, SubmittedByAPI, SubmittedByAdmin}
	left      = []Reason{CancelledByUser, CancelledByAPI, CancelledByAdmin, PRClosed, PRPushedTo,
		PRBaseBranchChanged, PRConvertedToDraft, RepositoryRemoved, StackMemberChanged}
	restarted = []Reason{TestsRestartedByUser, TestsRestartedByAPI, SkipTheLineInterrupted,
		ManualPushToTargetBranch, PrerequisiteCancelled, PrerequisiteFailed, PrerequisiteMergedByHand,
		GroupChanged, BisectionRequired, BisectionPassed, ChecksInterrupted}
)

// Legal reports whether the table has this move with this reason.
func Legal(from, to EntryState, why Reason) bool {
	for _, t := range Transitions {
		if t.From != from || t.To != to {
			continue
		}
		for _, r := range t.Reasons {
			if r == why {
				return true
			}
		}
	}
	return false
}

// State is what a queue does with its entries. See the table in the package
// comment for what each state admits, starts and lands.
type State string

// The states of a queue.
const (
	Running        State = "running"
	Paused         State = "paused"
	Draining       State = "draining"
	SwitchingModes State = "switching_modes"
)

// States lists the states of a queue.
var States = []State{Running, Paused, Draining, SwitchingModes}

// Admits reports whether not-ready entries may become pending.
func (s State) Admits() bool { return s == Running }

// Lands reports whether a landing may begin.
func (s State) Lands() bool { return s != Paused }

// StartsNew reports whether new groups may be formed.
func (s State) StartsNew() bool { return s == Running || s == Draining }

// Retests reports whether groups that exist may get a new run.
func (s State) Retests() bool { return s != Paused }
