package queue

import "time"

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
