package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// inHand knows the jobs that this process works, so that those can be told
// apart that only the database thinks it does.
type inHand struct {
	mu    sync.Mutex // guards ended
	ended map[int64]time.Time
}

// keepEnded is how long a job counts as in hand after its work, while River
// writes down how it ended.
const keepEnded = 30 * time.Second

// middleware notes each job while it is worked.
func (h *inHand) middleware() river.WorkerMiddlewareFunc {
	return func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		h.note(job.ID, time.Time{})
		defer func() { h.note(job.ID, time.Now()) }()
		return work(ctx)
	}
}

// note keeps when a job ended; zero while it has not.
func (h *inHand) note(id int64, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[id] = ended
}

// jobs lists what is in hand, and forgets what ended long ago.
func (h *inHand) jobs(now time.Time) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.ended, func(_ int64, ended time.Time) bool {
		return !ended.IsZero() && now.Sub(ended) > keepEnded
	})
	return slices.Collect(maps.Keys(h.ended))
}
