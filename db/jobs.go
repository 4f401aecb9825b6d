package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"signalbox/queue"
)

// The job queues, by what their work costs. A slow one never holds up another.
const (
	BuildJobs = "build" // git work, seconds
	LandJobs  = "land"  // few, and everybody waits for them
	ReadJobs  = "read"  // calls that read from the host
	TellJobs  = "tell"  // what people see; may be late
)

// JobQueues lists the job queues, for whoever works them.
var JobQueues = []string{BuildJobs, LandJobs, ReadJobs, TellJobs}

// jobOpts says for each kind of action where it is worked and how often it is
// tried. All attempts together end before the state's own deadline, after
// which the engine asks again: so a few quick ones, then the fact that it
// failed. Telling and answering have no such deadline and are tried longer.
func jobOpts(kind string) *river.InsertOpts {
	switch kind {
	case queue.BuildRuns{}.Kind():
		return &river.InsertOpts{Queue: BuildJobs, MaxAttempts: 3}
	case queue.StopRun{}.Kind():
		return &river.InsertOpts{Queue: BuildJobs, MaxAttempts: 10, Priority: 3}
	case queue.Land{}.Kind():
		return &river.InsertOpts{Queue: LandJobs, MaxAttempts: 3}
	case queue.SyncPR{}.Kind():
		return &river.InsertOpts{Queue: TellJobs, MaxAttempts: 10, Priority: 2}
	case queue.AnswerCommand{}.Kind():
		return &river.InsertOpts{Queue: TellJobs, MaxAttempts: 10}
	case queue.Resync{}.Kind():
		return &river.InsertOpts{Queue: ReadJobs, MaxAttempts: 3, Priority: 3}
	default:
		return &river.InsertOpts{Queue: ReadJobs, MaxAttempts: 3}
	}
}

// jobs puts actions into River's table. It works none.
type jobs struct {
	client *river.Client[*sql.Tx]
}

func newJobs(pool *sql.DB, log *slog.Logger) (*jobs, error) {
	client, err := river.NewClient(riverdatabasesql.New(pool), &river.Config{
		Logger: log,
		// Workers hear of an insert at once. River leaves out notifications
		// that follow one another within this time.
		FetchCooldown:     river.FetchCooldownMin,
		FetchPollInterval: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("make the job client: %w", err)
	}
	return &jobs{client}, nil
}

// insert adds a job for each action to the transaction.
func (j *jobs) insert(ctx context.Context, tx *sqlx.Tx, actions []queue.Action) error {
	if len(actions) == 0 {
		return nil
	}
	params := make([]river.InsertManyParams, len(actions))
	for i, a := range actions {
		text, err := encode(a)
		if err != nil {
			return fmt.Errorf("insert job %s: %w", a.Kind(), err)
		}
		params[i] = river.InsertManyParams{Args: jobArgs{a.Kind(), json.RawMessage(text)}, InsertOpts: jobOpts(a.Kind())}
	}
	if _, err := j.client.InsertManyFastTx(ctx, tx.Tx, params); err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	return nil
}

// jobArgs are an action's arguments, encoded already.
type jobArgs struct {
	kind string
	json.RawMessage
}

// Kind is the kind of the action.
func (a jobArgs) Kind() string { return a.kind }
