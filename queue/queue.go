package queue

import "time"

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
	Landed  []Landed
	Landing *Landing // the one landing in flight
	// GivenUp are the newest steps that landings ended without.
	GivenUp    []GivenUp
	Bisections []Bisection // under way, oldest first
	Bisected   int64       // bisections begun so far

	Runs       int64     // runs made so far; the next run's id comes from it
	Stamp      int64     // of the newest run: see Step.Stamp
	Groups     int64     // groups made so far
	Landings   int64     // landings begun so far
	ResyncDue  time.Time // when to read the host again; zero = nothing waits
	ResyncRuns int64     // resyncs asked for so far
	CreatedAt  time.Time

	// Turn is the store's own: it grows with every decision that is saved, so
	// that of two readings with the same turn nothing in between has changed.
	Turn int64

	Preflight Preflight // what is known of its set-up on the host
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
	Tree       string  `json:"tree"` // "" = the host merged it late, and nobody saw it land
	// Hedged: who landed it knew hedges, see sawLandings.
	Hedged bool `json:"hedged,omitempty"`
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
	// Blind is since when nobody could look at the target to see what has landed: the
	// host says that it does not exist, or does not let us; zero while somebody can.
	Blind time.Time `json:"blind,omitzero"`
	Land  Land      `json:"land"` // what was asked for, kept so that asking again asks the same
	// Ended is how it went, until it is decided on.
	Ended *LandingEnded `json:"ended,omitempty"`
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
