package queue

import (
	"slices"
	"time"
)

// Level says how a finding is to be taken.
type Level string

// The levels.
const (
	LevelOK      Level = "ok"
	LevelNote    Level = "note"    // it works, and somebody should know
	LevelProblem Level = "problem" // pull requests will fail or wait in vain
	LevelUnknown Level = "unknown" // it could not be found out
)

// Finding is what one check of the preflight found.
type Finding struct {
	// Check names the check, in snake case. One check may find several things.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Message is what is so, a sentence.
	Message string `json:"message"`
	// Action is the one thing to do about it, a sentence; "" for nothing.
	Action string `json:"action,omitempty"`
}

// Preflight is what is known of a queue's set-up on the host: trouble that
// every pull request would run into, found before the first one does.
type Preflight struct {
	// Findings are those of the newest preflight, in the order of its checks.
	Findings []Finding `json:"findings,omitempty"`
	// At is when they were found; zero = never.
	At time.Time `json:"at,omitzero"`
	// NoExact says why the tested commit itself cannot be put on the target,
	// a sentence; "" = it can, or nobody has looked.
	NoExact string `json:"noExact,omitempty"`
	// Due is when the next preflight is wanted, zero if none is; Asked is when
	// the one under way was asked for, and Again says that another is wanted
	// after it.
	Due   time.Time `json:"due,omitzero"`
	Asked time.Time `json:"asked,omitzero"`
	Again bool      `json:"again,omitempty"`
	// Silent are the required statuses that nobody reported on the newest run
	// that waited for them in vain.
	Silent []string `json:"silent,omitempty"`
	// NoDrafts says that the host refused a draft pull request.
	NoDrafts bool `json:"noDrafts,omitempty"`
}

// Running reports whether an answer is on its way.
func (p *Preflight) Running() bool { return !p.Due.IsZero() || !p.Asked.IsZero() }

// Problems counts the findings that are problems.
func (p *Preflight) Problems() int {
	n := 0
	for _, f := range p.Findings {
		if f.Level == LevelProblem {
			n++
		}
	}
	return n
}

// RunPreflight looks at a queue's set-up on the host. Its answer is PreflightSeen.
type RunPreflight struct {
	Queue  ID          `json:"queue"`
	Branch string      `json:"branch"`
	Method MergeMethod `json:"method"`
	// Chosen is the landing mode that an owner set, "" if it follows Method
	// and what is possible.
	Chosen           LandingMode `json:"chosen,omitempty"`
	DraftPRs         bool        `json:"draftPrs,omitempty"`
	RequiredStatuses []string    `json:"requiredStatuses,omitempty"`
	// Silent and NoDrafts are what the queue's own runs ran into: see Preflight.
	Silent   []string `json:"silent,omitempty"`
	NoDrafts bool     `json:"noDrafts,omitempty"`
}

// Kind is the name of the job that performs it.
func (RunPreflight) Kind() string { return "preflight" }

// PreflightSeen is what a preflight found.
type PreflightSeen struct {
	Findings []Finding `json:"findings"`
	NoExact  string    `json:"noExact,omitempty"`
	// Failed says that it could not be made: there is one finding, which says
	// why, and NoExact is not known.
	Failed bool      `json:"failed,omitempty"`
	At     time.Time `json:"at"`
}

// PreflightWanted says that a queue's set-up should be looked at again: a
// person asks, or the App was installed or was given other permissions.
type PreflightWanted struct{}

func (PreflightSeen) Kind() string   { return "preflight_seen" }
func (PreflightWanted) Kind() string { return "preflight_wanted" }

func (PreflightSeen) Subject() Subject   { return Subject{} }
func (PreflightWanted) Subject() Subject { return Subject{Everybody: true} }

func init() {
	learn[PreflightSeen]()
	learn[PreflightWanted]()
}

const (
	// preflightPause gathers changes that come together, such as the edits of
	// one ruleset.
	preflightPause = 5 * time.Second
	// preflightAgain is when one that failed is tried again.
	preflightAgain = 10 * time.Minute
	// preflightDeadline is when one that gave no answer is asked for again.
	preflightDeadline = 10 * time.Minute
)

// wantPreflight asks for a preflight at a time, unless an earlier one is due.
func (d *decision) wantPreflight(at time.Time) {
	p := &d.s.Queue.Preflight
	switch {
	case !p.Asked.IsZero():
		p.Again = true // the one under way may not have seen it
	case p.Due.IsZero() || at.Before(p.Due):
		p.Due = at
	}
}

func (d *decision) preflightSeen(f PreflightSeen) {
	p := &d.s.Queue.Preflight
	p.Findings, p.At = f.Findings, f.At
	if !f.Failed {
		p.NoExact = f.NoExact
	}
	p.Asked, p.Due = time.Time{}, time.Time{}
	switch {
	case p.Again:
		p.Again, p.Due = false, d.now
	case f.Failed:
		p.Due = d.now.Add(preflightAgain)
	}
}

// askPreflight has the host looked at when that is due. A queue that nobody
// wanted it of never asks, so that one that is made without a host needs none.
func (d *decision) askPreflight() {
	q := &d.s.Queue
	p := &q.Preflight
	due := p.Due
	if !p.Asked.IsZero() {
		due = p.Asked.Add(preflightDeadline) // the answer is overdue
	}
	if due.IsZero() || !d.due(due) {
		return
	}
	p.Due, p.Asked, p.Again = time.Time{}, d.now, false
	d.wakeAt(d.now.Add(preflightDeadline))
	d.actions = append(d.actions, q.PreflightWork())
}

// PreflightWork is the preflight that the queue needs.
func (q *Queue) PreflightWork() RunPreflight {
	return RunPreflight{
		Queue: q.ID, Branch: q.Branch, Method: q.MergeMethod, Chosen: q.ChosenLandingMode, DraftPRs: q.CreatePRsForTestingBranches,
		RequiredStatuses: q.RequiredStatuses, Silent: q.Preflight.Silent, NoDrafts: q.Preflight.NoDrafts,
	}
}

// changesSetUp reports whether a change is about what a preflight looks at.
func (c Change) changesSetUp() bool {
	return c.MergeMethod != nil || c.LandingMode != nil || c.CreatePRsForTestingBranches != nil || c.RequiredStatuses != nil
}

// silent remembers which required statuses a run waited for in vain, and that
// a later one had them.
func (d *decision) silent(names []string) {
	if p := &d.s.Queue.Preflight; !slices.Equal(p.Silent, names) {
		p.Silent = names
		d.wantPreflight(d.now)
	}
}

// noDrafts remembers whether the host refuses draft pull requests.
func (d *decision) noDrafts(refused bool) {
	if p := &d.s.Queue.Preflight; p.NoDrafts != refused {
		p.NoDrafts = refused
		d.wantPreflight(d.now)
	}
}

// LandingMode is the landing mode in force: see Settings.LandingMode. Where
// nobody chose one and the tested commit cannot be put on the target, it is
// host.
func (q *Queue) LandingMode() LandingMode {
	if q.ChosenLandingMode == "" && q.Preflight.NoExact != "" {
		return LandHost
	}
	return q.Settings.LandingMode()
}
