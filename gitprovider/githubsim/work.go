package githubsim

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// work starts every goroutine of a Server and waits for them. Work for later
// is kept in one heap with one timer.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // how much late work runs at a time

	mu      sync.Mutex
	later   laterHeap
	seq     int
	stopped bool
	onEnd   []func()
	wake    chan struct{}
}

func newWork() *work {
	w := &work{slots: make(chan struct{}, 4), wake: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.start(w.loop)
	return w
}

// start runs f in a goroutine of its own unless the server is closing.
func (w *work) start(f func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		f(w.ctx)
	}()
}

// onStop has f called when the server closes.
func (w *work) onStop(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onEnd = append(w.onEnd, f)
}

// stop ends everything and waits. Late work that is not due is dropped.
func (w *work) stop() {
	w.mu.Lock()
	first := !w.stopped
	w.stopped = true
	ends := w.onEnd
	w.mu.Unlock()
	if first {
		w.cancel()
		for _, f := range ends {
			f()
		}
	}
	w.wg.Wait()
}

// after has f called in d. Work that is due together runs in the order in
// which it was asked for, though not one after the other.
func (w *work) after(d time.Duration, f func(ctx context.Context)) {
	w.mu.Lock()
	w.seq++
	heap.Push(&w.later, laterItem{time.Now().Add(d), w.seq, f})
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *work) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, wait := w.due()
		for _, f := range due {
			select {
			case w.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			w.start(func(ctx context.Context) {
				defer func() { <-w.slots }()
				f(ctx)
			})
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// due takes what is due now and says how long it is until the next.
func (w *work) due() (fs []func(context.Context), wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for len(w.later) > 0 && !w.later[0].at.After(now) {
		fs = append(fs, heap.Pop(&w.later).(laterItem).f)
	}
	if len(w.later) == 0 {
		return fs, time.Hour
	}
	return fs, w.later[0].at.Sub(now)
}

type laterItem struct {
	at  time.Time
	seq int
	f   func(context.Context)
}

type laterHeap []laterItem

func (h laterHeap) Len() int { return len(h) }
func (h laterHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h laterHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *laterHeap) Push(x any)   { *h = append(*h, x.(laterItem)) }
func (h *laterHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
