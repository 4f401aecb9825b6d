package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// EventType names what has happened, for programs that subscribe to it. The
// names never change their meaning.
type EventType string

// What happens to a pull request: one event for each row of its timeline, named
// for the state that it came into.
const (
	PullRequestSubmitted      EventType = "pull_request.submitted"
	PullRequestQueued         EventType = "pull_request.queued" // admitted, or back in line to be tested again
	PullRequestTesting        EventType = "pull_request.testing"
	PullRequestTestsPassed    EventType = "pull_request.tests_passed"
	PullRequestPendingFailure EventType = "pull_request.pending_failure"
	PullRequestFailed         EventType = "pull_request.failed"
	PullRequestCanceled       EventType = "pull_request.canceled"
	PullRequestMerged         EventType = "pull_request.merged"
)

// What happens to a batch: two or more pull requests that one run tests. Their
// own events are sent beside it.
const (
	BatchTesting        EventType = "pull_request_batch.testing"
	BatchTestsPassed    EventType = "pull_request_batch.tests_passed"
	BatchPendingFailure EventType = "pull_request_batch.pending_failure"
	BatchFailed         EventType = "pull_request_batch.failed"    // it is split, to find out whose failure it is
	BatchRestarted      EventType = "pull_request_batch.restarted" // its members wait to be tested again
	BatchMerged         EventType = "pull_request_batch.merged"
)

// What happens to a queue.
const (
	QueueStateChanged    EventType = "queue.state_changed"
	QueueSettingsChanged EventType = "queue.settings_changed"
)

// EventTypes lists the events of queues.
var EventTypes = []EventType{
	PullRequestSubmitted, PullRequestQueued, PullRequestTesting, PullRequestTestsPassed, PullRequestPendingFailure,
	PullRequestFailed, PullRequestCanceled, PullRequestMerged,
	BatchTesting, BatchTestsPassed, BatchPendingFailure, BatchFailed, BatchRestarted, BatchMerged,
	QueueStateChanged, QueueSettingsChanged,
}

// eventOf is the event of a move into a state.
var eventOf = map[EntryState]EventType{
	NotReady: PullRequestSubmitted, Pending: PullRequestQueued, Testing: PullRequestTesting, TestsPassed: PullRequestTestsPassed,
	PendingFailure: PullRequestPendingFailure, Failed: PullRequestFailed, Cancelled: PullRequestCanceled, Merged: PullRequestMerged,
}

// batchEventOf is the event of a batch whose members move into a state. They
// are never submitted together, and each leaves for reasons of its own.
var batchEventOf = map[EntryState]EventType{
	Pending: BatchRestarted, Testing: BatchTesting, TestsPassed: BatchTestsPassed, PendingFailure: BatchPendingFailure, Merged: BatchMerged,
}

// Event is something that has happened, as it is told to those outside. It is
// whole: what it says is what was so then, whatever changes later.
type Event struct {
	Type   EventType `json:"type"`
	At     time.Time `json:"at"`
	Queue  ID        `json:"queue"`
	Repo   Repo      `json:"repo"`
	Branch string    `json:"branch"`
	// From and To are states: of the pull requests, or of the queue.
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Reason Reason `json:"reason,omitempty"` // of a move
	// Message is a sentence about it; "" where a queue's state was asked for.
	Message string `json:"message,omitempty"`
	Actor   Actor  `json:"actor"`           // zero = Signalbox, or a token
	Token   string `json:"token,omitempty"` // name of the API token that asked
	Run     RunID  `json:"run,omitempty"`
	// Bisection says that the run only looks for who broke a batch.
	Bisection bool `json:"bisection,omitempty"`
	// Entries are the pull request, or those of the batch in their order; none
	// for what happens to the queue itself.
	Entries []EventEntry `json:"entries,omitempty"`
	Changes []Changed    `json:"changes,omitempty"` // of settings
}

// EventEntry is a pull request in an event.
type EventEntry struct {
	Entry        EntryID `json:"entry"`
	Submission   int64   `json:"submission"`
	Number       int64   `json:"number"`
	Title        string  `json:"title"`
	URL          string  `json:"url"`
	Author       Actor   `json:"author"`
	Head         string  `json:"head"` // the commit that is tested
	Priority     int64   `json:"priority"`
	LandedCommit string  `json:"landedCommit,omitempty"`
}

// Subject names what the event is about: the events of one subject are told in
// their order.
func (e *Event) Subject() string {
	switch {
	case len(e.Entries) == 0:
		return fmt.Sprintf("queue/%d", e.Queue)
	case strings.HasPrefix(string(e.Type), "pull_request."):
		return fmt.Sprintf("queue/%d/pr/%d", e.Queue, e.Entries[0].Number)
	default:
		return fmt.Sprintf("queue/%d/run/%s", e.Queue, e.Run)
	}
}

// Events lists what happened in a decision: before is the queue as it was, s
// the window as the decision left it.
func Events(before Queue, s *Snapshot, facts []Received, p *Plan, now time.Time) []Event {
	var events []Event
	blank := Event{At: now, Queue: p.Queue.ID, Repo: p.Queue.Repo, Branch: p.Queue.Branch}
	var last Granted // that named the state or the mode
	for _, g := range p.Granted(before, facts) {
		if g.Change.State != nil || g.Change.Mode != nil {
			last = g
		}
		settings := slices.DeleteFunc(g.Changed, func(c Changed) bool { return c.Name == "state" })
		if len(settings) > 0 {
			e := blank
			e.Type, e.Actor, e.Token, e.Changes = QueueSettingsChanged, g.By, g.Token, settings
			events = append(events, e)
		}
	}
	if before.State != p.Queue.State {
		e := blank
		e.Type, e.From, e.To, e.Message = QueueStateChanged, string(before.State), string(p.Queue.State), p.Queue.StateWhy
		if e.Message == "" {
			e.Actor, e.Token = last.By, last.Token
		}
		events = append(events, e)
	}
	for i := range p.Moves {
		events = append(events, moved(blank, s, &p.Moves[i]))
	}
	return append(events, batches(blank, s, p.Moves)...)
}

// moved is the event of one move.
func moved(e Event, s *Snapshot, m *Move) Event {
	e.Type, e.From, e.To, e.Reason, e.Message, e.Actor, e.Run = eventOf[m.To], string(m.From), string(m.To), m.Reason, m.Message, m.Actor, m.Run
	e.At = m.At
	if r := s.Runs[m.Run]; r != nil {
		e.Bisection = r.Kind == BisectionRun
	}
	e.Entries = []EventEntry{inEvent(s, m)}
	return e
}

func inEvent(s *Snapshot, m *Move) EventEntry {
	out := EventEntry{Entry: m.Entry, Submission: m.Submission, Number: m.PR}
	if e := s.Entries[m.Entry]; e != nil {
		out.Title, out.URL, out.Author, out.Head, out.Priority = e.Title, e.URL, e.Author, e.BoundHead, e.Priority
		if m.To == Merged {
			out.LandedCommit = e.LandedCommit
		}
	}
	return out
}

// batches are the events of batches: moves of two or more members of a run,
// for one reason. Members whose proof is the run of others are no batch of it.
func batches(blank Event, s *Snapshot, moves []Move) []Event {
	var events []Event
	for i := range moves {
		m := &moves[i]
		r := s.Runs[m.Run]
		if r == nil || len(r.Members) < 2 || !slices.Contains(r.Members, m.Entry) || batchEventOf[m.To] == "" {
			continue
		}
		same := func(o Move) bool {
			return o.Run == m.Run && o.From == m.From && o.To == m.To && o.Reason == m.Reason && slices.Contains(r.Members, o.Entry)
		}
		if slices.ContainsFunc(moves[:i], same) {
			continue // told with the first of them
		}
		e := moved(blank, s, m)
		e.Type = batchEventOf[m.To]
		for j := range moves[i+1:] {
			if o := &moves[i+1+j]; same(*o) {
				e.Entries = append(e.Entries, inEvent(s, o))
				if m.Reason == BisectionRequired && s.Entries[o.Entry].Group != s.Entries[m.Entry].Group {
					e.Type = BatchFailed // they are in different parts now
				}
			}
		}
		if len(e.Entries) > 1 {
			events = append(events, e)
		}
	}
	return events
}
