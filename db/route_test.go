package db_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// taken makes decisions until nothing is due and returns the kinds of facts
// that each queue got.
func (w *world) taken() map[queue.ID][]string {
	w.t.Helper()
	got := map[queue.ID][]string{}
	for {
		id, ok := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			for _, f := range facts {
				got[s.Queue.ID] = append(got[s.Queue.ID], f.Fact.Kind())
			}
			return unchanged(s)
		})
		if !ok {
			return got
		}
		slices.Sort(got[id])
	}
}

func liveRun(id queue.RunID, group queue.GroupID, commit, branch string) queue.Run {
	return queue.Run{
		ID: id, Group: group, Kind: queue.MainRun, State: queue.RunTesting, MergeMethod: queue.Squash, LandingMode: queue.LandHost,
		Commit: commit, Tree: "tree", Branch: branch, AskedAt: epoch,
	}
}

// Two queues of one repository: main has #1 (head 1a, bound to 1b), #2 that
// was merged, a live run, a run that ended an hour ago and one that ended two
// days ago; release has #1 too.
func TestFactsFindTheirQueues(t *testing.T) {
	t.Parallel()
	seen := func(pr int64) queue.Fact {
		return queue.PullRequestSeen{PullRequest: queue.PullRequest{Number: pr}}
	}
	report := func(commit string) queue.Fact { return queue.CheckReported{Commit: commit} }
	tests := []struct {
		name string
		fact queue.Fact
		want string
	}{
		{"a pull request, where it is active", seen(1), "main release"},
		{"a pull request that ended", seen(2), ""},
		{"a pull request that is being submitted", seen(3), "main"},
		{"a pull request that nobody knows", seen(4), ""},
		{"a review of an active pull request", queue.PullRequestDoubted{PR: 1}, "main release"},
		{"a report on a live run", report("live"), "main"},
		{"a report on a run that ended lately", report("lately"), "main"},
		{"a report on a run that ended long ago", report("long ago"), ""},
		{"a report on a head", report("1a"), "main release"},
		{"a report on a bound head", report("1b"), "main"},
		{"a report on the head of a merged one", report("2a"), ""},
		{"a suite on a live run", queue.ChecksDoubted{Commit: "live"}, "main"},
		{"a push to a queue's branch", queue.TargetMoved{Branch: "release"}, "release"},
		{"a push to another branch", queue.TargetMoved{Branch: "feature"}, ""},
		{"a push to a test branch", queue.TestBranchMoved{Branch: "signalbox/main/live"}, "main"},
		{"a push to a test branch of long ago", queue.TestBranchMoved{Branch: "signalbox/main/long ago"}, ""},
		{"changed rules", queue.RulesChanged{}, "main release"},
		{"a repository that left", queue.RepositoryGone{Message: "gone"}, "main release"},
		{"a command", queue.CommandAsked{PR: 1, Command: queue.Command{Verb: queue.VerbMerge}}, ""},
	}
	w := newWorld(t)
	release := w.newQueue("release")
	w.populate(release.ID)
	for i, tt := range tests {
		for way, comes := range map[string]func(){
			"appended and routed": func() {
				w.must(w.Append(t.Context(), w.repo.ID, 0, tt.fact))
				w.must(w.Route(t.Context(), epoch))
			},
			"by a webhook": func() {
				_, err := w.Receive(t.Context(), fmt.Sprint("delivery ", i), host, hostID, []queue.Fact{tt.fact}, nil)
				w.must(err)
			},
		} {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, submitted(3)))
				comes()
				got := w.taken()
				var names []string
				for _, q := range []queue.Queue{w.queue, release} {
					if slices.Contains(got[q.ID], tt.fact.Kind()) {
						names = append(names, q.Branch)
					}
				}
				if diff := cmp.Diff(tt.want, join(names)); diff != "" {
					t.Errorf("went to (-want +got):\n%s", diff)
				}
			})
		}
	}
	if n := w.count(`SELECT count(*) FROM inbox WHERE (routed_at IS NULL) <> (waits OR kind = 'command_asked' AND routed_at IS NULL)`); n != 0 {
		t.Errorf("%d facts are neither handed on, nor wait, nor are commands", n)
	}
}

func join(names []string) string {
	text := fmt.Sprint(names)
	return text[1 : len(text)-1]
}

func submitted(pr int64) queue.Submitted {
	return queue.Submitted{
		PullRequest: queue.PullRequest{Number: pr, Open: true, Base: "main", Head: fmt.Sprintf("head%d", pr)},
		ID:          newID(), Via: queue.ViaAPI, Priority: queue.Medium, At: epoch,
	}
}

func (w *world) populate(release queue.ID) {
	w.t.Helper()
	one, two, other := entry(1), entry(2), entry(1)
	one.Head, one.BoundHead, other.Head = "1a", "1b", "1a"
	two.Head, two.State, two.LandedCommit = "2a", queue.Merged, "landed"
	live := liveRun("live", 1, "live", "signalbox/main/live")
	lately := liveRun("lately", 2, "lately", "signalbox/main/lately")
	lately.State, lately.EndedAt = queue.RunPassed, epoch.Add(-time.Hour)
	longAgo := liveRun("long ago", 3, "long ago", "signalbox/main/long ago")
	longAgo.State, longAgo.EndedAt = queue.RunPassed, epoch.Add(-48*time.Hour)
	w.store(func(p *queue.Plan) {
		p.Entries, p.Runs = []queue.Entry{one, two}, []queue.Run{live, lately, longAgo}
	})
	w.must(w.Append(w.t.Context(), w.repo.ID, release, queue.ResyncEnded{}))
	w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
		p := unchanged(s)
		p.Entries = []queue.Entry{other}
		return p
	})
}

func TestACommandBecomesOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := queue.CommandAsked{PR: 7, Comment: 42, By: queue.Actor{Login: "ada", ID: 1}, At: epoch, Command: queue.Command{Verb: queue.VerbMerge}}
	_, err := w.Receive(t.Context(), "command", host, hostID, []queue.Fact{asked}, nil)
	w.must(err)
	for range 3 {
		w.must(w.Route(t.Context(), epoch))
	}
	var kinds []string
	rows, err := w.SQL().Query(`SELECT kind, queue, args FROM river_job`)
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var kind, jobQueue string
		var args []byte
		w.must(rows.Scan(&kind, &jobQueue, &args))
		kinds = append(kinds, kind+" in "+jobQueue)
		var job queue.AnswerCommand
		w.must(json.Unmarshal(args, &job))
		if diff := cmp.Diff(queue.AnswerCommand{Repo: w.repo.ID, Command: asked}, job); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
	}
	w.must(rows.Err())
	if diff := cmp.Diff([]string{"answer_command in tell"}, kinds); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

// CI can report on a commit before we know that it is ours.
func TestEarlyReportsWaitForTheirRun(t *testing.T) {
	t.Parallel()
	appended := func(w *world, facts ...queue.Fact) { w.must(w.Append(w.t.Context(), w.repo.ID, 0, facts...)) }
	received := func(w *world, facts ...queue.Fact) {
		_, err := w.Receive(w.t.Context(), "reports", host, hostID, facts, nil)
		w.must(err)
	}
	tests := []struct {
		name  string
		come  func(w *world, facts ...queue.Fact)
		route func(w *world) // between report and run
		then  func(w *world) // after the run
		late  time.Duration  // the report's age when the run is saved
		want  int
	}{
		{"by webhook, looked at never", received, func(*world) {}, func(*world) {}, 0, 1},
		{"by webhook, looked at after the run is there", received, func(*world) {}, func(w *world) { w.must(w.Route(w.t.Context(), epoch)) }, 0, 1},
		{"by webhook, an hour late", received, func(*world) {}, func(w *world) { w.must(w.Route(w.t.Context(), epoch.Add(time.Hour))) }, time.Hour, 0},
		{"looked at before the run is there", appended, func(w *world) { w.must(w.Route(w.t.Context(), epoch)) }, func(*world) {}, 0, 1},
		{"looked at after the run is there", appended, func(*world) {}, func(w *world) { w.must(w.Route(w.t.Context(), epoch)) }, 0, 1},
		{"looked at twice", appended, func(w *world) { w.must(w.Route(w.t.Context(), epoch)); w.must(w.Route(w.t.Context(), epoch)) },
			func(w *world) { w.must(w.Route(w.t.Context(), epoch)) }, 0, 1},
		{"an hour late", appended, func(w *world) { w.must(w.Route(w.t.Context(), epoch)) }, func(*world) {}, time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.come(w, queue.CheckReported{Commit: "c1"}, queue.CheckReported{Commit: "c2"})
			tt.route(w)
			w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.ResyncEnded{}))
			_, _, err := w.UpdateDue(t.Context(), epoch.Add(tt.late), func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan {
				p := unchanged(s)
				p.Runs = []queue.Run{liveRun("r", 1, "c1", "b")}
				return p
			})
			w.must(err)
			tt.then(w)
			if got := w.taken()[w.queue.ID]; len(got) != tt.want {
				t.Errorf("the run got %v, want %d report", got, tt.want)
			}
		})
	}
}

// A fact of a later version, as after a rollback, must not stop the queue.
func TestAFactThatCannotBeReadIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.RulesChanged{}, queue.ResyncEnded{Resync: 3}))
	_, err := w.SQL().Exec(`UPDATE inbox SET kind = 'from_the_future' WHERE kind = 'rules_changed'`)
	w.must(err)
	if diff := cmp.Diff([]string{"resync_ended"}, w.taken()[w.queue.ID]); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if w.Dropped() != 1 {
		t.Errorf("%d facts are counted as dropped", w.Dropped())
	}
}
