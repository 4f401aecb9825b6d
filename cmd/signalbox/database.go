package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/db/pgserver"
	"signalbox/queue/engine"
)

// database is an open database, and the private Postgres that it is in, if
// we started one.
type database struct {
	*db.DB
	url     string
	private *pgserver.Server // nil when DATABASE_URL names one
	note    string           // file that tells other commands where the private one is
}

// connectTimeout bounds the first connection to the database.
const connectTimeout = 15 * time.Second

// openDatabase connects to the database that the settings name, or starts a
// private Postgres in the data directory. The caller closes it. now is its
// clock; nil is the clock on the wall.
func openDatabase(ctx context.Context, cfg storageConfig, now func() time.Time, log *slog.Logger) (_ *database, err error) {
	d := &database{url: cfg.databaseURL}
	if d.url == "" {
		if err := d.start(ctx, cfg.dataDir, log); err != nil {
			return nil, err
		}
	}
	connect, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	d.DB, err = db.Open(connect, db.Config{DSN: d.url, Now: now, Log: log, MaxOpen: cfg.connections, MaxAttempts: engine.MaxAttempts, Calm: cfg.calm, Gather: cfg.gather})
	if err != nil {
		err = fmt.Errorf("the database cannot be used: %w. Check that Postgres runs and that DATABASE_URL is right", err)
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start runs a private Postgres, or finds the one that a running server has.
func (d *database) start(ctx context.Context, dataDir string, log *slog.Logger) error {
	dir, err := filepath.Abs(filepath.Join(dataDir, "postgres"))
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	note := filepath.Join(filepath.Dir(dir), "database-url")
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, Log: log})
	switch {
	case errors.Is(err, pgserver.ErrRunning):
		if d.url, err = running(note); err == nil {
			return nil
		}
		return fmt.Errorf("another program uses the private Postgres in %s and does not say how to reach it: stop it first, or set DATABASE_URL", dir)
	case err != nil:
		return fmt.Errorf("start a private Postgres, because DATABASE_URL is not set: %w", err)
	}
	d.private, d.url, d.note = server, server.URL(), note
	log.Info("DATABASE_URL is not set: a private Postgres keeps everything under the data directory", "dir", dir, "version", server.Version())
	if err := os.WriteFile(note, []byte(d.url+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("note where the private Postgres is: %w", err), d.Close())
	}
	return nil
}

// running reads where the private Postgres of a running server is.
func running(note string) (string, error) {
	text, err := os.ReadFile(note)
	return strings.TrimSpace(string(text)), err
}

// Close disconnects, and stops what was started.
func (d *database) Close() error {
	var problems []error
	if d.DB != nil {
		problems = append(problems, d.DB.Close())
	}
	if d.private != nil {
		if err := os.Remove(d.note); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
		if err := d.private.Stop(); err != nil {
			problems = append(problems, fmt.Errorf("stop the private Postgres: %w", err))
		}
	}
	return errors.Join(problems...)
}

// died yields when the private Postgres has ended by itself; never for one
// that is not ours.
func (d *database) died() <-chan struct{} {
	if d.private == nil {
		return nil
	}
	return d.private.Done()
}
