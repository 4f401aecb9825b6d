package texts

import (
	"fmt"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Status is our status check on the entry's commit.
func Status(v View) gitprovider.Status {
	s := gitprovider.Status{
		Commit: v.Entry.BoundHead, Name: gitprovider.OwnCheck(v.Queue.Branch), URL: v.page(),
		Title: headline(v.Entry), Summary: statusText(v),
	}
	switch v.Entry.State {
	case queue.Testing, queue.TestsPassed, queue.PendingFailure:
		s.Status = "in_progress"
	case queue.Merged:
		s.Status, s.Conclusion = "completed", "success"
	case queue.Failed:
		s.Status, s.Conclusion = "completed", "failure"
		s.Title += ": " + string(v.Entry.Reason)
	case queue.Cancelled:
		s.Status, s.Conclusion = "completed", "cancelled"
		s.Title += ": " + string(v.Entry.Reason)
	default:
		s.Status = "queued"
	}
	if v.Explained.Position > 0 && v.Entry.State == queue.Pending {
		s.Title += fmt.Sprintf(", place %d", v.Explained.Position)
	}
	return s
}

// Overtaken completes our status check on a commit that a push replaced
// while the entry was not admitted yet and so followed the push.
func Overtaken(v View, commit string) gitprovider.Status {
	return gitprovider.Status{
		Commit: commit, Name: gitprovider.OwnCheck(v.Queue.Branch), URL: v.page(), Status: "completed", Conclusion: "cancelled",
		Title: "a newer commit is queued", Summary: "The pull request was pushed to. The queue now follows " + short(v.Entry.BoundHead) + ".",
	}
}
