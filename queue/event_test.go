package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is told of a decision: one event for each move, one more for a batch
// that moved together, and what became of the queue itself.

// told are events in a few words.
func told(events []Event) string {
	lines := make([]string, len(events))
	for i, e := range events {
		line := string(e.Type) + " " + e.From + ">" + e.To
		for _, p := range e.Entries {
			line += fmt.Sprintf(" #%d", p.Number)
		}
		for _, c := range e.Changes {
			line += " " + c.Name + "=" + c.To
		}
		if e.Actor.Login+e.Token != "" {
			line += " by " + e.Actor.Login + e.Token
		}
		lines[i] = line + " (" + e.Subject() + ")"
	}
	return strings.Join(lines, "\n")
}

func TestEveryStateIsAnEventThatIsListed(t *testing.T) {
	t.Parallel()
	for _, s := range EntryStates {
		if !slices.Contains(EventTypes, eventOf[s]) {
			t.Errorf("%s is told as %q", s, eventOf[s])
		}
	}
}

func TestWhatIsToldOfADecision(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	before := Queue{ID: 7, Repo: Repo{ID: 3, Host: "github.com", Owner: "acme", Name: "app"}, Branch: "main", State: Running, Settings: DefaultSettings()}
	two, yes, paused := int64(2), true, Paused
	by := func(login, token string, c Change) Fact {
		return ChangeRequested{Change: c, By: Actor{Login: login}, Token: token, At: now}
	}
	move := func(pr int64, from, to EntryState, why Reason, run RunID) Move {
		return Move{Entry: EntryID(fmt.Sprint("e", pr)), PR: pr, Submission: 1, From: from, To: to, At: now, Reason: why, Run: run}
	}
	for _, tt := range []struct {
		name  string
		facts []Fact
		state State
		why   string
		moves []Move
		group map[int64]GroupID // of entries after the decision
		want  string
	}{
		{name: "nothing", state: Running},
		{name: "a pull request by itself", state: Running, moves: []Move{
			move(1, Never, NotReady, SubmittedByUser, ""), move(1, NotReady, Pending, NowReady, ""), move(1, Pending, Testing, TestRunStarted, "alone"),
		}, want: `pull_request.submitted >not_ready #1 (queue/7/pr/1)
pull_request.queued not_ready>pending #1 (queue/7/pr/1)
pull_request.testing pending>testing #1 (queue/7/pr/1)`},
		{name: "a batch", state: Running, moves: []Move{
			move(1, Pending, Testing, TestRunStarted, "both"), move(3, Pending, Testing, TestRunStarted, "alone"), move(2, Pending, Testing, TestRunStarted, "both"),
		}, want: `pull_request.testing pending>testing #1 (queue/7/pr/1)
pull_request.testing pending>testing #3 (queue/7/pr/3)
pull_request.testing pending>testing #2 (queue/7/pr/2)
pull_request_batch.testing pending>testing #1 #2 (queue/7/run/both)`},
		{name: "one of a batch leaves, the other waits again", state: Running, moves: []Move{
			move(1, Testing, Cancelled, PRClosed, "both"), move(2, Testing, Pending, GroupChanged, "both"),
		}, want: `pull_request.canceled testing>cancelled #1 (queue/7/pr/1)
pull_request.queued testing>pending #2 (queue/7/pr/2)`},
		{name: "a batch is split", state: Running, group: map[int64]GroupID{1: 5, 2: 6}, moves: []Move{
			move(1, PendingFailure, Pending, BisectionRequired, "both"), move(2, PendingFailure, Pending, BisectionRequired, "both"),
		}, want: `pull_request.queued pending_failure>pending #1 (queue/7/pr/1)
pull_request.queued pending_failure>pending #2 (queue/7/pr/2)
pull_request_batch.failed pending_failure>pending #1 #2 (queue/7/run/both)`},
		{name: "a part of a bisection waits for what it stands on", state: Running, group: map[int64]GroupID{1: 5, 2: 5}, moves: []Move{
			move(1, Testing, Pending, BisectionRequired, "both"), move(2, Testing, Pending, BisectionRequired, "both"),
		}, want: `pull_request.queued testing>pending #1 (queue/7/pr/1)
pull_request.queued testing>pending #2 (queue/7/pr/2)
pull_request_batch.restarted testing>pending #1 #2 (queue/7/run/both)`},
		{name: "proved by the run of a batch, and no part of it", state: Running, moves: []Move{
			move(3, TestsPassed, Merged, MergedByQueue, "both"), move(1, TestsPassed, Merged, MergedByQueue, "both"), move(2, TestsPassed, Merged, MergedByQueue, "both"),
		}, want: `pull_request.merged tests_passed>merged #3 (queue/7/pr/3)
pull_request.merged tests_passed>merged #1 (queue/7/pr/1)
pull_request.merged tests_passed>merged #2 (queue/7/pr/2)
pull_request_batch.merged tests_passed>merged #1 #2 (queue/7/run/both)`},
		{name: "people change the queue", state: Paused, facts: []Fact{
			by("ann", "", Change{Concurrency: &two}), by("", "terraform", Change{State: &paused, Batch: &yes}), by("ben", "", Change{Concurrency: &two}),
		}, want: `queue.settings_changed > concurrency=2 by ann (queue/7)
queue.settings_changed > batch=true by terraform (queue/7)
queue.state_changed running>paused by terraform (queue/7)`},
		{name: "the queue pauses itself", state: Paused, why: "What landed is not what was tested.", facts: []Fact{by("ann", "", Change{State: &paused})},
			want: `queue.state_changed running>paused (queue/7)`},
	} {
		s := NewSnapshot(before)
		for pr := int64(1); pr <= 3; pr++ {
			id := EntryID(fmt.Sprint("e", pr))
			s.Entries[id] = &Entry{ID: id, Group: tt.group[pr], PullRequest: PullRequest{Number: pr, Title: "Change"}, LandedCommit: "c"}
		}
		s.Runs["both"] = &Run{ID: "both", Kind: BisectionRun, Members: []EntryID{"e1", "e2"}}
		s.Runs["alone"] = &Run{ID: "alone", Members: []EntryID{"e3"}}
		s.Queue.State, s.Queue.StateWhy = tt.state, tt.why
		p := Plan{Queue: s.Queue, Moves: tt.moves, Answers: map[int64]Answer{}}
		var facts []Received
		for i, f := range tt.facts {
			facts = append(facts, Received{ID: int64(i + 1), Fact: f})
		}
		events := Events(before, s, facts, &p, now)
		if got := told(events); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
		for _, e := range events {
			if e.Run == "both" != e.Bisection {
				t.Errorf("%s: %s of run %q says bisection %t", tt.name, e.Type, e.Run, e.Bisection)
			}
			if landed := len(e.Entries) > 0 && e.Entries[0].LandedCommit != ""; landed != (e.To == string(Merged)) {
				t.Errorf("%s: %s names a landed commit: %t", tt.name, e.Type, landed)
			}
		}
	}
}

// A wish that was refused made no difference.
func TestRefusedWishesAreNotTold(t *testing.T) {
	t.Parallel()
	two := int64(2)
	q := Queue{State: Running, Settings: DefaultSettings()}
	p := Plan{Queue: q, Answers: map[int64]Answer{1: {Refused: RefusedSwitching}}}
	facts := []Received{{ID: 1, Fact: ChangeRequested{Change: Change{Concurrency: &two}}}}
	if events := Events(q, NewSnapshot(q), facts, &p, time.Time{}); len(events) != 0 {
		t.Errorf("told: %s", told(events))
	}
}
