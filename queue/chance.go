package queue

import (
	"fmt"
	"strings"
)

// This file estimates how likely a pull request is to fail, from how those
// before it ended. It counts and divides, and says in words what it counted.

// Ended is how one submission ended: it landed, or its tests threw it out.
type Ended struct {
	PR     int64
	Author int64 // the host's number; 0 = not known
	// Targets is how many targets it impacted; 0 = not known.
	Targets int64
	Failed  bool
}

// RecentlyEnded is how many of the newest endings an estimate is made from.
const RecentlyEnded = 200

// Remember adds the ending of a submission to Recent, if it says something about
// the pull request: it landed, or its tests threw it out. Decisions do so, and who
// keeps the state between them instead of reading it anew.
func (s *Snapshot) Remember(m Move) {
	switch m.Reason {
	case MergedByQueue, LandedTreeMismatch, RequiredStatusFailed, TestRunTimeout, FailedByOptimization:
	default:
		return
	}
	if m.To != Merged && m.To != Failed {
		return
	}
	x := Ended{PR: m.PR, Failed: m.To == Failed}
	if e := s.Entries[m.Entry]; e != nil {
		x.Author = e.Author.ID
		if s.Queue.Mode == Parallel {
			x.Targets = int64(len(s.Targets[e.Targets].Hashes))
		}
	}
	s.Recent = append([]Ended{x}, s.Recent[:min(len(s.Recent), RecentlyEnded-1)]...)
}

// chance is how likely an entry is to fail by itself.
type chance struct {
	fails   float64
	counted []counted // what that was counted from, nil if somebody knew more
}

// counted are some submissions of which the words say who they are.
type counted struct {
	share
	of string // a format
}

// why says what a chance was counted from, a sentence. Every decision asks for
// chances, and only people for the words.
func (c chance) why() string {
	if c.counted == nil {
		return "A predictor says so."
	}
	from := make([]string, len(c.counted))
	for i, s := range c.counted {
		from[i] = fmt.Sprintf(s.of, s.failed, s.all)
	}
	return fmt.Sprintf("It fails with a chance of %.0f%%, estimated from what failed: %s.", 100*c.fails, strings.Join(from, ", "))
}

// share is how many of some submissions failed.
type share struct{ failed, all int64 }

func (s *share) count(failed bool) {
	s.all++
	if failed {
		s.failed++
	}
}

// near is the share, as if so many more had been seen that fail as often as
// mean says: of a few nothing much follows.
func (s share) near(mean, more float64) float64 {
	return (float64(s.failed) + more*mean) / (float64(s.all) + more)
}

// How many are imagined beside those that were seen.
const (
	imaginedHere    = 20
	imaginedMean    = .05 // how often those of a queue fail
	imaginedAuthor  = 10
	imaginedTargets = 10
	imaginedSelf    = 2
)

// tally is what the newest endings say, counted once a decision.
type tally struct {
	here    share
	authors map[int64]share
	prs     map[int64]share
	targets []Ended // those whose number of targets is known
}

func (d *decision) tally() *tally {
	if d.known.tally != nil {
		return d.known.tally
	}
	t := &tally{authors: map[int64]share{}, prs: map[int64]share{}}
	add := func(m map[int64]share, key int64, failed bool) {
		s := m[key]
		s.count(failed)
		m[key] = s
	}
	for _, x := range d.s.Recent {
		t.here.count(x.Failed)
		add(t.prs, x.PR, x.Failed)
		if x.Author != 0 {
			add(t.authors, x.Author, x.Failed)
		}
		if x.Targets > 0 {
			t.targets = append(t.targets, x)
		}
	}
	d.known.tally = t
	return t
}

// likeTargets counts those that impacted at least as many targets.
func (t *tally) likeTargets(n int64) share {
	var s share
	for _, x := range t.targets {
		if x.Targets >= n {
			s.count(x.Failed)
		}
	}
	return s
}

// chance estimates how likely an entry is to fail: as often as this queue's pull
// requests do, times what its author's, those with as many targets, and itself
// under an earlier submission did beyond that (in odds).
func (d *decision) chance(e *Entry) chance {
	if p, told := d.s.Predicted[e.ID]; told {
		return chance{fails: p}
	}
	t := d.tally()
	mean := t.here.near(imaginedMean, imaginedHere)
	odds := oddsOf(mean)
	c := chance{counted: append(make([]counted, 0, 4), counted{t.here, "%d of the last %d here"})}
	beyond := func(s share, usual, imagined float64, of string) {
		if s.all == 0 {
			return
		}
		odds *= oddsOf(s.near(mean, imagined)) / oddsOf(usual)
		c.counted = append(c.counted, counted{s, of})
	}
	if e.Author.ID != 0 {
		beyond(t.authors[e.Author.ID], mean, imaginedAuthor, "%d of %d of its author")
	}
	if n := d.targetCount(e); n > 0 {
		beyond(t.likeTargets(n), t.likeTargets(1).near(mean, imaginedTargets), imaginedTargets, "%d of %d with as many targets")
	}
	beyond(t.prs[e.Number], mean, imaginedSelf, "%d of %d earlier submissions of its own")
	c.fails = odds / (1 + odds)
	return c
}

func oddsOf(p float64) float64 { return p / (1 - p) }

// targetCount is how many targets an entry impacts, 0 if that is not known.
func (d *decision) targetCount(e *Entry) int64 {
	if d.s.Queue.Mode != Parallel || e.Stacked() {
		return 0
	}
	return int64(len(d.targetsOf(e).Hashes))
}
