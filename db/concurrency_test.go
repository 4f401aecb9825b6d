package db_test

// Several programs share one database: here, several DBs in one test. What
// arrives is folded, once, whoever decides and however the moments fall.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

func atEpoch(c *db.Config) { c.Now = func() time.Time { return epoch } }

func TestFactsThatArriveDuringDecisionsAreFoldedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const senders, each = 8, 25
	var folded sync.Map // the fact's number → how often a committed decision had it
	var sending, deciding sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				if err := w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{Resync: int64(i*each + k)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 3 {
		other := dbtest.Open(t, w.dsn, atEpoch)
		deciding.Go(func() {
			for {
				var numbers []int64
				_, ok, err := other.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
					numbers = nil // it may run again
					for _, f := range facts {
						numbers = append(numbers, f.Fact.(queue.ResyncEnded).Resync)
					}
					p := unchanged(s)
					p.Queue.Runs += int64(len(facts)) // a lost update would show
					return p
				})
				if err != nil {
					t.Error(err)
					return
				}
				for _, n := range numbers {
					count, _ := folded.LoadOrStore(n, new(atomic.Int64))
					count.(*atomic.Int64).Add(1)
				}
				if !ok {
					select {
					case <-done:
						return
					default:
					}
				}
			}
		})
	}
	sending.Wait()
	close(done)
	deciding.Wait()
	for n := range int64(senders * each) {
		count, ok := folded.Load(n)
		if !ok || count.(*atomic.Int64).Load() != 1 {
			t.Errorf("fact %d was folded %v times", n, count)
		}
	}
	q, err := w.FindQueue(t.Context(), w.org.ID, host, "acme", "app", "main")
	w.must(err)
	if q.Runs != senders*each {
		t.Errorf("the decisions counted %d facts", q.Runs)
	}
}

// While one program decides, another can take another queue, but not the same.
func TestOneDecisionPerQueueAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := w.newQueue("release")
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	other := dbtest.Open(t, w.dsn, atEpoch)
	again := func() (queue.ID, bool) {
		id, ok, err := other.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan { return unchanged(s) })
		w.must(err)
		return id, ok
	}
	w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
		if id, ok := again(); ok {
			t.Errorf("queue %d is being decided on twice", id)
		}
		// Appending does not wait for the decision, also not to this queue.
		w.must(other.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{Resync: 2}))
		w.must(other.Append(t.Context(), w.repo.ID, release.ID, queue.ResyncEnded{Resync: 3}))
		if id, ok := again(); !ok || id != release.ID {
			t.Errorf("the other queue was not decided on, but %d", id)
		}
		return unchanged(s)
	})
	if got := w.taken()[w.queue.ID]; len(got) != 1 {
		t.Errorf("after the decision its queue is due for %v, want the fact that came meanwhile", got)
	}
}

// A queue that never rests does not keep others waiting.
func TestQueuesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []queue.ID{w.queue.ID, w.newQueue("a").ID, w.newQueue("b").ID}
	served := map[queue.ID]int{}
	for range 9 {
		for _, id := range ids {
			w.must(w.Append(t.Context(), w.repo.ID, id, queue.ResyncEnded{}))
		}
		id, _ := w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
			p := unchanged(s)
			p.Wake = epoch
			return p
		})
		served[id]++
	}
	for _, id := range ids {
		if served[id] != 3 {
			t.Errorf("of nine decisions queue %d had %d", id, served[id])
		}
	}
}

func TestAQueueIsDueAtItsWakeTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wake := epoch.Add(time.Minute)
	w.store(func(p *queue.Plan) { p.Wake = wake })
	at := func(now time.Time) bool {
		_, ok, err := w.UpdateDue(t.Context(), now, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan { return unchanged(s) })
		w.must(err)
		return ok
	}
	next, err := w.NextWake(t.Context())
	w.must(err)
	if !next.Equal(wake) {
		t.Errorf("next wake is %s, want %s", next, wake)
	}
	if at(wake.Add(-time.Microsecond)) {
		t.Error("due too early")
	}
	if !at(wake.Add(999 * time.Nanosecond)) {
		t.Error("not due at its time")
	}
	if next, err = w.NextWake(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("next wake is %s, %v, though the plan wants none", next, err)
	}
}

// A decision that panics changes nothing, and the queue can be set aside.
func TestAFailedDecisionLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newQueue("other")
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{Resync: 1}))
	func() {
		defer func() {
			if p := recover(); fmt.Sprint(p) != "no" {
				t.Errorf("the panic that came out is %v", p)
			}
		}()
		w.update(func(*queue.Snapshot, []queue.Received) queue.Plan { panic("no") })
	}()
	id, ok, err := w.UpdateDue(t.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
		p := unchanged(s)
		p.Queue.StateWhy = "half done"
		e := entry(1)
		e.State = "nonsense"
		p.Entries = []queue.Entry{e}
		return p
	})
	if err == nil || ok || id != w.queue.ID {
		t.Errorf("an illegal row: %d, %v, %v", id, ok, err)
	}
	until := epoch.Add(time.Minute)
	w.must(w.Postpone(t.Context(), w.queue.ID, until))
	next, err := w.NextWake(t.Context())
	w.must(err)
	if !next.Equal(until) {
		t.Errorf("next wake is %s, want the end of the postponement", next)
	}
	w.must(w.Append(t.Context(), w.repo.ID, other.ID, queue.ResyncEnded{}))
	if got := w.taken(); len(got[w.queue.ID]) != 0 || len(got[other.ID]) != 1 {
		t.Errorf("decided on %v, want the other queue alone", got)
	}
	_, ok, err = w.UpdateDue(t.Context(), until, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
		if len(facts) != 1 || s.Queue.StateWhy != "" {
			t.Errorf("afterwards there are %d facts, and the queue says %q", len(facts), s.Queue.StateWhy)
		}
		return unchanged(s)
	})
	if err != nil || !ok {
		t.Errorf("the queue is not due when its time has come: %v", err)
	}
}

// Reports, runs and routing at once, again and again: whatever comes first,
// each report reaches its run, once.
func TestAdoptionHasNoGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := dbtest.Open(t, w.dsn, atEpoch)
	got := map[string]int{}
	count := func(s *queue.Snapshot, facts []queue.Received) {
		for _, f := range facts {
			if report, ok := f.Fact.(queue.CheckReported); ok {
				got[report.Commit]++
			}
		}
	}
	const rounds = 40
	for i := range rounds {
		commit := fmt.Sprintf("commit %d", i)
		w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
		var all sync.WaitGroup
		all.Go(func() {
			if err := other.Append(t.Context(), w.repo.ID, 0, queue.CheckReported{Commit: commit}); err != nil {
				t.Error(err)
			}
			if err := other.Route(t.Context(), epoch); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
				count(s, facts)
				p := unchanged(s)
				p.Runs = []queue.Run{liveRun(queue.RunID(commit), queue.GroupID(i+1), commit, commit)}
				return p
			})
		})
		all.Wait()
		for {
			_, ok := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
				count(s, facts)
				return unchanged(s)
			})
			if !ok {
				break
			}
		}
		if got[commit] != 1 {
			t.Fatalf("round %d: the report on the run was folded %d times", i, got[commit])
		}
	}
}

// The narrowest moment: a run is written but not committed when its report
// comes and is put aside. A trigger holds the commit back just there.
func TestAReportPutAsideDuringTheCommitIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lock = 99
	_, err := w.SQL().Exec(`
		CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_advisory_xact_lock(99); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON runs DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION hold_commit()`)
	w.must(err)
	held, err := w.SQL().Conn(t.Context())
	w.must(err)
	defer held.Close()
	_, err = held.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, lock)
	w.must(err)
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
	var deciding sync.WaitGroup
	deciding.Go(func() {
		w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
			p := unchanged(s)
			p.Runs = []queue.Run{liveRun("r", 1, "c", "b")}
			return p
		})
	})
	eventually(t, "the commit is held back", func() bool {
		return w.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, lock) == 1
	})
	w.must(w.Append(t.Context(), w.repo.ID, 0, queue.CheckReported{Commit: "c"}))
	w.must(w.Route(t.Context(), epoch))
	if n := w.count(`SELECT count(*) FROM inbox WHERE waits`); n != 1 {
		t.Errorf("%d reports are put aside", n)
	}
	_, err = held.ExecContext(t.Context(), `SELECT pg_advisory_unlock($1)`, lock)
	w.must(err)
	deciding.Wait()
	if got := w.taken()[w.queue.ID]; len(got) != 1 {
		t.Errorf("the run got %v", got)
	}
}
