package main

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"signalbox/db"
	"signalbox/flaky"
	"signalbox/flaky/report"
	"signalbox/queue"
)

// uploadReader reads test reports that were uploaded, one job each.
type uploadReader struct {
	river.WorkerDefaults[flaky.ReadUpload]
	store report.Store
}

// Timeout is how long the largest report may take on a busy machine. It is
// shorter than the time after which River frees the job of a dead copy.
func (*uploadReader) Timeout(*river.Job[flaky.ReadUpload]) time.Duration { return 2 * time.Minute }

// Work reads one report and enters it.
func (r *uploadReader) Work(ctx context.Context, job *river.Job[flaky.ReadUpload]) error {
	return report.Ingest(ctx, r.store, job.Args.Upload, func(err error) bool { return errors.Is(err, queue.ErrNotFound) })
}

// testKeeper does the chores of tests.
type testKeeper struct {
	river.WorkerDefaults[flaky.KeepTests]
	store *db.DB
	now   func() time.Time
}

// Timeout is shorter than the time after which River frees the job of a dead copy.
// What was not done within it is done by the next attempt.
func (*testKeeper) Timeout(*river.Job[flaky.KeepTests]) time.Duration { return 2 * time.Minute }

// Work does them, as of now and not as of the time when somebody asked.
func (k *testKeeper) Work(ctx context.Context, _ *river.Job[flaky.KeepTests]) error {
	return k.store.KeepTests(ctx, k.now())
}
