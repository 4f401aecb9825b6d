package db_test

import (
	"slices"
	"testing"

	"signalbox/queue"
)

// A stack is found by every pull request in it: #3 stands on #2, that on #1.

// stack is the entry of such a stack, not ready yet.
func stack() queue.Entry {
	e := entry(3)
	e.State, e.Reason, e.Base, e.Head, e.Open = queue.NotReady, queue.SubmittedByUser, "second", "3a", true
	for n, head := range []string{"1a", "2a"} {
		e.Stack = append(e.Stack, queue.Layer{
			PullRequest: queue.PullRequest{Number: int64(n + 1), Head: head, HeadRef: []string{"first", "second"}[n], Base: []string{"main", "first"}[n], Open: true},
			BoundHead:   head, Mergeability: queue.Mergeable,
		})
	}
	e.Mergeability = queue.Mergeable
	e.RefreshAfter = epoch.AddDate(100, 0, 0) // or that would bring it into every window
	return e
}

func TestFactsAboutItsLayersFindAStack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := stack()
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{e} })
	for name, fact := range map[string]queue.Fact{
		"the lowest":            queue.PullRequestDoubted{PR: 1},
		"the one in the middle": queue.PullRequestDoubted{PR: 2},
		"a check on a layer":    queue.ChecksDoubted{Commit: "2a"},
	} {
		w.must(w.Append(t.Context(), w.queue.Repo.ID, 0, fact))
		w.must(w.Route(t.Context(), epoch))
		found := false
		w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			found = len(facts) == 1 && s.Entries[e.ID] != nil
			return unchanged(s)
		})
		if !found {
			t.Errorf("%s: the fact and the stack are not in one window", name)
		}
	}
	for pr, want := range map[int64]bool{1: true, 2: true, 3: true, 4: false} {
		with, err := w.QueuesWith(t.Context(), w.queue.Repo.ID, pr)
		w.must(err)
		if got := slices.Contains(with, w.queue.ID); got != want {
			t.Errorf("#%d is in the queue: %v, want %v", pr, got, want)
		}
	}
}

func TestAStackThatHasEndedIsFoundByItsTopAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := stack()
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{e} })
	e.State, e.Reason, e.Version = queue.Cancelled, queue.StackMemberChanged, e.Version+1
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{e} })
	for pr := range int64(3) {
		with, err := w.QueuesWith(t.Context(), w.queue.Repo.ID, pr+1)
		w.must(err)
		if len(with) != 0 {
			t.Errorf("#%d is in %v, want in none", pr+1, with)
		}
	}
	back, err := w.Entry(t.Context(), w.queue.ID, 3)
	w.must(err)
	if len(back.Stack) != 2 {
		t.Errorf("its stack reads %+v, want it as it was: people look at it", back.Stack)
	}
	// Then the lowest is queued in another.
	other := stack()
	other.Number, other.Stack = 5, other.Stack[:1]
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{other} })
}

// What is ready is in the window without being named; a stack is when all of
// its pull requests are, and lead to the queue's branch.
func TestAWindowHoldsAStackThatIsReady(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*queue.Entry){
		"":                     func(*queue.Entry) {},
		"a layer is a draft":   func(e *queue.Entry) { e.Stack[0].Draft = true },
		"a layer is blocked":   func(e *queue.Entry) { e.Stack[1].Mergeability = queue.NotMergeable },
		"it leads elsewhere":   func(e *queue.Entry) { e.Stack[0].Base = "release" },
		"the top is elsewhere": func(e *queue.Entry) { e.Base = "release" },
	} {
		w := newWorld(t)
		e := stack()
		change(&e)
		w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{e} })
		s, err := w.Read(t.Context(), w.queue.ID)
		w.must(err)
		if got, want := s.Entries[e.ID] != nil, name == ""; got != want {
			t.Errorf("%q: it is in the window: %v, want %v", name, got, want)
		}
	}
}
