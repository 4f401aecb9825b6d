package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/queue"
)

// queueView is the page of one queue.
type queueView struct {
	Repo, Branch string
	State        badge
	Why          string // of the state, a sentence; "" = nothing to say
	Target       code
	Settings     string
	Slots        string
	Line, Parts  []groupRow
	Pending      []entryRow // free ones, in order
	NotReady     []entryRow
	Ended        []entryRow
	Now          moment
}

func (queueView) template() string { return "queue" }

// Heading is the page's title.
func (v queueView) Heading() string { return v.Branch + " · " + v.Repo }

// prLink names a pull request: its page here and on the host.
type prLink struct {
	Number     int64
	Title      string
	Page, Host string
}

// groupRow is one group: entries that are tested together.
type groupRow struct {
	Place  int
	PRs    []prLink
	State  badge
	Checks progress
	Run    string // address of its run; "" if it has none
	Since  moment
	Waits  string
	Until  moment
	Marks  []string // urgent, no batch, …
}

// progress counts required checks.
type progress struct {
	Passed, Failed, Total int
}

// entryRow is one entry outside the line.
type entryRow struct {
	PR       prLink
	State    badge
	Waits    string // or why it ended
	Reason   string
	Since    moment
	Until    moment
	By       string
	Priority string
	Landed   code
}

func viewQueue(s *queue.Snapshot, active, ended []queue.Entry, now time.Time) queueView {
	q := &s.Queue
	v := queueView{
		Repo: q.Repo.String(), Branch: q.Branch, State: look(queueBadges, q.State), Why: q.StateWhy,
		Target: commit(q.Target.Commit, anyURL(active, ended)), Settings: settings(q), Now: at(now, now),
	}
	if q.Target.Missing {
		v.Why = strings.TrimSpace(v.Why + " The branch does not exist on the host.")
	}
	for i, id := range s.Line {
		v.Line = append(v.Line, rowOfGroup(s, s.Groups[id], i+1, now))
	}
	for i, id := range s.Parts {
		v.Parts = append(v.Parts, rowOfGroup(s, s.Groups[id], i+1, now))
	}
	v.Slots = fmt.Sprintf("%d of %d", liveRuns(s, s.Line), q.Concurrency)
	for i := range active {
		e := &active[i]
		switch {
		case e.State == queue.NotReady:
			v.NotReady = append(v.NotReady, rowOfEntry(s, e, e.SubmittedAt, now))
		case e.Free():
			v.Pending = append(v.Pending, rowOfEntry(s, e, e.AdmittedAt, now))
		}
	}
	for i := range ended {
		row := rowOfEntry(s, &ended[i], ended[i].StateChangedAt, now)
		row.Waits = ended[i].Message
		v.Ended = append(v.Ended, row)
	}
	return v
}

func settings(q *queue.Queue) string {
	parts := []string{
		string(q.Mode) + " mode", methods[q.MergeMethod],
		map[queue.LandingMode]string{queue.LandExact: "lands the tested commit", queue.LandHost: "landed by the host"}[q.LandingMode()],
	}
	if q.Batch {
		parts = append(parts, fmt.Sprintf("batches of %d", q.BatchingMinSize))
	}
	return strings.Join(parts, " · ")
}

func liveRuns(s *queue.Snapshot, groups []queue.GroupID) int {
	live := 0
	for _, id := range groups {
		if g := s.Groups[id]; g != nil {
			if r := s.Runs[g.Run]; r != nil && r.State.Live() {
				live++
			}
		}
	}
	return live
}

func rowOfGroup(s *queue.Snapshot, g *queue.Group, place int, now time.Time) groupRow {
	row := groupRow{Place: place}
	if g == nil { // a window without it would be the store's mistake; the rest is still true
		return row
	}
	q := &s.Queue
	var first *queue.Entry
	for _, id := range g.Members {
		e := s.Entries[id]
		if e == nil {
			continue
		}
		if first == nil {
			first = e
		}
		row.PRs = append(row.PRs, linkTo(q, e))
		row.Marks = append(row.Marks, marks(e)...)
	}
	if first != nil {
		x := explain(s, first, now)
		row.State, row.Waits, row.Until = look(entryBadges, first.State), x.WaitsFor, at(x.Until, now)
		row.Since = at(first.StateChangedAt, now)
	}
	if r := s.Runs[g.Run]; r != nil {
		row.Run, row.Checks = RunURL("", q.Repo, q.Branch, r.ID), progressOf(r)
	}
	return row
}

func rowOfEntry(s *queue.Snapshot, e *queue.Entry, since, now time.Time) entryRow {
	x := explain(s, e, now)
	return entryRow{
		PR: linkTo(&s.Queue, e), State: look(entryBadges, e.State), Waits: x.WaitsFor, Reason: sentence(e.Reason),
		Since: at(since, now), Until: at(x.Until, now), By: e.SubmittedBy.String(),
		Priority: queue.PriorityName(e.Priority), Landed: commit(e.LandedCommit, e.URL),
	}
}

// explain is the one place where pages ask what an entry waits for.
func explain(s *queue.Snapshot, e *queue.Entry, now time.Time) queue.Explanation {
	return queue.Explain(s, e, now)
}

func linkTo(q *queue.Queue, e *queue.Entry) prLink {
	return prLink{Number: e.Number, Title: e.Title, Page: PRURL("", q.Repo, q.Branch, e.Number), Host: e.URL}
}

func marks(e *queue.Entry) []string {
	var m []string
	if e.Priority != queue.Medium {
		m = append(m, queue.PriorityName(e.Priority))
	}
	if e.Forced {
		m = append(m, "forced")
	}
	return m
}

func progressOf(r *queue.Run) progress {
	p := progress{Total: len(r.Required)}
	for _, want := range r.Required {
		report, found := r.Report(want)
		switch {
		case !found:
		case report.Outcome() == queue.VerdictPassed:
			p.Passed++
		case report.Outcome() == queue.VerdictFailed:
			p.Failed++
		}
	}
	return p
}

// anyURL is the address of any pull request, from which those of commits are found.
func anyURL(lists ...[]queue.Entry) string {
	for _, entries := range lists {
		for i := range entries {
			if entries[i].URL != "" {
				return entries[i].URL
			}
		}
	}
	return ""
}
