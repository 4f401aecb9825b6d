package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// What people see on a pull request while it goes through a queue, with real
// decisions and the real workers.

func TestTheLifeOfAPullRequestIsToldInOneComment(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	seen := func(what, status, conclusion string) {
		t.Helper()
		bodies := s.on(7)
		if len(bodies) != 1 || !strings.Contains(bodies[0], "**Signalbox: "+what+"**") {
			t.Errorf("comments = %q, want one that says %q", bodies, what)
		}
		if got := s.status("0000007abc"); got.Status != status || got.Conclusion != conclusion || got.Name != "Signalbox (main)" {
			t.Errorf("status check = %+v, want %s %s", got, status, conclusion)
		}
	}
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{}))
	seen("waiting until it is ready", "queued", "")
	s.ready[7] = queue.Mergeable
	s.learn(queue.MergeabilitySeen{PR: 7, Head: "0000007abc", Value: queue.Mergeable})
	seen("testing", "in_progress", "")
	for i, told := range s.statuses { // none was made before the first, and from then on there may be one
		if told.New != (i == 0) {
			t.Errorf("status %d: new is %t", i+1, told.New)
		}
	}
	s.ci(7, "success")
	seen("merged", "completed", "success")
	if e := s.entry(1, 7); e.State != queue.Merged || s.heads["main"] != e.LandedCommit {
		t.Errorf("entry is %s at %s, main at %s, want it landed", e.State, e.LandedCommit, s.heads["main"])
	}
}

// An edited comment sends no mail, so a failure makes one new one
// (dora-rs/dora#1753, oppia/oppiabot#352).
func TestAFailureMakesExactlyOneNewComment(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	s.says("wil", 7, 70, merges(queue.Command{}))
	s.ci(7, "failure")
	if e := s.entry(1, 7); e.State != queue.Failed {
		t.Fatalf("entry is %s, want failed", e.State)
	}
	for range 3 { // late and repeated work
		if _, err := s.perform(queue.SyncPR{Queue: 1, Entry: "id-1", PR: 7}); err != nil {
			t.Fatal(err)
		}
	}
	s.e.upTo = map[queue.EntryID]int64{} // and work of another copy
	if _, err := s.perform(queue.SyncPR{Queue: 1, Entry: "id-1", PR: 7}); err != nil {
		t.Fatal(err)
	}
	bodies := s.on(7)
	if len(bodies) != 2 {
		t.Fatalf("comments = %q, want the sticky one and the notice", bodies)
	}
	for _, want := range []string{"@wil", "REQUIRED_STATUS_FAILED", "[`build`](https://ci.example.com/1)", "**What to do:**"} {
		if !strings.Contains(bodies[1], want) {
			t.Errorf("the notice has no %q:\n%s", want, bodies[1])
		}
	}
	if got := s.status("0000007abc"); got.Conclusion != "failure" {
		t.Errorf("status check = %+v, want a failure", got)
	}
	// A second submission that fails is another ending.
	s.clock.advance(time.Minute)
	s.says("wil", 7, 71, merges(queue.Command{}))
	s.clock.advance(time.Minute)
	s.ci(7, "failure")
	if got := len(s.on(7)); got != 3 {
		t.Errorf("comments after the second failure = %d, want 3", got)
	}
}

func TestAPushEndsTheStatusCheckOnTheOldCommit(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]queue.Mergeability{"while it waits to be ready": queue.NotMergeable, "while it is tested": queue.Mergeable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			pr := s.open(7, "main")
			s.ready[7] = ready
			s.says("wil", 7, 70, merges(queue.Command{}))
			pr.Head, pr.UpdatedAt = "ffff007", s.clock.Now().Add(time.Second)
			s.e.upTo = map[queue.EntryID]int64{} // a restart, or another copy
			s.learn(queue.PullRequestSeen{PullRequest: *pr})
			if got := s.status("0000007abc"); got.Status != "completed" || got.Conclusion != "cancelled" {
				t.Errorf("status check on the old commit = %+v, want it cancelled", got)
			}
			if e := s.entry(1, 7); e.Active() {
				if got := s.status("ffff007"); got.Status != "queued" {
					t.Errorf("status check on the new commit = %+v, want queued", got)
				}
			} else if bodies := s.on(7); len(bodies) != 2 || !strings.Contains(bodies[1], "PR_PUSHED_TO") {
				t.Errorf("comments = %q, want a notice of the push", bodies)
			}
		})
	}
}

// The check on the old commit is told of until it is completed there: an outage
// of the host meanwhile loses nothing. What ended on a commit stays as it ended.
func TestTheStatusCheckOnAnOldCommitIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	pr := s.open(7, "main")
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{}))
	tell := func(failing bool) {
		t.Helper()
		e := s.entry(1, 7)
		s.e.upTo = map[queue.EntryID]int64{}
		if err := s.attempt(queue.SyncPR{Queue: 1, Entry: e.ID, PR: 7}, 1); (err != nil) != failing {
			t.Fatalf("telling: %v", err)
		}
	}
	pr.Head, pr.UpdatedAt = "ffff007", s.clock.Now().Add(time.Second)
	s.change(1, func(w *queue.Snapshot) {
		e := w.ByPR(7)
		e.PullRequest, e.BoundHead, e.Version = *pr, pr.Head, e.Version+1
	})
	s.faults["Status"] = fault{err: errors.New("timeout")}
	tell(true)
	delete(s.faults, "Status")
	tell(false)
	if got := s.status("0000007abc"); got.Conclusion != "cancelled" {
		t.Errorf("status check on the old commit = %+v, want it cancelled", got)
	}
	s.change(1, func(w *queue.Snapshot) {
		e := w.ByPR(7)
		e.State, e.Reason, e.Version = queue.Failed, queue.MergeConflict, e.Version+1
	})
	tell(false)
	s.change(1, func(w *queue.Snapshot) {
		e := w.ByPR(7)
		e.State, e.Reason, e.Head, e.BoundHead, e.Version = queue.NotReady, queue.SubmittedByUser, "eeee007", "eeee007", e.Version+1
	})
	tell(false)
	if got := s.status("ffff007"); got.Conclusion != "failure" {
		t.Errorf("status check on the commit that failed = %+v, want it to stay failed", got)
	}
}

func TestWhatChangesWhileItIsToldIsToldToo(t *testing.T) {
	t.Parallel()
	s := staged(t)
	changed := false
	s.during = func(method string) {
		if method == "Comment" && !changed {
			changed = true
			s.change(1, func(w *queue.Snapshot) {
				e := w.Entries["e7"]
				e.State, e.Reason, e.Message, e.Version = queue.Cancelled, queue.CancelledByUser, "Cancelled by @ada.", e.Version+1
			})
		}
	}
	if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1); err != nil {
		t.Fatal(err)
	}
	for _, body := range s.on(7) {
		if strings.Contains(body, texts.StickyMarker) && !strings.Contains(body, "Signalbox: cancelled") {
			t.Errorf("the comment tells what no longer is:\n%s", body)
		}
	}
	if got := s.status("0000007abc").Conclusion; got != "cancelled" {
		t.Errorf("status check = %s, want cancelled", got)
	}
}

func TestAChangeThatNobodySeesIsNotToldAgain(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.during = func(string) {
		s.change(1, func(w *queue.Snapshot) { w.Entries["e7"].Version++ })
		s.clock.advance(time.Minute)
	}
	if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1); err != nil {
		t.Fatal(err)
	}
	if got := s.calls["Comment"]; got != 1 {
		t.Errorf("the comment was written %d times, want once", got)
	}
}

// One telling tells all changes up to then, and those that follow it find that
// out; a change after it is told again.
func TestWhatHasBeenToldIsNotToldAgain(t *testing.T) {
	t.Parallel()
	s := staged(t)
	for i, version := range []int64{5, 5, 5, 6, 6} {
		s.change(1, func(w *queue.Snapshot) { w.Entries["e7"].Version = version })
		if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1); err != nil {
			t.Fatal(err)
		}
		if got, want := s.calls["Comment"], 1+i/3; got != want {
			t.Errorf("after %d jobs the comment was written %d times, want %d", i+1, got, want)
		}
	}
}

func TestWhatIsTurnedOffIsNotTold(t *testing.T) {
	t.Parallel()
	s := staged(t)
	s.change(1, func(w *queue.Snapshot) { w.Queue.CommentsEnabled, w.Queue.StatusCheckEnabled = false, false })
	if err := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1); err != nil {
		t.Fatal(err)
	}
	if n := s.calls["Comment"] + s.calls["Notice"] + s.calls["Status"]; n != 0 {
		t.Errorf("%d calls were made, want none", n)
	}
}

func TestARefusedStatusCheckDoesNotKeepTheCommentFromBeingWritten(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"refused":  &gitprovider.Error{Kind: gitprovider.Denied, Message: "The App needs the permission checks: write."},
		"for once": errors.New("timeout"),
	} {
		s := staged(t)
		s.faults["Status"] = fault{err: err}
		got := s.attempt(queue.SyncPR{Queue: 1, Entry: "e7", PR: 7}, 1)
		if again := got != nil; again != (name == "for once") {
			t.Errorf("%s: error = %v; want one only for what may work later", name, got)
		}
		if len(s.on(7)) != 2 {
			t.Errorf("%s: comments = %d, want the notice and the sticky one", name, len(s.on(7)))
		}
	}
}

func TestAPullRequestThatMovedToAnotherQueueHasOneComment(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	pr := s.open(7, "main")
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{}))
	pr.Base, pr.UpdatedAt = "release", s.clock.Now().Add(time.Second)
	s.learn(queue.PullRequestSeen{PullRequest: *pr})
	s.clock.advance(time.Minute)
	s.says("wil", 7, 71, merges(queue.Command{}))
	s.says("wil", 7, 72, queue.Command{Verb: queue.VerbStatus})
	main := s.entry(1, 7)
	if _, err := s.perform(queue.SyncPR{Queue: 1, Entry: main.ID, PR: 7}); err != nil {
		t.Fatal(err)
	}
	var sticky []string
	for _, body := range s.on(7) {
		if strings.Contains(body, texts.StickyMarker) {
			sticky = append(sticky, body)
		}
	}
	if len(sticky) != 1 || !strings.Contains(sticky[0], "queue of `release`") {
		t.Errorf("sticky comments = %q, want one, about the queue of release", sticky)
	}
}
