package db

import (
	"testing"

	"signalbox/queue"
)

// A wish leaves memory when its queue is not to be had, and not when others
// have their turn first.
func TestWhenAWishIsTakenBack(t *testing.T) {
	t.Parallel()
	const q = queue.ID(1)
	ws, w := newWishes(), &wish{}
	ws.look()
	stays := func(when string) {
		t.Helper()
		if ws.withdraw(q, w, false) {
			t.Errorf("%s it is taken back", when)
		}
	}
	ws.add(q, w)
	stays("before anybody has looked for its queue")
	ws.passOver([]int64{int64(q)})
	if !ws.withdraw(q, w, false) {
		t.Error("it stays though its queue could not be claimed")
	}
	ws.passOver([]int64{int64(q)}) // for nobody any more
	ws.add(q, w)
	stays("when one before it was passed over")
	ws.passOver([]int64{int64(q)})
	if taken := ws.take(q); len(taken) != 1 || taken[0] != w {
		t.Errorf("a decision gets %v", taken)
	}
	stays("while a decision has it")
	ws.add(q, &wish{})
	ws.passOver([]int64{int64(q)}) // by a look from before it was claimed
	ws.release(q, []*wish{w})
	stays("after a decision that failed")
	if !ws.withdraw(q, w, true) {
		t.Error("it stays though it is in a hurry")
	}
}
