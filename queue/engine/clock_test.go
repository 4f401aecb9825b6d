package engine

import (
	"sync"
	"testing"
	"time"
)

// handClock is a clock that stands still until it is moved.
type handClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []alarm
}

type alarm struct {
	at   time.Time
	ring chan time.Time
}

func newHandClock() *handClock {
	return &handClock{now: time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := alarm{at: c.now.Add(d), ring: make(chan time.Time, 1)}
	if d <= 0 {
		a.ring <- c.now
	} else {
		c.waiting = append(c.waiting, a)
	}
	return a.ring
}

// advance moves the clock and rings what is due.
func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var later []alarm
	for _, a := range c.waiting {
		if a.at.After(c.now) {
			later = append(later, a)
		} else {
			a.ring <- c.now
		}
	}
	c.waiting = later
}

func TestBackoffDoublesUpToItsLimitAndIsNeverZero(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 10: 10 * time.Second, 1 << 30: 10 * time.Second} {
		for range 100 {
			got := backoff(time.Second, 10*time.Second, n)
			if got < most/2 || got > most {
				t.Errorf("backoff after %d failures = %v, want between %v and %v", n, got, most/2, most)
			}
		}
	}
}
