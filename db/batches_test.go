package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// batches puts the world's queue into parallel mode, with batches.
func (w *world) batches(concurrency, size int64) {
	w.t.Helper()
	w.store(func(p *queue.Plan) {
		p.Queue.Mode, p.Queue.Batch, p.Queue.Concurrency, p.Queue.BatchingMinSize = queue.Parallel, true, concurrency, size
		p.Queue.Target = queue.Target{Commit: "commit", Tree: "tree"}
	})
}

// free saves free entries in this order, #1 first, with one target each.
func (w *world) free(targets ...string) {
	w.t.Helper()
	var entries []queue.Entry
	for i, target := range targets {
		e := entry(int64(i + 1))
		e.Head = fmt.Sprint("head", i+1)
		e.BoundHead = e.Head
		e.AdmittedAt = epoch.Add(time.Duration(i) * time.Second)
		w.upload(e.Number, e.Head, target)
		entries = append(entries, e)
	}
	w.put(nil, entries...)
}

func TestAWindowHoldsWholeBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.batches(1, 3)
	w.free("a", "b", "c", "d", "e", "f", "b", "a", "f", "f")
	now := epoch.Add(2 * time.Minute)
	// #6, #9 and #10 are a batch of f; the others wait for company, and are not
	// needed to know that.
	s, prs := w.window(now)
	if diff := cmp.Diff([]int64{6, 9, 10}, prs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := epoch.Add(5 * time.Minute); !s.NextDue.Equal(want) {
		t.Errorf("the next is due at %s, want %s: when #1 has waited for long enough", s.NextDue, want)
	}
	// Then #1 brings its mate along.
	if _, prs := w.window(epoch.Add(5 * time.Minute)); !slices.Equal(prs, []int64{1, 6, 8, 9, 10}) {
		t.Errorf("when #1 is due: %v", prs)
	}
}

// What a decision starts must not depend on how much of the queue it sees.
func TestAWindowStartsWhatTheWholeQueueWould(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 11))
	for round := range 8 {
		w := newWorld(t)
		concurrency, size := 1+random.Int64N(4), 2+random.Int64N(3)
		w.batches(concurrency, size)
		var entries []queue.Entry
		lanes := 3 + random.IntN(30)
		for i := range 60 {
			e := entry(int64(i + 1))
			e.Head = fmt.Sprint("head", i+1)
			e.BoundHead = e.Head
			e.AdmittedAt = epoch.Add(time.Duration(i) * 7 * time.Second)
			e.NoBatch = random.IntN(15) == 0
			e.Priority = []int64{queue.Medium, queue.Medium, queue.High}[random.IntN(3)]
			names := []string{fmt.Sprint(random.IntN(lanes))}
			if random.IntN(8) == 0 {
				names = append(names, fmt.Sprint(random.IntN(lanes)))
			}
			switch random.IntN(60) {
			case 0: // unknown, which is everything
			case 1:
				w.upload(e.Number, e.Head)
			default:
				w.upload(e.Number, e.Head, names...)
			}
			entries = append(entries, e)
		}
		w.put(nil, entries...)
		now := epoch.Add(time.Duration(random.IntN(12)) * time.Minute)
		started := func(s *queue.Snapshot) (groups [][]int64) {
			number := map[queue.EntryID]int64{}
			for _, e := range s.Entries {
				number[e.ID] = e.Number
			}
			for _, g := range queue.Reconcile(s, nil, now).Groups {
				var members []int64
				for _, id := range g.Members {
					members = append(members, number[id])
				}
				groups = append(groups, members)
			}
			slices.SortFunc(groups, slices.Compare)
			return groups
		}
		whole, all := w.window(now, queue.RulesChanged{})
		window, some := w.window(now)
		if diff := cmp.Diff(started(whole), started(window)); diff != "" {
			t.Errorf("round %d: concurrency %d, batches of %d, %d lanes: %d of %d entries in the window (-whole +window):\n%s",
				round, concurrency, size, lanes, len(some), len(all), diff)
		}
	}
}
