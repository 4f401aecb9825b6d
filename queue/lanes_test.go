package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// One walk with an index finds the same groups ahead as asking every pair does.
func TestTheIndexFindsWhatPairsFind(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		s := NewSnapshot(Queue{Settings: Settings{Mode: Parallel}})
		if r.IntN(2) == 0 {
			s.Queue.Speculation = AdaptiveSpeculation
		}
		for n := range 1 + r.IntN(70) {
			g := &Group{ID: GroupID(n + 1)}
			if d := r.IntN(10); s.Queue.Speculation == AdaptiveSpeculation && d < 3 {
				g.Probation = []Probation{OnProbation, Overtaken, Suspect}[d]
			}
			for m := range 1 + r.IntN(3) {
				e := &Entry{ID: EntryID(fmt.Sprint(n, "/", m)), State: Pending, Group: g.ID, BoundTargets: TargetsID(len(s.Targets) + 1)}
				s.Targets[e.BoundTargets] = anySet(r)
				s.Entries[e.ID] = e
				g.Members = append(g.Members, e.ID)
			}
			s.Groups[g.ID] = g
			s.Line = append(s.Line, g.ID)
		}
		d := begin(s, time.Time{})
		line := s.groups(s.Line)
		for i, g := range line {
			want := d.lane(g, backwards(line[:i]), (*Group).alone, (*Group).apart)
			slices.Reverse(want)
			if got := d.ahead(g); !slices.Equal(got, want) {
				t.Fatalf("%d groups are ahead of group %d, want %d", len(got), g.ID, len(want))
			}
			want = d.lane(g, line[i+1:], (*Group).apart, (*Group).alone)
			if got := d.behind(g); !slices.Equal(got, want) {
				t.Fatalf("%d groups are behind group %d, want %d", len(got), g.ID, len(want))
			}
		}
	}
}

// lane walks away from g and collects what overlaps g or, unless chains are narrow,
// anything collected; nothing if g is in no lane, and none that are in none.
func (d *decision) lane(g *Group, groups []*Group, own, others func(*Group) bool) []*Group {
	if own(g) {
		return nil
	}
	var lane []*Group
	entries := d.s.members(g)
	for _, other := range groups {
		members := d.s.members(other)
		if !others(other) && slices.ContainsFunc(members, func(m *Entry) bool {
			return slices.ContainsFunc(entries, func(e *Entry) bool { return d.targetsOf(e).Overlaps(d.targetsOf(m)) })
		}) {
			lane = append(lane, other)
			if !d.narrow() {
				entries = append(entries, members...)
			}
		}
	}
	return lane
}

func backwards(line []*Group) []*Group {
	line = slices.Clone(line)
	slices.Reverse(line)
	return line
}

// The index of free entries finds the same batch as asking every pair does.
func TestNeighboursFindWhatPairsFind(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 8))
	for range 300 {
		s := NewSnapshot(Queue{Settings: Settings{Mode: Parallel, Batch: true, BatchingMinSize: 4}})
		for n := range 1 + r.IntN(60) {
			e := &Entry{ID: EntryID(fmt.Sprintf("%03d", n)), State: Pending, Priority: Medium, Targets: TargetsID(n + 1)}
			s.Targets[e.Targets] = anySet(r)
			s.Entries[e.ID] = e
		}
		d := begin(s, time.Time{})
		free := d.sorted((*Entry).Free)
		mates := d.mates(free)
		for i := range free {
			want := free[i : i+1 : i+1]
			for _, e := range free[i+1:] {
				overlaps := func(o *Entry) bool { return d.targetsOf(o).Overlaps(d.targetsOf(e)) }
				if len(want) < 4 && slices.ContainsFunc(want, overlaps) {
					want = append(want, e)
				}
			}
			if got, _ := d.batch(mates, i, d.batchSize(free[i:]), &crowd{}); !slices.Equal(got, want) {
				t.Fatalf("a batch of %d, want %d", len(got), len(want))
			}
		}
	}
}

func anySet(r *rand.Rand) TargetSet {
	var s TargetSet
	switch r.IntN(40) {
	case 0:
		return Everything
	case 1:
		for h := range uint64(indexedTargets + 1) {
			s.Hashes = append(s.Hashes, h*3+uint64(r.IntN(3)))
		}
	default:
		for range r.IntN(4) {
			s.Hashes = append(s.Hashes, uint64(r.IntN(4000)))
		}
	}
	slices.Sort(s.Hashes)
	s.Hashes = slices.Compact(s.Hashes)
	return s
}

// The build of #2, which is on top of #1, is asked for once more after #1 has
// landed: as what, that run does not know. #3 goes on top of the target and #2,
// and not on top of nothing.
func TestARunGoesOnWhereOthersAreKnownToBe(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(Queue{Key: "00000000-0000-4000-8000-000000000000", Settings: Settings{Mode: Single}, Target: Target{Commit: "landed", Tree: "t1", Epoch: 1}})
	for n := range int64(3) {
		e := &Entry{ID: EntryID(fmt.Sprint(n + 1)), State: Pending, Submission: 1, BoundHead: fmt.Sprint("head", n+1), Group: GroupID(n + 1), PullRequest: PullRequest{Number: n + 1}}
		s.Entries[e.ID] = e
		s.Groups[e.Group] = &Group{ID: e.Group, Members: []EntryID{e.ID}}
	}
	s.Line = []GroupID{2, 3}
	s.Queue.Landed = []Landed{{Seq: 1, Entry: "1", Submission: 1, PR: 1, Commit: "landed", Tree: "t1"}}
	one, two := stepOf(s.Entries["1"]), stepOf(s.Entries["2"])
	s.Runs["r2"] = &Run{ID: "r2", Group: 2, Kind: MainRun, State: Building, Members: []EntryID{"2"}, Base: Base{Commit: "before", Tree: "t0", Epoch: 1}, Chain: []Step{one, two}}
	s.Groups[2].Run = "r2"
	d := begin(s, time.Time{})
	d.builds = []BuildRun{{Run: "r2"}}
	d.start(s.Groups[3])
	r := s.run(s.Groups[3])
	if r.Base.Commit != "landed" || r.Base.Seq != 1 || len(r.Chain) != 2 || r.Chain[0].PR != 2 {
		t.Errorf("it is built on %+v with %d steps, want on what has landed with two", r.Base, len(r.Chain))
	}
}
