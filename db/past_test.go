package db_test

import (
	"testing"
	"time"

	"signalbox/queue"

	"github.com/google/go-cmp/cmp"
)

// A history has what landed and what its tests threw out, with how long its tests
// took and what it impacted; not what left for other reasons, and nothing from
// before or after.
func TestHistoryOfAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.upload(1, "h1", "a", "b")
	_, err := w.SQL().Exec(`UPDATE impacted_targets SET created_at = $1`, epoch.Add(-2*time.Hour))
	w.must(err)
	var moves []queue.Move
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	story := func(pr int64, from int, run queue.RunID, verdict, end queue.EntryState, why queue.Reason) {
		states := []queue.EntryState{queue.Never, queue.NotReady, queue.Pending, queue.Testing, verdict, end}
		reasons := []queue.Reason{queue.SubmittedByUser, queue.NowReady, queue.TestRunStarted, queue.TestRunPassed, why}
		id := newID()
		for i, why := range reasons {
			m := queue.Move{Entry: id, PR: pr, Submission: 1, From: states[i], To: states[i+1], At: at(from + i), Reason: why, Message: "m"}
			if m.To == verdict {
				m.Run = run
			}
			moves = append(moves, m)
		}
	}
	story(1, 10, "r1", queue.TestsPassed, queue.Merged, queue.MergedByQueue)
	story(2, 20, "r2", queue.PendingFailure, queue.Failed, queue.RequiredStatusFailed)
	story(3, 21, "r3", queue.TestsPassed, queue.Cancelled, queue.PRClosed)
	story(4, 22, "r4", queue.TestsPassed, queue.Merged, queue.MergedByHand)
	story(5, 500, "r5", queue.TestsPassed, queue.Merged, queue.MergedByQueue)
	one, two := liveRun("r1", 1, "c1", "b1"), liveRun("r2", 2, "c2", "b2")
	for i, r := range []*queue.Run{&one, &two} {
		r.State, r.AskedAt, r.StartedAt, r.EndedAt = queue.RunPassed, at(11), at(12), at(20+10*i)
	}
	w.store(func(p *queue.Plan) { p.Moves, p.Runs = moves, []queue.Run{one, two} })

	h, err := w.History(t.Context(), w.queue, epoch, at(400), 10)
	w.must(err)
	want := queue.History{Since: epoch, Until: at(400), Runs: 2, Testing: 26 * time.Minute, Ended: []queue.Past{
		{PR: 1, Submission: 1, ReadyAt: at(11), EndedAt: at(14), Test: 8 * time.Minute, Targets: queue.NewTargetSet([]string{"a", "b"})},
		{PR: 2, Submission: 1, ReadyAt: at(21), EndedAt: at(24), Test: 18 * time.Minute, Failed: true, Targets: queue.Everything},
	}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if h, err = w.History(t.Context(), w.queue, epoch, at(400), 1); err != nil || len(h.Ended) != 1 || h.Ended[0].PR != 2 || h.LeftOut != 1 {
		t.Errorf("the newest one: %+v, %v", h, err)
	}
	if h, err = w.History(t.Context(), w.newQueue("other"), epoch, at(400), 10); err != nil || len(h.Ended) != 0 || h.Runs != 0 {
		t.Errorf("a queue without history: %+v, %v", h, err)
	}
}
