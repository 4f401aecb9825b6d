package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// Commands, as stories: somebody says something on a pull request, and this
// is what is seen and done. testdata/commands.md holds the conversations and is
// to be read as prose.

var (
	ada   = queue.Actor{Login: "ada", ID: 1}                   // administrator
	wil   = queue.Actor{Login: "wil", ID: 2}                   // may write
	rea   = queue.Actor{Login: "rea", ID: 3}                   // may read
	eve   = queue.Actor{Login: "eve", ID: 4}                   // a stranger
	robo  = queue.Actor{Login: "robo[bot]", ID: 5, Bot: true}  // on the list
	other = queue.Actor{Login: "other[bot]", ID: 6, Bot: true} // not on it
)

func merges(c queue.Command) queue.Command { c.Verb = queue.VerbMerge; return c }

var stories = []struct {
	name  string
	setup func(*stage)
	by    queue.Actor
	ask   queue.Command
	// review says that it was said in a review and not in a comment.
	review bool
}{
	{"a writer queues a pull request", nil, wil, merges(queue.Command{}), false},
	{"a writer gives a priority and wants no batch", nil, wil, merges(queue.Command{Priority: 10, PriorityGiven: true, NoBatch: true}), false},
	{"an administrator makes it urgent", nil, ada, merges(queue.Command{Priority: queue.Urgent, PriorityGiven: true}), false},
	{"a writer may not make it urgent", nil, wil, merges(queue.Command{Priority: queue.Urgent, PriorityGiven: true}), false},
	{"an administrator forces it", nil, ada, merges(queue.Command{Force: true}), false},
	{"a writer may not force it", nil, wil, merges(queue.Command{Force: true}), false},
	{"a reader may not queue it", nil, rea, merges(queue.Command{}), false},
	{"a stranger may not queue it", nil, eve, merges(queue.Command{}), false},
	{"a bot on the list queues it", func(s *stage) { s.people["robo[bot]"] = gitprovider.WritePermission }, robo, merges(queue.Command{}), false},
	{"a bot on the list needs the right too", nil, robo, merges(queue.Command{}), false},
	{"any other bot is ignored", func(s *stage) { s.people["other[bot]"] = gitprovider.AdminPermission }, other, merges(queue.Command{}), false},
	{"somebody who was deleted is ignored", nil, queue.Actor{}, merges(queue.Command{}), false},
	{"it is said in a review", nil, wil, merges(queue.Command{}), true},
	{"comments are off, so a reply names the commit", func(s *stage) {
		s.change(1, func(w *queue.Snapshot) { w.Queue.CommentsEnabled = false })
	}, wil, merges(queue.Command{}), false},
	{"it is merged already", func(s *stage) { s.prs[7].Merged, s.prs[7].Open = true, false }, wil, merges(queue.Command{}), false},
	{"it is closed", func(s *stage) { s.prs[7].Open = false }, wil, merges(queue.Command{}), false},
	{"there is no such pull request", func(s *stage) { delete(s.prs, 7) }, wil, merges(queue.Command{}), false},
	{"its base branch has no queue", func(s *stage) { s.prs[7].Base = "wip/`@team`" }, wil, merges(queue.Command{}), false},
	{"commands are turned off", func(s *stage) {
		s.change(1, func(w *queue.Snapshot) { w.Queue.CommandsEnabled = false })
	}, wil, merges(queue.Command{}), false},
	{"the host does not tell the right", func(s *stage) {
		s.faults["Permission"] = fault{err: &gitprovider.Error{Kind: gitprovider.Denied, Message: "The App needs the permission metadata: read."}}
	}, wil, merges(queue.Command{}), false},
	{"the host does not know the person any more", func(s *stage) { s.faults["Permission"] = fault{err: errGone} }, wil, merges(queue.Command{}), false},

	{"a writer queues a stack", stacked, wil, queue.Command{Verb: queue.VerbStack, Title: "Add the signal"}, false},
	{"a writer queues a stack in a review", stacked, wil, queue.Command{Verb: queue.VerbStack, Priority: 10, PriorityGiven: true}, true},
	{"a stack of one is a pull request", nil, wil, queue.Command{Verb: queue.VerbStack}, false},
	{"the upper one is queued by itself, to wait", stacked, wil, merges(queue.Command{}), false},
	{"a reader may not queue a stack", stacked, rea, queue.Command{Verb: queue.VerbStack}, false},
	{"a writer may not make a stack urgent", stacked, wil, queue.Command{Verb: queue.VerbStack, Priority: queue.Urgent, PriorityGiven: true}, false},
	{"the stack leads to no queue", func(s *stage) { stacked(s); s.prs[5].Base = "wip" }, wil, queue.Command{Verb: queue.VerbStack}, false},
	{"two pull requests come from the branch beneath", func(s *stage) { stacked(s); s.open(8, "main").HeadRef = "change-6" }, wil, queue.Command{Verb: queue.VerbStack}, false},
	{"the stack goes round in a circle", func(s *stage) { stacked(s); s.prs[5].Base = "change-7" }, wil, queue.Command{Verb: queue.VerbStack}, false},
	{"one of the stack is queued by itself", func(s *stage) { stacked(s); s.says("wil", 5, 1, merges(queue.Command{})) }, wil, queue.Command{Verb: queue.VerbStack}, false},
	{"it is queued in a stack already", func(s *stage) { stacked(s); s.says("wil", 9, 1, queue.Command{Verb: queue.VerbStack}) }, wil, merges(queue.Command{}), false},
	{"the stack that it is in is cancelled", func(s *stage) { stacked(s); s.says("wil", 9, 1, queue.Command{Verb: queue.VerbStack}) }, wil, queue.Command{Verb: queue.VerbCancel}, false},
	{"the status of the stack that it is in", func(s *stage) { stacked(s); s.says("wil", 9, 1, queue.Command{Verb: queue.VerbStack}) }, wil, queue.Command{Verb: queue.VerbStatus}, false},

	{"a writer cancels it", queued, wil, queue.Command{Verb: queue.VerbCancel}, false},
	{"a writer cancels it in a review", queued, wil, queue.Command{Verb: queue.VerbCancel}, true},
	{"a reader may not cancel it", queued, rea, queue.Command{Verb: queue.VerbCancel}, false},
	{"there is nothing to cancel", nil, wil, queue.Command{Verb: queue.VerbCancel}, false},
	{"it is cancelled though its base was changed", func(s *stage) { queued(s); s.prs[7].Base = "release" }, wil, queue.Command{Verb: queue.VerbCancel}, false},
	{"it is cancelled though its new base has no queue", func(s *stage) { queued(s); s.prs[7].Base = "nowhere" }, wil, queue.Command{Verb: queue.VerbCancel}, false},

	{"a writer restarts it", testing7, wil, queue.Command{Verb: queue.VerbRestart}, false},
	{"a writer restarts it in a review", testing7, wil, queue.Command{Verb: queue.VerbRestart}, true},
	{"it cannot be restarted before it is tested", queued, wil, queue.Command{Verb: queue.VerbRestart}, false},
	{"it cannot be restarted when it is in no queue", nil, wil, queue.Command{Verb: queue.VerbRestart}, false},

	{"a writer asks for the status", testing7, wil, queue.Command{Verb: queue.VerbStatus}, false},
	{"a writer asks for the status of what was never queued", nil, wil, queue.Command{Verb: queue.VerbStatus}, false},
	{"a reader may not ask for the status", nil, rea, queue.Command{Verb: queue.VerbStatus}, false},

	{"a reader asks for help", nil, rea, queue.Command{Verb: queue.VerbHelp}, false},
	{"what is no command gets the usage", nil, wil, queue.Command{
		Verb: queue.VerbInvalid, Text: "/merge `please` @everybody <img src=x>", Problem: "\"please\" is no option; see #1 or @admin.",
	}, false},
	{"a verb of a newer version gets the usage", nil, wil, queue.Command{Verb: "teleport"}, false},
}

// queued has pull request 7 wait in the queue of main.
func queued(s *stage) {
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 1, merges(queue.Command{}))
}

// stacked has pull request 7 stand on 6, that on 5, and 9 on 7.
func stacked(s *stage) {
	for _, n := range []int64{5, 6, 9} {
		s.open(n, "main")
	}
	for _, n := range []int64{5, 6, 7, 9} {
		s.prs[n].HeadRef = fmt.Sprintf("change-%d", n)
	}
	s.prs[6].Base, s.prs[7].Base, s.prs[9].Base = "change-5", "change-6", "change-7"
}

// testing7 has pull request 7 tested.
func testing7(s *stage) { s.says("wil", 7, 1, merges(queue.Command{})) }

func TestCommands(t *testing.T) {
	t.Parallel()
	var book strings.Builder
	for _, story := range stories {
		s := newStage(t, nil)
		s.open(7, "main")
		if story.setup != nil {
			story.setup(s)
		}
		s.world.comments = nil
		asked := queue.CommandAsked{PR: 7, Comment: 70, By: story.by, At: s.clock.Now(), Command: story.ask}
		if story.review {
			asked.Comment, asked.Review = 0, 71
		}
		if _, err := s.perform(queue.AnswerCommand{Repo: 1, Command: asked}); err != nil {
			t.Errorf("%s: %v", story.name, err)
		}
		fmt.Fprintf(&book, "## %s\n\n%s\n", story.name, s.conversation())
	}
	golden(t, "commands.md", book.String())
}

// conversation is what came of a command: reactions, wishes, replies.
func (s *stage) conversation() string {
	var b strings.Builder
	if r := s.reacted[70]; len(r) > 0 {
		fmt.Fprintf(&b, "reaction: %s\n", strings.Join(r, " "))
	}
	for id := queue.ID(1); id <= 2; id++ {
		for _, f := range s.waiting(id) {
			fmt.Fprintf(&b, "queue %d: %s\n", id, f)
		}
	}
	for _, body := range s.on(7) {
		fmt.Fprintf(&b, "\n> %s\n", strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n> "))
	}
	if b.Len() == 0 {
		return "(nothing)\n"
	}
	return b.String()
}

// Five people, or one who is impatient (bors-ng/bors-ng@d4b69be).
func TestFiveMergeCommandsMakeOneEntryAndOneComment(t *testing.T) {
	t.Parallel()
	for name, comments := range map[string]bool{"with the sticky comment": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			s.change(1, func(w *queue.Snapshot) { w.Queue.CommentsEnabled = comments })
			s.open(7, "main")
			s.ready[7] = queue.NotMergeable
			for i := range int64(5) {
				s.says("wil", 7, 70+i, merges(queue.Command{}))
			}
			if e := s.entry(1, 7); e.State != queue.NotReady || e.Submission != 1 {
				t.Errorf("entry is %s, submission %d, want not_ready, 1", e.State, e.Submission)
			}
			for i := range int64(5) {
				if diff := cmp.Diff([]string{thumbsUp}, s.reacted[70+i]); diff != "" {
					t.Errorf("reactions to comment %d (-want +got):\n%s", 70+i, diff)
				}
			}
			if got := s.on(7); len(got) != 1 || !strings.Contains(got[0], "0000007") {
				t.Errorf("comments = %q, want one that names the commit", got)
			}
		})
	}
}

func TestACommandWhoseAnswerFailedIsRepeatedWithoutQueueingTwice(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"React", "Notice"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			s.change(1, func(w *queue.Snapshot) { w.Queue.CommentsEnabled = false })
			s.open(7, "main")
			ask := queue.AnswerCommand{Repo: 1, Command: queue.CommandAsked{PR: 7, Comment: 70, By: wil, At: s.clock.Now(), Command: merges(queue.Command{})}}
			s.faults[call] = fault{err: errors.New("timeout"), after: true}
			if err := s.attempt(ask, 1); err == nil {
				t.Fatal("the failed attempt reported no error")
			}
			s.faults = map[string]fault{}
			s.settle()
			// Meanwhile it is taken out again; the repetition must not put it back.
			s.clock.advance(time.Minute)
			s.says("wil", 7, 80, queue.Command{Verb: queue.VerbCancel})
			if err := s.attempt(ask, 2); err != nil {
				t.Fatal(err)
			}
			s.settle()
			if e := s.entry(1, 7); e.State != queue.Cancelled || e.Submission != 1 {
				t.Errorf("entry is %s, submission %d, want cancelled, 1", e.State, e.Submission)
			}
			if got := len(s.on(7)); got != 1 {
				t.Errorf("replies = %d, want 1", got)
			}
		})
	}
}

func TestACommentThatIsGoneDoesNotStopTheCommand(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	s.faults["React"] = fault{err: errGone}
	s.says("wil", 7, 70, merges(queue.Command{}))
	if e := s.entry(1, 7); !e.Active() {
		t.Errorf("entry is %q, want it active", e.State)
	}
}

func TestATickWithoutTheRightLeavesTheBoxEmpty(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.open(7, "main")
	s.says("wil", 7, 70, merges(queue.Command{}))
	s.says("wil", 7, 71, queue.Command{Verb: queue.VerbCancel})
	sticky := s.memory.comments[7]
	if body := s.on(7)[0]; !strings.Contains(body, "- [ ] "+texts.Checkbox) {
		t.Fatalf("the comment on a cancelled pull request has no box:\n%s", body)
	}
	for i := range s.world.comments { // rea ticks it
		s.world.comments[i].body = strings.Replace(s.world.comments[i].body, "- [ ] ", "- [x] ", 1)
	}
	s.says("rea", 7, sticky, merges(queue.Command{Text: "(the checkbox)"}))
	bodies := s.on(7)
	if !strings.Contains(bodies[0], "- [ ] "+texts.Checkbox) {
		t.Errorf("the box stayed ticked:\n%s", bodies[0])
	}
	if len(bodies) != 2 || !strings.Contains(bodies[1], "You need write access") {
		t.Errorf("comments = %q, want a second one that says which right is needed", bodies)
	}
	if e := s.entry(1, 7); e.State != queue.Cancelled {
		t.Errorf("entry is %s, want cancelled", e.State)
	}
}

func TestCancelAfterAnApiSubmissionInTheSameSecondCounts(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	pr := s.open(7, "main")
	s.clock.advance(900 * time.Millisecond)
	s.learn(queue.Submitted{PullRequest: *pr, ID: "e7", By: wil, Via: queue.ViaAPI, Priority: queue.Medium, At: s.clock.Now()})
	s.clock.advance(50 * time.Millisecond)
	// GitHub's time of the comment is cut to the second, so it is before the submission.
	s.asks(queue.CommandAsked{PR: 7, Comment: 70, By: wil, At: s.clock.Now().Truncate(time.Second), Command: queue.Command{Verb: queue.VerbCancel}})
	if e := s.entry(1, 7); e.State != queue.Cancelled {
		t.Errorf("entry is %s, want cancelled", e.State)
	}
}
