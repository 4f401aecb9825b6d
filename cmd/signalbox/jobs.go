package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivertype"

	"signalbox/db"
	"signalbox/queue/engine"
)

// jobWorkers says how many jobs of each job queue one copy of the program
// works at once. Building is git at work, and landings are one per merge queue;
// the rest waits for the host most of the time.
var jobWorkers = map[string]int{
	db.BuildJobs: 4,
	db.LandJobs:  8,
	db.ReadJobs:  16,
	db.TellJobs:  8,
	db.TestJobs:  2,
}

// softStop is how long jobs may go on when we stop; then they are cut off and
// handed back. Everything together must end in 30 seconds.
const softStop = 12 * time.Second

// jobClient works jobs: it is River's client, and the one connection over
// which it hears of new jobs.
type jobClient struct {
	*river.Client[*sql.Tx]
	listen *pgxpool.Pool
	inHand *inHand
}

// newJobs makes the client that works the actions of an engine. Its name is
// new with each start, so that jobs of an earlier one are known as such.
func newJobs(d *database, e *engine.Engine, clock engine.Clock, log *slog.Logger) (*jobClient, error) {
	pool, err := listenPool(d.url)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	if err := e.AddWorkers(workers); err != nil {
		pool.Close()
		return nil, fmt.Errorf("register workers: %w", err)
	}
	if err := river.AddWorkerSafely(workers, &uploadReader{store: d.DB}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("register the reader of test reports: %w", err)
	}
	if err := river.AddWorkerSafely(workers, &testKeeper{store: d.DB, now: clock.Now}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("register the keeper of tests: %w", err)
	}
	queues := map[string]river.QueueConfig{}
	for _, name := range db.JobQueues {
		queues[name] = river.QueueConfig{MaxWorkers: max(1, jobWorkers[name])}
	}
	hand := &inHand{ended: map[int64]time.Time{}}
	client, err := river.NewClient(riverdatabasesql.NewWithPgxListener(d.SQL(), pool), &river.Config{
		ID: "signalbox-" + uuid.NewString(), Logger: quiet(log), Queues: queues, Workers: workers,
		Middleware: []rivertype.Middleware{hand.middleware()},
		// New jobs are heard of; polling is for a notification that was lost.
		FetchCooldown: 5 * time.Millisecond, FetchPollInterval: time.Second,
		RescueStuckJobsAfter: engine.RescueStuckAfter, SoftStopTimeout: softStop,
		CompletedJobRetentionPeriod: time.Hour, CancelledJobRetentionPeriod: time.Hour,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("make the job client: %w", err)
	}
	return &jobClient{client, pool, hand}, nil
}

// listenPool connects as lib/pq does from the same address, one connection at
// most.
func listenPool(dsn string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The cause may quote the password.
		return nil, fmt.Errorf("the database URL is one that only one of our two drivers understands: write it as postgres://user:password@host:5432/database")
	}
	cfg.MaxConns, cfg.MinConns = 1, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("listen for jobs: %w", err)
	}
	return pool, nil
}

// stop finishes or hands back the jobs in hand.
func (j *jobClient) stop(ctx context.Context) error {
	err := j.Client.Stop(ctx)
	j.listen.Close()
	if err != nil {
		return fmt.Errorf("stop jobs: %w", err)
	}
	return nil
}

// quiet is a logger for River: our workers log what they do themselves, so of
// River only warnings are news.
func quiet(log *slog.Logger) *slog.Logger {
	return slog.New(quieter{log.With("part", "jobs").Handler()})
}

// quieter drops what is below a warning, and the line by which River repeats
// an error that its worker has logged.
type quieter struct{ slog.Handler }

// Enabled lets warnings through.
func (q quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// Handle drops what our own workers have said already.
func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "Job errored") {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs keeps it quiet.
func (q quieter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(attrs)}
}

// WithGroup keeps it quiet.
func (q quieter) WithGroup(name string) slog.Handler { return quieter{q.Handler.WithGroup(name)} }
