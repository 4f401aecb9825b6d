package engine

import (
	"fmt"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// statusOf is our status check on the entry's commit.
func statusOf(v view) gitprovider.Status {
	s := gitprovider.Status{
		Commit: v.entry.BoundHead, Name: gitprovider.OwnCheck(v.queue.Branch), URL: v.page(),
		Title: headline(v.entry), Summary: statusText(v),
	}
	switch v.entry.State {
	case queue.Testing, queue.TestsPassed, queue.PendingFailure:
		s.Status = "in_progress"
	case queue.Merged:
		s.Status, s.Conclusion = "completed", "success"
	case queue.Failed:
		s.Status, s.Conclusion = "completed", "failure"
		s.Title += ": " + string(v.entry.Reason)
	case queue.Cancelled:
		s.Status, s.Conclusion = "completed", "cancelled"
		s.Title += ": " + string(v.entry.Reason)
	default:
		s.Status = "queued"
	}
	if v.x.Position > 0 && v.entry.State == queue.Pending {
		s.Title += fmt.Sprintf(", place %d", v.x.Position)
	}
	return s
}

// overtakenStatus completes our status check on a commit that a push replaced
// while the entry was not admitted yet and so followed the push.
func overtakenStatus(v view, commit string) gitprovider.Status {
	return gitprovider.Status{
		Commit: commit, Name: gitprovider.OwnCheck(v.queue.Branch), URL: v.page(), Status: "completed", Conclusion: "cancelled",
		Title: "a newer commit is queued", Summary: "The pull request was pushed to. The queue now follows " + short(v.entry.BoundHead) + ".",
	}
}
