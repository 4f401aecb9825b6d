package queue

import (
	"maps"
	"slices"
	"time"
)

// Group is one or more entries tested together, in this order. It exists from
// its forming until its last member leaves or lands.
type Group struct {
	ID GroupID
	// Members are never changed, only replaced.
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
	// Probation says whether it is tested out of everybody's base.
	Probation Probation
	// Confirming: it has failed, and is tested once more, alone, so that the result counts.
	Confirming bool
}

// same reports whether nothing of two groups differs: see Entry.same.
func (g *Group) same(o *Group) bool {
	return g.ID == o.ID && oneList(g.Members, o.Members) && (g.Part == o.Part || g.Part != nil && o.Part != nil && *g.Part == *o.Part) &&
		g.Run == o.Run && g.Interrupted == o.Interrupted && g.BuildTries == o.BuildTries && g.NotBefore.Equal(o.NotBefore) &&
		g.Proof == o.Proof && g.LandTries == o.LandTries && g.OneByOne == o.OneByOne && g.FormedAt.Equal(o.FormedAt) &&
		g.Direct == o.Direct && g.Urgent == o.Urgent && g.Probation == o.Probation && g.Confirming == o.Confirming
}

// oneList reports whether two lists that are never changed, only replaced, are one or
// say the same.
func oneList[T comparable](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// Part says which bisection a group is a part of. The order of the parts is
// that of Snapshot.Parts.
type Part struct {
	Bisection int64 `json:"bisection"`
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
	// Stamp is the committer's time of the commit at the earliest, in Unix
	// seconds; another for each run. Without it the second run of one tree
	// would be the commit of the first, and what CI said of that would count
	// for both. 0 = none: the step is only ahead of what a run tests.
	Stamp int64 `json:"stamp,omitempty"`
	// Targets is the set of impacted targets that counted for the entry when the
	// run was asked for; 0 = none was known.
	Targets TargetsID `json:"targets,omitempty"`
}

// same reports whether two steps are the same change, built or not.
func (s *Step) same(o *Step) bool {
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
	Chain   []Step // the entries ahead, then the group's own; never changed, only replaced
	// Narrow: what it is tested on top of is tested with more, that the group itself
	// does not overlap, or something landed that it would have to be tested with. When it passes it proves nobody else, and its failure proves
	// nothing: see confirm.
	Narrow bool
	// Hedge is the entry that it leaves out although that is ahead, for the case that it
	// fails: such a run is not that of its group, until the group takes it over. "" for
	// any other.
	Hedge  EntryID
	Branch string // without refs/heads/
	// Commit and Tree are those of the last step: what CI tests.
	Commit string
	Tree   string

	MergeMethod    MergeMethod
	LandingMode    LandingMode
	Required       []Required
	RequiredSource RequiredSource
	DraftPR        int64 // the pull request opened for it; 0 = none

	// Checks has the newest report of each name, by Report.Key. The map is never
	// changed, only replaced.
	Checks map[string]Report
	// Results are the test results of the commit, by upload. The slice is never
	// changed, only replaced.
	Results []TestResults
	// Crowded: there were more of them than are kept, so that they prove nothing.
	Crowded bool
	// Cleared are the required statuses that failed and were passed by
	// quarantine when the run passed.
	Cleared []string

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

// same reports whether nothing of two runs differs: see Entry.same.
func (r *Run) same(o *Run) bool {
	return r.ID == o.ID && r.Group == o.Group && r.Kind == o.Kind && r.State == o.State &&
		oneList(r.Members, o.Members) && r.Base == o.Base && oneList(r.Chain, o.Chain) && r.Narrow == o.Narrow && r.Hedge == o.Hedge && r.Branch == o.Branch &&
		r.Commit == o.Commit && r.Tree == o.Tree && r.MergeMethod == o.MergeMethod && r.LandingMode == o.LandingMode &&
		oneList(r.Required, o.Required) && r.RequiredSource == o.RequiredSource && r.DraftPR == o.DraftPR &&
		maps.EqualFunc(r.Checks, o.Checks, Report.same) && slices.EqualFunc(r.Results, o.Results, TestResults.same) &&
		r.Crowded == o.Crowded && oneList(r.Cleared, o.Cleared) &&
		r.AskedAt.Equal(o.AskedAt) && r.StartedAt.Equal(o.StartedAt) && r.Deadline.Equal(o.Deadline) && r.EndedAt.Equal(o.EndedAt) &&
		r.Why == o.Why && r.Message == o.Message && r.NotBuilt.same(o.NotBuilt) && r.Spoilt == o.Spoilt && r.ReadAfter.Equal(o.ReadAfter)
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
