package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/jmoiron/sqlx/reflectx"
	"github.com/klauspost/compress/zstd"
	"github.com/lib/pq"

	"signalbox/queue"
)

// Config says how to reach Postgres.
type Config struct {
	// DSN is a URL or a key=value string, as libpq takes them. Required.
	DSN string
	// Now is the clock; nil = time.Now. It stamps what comes without a time
	// of its own, such as the arrival of a fact.
	Now func() time.Time
	// Log receives what an operator should know; nil = nothing is logged.
	Log *slog.Logger
	// MaxAttempts says how often an action of a kind is tried; nil = four
	// times. Whoever works the jobs knows.
	MaxAttempts func(kind string) int
	// MaxOpen limits the connections, MaxIdle those kept when idle; 0 = 20.
	// One more connection listens for notifications.
	MaxOpen, MaxIdle int
	// Calm is for how long a telling of what passes waits (queue.SyncPR), so that
	// what follows at once is told with it; 0 = it does not wait.
	Calm time.Duration
	// Gather is for how long, at most, reports of CI gather for a queue while
	// many come that change nothing: see gatherEach; 0 = not at all.
	Gather time.Duration
}

// DB is the storage of one program. Its methods may be used from any
// goroutine. What they return belongs to the caller. Errors of a database that
// cannot be reached wrap queue.ErrUnavailable.
type DB struct {
	sql     *sqlx.DB
	dsn     string
	now     func() time.Time
	log     *slog.Logger
	jobs    *jobs
	name    string // of this program among those that share the database
	signals *signals
	answers *answers
	wishes  *wishes
	dropped atomic.Int64
	zip     *zstd.Encoder
	unzip   *zstd.Decoder
	sets    setCache
	inbound inbound
	wishing wishing
	turns   turns
	tokens  *together[[32]byte, tokenRow]
	queues  *together[queueName, queue.Queue]
	listing *together[queue.ID, []queue.Entry]
	// What was found lately: see Token and RecentQueue.
	validTokens  lately[[32]byte, tokenRow]
	recentQueues lately[queueName, queue.Queue]
	lists        listCache
	numbers      testNumbers
	reports      *reports

	gathering   gathering
	uncommitted uncommitted
	unspread    unspread

	listen, spreading sync.Once
	ctx               context.Context // ends with Close; the listener's
	cancel            context.CancelFunc
	wg                sync.WaitGroup // goroutines of ours
}

// Open connects. It fails when Postgres cannot be reached or the DSN makes no
// sense. It does not migrate: see Migrate.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	connector, err := pq.NewConnector(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("open database: the DSN cannot be used: %w", err)
	}
	known := &reports{}
	pool := sqlx.NewDb(sql.OpenDB(preparing{connector, known.forget}), "postgres")
	// Rows are written as JSON and read as columns, under the same names.
	pool.Mapper = reflectx.NewMapperFunc("json", strings.ToLower)
	open := cmp.Or(cfg.MaxOpen, 20)
	pool.SetMaxOpenConns(open)
	pool.SetMaxIdleConns(cmp.Or(cfg.MaxIdle, open))
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	db := &DB{
		sql: pool, dsn: cfg.DSN, log: log, now: cfg.Now, gathering: newGathering(cfg.Gather), name: uuid.NewString(),
		signals: newSignals(), unspread: newUnspread(), answers: newAnswers(), wishes: newWishes(), inbound: newInbound(), wishing: newWishing(), turns: turns{pool: pool.DB, ours: map[subject]chan struct{}{}},
		tokens: newTogether[[32]byte, tokenRow](), queues: newTogether[queueName, queue.Queue](),
		listing: newTogether[queue.ID, []queue.Entry](), reports: known,
	}
	if db.now == nil {
		db.now = time.Now
	}
	db.ctx, db.cancel = context.WithCancel(context.Background())
	if db.zip, db.unzip, err = newZip(); err == nil {
		db.jobs, err = newJobs(pool.DB, cfg, log)
	}
	if err == nil {
		err = pool.PingContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(fail("open database", err), db.Close())
	}
	return db, nil
}

// Close ends the listener and closes all connections.
func (db *DB) Close() error {
	db.cancel()
	db.wg.Wait()
	if err := db.sql.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// SQL is the pool, for River's client and for nothing else that writes.
func (db *DB) SQL() *sql.DB { return db.sql.DB }

// Dropped counts the facts that could not be decoded and were left out of
// their decisions, since Open.
func (db *DB) Dropped() int64 { return db.dropped.Load() }

// clock is now, to the microsecond that Postgres keeps.
func (db *DB) clock() time.Time { return db.now().UTC().Truncate(time.Microsecond) }
