package web

import (
	"testing"

	"signalbox/queue"
)

// Above the picture stands in words what the queue does.
func TestAQueueSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"at work", func(*world) {}, "Next to land: #11. It passed and lands next. 2 more are tested behind it, 1 waits for a turn, 1 is not ready."},
		{"nobody", func(w *world) { w.s.Line, w.s.Entries = nil, map[queue.EntryID]*queue.Entry{} }, "Nobody is in the queue. A comment /merge on a pull request begins it."},
		{"nothing in line", func(w *world) {
			w.s.Line = nil
			for n, e := range w.s.Entries {
				if e.Group != 0 {
					delete(w.s.Entries, n)
				}
			}
		}, "Nothing is being tested in the line. 1 waits for a turn, 1 is not ready."},
		{"a batch alone", func(w *world) { w.s.Line = w.s.Line[1:]; w.s.Runs["run-two"].Chain = w.s.Runs["run-two"].Chain[1:] },
			"#12 and #13 land next, as soon as “lint” has passed. 1 waits for a turn, 1 is not ready."},
		{"a batch of many", func(w *world) {
			for n := range int64(4) {
				e := w.add(30+n, "More", queue.Testing, queue.TestRunStarted, 1)
				e.Group = 1
				w.s.Groups[1].Members = append(w.s.Groups[1].Members, e.ID)
			}
			w.s.Line = w.s.Line[:1]
		}, "Next to land: #11, #30, #31, #32 and #33. It passed and lands next. 1 waits for a turn, 1 is not ready."},
		{"a failed check", func(w *world) {
			w.s.Line = w.s.Line[1:]
			r := w.s.Runs["run-two"]
			r.Chain = r.Chain[1:]
			for key, report := range r.Checks {
				report.Result = "failure"
				r.Checks[key] = report
			}
		}, "Next to land: #12 and #13. Required checks still running or missing on ddddddd: unit. 1 waits for a turn, 1 is not ready."},
		{"a search", func(w *world) {
			w.s.Queue.Bisections = make([]queue.Bisection, 1)
			w.s.Line = nil
			w.s.Parts = []queue.GroupID{1}
		},
			"Nothing is being tested in the line. 1 waits for a turn, 1 is not ready. A batch failed, and who broke it is being found out."},
		{"lanes", func(w *world) {
			w.s.Queue.Mode, w.s.Targets = queue.Parallel, map[queue.TargetsID]queue.TargetSet{1: queue.NewTargetSet([]string{"a"}), 2: queue.NewTargetSet([]string{"b"})}
			for n, targets := range map[int64]queue.TargetsID{11: 1, 12: 2, 13: 2} {
				w.s.ByPR(n).BoundTargets = targets
			}
			w.s.Runs["run-two"].Chain = w.s.Runs["run-two"].Chain[1:]
		}, "#11, #12 and #13 land next, whichever passes first. 1 waits for a turn, 1 is not ready."},
	} {
		w := newWorld()
		tt.change(w)
		free, notReady := outside(w.s)
		if got := summaryOf(w.s, len(free), len(notReady), noon); got != tt.want {
			t.Errorf("%s:\n %s, want\n %s", tt.name, got, tt.want)
		}
	}
}
