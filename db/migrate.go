package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"signalbox/migrations"
)

// Migrate brings the schema up to date: our migrations, then River's, under
// one lock, so that any number of programs may start at once. It needs two
// connections. A database that is up to date is left alone.
func Migrate(ctx context.Context, pool *sql.DB) (err error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fail("migrate", err)
	}
	defer conn.Close()
	if err := locker.SessionLock(ctx, conn); err != nil {
		return fail("migrate: wait for other programs that migrate", err)
	}
	defer func() {
		err = errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn))
	}()
	provider, err := newProvider(pool)
	if err != nil {
		return err
	}
	if err := youngEnough(ctx, pool, provider); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fail("migrate", err)
	}
	river, err := rivermigrate.New(riverdatabasesql.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("migrate the job tables: %w", err)
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fail("migrate the job tables", err)
	}
	_, err = pool.ExecContext(ctx, unneeded)
	return fail("migrate the job tables", err)
}

// unneeded removes what River's migrations make for looking jobs up by what is
// in them, which nobody here does. Each job that is added would pay for it, and
// now and then one for thousands: Postgres tidies such indexes up in the middle
// of an insert.
const unneeded = `DROP INDEX IF EXISTS river_job_args_index, river_job_metadata_index`

// newProvider runs our own migrations. It takes no lock: Migrate holds one for
// River's too.
func newProvider(pool *sql.DB) (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations.FS)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

// ErrTooOld: the database has migrations without which a program must not run
// on it, and this one does not know them.
var ErrTooOld = errors.New("this program is too old for its database")

// youngEnough compares what the schema needs with what this program knows. A
// schema that does not say what it needs is older than we.
func youngEnough(ctx context.Context, pool *sql.DB, provider *goose.Provider) error {
	sources := provider.ListSources()
	known := sources[len(sources)-1].Version
	var says bool
	var needed int64
	err := pool.QueryRowContext(ctx, `SELECT to_regclass('schema_needs') IS NOT NULL`).Scan(&says)
	if err == nil && says {
		err = pool.QueryRowContext(ctx, `SELECT version FROM schema_needs`).Scan(&needed)
	}
	if err != nil {
		return fail("read what the schema needs", err)
	}
	if needed > known {
		return fmt.Errorf("%w: it knows migration %d, and the database needs a program that knows %d: start a newer Signalbox, or restore a backup from before the upgrade", ErrTooOld, known, needed)
	}
	return nil
}

// Migrate brings this database's schema up to date.
func (db *DB) Migrate(ctx context.Context) error { return Migrate(ctx, db.sql.DB) }

// Ready reports, by an error that says what is wrong, whether the database
// answers and has every migration that this program needs.
func (db *DB) Ready(ctx context.Context) error {
	provider, err := newProvider(db.sql.DB)
	if err != nil {
		return err
	}
	if err := youngEnough(ctx, db.sql.DB, provider); err != nil {
		return err
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fail("read the schema's version", err)
	}
	if current < target {
		return fmt.Errorf("the database's schema is at version %d and this program needs %d: run signalbox migrate", current, target)
	}
	return nil
}
