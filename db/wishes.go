package db

import (
	"context"
	"slices"
	"sync"
	"time"

	"signalbox/queue"
)

const (
	// wishPatience is how long a wish waits in memory when its queue is not to be
	// had, because another program decides on it. While this program has the queue
	// in hand, or has others to decide on first, it waits up to wishLimit.
	wishPatience = 50 * time.Millisecond
	wishLimit    = time.Second
	// decidesWithin is how often a program that decides looks for what is due,
	// with room to spare: one that has not looked for so long does not decide.
	decidesWithin = 15 * time.Second
)

// wishes are those of this program that wait in memory for a decision.
type wishes struct {
	mu      sync.Mutex
	waiting map[queue.ID][]*wish
	inHand  map[queue.ID]bool // queues that this program is deciding on
	// passed are queues that could not be claimed, with nothing else to decide on.
	passed map[queue.ID]bool
	looked time.Time // when it last looked for one that is due

	patience time.Duration // wishPatience
}

func newWishes() *wishes {
	return &wishes{waiting: map[queue.ID][]*wish{}, inHand: map[queue.ID]bool{}, passed: map[queue.ID]bool{}, patience: wishPatience}
}

// wishHere has a wish decided on by this program, if that is done soon.
func (db *DB) wishHere(ctx context.Context, q queue.ID, w *wish) (a wishAnswer, answered bool, err error) {
	here, inHand := db.wishes.add(q, w)
	if !here {
		return wishAnswer{}, false, nil
	}
	if !inHand { // else whoever has it in hand looks again
		db.signals.raise(queue.FactsWait)
	}
	began := time.Now()
	a, answered, err = db.await(ctx, w, db.wishes.patience, func() (bool, error) {
		return db.wishes.withdraw(q, w, time.Since(began) > max(wishLimit, db.wishes.patience)), nil
	})
	if err != nil {
		db.wishes.leave(q, w)
	}
	return a, answered, err
}

// add has a wish wait, unless this program does not decide. inHand says that it
// is deciding on that very queue.
func (ws *wishes) add(q queue.ID, w *wish) (here, inHand bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if time.Since(ws.looked) > decidesWithin {
		return false, false
	}
	ws.waiting[q] = append(ws.waiting[q], w)
	return true, ws.inHand[q]
}

// withdraw takes a wish back. It is false when a decision has it, or when one is
// about to, and there is no hurry.
func (ws *wishes) withdraw(q queue.ID, w *wish, hurry bool) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.passed[q] && !hurry {
		return false
	}
	return ws.remove(q, w)
}

// leave is for a sender who waits no longer: the wish is granted only if a
// decision has it that is saved.
func (ws *wishes) leave(q queue.ID, w *wish) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.remove(q, w) {
		w.left = true
	}
}

// remove takes a wish from those that wait; false if it is not among them.
func (ws *wishes) remove(q queue.ID, w *wish) bool {
	i := slices.Index(ws.waiting[q], w)
	if i < 0 {
		return false
	}
	ws.keep(q, slices.Delete(ws.waiting[q], i, i+1))
	return true
}

// keep makes a list that of the wishes which wait for a queue.
func (ws *wishes) keep(q queue.ID, list []*wish) {
	if len(list) == 0 {
		delete(ws.waiting, q)
		delete(ws.passed, q)
		return
	}
	ws.waiting[q] = list
}

// passOver is for a claim of one of these queues that found none.
func (ws *wishes) passOver(queues []int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, q := range queues {
		if len(ws.waiting[queue.ID(q)]) > 0 && !ws.inHand[queue.ID(q)] { // else it was claimed meanwhile
			ws.passed[queue.ID(q)] = true
		}
	}
}

// look lists the queues for which wishes wait.
func (ws *wishes) look() []int64 {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.looked = time.Now()
	ids := make([]int64, 0, len(ws.waiting))
	for q := range ws.waiting {
		if !ws.inHand[q] {
			ids = append(ids, int64(q))
		}
	}
	return ids
}

// take gives a decision on a queue the wishes that wait for it. release follows.
func (ws *wishes) take(q queue.ID) []*wish {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.inHand[q] = true
	delete(ws.passed, q)
	list := ws.waiting[q]
	taken := list[:min(len(list), foldAtOnce)]
	ws.keep(q, slices.Clone(list[len(taken):]))
	return taken
}

// release ends the hold on a queue. Wishes that were not answered wait again.
// It reports whether there are any.
func (ws *wishes) release(q queue.ID, unanswered []*wish) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.inHand, q)
	unanswered = slices.DeleteFunc(unanswered, func(w *wish) bool { return w.left })
	ws.keep(q, slices.Concat(unanswered, ws.waiting[q]))
	return len(unanswered) > 0
}
