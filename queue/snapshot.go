package queue

import "time"

// Snapshot is a window on a queue: everything that one decision can need and
// no more, so that a decision costs the same however long the queue is. The
// store reads it under the lock of the queue's row:
//
//   - every group of the line and of the bisections, with its members;
//   - the newest run of each group, its hedges, and every live run;
//   - every entry that a waiting fact names (by pull request, by commit) or
//     that a chain of one of those runs includes;
//   - the first free pending entries in order (see Before), as many as the
//     free slots times the batch size, and those they wait for;
//   - while the queue admits, the first not-ready entries whose conditions
//     are met, by submission time, and those whose timeout is due;
//   - every entry whose refresh is due.
//
// The rest is counted.
type Snapshot struct {
	Queue   Queue
	Entries map[EntryID]*Entry
	Groups  map[GroupID]*Group
	Runs    map[RunID]*Run
	// Targets are the sets that the entries of the window name, in parallel
	// mode. A set that is named and not here counts as everything.
	Targets map[TargetsID]TargetSet
	// Recent are the newest endings in an adaptive queue, from which it is
	// estimated who will fail.
	Recent []Ended
	// Predicted are the chances of failing of entries of which somebody knows more
	// than Recent tells. Only simulations fill it in.
	Predicted map[EntryID]float64
	// TestChecks are the names of the checks whose jobs upload test results, where
	// the repository quarantines tests: one that fails may be excused by results
	// that are still on their way. None = no failure waits for results.
	TestChecks []string
	// Line are the groups of the main line in order, Parts those of all
	// bisections, oldest bisection first.
	Line  []GroupID
	Parts []GroupID
	// More says that entries outside the window could move now: wake again at once.
	More bool
	// NextDue is the earliest moment at which an entry outside the window
	// wants attention (a not-ready timeout, a refresh); zero if none.
	NextDue time.Time
	// FreeAhead counts, for entries that were asked for by name, the free
	// pending entries before them in order. Only reads for people fill it in.
	FreeAhead map[EntryID]int64
	// TypicalTest is the median time from start to pass of this queue's recent
	// passed runs; zero = no history. Only reads for people fill it in.
	TypicalTest time.Duration
	// Waiting says that active entries exist, in the window or outside it.
	Waiting bool
}

// Window sizes that the store and the engine agree on.
const (
	// AdmitAtOnce is how many not-ready entries one decision admits.
	AdmitAtOnce = 200
	// RefreshAtOnce is how many entries one decision asks the host about.
	RefreshAtOnce = 100
)

// NewSnapshot is an empty window on q.
func NewSnapshot(q Queue) *Snapshot {
	return &Snapshot{
		Queue:   q,
		Entries: map[EntryID]*Entry{},
		Groups:  map[GroupID]*Group{},
		Runs:    map[RunID]*Run{},
		Targets: map[TargetsID]TargetSet{},
	}
}

// ByPR finds an entry by its pull request, nil if it is not in the window.
func (s *Snapshot) ByPR(number int64) *Entry {
	for _, e := range s.Entries {
		if e.Number == number {
			return e
		}
	}
	return nil
}

// run is the newest run of a group, nil if it has none.
func (s *Snapshot) run(g *Group) *Run {
	if g.Run == "" {
		return nil
	}
	return s.Runs[g.Run]
}

func (s *Snapshot) groups(ids []GroupID) []*Group {
	groups := make([]*Group, len(ids))
	for i, id := range ids {
		groups[i] = s.Groups[id]
	}
	return groups
}

// members returns the entries of a group in order.
func (s *Snapshot) members(g *Group) []*Entry {
	entries := make([]*Entry, len(g.Members))
	for i, id := range g.Members {
		entries[i] = s.Entries[id]
	}
	return entries
}

// Move is one row of the timeline: an entry went from one state to another.
type Move struct {
	Entry      EntryID
	PR         int64
	Submission int64
	From, To   EntryState
	At         time.Time
	Reason     Reason
	Message    string // a sentence a developer understands
	Actor      Actor  // who caused it; zero = Signalbox
	Run        RunID  // the run that it is about; "" if none
}

// Plan is what a decision wants: all of it is saved in one transaction, then
// the actions are performed.
type Plan struct {
	// Queue is the queue's row after the decision.
	Queue Queue
	// Line and Parts are the orders after the decision.
	Line, Parts []GroupID
	// Entries, Groups and Runs are those that changed or are new.
	Entries []Entry
	Groups  []Group
	Runs    []Run
	// Gone are groups that no longer exist.
	Gone  []GroupID
	Moves []Move
	// Receipts are of what was found to have landed.
	Receipts []Receipt
	Actions  []Action
	// Answers go to the senders of wishes, by Received.ID.
	Answers map[int64]Answer
	// Wake is the earliest moment at which time alone would change a
	// decision; zero = none.
	Wake time.Time
}
