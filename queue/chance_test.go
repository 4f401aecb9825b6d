package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// endings are n submissions of which the first failed fail.
func endings(failed, n int, like Ended) []Ended {
	list := make([]Ended, n)
	for i := range list {
		list[i] = like
		list[i].PR, list[i].Failed = like.PR+int64(i), i < failed
	}
	return list
}

// What is expected of a pull request follows what happened before: how often they
// fail here, its author's, those with as many targets, and itself before. Of a few
// endings little follows, and each estimate says what was counted.
func TestWhatIsExpectedOfAPullRequest(t *testing.T) {
	t.Parallel()
	calm := endings(5, 100, Ended{PR: 100, Author: 1, Targets: 3})
	wide := append(endings(0, 50, Ended{PR: 100, Targets: 2}), endings(10, 20, Ended{PR: 300, Targets: 40})...)
	for name, tt := range map[string]struct {
		recent      []Ended
		author      int64
		targets     int
		least, most float64
		says        string
	}{
		"nothing has ended yet":          {nil, 1, 0, 0.049, 0.051, "0 of the last 0 here."},
		"a stranger":                     {calm, 2, 0, 0.049, 0.051, "5 of the last 100 here."},
		"somebody like all others":       {calm, 1, 3, 0.045, 0.055, "5 of 100 of its author, 5 of 100 with as many targets."},
		"one who failed once":            {append(endings(1, 1, Ended{PR: 1, Author: 2}), calm...), 2, 0, 0.06, 0.2, "1 of 1 of its author."},
		"one who fails often":            {append(endings(6, 8, Ended{PR: 20, Author: 2}), calm...), 2, 0, 0.3, 0.6, "6 of 8 of its author."},
		"one with few targets":           {wide, 0, 2, 0.1, 0.15, "10 of 70 with as many targets."},
		"one with many targets":          {wide, 0, 40, 0.2, 0.5, "10 of 20 with as many targets."},
		"one that failed before":         {append(endings(1, 1, Ended{PR: 7, Author: 9}), calm...), 0, 0, likelyFails, 0.6, "1 of 1 earlier submissions of its own."},
		"one that failed, and landed":    {append(endings(1, 2, Ended{PR: 7}), calm...), 0, 0, 0.2, 0.6, "1 of 1 earlier submissions of its own."},
		"in a queue where all fail":      {endings(200, 200, Ended{PR: 100}), 0, 0, 0.9, 0.95, "200 of the last 200 here."},
		"in a queue where nobody failed": {endings(0, 200, Ended{PR: 100}), 0, 0, 0, 0.01, "0 of the last 200 here."},
	} {
		s := NewSnapshot(Queue{State: Running, Settings: DefaultSettings()})
		s.Queue.Mode, s.Queue.Speculation, s.Recent = Parallel, AdaptiveSpeculation, tt.recent
		var names []string
		for i := range tt.targets {
			names = append(names, fmt.Sprint(i))
		}
		s.Targets[1] = NewTargetSet(names)
		e := &Entry{ID: "e", State: Pending, Targets: 1, PullRequest: PullRequest{Number: 7, Author: Actor{ID: tt.author}}}
		s.Entries[e.ID] = e
		got := (&decision{s: s, before: s}).chance(e)
		if got.fails < tt.least || got.fails > tt.most || !strings.HasSuffix(got.why(), tt.says) {
			t.Errorf("%s: %.3f, not within %v and %v: %s", name, got.fails, tt.least, tt.most, got.why())
		}
	}
}

// Only what says something about a pull request is remembered, the newest first.
func TestWhichEndingsAreRemembered(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(Queue{Settings: DefaultSettings()})
	s.Entries["a"] = &Entry{ID: "a", PullRequest: PullRequest{Author: Actor{ID: 5}}}
	for i, m := range []Move{
		{To: Merged, Reason: MergedByQueue}, {To: PendingFailure, Reason: RequiredStatusFailed},
		{To: Failed, Reason: RequiredStatusFailed}, {To: Failed, Reason: MergeConflict},
		{To: Cancelled, Reason: PRClosed}, {To: Merged, Reason: MergedByHand}, {To: Failed, Reason: TestRunTimeout},
	} {
		m.Entry, m.PR = "a", int64(i)
		s.Remember(m)
	}
	want := []Ended{{PR: 6, Author: 5, Failed: true}, {PR: 2, Author: 5, Failed: true}, {PR: 0, Author: 5}}
	if fmt.Sprint(s.Recent) != fmt.Sprint(want) {
		t.Errorf("%v is remembered, not %v", s.Recent, want)
	}
	for range 2 * RecentlyEnded {
		s.Remember(Move{Entry: "a", PR: 9, To: Merged, Reason: MergedByQueue})
	}
	if len(s.Recent) != RecentlyEnded {
		t.Errorf("%d endings are remembered", len(s.Recent))
	}
}

// A batch in lanes is as large as can pass by what has failed in this queue, however sure
// somebody is of each: pairs that break only together are foreseen by nobody. In one line
// what is known of each counts.
func TestABatchInLanesIsAsLargeAsTheQueueIsSure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode   Mode
		failed int // of the last 200
		want   int
	}{{Parallel, 0, 16}, {Parallel, 10, 4}, {Parallel, 30, 1}, {Single, 30, 16}} {
		settings := DefaultSettings()
		settings.Mode, settings.Speculation, settings.Concurrency = tt.mode, AdaptiveSpeculation, 1
		settings.Batch, settings.BatchingMinSize = true, 16
		s := NewSnapshot(Queue{State: Running, Settings: settings})
		s.Recent, s.Predicted = endings(tt.failed, RecentlyEnded, Ended{PR: 100}), map[EntryID]float64{}
		s.Targets[1] = NewTargetSet([]string{"everybody's"})
		for n := range 20 {
			e := &Entry{ID: EntryID(fmt.Sprintf("%02d", n)), State: Pending, Priority: Medium, Targets: 1}
			s.Entries[e.ID], s.Predicted[e.ID] = e, 0.01
		}
		if got := begin(s, time.Time{}).form(); len(got) != tt.want {
			t.Errorf("%s, %d of 200 failed: a batch of %d, want %d", tt.mode, tt.failed, len(got), tt.want)
		}
	}
}
