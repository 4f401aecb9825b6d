package db_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/queue"
)

// upload tells what a pull request impacts at a head.
func (w *world) upload(pr int64, head string, names ...string) {
	w.t.Helper()
	w.must(w.SetImpactedTargets(w.t.Context(), w.repo.ID, pr, head, names, false))
}

// parallel puts the world's queue into parallel mode.
func (w *world) parallel() {
	w.t.Helper()
	w.store(func(p *queue.Plan) { p.Queue.Mode = queue.Parallel })
}

// fold decides, changing nothing, until nothing is due, and returns the kinds
// of the facts.
func (w *world) fold() (kinds []string) {
	w.t.Helper()
	w.must(w.Route(w.t.Context(), epoch))
	for {
		_, due := w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
			for _, f := range facts {
				kinds = append(kinds, f.Fact.Kind())
			}
			return unchanged(s)
		})
		if !due {
			return kinds
		}
	}
}

func TestTargetsAreFoundWheneverTheyCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parallel()
	w.upload(1, "new", "docs", "app", "docs", "") // before anybody submits it
	w.upload(2, "new", "elsewhere")               // another pull request at the same commit
	w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 3, "head3", nil, true))
	one, two, three, four := notReady(1), notReady(2), notReady(3), notReady(4)
	one.Head = "old"
	w.put(nil, one, two, three, four)
	sets := func() (map[int64]*queue.TargetSet, *queue.Snapshot) {
		s, _ := w.window(epoch, queue.RulesChanged{})
		found := map[int64]*queue.TargetSet{}
		for _, e := range s.Entries {
			if set, ok := s.Targets[e.Targets]; ok {
				found[e.Number] = &set
			} else if e.Targets != 0 {
				t.Errorf("#%d names set %d, which is not there", e.Number, e.Targets)
			}
		}
		return found, s
	}
	check := func(what string, want map[int64]*queue.TargetSet) {
		t.Helper()
		if got, _ := sets(); !cmp.Equal(want, got) {
			t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
		}
	}
	set := func(names ...string) *queue.TargetSet { s := queue.NewTargetSet(names); return &s }
	all := &queue.TargetSet{All: true, Hashes: []uint64{}}
	check("at the heads that the entries have", map[int64]*queue.TargetSet{3: all})

	one.Head, one.Version = "new", 2 // the push that they were computed for is known
	w.put(nil, one)
	check("after the push", map[int64]*queue.TargetSet{1: set("app", "docs"), 3: all})

	w.upload(1, "new")
	w.upload(4, "head4", "x\x00y", "bad \xff")
	check("newer ones win, nothing is a set, and names are cleaned as texts are",
		map[int64]*queue.TargetSet{1: set(), 3: all, 4: set("xy", "bad \uFFFD")})

	// What a group was formed with stays.
	_, s := sets()
	bound := s.ByPR(4).Targets
	four.State, four.AdmittedAt, four.Group, four.BoundTargets, four.Version = queue.Pending, epoch, 1, bound, 2
	w.store(func(p *queue.Plan) {
		p.Entries = []queue.Entry{four}
		p.Groups = []queue.Group{{ID: 1, Members: []queue.EntryID{four.ID}, FormedAt: epoch}}
		p.Line = []queue.GroupID{1}
	})
	w.upload(4, "head4", "z")
	_, s = sets()
	e := s.ByPR(4)
	if e.BoundTargets != bound || e.Targets == bound || !cmp.Equal(*set("z"), s.Targets[e.Targets]) || !cmp.Equal(*set("xy", "bad \uFFFD"), s.Targets[bound]) {
		t.Errorf("bound to %d, now %d of %v", e.BoundTargets, e.Targets, s.Targets)
	}
}

func TestAnUploadIsAFactUnlessItIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parallel()
	w.put(nil, notReady(1))
	for _, tt := range []struct {
		names      []string
		everything bool
		want       []string
	}{
		{[]string{"b", "a"}, false, []string{"targets_uploaded"}},
		{[]string{"a", "b", "a"}, false, nil},
		{[]string{"a"}, false, []string{"targets_uploaded"}},
		{nil, false, []string{"targets_uploaded"}},
		{[]string{}, false, nil},
		{nil, true, []string{"targets_uploaded"}},
		{[]string{"a"}, true, nil},
		{[]string{"a"}, false, []string{"targets_uploaded"}}, // the newest counts, not any
	} {
		w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 1, "head1", tt.names, tt.everything))
		if got := w.fold(); !slices.Equal(got, tt.want) {
			t.Errorf("%q, everything %v: %v, want %v", tt.names, tt.everything, got, tt.want)
		}
	}
	if err := w.SetImpactedTargets(t.Context(), 999, 1, "head1", nil, false); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("for a repository that does not exist: %v", err)
	}
	for _, pr := range []int64{0, -1, math.MaxInt64} {
		if err := w.SetImpactedTargets(t.Context(), w.repo.ID, pr, "head1", nil, false); err == nil {
			t.Errorf("for pull request %d: no error", pr)
		}
	}
}

// A decision that learns of an entry, or of its new head, did not see targets
// that came before: the next one must, at once.
func TestTargetsThatADecisionCouldNotSeeWakeTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parallel()
	w.upload(1, "head1", "docs")
	e := notReady(1)
	w.put(nil, e)
	seen := 0
	for range 5 {
		if _, due := w.update(func(s *queue.Snapshot, _ []queue.Received) queue.Plan {
			p := unchanged(s)
			if got := s.ByPR(1); got == nil || got.Targets != 0 {
				seen++
			}
			return p
		}); !due {
			break
		}
		if seen > 1 {
			t.Fatal("the queue is due for ever")
		}
	}
	if seen != 1 {
		t.Error("the queue is not due")
	}
}

// The decision that switches to parallel mode already needs the sets.
func TestTheDecisionThatSwitchesModesHasTheTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ready := notReady(1)
	ready.Mergeability = queue.Mergeable
	w.put(nil, ready)
	w.upload(1, "head1", "docs")
	if s, _ := w.window(epoch); len(s.Targets) != 0 || s.ByPR(1) == nil || s.ByPR(1).Targets != 0 {
		t.Errorf("single mode: %v", s.Targets)
	}
	mode := queue.Parallel
	s, _ := w.window(epoch, queue.ChangeRequested{Change: queue.Change{Mode: &mode}, At: epoch})
	if e := s.ByPR(1); e == nil || e.Targets == 0 || len(s.Targets) != 1 {
		t.Errorf("when it is switched: %+v, %v", e, s.Targets)
	}
	w.store(func(p *queue.Plan) { p.Queue.State, p.Queue.WantedMode = queue.SwitchingModes, queue.Parallel })
	if s, _ := w.window(epoch); s.ByPR(1) == nil || len(s.Targets) != 1 {
		t.Errorf("while it switches: %v, %v", s.Entries, s.Targets)
	}
	// People see whether targets are known in every mode.
	w.store(func(p *queue.Plan) { p.Queue.State, p.Queue.WantedMode = queue.Paused, "" })
	read, err := w.Read(t.Context(), w.queue.ID, 1)
	if err != nil || read.ByPR(1).Targets == 0 {
		t.Errorf("read: %+v, %v", read.ByPR(1), err)
	}
}

func TestWhatAChainImpacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.upload(1, "head1", "b", "a")
	w.upload(2, "head2", "c", "b")
	w.upload(3, "head3")
	w.must(w.SetImpactedTargets(t.Context(), w.repo.ID, 4, "head4", nil, true))
	w.upload(5, "head5", "old")
	var counted queue.TargetsID
	w.must(w.SQL().QueryRow(`SELECT id FROM impacted_targets WHERE pr = 5`).Scan(&counted))
	w.upload(5, "head5", "new")
	step := func(pr int64) queue.Step { return queue.Step{PR: pr, Head: fmt.Sprint("head", pr)} }
	for _, tt := range []struct {
		chain []queue.Step
		want  string
	}{
		{nil, "[] false false"},
		{[]queue.Step{step(9)}, "[] false false"},
		{[]queue.Step{step(3)}, "[] false true"},
		{[]queue.Step{step(2), step(9), step(1)}, "[a b c] false true"},
		{[]queue.Step{step(1), step(4)}, "[] true true"},
		{[]queue.Step{{PR: 1, Head: "head2"}}, "[] false false"},
		{[]queue.Step{step(5)}, "[new] false true"},
		{[]queue.Step{step(1), {PR: 5, Head: "head5", Targets: counted}}, "[a b old] false true"},
	} {
		names, everything, known, err := w.ImpactedTargets(t.Context(), w.repo.ID, tt.chain)
		if got := fmt.Sprint(names, everything, known); err != nil || got != tt.want {
			t.Errorf("%v: %s, %v, want %s", tt.chain, got, err, tt.want)
		}
	}
}

func TestOldTargetsAreForgottenUnlessTheyCount(t *testing.T) {
	t.Parallel()
	now := epoch
	w := newWorld(t, at(&now))
	active, bound, ended := notReady(1), entry(2), entry(3)
	bound.BoundHead = "bound"
	ended.State, ended.Reason = queue.Cancelled, queue.PRClosed
	w.put(nil, active, bound, ended)
	w.upload(1, "head1", "a")
	w.upload(1, "older", "a")
	w.upload(2, "bound", "a")
	w.upload(3, "head3", "a")
	w.upload(4, "head4", "a") // nobody submitted it
	now = epoch.AddDate(0, 0, 29)
	w.upload(5, "head5", "a")
	kept := func() (heads []string) {
		w.must(w.Maintain(t.Context(), now))
		rows, err := w.SQL().Query(`SELECT head FROM impacted_targets ORDER BY head`)
		w.must(err)
		defer rows.Close()
		for rows.Next() {
			var head string
			w.must(rows.Scan(&head))
			heads = append(heads, head)
		}
		w.must(rows.Err())
		return heads
	}
	if got := kept(); len(got) != 6 {
		t.Errorf("after 29 days: %v", got)
	}
	now = epoch.AddDate(0, 0, 31)
	if diff := cmp.Diff([]string{"bound", "head1", "head5"}, kept()); diff != "" {
		t.Errorf("after 31 days (-want +got):\n%s", diff)
	}
}

// The largest upload: 350,000 names in nearly 20 MiB. It fits in the time and
// the memory of a small server, and what overlaps is still known.
func TestTheLargestUpload(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty megabytes")
	}
	t.Parallel()
	w := newWorld(t)
	w.parallel()
	names := make([]string, 350_000)
	size := 0
	for i := range names {
		names[i] = fmt.Sprintf("//services/area_%03d/package_%05d:target_library_%06d", i%1000, i%50_000, i)
		size += len(names[i])
	}
	w.put(nil, notReady(1), notReady(2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	w.upload(1, "head1", names...)
	stored := time.Since(began)
	runtime.ReadMemStats(&after)
	w.upload(2, "head2", names[77_777])
	began = time.Now()
	s, _ := w.window(epoch, queue.RulesChanged{})
	read := time.Since(began)
	t.Logf("%d MB of names: stored in %s with %d MB allocated, a window read in %s", size>>20, stored, (after.TotalAlloc-before.TotalAlloc)>>20, read)
	if one, two := s.Targets[s.ByPR(1).Targets], s.Targets[s.ByPR(2).Targets]; len(one.Hashes) != len(names) || !one.Overlaps(two) {
		t.Errorf("%d hashes, of %d names", len(one.Hashes), len(names))
	}
	shown, _, _, err := w.ImpactedTargets(t.Context(), w.repo.ID, []queue.Step{{PR: 1, Head: "head1"}})
	slices.Sort(names)
	if err != nil || !slices.Equal(shown, names) {
		t.Errorf("%d names come back: %v", len(shown), err)
	}
}

// at is a clock that the test moves.
func at(now *time.Time) func(*db.Config) {
	return func(c *db.Config) { c.Now = func() time.Time { return *now } }
}
