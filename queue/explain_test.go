package queue

import (
	"testing"
	"time"
)

// An estimate is the usual test time from where each group stands; where
// nothing can be said, nothing is said.
func TestEstimate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	s := NewSnapshot(Queue{State: Running, Branch: "main", Settings: DefaultSettings()})
	s.Queue.Concurrency = 2
	add := func(number int64, state EntryState, group GroupID) *Entry {
		e := &Entry{ID: EntryID(rune('a' + number)), State: state, Group: group, Submission: 1,
			PullRequest: PullRequest{Number: number, Open: true, Base: "main"}, AdmittedAt: now.Add(time.Duration(number))}
		s.Entries[e.ID] = e
		if group != 0 {
			run := &Run{ID: RunID(rune('r' + number)), Group: group, State: RunTesting, StartedAt: now.Add(-time.Duration(number) * time.Minute), Members: []EntryID{e.ID}, Chain: []Step{{Entry: e.ID}}}
			s.Runs[run.ID] = run
			s.Groups[group] = &Group{ID: group, Members: []EntryID{e.ID}, Run: run.ID}
			s.Line = append(s.Line, group)
		}
		return e
	}
	first, second := add(1, Testing, 1), add(2, Testing, 2)
	third, fourth := add(3, Pending, 0), add(4, Pending, 0)
	notReady := add(5, NotReady, 0)

	estimate := func(e *Entry) time.Time { return Explain(s, e, now).EstimatedMergeAt }
	if got := estimate(first); !got.IsZero() {
		t.Errorf("without history the estimate is %v, want none", got)
	}
	s.TypicalTest = 10 * time.Minute
	for _, c := range []struct {
		what string
		e    *Entry
		want time.Time
	}{
		{"the first has been tested for a minute", first, now.Add(9 * time.Minute)},
		{"the second started earlier but lands behind the first", second, now.Add(9 * time.Minute)},
		{"the third is tested in the next round", third, now.Add(20 * time.Minute)},
		{"and so is the fourth", fourth, now.Add(20 * time.Minute)},
		{"who is not ready has no estimate", notReady, time.Time{}},
	} {
		if got := estimate(c.e); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	s.Queue.State = Paused
	if got := estimate(first); !got.IsZero() {
		t.Errorf("in a paused queue the estimate is %v, want none", got)
	}
}
