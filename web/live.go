package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"signalbox/queue"
)

// The limits of streams.
const (
	// streamsAtMost bounds the open pages of one copy of the program. Who
	// comes later gets no stream, and the page asks now and then instead.
	streamsAtMost = 2000
	// newsEvery is how often readers are told of changes at most.
	newsEvery = 250 * time.Millisecond
	// heartbeat keeps proxies from closing a silent stream, and finds out
	// that a reader is gone.
	heartbeat = 25 * time.Second
)

// errTooMany is what a reader gets when all streams are taken.
var errTooMany = errors.New("too many open pages")

// live tells open pages that their queue has changed. It looks once for all of
// them: however many pages are open, a change costs one small read.
type live struct {
	store Store
	log   *slog.Logger

	mu     sync.Mutex
	open   map[*stream]struct{}
	ended  bool // the program stops: nobody is let in
	ending chan struct{}
}

// stream is one open page: of a queue, or of all with queue 0.
type stream struct {
	queue queue.ID
	news  chan int64 // has room for the newest; who sends holds the lock
}

func newLive(store Store, log *slog.Logger) *live {
	return &live{store: store, log: log, open: map[*stream]struct{}{}, ending: make(chan struct{})}
}

// turnOf is the version of what is shown of a queue, or of all with queue 0.
func turnOf(turns map[queue.ID]int64, q queue.ID) int64 {
	if q != 0 {
		return turns[q]
	}
	var newest int64
	for _, t := range turns {
		newest = max(newest, t)
	}
	return newest + int64(len(turns)) // queues come and go
}

// join opens a stream. The caller leaves.
func (l *live) join(q queue.ID) (*stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.open) >= streamsAtMost {
		return nil, errTooMany
	}
	s := &stream{queue: q, news: make(chan int64, 1)}
	l.open[s] = struct{}{}
	return s, nil
}

func (l *live) leave(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// end closes all streams, for a program that stops.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.ending)
	}
}

// run tells streams of changes until ctx ends. The storage says when to look.
func (l *live) run(ctx context.Context) error {
	wake, err := l.store.Wakeups(ctx)
	if err != nil {
		return fmt.Errorf("watch for changes: %w", err)
	}
	// Nothing heard may also mean that nobody could tell.
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-wake:
			if !ok {
				return nil
			}
		case <-look.C:
		}
		if err := l.tell(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("open pages are told later of what has changed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(newsEvery): // the next ones together
		}
	}
}

// tell reads what has changed and tells those who look at it.
func (l *live) tell(ctx context.Context) error {
	l.mu.Lock()
	nobody := len(l.open) == 0
	l.mu.Unlock()
	if nobody {
		return nil
	}
	turns, err := l.store.Turns(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.open {
		turn := turnOf(turns, s.queue)
		select {
		case <-s.news: // older than this one
		default:
		}
		s.news <- turn
	}
	return nil
}

// greet tells a stream what was there when it came, unless it has been told of
// something since. Like tell it holds the lock: two who find room at once would
// both send, and one of them wait, with the lock, for a reader who may have gone.
func (l *live) greet(s *stream, turn int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case s.news <- turn:
	default: // there is news already
	}
}

// watch is the stream of a queue's pages.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request) {
	q, err := h.named(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.stream(w, r, q.ID)
}

// watchAll is the stream of the page of all queues.
func (h *Handler) watchAll(w http.ResponseWriter, r *http.Request) { h.stream(w, r, 0) }

// stream sends an event whenever there is something newer than what the page
// has seen: the number after "seen" in its address.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, q queue.ID) {
	s, err := h.live.join(q)
	if err != nil {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "Too many pages are open. This one asks for news now and then.", http.StatusServiceUnavailable)
		return
	}
	defer h.live.leave(s)
	turns, err := h.store.Turns(r.Context())
	if err != nil {
		h.log.Warn("a page gets no news", "error", err)
		http.Error(w, "There is no news now.", http.StatusServiceUnavailable)
		return
	}
	seen, _ := strconv.ParseInt(r.URL.Query().Get("seen"), 10, 64) // 0 has seen nothing
	out := &newsWriter{w: w, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // the request has been read; a reader may stay for hours
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx passes events on at once
	if out.write("retry: 2000\n\n") != nil {
		return
	}
	h.live.greet(s, turnOf(turns, q))
	h.follow(r.Context(), s, out, seen)
}

// follow passes on news until the reader or the program goes.
func (h *Handler) follow(ctx context.Context, s *stream, out *newsWriter, seen int64) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-h.live.ending:
			return
		case turn := <-s.news:
			if turn != seen {
				seen = turn
				err = out.write(fmt.Sprintf("event: changed\ndata: %d\n\n", turn))
			}
		case <-beat.C:
			err = out.write(": still here\n\n")
		}
		if err != nil {
			return
		}
	}
}

// newsWriter writes events to a reader who may have gone without a word.
type newsWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (n *newsWriter) write(text string) error {
	// Servers that know no deadlines are those of tests.
	_ = n.control.SetWriteDeadline(time.Now().Add(heartbeat))
	if _, err := n.w.Write([]byte(text)); err != nil {
		return err
	}
	return n.control.Flush()
}
