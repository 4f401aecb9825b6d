package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/queue"

	"pgregory.net/rapid"
)

// The second model. It knows nothing of lines, runs, batches or bisections: in
// the order of admission each pull request lands if main with it passes, and
// else it leaves. The engine does the same faster, and has to come out the same.

// request is one pull request of the model.
type request struct {
	number int64
	change files
	lane   string // in parallel mode, the one target that it impacts
}

// fate is what the model says of a history: what lands, in order, and main.
func fate(requests []request) (landed []int64, main files) {
	base := files{"README.md": "hello\n"}
	main = base
	for _, r := range requests {
		tree, merges := merge(base, base.with(r.change), main)
		if merges && !tree.fails("ci") {
			landed, main = append(landed, r.number), tree
		}
	}
	return landed, main
}

// kinds says what may happen among the pull requests of a history. Where a
// choice of order decides who lands, a queue that tests at once may choose
// another one than the model, and only the weaker promises are held.
type kinds struct {
	together  bool // two may break together
	conflicts bool // two may change the same file differently
}

func anyRequests(t *rapid.T, k kinds) []request {
	var list []request
	count := rapid.Int64Range(1, 12).Draw(t, "pull requests")
	lanes := []string{"a", "b", "c"}
	for n := int64(1); n <= count; n++ {
		own := fmt.Sprintf("f%d", n)
		lane := int(n) % len(lanes)
		r := request{number: n, lane: lanes[lane], change: files{own: "1"}}
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind == 3:
			r.change[".ci-sim/ci/r"+own] = ""
		case kind == 4 && k.together && n > 3: // with an earlier one of its lane
			with := n - 3*rapid.Int64Range(1, (n-1)/3).Draw(t, "with")
			r.change[".ci-sim/ci/r"+own] = own + "\n" + fmt.Sprintf("f%d", with)
		case kind == 5 && k.conflicts:
			r.change["shared-"+r.lane] = own
		}
		list = append(list, r)
	}
	return list
}

// play has the engine handle the same requests, with nobody interfering.
func play(t *rapid.T, s queue.Settings, requests []request) *World {
	simulated.Add(int64(len(requests)))
	w := NewWorld(s)
	w.Auto = true
	c := Checker{Deterministic: true}
	c.Watch(w)
	p := &people{w: w}
	for _, r := range requests {
		p.must(t, w.Open(r.number, "alice", r.change))
	}
	for _, r := range requests {
		p.must(t, w.Targets(r.number, []string{r.lane}))
		p.must(t, w.Submit(r.number, Wish{}))
		p.must(t, w.Advance(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds"))*time.Second))
	}
	p.must(t, w.Advance(4*time.Hour))
	// One that conflicts with what landed before it was admitted waits for its author.
	for _, r := range requests {
		if w.Entry(r.number).State == queue.NotReady {
			p.must(t, w.Close(r.number))
		}
	}
	p.must(t, w.Advance(time.Hour))
	p.must(t, Ended(w))
	p.must(t, Proven(w))
	return w
}

func (w *World) landedInOrder() []int64 {
	list, _ := w.Main()
	return list
}

// modelSettings draws settings for the model's histories.
func modelSettings(t *rapid.T, batch bool) queue.Settings {
	s := anySettings(t)
	s.Batch = batch
	s.DirectMergeMode = queue.DirectMergeOff
	return s
}

// One entry per group, no conflicts: the very same pull requests land, in single
// mode in the very same order. An adaptive queue lets others pass whoever will
// probably fail, and so, where two break together, it may land the other one.
func TestOneByOneTheModelAndTheQueueAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := modelSettings(t, false)
		adaptive := s.Speculation == queue.AdaptiveSpeculation
		requests := anyRequests(t, kinds{together: !adaptive})
		want, _ := fate(requests)
		got := play(t, s, requests).landedInOrder()
		if adaptive || s.Mode == queue.Parallel {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("landed %v, the model says %v", got, want)
		}
	})
}

// Batches and bisections change the order, but where everybody passes or fails
// by himself, not who lands. The same for conflicts that nobody else's fate
// hangs on.
func TestInBatchesTheModelAndTheQueueAgreeOnWhoLands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := modelSettings(t, true)
		requests := anyRequests(t, kinds{})
		want, _ := fate(requests)
		got := play(t, s, requests).landedInOrder()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("landed %v, the model says %v", got, want)
		}
	})
}

// How many runs n pull requests cost at most when nobody interferes and CI says the
// same of a tree each time. Let f of them fail, and b be the size of a batch.
//
// A run is made anew only when something ahead of its group leaves the line: a
// group that lands does not disturb those behind. What leaves is an entry that
// fails or a batch that is bisected, and each bisection ends with one entry that
// fails: f times in all. A group is formed of entries that wait, at most n at
// first and b-1 after each bisection. So the line costs at most
//
//	(n + f(b-1)) (1 + f)
//
// runs, and n when nobody fails. A bisection halves its batch until single entries
// are left: 2b-2 parts, each of which is tested once.
//
// Depth, optimistic merging and the optimization of bisections only save runs.
func mostRuns(n, f, b int64) int64 { return (n+f*(b-1))*(1+f) + f*(2*b-2) }

func TestTheNumberOfRunsIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := modelSettings(t, rapid.Bool().Draw(t, "in batches"))
		b := int64(1)
		if s.Batch {
			b = s.BatchingMinSize
		}
		requests := anyRequests(t, kinds{together: !s.Batch})
		w := play(t, s, requests)
		var failed int64
		for _, r := range requests {
			if w.Entry(r.number).State == queue.Failed {
				failed++
			}
		}
		if runs, most := w.state.Queue.Runs, mostRuns(int64(len(requests)), failed, b); runs > most {
			t.Fatalf("%d runs for %d pull requests, %d of which failed, in batches of %d: the most is %d", runs, len(requests), failed, b, most)
		}
		if n := w.state.Queue.Bisected; n > failed {
			t.Fatalf("%d bisections, and only %d pull requests failed", n, failed)
		}
	})
}

// With anything allowed, optimistic merging too: main passes, and whoever did
// not land could not: main with it fails, or it does not merge. In batches that is
// promised only to those whom no other can break: a bisection blames on top of
// what passed in it, and that may fail later, on what landed meanwhile.
func TestMainPassesAndWhoeverPassesOnItHasLanded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := modelSettings(t, rapid.Bool().Draw(t, "in batches"))
		requests := anyRequests(t, kinds{together: true, conflicts: true})
		w := play(t, s, requests)
		main := w.host.commits[w.main()].tree
		if main.fails("ci") {
			t.Fatalf("main fails")
		}
		landed := w.landedInOrder()
		base := files{"README.md": "hello\n"}
		for _, r := range requests {
			tree, merges := merge(base, base.with(r.change), main)
			could := merges && !tree.fails("ci") && (!s.Batch || harmless(r, requests))
			if could && !slices.Contains(landed, r.number) {
				t.Fatalf("#%d would pass on main and did not land: %s", r.number, w.Entry(r.number).Message)
			}
		}
	})
}

// harmless reports whether a request changes one file only, of which no other
// request's rules speak.
func harmless(r request, all []request) bool {
	return len(r.change) == 1 && !slices.ContainsFunc(all, func(o request) bool {
		for path, content := range o.change {
			if strings.HasPrefix(path, ".ci-sim/") && slices.Contains(strings.Fields(content), fmt.Sprintf("f%d", r.number)) {
				return true
			}
		}
		return false
	})
}
