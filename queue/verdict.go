package queue

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Verdict is what the required statuses of a run say together.
type Verdict string

// The verdicts.
const (
	VerdictWaiting     Verdict = "waiting"
	VerdictPassed      Verdict = "passed"
	VerdictFailed      Verdict = "failed"
	VerdictInterrupted Verdict = "interrupted"
)

// outcome sorts the words of the host into verdicts. A word that is not here
// means waiting: an unknown word never lands and never blames.
var outcome = map[string]Verdict{
	"success": VerdictPassed, "neutral": VerdictPassed, "skipped": VerdictPassed,
	"failure": VerdictFailed, "error": VerdictFailed, "timed_out": VerdictFailed,
	"action_required": VerdictFailed, "startup_failure": VerdictFailed,
	"cancelled": VerdictInterrupted, "stale": VerdictInterrupted,
}

// Outcome is what one report says.
func (r Report) Outcome() Verdict {
	if r.Kind == CheckRun && r.Status != "" && r.Status != "completed" {
		return VerdictWaiting
	}
	if v, known := outcome[r.Result]; known {
		return v
	}
	return VerdictWaiting
}

// Report finds what CI last said about a required status.
func (r *Run) Report(want Required) (Report, bool) { return want.Newest(maps.Values(r.Checks)) }

// Newest finds the newest of some reports that is about a required status: it
// has the name and, if one App alone may say it, is that App's.
func (want Required) Newest(reports iter.Seq[Report]) (newest Report, found bool) {
	for report := range reports {
		if !want.matches(report) {
			continue
		}
		if !found || newerOfName(report, newest) {
			newest, found = report, true
		}
	}
	return newest, found
}

// matches reports whether a report is about a required status.
func (want Required) matches(r Report) bool {
	return r.Name == want.Name && (want.AppID <= 0 || r.AppID == want.AppID)
}

// newerOfName orders reports of one name by different Apps, whose ids say
// nothing about time.
func newerOfName(a, b Report) bool {
	if !a.At.Equal(b.At) {
		return a.At.After(b.At)
	}
	return a.Key() > b.Key()
}

// Verdict judges the run by its required statuses and names those that
// decided it. What is not here yet is not waited for.
func (r *Run) Verdict() (Verdict, []string) {
	j := r.judge(time.Time{}, nil)
	return j.verdict, j.names
}

// judgement is what the required statuses of a run say together.
type judgement struct {
	verdict Verdict
	names   []string // of those that decided it
	// cleared are those that failed and count as passed.
	cleared []string
	// until is when a failed status stops waiting for its test results; zero
	// when none does.
	until time.Time
}

// judge judges a run by its required statuses. A failure counts at once,
// whatever is still running, unless test results may yet excuse it: then it is
// waited for, and a failure that counts or one that is still excusable goes
// before what was interrupted.
func (r *Run) judge(now time.Time, testChecks []string) judgement {
	var j judgement
	var failed, awaited, interrupted, waiting []string
	for _, want := range r.Required {
		report, found := r.Report(want)
		if !found {
			waiting = append(waiting, want.Name)
			continue
		}
		switch report.Outcome() {
		case VerdictFailed:
			excuse, until := r.Excuse(want), r.awaited(report, testChecks)
			switch {
			case excuse == ExcuseCleared:
				j.cleared = append(j.cleared, want.Name)
			case excuse == ExcusePending && now.Before(until):
				awaited = append(awaited, want.Name)
				if j.until.IsZero() || until.Before(j.until) {
					j.until = until
				}
			default:
				failed = append(failed, want.Name)
			}
		case VerdictInterrupted:
			interrupted = append(interrupted, want.Name)
		case VerdictWaiting:
			waiting = append(waiting, want.Name)
		}
	}
	switch {
	case len(failed) > 0:
		j.verdict, j.names, j.until = VerdictFailed, failed, time.Time{}
	case len(awaited) > 0:
		j.verdict, j.names = VerdictWaiting, awaited
	case len(interrupted) > 0:
		j.verdict, j.names = VerdictInterrupted, interrupted
	case len(waiting) > 0 || len(r.Required) == 0:
		j.verdict, j.names = VerdictWaiting, waiting
	default:
		j.verdict = VerdictPassed
	}
	return j
}

// verdicts takes one step with the first group whose build or run has
// something to tell.
func (d *decision) verdicts() bool {
	for _, g := range slices.Concat(d.line(), d.s.groups(d.s.Parts)) {
		r := d.s.run(g)
		switch {
		case r == nil || d.groupLands(g.ID):
		case r.State == Building && d.build(g, r):
			return true
		case r.State == RunTesting && d.test(g, r):
			return true
		case r.State == RunPassed && d.uncleared(g, r):
			return true
		}
	}
	return d.proofs()
}

// test looks at a run whose branch is on the host.
func (d *decision) test(g *Group, r *Run) bool {
	if d.state(g) == Pending {
		with := d.testedWith(r)
		for _, e := range d.s.members(g) {
			d.move(e, Testing, TestRunStarted, with, Actor{}, r.ID)
		}
		return true
	}
	j := r.judge(d.now, d.s.TestChecks)
	switch {
	case j.verdict == VerdictPassed:
		d.pass(g, r, j.cleared)
		return true
	case j.verdict == VerdictFailed:
		d.fail(g, r, RequiredStatusFailed, d.failedText(r, j.names))
		return true
	case j.verdict == VerdictInterrupted:
		d.interrupt(g, r, j.names)
		return true
	case !j.until.IsZero():
		d.wakeAt(j.until)
	}
	return d.overdue(g, r, j.names)
}

// failedText names the checks that failed and, where results came, the tests.
func (d *decision) failedText(r *Run, names []string) string {
	text := fmt.Sprintf("Required %s failed: %s.", plural(len(names), "check"), strings.Join(names, ", "))
	for _, name := range names {
		why := r.unexcusedText(name)
		if why == "" && slices.Contains(d.s.TestChecks, name) {
			why = fmt.Sprintf("%s: no test results came that could excuse it.", name)
		}
		text = strings.TrimSpace(text + " " + why)
	}
	return text
}

// overdue ends a run that has waited too long, and reads the checks of one
// whose reports may have been missed.
func (d *decision) overdue(g *Group, r *Run, waiting []string) bool {
	if d.due(r.Deadline) {
		d.fail(g, r, TestRunTimeout, fmt.Sprintf("The tests did not finish within %d minutes. Still missing: %s.", d.s.Queue.TestingTimeoutMinutes, strings.Join(waiting, ", ")))
		return true
	}
	if never, since := r.neverReported(); len(never) > 0 && d.due(since.Add(neverStartedAfter)) {
		d.silent(never)
		d.fail(g, r, ChecksNeverStarted, fmt.Sprintf("No report arrived for %s on the test branch %s. Most likely no workflow runs on pushes to it: this is the set-up's fault, not the pull request's.", strings.Join(never, ", "), r.Branch))
		return true
	}
	return d.readChecks(r)
}

// readChecks has the checks of a run read, when it is time. That changes nothing yet.
func (d *decision) readChecks(r *Run) bool {
	if !r.ReadAfter.IsZero() && d.due(r.ReadAfter) {
		r.ReadAfter = time.Time{}
		d.actions = append(d.actions, ReadChecks{Queue: d.s.Queue.ID, Run: r.ID, Commit: r.Commit})
	}
	return false
}

// neverReported names the required statuses without any report, once nothing
// else on the commit is still at work, and says since when all is silent.
func (r *Run) neverReported() (names []string, since time.Time) {
	since = r.StartedAt
	for _, report := range r.Checks {
		if report.Outcome() == VerdictWaiting {
			return nil, time.Time{}
		}
		if report.At.After(since) {
			since = report.At
		}
	}
	for _, want := range r.Required {
		if _, found := r.Report(want); !found {
			names = append(names, want.Name)
		}
	}
	return names, since
}

// interrupt rebuilds a run that somebody else cancelled, once; a second time
// it counts as failed.
func (d *decision) interrupt(g *Group, r *Run, names []string) {
	list := strings.Join(names, ", ")
	if g.Interrupted > 0 {
		d.fail(g, r, RequiredStatusFailed, fmt.Sprintf("%s was cancelled twice. If a concurrency group cancels it, give each branch a group of its own.", list))
		return
	}
	r.State, r.EndedAt, r.Why = Interrupted, d.now, ChecksInterrupted
	r.Message = list + " was cancelled."
	d.restart(g, ChecksInterrupted, fmt.Sprintf("%s was cancelled by somebody else; it runs once more.", list), Actor{})
	g.Interrupted = 1
}

// pass records a passed run. The verdict is final: later reports change nothing.
func (d *decision) pass(g *Group, r *Run, cleared []string) {
	r.State, r.EndedAt, r.Cleared = RunPassed, d.now, cleared
	d.silent(nil)
	if g.Part == nil { // what passes in a bisection is given back, not passed
		d.hasPassed(g, r)
	}
}

// hasPassed passes the members of a group by its run.
func (d *decision) hasPassed(g *Group, r *Run) {
	for _, e := range d.s.members(g) {
		e.VerifiedBy = r.ID
		d.move(e, TestsPassed, TestRunPassed, passedText(r), Actor{}, r.ID)
	}
}

func passedText(r *Run) string {
	text := "All required checks passed on " + short(r.Commit) + "."
	if cleared := r.ClearedText(); cleared != "" {
		text += " " + cleared
	}
	return text
}

// fail records a failed run. Whose failure it is, is decided later.
func (d *decision) fail(g *Group, r *Run, why Reason, message string) {
	r.State, r.EndedAt, r.Why, r.Message = RunFailed, d.now, why, message
	d.hasFailed(g, r)
}

// hasFailed has the members of a group wait for whose failure that of its run is.
func (d *decision) hasFailed(g *Group, r *Run) {
	for _, e := range d.s.members(g) {
		d.move(e, PendingFailure, r.Why, r.Message, Actor{}, r.ID)
	}
}

// state is the state that all members of a group share.
func (d *decision) state(g *Group) EntryState { return d.s.Entries[g.Members[0]].State }

// testedWith says what a run tests, in words.
func (d *decision) testedWith(r *Run) string {
	text := "Testing on " + d.s.Queue.Branch
	if ahead, _ := d.unlanded(r); len(ahead) > len(r.Members) {
		text += " with " + pullRequests(ahead[:len(ahead)-len(r.Members)]) + " ahead"
	}
	if len(r.Members) > 1 {
		text += ", together as " + pullRequests(r.Own())
	}
	return text + "."
}

func pullRequests(steps []Step) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = fmt.Sprintf("#%d", s.PR)
	}
	return strings.Join(names, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
