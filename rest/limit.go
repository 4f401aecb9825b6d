package rest

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What a caller without a token may do at an address: each request costs us
// questions to the host, of which we have only so many.
const (
	forksPerSecond = 1
	forksBurst     = 30
)

// limits holds each caller to its rate. What a caller did not use for so long
// that it may do everything again is forgotten.
type limits struct {
	perSecond rate.Limit
	burst     int
	forget    time.Duration

	mu    sync.Mutex // held for a map access only
	of    map[caller]*allowance
	swept time.Time
}

// caller is whose requests are counted together: those of a token, or those
// without one that come from the same address.
type caller struct {
	token   int64
	address string
}

type allowance struct {
	*rate.Limiter
	used time.Time
}

// newLimits allows each caller perSecond requests a second, burst at once.
// perSecond < 0 sets no limit.
func newLimits(perSecond float64, burst int) *limits {
	l := &limits{perSecond: rate.Limit(perSecond), burst: burst, forget: time.Minute, of: map[caller]*allowance{}}
	if perSecond < 0 {
		l.perSecond = rate.Inf
	} else {
		l.forget += time.Duration(float64(burst) / perSecond * float64(time.Second))
	}
	return l
}

// take is 0 when a request of the caller may go on now, else how long until
// one may.
func (l *limits) take(who caller, now time.Time) time.Duration {
	reservation := l.find(who, now).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now) // a refused request costs nothing
	}
	return wait
}

func (l *limits) find(who caller, now time.Time) *allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) > time.Minute {
		for id, a := range l.of {
			if now.Sub(a.used) > l.forget {
				delete(l.of, id)
			}
		}
		l.swept = now
	}
	a := l.of[who]
	if a == nil {
		a = &allowance{Limiter: rate.NewLimiter(l.perSecond, l.burst)}
		l.of[who] = a
	}
	a.used = now
	return a
}
