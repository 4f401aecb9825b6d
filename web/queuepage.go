package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// listedAtOnce is how many entries a list of the queue's page shows unless
// all are asked for.
const listedAtOnce = 100

// queueView is the page of one queue.
type queueView struct {
	SetUp        setUp
	Repo, Branch string
	URL          string
	State        badge
	Why          string // of the state, a sentence; "" = nothing to say
	Summary      string // what it is doing, in sentences
	Target       code
	Mode         string
	Settings     []string
	Slots        slots
	Picture      *picture // nil when nothing is in line
	Line, Parts  []groupRow
	Pending      entryList // free ones, in order
	NotReady     entryList
	Ended        []entryRow
	Now          moment
	Told         string // what came of what the reader did
	Deeds        deeds
	QueueStates  []stateDeed
	RepoURL      string
	SettingsURL  string
}

func (queueView) template() string { return "queue" }

// Heading is the page's title.
func (v queueView) Heading() string { return v.Branch + " · " + v.Repo }

// slots says how many testing slots of the line are in use.
type slots struct {
	Used, All int64
}

// entryList is a list that may be cut.
type entryList struct {
	Rows  []entryRow
	Count int
	All   string // address of the page with all of them; "" = nothing was cut
}

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
	Estimate moment
	By       string
	Priority string
	Marks    []string
	Landed   code
	Batch    int  // the group that it will be in, from 1; 0 = not foreseen
	Opens    bool // it is the first of that group
	Size     int  // members of that group
}

// setUp is what a look at the queue's set-up on the host found that somebody
// should know.
type setUp struct {
	Findings []findingRow
	At       moment
	Running  bool // it is being looked at
}

type findingRow struct {
	Level           badge
	Message, Action string
}

var findingBadges = map[queue.Level]badge{
	queue.LevelProblem: {"to do", "bad"}, queue.LevelNote: {"note", "off"}, queue.LevelUnknown: {"unknown", "wait"},
	queue.LevelOK: {"fine", "good"},
}

// setUpOf is what is known of a queue's set-up: all of it, or what somebody
// should know.
func setUpOf(p *queue.Preflight, all bool, now time.Time) setUp {
	v := setUp{At: at(p.At, now), Running: p.Running()}
	for _, f := range p.Findings {
		if all || f.Level != queue.LevelOK {
			v.Findings = append(v.Findings, findingRow{look(findingBadges, f.Level), f.Message, f.Action})
		}
	}
	return v
}

// viewQueue makes the page of a queue that s holds whole. all says that lists
// are not to be cut. It fills in s.FreeAhead.
func viewQueue(s *queue.Snapshot, ended []queue.Entry, all bool, now time.Time) queueView {
	q := &s.Queue
	v := queueView{
		SetUp: setUpOf(&q.Preflight, false, now),
		Repo:  q.Repo.String(), Branch: q.Branch, URL: QueueURL("", q.Repo, q.Branch),
		State: look(queueBadges, q.State), Why: whyQueue(q),
		Target: commit(q.Target.Commit, anyURL(s, ended)), Mode: string(q.ReportedMode()), Settings: settings(q), Now: at(now, now),
		Slots:   slots{Used: int64(liveRuns(s, s.Line)), All: q.Concurrency},
		Picture: pictureOf(s, now), QueueStates: statesFrom(q),
		RepoURL: RepoURL("", q.Repo), SettingsURL: pageURL("", q.Repo, "/settings", q.Branch),
	}
	for i, id := range s.Line {
		v.Line = append(v.Line, rowOfGroup(s, s.Groups[id], i+1, now))
	}
	for i, id := range s.Parts {
		v.Parts = append(v.Parts, rowOfGroup(s, s.Groups[id], i+1, now))
	}
	free, notReady := outside(s)
	v.Pending = v.list(s, free, all, func(e *queue.Entry) time.Time { return e.AdmittedAt }, now)
	v.NotReady = v.list(s, notReady, all, func(e *queue.Entry) time.Time { return e.SubmittedAt }, now)
	foresee(s, free, v.Pending.Rows)
	v.Summary = summaryOf(s, len(free), len(notReady), now)
	for i := range ended {
		row := rowOfEntry(s, &ended[i], ended[i].StateChangedAt, now)
		row.Waits = ended[i].Message
		v.Ended = append(v.Ended, row)
	}
	return v
}

// whyQueue says in a sentence what is particular about a queue's state.
func whyQueue(q *queue.Queue) string {
	var why []string
	if q.StateWhy != "" {
		why = append(why, q.StateWhy)
	}
	switch q.State {
	case queue.Paused:
		why = append(why, "Nothing is admitted, tested or landed until somebody sets it running. Tests that run go on.")
	case queue.Draining:
		why = append(why, "What is in line is tested and landed; nobody new is admitted.")
	case queue.SwitchingModes:
		why = append(why, fmt.Sprintf("It changes to %s mode when its line is empty; until then nobody new starts.", q.WantedMode))
	}
	if q.Target.Missing {
		why = append(why, "The branch does not exist on the host. Push it, and testing begins.")
	}
	return strings.Join(why, " ")
}

// outside are the active entries that are in no group: the free ones in queue
// order, and those that are not ready, by submission.
func outside(s *queue.Snapshot) (free, notReady []*queue.Entry) {
	for _, e := range s.Entries {
		switch {
		case !e.Active():
		case e.State == queue.NotReady:
			notReady = append(notReady, e)
		case e.Free():
			free = append(free, e)
		}
	}
	slices.SortFunc(free, queue.Compare)
	slices.SortFunc(notReady, func(a, b *queue.Entry) int {
		return cmp.Or(a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.ID, b.ID))
	})
	// Counted here once, and not by Explain for each of them.
	s.FreeAhead = map[queue.EntryID]int64{}
	for i, e := range free {
		s.FreeAhead[e.ID] = int64(i)
	}
	return free, notReady
}

func (v *queueView) list(s *queue.Snapshot, entries []*queue.Entry, all bool, since func(*queue.Entry) time.Time, now time.Time) entryList {
	l := entryList{Count: len(entries)}
	if !all && len(entries) > listedAtOnce {
		entries, l.All = entries[:listedAtOnce], v.URL+"&all=1"
	}
	for _, e := range entries {
		l.Rows = append(l.Rows, rowOfEntry(s, e, since(e), now))
	}
	return l
}

// foresee writes down which of the free entries will be tested together.
func foresee(s *queue.Snapshot, free []*queue.Entry, rows []entryRow) {
	place := map[queue.EntryID]int{}
	for i, e := range free[:len(rows)] {
		place[e.ID] = i
	}
	for i, members := range queue.Forecast(s, len(rows)) {
		for k, id := range members {
			if at, shown := place[id]; shown {
				rows[at].Batch, rows[at].Size, rows[at].Opens = i+1, len(members), k == 0
			}
		}
	}
}

func settings(q *queue.Queue) []string {
	parts := []string{
		string(q.ReportedMode()) + " mode", methods[q.MergeMethod],
		map[queue.LandingMode]string{queue.LandExact: "lands the tested commit", queue.LandHost: "landed by the host"}[q.LandingMode()],
	}
	if q.Batch {
		parts = append(parts, fmt.Sprintf("batches of %d", q.BatchingMinSize))
	}
	if q.CanOptimisticallyMerge {
		parts = append(parts, "optimistic")
	}
	if q.PendingFailureDepth > 0 {
		parts = append(parts, fmt.Sprintf("failures wait for %d behind", q.PendingFailureDepth))
	}
	return parts
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
		row.State, row.Waits, row.Until = stateOfGroup(s, g), x.WaitsFor, at(x.Until, now)
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
		Since: at(since, now), Until: at(x.Until, now), Estimate: guess(x.EstimatedMergeAt, now), By: e.SubmittedBy.String(),
		Priority: queue.PriorityName(e.Priority), Marks: marks(e), Landed: commit(e.LandedCommit, e.URL),
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
	if e.NoBatch {
		m = append(m, "alone")
	}
	if e.Stacked() {
		m = append(m, fmt.Sprintf("stack of %d", len(e.Stack)+1))
	}
	return m
}

func progressOf(r *queue.Run) progress {
	p := progress{Total: len(r.Required)}
	for _, want := range r.Required {
		report, found := r.Report(want)
		switch {
		case !found:
		case report.Outcome() == queue.VerdictPassed, r.PassedByQuarantine(want):
			p.Passed++
		case report.Outcome() == queue.VerdictFailed:
			p.Failed++
		}
	}
	return p
}

// anyURL is the address of any pull request, from which those of commits are
// found.
func anyURL(s *queue.Snapshot, ended []queue.Entry) string {
	for i := range ended {
		if ended[i].URL != "" {
			return ended[i].URL
		}
	}
	best := ""
	for _, e := range s.Entries {
		if e.URL != "" && (best == "" || e.URL < best) { // the same one each time
			best = e.URL
		}
	}
	return best
}
