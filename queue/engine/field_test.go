package engine

import (
	"strings"
	"testing"
	"time"

	"signalbox/queue"
	"signalbox/queue/texts"
)

// Cases from the field about what people are told, and when.

// dora-rs/dora#1753, oppia/oppiabot#352, bors-ng/bors-ng#880: hosts send no mail
// for an edited comment, so authors missed failures, while threads filled with
// progress. The whole life of a pull request that fails: one comment that is
// edited, and one new one at the end, which calls the author, has the reason,
// the failing check with its link, and the next step.
func TestBC86OneNewCommentForAFailureAndEditsForTheRest(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{}))
	s.clock.advance(time.Minute)
	s.ready[7] = queue.Mergeable
	s.learn(queue.MergeabilitySeen{PR: 7, Head: s.prs[7].Head, Value: queue.Mergeable})
	s.says("wil", 7, 71, queue.Command{Verb: queue.VerbRestart})
	if got := s.on(7); len(got) != 1 {
		t.Fatalf("comments while it is tested = %q, want the sticky one alone", got)
	}
	s.ci(7, "failure")
	entry := s.entry(1, 7)
	if entry.State != queue.Failed {
		t.Fatalf("entry is %s, want failed", entry.State)
	}
	for range 3 { // whatever is told again, nothing is said twice
		s.e.upTo = map[queue.EntryID]int64{}
		if _, err := s.perform(queue.SyncPR{Queue: 1, Entry: entry.ID, PR: 7}); err != nil {
			t.Fatal(err)
		}
	}
	got := s.on(7)
	if len(got) != 2 {
		t.Fatalf("comments = %q, want the sticky one and one notice", got)
	}
	notice := got[1]
	if strings.Contains(notice, texts.StickyMarker) {
		notice = got[0]
	}
	for _, want := range []string{"@wil ", "`REQUIRED_STATUS_FAILED`", "[`build`](https://ci.example.com/1)", "**What to do:**"} {
		if !strings.Contains(notice, want) {
			t.Errorf("the notice does not have %q:\n%s", want, notice)
		}
	}
	if strings.Contains(notice, "#7") {
		t.Errorf("the notice refers to a pull request by number, which writes a line into its thread:\n%s", notice)
	}
}

// The same pull request fails twice: each ending is told once.
func TestEachEndingIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	for i := range int64(2) {
		s.clock.advance(time.Minute)
		s.says("wil", 7, 70+i, merges(queue.Command{}))
		s.ci(7, "failure")
	}
	if got := s.on(7); len(got) != 3 {
		t.Errorf("comments = %q, want the sticky one and two notices", got)
	}
}

// odoo/runbot#305: somebody reopens a pull request that has landed, or gives a
// closed one another base and reopens it: nothing lands again by itself.
func TestBC89ReopeningQueuesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	pr := s.open(7, "main")
	s.says("wil", 7, 70, merges(queue.Command{}))
	s.ci(7, "success")
	if e := s.entry(1, 7); e.State != queue.Merged {
		t.Fatalf("entry is %s, want merged", e.State)
	}
	runs := s.calls["Build"]
	s.clock.advance(time.Hour)
	pr.Open, pr.Merged, pr.UpdatedAt = true, false, s.clock.Now()
	s.learn(queue.PullRequestSeen{PullRequest: *pr}, queue.PullRequestDoubted{PR: 7})

	closed := s.open(8, "main")
	s.says("wil", 8, 80, merges(queue.Command{}))
	for _, step := range []func(){
		func() { closed.Open = false }, func() { closed.Base = "release" }, func() { closed.Open = true },
	} {
		s.clock.advance(time.Minute)
		step()
		closed.UpdatedAt = s.clock.Now()
		s.learn(queue.PullRequestSeen{PullRequest: *closed}, queue.PullRequestDoubted{PR: 8})
	}
	if e := s.entry(1, 7); e.State != queue.Merged || e.Submission != 1 {
		t.Errorf("#7 is %s, submission %d, want merged, 1", e.State, e.Submission)
	}
	if e := s.entry(1, 8); e.State != queue.Cancelled || e.Reason != queue.PRClosed {
		t.Errorf("#8 is %s (%s), want cancelled because it was closed", e.State, e.Reason)
	}
	if got := s.calls["Build"]; got != runs+1 {
		t.Errorf("%d test branches were built after #7 had landed, want the one of #8", got-runs)
	}
}
