package db_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/queue"
)

// What this program changes is so here at once, whatever it remembers.
func TestWhatIsRememberedEndsWithAChangeHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hash := account.Hash("secret")
	token, err := w.CreateToken(t.Context(), w.org, "ci", account.Submit, hash, epoch.Add(time.Hour))
	w.must(err)
	for range 2 { // the second time from memory
		_, err = w.Token(t.Context(), hash, epoch)
		w.must(err)
	}
	if _, err := w.Token(t.Context(), hash, epoch.Add(time.Hour)); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a token that has ended is valid: %v", err)
	}
	w.must(w.RevokeToken(t.Context(), w.org.ID, token.ID))
	if _, err := w.Token(t.Context(), hash, epoch); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a revoked token is valid: %v", err)
	}

	recent := func() (queue.Queue, error) { return w.RecentQueue(t.Context(), w.org.ID, host, "acme", "app", "main") }
	for range 2 {
		q, err := recent()
		w.must(err)
		if q.ID != w.queue.ID || q.Repo != w.repo {
			t.Errorf("found %d of %v", q.ID, q.Repo)
		}
	}
	gone := connection("acme", 5)
	gone.Installation.Suspended = true
	w.must(w.Connect(t.Context(), gone))
	if q, err := recent(); err != nil || q.Repo.Installation != 0 {
		t.Errorf("a suspended installation serves %v, %v", q.Repo, err)
	}
	w.must(w.DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "main"))
	if _, err := recent(); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a deleted queue is found: %v", err)
	}
}

// Another program deletes a queue that is remembered here: a wish for it is
// refused, and from then on it is known to be gone.
func TestAWishForAQueueThatIsGoneElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recent := func() error {
		_, err := w.RecentQueue(t.Context(), w.org.ID, host, "acme", "app", "main")
		return err
	}
	w.must(recent())
	w.must(dbtest.Open(t, w.dsn, atEpoch).DeleteQueue(t.Context(), w.org.ID, host, "acme", "app", "main"))
	_, _, err := w.Wish(t.Context(), w.repo.ID, w.queue.ID, queue.CancelRequested{PR: 1, At: epoch})
	if !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the wish: %v", err)
	}
	if err := recent(); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("afterwards: %v", err)
	}
}

// Whoever decides wakes somebody else exactly when there is something for them.
func TestADecisionWakesOthersForWhatElseIsDue(t *testing.T) {
	t.Parallel()
	w := newWisher(t, true)
	release := w.newQueue("release")
	wake, err := w.Wakeups(t.Context())
	w.must(err)
	decide := func() (during queue.News, id queue.ID) {
		id, ok := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			select {
			case during = <-wake:
			default:
			}
			return refuse(s, facts)
		})
		if !ok {
			t.Error("nothing is due")
		}
		<-wake // that it is saved
		return during, id
	}
	// A wish for one, from memory, while facts wait for the other alone.
	result := w.wish(t.Context())
	w.must(w.Append(t.Context(), w.repo.ID, release.ID, queue.ResyncEnded{}))
	<-wake
	during, first := decide()
	if during != queue.FactsWait {
		t.Errorf("while two are due, %05b is heard", during)
	}
	during, second := decide()
	if during != 0 || first == second {
		t.Errorf("while one is due, %05b is heard, of queue %d after %d", during, second, first)
	}
	if got := <-result; got.err != nil || got.Refused != queue.RefusedLanding {
		t.Errorf("the wish: %+v", got)
	}
	if id, ok := w.update(refuse); ok {
		t.Errorf("queue %d is due once more", id)
	}
}

// Those who work jobs hear of new ones, by River's name and after the commit. What
// they hear is kept until then by us: NOTIFY in the transaction would make commits
// wait for one another.
func TestWorkersHearOfJobsAfterTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listener := pq.NewListener(w.dsn, time.Millisecond, time.Second, nil)
	defer listener.Close()
	w.must(listener.Listen("public.river_insert"))
	w.must(w.Inserting(t.Context(), []queue.Action{
		queue.ReadTarget{Queue: w.queue.ID, Branch: "main"}, queue.RefreshPR{Queue: w.queue.ID, PR: 1}, queue.SyncPR{Queue: w.queue.ID, Entry: newID(), PR: 1},
	}, func() {
		if diff := cmp.Diff([]string{"read", "tell"}, db.Untold(w.DB)); diff != "" {
			t.Errorf("before the commit, what is to be told is kept (-want +got):\n%s", diff)
		}
	}))
	heard := map[string]bool{}
	for range 2 {
		n := <-listener.Notify
		for n == nil { // it has connected
			n = <-listener.Notify
		}
		if w.count(`SELECT count(*) FROM river_job`) != 3 {
			t.Error("a worker is told of jobs that it cannot see")
		}
		heard[strings.ReplaceAll(n.Extra, " ", "")] = true
	}
	if !heard[`{"queue":"read"}`] || !heard[`{"queue":"tell"}`] {
		t.Errorf("heard %v", heard)
	}
}
