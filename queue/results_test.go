package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

var resultsAt = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// tell makes one decision on the run of #1 in a busy queue, whose only check has
// failed, after these results, and returns the run.
func tell(results ...queue.TestResults) *queue.Run {
	s := busy(resultsAt)
	s.Queue.Landing = nil
	received := []queue.Received{{ID: 1, Fact: queue.CheckReported{Commit: "c1", Report: queue.Report{
		Kind: queue.CheckRun, Name: "ci", ID: 1, Status: "completed", Result: "failure", At: resultsAt,
	}}}}
	for i, f := range results {
		f.Commit = "c1"
		received = append(received, queue.Received{ID: int64(i + 2), Fact: f})
	}
	queue.Reconcile(s, received, resultsAt)
	return s.Runs["r3"]
}

func excused(names ...string) queue.TestResults {
	f := queue.TestResults{Check: "ci", Job: "j", Attempt: 1, Upload: 1, Complete: true}
	for _, n := range names {
		f.Failing = append(f.Failing, queue.FailingTest{ID: n, Name: n, Quarantined: true, Standing: queue.KnownFlaky})
	}
	return f
}

func changed(f queue.TestResults, change func(*queue.TestResults)) queue.TestResults {
	change(&f)
	return f
}

// What is counted and not listed counts; what nobody should send is bounded.
func TestWhatResultsMakeOfAFailedCheck(t *testing.T) {
	t.Parallel()
	many := make([]queue.TestResults, 60)
	for i := range many {
		many[i] = changed(excused("T"), func(f *queue.TestResults) { f.Upload, f.Job = int64(i+1), fmt.Sprint(i) })
	}
	for _, c := range []struct {
		name    string
		results []queue.TestResults
		want    queue.RunState
	}{
		{"excused", []queue.TestResults{excused("T")}, queue.RunPassed},
		{"none", nil, queue.RunFailed},
		{"one that blocks is counted and not listed", []queue.TestResults{changed(excused("T"), func(f *queue.TestResults) { f.Failed, f.Blocking = 30, 1 })}, queue.RunFailed},
		{"many are counted and excused", []queue.TestResults{changed(excused("T"), func(f *queue.TestResults) { f.Failed = 30 })}, queue.RunPassed},
		{"a second upload blocks", []queue.TestResults{excused("T"), changed(excused("U"), func(f *queue.TestResults) { f.Upload, f.Failing[0].Quarantined = 2, false })}, queue.RunFailed},
		{"without the number of the upload", []queue.TestResults{changed(excused("T"), func(f *queue.TestResults) { f.Upload = 0 })}, queue.RunFailed},
		{"of a newer attempt, with the older one that blocked", []queue.TestResults{
			changed(excused("U"), func(f *queue.TestResults) { f.Upload, f.Failing[0].Quarantined = 2, false }), changed(excused("T"), func(f *queue.TestResults) { f.Attempt = 2 }),
		}, queue.RunPassed},
		{"more uploads than are kept", many, queue.RunFailed},
	} {
		if r := tell(c.results...); r.State != c.want {
			t.Errorf("%s: the run is %s, want %s: %s", c.name, r.State, c.want, r.Message)
		}
	}
}

// A run keeps few tests, with short names, those that block first.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	f := excused()
	for i := range 100 {
		f.Failing = append(f.Failing, queue.FailingTest{ID: fmt.Sprint(i), Name: strings.Repeat("n", 5000) + "\n" + fmt.Sprint(i), Quarantined: i < 99})
	}
	r := tell(f)
	tests, more := r.Tests("ci")
	if len(tests) != queue.MaxFailingTests || more != 80 || tests[0].ID != "99" || len([]rune(tests[0].Name)) > 200 || len(r.Results[0].Failing) != queue.MaxFailingTests {
		t.Errorf("%d tests are listed and %d more, the first of them %.10s", len(tests), more, tests[0].ID)
	}
	if want := "Required check failed: ci. ci: 1 test failed that quarantine does not excuse: nnn"; !strings.HasPrefix(r.Message, want) {
		t.Errorf("it says %.100q, want %q", r.Message, want)
	}
}

// The timeline says what passed the check, a few tests by name.
func TestAPassByQuarantineSaysSo(t *testing.T) {
	t.Parallel()
	r := tell(changed(excused("A", "B", "C", "D", "E", "F"), func(f *queue.TestResults) { f.Failed = 9 }))
	if got, want := r.ClearedText(), "ci: failed, and passed by quarantine: 9 tests known flaky: A, B, C, D, E and 4 more."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// Whoever reads the comment on a pull request learns that a failed check waits
// for test results, though nothing else has changed; and is told once.
func TestWaitingForResultsIsTold(t *testing.T) {
	t.Parallel()
	s := busy(resultsAt)
	s.TestChecks = []string{"ci"}
	s.Queue.Landing, s.Queue.Bisections, s.Parts, s.Line = nil, nil, nil, []queue.GroupID{3} // #1 alone
	s.Groups = map[queue.GroupID]*queue.Group{3: s.Groups[3]}
	s.Runs = map[queue.RunID]*queue.Run{"r3": s.Runs["r3"]}
	s.Entries = map[queue.EntryID]*queue.Entry{"e1": s.Entries["e1"]}
	s.Runs["r3"].Chain = s.Runs["r3"].Chain[2:]
	told := func(now time.Time, facts ...queue.Fact) int {
		received := make([]queue.Received, len(facts))
		for i, f := range facts {
			received[i] = queue.Received{ID: int64(i + 1), Fact: f}
		}
		p, n := queue.Reconcile(s, received, now), 0
		for _, a := range p.Actions {
			if sync, ok := a.(queue.SyncPR); ok && sync.PR == 1 {
				n++
				if e := s.ByPR(1); sync.Passing == e.State.Final() {
					t.Errorf("it is %s, and told as passing: %t", e.State, sync.Passing)
				}
			}
		}
		return n
	}
	told(resultsAt) // whatever else there is to say
	if s.Runs["r3"].State != queue.RunTesting {
		t.Fatalf("the run is %s", s.Runs["r3"].State)
	}
	report := func(result string, at time.Time) queue.Fact {
		return queue.CheckReported{Commit: "c1", Report: queue.Report{Kind: queue.CheckRun, Name: "ci", ID: 1, Status: "completed", Result: result, At: at}}
	}
	if n := told(resultsAt, report("failure", resultsAt)); n != 1 {
		t.Errorf("told %d times that the check waits for results", n)
	}
	if n := told(resultsAt.Add(time.Second), report("failure", resultsAt)); n != 0 {
		t.Errorf("told %d times more", n)
	}
}
