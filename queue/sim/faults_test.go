package sim

import (
	"testing"
	"time"

	"signalbox/queue"
)

// When faults found by random histories are not tellable as a script, because
// no person can cause them, they are told here.

// world is a world of pull requests that change a file each, all submitted.
func world(t *testing.T, s queue.Settings, prs int64) *World {
	t.Helper()
	s.RequiredStatuses, s.MergeMethod = []string{"ci"}, queue.MergeCommit
	w := NewWorld(s)
	c := Checker{Deterministic: true}
	c.Watch(w)
	for n := int64(1); n <= prs; n++ {
		ok(t, w.Open(n, "alice", files{string(rune('a' + n)): "1"}))
		ok(t, w.Submit(n, Wish{}))
	}
	return w
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// during has one fate befall everything with a label.
func during(label string, fate int) *Faults {
	return &Faults{Draw: func(l string, n int) int {
		if l == label {
			return min(fate, n-1)
		}
		return 0
	}}
}

func state(t *testing.T, w *World, pr int64, want queue.EntryState) {
	t.Helper()
	if e := w.Entry(pr); e.State != want {
		t.Errorf("#%d is %s (%s), want %s", pr, e.State, e.Message, want)
	}
}

// The host is down when the first branch shall be built. Nobody else joins the
// line meanwhile, so that an urgent or a high one can still go first.
func TestNobodyJoinsALineThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 2
	w := world(t, s, 5)
	w.Faults = during("build_runs", failed)
	ok(t, w.Advance(time.Minute))
	if n := len(w.state.Line); n > 2 {
		t.Fatalf("%d groups are in the line, want the two that there are slots for", n)
	}
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// The branch of #1 cannot be built, and #3 overlaps it. #2 overlaps #3 and would be
// tested together with it. It waits as long as a batch waits, and no longer.
func TestABatchIsNotHeldUpByALaneOfOneOfItsMembers(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode, s.Concurrency, s.Batch, s.BatchingMinSize, s.BatchingMaxWaitTimeMinutes = queue.Parallel, 4, true, 4, 1
	w := world(t, s, 0)
	w.Faults = during("build_runs", failed)
	for n, targets := range []([]string){{"a"}, {"b"}, {"a", "b"}} {
		pr := int64(n + 1)
		ok(t, w.Open(pr, "alice", files{string(rune('a' + n)): "1"}))
		ok(t, w.Targets(pr, targets))
		ok(t, w.Submit(pr, Wish{}))
		if pr == 1 {
			ok(t, w.Advance(time.Minute+time.Second))
		}
	}
	ok(t, w.Advance(time.Minute+time.Second))
	if first, second, third := w.Entry(1).Group, w.Entry(2).Group, w.Entry(3).Group; first == 0 || second == 0 || third != 0 {
		t.Fatalf("#1 to #3 are in the groups %d, %d and %d: want #1 and #2 in one each, and #3 in none", first, second, third)
	}
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// #2 passed with #1 in it, which so passed too; the host refuses to land them
// together and names nobody. #1 has no tests of its own to land by: it gets them.
func TestAProofThatCannotLandIsReplacedByTestsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency, s.CanOptimisticallyMerge = 2, true
	w := world(t, s, 2)
	ok(t, w.Settle())
	ok(t, w.Refuse(2, "A rule is violated."))
	w.host.unnamed[2] = true
	w.Report(w.RunOf(2).Commit, "ci", "success")
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Merged)
	state(t, w, 2, queue.Failed)
	ok(t, Ended(w))
}

// The host refuses to land #1 and #2 together: each is to land by itself. An
// urgent #3 comes in front, and #4 passes with all of them in it. What is proven
// lands together with its proof, and here that would be through #1: so #3 is not
// proven, but tested.
func TestNothingIsProvenThroughOneThatLandsByItself(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency, s.CanOptimisticallyMerge = 4, true
	w := world(t, s, 2)
	ok(t, w.Settle())
	ok(t, w.Refuse(2, "A rule is violated."))
	w.host.unnamed[2] = true
	w.Report(w.RunOf(2).Commit, "ci", "success")
	ok(t, w.Settle())
	delete(w.host.refused, 2)
	ok(t, w.Open(3, "alice", files{"c": "1"}))
	urgent := queue.Urgent
	ok(t, w.Submit(3, Wish{Priority: &urgent}))
	ok(t, w.Open(4, "alice", files{"d": "1"}))
	ok(t, w.Submit(4, Wish{}))
	ok(t, w.Settle())
	if ahead := w.RunOf(4).Ahead(); len(ahead) != 3 || ahead[0].PR != 3 {
		t.Fatalf("#4 is tested on %+v, want #3 and the two that are refused together", ahead)
	}
	w.Report(w.RunOf(4).Commit, "ci", "success")
	ok(t, w.Settle())
	for _, pr := range []int64{3, 1, 2} {
		w.Report(w.RunOf(pr).Commit, "ci", "success")
	}
	ok(t, w.Advance(time.Hour))
	for pr := range int64(4) {
		state(t, w, pr+1, queue.Merged)
	}
	ok(t, Ended(w))
}

// #2 passes only with #1. #3, which overlaps #2 alone, is tested without #1 and fails:
// it is tested once more when both have landed, and nobody believes its failure.
func TestNobodyFailsForWhatWasLeftOutAheadOfThem(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode, s.Speculation, s.Concurrency, s.RequiredStatuses = queue.Parallel, queue.AdaptiveSpeculation, 4, []string{"ci"}
	w := NewWorld(s)
	w.Auto = true
	w.PushTarget(files{gate: "key"})
	ok(t, w.Settle())
	for i, of := range []struct {
		change  files
		targets []string
	}{{files{gate: "nothing"}, []string{"a"}}, {files{"key": "1"}, []string{"a", "b"}}, {files{"c": "1"}, []string{"b"}}} {
		n := int64(i + 1)
		ok(t, w.Open(n, "alice", of.change))
		ok(t, w.Targets(n, of.targets))
		ok(t, w.Submit(n, Wish{}))
	}
	ok(t, w.Advance(time.Second))
	if ahead := w.RunOf(3).Ahead(); len(ahead) != 1 || ahead[0].PR != 2 || w.Judge(w.RunOf(3).Commit, "ci") != "failure" {
		t.Fatalf("#3 is tested on %+v, want to see it fail on #2 alone", ahead)
	}
	ok(t, w.Advance(time.Hour))
	for pr := range int64(3) {
		state(t, w, pr+1, queue.Merged)
	}
	ok(t, Ended(w))
	ok(t, Proven(w))
}

// The host merges #1, then #2, but does not answer for #2. Nobody merged #2 by
// hand: the landing is asked for again, and finds it.
func TestALandingThatStopsWithoutAnAnswerFindsWhatItDid(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Batch, s.BatchingMinSize, s.ChosenLandingMode = true, 2, queue.LandHost
	w := world(t, s, 2)
	calls := 0
	w.Auto, w.Faults = true, &Faults{Draw: func(label string, n int) int {
		if label == "no answer" {
			if calls++; calls == 2 {
				return n - 1
			}
		}
		return 0
	}}
	ok(t, w.Advance(time.Hour))
	for pr := int64(1); pr <= 2; pr++ {
		if e := w.Entry(pr); e.Reason != queue.MergedByQueue {
			t.Errorf("#%d ended because of %s, want %s", pr, e.Reason, queue.MergedByQueue)
		}
	}
	ok(t, Ended(w))
}

// Another tree than the one that was tested lands: the queue stops, loudly, and
// what was tested on the expected tree is tested again, in both modes.
func TestALandingOfAnotherTreeStopsTheQueueAndMakesRunsStale(t *testing.T) {
	t.Parallel()
	for _, mode := range []queue.Mode{queue.Single, queue.Parallel} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := queue.DefaultSettings()
			s.Concurrency, s.Mode, s.ChosenLandingMode = 2, mode, queue.LandHost
			w := world(t, s, 2)
			ok(t, w.Targets(1, []string{"lib"}))
			ok(t, w.Targets(2, []string{"lib"}))
			ok(t, w.Settle())
			w.Faults = during("another tree", 99)
			two := w.RunOf(2)
			w.Report(w.RunOf(1).Commit, "ci", "success")
			ok(t, w.Settle())
			w.Faults = nil
			if q := w.state.Queue; q.State != queue.Paused || q.StateWhy == "" {
				t.Errorf("the queue is %s (%q), want paused with the reason", q.State, q.StateWhy)
			}
			if e := w.Entry(1); e.Reason != queue.LandedTreeMismatch {
				t.Errorf("#1 ended because of %s", e.Reason)
			}
			w.Report(two.Commit, "ci", "success")
			ok(t, w.Settle())
			state(t, w, 2, queue.Pending)
			running := queue.Running
			w.Set(queue.Change{State: &running})
			w.Auto = true
			ok(t, w.Advance(time.Hour))
			state(t, w, 2, queue.Merged)
			ok(t, Ended(w))
		})
	}
}

// Another tree lands, and nobody hears that anything did. Whoever looks later
// says so all the same.
func TestALandingOfAnotherTreeWithoutAnAnswerStopsTheQueue(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.ChosenLandingMode = queue.LandHost
	w := world(t, s, 1)
	w.Auto, w.Faults = true, &Faults{Draw: func(label string, n int) int {
		if label == "another tree" || label == "no answer" {
			return n - 1
		}
		return 0
	}}
	ok(t, w.Advance(time.Hour))
	if e := w.Entry(1); e.Reason != queue.LandedTreeMismatch {
		t.Errorf("#1 ended because of %s, want %s", e.Reason, queue.LandedTreeMismatch)
	}
}

// The last lane to land during a mode switch ends the switch in the decision
// that hears of it. It landed as lanes do, beside what it was not tested with.
func TestTheLastLaneOfAModeSwitchLandsAsALane(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency, s.Mode = 2, queue.Parallel
	w := world(t, s, 2)
	ok(t, w.Targets(1, []string{"a"}))
	ok(t, w.Targets(2, []string{"b"}))
	ok(t, w.Settle())
	single := queue.Single
	w.Set(queue.Change{Mode: &single})
	ok(t, w.Settle())
	for pr := int64(1); pr <= 2; pr++ {
		w.Report(w.RunOf(pr).Commit, "ci", "success")
		ok(t, w.Settle())
		state(t, w, pr, queue.Merged)
	}
	if q := w.state.Queue; q.Mode != queue.Single || q.State != queue.Running {
		t.Errorf("the queue is %s in %s mode, want running in single mode", q.State, q.Mode)
	}
}

// #1 and #2 say that they do not overlap, and break main together: #1 while #2
// begins, #2 while #3, which overlaps it, begins on top of it. #3 fails on what
// they broke. It is not the queue that blames it wrongly, but who told the targets.
func TestWhoFailsOnWhatLanesBrokeTogether(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode, s.Concurrency = queue.Parallel, 1
	w := world(t, s, 0)
	for n, change := range []files{{"a": "1"}, {"b": "1", ".ci-sim/ci/together": "a\nb"}, {"c": "1"}} {
		pr := int64(n + 1)
		ok(t, w.Open(pr, "alice", change))
		ok(t, w.Submit(pr, Wish{}))
		ok(t, w.Targets(pr, [][]string{{"x"}, {"y"}, {"y"}}[n]))
	}
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	state(t, w, 2, queue.Merged)
	state(t, w, 3, queue.Failed)
}

// #1 lands, nobody hears of it, and somebody deletes main before anybody looks
// again. Once main is back it is seen that the queue landed #1.
func TestATargetDeletedBeforeAnybodyLooksWhatLanded(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	w.Faults = during(queue.Land{}.Kind(), failedAfter)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	w.Faults = nil
	w.DeleteTarget()
	ok(t, w.Advance(20*time.Minute))
	state(t, w, 1, queue.TestsPassed)
	if x := queue.Explain(w.state, w.Entry(1), w.Now); x.Until.IsZero() {
		t.Errorf("nobody is told that the branch is gone: %s", x.WaitsFor)
	}
	w.RestoreTarget()
	ok(t, w.Advance(10*time.Minute))
	if e := w.Entry(1); e.Reason != queue.MergedByQueue {
		t.Errorf("#1 ended as %s because of %s, want %s", e.State, e.Reason, queue.MergedByQueue)
	}
	ok(t, Ended(w))
}

// A target that stays gone does not keep a landing in flight for ever: who
// wants to leave can.
func TestATargetThatIsGoneForGoodEndsTheLanding(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	w.Faults = during("message", lost)
	w.DeleteTarget()
	w.Faults = nil
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	if w.state.Queue.Landing == nil {
		t.Fatal("no landing began: nobody knows that main is gone")
	}
	w.Cancel(1, "alice")
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Cancelled)
}

// A builder that never tells and one that always says that the world moved are
// given up after a while: nobody waits for ever.
func TestABuildThatNeverSucceedsEndsAfterAWhile(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	w.Faults = during("build_runs", vanished)
	ok(t, w.Advance(10*time.Hour))
	state(t, w, 1, queue.Failed)
	if e := w.Entry(1); e.Reason != queue.StartRetriesExhausted {
		t.Errorf("#1 ended because of %s", e.Reason)
	}
}

// A build that is no longer wanted pushes its branch after all, and nobody hears
// that it did. The branch is removed.
func TestABranchPushedTooLateIsRemoved(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	w.Faults = during("build_runs", lateFailedAfter)
	ok(t, w.Settle())
	w.Cancel(1, "alice")
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// A report of CI is lost. The checks are read again within the interval.
func TestBC22AReportThatWasLostIsReadWithinTheInterval(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	w.Faults = during("message", lost)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Advance(10*time.Second))
	state(t, w, 1, queue.Testing)
	ok(t, w.Advance(2*time.Minute))
	state(t, w, 1, queue.Merged)
}

// The report of a rerun counts, whichever of the two arrives last, and whatever
// is repeated.
func TestBC49And50TheNewestReportWins(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	w := world(t, s, 1)
	w.state.Queue.RequiredStatuses = []string{"ci", "gate"} // both are needed, so that the first report decides nothing
	ok(t, w.Settle())
	commit := w.RunOf(1).Commit
	report := func(name string, id int64, result string) {
		status := "completed"
		if result == "" {
			status = "in_progress"
		}
		w.tell(queue.CheckReported{Commit: commit, Report: queue.Report{Kind: queue.CheckRun, Name: name, ID: id, Status: status, Result: result, At: w.Now}})
		ok(t, w.Settle())
	}
	report("ci", 8, "")        // the rerun has begun
	report("ci", 7, "failure") // the old run's report comes late
	state(t, w, 1, queue.Testing)
	report("ci", 8, "success")
	report("ci", 7, "failure")
	state(t, w, 1, queue.Testing)
	report("gate", 9, "success")
	state(t, w, 1, queue.Merged)
}

// A build that says that nothing is required never lands.
func TestNothingRequiredNeverLands(t *testing.T) {
	t.Parallel()
	r := queue.Run{State: queue.RunTesting, Checks: map[string]queue.Report{"x": {Kind: queue.CheckRun, Name: "x", Status: "completed", Result: "success"}}}
	if v, _ := r.Verdict(); v != queue.VerdictWaiting {
		t.Errorf("a run with nothing required is %s, want waiting", v)
	}
}

// While #1 lands, #2 is tested and #3 has passed, each in a lane of its own. An
// urgent pull request of #3's lane is tested on top of it and restarts nobody.
func TestAnUrgentOneDoesNotRestartWhatPassedBehindAnotherLane(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode, s.Concurrency = queue.Parallel, 4
	w := world(t, s, 3)
	for n, lane := range []string{"a", "b", "c"} {
		ok(t, w.Targets(int64(n+1), []string{lane}))
	}
	ok(t, w.Settle())
	w.Faults = during(queue.Land{}.Kind(), vanished)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	w.Report(w.RunOf(3).Commit, "ci", "success")
	ok(t, w.Settle())
	ok(t, w.Open(4, "alice", files{"u": "1"}))
	ok(t, w.Targets(4, []string{"c"}))
	urgent := queue.Urgent
	ok(t, w.Submit(4, Wish{Priority: &urgent}))
	ok(t, w.Settle())
	state(t, w, 2, queue.Testing)
	state(t, w, 3, queue.TestsPassed)
	if r := w.RunOf(4); r == nil || len(r.Ahead()) != 1 || r.Ahead()[0].PR != 3 {
		t.Errorf("#4 is not tested on top of #3 alone: %+v", r)
	}
	w.Faults, w.Auto = nil, true
	w.Report(w.RunOf(2).Commit, "ci", "success")
	w.Report(w.RunOf(4).Commit, "ci", "success")
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
	state(t, w, 4, queue.Merged)
}

// A run fails soon after its branch was built, and the branch is removed. Who built
// it was killed before it could call its job done: it is built again. The branch is
// removed again. (make chaos CHAOS=180s CHAOS_SEED=21 left one behind.)
func TestABranchBuiltAgainAfterItsRunHasEndedIsRemoved(t *testing.T) {
	t.Parallel()
	for result, change := range map[string]files{"failure": {"a": "1", ".ci-sim/ci/a": ""}, "success": {"a": "1"}} {
		w := world(t, queue.DefaultSettings(), 0)
		ok(t, w.Open(1, "alice", change))
		ok(t, w.Submit(1, Wish{}))
		w.Faults = during(queue.BuildRuns{}.Kind(), toldTwice)
		ok(t, w.Settle())
		w.Faults = nil
		w.Report(w.RunOf(1).Commit, "ci", result)
		ok(t, w.Advance(time.Hour))
		ok(t, Ended(w))
	}
}

// The network holds back the first push of a test branch. It is pushed again and
// its run ends, and the branch is removed; then the first push arrives. The
// branch is removed again, also when nobody hears of it, and a branch whose run is
// not over stays. (make chaos CHAOS=45m CHAOS_SEED=45 left two behind.)
func TestABranchThatArrivesAfterItsRunHasEndedIsRemoved(t *testing.T) {
	t.Parallel()
	for _, message := range []int{delivered, lost} {
		w := world(t, queue.DefaultSettings(), 1)
		w.Faults = &Faults{Draw: func(label string, n int) int {
			return map[string]int{queue.BuildRuns{}.Kind(): heldBack, "held back for": 59}[label]
		}}
		ok(t, w.Settle())
		w.Faults = nil
		w.Cancel(1, "alice")
		ok(t, w.Advance(55*time.Minute))
		ok(t, w.Open(2, "bob", files{"z": "1"}))
		ok(t, w.Submit(2, Wish{}))
		alone := func() {
			t.Helper()
			ok(t, w.Settle())
			state(t, w, 2, queue.Testing)
			if r := w.RunOf(2); len(w.host.branches) != 2 || w.host.branches[r.Branch] != r.Commit {
				t.Errorf("the branches are %v, want main and that of #2", w.host.branches)
			}
		}
		alone()
		w.Faults = during("message", message)
		ok(t, w.Advance(10*time.Minute))
		alone()
	}
}

// Nobody hears of a push to #1, which was not ready, and the targets of its new head
// are there before the queue reads it. They count as soon as it has: nothing else
// happens that the queue would look again for. (TestPeopleAndFaults with 100 steps
// found it, with -rapid.seed=6668800945021716556 and 10753881615415837969.)
func TestTargetsThatWereThereBeforeTheirHeadWasKnownCountAtOnce(t *testing.T) {
	t.Parallel()
	settings := queue.DefaultSettings()
	settings.Mode = queue.Parallel
	w := world(t, settings, 1)
	ok(t, w.Settle())
	state(t, w, 1, queue.NotReady)
	w.Faults = during("message", lost)
	ok(t, w.Push(1, files{"b": "2"}))
	ok(t, w.Targets(1, []string{"b"}))
	ok(t, w.Settle())
	w.Faults = nil
	read := w.Entry(1).RefreshDue()
	ok(t, w.Advance(read.Sub(w.Now)))
	state(t, w, 1, queue.Testing)
}

// #1 is tested on probation, in the only slot. An urgent one that overlaps it takes the
// slot, and when it has passed and lands, #1 has it back: it is tested alone once more,
// and then with what has overtaken it. (TestWhoIsExpectedToFail found it when an urgent
// one did not count as overtaking: checks 3000, steps 60.)
func TestAnUrgentOneOvertakesWhomItInterrupts(t *testing.T) {
	t.Parallel()
	settings := queue.DefaultSettings()
	settings.Mode, settings.Speculation, settings.Concurrency = queue.Parallel, queue.AdaptiveSpeculation, 1
	w := world(t, settings, 1)
	for i := range 20 {
		w.state.Recent = append(w.state.Recent, queue.Ended{PR: int64(1000 + i), Failed: i%2 == 0})
	}
	ok(t, w.Targets(1, []string{"a"}))
	ok(t, w.Settle())
	if g := w.state.Groups[w.Entry(1).Group]; g == nil || g.Probation != queue.OnProbation {
		t.Fatalf("#1 is in %+v, want it on probation", g)
	}
	urgent := queue.Urgent
	ok(t, w.Open(2, "bob", files{"z": "1"}))
	ok(t, w.Submit(2, Wish{Priority: &urgent}))
	ok(t, w.Targets(2, []string{"a"}))
	ok(t, w.Settle())
	state(t, w, 1, queue.Pending)
	for range 3 {
		for _, pr := range []int64{2, 1} {
			if r := w.RunOf(pr); r != nil && r.State == queue.RunTesting {
				w.Report(r.Commit, "ci", "success")
				ok(t, w.Settle())
			}
		}
	}
	state(t, w, 1, queue.Merged)
	state(t, w, 2, queue.Merged)
	ok(t, Proven(w))
}

// Somebody asks whether the stack of #2 on #1 is ready, and the answer is late. A push
// changes #1 meanwhile, so that #2 does not contain it any more. The late answer says
// that #2 is mergeable, and of the new #1 somebody else has said so: the stack is not
// ready all the same, and does not land without what was pushed. (TestPeopleAndFaults
// with 100 steps found it, once in many thousand.)
func TestAStackIsJudgedWithTheHeadsThatItHas(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 0)
	ok(t, w.Open(1, "alice", files{"a": "1"}))
	ok(t, w.OpenOn(2, 1, "alice", files{"b": "1"}))
	late := w.readStack([]int64{1}, 2)
	ok(t, w.Draft(2, true))
	ok(t, w.SubmitStack(2, Wish{}))
	ok(t, w.Advance(10*time.Second))
	ok(t, w.Push(1, files{"c": "1"}))
	ok(t, w.Advance(10*time.Second))
	ok(t, w.Draft(2, false))
	ok(t, w.Advance(10*time.Second))
	state(t, w, 2, queue.NotReady) // it does not contain the new #1
	w.tellAll(late)
	ok(t, w.Settle())
	state(t, w, 2, queue.NotReady)
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	state(t, w, 2, queue.NotReady)
	ok(t, w.Restack(2))
	ok(t, w.Advance(time.Hour))
	state(t, w, 2, queue.Merged)
}

// Urgent #1 cannot be built and pauses. The only slot goes to #2, which is urgent too,
// and #3 waits: it does not take it away from #2 at once. (TestWhoIsExpectedToFail with
// 100 steps and -rapid.seed=1413563524740296975.)
func TestAnUrgentOneThatPausesLeavesItsSlotToTheNextUrgentOne(t *testing.T) {
	t.Parallel()
	settings := queue.DefaultSettings()
	settings.Mode, settings.Concurrency = queue.Parallel, 1
	w := world(t, settings, 0)
	urgent := queue.Urgent
	for n := int64(1); n <= 3; n++ {
		ok(t, w.Open(n, "alice", files{string(rune('a' + n)): "1"}))
		ok(t, w.Targets(n, []string{string(rune('a' + n))}))
		ok(t, w.Submit(n, Wish{Priority: &urgent}))
	}
	w.Faults = during(queue.BuildRuns{}.Kind(), failed)
	ok(t, w.Settle())
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// #1 has failed, and is held until #2, on top of it, is tested. Meanwhile #3 lands from
// another lane, and #1 does not merge any more: nothing on top of it can be built. It is
// tested again itself, which says so, and #2 goes on without it. (TestWhoIsExpectedToFail
// with 100 steps and -rapid.seed=436839915672889671: they waited for each other for ever.)
func TestAHeldFailureThatDoesNotMergeAnyMoreHoldsUpNobody(t *testing.T) {
	t.Parallel()
	settings := queue.DefaultSettings()
	settings.Mode, settings.Concurrency, settings.PendingFailureDepth = queue.Parallel, 3, 1
	w := world(t, settings, 0)
	for n, targets := range []string{"a", "a", "c"} {
		change := files{"shared": targets}
		if n == 1 {
			change = files{"own": "1"}
		}
		ok(t, w.Open(int64(n+1), "alice", change))
		ok(t, w.Targets(int64(n+1), []string{targets}))
		ok(t, w.Submit(int64(n+1), Wish{}))
	}
	ok(t, w.Settle())
	w.Report(w.RunOf(3).Commit, "ci", "success")
	w.Report(w.RunOf(1).Commit, "ci", "failure")
	ok(t, w.Settle())
	state(t, w, 1, queue.PendingFailure)
	state(t, w, 3, queue.Merged)
	w.Restart(2, "bob")
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	if e := w.Entry(1); e.Reason != queue.MergeConflict {
		t.Errorf("#1 is %s because of %s, want %s", e.State, e.Reason, queue.MergeConflict)
	}
	state(t, w, 2, queue.Merged)
	ok(t, Ended(w))
}

// #1 lands, nobody hears of it, and then the App is suspended. Who may not look what
// an attempt before this one did has not been refused: once the App may look again it
// is seen that the queue landed #1.
func TestASuspendedAppDoesNotForgetWhatItMayHaveLanded(t *testing.T) {
	t.Parallel()
	w := world(t, queue.DefaultSettings(), 1)
	ok(t, w.Settle())
	w.Faults = during(queue.Land{}.Kind(), failedAfter)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	w.Faults = during(queue.Land{}.Kind(), barred)
	ok(t, w.Advance(20*time.Minute))
	state(t, w, 1, queue.TestsPassed)
	if x := queue.Explain(w.state, w.Entry(1), w.Now); x.Until.IsZero() {
		t.Errorf("nobody is told that the branch cannot be read: %s", x.WaitsFor)
	}
	w.Faults = nil
	ok(t, w.Advance(10*time.Minute))
	if e := w.Entry(1); e.Reason != queue.MergedByQueue {
		t.Errorf("#1 ended as %s because of %s, want %s", e.State, e.Reason, queue.MergedByQueue)
	}
	ok(t, Ended(w))
	ok(t, Proven(w))
}

// An App that stays suspended does not keep a landing in flight for ever, and one that
// may not land at all is told at once: nothing can have landed.
func TestAnAppThatMayNotLandKeepsNobodyForEver(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"at once": barred, "after an attempt": failed} {
		w := world(t, queue.DefaultSettings(), 1)
		ok(t, w.Settle())
		w.Faults = during(queue.Land{}.Kind(), first)
		w.Report(w.RunOf(1).Commit, "ci", "success")
		ok(t, w.Settle())
		if first != barred {
			state(t, w, 1, queue.TestsPassed)
			w.Faults = during(queue.Land{}.Kind(), barred)
			ok(t, w.Advance(time.Hour))
		}
		if e := w.Entry(1); e.State != queue.Failed || e.Reason != queue.LandingRefused {
			t.Errorf("%s: #1 is %s because of %s", name, e.State, e.Reason)
		}
	}
}

// #1 has landed, and before anybody hears so, somebody pushes to the target. That
// is kept until it is known what landed, and then looked at: #2, which was tested
// on #1, is tested again, without waiting for the next look at everything.
func TestAPushDuringALandingCountsOnceItsResultIsKnown(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency = 2
	w := world(t, s, 2)
	ok(t, w.Settle())
	w.Faults = during("land", lateAnswer)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	w.PushTarget(files{"m": "1"})
	ok(t, w.Settle())
	state(t, w, 1, queue.TestsPassed)
	ok(t, w.Advance(5*time.Second))
	state(t, w, 1, queue.Merged)
	if m := w.Moves[len(w.Moves)-1]; m.PR != 2 || m.To != queue.Testing || len(w.RunOf(2).Ahead()) > 0 {
		t.Errorf("the last move is #%d to %s (%s), want #2 tested on the push", m.PR, m.To, m.Reason)
	}
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// #2 is being landed while #1, in another lane and before it in line, is still
// tested. An urgent one that impacts what both do goes in front of neither: what is
// being landed keeps its place.
func TestAnUrgentOneGoesBehindWhatIsBeingLanded(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Mode, s.Concurrency = queue.Parallel, 3
	w := world(t, s, 2)
	ok(t, w.Targets(1, []string{"app"}))
	ok(t, w.Targets(2, []string{"lib"}))
	ok(t, w.Settle())
	w.Faults = during("land", late)
	w.Report(w.RunOf(2).Commit, "ci", "success")
	ok(t, w.Settle())
	ok(t, w.Open(3, "alice", files{"d": "1"}))
	ok(t, w.Targets(3, []string{"app", "lib"}))
	urgent := queue.Urgent
	ok(t, w.Submit(3, Wish{Priority: &urgent}))
	ok(t, w.Settle())
	state(t, w, 1, queue.Testing)
	state(t, w, 2, queue.TestsPassed)
	if r := w.RunOf(3); r == nil || len(r.Ahead()) != 2 {
		t.Errorf("#3 is tested by %+v, want on top of both", r)
	}
	ok(t, w.Advance(5*time.Second))
	state(t, w, 2, queue.Merged)
	w.Faults, w.Auto = nil, true
	ok(t, w.Advance(time.Hour))
	ok(t, Ended(w))
}

// The host refuses to land a batch of three and names nobody. Each is tested alone,
// though they could form a batch again, and the one that is refused alone fails.
func TestABatchThatIsRefusedWithoutANameIsTestedOneByOne(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Batch, s.BatchingMinSize, s.Concurrency = true, 3, 3
	w := world(t, s, 3)
	ok(t, w.Refuse(2, "A rule is violated."))
	w.host.unnamed[2] = true
	w.Auto = true
	ok(t, w.Advance(time.Hour))
	state(t, w, 1, queue.Merged)
	state(t, w, 2, queue.Failed)
	state(t, w, 3, queue.Merged)
	if e := w.Entry(2); e.Reason != queue.LandingRefused {
		t.Errorf("#2 failed because of %s: %s", e.Reason, e.Message)
	}
	if n := w.state.Queue.Runs; n > 5 {
		t.Errorf("%d runs, want one of the batch, one of each, and one more of who was tested on #2", n)
	}
	ok(t, Ended(w))
}

// In lanes #2 has landed when nobody has heard of it yet, and then the host merges #1,
// which impacts the same and was given up. Nobody takes the one for tested without
// the other, and what is behind is tested on both.
func TestWhatIsMergedLateDuringALandingStandsBehindIt(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Concurrency, s.Mode, s.ChosenLandingMode, s.MergeMethod = 3, queue.Parallel, queue.LandHost, queue.MergeCommit
	w := world(t, s, 0)
	opened := func(n int64, targets string) {
		t.Helper()
		ok(t, w.Open(n, "alice", files{"f" + targets + string(rune('0'+n)): "1"}))
		ok(t, w.Targets(n, []string{targets}))
		ok(t, w.Submit(n, Wish{}))
		ok(t, w.Settle())
	}
	passes := func(n int64) {
		t.Helper()
		w.Report(w.RunOf(n).Commit, "ci", "success")
		ok(t, w.Settle())
	}
	opened(1, "a")
	ok(t, w.Hang(1))
	passes(1)
	state(t, w, 1, queue.Failed)

	opened(2, "a")
	opened(3, "b")
	passes(3) // so that #2 lands as a lane
	state(t, w, 3, queue.Merged)
	w.Faults = during(queue.Land{}.Kind(), lateAnswer)
	passes(2)
	state(t, w, 2, queue.TestsPassed)
	ok(t, w.Arrive())
	ok(t, w.Settle())
	state(t, w, 1, queue.Merged)
	w.Faults = nil
	ok(t, w.Advance(2*time.Second))
	if e := w.Entry(2); e.Reason != queue.MergedByQueue {
		t.Errorf("#2 is %s because of %s, want %s", e.State, e.Reason, queue.MergedByQueue)
	}
	ok(t, Proven(w))
	opened(4, "a")
	if got, want := w.state.Queue.Target.Commit, w.main(); got != want {
		t.Errorf("the queue takes %s for the head of main, which is %s", got, want)
	}
	passes(4)
	state(t, w, 4, queue.Merged)
	ok(t, Ended(w))
	ok(t, Proven(w))
}

// A landing stops half way, and is performed once more after that was told: its worker
// was killed before the job was called done. What it lands then is no one's merge by
// hand, whoever lands, and exactly too where nothing else has landed since.
func TestALandingThatIsPerformedOnceMoreIsRecognised(t *testing.T) {
	t.Parallel()
	for _, mode := range []queue.LandingMode{queue.LandHost, queue.LandExact} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := queue.DefaultSettings()
			s.ChosenLandingMode, s.MergeMethod = mode, queue.MergeCommit
			w := world(t, s, 1)
			ok(t, w.Settle())
			ok(t, w.Refuse(1, "Not today."))
			w.Faults = during(queue.Land{}.Kind(), toldTwice)
			w.Report(w.RunOf(1).Commit, "ci", "success")
			ok(t, w.Settle())
			state(t, w, 1, queue.Failed)
			w.Faults = nil
			delete(w.host.refused, 1)
			ok(t, w.Advance(2*time.Second))
			if e := w.Entry(1); e.State != queue.Merged || e.Reason != queue.LandedLate {
				t.Errorf("#1 is %s because of %s, want %s", e.State, e.Reason, queue.LandedLate)
			}
			ok(t, Ended(w))
			ok(t, Proven(w))
		})
	}
}

// #1 was given up, and lands beneath #2 in a stack: that is a landing like any other.
func TestWhatWasGivenUpAndLandsInAStackIsNotLate(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.ChosenLandingMode, s.MergeMethod = queue.LandHost, queue.MergeCommit
	w := world(t, s, 1)
	ok(t, w.Settle())
	ok(t, w.Refuse(1, "Not today."))
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 1, queue.Failed)
	delete(w.host.refused, 1)
	ok(t, w.OpenOn(2, 1, "alice", files{"f2": "1"}))
	ok(t, w.SubmitStack(2, Wish{}))
	ok(t, w.Settle())
	w.Report(w.RunOf(2).Commit, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 2, queue.Merged)
	if e := w.Entry(1); e.State != queue.Failed {
		t.Errorf("#1 is %s because of %s, want it failed as before", e.State, e.Reason)
	}
	ok(t, w.Advance(time.Hour))
	ok(t, Proven(w))
}

// What hung is merged before anybody has heard that the landing ended without it.
func TestWhatIsMergedBeforeItsLandingIsGivenUpIsLate(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.ChosenLandingMode = queue.LandHost
	w := world(t, s, 1)
	ok(t, w.Settle())
	ok(t, w.Hang(1))
	w.Faults = during(queue.Land{}.Kind(), lateAnswer)
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	ok(t, w.Arrive())
	ok(t, w.Settle())
	state(t, w, 1, queue.TestsPassed)
	w.Faults = nil
	ok(t, w.Advance(2*time.Second))
	if e := w.Entry(1); e.State != queue.Merged || e.Reason != queue.LandedLate {
		t.Errorf("#1 is %s because of %s, want %s", e.State, e.Reason, queue.LandedLate)
	}
	ok(t, Ended(w))
	ok(t, Proven(w))
}

// A read of the target that was under way when something was merged late says how it
// was before: nothing is tested on that.
func TestAReadFromBeforeALateMergeIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.ChosenLandingMode = queue.LandHost
	w := world(t, s, 1)
	ok(t, w.Settle())
	ok(t, w.Hang(1))
	w.Report(w.RunOf(1).Commit, "ci", "success")
	ok(t, w.Settle())
	state(t, w, 1, queue.Failed)

	w.Faults = during(queue.ReadTarget{}.Kind(), lateAnswer)
	ok(t, w.Open(2, "alice", files{"f2": "1"}))
	ok(t, w.Submit(2, Wish{}))
	w.tell(queue.TargetMoved{Branch: "main", After: "c-somebody's"})
	ok(t, w.Settle())
	ok(t, w.Arrive())
	ok(t, w.Settle())
	w.Faults = nil
	ok(t, w.Advance(2*time.Second))
	if r := w.RunOf(2); r == nil || r.Base.Commit != w.main() {
		t.Errorf("#2 is tested in %+v, want it tested on %s", r, w.main())
	}
}
