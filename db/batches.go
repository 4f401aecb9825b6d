package db

import (
	"container/heap"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/queue"
)

// indexedAtMost is the size of the largest set of targets that is looked at
// target by target when batches are found. Larger ones count as everything
// here: then a batch may be found smaller than it could be, or later.
const indexedAtMost = 1000

// candidate is a free pending entry that the next groups may take.
type candidate struct {
	ID         string `json:"id"`
	PR         int64  `json:"pr"`
	Head       string `json:"head"`
	Single     bool   `json:"single"` // goes in a group of its own
	Returned   bool   `json:"returned"`
	Stacked    bool   `json:"stacked"` // a stack impacts everything
	AdmittedAt stamp  `json:"admitted_at"`
}

// readBatches finds the free entries that the next groups of a queue in
// parallel mode with batches may take. The first ones in order will not do: a
// batch needs those that overlap it, wherever they stand, and one that waits
// for more of them must not keep others out of the window.
//
// So it forms batches as package queue does, of the first freeAtMost free
// entries, of which it reads no more than their order and their targets. It
// takes those that can go now, twice as many as there are slots, because some
// may have to wait for what is ahead of them.
func (db *DB) readBatches(ctx context.Context, tx *sqlx.Tx, s *queue.Snapshot, now time.Time) ([]queue.EntryID, error) {
	var list []candidate
	if err := tx.SelectContext(ctx, &list, `
		SELECT id, pr, head, (no_batch OR alone OR priority = 0) AS single, returned <> 0 AS returned, stack <> '[]' AS stacked, admitted_at FROM entries e
		WHERE queue_id = $1 AND state = 'pending' AND group_id = 0
			AND (conflicts_with IS NULL OR NOT EXISTS (SELECT 1 FROM entries c
				WHERE c.id = e.conflicts_with AND c.state NOT IN ('merged', 'failed', 'cancelled')))
		ORDER BY (priority <> 0), (returned = 0), returned, priority, admitted_at NULLS FIRST, submitted_at, id
		LIMIT $2 + 1`, int64(s.Queue.ID), freeAtMost); err != nil {
		return nil, fmt.Errorf("find free entries: %w", err)
	}
	if len(list) > freeAtMost {
		s.More, list = true, list[:freeAtMost]
	}
	sets, err := db.setsOf(ctx, tx, s.Queue.Repo.ID, list)
	if err != nil {
		return nil, err
	}
	return newCrowd(list, sets).pick(s, now), nil
}

// setsOf reads the sets that count for free entries, in the same order.
func (db *DB) setsOf(ctx context.Context, tx *sqlx.Tx, repo queue.RepoID, list []candidate) ([]queue.TargetSet, error) {
	prs, heads := make([]int64, len(list)), make([]string, len(list))
	for i, c := range list {
		prs[i], heads[i] = c.PR, c.Head
	}
	newest, err := newestTargets(ctx, tx, repo, prs, heads)
	if err != nil {
		return nil, err
	}
	var ids []queue.TargetsID
	for _, id := range newest {
		ids = append(ids, id)
	}
	known, err := db.targetSets(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	sets := make([]queue.TargetSet, len(list))
	for i, c := range list {
		set, ok := known[newest[pullHead{c.PR, c.Head}]]
		if !ok || c.Stacked || len(set.Hashes) > indexedAtMost {
			set = queue.Everything
		}
		sets[i] = set
	}
	return sets, nil
}

// crowd is the free entries with an index from target to those that have it,
// in order.
type crowd struct {
	list  []candidate
	sets  []queue.TargetSet
	at    map[uint64][]int
	all   []int // those whose set is everything
	every []int // all of them
	// went marks those in a batch that can go now.
	went []bool
	// cause is why another waits: one before it, which it overlaps and which
	// waits, or nobody (-1): then its own batch is not complete.
	cause []int
	// seen marks, for one batch at a time, whom it has looked at.
	seen  []int
	batch int
}

func newCrowd(list []candidate, sets []queue.TargetSet) *crowd {
	n := len(list)
	c := &crowd{list: list, sets: sets, at: map[uint64][]int{}, went: make([]bool, n), cause: make([]int, n), seen: make([]int, n)}
	for i, set := range sets {
		c.every = append(c.every, i)
		if set.All {
			c.all = append(c.all, i)
		}
		for _, h := range set.Hashes {
			c.at[h] = append(c.at[h], i)
		}
	}
	return c
}

// pick chooses the entries of the batches that can go now, and notes when the
// first of the others can. It repeats the rule of queue's decision.form and is
// not one function with it: form chooses one group at a time, of entries that
// it has whole, and starts over after each; this walks once over hundreds of
// which it knows only order and targets, and also says why those wait that do.
// Where the two differ, pick errs towards more entries, or form would not find
// in the window what it would find in the whole queue; the test that holds them
// equal is TestAWindowStartsWhatTheWholeQueueWould.
func (c *crowd) pick(s *queue.Snapshot, now time.Time) []queue.EntryID {
	q := s.Queue.Settings
	patience := time.Duration(min(q.BatchingMaxWaitTimeMinutes, 100*365*24*60)) * time.Minute
	adaptive := q.Speculation == queue.AdaptiveSpeculation // its batches may be smaller
	groups := 2 * min(q.Concurrency, freeAtMost)
	waits := waiting{targets: map[uint64]int{}}
	picked := map[int]bool{}
	var closers []int
	for i, e := range c.list {
		if c.went[i] {
			continue
		}
		if by, held := waits.holdsUp(c.sets[i]); held {
			c.cause[i] = by
			waits.add(i, c.sets[i])
			continue
		}
		b := grown{members: []int{i}, from: []int{-1}, closer: -1}
		if !e.Single {
			b = c.grow(i, min(q.BatchingMinSize, freeAtMost))
		}
		due := time.Time(e.AdmittedAt).Add(patience)
		if full := int64(len(b.members)) >= q.BatchingMinSize; !full && !adaptive && !e.Single && b.closer < 0 && !e.Returned && now.Before(due) {
			earliest(&s.NextDue, due)
			c.cause[i] = -1
			waits.add(i, c.sets[i]) // the others of its batch meet it, each when it comes
			continue
		}
		for _, m := range b.members {
			c.went[m] = true
			picked[m] = groups > 0 || picked[m]
		}
		if groups == 0 {
			s.More = true
			continue
		}
		groups--
		if b.closer >= 0 {
			closers = append(closers, b.closer)
		}
	}
	// An entry that ends a batch must be seen to do so. If it waits itself,
	// so must those it waits for, or it would go before them.
	for _, i := range closers {
		for ; i >= 0 && !picked[i]; i = c.cause[i] {
			picked[i] = true
			if c.went[i] {
				break
			}
		}
	}
	var ids []queue.EntryID
	for i, e := range c.list {
		if picked[i] {
			ids = append(ids, queue.EntryID(e.ID))
		}
	}
	return ids
}

// grown is a batch: its members, for each of them one before it that it
// overlaps, and who ended it because he goes alone; -1 = nobody.
type grown struct {
	members, from []int
	closer        int
}

// grow collects, in order, those behind the first that overlap it, directly or
// through one another.
func (c *crowd) grow(first int, size int64) grown {
	c.batch++
	var next sort.IntSlice
	ahead := &positions{&next}
	from := map[int]int{first: -1}
	look := func(member int) {
		near := [][]int{c.every}
		if set := c.sets[member]; !set.All {
			near = append(near[:0], c.all)
			for _, h := range set.Hashes {
				near = append(near, c.at[h])
			}
		}
		for _, list := range near {
			for _, i := range list[sort.SearchInts(list, member+1):] {
				if !c.went[i] && c.seen[i] != c.batch {
					c.seen[i], from[i] = c.batch, member
					heap.Push(ahead, i)
				}
			}
		}
	}
	b := grown{members: []int{first}, from: []int{-1}, closer: -1}
	look(first)
	for int64(len(b.members)) < size && len(next) > 0 {
		i := heap.Pop(ahead).(int)
		if c.list[i].Single {
			b.closer = i
			break
		}
		b.members, b.from = append(b.members, i), append(b.from, from[i])
		look(i)
	}
	return b
}

// waiting is what those that cannot go yet impact, and one of them for each
// target.
type waiting struct {
	anybody, everything bool
	one                 int // any of them; if there is one whose set is everything, that
	targets             map[uint64]int
}

func (w *waiting) add(i int, set queue.TargetSet) {
	if !w.anybody || set.All && !w.everything {
		w.one = i
	}
	w.anybody, w.everything = true, w.everything || set.All
	for _, h := range set.Hashes {
		if _, known := w.targets[h]; !known {
			w.targets[h] = i
		}
	}
}

// holdsUp reports whether an entry with this set must wait, too, and for whom.
func (w *waiting) holdsUp(set queue.TargetSet) (by int, held bool) {
	if !w.anybody || w.everything || set.All {
		return w.one, w.anybody
	}
	for _, h := range set.Hashes {
		if by, held = w.targets[h]; held {
			return by, true
		}
	}
	return 0, false
}

// positions is a heap of them.
type positions struct{ *sort.IntSlice }

func (p positions) Push(x any) { *p.IntSlice = append(*p.IntSlice, x.(int)) }

func (p positions) Pop() any {
	list := *p.IntSlice
	last := list[len(list)-1]
	*p.IntSlice = list[:len(list)-1]
	return last
}
