package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// However many large bodies come at once, so many bytes are in hand at most;
// small ones pass; who waits too long is told to come again.
func TestLargeBodiesHaveTurns(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	in, most := int64(0), int64(0)
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	b := newBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		in += r.ContentLength
		most = max(most, in)
		mu.Unlock()
		entered <- struct{}{}
		<-leave
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		in -= r.ContentLength
		mu.Unlock()
	}))
	b.wait = time.Minute
	hasty := &bodies{room: b.room, next: b.next}
	send := func(to *bodies, size int64) int {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
		r.ContentLength = size
		w := httptest.NewRecorder()
		to.ServeHTTP(w, r)
		return w.Code
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if code := send(b, 20<<20); code != http.StatusOK {
				t.Errorf("a large body: status %d", code)
			}
		})
	}
	for range 3 {
		<-entered
	}
	if b.room.TryAcquire(5 << 20) {
		t.Error("a fourth body of 20 MiB would find room")
	}
	all.Go(func() {
		if code := send(b, 1000); code != http.StatusOK {
			t.Errorf("a small body: status %d", code)
		}
	})
	<-entered // without a turn
	for _, size := range []int64{20 << 20, -1, 1 << 40} {
		if code := send(hasty, size); code != http.StatusServiceUnavailable {
			t.Errorf("with no room and no patience, %d bytes: status %d", size, code)
		}
	}
	close(leave)
	all.Wait()
	if most > bodiesAtOnce+1000 {
		t.Errorf("%d bytes were in hand at once, more than %d", most, bodiesAtOnce)
	}
	if !b.room.TryAcquire(bodiesAtOnce) {
		t.Error("somebody keeps room")
	}
}
