package queue

import (
	"fmt"
	"testing"
	"time"
)

// What a picture of a queue says about the future follows the rules by which
// the queue forms groups.
func TestForecast(t *testing.T) {
	t.Parallel()
	free := func(s *Snapshot, number int64, change func(*Entry)) {
		e := &Entry{ID: EntryID(fmt.Sprint(number)), State: Pending, Priority: Medium,
			PullRequest: PullRequest{Number: number}, AdmittedAt: time.Unix(number, 0)}
		if change != nil {
			change(e)
		}
		s.Entries[e.ID] = e
	}
	batches := func() *Snapshot {
		s := NewSnapshot(Queue{State: Running, Settings: DefaultSettings()})
		s.Queue.Batch, s.Queue.BatchingMinSize = true, 2
		return s
	}
	single := batches()
	free(single, 1, nil)
	free(single, 2, func(e *Entry) { e.NoBatch = true })
	free(single, 3, nil)
	free(single, 4, func(e *Entry) { e.ConflictsWith = "1" })
	free(single, 5, nil)
	free(single, 6, func(e *Entry) { e.Priority = Urgent })
	free(single, 7, nil)

	lanes := batches()
	lanes.Queue.Mode = Parallel
	for i, names := range [][]string{{"a"}, {"b"}, {"a"}, {"b"}, {"c"}} {
		id := TargetsID(i + 1)
		lanes.Targets[id] = NewTargetSet(names)
		free(lanes, int64(id), func(e *Entry) { e.Targets = id })
	}
	off := batches()
	off.Queue.Batch = false
	free(off, 1, nil)
	free(off, 2, nil)
	free(off, 3, nil)
	adaptive := batches()
	adaptive.Queue.Speculation, adaptive.Queue.Concurrency, adaptive.Queue.BatchingMinSize = AdaptiveSpeculation, 3, 8
	adaptive.Predicted = map[EntryID]float64{"1": 0.5}
	for n := range int64(6) {
		free(adaptive, n+1, nil)
	}
	for _, tt := range []struct {
		name string
		s    *Snapshot
		most int
		want string
	}{
		{"a batch ends before one that goes alone, and a conflict waits", single, 100, "[[6] [1] [2] [3 5] [7]]"},
		{"a batch of lanes takes what overlaps", lanes, 100, "[[1 3] [2 4] [5]]"},
		{"without batches everybody goes alone", off, 2, "[[1] [2]]"},
		{"who will probably fail goes alone, and batches are as large as all who wait ask for", adaptive, 3, "[[1] [2 3]]"},
	} {
		if got := fmt.Sprint(Forecast(tt.s, tt.most)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// In single mode a group is on top of all before it, in parallel mode of those
// that share a target, directly or through others.
func TestAhead(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(Queue{Settings: DefaultSettings()})
	for i, names := range [][]string{{"a"}, {"b"}, {"a", "c"}, {"c"}} {
		id := GroupID(i + 1)
		s.Targets[TargetsID(id)] = NewTargetSet(names)
		e := &Entry{ID: EntryID(fmt.Sprint(id)), Group: id, BoundTargets: TargetsID(id)}
		s.Entries[e.ID], s.Groups[id] = e, &Group{ID: id, Members: []EntryID{e.ID}}
		s.Line = append(s.Line, id)
	}
	if got := fmt.Sprint(Ahead(s)); got != "map[2:[1] 3:[1 2] 4:[1 2 3]]" {
		t.Errorf("single mode: %s", got)
	}
	s.Queue.Mode = Parallel
	if got := fmt.Sprint(Ahead(s)); got != "map[3:[1] 4:[1 3]]" {
		t.Errorf("parallel mode: %s", got)
	}
}
