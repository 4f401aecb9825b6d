package engine

import (
	"fmt"

	"signalbox/gitprovider"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// answer is what is done about a command.
type answer struct {
	// ignore is why nothing is done or said at all; "" otherwise.
	ignore   string
	wishes   []wish
	reaction string // on the comment
	reply    string // Markdown; "" = the reaction says it all
	key      string // replies with one key are given once
}

// wish is a fact for one queue.
type wish struct {
	queue queue.ID
	fact  queue.Fact
}

// The reactions.
const (
	thumbsUp   = "+1"
	thumbsDown = "-1"
)

// choose decides on a command. It is pure.
func choose(q question) answer {
	a := judge(q)
	if a.key == "" {
		a.key = replyKey(q)
	}
	return a
}

// replyKey names one command: the same comment may hold several, and a box may
// be ticked again.
func replyKey(q question) string {
	place := fmt.Sprintf("%d", q.Comment)
	switch {
	case q.Label != nil:
		place = "label"
	case q.Comment == 0:
		place = fmt.Sprintf("r%d", q.Review)
	}
	return fmt.Sprintf("%s:%s:%d", place, q.Command.Verb, q.asked.Unix())
}

func judge(q question) answer {
	if !q.found {
		return answer{ignore: "there is no such pull request"}
	}
	listening := q.listening()
	if len(listening) == 0 {
		if q.base != nil || len(q.others) > 0 {
			return answer{ignore: "commands are turned off for this queue"}
		}
		return no(q.noQueue())
	}
	if q.rightUnknown != "" {
		return no(texts.NoRightsKnownReply(q.rightUnknown))
	}
	if need := q.needs(); q.right < need {
		return no(texts.NotAllowedReply(q.Command, need))
	}
	switch q.Command.Verb {
	case queue.VerbMerge, queue.VerbStack:
		return merge(q)
	case queue.VerbCancel:
		return cancel(q, listening)
	case queue.VerbRestart:
		return restart(q, listening)
	case queue.VerbStatus:
		return status(q, listening)
	case queue.VerbHelp:
		return answer{reaction: thumbsUp, reply: texts.HelpReply(q.site)}
	default:
		return no(texts.UsageReply(q.site, q.Command))
	}
}

// no refuses with a reason.
func no(reply string) answer { return answer{reaction: thumbsDown, reply: reply} }

// yes accepts. A review cannot be reacted to, so there a reply says so. Who
// sets a label sees in the sticky comment what came of it.
func yes(q question, spoken string, wishes ...wish) answer {
	a := answer{wishes: wishes, reaction: thumbsUp}
	if q.Comment == 0 && q.Label == nil {
		a.reply = spoken
	}
	return a
}

// needs is the right that a command takes. What is not a command may be asked
// by anybody, since it only gets an explanation.
func (q question) needs() gitprovider.Permission {
	c := q.Command
	switch c.Verb {
	case queue.VerbMerge, queue.VerbStack:
		if c.Force || c.PriorityGiven && c.Priority == queue.Urgent {
			return max(q.privileged, gitprovider.WritePermission)
		}
		return gitprovider.WritePermission
	case queue.VerbCancel, queue.VerbRestart, queue.VerbStatus:
		return gitprovider.WritePermission
	default:
		return gitprovider.ReadPermission
	}
}

// listening are the queues that the command may be about and that take
// commands, that of the base branch first.
func (q question) listening() []*standing {
	var queues []*standing
	for _, s := range append([]*standing{q.base}, q.others...) {
		if s != nil && s.Queue.CommandsEnabled {
			queues = append(queues, s)
		}
	}
	return queues
}

// noQueue says why nothing can be queued.
func (q question) noQueue() string {
	if q.noStack != "" {
		return q.noStack
	}
	return texts.NoQueueReply(q.target)
}

// merge queues the pull request for the branch that its base is, or leads to:
// with all that it stands on, or by itself, to wait until that has landed.
func merge(q question) answer {
	switch {
	case q.base == nil:
		return no(q.noQueue())
	case !q.base.Queue.CommandsEnabled:
		return answer{ignore: "commands are turned off for this queue"}
	case q.pr.Merged && q.again && q.base.submitted && q.base.Entry.State == queue.Merged:
		return answer{reaction: thumbsUp} // an earlier attempt queued it, and only the answer is missing
	case q.pr.Merged:
		return no(texts.MergedReply())
	case !q.pr.Open:
		return no(texts.ClosedReply())
	}
	c, to := q.Command, q.base.Queue
	priority := queue.Medium
	if c.PriorityGiven {
		priority = c.Priority
	}
	f := queue.Submitted{
		PullRequest: q.pr, ID: q.newID, By: q.By, Via: queue.ViaUser,
		Priority: priority, PriorityGiven: c.PriorityGiven, NoBatch: c.NoBatch, Force: c.Force, At: q.At,
	}
	if c.Verb == queue.VerbStack {
		f.Stack, f.Title = q.stack, c.Title
	}
	if why, refused := q.base.window.QueuedAlready(f); refused {
		return no(texts.RefusedReply(why))
	}
	a := yes(q, texts.QueuedReply(to.Branch, f), wish{to.ID, f})
	if !to.CommentsEnabled {
		// Nothing else names the commit. However often it is asked for, one
		// commit is named once.
		a.reply, a.key = texts.QueuedReply(to.Branch, f), fmt.Sprintf("queued:%d:%s", to.ID, q.pr.Head)
	}
	return a
}

// number is the pull request under which the one in question is queued: its
// own or, in a stack, that of the topmost.
func (s *standing) number(q question) int64 {
	if s.submitted {
		return s.Entry.Number
	}
	return q.PR
}

// cancel takes the pull request out of every queue it is in. The queue of its
// base is told even when it is not seen there: a submission may be on its way.
func cancel(q question, listening []*standing) answer {
	active := false
	var wishes []wish
	for _, s := range listening {
		active = active || s.Entry.Active()
		wishes = append(wishes, wish{s.Queue.ID, queue.CancelRequested{PR: s.number(q), By: q.By, Via: queue.ViaUser, At: q.At}})
	}
	if !active {
		a := no(texts.NothingToCancelReply())
		a.wishes = wishes
		return a
	}
	return yes(q, texts.CancellingReply(), wishes...)
}

// restart has what is being tested tested again.
func restart(q question, listening []*standing) answer {
	var wishes []wish
	var other *queue.Entry
	for _, s := range listening {
		switch s.Entry.State {
		case queue.Testing, queue.PendingFailure:
			wishes = append(wishes, wish{s.Queue.ID, queue.RestartRequested{PR: s.number(q), By: q.By, Via: queue.ViaUser, At: q.At}})
		default:
			if other == nil || s.Entry.Active() {
				other = &s.Entry
			}
		}
	}
	if len(wishes) == 0 {
		return no(texts.CannotRestartReply(other))
	}
	return yes(q, texts.RestartingReply(), wishes...)
}

// status tells how it stands in the queue where it is active, else in that of
// its base.
func status(q question, listening []*standing) answer {
	best := listening[0]
	for _, s := range listening {
		if s.Entry.Active() && !best.Entry.Active() {
			best = s
		}
	}
	if !best.submitted {
		return answer{reaction: thumbsUp, reply: texts.NotSubmittedReply(best.Queue.Branch)}
	}
	return answer{reaction: thumbsUp, reply: texts.StatusReply(best.View)}
}
