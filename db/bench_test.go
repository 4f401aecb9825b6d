package db_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/benchtest"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// One fact about one pull request while ten thousand wait: what a reconcile
// costs with its transaction.
func BenchmarkOneFactWith10000Waiting(b *testing.B) {
	w := newWorld(b)
	w.store(func(p *queue.Plan) {
		p.Queue.Concurrency = 10
		for pr := range int64(10000) {
			e := entry(pr + 1)
			e.AdmittedAt = epoch.Add(time.Duration(pr) * time.Second)
			p.Entries = append(p.Entries, e)
		}
	})
	_, err := w.SQL().Exec(`ANALYZE`)
	w.must(err)
	for b.Loop() {
		w.must(w.Append(b.Context(), w.repo.ID, w.queue.ID, queue.PullRequestDoubted{PR: 5000}))
		_, ok, err := w.UpdateDue(b.Context(), epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			e := *s.ByPR(5000)
			e.Version++
			p.Entries = []queue.Entry{e}
			p.Actions = []queue.Action{queue.SyncPR{PR: 5000}}
			return p
		})
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}

// B9: what a program does first that has just started, with ten thousand pull
// requests waiting: everything is read from Postgres, the line is filled, and what
// that asks for is stored.
func BenchmarkB9ColdPlan(b *testing.B) {
	const waiting, targets, universe = 10_000, 50, 200_000
	dbtest.Durable(b)
	for _, mode := range []queue.Mode{queue.Single, queue.Parallel} {
		w := newWorld(b)
		w.store(func(p *queue.Plan) {
			p.Queue.Concurrency, p.Queue.Mode, p.Queue.RequiredStatuses = 50, mode, []string{"ci"}
			p.Queue.Target.Commit, p.Queue.Target.Tree = "c0", "t0"
			for pr := range int64(waiting) {
				e := entry(pr + 1)
				e.Head, e.AdmittedAt = fmt.Sprint("head", pr+1), epoch.Add(time.Duration(pr)*time.Millisecond)
				e.BoundHead = e.Head
				p.Entries = append(p.Entries, e)
			}
		})
		if mode == queue.Parallel {
			w.targets(waiting, targets, universe)
		}
		_, err := w.SQL().Exec(`VACUUM ANALYZE`)
		w.must(err)
		w.must(w.Append(b.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
		m := benchtest.New(b, w.SQL())
		began := time.Now()
		d := dbtest.Open(b, w.dsn)
		decisions, runs := 0, 0
		for {
			_, ok, err := d.UpdateDue(b.Context(), epoch.Add(time.Minute), func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan {
				p := queue.Reconcile(s, facts, now)
				runs += len(p.Runs)
				return p
			})
			w.must(err)
			if !ok {
				break
			}
			decisions++
		}
		took := time.Since(began)
		m.End()
		if runs != 50 {
			b.Errorf("%d runs were made for 50 slots", runs)
		}
		m.Judge(benchtest.Figure{ID: "B9", Measure: fmt.Sprintf("cold plan of 10,000, %s mode, 50 slots", mode), Got: benchtest.Milliseconds(took), Unit: " ms", Must: 3000, Goal: 500,
			Calib: fmt.Sprintf("%d decisions, %.0f x a commit", decisions, took.Seconds()*m.Commits)})
	}
	b.ReportMetric(0, "ns/op")
}

// targets uploads so many targets for each of the pull requests from 1.
func (w *world) targets(pulls, each, universe int) {
	var all sync.WaitGroup
	for part := range 8 {
		all.Go(func() {
			for n := 1 + part; n <= pulls; n += 8 {
				names := make([]string, each)
				for i := range names {
					names[i] = fmt.Sprintf("//some/package/of/many:target_%d", (n*7919+i*104729)%universe)
				}
				if err := w.SetImpactedTargets(w.t.Context(), w.repo.ID, int64(n), fmt.Sprint("head", n), names, false); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// The durable path of webhooks, 64 at a time, as a ratio: how many times more
// of them are stored in a second than if each had a transaction of its own.
func BenchmarkReceiveTogether(b *testing.B) {
	dbtest.Durable(b)
	w := newWorld(b)
	deliver := func(n int, receive func(id string) error) float64 {
		began := time.Now()
		var senders sync.WaitGroup
		var taken atomic.Int64
		for range 64 {
			senders.Go(func() {
				for taken.Add(1) <= int64(n) {
					if err := receive(string(newID())); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		senders.Wait()
		return float64(n) / time.Since(began).Seconds()
	}
	facts := []queue.Fact{queue.PullRequestDoubted{PR: 1}}
	var alone, together float64
	for b.Loop() {
		alone = deliver(2000, func(id string) error { return w.ReceiveAlone(b.Context(), id, host, hostID, facts) })
		together = deliver(2000, func(id string) error {
			_, err := w.Receive(b.Context(), id, host, hostID, facts, nil)
			return err
		})
	}
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(together, "together/s")
	b.ReportMetric(together/alone, "times")
}

// The durable path of a webhook.
func BenchmarkReceive(b *testing.B) {
	dbtest.Durable(b)
	w := newWorld(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := string(newID())
			if _, err := w.Receive(b.Context(), id, host, hostID, []queue.Fact{queue.CheckReported{Commit: id}}, nil); err != nil {
				b.Error(err)
			}
		}
	})
}
