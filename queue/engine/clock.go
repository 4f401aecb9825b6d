package engine

import (
	"math/rand/v2"
	"time"
)

// Clock is the engine's time. Everything that waits here waits on it, so that
// a test, or a script that says "advance 5m", moves the whole engine at once.
// A Clock is used by several goroutines.
type Clock interface {
	// Now is the present moment.
	Now() time.Time
	// After yields a value once d has passed on this clock; at once when d is
	// not positive. A channel that nobody reads any more costs nothing.
	After(d time.Duration) <-chan time.Time
}

// Wall is the clock on the wall.
type Wall struct{}

// Now is the present moment in UTC.
func (Wall) Now() time.Time { return time.Now().UTC() }

// After is time.After.
func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// backoff is how long to wait after the nth failure in a row (1 is the
// first): doubled each time up to most, and shortened by up to a half at
// random so that those who failed together do not come back together.
func backoff(first, most time.Duration, n int) time.Duration {
	wait := first
	for i := 1; i < n && wait < most; i++ {
		wait *= 2
	}
	wait = min(wait, most)
	return wait - rand.N(wait/2+1)
}
