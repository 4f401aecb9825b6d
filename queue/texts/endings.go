package texts

import (
	"strings"

	"signalbox/queue"
)

// endingText is how an ending is told to people.
type endingText struct {
	// what happened, to stand after "because"
	what string
	// next is the one thing to do, a sentence; "" when there is nothing.
	next string
	// calls says that the author has to hear of it in a comment of its own,
	// for which the host sends a mail.
	//
	// They are the endings that leave a pull request out of the queue though
	// nobody asked for that: every failure, and the cancellations that follow
	// from something else that was done (a push, another base, a draft, a
	// timeout, a change in its stack). Whoever cancels or closes knows it, and
	// so does whoever merges by hand; a removed repository cannot be written
	// to. A landing that differs from what was tested calls too.
	calls bool
	// tested says that a test run led to it.
	tested bool
}

const again = "Then comment `/merge` to queue it again."

// endings has the text of every ending of an entry. Some reasons mean another
// thing in another state, therefore the state is part of the key.
var endings = map[queue.EntryState]map[queue.Reason]endingText{
	queue.Failed: {
		queue.MergeConflict:         {"it conflicts with what it would land on", "Update the branch and resolve the conflict. " + again, true, false},
		queue.ConfigInvalid:         {"the configuration file is not valid", "Fix the file and push it. " + again, true, false},
		queue.NoRequiredStatuses:    {"no check is required, so nothing could prove the change", "Name the required checks in the queue's settings, in `.signalbox.yaml`, or in the rules of the branch. " + again, true, false},
		queue.StartRetriesExhausted: {"its test branch could not be built", "Most likely the Git host or the network was at fault. Comment `/merge` to try again; if it fails again, an operator should look at the log.", true, false},
		queue.TestBranchRefused:     {"the Git host refused its test branch", "Somebody with the right to change the repository's rules or the App's permissions has to allow it. " + again, true, false},
		queue.DraftPRsNotAllowed:    {"the Git host allows no draft pull requests here", "Turn off draft pull requests for test branches in the queue's settings. " + again, true, false},
		queue.RequiredStatusFailed:  {"required checks failed", "Fix what they found and push it. If a check was at fault and not the change, nothing needs to be pushed. " + again, true, true},
		queue.TestRunTimeout:        {"the tests took too long", "Look at the checks for what hung or was slow. " + again, true, true},
		queue.ChecksNeverStarted:    {"required checks never started", "This is the set-up's fault, not the change's: a workflow has to run on pushes to `signalbox/**` and report the required checks. " + again, true, true},
		queue.FailedByOptimization:  {"the tests fail with it and pass without it", "Fix what the checks found and push it. " + again, true, true},
		queue.LandingRefused:        {"the Git host refused to merge it", "Do what the host asks for. " + again, true, true},
	},
	queue.Cancelled: {
		queue.CancelledByUser:     {"that was asked for", "", false, false},
		queue.CancelledByAPI:      {"that was asked for through the API", "", false, false},
		queue.CancelledByAdmin:    {"an administrator asked for it", "", false, false},
		queue.PRClosed:            {"the pull request was closed", "", false, false},
		queue.PRPushedTo:          {"the pull request was pushed to after it was queued", "Comment `/merge` to queue the new commit.", true, false},
		queue.PRBaseBranchChanged: {"the base branch was changed", "Comment `/merge` to queue it for its new base branch.", true, false},
		queue.PRConvertedToDraft:  {"the pull request was converted to a draft", "Mark it ready for review. " + again, true, false},
		queue.NotReadyTimeout:     {"it was not ready in time", "Do what is still missing. " + again, true, false},
		queue.RepositoryRemoved:   {"Signalbox can no longer work on this repository", "", false, false},
		queue.StackMemberChanged:  {"another pull request of its stack changed", "Look at what changed in the stack. " + again, true, false},
	},
	queue.Merged: {
		queue.MergedByQueue:      {"its tests passed", "", false, true},
		queue.DirectMerge:        {"its checks had passed on top of the target already", "", false, false},
		queue.MergedByHand:       {"it was merged by hand", "", false, false},
		queue.LandedTreeMismatch: {"its tests passed, but what landed is not what was tested", "The queue has paused itself. Compare the two and, when all is well, set it running again.", true, true},
		queue.LandedLate:         {"the Git host carried out a call that the queue had given up", "`signalbox verify-history` tells whether it landed as it was tested. If the branch is broken, repair it: all that is in the queue is tested on it.", true, false},
	},
}

// ended is the text of an entry's ending. A reason that has none is told by
// its code, and calls the author when the entry failed.
func ended(e queue.Entry) endingText {
	if t, ok := endings[e.State][e.Reason]; ok {
		return t
	}
	return endingText{what: "of " + quoted(string(e.Reason)), calls: e.State == queue.Failed}
}

// nextStep is the one thing to do about an ending, "" if there is nothing. A
// stack is queued by another command.
func nextStep(v View) string {
	next := ended(v.Entry).next
	if v.Entry.Stacked() {
		next = strings.ReplaceAll(next, "`/merge`", v.Site.command("stack"))
	}
	return next
}
