package db_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	w.must(w.SQL().QueryRow(query, args...).Scan(&n))
	return n
}

func TestADeliveryCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	facts := []queue.Fact{queue.TargetMoved{Branch: "main", After: "c1"}, queue.PullRequestDoubted{PR: 3}}
	var fresh atomic.Int64
	var all sync.WaitGroup
	for range 8 { // the host can be impatient and deliver again meanwhile
		all.Go(func() {
			for i := range 5 {
				isFresh, err := w.Receive(t.Context(), fmt.Sprintf("delivery %d", i), "GitHub.COM", hostID, facts, nil)
				if err != nil {
					t.Error(err)
				}
				if isFresh {
					fresh.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := w.count(`SELECT count(*) FROM inbox`); fresh.Load() != 5 || n != 10 {
		t.Errorf("5 deliveries of 2 facts, eight times each: %d fresh, %d facts", fresh.Load(), n)
	}
	w.must(w.Route(t.Context(), epoch))
	if diff := cmp.Diff([]string{"target_moved", "target_moved", "target_moved", "target_moved", "target_moved"}, w.taken()[w.queue.ID]); diff != "" {
		t.Errorf("facts of the queue (-want +got):\n%s", diff)
	}
}

func TestDeliveriesThatComeToNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fact := []queue.Fact{queue.TargetMoved{Branch: "main"}}
	tests := []struct {
		name, delivery, host string
		repo                 int64
		facts                []queue.Fact
		fails                bool
	}{
		{"nothing in it", "d1", host, hostID, nil, false},
		{"a repository that is not connected", "d2", host, 4711, fact, false},
		{"a host that is not ours", "d3", "github.example", hostID, fact, false},
		{"no id", "", host, hostID, fact, true},
		{"an endless id", string(make([]byte, 5000)), host, hostID, fact, true},
	}
	for _, tt := range tests {
		for range 2 { // it is not remembered, so it may come again
			fresh, err := w.Receive(t.Context(), tt.delivery, tt.host, tt.repo, tt.facts, nil)
			if (err != nil) != tt.fails || err == nil && !fresh {
				t.Errorf("%s: fresh %v, %v", tt.name, fresh, err)
			}
		}
	}
	if n := w.count(`SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM deliveries)`); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
}

// An installation that was removed stays so when an old delivery is repeated.
func TestAnOldConnectionIsNotAppliedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := []account.Connection{connection("acme", 5, repository("acme", "new", 78))}
	for i, want := range []bool{true, false} {
		fresh, err := w.Receive(t.Context(), "d1", host, 78, []queue.Fact{queue.RulesChanged{}}, add)
		w.must(err)
		if fresh != want {
			t.Errorf("delivery %d: fresh %v", i+1, fresh)
		}
		if i == 0 {
			if n := w.count(`SELECT count(*) FROM inbox WHERE kind = 'rules_changed'`); n != 1 {
				t.Errorf("%d facts about the repository that the same delivery connected", n)
			}
			_, err := w.Receive(t.Context(), "d2", host, 0, nil, []account.Connection{{Installation: add[0].Installation, Removed: add[0].Added}})
			w.must(err)
		}
	}
	repo, err := w.Repository(t.Context(), w.org.ID, host, "acme", "new")
	w.must(err)
	if repo.Installation != 0 {
		t.Error("the repository is connected again")
	}
}

func TestWhatIsOldIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Receive(t.Context(), "d1", host, hostID, []queue.Fact{queue.TargetMoved{Branch: "main"}, queue.PullRequestDoubted{PR: 9}, queue.CheckReported{Commit: "unknown"}}, nil)
	w.must(err)
	w.must(w.Route(t.Context(), epoch))
	for _, step := range []struct {
		after             time.Duration
		facts, deliveries int
	}{
		{59 * time.Minute, 3, 1},
		{61 * time.Minute, 2, 1},             // nobody had that commit
		{7 * 24 * time.Hour, 2, 1},           // it may be delivered again
		{8*24*time.Hour + time.Second, 1, 0}, // what is unread stays
	} {
		w.must(w.Maintain(t.Context(), epoch.Add(step.after)))
		facts, deliveries := w.count(`SELECT count(*) FROM inbox`), w.count(`SELECT count(*) FROM deliveries`)
		if facts != step.facts || deliveries != step.deliveries {
			t.Errorf("after %s there are %d facts and %d deliveries, want %d and %d", step.after, facts, deliveries, step.facts, step.deliveries)
		}
	}
}

// Deliveries that are stored together keep their order, and those that came
// before are told apart.
func TestDeliveriesStoredTogetherKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var list []db.Together
	var want []int64
	for i := range int64(60) {
		list = append(list, db.Together{ID: fmt.Sprint("delivery ", (i*37)%60), Facts: []queue.Fact{queue.PullRequestDoubted{PR: 2*i + 1}, queue.PullRequestDoubted{PR: 2*i + 2}}})
		want = append(want, 2*i+1, 2*i+2)
	}
	if repeated, err := db.ReceiveTogether(t.Context(), w.DB, host, hostID, list...); err != nil || len(repeated) > 0 {
		t.Fatal(repeated, err)
	}
	var got []int64
	rows, err := w.SQL().Query(`SELECT pr FROM inbox ORDER BY id`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var pr int64
		w.must(rows.Scan(&pr))
		got = append(got, pr)
	}
	w.must(rows.Err())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts by their ids (-want +got):\n%s", diff)
	}
	again := append(list[7:9:9], db.Together{ID: "another", Facts: list[0].Facts})
	repeated, err := db.ReceiveTogether(t.Context(), w.DB, host, hostID, again...)
	w.must(err)
	if diff := cmp.Diff([]string{list[7].ID, list[8].ID}, repeated); diff != "" || w.count(`SELECT count(*) FROM inbox`) != 122 {
		t.Errorf("came before (-want +got):\n%s", diff)
	}
}
