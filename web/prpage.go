package web

import (
	"fmt"
	"time"

	"signalbox/queue"
)

// prView is the page of one pull request in one queue.
type prView struct {
	Repo, Branch, QueueURL string
	PR                     prLink
	State                  badge
	Reason, Message        string
	Since                  moment
	Active                 bool
	Place                  int64 // 0 = in no order
	Waits                  string
	Until, Estimate        moment
	Conditions             []queue.Condition
	TestedWith             []prLink
	Run                    string
	RunChecks              progress
	Details                []detail
	Timeline               []moveRow
	Now                    moment
}

// detail is a line of a list of facts.
type detail struct {
	Label, Text string
	Code        code
	Time        moment
}

// moveRow is a line of the timeline.
type moveRow struct {
	At         moment
	First      bool // of its submission
	Submission int64
	To         badge
	Reason     string
	Message    string
	Actor      string
	Run        string
}

func (prView) template() string { return "pr" }

// Heading is the page's title.
func (v prView) Heading() string { return fmt.Sprintf("#%d %s", v.PR.Number, v.PR.Title) }

func viewPR(s *queue.Snapshot, e *queue.Entry, moves []queue.Move, now time.Time) prView {
	q := &s.Queue
	x := explain(s, e, now)
	v := prView{
		Repo: q.Repo.String(), Branch: q.Branch, QueueURL: QueueURL("", q.Repo, q.Branch),
		PR: linkTo(q, e), State: look(entryBadges, e.State), Reason: sentence(e.Reason), Message: e.Message,
		Since: at(e.StateChangedAt, now), Active: e.Active(), Place: x.Position,
		Waits: x.WaitsFor, Until: at(x.Until, now), Estimate: at(x.EstimatedMergeAt, now),
		Conditions: x.Conditions, Details: details(e, now), Now: at(now, now),
	}
	for _, number := range x.TestedWith {
		l := prLink{Number: number, Page: PRURL("", q.Repo, q.Branch, number)}
		if other := s.ByPR(number); other != nil {
			l = linkTo(q, other)
		}
		v.TestedWith = append(v.TestedWith, l)
	}
	if x.Run != "" {
		v.Run = RunURL("", q.Repo, q.Branch, x.Run)
		if r := s.Runs[x.Run]; r != nil {
			v.RunChecks = progressOf(r)
		}
	}
	var submission int64
	for _, m := range moves {
		row := moveRow{
			At: at(m.At, now), First: m.Submission != submission, Submission: m.Submission,
			To: look(entryBadges, m.To), Reason: sentence(m.Reason), Message: m.Message, Actor: m.Actor.String(),
		}
		if m.Run != "" {
			row.Run = RunURL("", q.Repo, q.Branch, m.Run)
		}
		submission = m.Submission
		v.Timeline = append(v.Timeline, row)
	}
	return v
}

func details(e *queue.Entry, now time.Time) []detail {
	list := []detail{
		{Label: "Author", Text: e.Author.String()},
		{Label: "Submitted by", Text: e.SubmittedBy.String(), Time: at(e.SubmittedAt, now)},
		{Label: "Priority", Text: queue.PriorityName(e.Priority)},
		{Label: "Commit", Code: commit(e.BoundHead, e.URL)},
		{Label: "From branch", Text: e.HeadRef},
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
