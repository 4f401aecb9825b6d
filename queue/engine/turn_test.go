package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/queue"
)

// What is told on a pull request is looked for first and then written. Two who
// do that at once, in one copy of the server or in two, both find nothing; so
// they take turns.
func TestTwoWhoTellAtOnceTellOnce(t *testing.T) {
	t.Parallel()
	sync7 := queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}
	help := queue.AnswerCommand{Repo: 1, Command: queue.CommandAsked{
		PR: 7, Review: 70, By: queue.Actor{Login: "wil", ID: 2}, Command: queue.Command{Verb: queue.VerbHelp}, At: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}}
	land := queue.Land{Queue: 1, Landing: 1, Branch: "main", Method: queue.Squash, Steps: []queue.StepSpec{{Step: queue.Step{Entry: "e7", PR: 7, Commit: "c7", Tree: "t7"}}}}
	stacked := queue.SyncPR{Queue: 1, Entry: "e9", PR: 9} // 7 is in its stack
	for name, jobs := range map[string][2]queue.Action{
		"two jobs":                   {sync7, sync7},
		"two answers to one command": {help, help},
		"two jobs for a stack":       {stacked, stacked},
		"one landing twice":          {land, land},
	} {
		for _, copies := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s in %d copies", name, copies), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := staged(t)
					s.change(1, func(w *queue.Snapshot) {
						e := *w.Entries["e7"]
						e.ID, e.Number, e.Stack = "e9", 9, []queue.Layer{{PullRequest: *s.prs[7], BoundHead: s.prs[7].Head}}
						w.Entries[e.ID] = &e
						w.Queue.StateLabelsEnabled = true
					})
					s.open(9, "change-7")
					s.pause = func() { time.Sleep(time.Minute) }
					var both sync.WaitGroup
					for i, job := range jobs {
						one := *s
						if i < copies-1 {
							one.e = anotherCopy(t, s)
						}
						both.Go(func() {
							if err := one.attempt(job, 1); err != nil {
								t.Error(err)
							}
						})
					}
					both.Wait()
					seen := map[string]int{}
					for _, body := range s.on(7) {
						seen[body[:strings.Index(body, "-->")]]++
					}
					for marker, n := range seen {
						if n != 1 {
							t.Errorf("%d comments carry %s, want one", n, marker)
						}
					}
					if len(seen) == 0 {
						t.Error("nothing was written")
					}
				})
			})
		}
	}
}

// Ten changes within a second, told by jobs of two copies that overlap as they
// like: what stands there in the end is the last one, in one comment.
func TestTenChangesInASecondEndWithTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := staged(t)
		s.change(1, func(w *queue.Snapshot) { w.Queue.StateLabelsEnabled = true })
		s.pause = func() { time.Sleep(30 * time.Millisecond) }
		other := *s
		other.e = anotherCopy(t, s)
		states := append(slices.Repeat([]queue.EntryState{queue.NotReady, queue.Pending, queue.Cancelled}, 3), queue.Merged)
		var jobs sync.WaitGroup
		for i, state := range states {
			s.change(1, func(w *queue.Snapshot) {
				e := w.Entries["e7"]
				e.State, e.Reason, e.Message, e.Version = state, queue.CancelledByUser, "", e.Version+1
				if state == queue.Merged {
					e.Reason = queue.MergedByQueue
				}
			})
			who := []*stage{s, &other}[i%2]
			jobs.Go(func() {
				if _, err := who.perform(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(90 * time.Millisecond)
		}
		jobs.Wait()
		bodies := s.on(7)
		if len(bodies) != 1 || !strings.Contains(bodies[0], "**Signalbox: merged**") {
			t.Errorf("comments = %q, want one that says merged", bodies)
		}
		if got := s.status("0000007abc"); got.Conclusion != "success" {
			t.Errorf("status check = %+v, want success", got)
		}
		if got := strings.Join(s.prs[7].Labels, ", "); got != "signalbox: merged" {
			t.Errorf("labels = %s, want signalbox: merged", got)
		}
	})
}

// anotherCopy is an engine that shares the store and the host of another.
func anotherCopy(t *testing.T, s *stage) *Engine {
	e, err := New(Config{Store: s.memory, Host: s.world, Clock: s.clock, Site: s.e.site})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAJobThatHadNoTurnIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.memory.breaks("InTurn", errBroken)
	if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1); err == nil {
		t.Error("telling without a turn was no failure")
	}
	if n := s.calls["Comment"] + s.calls["Notice"] + s.calls["Status"] + s.calls["Labels"]; n != 0 {
		t.Errorf("%d calls were made without a turn", n)
	}
	s.memory.breaks("InTurn", nil)
	if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 2); err != nil || len(s.on(7)) == 0 {
		t.Errorf("then: %v with comments %q", err, s.on(7))
	}
}
