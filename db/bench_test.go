package db_test

import (
	"testing"
	"time"

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

// The durable path of a webhook.
func BenchmarkReceive(b *testing.B) {
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
