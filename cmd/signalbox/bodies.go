package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
)

// A body takes a multiple of its size in memory while it is read and understood,
// and of a webhook nobody knows who sent it before all of it is there. So large
// bodies have turns: all that are in hand together have at most bodiesAtOnce
// bytes. Small ones, which nearly all are, do not wait.
const (
	bodiesAtOnce = 64 << 20
	smallBody    = 256 << 10
	// unknownBody is what a body counts as that does not say its length: as much
	// as any may have.
	unknownBody = 25 << 20
	bodyWait    = 20 * time.Second // for a turn
)

// bodies gives turns to large bodies.
type bodies struct {
	room *semaphore.Weighted
	wait time.Duration
	next http.Handler
}

func newBodies(next http.Handler) *bodies {
	return &bodies{room: semaphore.NewWeighted(bodiesAtOnce), wait: bodyWait, next: next}
}

// ServeHTTP passes a request on when there is room for its body. Who waits too
// long is told to come again.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	if size < 0 || size > unknownBody { // one that is larger is refused before it is read
		size = unknownBody
	}
	if size <= smallBody {
		b.next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	err := b.room.Acquire(ctx, size)
	cancel()
	if err != nil {
		if errors.Is(r.Context().Err(), context.Canceled) {
			return // nobody waits for an answer
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(bodyWait/time.Second)))
		w.Header().Set("Connection", "close") // its body is not read
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"code":"OVERLOADED","message":"Too many large requests came at the same time. Send this one again in a while."}}` + "\n"))
		return
	}
	defer b.room.Release(size)
	b.next.ServeHTTP(w, r)
}
