package queue

import "strings"

// Reason says why an entry moved. The value is what users, the API and the
// database see; it never changes its meaning. Some values name both a
// submission and a cancellation: the move tells which.
type Reason string

// Why an entry was submitted.
const (
	SubmittedByUser  Reason = "USER_REQUESTED"
	SubmittedByAPI   Reason = "API_REQUESTED"
	SubmittedByAdmin Reason = "ADMIN_REQUESTED"
)

// Why an entry is (again) pending.
const (
	NowReady                 Reason = "NOW_READY"
	TestsRestartedByUser     Reason = "TESTS_RESTARTED_BY_USER"
	TestsRestartedByAPI      Reason = "TESTS_RESTARTED_BY_API"
	SkipTheLineInterrupted   Reason = "SKIP_THE_LINE_INTERRUPTED"
	ManualPushToTargetBranch Reason = "MANUAL_PUSH_TO_TARGET_BRANCH"
	PrerequisiteCancelled    Reason = "PREREQUISITE_CANCELLED"
	PrerequisiteFailed       Reason = "PREREQUISITE_FAILED"
	PrerequisiteMergedByHand Reason = "PREREQUISITE_MERGED_BY_HAND"
	GroupChanged             Reason = "GROUP_CHANGED"
	BisectionRequired        Reason = "BISECTION_REQUIRED"
	BisectionPassed          Reason = "BISECTION_PASSED"
	ChecksInterrupted        Reason = "CHECKS_INTERRUPTED"
	LandingConflict          Reason = "LANDING_CONFLICT"
	ProofLost                Reason = "PROOF_LOST"
)

// Why an entry is being tested, and why it passed.
const (
	TestRunStarted         Reason = "TEST_RUN_STARTED"
	TestRunPassed          Reason = "TEST_RUN_PASSED"
	SuccessorTestRunPassed Reason = "SUCCESSOR_TEST_RUN_PASSED"
)

// Why an entry failed.
const (
	MergeConflict         Reason = "MERGE_CONFLICT"
	ConfigInvalid         Reason = "CONFIG_INVALID"
	NoRequiredStatuses    Reason = "NO_REQUIRED_STATUSES"
	StartRetriesExhausted Reason = "START_RETRIES_EXHAUSTED"
	TestBranchRefused     Reason = "TEST_BRANCH_REFUSED"
	DraftPRsNotAllowed    Reason = "DRAFT_PRS_NOT_ALLOWED"
	RequiredStatusFailed  Reason = "REQUIRED_STATUS_FAILED"
	TestRunTimeout        Reason = "TEST_RUN_TIMEOUT"
	ChecksNeverStarted    Reason = "CHECKS_NEVER_STARTED"
	FailedByOptimization  Reason = "FAILED_BY_OPTIMIZATION"
	LandingRefused        Reason = "LANDING_REFUSED"
)

// Why an entry was cancelled.
const (
	CancelledByUser     Reason = "USER_REQUESTED"
	CancelledByAPI      Reason = "API_REQUESTED"
	CancelledByAdmin    Reason = "ADMIN_REQUESTED"
	PRClosed            Reason = "PR_CLOSED"
	PRPushedTo          Reason = "PR_PUSHED_TO"
	PRBaseBranchChanged Reason = "PR_BASE_BRANCH_CHANGED"
	PRConvertedToDraft  Reason = "PR_CONVERTED_TO_DRAFT"
	NotReadyTimeout     Reason = "NOT_READY_TIMEOUT"
	RepositoryRemoved   Reason = "REPOSITORY_REMOVED"
	StackMemberChanged  Reason = "STACK_MEMBER_CHANGED"
)

// Why an entry is merged.
const (
	MergedByQueue      Reason = "MERGED_BY_QUEUE"
	DirectMerge        Reason = "DIRECT_MERGE"
	MergedByHand       Reason = "MERGED_BY_HAND"
	LandedTreeMismatch Reason = "LANDED_TREE_MISMATCH"
	LandedLate         Reason = "LANDED_LATE"
)

// HelpPath is the path, on our pages, of what the documents say about a code:
// a [Reason], or an error of the API. Messages link to it for ever.
func HelpPath(code string) string { return "/docs/troubleshooting#" + strings.ToLower(code) }

// Via is the way by which a person's or a program's wish reached us. It
// decides which of the three request reasons a move carries.
type Via string

// The ways in.
const (
	ViaUser  Via = "user"  // a comment, a checkbox, a label or the dashboard
	ViaAPI   Via = "api"   // the /v1 interface
	ViaAdmin Via = "admin" // an administrator of this installation
)

// requested is the reason for a submission or a cancellation asked for this way.
func (v Via) requested() Reason {
	switch v {
	case ViaAPI:
		return SubmittedByAPI
	case ViaAdmin:
		return SubmittedByAdmin
	default:
		return SubmittedByUser
	}
}

// restart is the reason for a restart asked for this way.
func (v Via) restart() Reason {
	if v == ViaAPI {
		return TestsRestartedByAPI
	}
	return TestsRestartedByUser
}

// by says who asked and how, to end a sentence with. An API token is nobody
// that could be mentioned.
func (v Via) by(a Actor) string {
	switch {
	case a.Login != "":
		return "by " + a.String()
	case v == ViaAPI:
		return "through the API"
	case v == ViaAdmin:
		return "by an administrator of this installation"
	default:
		return "by " + a.String()
	}
}

// Actor is who did something. Rights follow ID, never the login, because a
// login can pass to somebody else. The zero Actor is Signalbox itself.
type Actor struct {
	Login string `json:"login,omitempty"`
	ID    int64  `json:"id,omitempty"`  // the host's numeric user id; 0 when there is none
	Bot   bool   `json:"bot,omitempty"` // the host says it is an App or a bot account
}

// String is the actor as people write it.
func (a Actor) String() string {
	if a.Login == "" {
		return "Signalbox"
	}
	return "@" + a.Login
}
