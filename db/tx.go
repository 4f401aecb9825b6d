package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"signalbox/queue"
)

// maxTries is how often a transaction is tried that others get in the way of.
const maxTries = 6

// readWrite is one statement after the other, each seeing what was committed
// before it; rows are locked where that matters.
var readWrite = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// readOnly is one moment for all statements.
var readOnly = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}

// transact runs f in a transaction and commits it. After a deadlock or a
// serialization failure it starts over: f may run more than once and must not
// keep anything from a run that failed. A panic in f rolls back.
func (db *DB) transact(ctx context.Context, opts *sql.TxOptions, f func(tx *sqlx.Tx) error) error {
	for try := 1; ; try++ {
		err := db.once(ctx, opts, f)
		if err == nil || try == maxTries || !mayRepeat(err) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << try))
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func (db *DB) once(ctx context.Context, opts *sql.TxOptions, f func(tx *sqlx.Tx) error) error {
	tx, err := db.sql.BeginTxx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	defer db.uncommitted.take(tx)
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	db.announce(db.uncommitted.take(tx))
	return nil
}

// mayRepeat reports whether a transaction failed only because of others.
func mayRepeat(err error) bool {
	return pq.As(err, pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected) != nil
}

// fail says what was being done. It marks what was not the statement's fault
// with queue.ErrUnavailable, and turns an absent row into queue.ErrNotFound.
func fail(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, queue.ErrNotFound)
	case unreachable(err):
		return fmt.Errorf("%s: %w: %w", doing, queue.ErrUnavailable, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// unreachable reports whether the database is away, starting, stopping or has
// no connection left: what a repetition in a while may cure. It errs towards
// yes only where the connection itself broke.
func unreachable(err error) bool {
	var refused *pq.Error
	if errors.As(err, &refused) {
		switch refused.Code.Class() {
		case "08", "53", "57", "58": // connection, resources, operator, system
			return refused.Code != pqerror.QueryCanceled
		}
		return false
	}
	var broken net.Error
	return errors.As(err, &broken) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
