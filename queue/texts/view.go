package texts

import (
	"slices"
	"time"

	"signalbox/queue"
)

// View is what the texts on a pull request are made from: one entry of a
// queue as it is now. It is read only. Look makes it; where there is no entry,
// Queue, Site and Now are enough.
type View struct {
	Queue     queue.Queue
	Entry     queue.Entry
	Run       *queue.Run // the run that the texts are about; nil if none is known
	Explained queue.Explanation
	Site      Site
	Now       time.Time // when somebody looked
}

// Look makes the view of an entry at a moment.
func Look(s *queue.Snapshot, entry *queue.Entry, site Site, now time.Time) View {
	x := queue.Explain(s, entry, now)
	return View{Queue: s.Queue, Entry: *entry, Run: runOf(s, entry, x.Run), Explained: x, Site: site, Now: now}
}

// runOf is the run that an entry's texts are about: the one that tests or
// proves it now or, when it has ended, the newest that tested this very
// submission, so that a failure can still name the checks that failed.
func runOf(s *queue.Snapshot, e *queue.Entry, explained queue.RunID) *queue.Run {
	if r := s.Runs[explained]; r != nil || e.Active() {
		return r
	}
	var newest *queue.Run
	for _, r := range s.Runs {
		if !slices.Contains(r.Members, e.ID) || !r.Includes(e) {
			continue
		}
		if newest == nil || r.AskedAt.After(newest.AskedAt) || r.AskedAt.Equal(newest.AskedAt) && r.ID > newest.ID {
			newest = r
		}
	}
	return newest
}

// runID is the run's id for a link, "" when there is none to speak of: an
// ending that no test led to has none.
func (v View) runID() queue.RunID {
	switch {
	case !v.Entry.Active() && !ended(v.Entry).tested:
		return ""
	case v.Run != nil:
		return v.Run.ID
	default:
		return v.Explained.Run
	}
}

func (v View) page() string { return v.Site.PR(v.Queue.Repo, v.Queue.Branch, v.Entry.Number) }

// queuePage names the queue, and leads to its page.
func (v View) queuePage() string {
	return link("queue of "+quoted(v.Queue.Branch), v.Site.Queue(v.Queue.Repo, v.Queue.Branch))
}

// reason is the code of the entry's reason, which leads to what the documents
// say about it.
func (v View) reason() string {
	return link("`"+string(v.Entry.Reason)+"`", v.Site.Help(v.Entry.Reason))
}

// failing are the required checks that failed in the run that an ending is
// about, as CI reported them.
func (v View) failing() []queue.Report {
	if v.Run == nil || v.Entry.State != queue.Failed || !ended(v.Entry).tested {
		return nil
	}
	var failed []queue.Report
	for _, want := range v.Run.Required {
		if r, ok := v.Run.Report(want); ok && r.Outcome() == queue.VerdictFailed && !v.Run.PassedByQuarantine(want) {
			failed = append(failed, r)
		}
	}
	return failed
}
