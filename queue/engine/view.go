package engine

import (
	"slices"
	"time"

	"signalbox/queue"
)

// view is what the texts on a pull request are made from: one entry of a
// queue as it is now. It is read only.
type view struct {
	queue queue.Queue
	entry queue.Entry
	run   *queue.Run // the run that the texts are about; nil if none is known
	x     queue.Explanation
	links Links
	now   time.Time
}

// look makes the view of an entry.
func (e *Engine) look(s *queue.Snapshot, entry *queue.Entry) view {
	now := e.clock.Now()
	x := queue.Explain(s, entry, now)
	return view{queue: s.Queue, entry: *entry, run: runOf(s, entry, x.Run), x: x, links: e.links, now: now}
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
func (v view) runID() queue.RunID {
	switch {
	case !v.entry.Active() && !ended(v.entry).tested:
		return ""
	case v.run != nil:
		return v.run.ID
	default:
		return v.x.Run
	}
}

func (v view) page() string { return v.links.PR(v.queue.Repo, v.queue.Branch, v.entry.Number) }

// failing are the required checks that failed in the run that an ending is
// about, as CI reported them.
func (v view) failing() []queue.Report {
	if v.run == nil || v.entry.State != queue.Failed || !ended(v.entry).tested {
		return nil
	}
	var failed []queue.Report
	for _, want := range v.run.Required {
		if r, ok := v.run.Report(want); ok && r.Outcome() == queue.VerdictFailed && !v.run.PassedByQuarantine(want) {
			failed = append(failed, r)
		}
	}
	return failed
}
