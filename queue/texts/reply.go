package texts

import (
	"fmt"
	"strings"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// commands lists what can be asked for.
func (s Site) commands() string {
	return "- `/merge` or " + s.command("merge") + ": queue this pull request at its present commit\n" +
		"  - `-p <priority>`: urgent, high, medium, low, lowest, or 0 to 255 (0 first; urgent needs admin rights)\n" +
		"  - `--no-batch`: test it in a group of its own\n" +
		"  - `--force`: do not wait for reviews and checks of the host (needs admin rights)\n" +
		"- " + s.command("stack") + ": queue this pull request together with those it is based on, as one unit\n" +
		"  - `-t \"<title>\"`: what to call the commit; `-p` and `--no-batch` as above\n" +
		"- `/cancel` or " + s.command("cancel") + ": take it out of the queue\n" +
		"- " + s.command("restart") + ": test it again\n" +
		"- " + s.command("status") + ": where it stands\n" +
		"- " + s.command("help") + ": this list\n" +
		"\n" +
		"A command is a line of its own in a comment or a review. It needs write access to the repository."
}

// Reply is the comment that answers a command. Replies of one key are one, and
// ReplyMarker is how it is found again.
func Reply(key, answer string) string { return ReplyMarker(key) + "\n" + answer + "\n" }

// ReplyMarker is in the reply of that key.
func ReplyMarker(key string) string { return fmt.Sprintf("<!-- signalbox:reply:%s -->", key) }

// HelpReply answers "help".
func HelpReply(s Site) string { return "These are the commands:\n\n" + s.commands() }

// UsageReply answers what is no command, though it looks like one.
func UsageReply(s Site, c queue.Command) string {
	text := "Signalbox does not know this command, so nothing was changed."
	if c.Text != "" {
		text = "Signalbox does not know the command " + quoted(c.Text) + ", so nothing was changed."
	}
	if c.Problem != "" {
		text += "\n\n> " + prose(c.Problem)
	}
	return text + "\n\n" + HelpReply(s)
}

// NotAllowedReply says which right is needed, and for what.
func NotAllowedReply(c queue.Command, need gitprovider.Permission) string {
	what := "this"
	switch {
	case c.Force:
		what = "`--force`"
	case c.PriorityGiven && c.Priority == queue.Urgent:
		what = "urgent priority"
	case c.Verb == queue.VerbMerge || c.Verb == queue.VerbStack || c.Verb == queue.VerbCancel || c.Verb == queue.VerbRestart || c.Verb == queue.VerbStatus:
		what = "`" + c.Verb + "`"
	}
	return fmt.Sprintf("You need %s access to this repository for %s. Nothing was changed.", permissionName(need), what)
}

// NoRightsKnownReply says that the host did not let us ask.
func NoRightsKnownReply(message string) string {
	return "Signalbox could not find out what you may do on this repository, so nothing was changed. An operator has to look at this:\n\n> " + prose(message)
}

func permissionName(p gitprovider.Permission) string {
	switch p {
	case gitprovider.AdminPermission:
		return "admin"
	case gitprovider.WritePermission:
		return "write"
	default:
		return "read"
	}
}

// NoQueueReply says that nothing lands on that branch.
func NoQueueReply(branch string) string {
	return fmt.Sprintf("There is no merge queue for %s, the base branch of this pull request. Create one for it, or change the base branch.", quoted(branch))
}

// NoQueueBeneathReply says that a stack ends on a branch where nothing lands.
func NoQueueBeneathReply(lowest int64, branch string) string {
	return fmt.Sprintf("There is no merge queue for %s, the base branch of PR %d, on which this pull request stands. Create one for it, or change the base branch of PR %d.", quoted(branch), lowest, lowest)
}

// RefusedReply passes on why the queue would not take it.
func RefusedReply(a queue.Answer) string { return prose(a.Message) }

// TwoBeneathReply says that nobody can know on which pull request another stands.
func TwoBeneathReply(number int64, branch string, found []queue.PullRequestSeen) string {
	names := make([]string, len(found))
	for i, pr := range found {
		names[i] = fmt.Sprintf("PR %d", pr.Number)
	}
	return fmt.Sprintf("PR %d is based on %s, and several open pull requests come from that branch: %s. Close all but one of them, then try again.",
		number, quoted(branch), strings.Join(names, ", "))
}

// EndlessStackReply says that a stack is too high, or has no lowest.
func EndlessStackReply(most int) string {
	return fmt.Sprintf("The pull requests that this one is based on lead to no branch with a merge queue within %d steps. Change the base branch of the lowest.", most)
}

// MergedReply answers a submission that comes too late.
func MergedReply() string { return "This pull request is merged already." }

// ClosedReply answers the submission of a closed pull request.
func ClosedReply() string {
	return "This pull request is closed. Reopen it, then comment `/merge`."
}

// QueuedReply names the commit that a submission is bound to. It is given
// where no sticky comment does so.
func QueuedReply(branch string, f queue.Submitted) string {
	text := fmt.Sprintf("Queued for %s at commit %s.", quoted(branch), short(f.PullRequest.Head))
	if len(f.Stack) == 0 {
		return text
	}
	names := make([]string, len(f.Stack))
	for i, pr := range f.Stack {
		names[i] = fmt.Sprintf("PR %d at %s", pr.Number, short(pr.Head))
	}
	return text + " With it lands its stack: " + strings.Join(names, ", ") + "."
}

// CancellingReply answers a cancellation that came in a review, which cannot
// be reacted to.
func CancellingReply() string { return "It is being taken out of the queue." }

// RestartingReply answers a restart that came in a review.
func RestartingReply() string { return "It is being tested again." }

// NothingToCancelReply answers the cancellation of what is in no queue.
func NothingToCancelReply() string {
	return "This pull request is in no merge queue, so there was nothing to cancel."
}

// CannotRestartReply says why there is nothing to restart.
func CannotRestartReply(e *queue.Entry) string {
	if e == nil || !e.Active() {
		return "This pull request is in no merge queue, so there is nothing to restart. Comment `/merge` to queue it."
	}
	return fmt.Sprintf("Only tests that run or have just failed can be restarted. This pull request is: %s.", headline(*e))
}

// StatusReply answers "status" for an entry.
func StatusReply(v View) string {
	return fmt.Sprintf("**Signalbox: %s** · %s\n\n%s", headline(v.Entry), v.queuePage(), statusText(v))
}

// NotSubmittedReply answers "status" when there is nothing to tell.
func NotSubmittedReply(branch string) string {
	return fmt.Sprintf("This pull request was never submitted to the merge queue of %s. Comment `/merge` to queue it.", quoted(branch))
}
