package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

// Only a branch whose run is known to be over is left over: no run of a group, none
// that ended just now, none of another repository, and nothing that no run had.
func TestStraysAreOfRunsThatAreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Connect(t.Context(), connection("acme", 5, repository("acme", "lib", hostID+1))))
	other, err := w.Repository(t.Context(), w.org.ID, host, "acme", "lib")
	w.must(err)
	release := w.newQueue("release")
	ended := func(id queue.RunID, group queue.GroupID, state queue.RunState, ago time.Duration) queue.Run {
		r := liveRun(id, group, "c-"+string(id), "signalbox/pr-1/"+string(id))
		r.State, r.EndedAt, r.AskedAt = state, epoch.Add(-ago), epoch.Add(-25*time.Hour)
		return r
	}
	w.store(func(p *queue.Plan) {
		p.Runs = []queue.Run{
			ended("failed", 1, queue.RunFailed, time.Hour), ended("stopped", 2, queue.Stopped, 48*time.Hour), ended("earlier", 3, queue.Interrupted, 2*time.Hour),
			ended("lands", 3, queue.RunPassed, time.Hour), ended("just now", 4, queue.RunFailed, time.Minute), ended("live", 5, queue.RunTesting, 0),
		}
		p.Groups = []queue.Group{{ID: 3, Run: "lands", Members: []queue.EntryID{}, FormedAt: epoch}}
	})
	w.must(w.Append(t.Context(), w.repo.ID, release.ID, queue.ResyncEnded{}))
	w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
		p := unchanged(s)
		p.Runs = []queue.Run{ended("release", 1, queue.RunFailed, 3*time.Hour)}
		return p
	})
	branches := []string{"signalbox/pr-1/nobody's"}
	for _, id := range []string{"failed", "stopped", "earlier", "lands", "just now", "live", "release"} {
		branches = append(branches, "signalbox/pr-1/"+id)
	}
	strays := func(repo queue.RepoID, branches []string) []db.Stray {
		t.Helper()
		list, err := w.Strays(t.Context(), repo, branches, epoch.Add(-5*time.Minute))
		w.must(err)
		return list
	}
	want := []db.Stray{
		{Queue: w.queue.ID, Branch: "signalbox/pr-1/stopped"}, {Queue: release.ID, Branch: "signalbox/pr-1/release"},
		{Queue: w.queue.ID, Branch: "signalbox/pr-1/earlier"}, {Queue: w.queue.ID, Branch: "signalbox/pr-1/failed"},
	}
	if diff := cmp.Diff(want, strays(w.repo.ID, branches)); diff != "" {
		t.Errorf("left over (-want +got):\n%s", diff)
	}
	if got := append(strays(other.ID, branches), strays(w.repo.ID, branches[:1])...); len(got) != 0 {
		t.Errorf("left over are %v, want none: they are another repository's, or nobody's", got)
	}

	const turns = 288
	its := int64(w.repo.ID) % turns
	tested := func(since time.Duration, turn int64) int {
		t.Helper()
		list, err := w.Tested(t.Context(), epoch.Add(-since), turn, turns)
		w.must(err)
		if len(list) > 0 && list[0] != w.repo {
			t.Errorf("runs were asked for on %+v, want on %+v", list[0], w.repo)
		}
		return len(list)
	}
	if a, b, c := tested(24*time.Hour, its+1), tested(26*time.Hour, its+1), tested(24*time.Hour, its); a != 0 || b != 1 || c != 1 {
		t.Errorf("to look at are %d repositories after a day, %d in a day and two hours, and %d when its turn has come, want 0, 1 and 1", a, b, c)
	}
	w.must(w.Connect(t.Context(), account.Connection{Installation: account.Installation{ID: 5, Host: host}, Deleted: true}))
	if n := tested(26*time.Hour, its); n != 0 {
		t.Errorf("%d repositories that the App is not installed on are looked at", n)
	}
}
