package pgserver

// A private Postgres must come up quickly, keep what it should keep, and go
// away when it should. The servers here are real.

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq" // for database/sql
)

// newDir returns a folder for a kept server. t.TempDir will not do: its parent
// is closed to the server's user when we are root.
func newDir(t *testing.T) string {
	t.Helper()
	runAs, err := childUser()
	if err != nil {
		t.Fatal(err)
	}
	base, err := os.MkdirTemp(temporaryBase(runAs), "pgt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "pg")
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// query returns one value as text.
func query(t *testing.T, dsn, sqlText string) string {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var v string
	if err := db.QueryRowContext(t.Context(), sqlText).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sqlText, err)
	}
	return v
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// eventually waits until ask says yes; the limit only ends what hangs.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	if !poll(t.Context(), 10*time.Minute, ask) {
		t.Fatalf("still not so: %s", what)
	}
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// Not parallel: it looks at all goroutines.
func TestStopLeavesNothingBehind(t *testing.T) {
	s := start(t, Config{})
	path, pid := s.folder.path, s.PID()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after a clean stop: %v", err)
	}
	if exists(path) || processArgs(pid) != nil {
		t.Errorf("left: folder %v, process %v", exists(path), processArgs(pid))
	}
	eventually(t, "no goroutine of ours is left", func() bool {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(b.String(), "pgserver.spawn") && !strings.Contains(b.String(), "pq.(*conn)")
	})
}

func TestTemporaryServerAnswersBothDrivers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Settings: map[string]string{"work_mem": "7MB", "port": "1"}})
	execute(t, s.URL(), `CREATE DATABASE "odd name?"`)
	dsn := s.DSN("odd name?")
	if got := query(t, dsn, "SELECT current_database()"); got != "odd name?" {
		t.Errorf("lib/pq is in database %q", got)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("pgx: %v", err)
	}
	defer conn.Close(context.Background())
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&got); err != nil || got != "odd name?" {
		t.Errorf("pgx is in database %q, %v", got, err)
	}
	for name, want := range map[string]string{
		"fsync": "off", "max_connections": "300", "listen_addresses": "", "work_mem": "7MB",
		"server_encoding": "UTF8", "lc_collate": "C", "TimeZone": "UTC",
	} {
		if got := query(t, s.URL(), fmt.Sprintf("SELECT current_setting('%s')", name)); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestKeptDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	s := start(t, Config{Dir: dir})
	if got := query(t, s.URL(), "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %q", got)
	}
	execute(t, s.URL(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (42)")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	if got := query(t, s.URL(), "SELECT n FROM kept"); got != "42" {
		t.Errorf("n = %s", got)
	}
}

// Many processes start at once on one new folder: one of them gets it.
func TestConcurrentStartsOnOneFolder(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	results := make([]error, 4)
	servers := make([]*Server, len(results))
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { servers[i], results[i] = Start(t.Context(), Config{Dir: dir}) })
	}
	wg.Wait()
	won := 0
	for i, err := range results {
		if err == nil {
			won++
			query(t, servers[i].URL(), "SELECT 1")
			defer servers[i].Stop()
		} else if !errors.Is(err, ErrRunning) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of them own the folder", won)
	}
}

// Cold caches and several processes: all of them get a server, and the cache
// has one whole template afterwards.
func TestConcurrentTemporaryStarts(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(filepath.Dir(newDir(t)), "cache")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := Start(t.Context(), Config{CacheDir: cache})
			if err != nil {
				t.Error(err)
				return
			}
			query(t, s.URL(), "SELECT 1")
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "template-") {
		t.Errorf("cache holds %v, %v", entries, err)
	}
}

// A template that lost a file is made anew.
func TestDamagedTemplate(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(filepath.Dir(newDir(t)), "cache")
	if err := start(t, Config{CacheDir: cache}).Stop(); err != nil {
		t.Fatal(err)
	}
	control := func() string {
		found, _ := filepath.Glob(filepath.Join(cache, "template-*", "global", "pg_control"))
		return strings.Join(found, " ")
	}
	if err := os.Remove(control()); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{CacheDir: cache})
	query(t, s.URL(), "SELECT 1")
	if control() == "" {
		t.Error("the template is still damaged")
	}
}

func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(filepath.Dir(newDir(t)), "cache") // cold: initdb runs when the end comes
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	dir := newDir(t)
	s, err := Start(ctx, Config{Dir: dir, CacheDir: cache})
	if s != nil || err == nil {
		t.Fatalf("Start = %v, %v", s, err)
	}
	s = start(t, Config{Dir: dir, CacheDir: cache}) // half an initdb is no obstacle
	query(t, s.URL(), "SELECT 1")
}

// A path too long for a socket: a port of the loopback, and a password, for
// there anybody could knock.
func TestLongPathListensOnLoopback(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), strings.Repeat("long", 25))
	for range 2 { // the password is new each time
		s := start(t, Config{Dir: dir})
		if got := query(t, s.URL(), "SHOW listen_addresses"); got != "127.0.0.1" {
			t.Errorf("listens on %q", got)
		}
		conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
		if err != nil {
			t.Fatalf("pgx: %v", err)
		}
		conn.Close(t.Context())
		for _, guess := range []string{"guess", ""} {
			wrong := strings.Replace(s.URL(), s.listen.password, guess, 1)
			db, err := sql.Open("postgres", wrong)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.PingContext(t.Context()); err == nil {
				t.Errorf("password %q opens the server", guess)
			}
			db.Close()
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadStarts(t *testing.T) {
	t.Parallel()
	put := func(path, content string) string {
		dir := newDir(t)
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"a file is in the way", Config{Dir: filepath.Join(put("file", ""), "file")}, "not a directory"},
		{"data of an old version", Config{Dir: put("data/PG_VERSION", "12\n")}, "was made by Postgres 12, and this machine has"},
		{"garbled version", Config{Dir: put("data/PG_VERSION", "what\n")}, "read version of"},
		{"data is something else", Config{Dir: put("data/photo.jpg", "")}, "not a data folder of Postgres"},
		{"somebody's own Postgres", Config{Dir: put("PG_VERSION", "15\n")}, "name a folder of signalbox's own"},
		{"no programs", Config{BinDir: "/nowhere"}, "look for Postgres in /nowhere"},
		{"a setting that is none", Config{Settings: map[string]string{"colour": "red"}}, `unrecognized configuration parameter "colour"`},
		{"a cache that others can write to", Config{CacheDir: "/tmp"}, "not a folder that only we can write to"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), tt.cfg)
			if err == nil {
				s.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q lacks %q", err, tt.want)
			}
		})
	}
}

func TestLogTellsStartAndStop(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	s := start(t, Config{Log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"postgres started", "postgres stopped", "ready to accept connections"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, b.String())
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func BenchmarkTemporaryStart(b *testing.B) {
	for b.Loop() {
		s, err := Start(b.Context(), Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
