package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// prView is the page of one pull request in one queue.
type prView struct {
	trail
	PR              prLink
	State           badge
	Reason, Message string
	Help            string // where the documents explain the reason; "" while it is active
	Since           moment
	Active          bool
	Restartable     bool
	Place           int64 // 0 = in no order
	Waits           string
	Until, Estimate moment
	Conditions      []queue.Condition
	Stack           []prLink // what it stands on and lands with, the lowest first
	TestedWith      []prLink
	Runs            []runRow // newest first
	Details         []detail
	Timeline        []submissionRows // newest first
	Marks           []string
	NoBatch         bool
	Priority        string
	Now             moment
	Told            string // what came of what the reader did
	Deeds           deeds
}

// detail is a line of a list of facts.
type detail struct {
	Label, Text string
	Code        code
	Time        moment
}

// submissionRows is the timeline of one submission, oldest first.
type submissionRows struct {
	Number int64
	Moves  []moveRow
}

// moveRow is a line of the timeline.
type moveRow struct {
	At      moment
	To      badge
	Reason  string
	Message string
	Actor   string
	Run     string
}

// runRow is a test run of a pull request.
type runRow struct {
	URL, ID string
	Short   string // the beginning of the id
	Kind    string // "" for a run of the line
	State   badge
	Since   moment
	Took    string
	Checks  progress
	Named   []checkRow // the required checks
	Why     string
	With    []prLink // what else is in its branch
	Failing []failedTests
}

func (prView) template() string { return "pr" }

// Heading is the page's title.
func (v prView) Heading() string { return fmt.Sprintf("#%d %s", v.PR.Number, v.PR.Title) }

func viewPR(s *queue.Snapshot, e *queue.Entry, moves []queue.Move, runs []queue.Run, now time.Time) prView {
	q := &s.Queue
	x := explain(s, e, now)
	v := prView{
		trail: trailOf(q),
		PR:    linkTo(q, e), State: look(entryBadges, e.State), Reason: sentence(e.Reason), Message: e.Message,
		Since: at(e.StateChangedAt, now), Active: e.Active(), Place: x.Position,
		Restartable: e.State == queue.Testing || e.State == queue.PendingFailure,
		Waits:       x.WaitsFor, Until: at(x.Until, now), Estimate: guess(x.EstimatedMergeAt, now),
		Conditions: x.Conditions, Details: details(e, now), Marks: marks(e), NoBatch: e.NoBatch,
		Priority: queue.PriorityName(e.Priority), Now: at(now, now),
	}
	if !v.Active {
		v.Help = queue.HelpPath(string(e.Reason))
	}
	for _, number := range x.TestedWith {
		v.TestedWith = append(v.TestedWith, linkIn(s, number))
	}
	for _, l := range e.Stack {
		v.Stack = append(v.Stack, prLink{Number: l.Number, Title: l.Title, Page: l.URL})
	}
	for i := range runs {
		v.Runs = append(v.Runs, rowOfRun(s, &runs[i], e.Number, now))
	}
	v.Timeline = timeline(q, moves, now)
	return v
}

// linkIn names a pull request of which the window may know nothing but the
// number.
func linkIn(s *queue.Snapshot, number int64) prLink {
	if e := s.ByPR(number); e != nil {
		return linkTo(&s.Queue, e)
	}
	return prLink{Number: number, Page: PRURL("", s.Queue.Repo, s.Queue.Branch, number)}
}

func rowOfRun(s *queue.Snapshot, r *queue.Run, pr int64, now time.Time) runRow {
	q := &s.Queue
	row := runRow{
		URL: RunURL("", q.Repo, q.Branch, r.ID), ID: string(r.ID), Short: shortRun(r.ID), State: look(runBadges, r.State), Since: at(r.AskedAt, now),
		Checks: progressOf(r), Why: r.Message, Took: took(r, now),
	}
	if r.Kind == queue.BisectionRun {
		row.Kind = "to find a culprit"
	}
	row.Named, _ = checksOf(r, now)
	row.Failing = failedIn(q.Repo, r)
	for _, step := range r.Chain {
		if step.PR != pr {
			row.With = append(row.With, linkIn(s, step.PR))
		}
	}
	return row
}

// shortRun is enough of a run's id to tell it from others on a page.
func shortRun(id queue.RunID) string { return string(id)[:min(len(id), 8)] }

// took is how long a run tested, or has been testing.
func took(r *queue.Run, now time.Time) string {
	if r.StartedAt.IsZero() {
		return ""
	}
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	return length(max(0, end.Sub(r.StartedAt)))
}

// timeline is the history, the present submission first.
func timeline(q *queue.Queue, moves []queue.Move, now time.Time) []submissionRows {
	var all []submissionRows
	for _, m := range moves {
		row := moveRow{
			At: at(m.At, now), To: look(entryBadges, m.To), Reason: sentence(m.Reason), Message: m.Message, Actor: m.Actor.String(),
		}
		if m.Run != "" {
			row.Run = RunURL("", q.Repo, q.Branch, m.Run)
		}
		if len(all) == 0 || all[len(all)-1].Number != m.Submission {
			all = append(all, submissionRows{Number: m.Submission})
		}
		last := &all[len(all)-1]
		last.Moves = append(last.Moves, row)
	}
	slices.Reverse(all)
	return all
}

// stackText names what lands together with a pull request.
func stackText(e *queue.Entry) string {
	var names []string
	for _, l := range e.Stack {
		names = append(names, fmt.Sprintf("#%d", l.Number))
	}
	return "lands together with " + strings.Join(names, ", ")
}

func details(e *queue.Entry, now time.Time) []detail {
	list := []detail{
		{Label: "Author", Text: e.Author.String()},
		{Label: "Submitted by", Text: e.SubmittedBy.String(), Time: at(e.SubmittedAt, now)},
		{Label: "Priority", Text: queue.PriorityName(e.Priority)},
		{Label: "Commit", Code: commit(e.BoundHead, e.URL)},
		{Label: "From branch", Text: e.HeadRef},
	}
	if e.Stacked() {
		list = append(list, detail{Label: "Stack", Text: stackText(e)})
	}
	if e.NoBatch {
		list = append(list, detail{Label: "Batching", Text: "always tested alone"})
	}
	if e.Forced {
		list = append(list, detail{Label: "Forced", Text: "by an administrator, past the host's rules"})
	}
	if e.LandedCommit != "" {
		list = append(list, detail{Label: "Landed as", Code: commit(e.LandedCommit, e.URL)})
	}
	return list
}
