package queue

import (
	"slices"
	"time"
)

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
	BoundHead string
	// Stack are the pull requests beneath this one that land with it, the
	// lowest first; none for a pull request by itself. See Layer. The slice is
	// never changed, only replaced.
	Stack []Layer
	// StackTitle is what the commit shall be called that lands the stack; "" =
	// as the top alone would be.
	StackTitle      string
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
	// Returned orders entries that came back from a bisection or a probation:
	// before all others but urgent ones; 0 = it did not.
	Returned int64

	VerifiedBy   RunID  // the run that proves it, once passed
	LandedCommit string // once merged

	// Version grows with every change that people see, each of which has them
	// told: telling of an older version is of no use.
	Version int64
}

// same reports whether nothing of two entries differs. Every decision asks it of
// every entry of its window, so it is written out; a test holds it to the fields.
func (e *Entry) same(o *Entry) bool {
	return e.ID == o.ID && e.Submission == o.Submission && e.State == o.State && e.Reason == o.Reason && e.Message == o.Message &&
		e.BoundHead == o.BoundHead && e.PullRequest.same(&o.PullRequest) &&
		e.Mergeability == o.Mergeability && e.MergeabilityWhy == o.MergeabilityWhy && e.MergeabilityFor == o.MergeabilityFor &&
		e.Doubted == o.Doubted && e.RefreshAsked.Equal(o.RefreshAsked) && e.RefreshAfter.Equal(o.RefreshAfter) && e.RefreshTries == o.RefreshTries &&
		e.SubmittedBy == o.SubmittedBy && e.Via == o.Via && e.Priority == o.Priority && e.PriorityGiven == o.PriorityGiven &&
		e.NoBatch == o.NoBatch && e.Forced == o.Forced &&
		e.SubmittedAt.Equal(o.SubmittedAt) && e.AdmittedAt.Equal(o.AdmittedAt) && e.StateChangedAt.Equal(o.StateChangedAt) &&
		e.Group == o.Group && e.Cancel.same(o.Cancel) && e.Restart.same(o.Restart) && e.Removed == o.Removed &&
		e.ConflictsWith == o.ConflictsWith && e.Direct == o.Direct && e.Alone == o.Alone &&
		e.Targets == o.Targets && e.BoundTargets == o.BoundTargets && e.Returned == o.Returned &&
		slices.EqualFunc(e.Stack, o.Stack, Layer.same) && e.StackTitle == o.StackTitle &&
		e.VerifiedBy == o.VerifiedBy && e.LandedCommit == o.LandedCommit && e.Version == o.Version
}

// Wish is something a person or a program asked for.
type Wish struct {
	By  Actor     `json:"by"`
	Via Via       `json:"via"`
	At  time.Time `json:"at"`
}

// same reports whether two wishes are one, or both none.
func (w *Wish) same(o *Wish) bool {
	if w == nil || o == nil {
		return w == o
	}
	return w.By == o.By && w.Via == o.Via && w.At.Equal(o.At)
}

// Active reports whether the present submission has not ended.
func (e *Entry) Active() bool { return e.State != Never && !e.State.Final() }

// Free reports whether a pending entry is in no group.
func (e *Entry) Free() bool { return e.State == Pending && e.Group == 0 }
