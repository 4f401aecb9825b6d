package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// What people are told about a pull request is made from a narrow read. At every
// step of a queue's life, in both modes, it says what the whole window says, and
// brings the same run and the same stack.
func TestANarrowReadSaysWhatTheWindowSays(t *testing.T) {
	t.Parallel()
	for _, mode := range []queue.Mode{queue.Single, queue.Parallel} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.put(func(q *queue.Settings) { q.Mode, q.Concurrency, q.NotReadyTimeoutHours = mode, 3, 5 })
			const pulls = 9
			var wishes []queue.Fact
			for pr := range int64(pulls) {
				wishes = append(wishes, submitted(pr+1))
				w.upload(pr+1, fmt.Sprint("head", pr+1), fmt.Sprint("target", pr%3))
			}
			stack := submitted(pulls + 1)
			stack.PullRequest.Base, stack.Stack = "below", []queue.PullRequest{
				{Number: pulls + 2, Open: true, Base: "main", Head: fmt.Sprint("head", pulls+2), HeadRef: "below"}}
			passed := liveRun("passed", 900, "c900", "b900")
			passed.State, passed.StartedAt, passed.EndedAt = queue.RunPassed, epoch.Add(-20*time.Minute), epoch
			w.store(func(p *queue.Plan) { p.Runs = []queue.Run{passed} }) // so that there is an estimate
			w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, append(wishes, stack)...))
			seen := map[queue.EntryState]int{}
			for range 12 {
				for {
					_, ok, err := w.UpdateDue(t.Context(), epoch, queue.Reconcile)
					w.must(err)
					if !ok {
						break
					}
					for pr := range int64(pulls + 3) {
						w.sameRead(pr, seen)
					}
				}
				if len(w.perform()) == 0 {
					break
				}
			}
			for _, state := range []queue.EntryState{queue.NotReady, queue.Pending, queue.Testing, queue.Merged} {
				if seen[state] == 0 {
					t.Errorf("nothing was ever %s; seen: %v", state, seen)
				}
			}
		})
	}
}

// sameRead compares what both ways of reading say of one pull request.
func (w *world) sameRead(pr int64, seen map[queue.EntryState]int) {
	w.t.Helper()
	whole, err := w.Read(w.t.Context(), w.queue.ID, pr)
	w.must(err)
	narrow, err := w.ReadPRs(w.t.Context(), w.queue.ID, pr)
	w.must(err)
	for what, find := range map[string]func(*queue.Snapshot) *queue.Entry{
		"by itself":  func(s *queue.Snapshot) *queue.Entry { return s.ByPR(pr) },
		"in a stack": func(s *queue.Snapshot) *queue.Entry { return s.StackWith(pr) },
	} {
		want, got := find(whole), find(narrow)
		if (want == nil) != (got == nil) {
			w.t.Fatalf("#%d %s: in the window %v, alone %v", pr, what, want, got)
		}
		if want == nil {
			continue
		}
		seen[want.State]++
		wantX, gotX := queue.Explain(whole, want, epoch), queue.Explain(narrow, got, epoch)
		wantE, gotE := *want, *got
		if whole.Queue.Mode == queue.Single || !want.Active() {
			gotE.Targets, wantE.Targets = 0, 0 // nobody looks at them
		}
		if diff := cmp.Diff(wantE, gotE) + cmp.Diff(wantX, gotX) + cmp.Diff(whole.Runs[wantX.Run], narrow.Runs[gotX.Run]) +
			cmp.Diff(whole.Queue, narrow.Queue); diff != "" {
			w.t.Errorf("#%d %s, %s:\n%s", pr, what, want.State, diff)
		}
	}
}
