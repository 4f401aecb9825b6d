package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"signalbox/queue"
)

// FuzzDecodeFact feeds every kind of fact with any body to a decision on a
// queue with something in each place: whatever is stored, decoding refuses it or
// a decision survives it, and what is decoded encodes to the same again.
func FuzzDecodeFact(f *testing.F) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	step := queue.Step{Entry: "e1", Submission: 1, PR: 1, Head: "h1", Commit: "c1", Tree: "t1"}
	pr := queue.PullRequest{Number: 1, Head: "h1", Base: "main", Open: true, UpdatedAt: at}
	paused := queue.Paused
	for _, fact := range []queue.Fact{
		queue.PullRequestSeen{PullRequest: pr, Read: true}, queue.MergeabilitySeen{PR: 3, Head: "h3", Value: queue.Mergeable},
		queue.DirectSeen{PR: 3, Head: "h3", Target: "c0"}, queue.PullRequestDoubted{PR: 3}, queue.RefreshEnded{PR: 3, Gone: true},
		queue.Submitted{PullRequest: pr, ID: "e9", At: at.Add(time.Hour)}, queue.CancelRequested{PR: 1, At: at.Add(time.Hour)},
		queue.RestartRequested{PR: 1, At: at.Add(time.Hour)}, queue.ChangeRequested{Change: queue.Change{State: &paused}, At: at},
		queue.TargetMoved{Branch: "main", After: "c9"}, queue.TargetRead{Commit: "c9", Tree: "t9"},
		queue.CheckReported{Commit: "c1", Report: queue.Report{Kind: queue.CheckRun, Name: "ci", ID: 1, Status: "completed", Result: "success", At: at}},
		queue.TestResults{Commit: "c1", Check: "ci", Job: "j", Attempt: 2, Upload: 1, Complete: true, Failing: []queue.FailingTest{{ID: "t", Name: "T", Quarantined: true, Standing: queue.KnownFlaky}}},
		queue.ChecksDoubted{Commit: "c1"}, queue.RunBuilt{Run: "r2", Chain: []queue.Step{step, step}, Required: []queue.Required{{Name: "ci"}}},
		queue.RunNotBuilt{Run: "r2", Trouble: queue.TroubleConflict, Entry: "e2", With: "e1"}, queue.TestBranchMoved{Branch: "b1"},
		queue.LandingEnded{Landing: 1, Landed: []queue.LandedStep{{Entry: "e0", Submission: 1, Commit: "c0", Tree: "t0", Differs: "x"}}, Commit: "c0"},
		queue.ResyncEnded{Resync: 1}, queue.TargetsUploaded{PR: 1, Head: "h1"}, queue.RulesChanged{}, queue.RepositoryGone{Message: "gone"},
		queue.CommandAsked{PR: 1, Command: queue.Command{Verb: queue.VerbMerge}},
	} {
		body, err := queue.EncodeFact(fact)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fact.Kind(), body)
		f.Add(fact.Kind(), []byte("{}"))
		f.Add(fact.Kind(), []byte("null"))
	}
	f.Add("no_such_kind", []byte("{}"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		fact, err := queue.DecodeFact(kind, body)
		if err != nil {
			return
		}
		again, err := queue.EncodeFact(fact)
		if err != nil {
			t.Fatalf("%s was decoded and cannot be encoded: %v", kind, err)
		}
		if second, err := queue.DecodeFact(kind, again); err != nil {
			t.Fatalf("%s does not survive storage: %v", kind, err)
		} else if third, _ := queue.EncodeFact(second); string(third) != string(again) {
			t.Fatalf("%s changes in storage: %s, then %s", kind, again, third)
		}
		s := busy(at)
		received := []queue.Received{{ID: 1, Fact: fact}}
		plan := queue.Reconcile(s, received, at.Add(time.Minute))
		if _, err := json.Marshal(plan.Actions); err != nil {
			t.Fatal(err)
		}
		queue.Reconcile(s, received, at.Add(time.Hour)) // s is the state after the plan
		for _, e := range s.Entries {
			queue.Explain(s, e, at)
		}
	})
}

// busy is a queue with a landing in flight, a run at work, one that is being
// built, a bisection, and entries free, not ready and ended.
func busy(at time.Time) *queue.Snapshot {
	settings := queue.DefaultSettings()
	settings.Concurrency, settings.RequiredStatuses, settings.Batch = 3, []string{"ci"}, true
	q := queue.Queue{ID: 1, Key: "4b3bb2ee-3c0c-4b6c-9b53-4d1f3b1f5a10", Branch: "main", State: queue.Running, Settings: settings,
		Groups: 4, Runs: 4, Landings: 1, Bisected: 1, ResyncRuns: 1, Target: queue.Target{Commit: "base", Tree: "tree"}}
	s := queue.NewSnapshot(q)
	states := []queue.EntryState{queue.TestsPassed, queue.Testing, queue.Pending, queue.NotReady, queue.Merged, queue.Testing, queue.Pending, queue.Pending}
	for n, state := range states {
		id := queue.EntryID("e" + string(rune('0'+n)))
		e := &queue.Entry{ID: id, Submission: 1, State: state, BoundHead: "h" + string(rune('0'+n)), SubmittedAt: at, AdmittedAt: at, Mergeability: queue.Mergeable}
		e.Number, e.Head, e.Base, e.Open, e.UpdatedAt = int64(n), e.BoundHead, "main", state != queue.Merged, at
		s.Entries[id] = e
	}
	steps := func(ids ...queue.EntryID) (list []queue.Step) {
		for _, id := range ids {
			e := s.Entries[id]
			list = append(list, queue.Step{Entry: id, Submission: 1, PR: e.Number, Head: e.BoundHead, Commit: "c" + string(id[1:]), Tree: "t" + string(id[1:])})
		}
		return list
	}
	group := func(id queue.GroupID, state queue.RunState, part *queue.Part, chain []queue.Step, members ...queue.EntryID) {
		run := queue.RunID("r" + string(rune('0'+id)))
		g := &queue.Group{ID: id, Members: members, Run: run, Part: part}
		r := &queue.Run{ID: run, Group: id, Kind: queue.MainRun, State: state, Members: members, Chain: chain, Branch: "b" + string(run[1:]),
			Base: queue.Base{Commit: "base", Tree: "tree"}, Commit: chain[len(chain)-1].Commit, Tree: chain[len(chain)-1].Tree,
			Required: []queue.Required{{Name: "ci"}}, MergeMethod: settings.MergeMethod, LandingMode: settings.LandingMode(), StartedAt: at, Deadline: at.Add(50 * time.Hour)}
		if part != nil {
			r.Kind = queue.BisectionRun
		}
		s.Groups[id], s.Runs[run] = g, r
		for _, m := range members {
			s.Entries[m].Group = id
		}
	}
	group(1, queue.RunPassed, nil, steps("e0"), "e0")
	group(2, queue.Building, nil, steps("e0", "e2"), "e2")
	group(3, queue.RunTesting, nil, steps("e0", "e2", "e1"), "e1")
	group(4, queue.RunTesting, &queue.Part{Bisection: 1}, steps("e5"), "e5")
	s.Line, s.Parts = []queue.GroupID{1, 2, 3}, []queue.GroupID{4}
	s.Queue.Bisections = []queue.Bisection{{ID: 1, Steps: steps("e5"), Failed: [][]queue.Step{steps("e5", "e6")}, Members: []queue.EntryID{"e5", "e6"}}}
	s.Queue.Landing = &queue.Landing{ID: 1, Groups: []queue.GroupID{1}, Attempt: 1, Asked: at, Land: queue.Land{Landing: 1, Expect: "base"}}
	return s
}
