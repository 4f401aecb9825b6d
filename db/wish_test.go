package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"signalbox/db/dbtest"
	"signalbox/queue"
)

// answering decides as an engine does: refuses the pull request 13, grants
// everything else, one of them without a word.
func answering(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
	p := unchanged(s)
	p.Answers = map[int64]queue.Answer{}
	for _, f := range facts {
		if c, ok := f.Fact.(queue.CancelRequested); ok && c.PR == 13 {
			p.Answers[f.ID] = queue.Answer{Refused: queue.RefusedLanding, Message: "It is landing."}
		} else if ok && c.PR%2 == 0 {
			p.Answers[f.ID] = queue.Answer{}
		}
	}
	return p
}

func TestWishesAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// One engine in this program, or one in another that is heard of by
	// notification.
	for name, engine := range map[string]interface {
		Wakeups(context.Context) (<-chan queue.News, error)
		UpdateDue(context.Context, time.Time, func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan) (queue.ID, bool, error)
	}{"here": w.DB, "elsewhere": dbtest.Open(t, w.dsn, atEpoch)} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			wake, err := engine.Wakeups(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			running.Go(func() {
				for {
					// Until LISTEN stands a notification can be missed: an engine polls, too.
					select {
					case _, open := <-wake:
						if !open {
							return
						}
					case <-time.After(50 * time.Millisecond):
					}
					for {
						_, ok, err := engine.UpdateDue(ctx, epoch, answering)
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
						if !ok {
							break
						}
					}
				}
			})
			var asking sync.WaitGroup
			for pr := range int64(20) {
				asking.Go(func() {
					a, _, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.CancelRequested{PR: pr + 1, At: epoch})
					if want := pr+1 == 13; err != nil || (a.Refused != "") != want {
						t.Errorf("the wish about #%d: %+v, %v", pr+1, a, err)
					}
				})
			}
			asking.Wait()
			stop()
			running.Wait() // the channel is closed when ctx ends
		})
	}
}

// A wish for a queue that has gone takes no other with it.
func TestWishesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newQueue("release")
	told, err := w.StoreWishesTogether(w.repo.ID, queue.CancelRequested{PR: 1, At: epoch}, w.queue.ID, 4711, other.ID, w.queue.ID)
	w.must(err)
	for i, err := range told {
		if (err != nil) != (i == 1) {
			t.Errorf("wish %d: %v", i, err)
		}
	}
	for _, q := range []struct {
		queue.ID
		want int
	}{{w.queue.ID, 2}, {other.ID, 1}, {4711, 0}} {
		if n := w.count(`SELECT count(*) FROM inbox_routes u JOIN inbox i ON i.id = u.inbox_id WHERE u.queue_id = $1 AND i.routed_at IS NOT NULL`, int64(q.ID)); n != q.want {
			t.Errorf("queue %d has %d unread facts, want %d", q.ID, n, q.want)
		}
	}
}

// Who is decided on here is shown the queue as that very decision left it,
// with what Read adds for people; all who are decided on together are shown
// the same.
func TestAWishIsAnsweredWithWhatItsDecisionLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	passed := liveRun("passed", 1, "c", "b")
	passed.State, passed.StartedAt, passed.EndedAt = queue.RunPassed, epoch.Add(-time.Hour), epoch.Add(-40*time.Minute)
	first, second := entry(1), entry(2)
	second.SubmittedAt, second.AdmittedAt = epoch.Add(time.Second), epoch.Add(time.Second)
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{first, second}, []queue.Run{passed} })
	w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 3, "head3", []string{"a"}, false))
	type shown struct {
		queue.Answer
		s *queue.Snapshot
	}
	results := map[int64]chan shown{2: make(chan shown, 1), 3: make(chan shown, 1)}
	for pr, result := range results {
		go func() {
			again := entry(pr)
			a, s, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.Submitted{
				ID: newID(), PullRequest: again.PullRequest, Via: queue.ViaAPI, Priority: queue.Low, PriorityGiven: true, At: epoch.Add(time.Minute)})
			if err != nil {
				t.Errorf("#%d: %v", pr, err)
			}
			result <- shown{a, s}
		}()
	}
	eventually(t, "both wait", func() bool { return w.count(`SELECT count(*) FROM inbox_routes WHERE $1`, true) == 2 })
	at := epoch.Add(2 * time.Minute)
	_, ok, err := w.UpdateDue(t.Context(), at, func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
		p := unchanged(s)
		e := s.Entries[second.ID]
		e.Priority, e.PriorityGiven, e.Version = queue.Low, true, e.Version+1
		added := entry(3)
		added.State = queue.NotReady
		s.Entries[added.ID] = &added
		p.Entries = []queue.Entry{*e, added}
		return p
	})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	moved, added := <-results[2], <-results[3]
	if moved.s == nil || moved.s != added.s {
		t.Fatalf("they are not shown the same: %p, %p", moved.s, added.s)
	}
	if e := moved.s.ByPR(2); e == nil || e.Priority != queue.Low || moved.s.FreeAhead[e.ID] != 1 {
		t.Errorf("#2: %+v, %v ahead", e, moved.s.FreeAhead)
	}
	if e := added.s.ByPR(3); e == nil || e.State != queue.NotReady || e.Targets == 0 {
		t.Errorf("#3: %+v", e)
	}
	if added.s.TypicalTest != 20*time.Minute {
		t.Errorf("tests take %v", added.s.TypicalTest)
	}
}

// A list that was read before a decision is not shown after it.
func TestAListIsAsNewAsItsQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listed := func() (prs []int64) {
		t.Helper()
		q, err := w.FindQueue(t.Context(), w.org.ID, host, "acme", "app", "main")
		w.must(err)
		for range 2 { // read, and kept
			entries, err := w.Listed(t.Context(), q)
			w.must(err)
			prs = nil
			for _, e := range entries {
				prs = append(prs, e.Number)
			}
		}
		return prs
	}
	for n := range int64(3) {
		if got := listed(); int64(len(got)) != n {
			t.Fatalf("after %d decisions: %v", n, got)
		}
		added := entry(n + 1)
		w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{added} })
	}
	before, err := w.FindQueue(t.Context(), w.org.ID, host, "acme", "app", "main")
	w.must(err)
	w.store(func(p *queue.Plan) { p.Entries = []queue.Entry{entry(9)} })
	if entries, err := w.Listed(t.Context(), before); err != nil || len(entries) != 4 { // newer than asked for: right all the same
		t.Errorf("%d entries, %v", len(entries), err)
	}
	for _, q := range []string{"DELETE FROM entries", "DELETE FROM queues"} {
		_, err := w.SQL().Exec(q)
		w.must(err)
	}
	before.Turn = 0 // no queue ever has it
	if _, err := w.Listed(t.Context(), before); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of a queue that is gone: %v", err)
	}
}

func TestAWishThatNobodyDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cancelled := queue.CancelRequested{PR: 1, At: epoch}
	result := make(chan error)
	wish := func(ctx context.Context) {
		_, _, err := w.Wish(ctx, w.repo.ID, w.queue.ID, cancelled)
		result <- err
	}
	unread := func(want int) {
		t.Helper()
		eventually(t, "the wish is unread", func() bool {
			var n int
			w.must(w.SQL().QueryRow(`SELECT count(*) FROM inbox_routes`).Scan(&n))
			return n == want
		})
	}
	// Whoever asked goes away while the wish waits.
	ctx, cancel := context.WithCancel(t.Context())
	go wish(ctx)
	unread(1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody waits any more: %v", err)
	}
	if _, _, err := w.Wish(t.Context(), w.repo.ID, 4711, cancelled); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("for a queue that is not there: %v", err)
	}
	if _, _, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.Submitted{ID: "7"}); err == nil {
		t.Error("a submission without a UUID is accepted")
	}
	// The queue is deleted while somebody waits.
	go wish(t.Context())
	unread(2)
	w.must(w.DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "main"))
	if err := <-result; !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("when the queue is deleted: %v", err)
	}
}

func TestWakeupsAreHeardAcrossPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn, atEpoch)
	wake, err := other.Wakeups(t.Context())
	w.must(err)
	heard := func(what string, do func()) {
		t.Helper()
		// Until LISTEN stands a notification can be missed: do it again.
		eventually(t, what, func() bool {
			do()
			select {
			case <-wake:
				return true
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
	heard("facts appended elsewhere wake us", func() { w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) })
	// The connection breaks. Afterwards everything is as before.
	_, err = w.SQL().Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
	w.must(err)
	heard("a broken connection is made again", func() { w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{})) })
	heard("a plan saved elsewhere wakes us", func() { w.store(func(*queue.Plan) {}) })
	w.must(other.Close())
	eventually(t, "the channel is closed with the database", func() bool {
		select {
		case _, open := <-wake:
			return !open
		default:
			return false
		}
	})
}
