// Package dbtest gives each test a migrated Postgres database of its own.
//
// A test binary starts at most one Postgres, at the first need, or uses the
// one that DATABASE_URL names. One database is migrated, once, under a name
// made of the migrations' content; the tests' databases are copies of it. So
// tests run in parallel and see nothing of each other.
//
// A private Postgres ends with the test binary by itself. With
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
// it ends in an orderly way, and its files are removed at once instead of by
// the next start.
package dbtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"signalbox/db"
	"signalbox/db/pgserver"
	"signalbox/migrations"
)

// postgres is the one server of this test binary.
var postgres server

type server struct {
	mu      sync.Mutex
	private *pgserver.Server // nil with DATABASE_URL
	admin   *sql.DB          // nil until started
	base    string           // a DSN; its database is replaced
	model   string           // the migrated database
	err     error            // of the start: it is not tried again
	durable bool             // commits reach the disk
}

// Main runs a package's tests and stops Postgres after them. It does not
// return.
func Main(m *testing.M) {
	code := m.Run()
	if err := postgres.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Durable makes the Postgres of this test binary one whose commits reach the
// disk, as in production, for benchmarks that are about just that. It is called
// before the first database is made: run benchmarks with -run '^$'. One that
// DATABASE_URL names must be durable already.
func Durable(t testing.TB) {
	t.Helper()
	postgres.mu.Lock()
	if postgres.admin == nil {
		postgres.durable = true
	}
	postgres.mu.Unlock()
	admin, err := postgres.start()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	for _, setting := range durably {
		var value string
		if err := admin.QueryRow(`SELECT current_setting($1)`, setting).Scan(&value); err != nil || value != "on" {
			t.Fatalf("dbtest: %s is %q in this Postgres (%v), so that commits are not durable", setting, value, err)
		}
	}
}

// durably are the settings that make a commit durable, whatever happens.
var durably = []string{"fsync", "synchronous_commit", "full_page_writes"}

// settings are those of a private Postgres.
func (s *server) settings() map[string]string {
	if !s.durable {
		return nil
	}
	settings := map[string]string{"shared_buffers": "128MB", "wal_level": "replica"} // Postgres's own defaults
	for _, setting := range durably {
		settings[setting] = "on"
	}
	return settings
}

// New opens a migrated database of the test's own. The configuration, but for
// the DSN, may be changed by options. It is closed when the test ends.
func New(t testing.TB, options ...func(*db.Config)) *db.DB {
	t.Helper()
	return Open(t, DSN(t), options...)
}

// Open opens a database that DSN made, once more: as another program would.
func Open(t testing.TB, dsn string, options ...func(*db.Config)) *db.DB {
	t.Helper()
	cfg := db.Config{DSN: dsn, MaxOpen: 8}
	for _, change := range options {
		change(&cfg)
	}
	store, err := db.Open(context.Background(), cfg)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return store
}

// DSN makes a migrated database for the test and addresses it. It is dropped
// when the test ends.
func DSN(t testing.TB) string {
	t.Helper()
	return database(t, true)
}

// Empty is like DSN, but nothing was migrated.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, false)
}

func database(t testing.TB, migrated bool) string {
	t.Helper()
	admin, err := postgres.start()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	model := "template0"
	if migrated {
		model = postgres.model
	}
	if _, err := admin.Exec(`CREATE DATABASE ` + pq.QuoteIdentifier(name) + ` TEMPLATE ` + pq.QuoteIdentifier(model)); err != nil {
		t.Fatalf("dbtest: create database: %v", err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(`DROP DATABASE ` + pq.QuoteIdentifier(name) + ` WITH (FORCE)`); err != nil {
			t.Errorf("dbtest: drop database: %v", err)
		}
	})
	return withDatabase(postgres.base, name)
}

// start starts Postgres and makes the model database, once.
func (s *server) start() (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin == nil && s.err == nil {
		s.err = s.startNow()
	}
	return s.admin, s.err
}

func (s *server) startNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the machine may be slow, and Postgres may have to be fetched
	defer cancel()
	s.base = os.Getenv("DATABASE_URL")
	if s.base == "" {
		private, err := pgserver.Start(ctx, pgserver.Config{Settings: s.settings()})
		if err != nil {
			return err
		}
		s.private, s.base = private, private.URL()
	} else if !strings.Contains(s.base, "://") {
		return errors.New("DATABASE_URL must be a URL here: another database is put into it")
	}
	admin, err := sql.Open("postgres", s.base)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	admin.SetMaxOpenConns(4)
	if s.model, err = s.makeModel(ctx, admin); err != nil {
		return errors.Join(err, admin.Close())
	}
	s.admin = admin
	return nil
}

// makeModel makes the migrated database that tests copy. With DATABASE_URL
// other test binaries share it, so it is made under a lock and gets its name
// only when it is whole.
func (s *server) makeModel(ctx context.Context, admin *sql.DB) (string, error) {
	name, err := modelName()
	if err != nil {
		return "", err
	}
	conn, err := admin.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Close() // a private session: the lock goes with it
	const lock = 7446272
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, lock); err != nil {
		return "", fmt.Errorf("lock: %w", err)
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lock)
	var there bool
	if err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || there {
		return name, err
	}
	half := name + "_half"
	for _, statement := range []string{`DROP DATABASE IF EXISTS ` + half + ` WITH (FORCE)`, `CREATE DATABASE ` + half + ` TEMPLATE template0`} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return "", fmt.Errorf("make model database: %w", err)
		}
	}
	pool, err := sql.Open("postgres", withDatabase(s.base, half))
	if err != nil {
		return "", fmt.Errorf("open model database: %w", err)
	}
	if err := errors.Join(db.Migrate(ctx, pool), pool.Close()); err != nil {
		return "", err
	}
	if _, err := conn.ExecContext(ctx, `ALTER DATABASE `+half+` RENAME TO `+name); err != nil {
		return "", fmt.Errorf("name model database: %w", err)
	}
	return name, nil
}

// modelName is made of the migrations' content, so that a changed one gets a
// model of its own.
func modelName() (string, error) {
	hash := sha256.New()
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := migrations.FS.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read migrations: %w", err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", file, len(text), text)
	}
	return fmt.Sprintf("signalbox_model_%x", hash.Sum(nil)[:8]), nil
}

// withDatabase is a DSN of another database of the same server.
func withDatabase(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // the connection will say what is wrong with it
	}
	u.Path = "/" + name
	return u.String()
}

func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.admin != nil {
		err = s.admin.Close()
	}
	if s.private != nil {
		err = errors.Join(err, s.private.Stop())
	}
	s.admin, s.private, s.err = nil, nil, errors.New("stopped")
	return err
}
