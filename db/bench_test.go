package db_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
