package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"signalbox/flaky"
	"signalbox/queue"
)

// The job queues, by what their work costs. A slow one never holds up another.
const (
	BuildJobs = "build" // git work, seconds
	LandJobs  = "land"  // few, and everybody waits for them
	ReadJobs  = "read"  // calls that read from the host
	TellJobs  = "tell"  // what people see; may be late
	TestJobs  = "tests" // reading test reports: the processor's work
)

// JobQueues lists the job queues, for whoever works them.
var JobQueues = []string{BuildJobs, LandJobs, ReadJobs, TellJobs, TestJobs}

// uploadAttempts is how often the reading of a test report is tried. Reading
// itself never fails; the database may be away for a while.
const uploadAttempts = 12

// opts says for each kind of action where it is worked, and that what
// people see and what nobody waits for goes last.
func (j *jobs) opts(kind string) *river.InsertOpts {
	opts := &river.InsertOpts{Queue: ReadJobs, MaxAttempts: j.attempts(kind)}
	switch kind {
	case queue.BuildRuns{}.Kind():
		opts.Queue = BuildJobs
	case queue.StopRun{}.Kind():
		opts.Queue, opts.Priority = BuildJobs, 3
	case queue.Land{}.Kind():
		opts.Queue = LandJobs
	case queue.AnswerCommand{}.Kind():
		opts.Queue = TellJobs
	case queue.SyncPR{}.Kind():
		opts.Queue, opts.Priority = TellJobs, 2
	case queue.Resync{}.Kind():
		opts.Priority = 3
	case flaky.ReadUpload{}.Kind():
		opts.Queue, opts.MaxAttempts = TestJobs, uploadAttempts
	case flaky.KeepTests{}.Kind():
		opts.Queue, opts.Priority, opts.UniqueOpts = TestJobs, 3, river.UniqueOpts{ByArgs: true}
	}
	return opts
}

// jobs puts actions into River's table. It works none.
type jobs struct {
	client   *river.Client[*sql.Tx]
	attempts func(kind string) int
	calm     time.Duration // Config.Calm
}

func newJobs(pool *sql.DB, cfg Config, log *slog.Logger) (*jobs, error) {
	attempts := cfg.MaxAttempts
	if attempts == nil {
		attempts = func(string) int { return 4 }
	}
	client, err := river.NewClient(silent{riverdatabasesql.New(pool)}, &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make the job client: %w", err)
	}
	return &jobs{client, attempts, cfg.Calm}, nil
}

// silent keeps River from notifying in our transactions: see DB.notify. Workers
// are told after the commit.
type silent struct{ *riverdatabasesql.Driver }

// SupportsListenNotify is what River asks before it notifies.
func (silent) SupportsListenNotify() bool { return false }

// insertJobs adds a job for each action to the transaction, as jobs.insert does,
// and has the workers told of them.
func (db *DB) insertJobs(ctx context.Context, tx *sqlx.Tx, actions []queue.Action, untold ...queue.EntryID) error {
	queues, err := db.jobs.insert(ctx, tx, actions, untold...)
	if err == nil {
		db.uncommitted.add(tx, tidings{jobs: queues})
	}
	return err
}

// insert adds a job for each action to the transaction, but none to tell of an
// entry when one that nobody has started will tell it anyway. Of those that
// are untold there can be no such job. What is passing is told after a calm, so
// that what follows at once is told with it. It returns the job queues that have
// more to work now.
func (j *jobs) insert(ctx context.Context, tx *sqlx.Tx, actions []queue.Action, untold ...queue.EntryID) (queues []string, err error) {
	actions, err = withoutTold(ctx, tx, actions, untold)
	if err != nil || len(actions) == 0 {
		return nil, err
	}
	params := make([]river.InsertManyParams, len(actions))
	for i, a := range actions {
		text, err := encode(a)
		if err != nil {
			return nil, fmt.Errorf("insert job %s: %w", a.Kind(), err)
		}
		opts := j.opts(a.Kind())
		if passing(a) && j.calm > 0 {
			opts.ScheduledAt = time.Now().Add(j.calm) // River lives by the clock on the wall
		} else if !slices.Contains(queues, opts.Queue) {
			queues = append(queues, opts.Queue)
		}
		params[i] = river.InsertManyParams{Args: jobArgs{a.Kind(), json.RawMessage(text)}, InsertOpts: opts}
	}
	if _, err := j.client.InsertManyFastTx(ctx, tx.Tx, params); err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	return queues, nil
}

// insertJobOnce adds a job for an action to the transaction, unless there is or
// was one with the same arguments.
func (db *DB) insertJobOnce(ctx context.Context, tx *sqlx.Tx, a queue.Action) error {
	text, err := encode(a)
	if err != nil {
		return fmt.Errorf("insert job %s: %w", a.Kind(), err)
	}
	opts := db.jobs.opts(a.Kind())
	if _, err := db.jobs.client.InsertTx(ctx, tx.Tx, jobArgs{a.Kind(), json.RawMessage(text)}, opts); err != nil {
		return fmt.Errorf("insert job %s: %w", a.Kind(), err)
	}
	db.uncommitted.add(tx, tidings{jobs: []string{opts.Queue}})
	return nil
}

// tellingsLooked bounds how many jobs that wait are looked through for one that
// makes a new one unnecessary. One that is not found is told twice, no more.
const tellingsLooked = 300

// withoutTold leaves out what a job that waits will tell: it tells what is true
// when it runs. So the more telling lags behind, the less there is to tell.
//
// A job that somebody starts now may read what was before our commit, and does
// not count. Therefore those that count are locked: nobody starts them before
// we have committed, because River skips jobs that are locked, as this skips
// jobs that River has locked.
func withoutTold(ctx context.Context, tx *sqlx.Tx, actions []queue.Action, untold []queue.EntryID) ([]queue.Action, error) {
	fresh := map[queue.EntryID]bool{}
	for _, id := range untold {
		fresh[id] = true
	}
	var entries []queue.EntryID
	for _, a := range actions {
		if a, ok := a.(queue.SyncPR); ok && !fresh[a.Entry] {
			entries = append(entries, a.Entry)
		}
	}
	if len(entries) == 0 {
		return actions, nil
	}
	var waiting []struct {
		Entry queue.EntryID
		Later bool
	}
	if err := tx.SelectContext(ctx, &waiting, `
		SELECT args->>'entry' AS entry, state = 'scheduled' AS later FROM river_job
		WHERE state IN ('available', 'scheduled') AND id = ANY(ARRAY(
			SELECT id FROM (
				(SELECT id, kind, args FROM river_job WHERE state = 'available' AND queue = $1
				ORDER BY priority DESC, scheduled_at DESC, id DESC LIMIT $2)
				UNION ALL
				(SELECT id, kind, args FROM river_job WHERE state = 'scheduled' AND queue = $1
				ORDER BY priority DESC, scheduled_at DESC, id DESC LIMIT $2)) newest
			WHERE kind = $3 AND args->>'entry' = ANY($4)))
		FOR UPDATE SKIP LOCKED`,
		TellJobs, tellingsLooked, queue.SyncPR{}.Kind(), pq.Array(texted(entries))); err != nil {
		return nil, fmt.Errorf("see what will be told anyway: %w", err)
	}
	now, later := map[queue.EntryID]bool{}, map[queue.EntryID]bool{}
	for _, w := range waiting {
		now[w.Entry] = now[w.Entry] || !w.Later
		later[w.Entry] = later[w.Entry] || w.Later
	}
	return slices.DeleteFunc(slices.Clone(actions), func(a queue.Action) bool {
		sync, ok := a.(queue.SyncPR)
		return ok && (now[sync.Entry] || sync.Passing && later[sync.Entry])
	}), nil
}

// passing reports whether an action tells of what passes.
func passing(a queue.Action) bool {
	sync, ok := a.(queue.SyncPR)
	return ok && sync.Passing
}

// jobArgs are an action's arguments, encoded already.
type jobArgs struct {
	kind string
	json.RawMessage
}

// Kind is the kind of the action.
func (a jobArgs) Kind() string { return a.kind }
