package db_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

func TestQueuesComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	find := func() (queue.Queue, error) { return w.FindQueue(t.Context(), w.org.ID, host, "Acme", "APP", "main") }
	q, err := find()
	w.must(err)
	if diff := cmp.Diff(w.queue, q); diff != "" || q.Key == "" || q.State != queue.Running || !q.CreatedAt.Equal(epoch) {
		t.Errorf("found %+v (-created +found):\n%s", q, diff)
	}
	if _, err := w.CreateQueue(t.Context(), w.org.ID, host, "acme", "app", "main", queue.DefaultSettings(), epoch); !errors.Is(err, queue.ErrExists) {
		t.Errorf("a second queue of one branch: %v", err)
	}
	w.newQueue("MAIN") // branches are matched exactly
	id, err := w.QueueFor(t.Context(), w.repo.ID, "main")
	if err != nil || id != w.queue.ID {
		t.Errorf("the queue of main is %d, %v", id, err)
	}
	if _, err := w.QueueFor(t.Context(), w.repo.ID, "Main"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the queue of Main: %v", err)
	}
	all, err := w.ListQueues(t.Context())
	w.must(err)
	if len(all) != 2 || all[0].Branch != "MAIN" || all[1].Branch != "main" {
		t.Errorf("all queues: %+v", all)
	}
	remove := func() error { return w.DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "main") }
	// Not while anything is active, not_ready too, nor while somebody waits
	// to be submitted.
	e := entry(1)
	for _, state := range []queue.EntryState{queue.NotReady, queue.Testing, queue.Cancelled} {
		w.store(func(p *queue.Plan) {
			e.State, e.Version = state, e.Version+1
			p.Entries = []queue.Entry{e}
			p.Moves = []queue.Move{{Entry: e.ID, PR: 1, Submission: 1, To: queue.NotReady, At: epoch, Reason: queue.SubmittedByUser}}
			p.Runs = []queue.Run{filled[queue.Run](1)}
		})
		if state == queue.Cancelled {
			w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, submitted(2)))
		}
		if err := remove(); !errors.Is(err, queue.ErrNotEmpty) {
			t.Errorf("with an entry that is %s: %v", state, err)
		}
		if _, err := find(); err != nil {
			t.Errorf("the refused deletion changed something: %v", err)
		}
	}
	w.taken()
	w.must(remove())
	if err := remove(); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	for _, table := range []string{"entries", "runs", "checks", "timeline", "inbox_routes"} {
		if n := w.count(`SELECT count(*) FROM ` + table); n != 0 {
			t.Errorf("%d rows of the queue are left in %s", n, table)
		}
	}
}

func TestTheEnqueuedAreListedInQueueOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entries := map[int64]*queue.Entry{}
	add := func(pr int64, change func(e *queue.Entry)) queue.EntryID {
		e := entry(pr)
		change(&e)
		entries[pr] = &e
		return e.ID
	}
	group := func(state queue.EntryState, id queue.GroupID) func(*queue.Entry) {
		return func(e *queue.Entry) { e.State, e.Group = state, id }
	}
	first := []queue.EntryID{add(3, group(queue.TestsPassed, 8)), add(1, group(queue.TestsPassed, 8))}
	second := []queue.EntryID{add(2, group(queue.Pending, 2))} // waits for a slot
	part := []queue.EntryID{add(4, group(queue.Testing, 5))}
	add(9, func(e *queue.Entry) { e.Priority = queue.Urgent })
	add(8, func(e *queue.Entry) { e.Returned = 1; e.Priority = queue.Low })
	add(7, func(e *queue.Entry) { e.Returned = 2 })
	add(6, func(e *queue.Entry) { e.Priority = queue.High })
	add(5, func(e *queue.Entry) { e.AdmittedAt = epoch.Add(-time.Minute) })
	add(10, func(e *queue.Entry) {})
	add(11, func(e *queue.Entry) { e.SubmittedAt = epoch.Add(time.Minute) })
	add(13, func(e *queue.Entry) { e.State, e.AdmittedAt = queue.NotReady, time.Time{} })
	add(12, func(e *queue.Entry) { e.State, e.AdmittedAt, e.Priority = queue.NotReady, time.Time{}, queue.High })
	add(14, func(e *queue.Entry) { e.State, e.LandedCommit = queue.Merged, "c" })
	w.store(func(p *queue.Plan) {
		for _, e := range entries {
			p.Entries = append(p.Entries, *e)
		}
		p.Groups = []queue.Group{
			{ID: 8, Members: first, FormedAt: epoch}, {ID: 2, Members: second, FormedAt: epoch},
			{ID: 5, Members: part, Part: &queue.Part{Bisection: 1}, FormedAt: epoch},
		}
		p.Line, p.Parts = []queue.GroupID{8, 2}, []queue.GroupID{5}
	})
	list, err := w.Listed(t.Context(), w.queue)
	w.must(err)
	var got []int64
	for _, e := range list {
		got = append(got, e.Number)
	}
	if diff := cmp.Diff([]int64{3, 1, 2, 4, 9, 8, 7, 6, 5, 10, 11, 12, 13}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	s, err := w.Read(t.Context(), w.queue.ID, 5, 9, 13)
	w.must(err)
	if diff := cmp.Diff(map[queue.EntryID]int64{entries[5].ID: 4, entries[9].ID: 0}, s.FreeAhead); diff != "" {
		t.Errorf("free entries ahead of #5 and #9 (-want +got):\n%s", diff)
	}
}

func TestEntriesAndRunsAreFoundByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := entry(1), entry(2)
	r := liveRun("r-1", 1, "c", "b")
	r.Chain = []queue.Step{{Entry: two.ID, PR: 2}, {Entry: one.ID, PR: 1}}
	r.Members = []queue.EntryID{one.ID}
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{one, two}, []queue.Run{r} })
	run, chain, err := w.Run(t.Context(), w.queue.ID, "r-1")
	w.must(err)
	if run.ID != "r-1" || len(chain) != 2 || chain[0].Number != 2 || chain[1].Number != 1 {
		t.Errorf("run %+v with %+v", run, chain)
	}
	queues, err := w.QueuesWith(t.Context(), w.repo.ID, 1)
	if err != nil || len(queues) != 1 || queues[0] != w.queue.ID {
		t.Errorf("#1 is in %v, %v", queues, err)
	}
	_, _, noRun := w.Run(t.Context(), w.queue.ID, "r-2\x00'; --")
	_, _, notHere := w.Run(t.Context(), w.queue.ID+1, "r-1")
	_, noEntry := w.Entry(t.Context(), w.queue.ID, 3)
	_, noQueue := w.Read(t.Context(), 4711)
	for i, err := range []error{noRun, notHere, noEntry, noQueue} {
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("what is not there, %d: %v", i, err)
		}
	}
	if id, err := w.Comment(t.Context(), w.repo.ID, 1); err != nil || id != 0 {
		t.Errorf("a comment that nobody made: %d, %v", id, err)
	}
	for _, id := range []int64{5, 6} {
		w.must(w.SetComment(t.Context(), w.repo.ID, 1, id))
		if got, err := w.Comment(t.Context(), w.repo.ID, 1); err != nil || got != id {
			t.Errorf("the comment is %d, %v, want %d", got, err, id)
		}
	}
	for _, commit := range []string{"", "c1", "c2", "", "c3"} {
		w.must(w.SetUnfinishedCheck(t.Context(), w.queue.ID, 1, commit))
		if got, err := w.UnfinishedCheck(t.Context(), w.queue.ID, 1); err != nil || got != commit {
			t.Errorf("the unfinished check is on %q, %v, want %q", got, err, commit)
		}
	}
	if err := w.SetUnfinishedCheck(t.Context(), 4711, 1, "c1"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a check of a queue that is not there: %v", err)
	}
	w.must(w.SetUnfinishedCheck(t.Context(), w.newQueue("other").ID, 1, "c1"))
	if err := w.DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "other"); err != nil {
		t.Errorf("a queue with an unfinished check cannot be deleted: %v", err)
	}
}

// Settings out of bounds never get as far as this; if they do, they stop here.
func TestIllegalRowsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := map[string]func(*queue.Settings){
		"no concurrency":            func(s *queue.Settings) { s.Concurrency = 0 },
		"too much concurrency":      func(s *queue.Settings) { s.BisectionConcurrency = queue.MaxNumber + 1 },
		"negative depth":            func(s *queue.Settings) { s.PendingFailureDepth = -1 },
		"no time":                   func(s *queue.Settings) { s.TestingTimeoutMinutes = 0 },
		"no label":                  func(s *queue.Settings) { s.EnqueueingLabel = "" },
		"unknown mode":              func(s *queue.Settings) { s.Mode = "triple" },
		"unknown merge method":      func(s *queue.Settings) { s.MergeMethod = "teleport" },
		"unknown landing mode":      func(s *queue.Settings) { s.ChosenLandingMode = "soft" },
		"unknown optimization mode": func(s *queue.Settings) { s.OptimizationMode = "all" },
		"unknown speculation":       func(s *queue.Settings) { s.Speculation = "wild" },
	}
	for name, change := range settings {
		s := queue.DefaultSettings()
		change(&s)
		if _, err := w.CreateQueue(t.Context(), w.org.ID, host, "acme", "app", "bad", s, epoch); err == nil {
			t.Errorf("a queue with %s is made", name)
		}
	}
	s := queue.DefaultSettings()
	s.Concurrency, s.PendingFailureDepth, s.BatchingMinSize = queue.MaxNumber, queue.MaxNumber, queue.MaxNumber
	_, err := w.CreateQueue(t.Context(), w.org.ID, host, "acme", "app", "largest", s, epoch)
	w.must(err)
	w.quiet()

	e, g := entry(1), queue.GroupID(1)
	plans := map[string]func(p *queue.Plan){
		"merged without a commit": func(p *queue.Plan) {
			e := e
			e.State, e.Reason = queue.Merged, queue.MergedByQueue
			p.Entries = []queue.Entry{e}
		},
		"ended without a reason":  func(p *queue.Plan) { e := e; e.State, e.Reason = queue.Failed, ""; p.Entries = []queue.Entry{e} },
		"two entries of one PR":   func(p *queue.Plan) { o := entry(1); p.Entries = []queue.Entry{e, o} },
		"PR zero":                 func(p *queue.Plan) { p.Entries = []queue.Entry{entry(0)} },
		"priority 256":            func(p *queue.Plan) { e := e; e.Priority = 256; p.Entries = []queue.Entry{e} },
		"an entry without a UUID": func(p *queue.Plan) { e := e; e.ID = "7"; p.Entries = []queue.Entry{e} },
		"two live runs of a group": func(p *queue.Plan) {
			p.Runs = []queue.Run{liveRun("a", g, "c1", "b"), liveRun("b", g, "c2", "b")}
		},
		"a tested run that was not built": func(p *queue.Plan) { p.Runs = []queue.Run{liveRun("a", g, "", "b")} },
		"an illegal move": func(p *queue.Plan) {
			p.Moves = []queue.Move{{Entry: e.ID, PR: 1, Submission: 1, From: queue.Merged, To: queue.Testing, At: epoch, Reason: queue.NowReady}}
		},
		"a move without a reason": func(p *queue.Plan) {
			p.Moves = []queue.Move{{Entry: e.ID, PR: 1, Submission: 1, To: queue.NotReady, At: epoch}}
		},
		"another queue": func(p *queue.Plan) { p.Queue.ID++ },
	}
	for name, change := range plans {
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
		_, _, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			change(&p)
			return p
		})
		if err == nil {
			t.Errorf("saved: %s", name)
		}
	}
	// Merged by hand may have no commit; a new run may follow one that ends.
	w.store(func(p *queue.Plan) {
		e.State, e.Reason = queue.Merged, queue.MergedByHand
		p.Entries, p.Runs = []queue.Entry{e}, []queue.Run{liveRun("a", g, "c1", "b1")}
	})
	w.store(func(p *queue.Plan) {
		a := liveRun("a", g, "c1", "b1")
		a.State = queue.Stopped
		p.Runs = []queue.Run{liveRun("0", g, "c2", "b2"), a}
	})
	// An older version never overwrites a newer one.
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	_, _, err = w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		p := unchanged(s)
		e.Version = 0
		p.Entries = []queue.Entry{e}
		return p
	})
	if err == nil {
		t.Error("an older version of an entry was saved")
	}
}

// The database repeats the table of legal moves: exactly it.
func TestTheTimelineTakesTheLegalMovesAndNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	legal := map[[2]queue.EntryState]bool{}
	for _, tr := range queue.Transitions {
		legal[[2]queue.EntryState{tr.From, tr.To}] = true
	}
	states := append([]queue.EntryState{queue.Never}, queue.EntryStates...)
	for _, from := range states {
		for _, to := range states {
			_, err := w.SQL().Exec(fmt.Sprintf(`
				INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message, actor_login, actor_id, actor_bot, run_id)
				VALUES ($1, '%s', 1, 1, $2, $3, $4, 'R', '', '', 0, false, '')`, newID()), int64(w.queue.ID), string(from), string(to), epoch)
			if want := legal[[2]queue.EntryState{from, to}]; (err == nil) != want {
				t.Errorf("from %q to %q: legal %v, and the database says %v", from, to, want, err)
			}
		}
	}
}
