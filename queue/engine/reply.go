package engine

import (
	"fmt"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// commandsText lists what can be asked for.
const commandsText = "- `/merge` or `/signalbox merge`: queue this pull request at its present commit\n" +
	"  - `-p <priority>`: urgent, high, medium, low, lowest, or 0 to 255 (0 first; urgent needs admin rights)\n" +
	"  - `--no-batch`: test it in a group of its own\n" +
	"  - `--force`: do not wait for reviews and checks of the host (needs admin rights)\n" +
	"- `/cancel` or `/signalbox cancel`: take it out of the queue\n" +
	"- `/signalbox restart`: test it again\n" +
	"- `/signalbox status`: where it stands\n" +
	"- `/signalbox help`: this list\n" +
	"\n" +
	"A command is a line of its own in a comment or a review. It needs write access to the repository."

// helpReply answers "help".
func helpReply() string { return "These are the commands:\n\n" + commandsText }

// usageReply answers what is no command, though it looks like one.
func usageReply(c queue.Command) string {
	text := "This is no command that Signalbox knows"
	if c.Text != "" {
		text += ": " + quoted(c.Text)
	}
	text += ". Nothing was changed."
	if c.Problem != "" {
		text += "\n\n> " + prose(c.Problem)
	}
	return text + "\n\n" + helpReply()
}

// notAllowedReply says which right is needed, and for what.
func notAllowedReply(c queue.Command, need gitprovider.Permission) string {
	what := "this"
	switch {
	case c.Verb == queue.VerbMerge && c.Force:
		what = "`--force`"
	case c.Verb == queue.VerbMerge && need == gitprovider.AdminPermission:
		what = "urgent priority"
	case c.Verb == queue.VerbMerge || c.Verb == queue.VerbCancel || c.Verb == queue.VerbRestart || c.Verb == queue.VerbStatus:
		what = "`" + c.Verb + "`"
	}
	return fmt.Sprintf("You need %s access to this repository for %s. Nothing was changed.", permissionName(need), what)
}

// noRightsKnownReply says that the host did not let us ask.
func noRightsKnownReply(message string) string {
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

// noQueueReply says that nothing lands on that branch.
func noQueueReply(branch string) string {
	return fmt.Sprintf("There is no merge queue for %s, the base branch of this pull request. Create one for it, or change the base branch.", quoted(branch))
}

// mergedReply answers a submission that comes too late.
func mergedReply() string { return "This pull request is merged already." }

// closedReply answers the submission of a closed pull request.
func closedReply() string {
	return "This pull request is closed. Reopen it, then comment `/merge`."
}

// queuedReply names the commit that a submission is bound to. It is given
// where no sticky comment does so.
func queuedReply(branch, head string) string {
	return fmt.Sprintf("Queued for %s at commit %s.", quoted(branch), short(head))
}

// cancellingReply answers a cancellation that came in a review, which cannot
// be reacted to.
func cancellingReply() string { return "It is being taken out of the queue." }

// restartingReply answers a restart that came in a review.
func restartingReply() string { return "It is being tested again." }

// nothingToCancelReply answers the cancellation of what is in no queue.
func nothingToCancelReply() string {
	return "This pull request is in no merge queue, so there was nothing to cancel."
}

// cannotRestartReply says why there is nothing to restart.
func cannotRestartReply(e *queue.Entry) string {
	if e == nil || !e.Active() {
		return "This pull request is in no merge queue, so there is nothing to restart. Comment `/merge` to queue it."
	}
	return fmt.Sprintf("Only tests that run or have just failed can be restarted. This pull request is: %s.", headline(*e))
}

// statusReply answers "status" for an entry.
func statusReply(v view) string {
	return fmt.Sprintf("**Signalbox: %s** · %s\n\n%s", headline(v.entry),
		link("queue of "+quoted(v.queue.Branch), v.links.Queue(v.queue.Repo, v.queue.Branch)), statusText(v))
}

// notSubmittedReply answers "status" when there is nothing to tell.
func notSubmittedReply(branch string) string {
	return fmt.Sprintf("This pull request was never submitted to the merge queue of %s. Comment `/merge` to queue it.", quoted(branch))
}
