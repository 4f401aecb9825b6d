// Package pgserver runs a private Postgres: for the demo, for tests, and for
// small installations that name no DATABASE_URL.
//
// Start finds Postgres's programs on this machine (see Find) or fetches them,
// makes the data folder, and runs the server as a child of this process. Only
// this process can talk to it: it listens on a Unix socket in a folder of mode
// 0700, and there it trusts whoever connects. Where the path of that socket
// would be too long for the system it listens on a free port of 127.0.0.1,
// which every local user can reach, so there it asks for a password that is
// new at every start and part of the DSN.
//
//	Config.Dir = ""    temporary: fsync off, copied from a template in 0.2 s,
//	                   removed by Stop
//	Config.Dir = DIR   kept: durable, DIR/data survives Stop and crashes
//
// # A folder has one owner
//
// The owner holds a lock (flock) on DIR/owner.lock from Start to Stop. The
// kernel drops the lock when the owner dies, however it dies. So
//
//	lock taken by somebody else   in use: Start fails with ErrRunning
//	lock free, no server          an ordinary start, or one after a crash
//	lock free, server runs        an orphan: it is stopped first
//
// and temporary folders of owners that were killed are recognised, and
// removed, by the next Start.
//
// # The server stops with its parent
//
// On Linux the kernel sends the server SIGINT (a fast shutdown) when the
// parent dies, also by kill -9. Other systems have no such thing; there the
// server lives on as an orphan until the next Start on the same folder, or for
// temporary folders the next Start of any.
//
// # Root
//
// Postgres refuses to run as root. When we are root the server runs as the
// user postgres, or else nobody, and the data folder is given to that user,
// who must be able to reach it.
package pgserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Errors that callers may want to tell apart.
var (
	// ErrNotFound: this machine has no Postgres that is new enough.
	ErrNotFound = errors.New("no Postgres 14 or newer on this machine")
	// ErrRunning: another living process owns the folder.
	ErrRunning = errors.New("already running")
	// ErrVersion: the data is of a major version that no program here can read.
	ErrVersion = errors.New("data of another Postgres version")
)

const (
	superuser = "postgres"
	// clusterName marks servers that we started, in ps and in the arguments.
	clusterName = "signalbox"

	startTimeout     = 2 * time.Minute
	startTimeoutKept = 10 * time.Minute // recovery after a crash may replay much

	// How long Stop waits for a fast shutdown (it writes a checkpoint), and
	// then for an immediate one, before it kills.
	fastShutdown      = 30 * time.Second
	immediateShutdown = 5 * time.Second
)

// Config says what to start. The zero value is a temporary server.
type Config struct {
	// Dir is the folder to keep the data in; it is made when missing. Empty: a
	// temporary folder, thrown away by Stop.
	Dir string

	// BinDir holds the programs initdb and postgres. Empty: what Find finds
	// (for existing data: of its major version), else fetched.
	BinDir string

	// FetchURL is the Maven repository to fetch from when this machine has no
	// Postgres. Empty: Maven Central.
	FetchURL string

	// CacheDir holds what is costly to make: fetched programs, and the
	// initialised folder that temporary servers are copied from. Empty: a
	// folder in the user's cache directory, or one that the server's user can
	// reach.
	CacheDir string

	// Settings are settings of Postgres, as in postgresql.conf. They win over
	// ours, except over where the server listens.
	Settings map[string]string

	// Log receives starts and stops at Info and the server's own log at Debug
	// (warnings at Warn). Nil: nothing is logged.
	Log *slog.Logger
}

// Server is a running Postgres. Its methods may be called from any goroutine.
type Server struct {
	log    *slog.Logger
	folder *folder
	bin    binaries
	listen listen
	proc   *process // set by launch

	stopOnce sync.Once
	stopErr  error
}

// listen is where the server can be reached: a socket folder, or with none a
// loopback port and a password.
type listen struct {
	socketDir string
	port      int
	password  string
}

// Start returns when the server answers queries. Its context bounds the start
// only; without a deadline Start gives up after some minutes. The caller must
// call Stop.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	ctx, cancel := withStartDeadline(ctx, cfg.Dir != "")
	defer cancel()
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	begun := time.Now()

	runAs, err := childUser()
	if err != nil {
		return nil, err
	}
	dir, err := openFolder(ctx, cfg.Dir, runAs, log)
	if err != nil {
		return nil, fmt.Errorf("open Postgres folder: %w", err)
	}
	s := &Server{log: log, folder: dir}
	if err := s.start(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start Postgres in %s: %w", dir.path, err), s.Stop())
	}
	log.Info("postgres started", "version", s.bin.version.String(), "dir", dir.path,
		"kept", dir.kept, "pid", s.PID(), "took", time.Since(begun).Round(time.Millisecond))
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg Config) (err error) {
	cache, err := cacheDir(cfg.CacheDir, s.folder.runAs)
	if err != nil {
		return err
	}
	if s.bin, err = chooseBinaries(ctx, cfg, cache, s.folder, s.log); err != nil {
		return err
	}
	fromTemplate, err := s.folder.prepare(ctx, s.bin, cache)
	if err != nil {
		return err
	}
	err = s.launch(ctx, cfg.Settings)
	if err != nil && fromTemplate && ctx.Err() == nil && !blamesSettings(err) {
		// The template may be damaged: caches are cleaned by others, file by
		// file. Once more without it.
		s.log.Warn("postgres does not start from its template, made anew", "error", err)
		if err := errors.Join(dropTemplate(templatePath(cache, s.bin), cache),
			s.folder.prepareAfresh(ctx, s.bin, cache)); err != nil {
			return err
		}
		err = s.launch(ctx, cfg.Settings)
	}
	return err
}

func withStartDeadline(ctx context.Context, kept bool) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	if kept {
		return context.WithTimeout(ctx, startTimeoutKept)
	}
	return context.WithTimeout(ctx, startTimeout)
}

// URL is the DSN of the database that every server has, postgres.
func (s *Server) URL() string { return s.DSN("postgres") }

// DSN addresses a database of this server, as its superuser. It is a URL that
// lib/pq, pgx and psql understand. It may hold a password.
func (s *Server) DSN(database string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}}
	if s.listen.socketDir != "" {
		u.User = url.User(superuser)
		q.Set("host", s.listen.socketDir)
		q.Set("port", strconv.Itoa(s.listen.port))
	} else {
		u.User = url.UserPassword(superuser, s.listen.password)
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.listen.port))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// PID is the process id of the server's first process, the postmaster.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

// Version is the server's version, such as "15.14".
func (s *Server) Version() string { return s.bin.version.String() }

// Done is closed when the server has exited, through Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.proc.done }

// Err says why the server exited, with the end of its log. It is nil while the
// server runs and after a clean shutdown.
func (s *Server) Err() error {
	select {
	case <-s.proc.done:
		return s.proc.exitError()
	default:
		return nil
	}
}

// Stop shuts the server down and waits until it is gone: clients are cut off,
// transactions under way are rolled back. A temporary folder is removed. Stop
// is safe to call again and after a crash of the server.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		if s.proc != nil {
			s.stopErr = s.proc.stop()
			s.log.Info("postgres stopped", "dir", s.folder.path)
		}
		s.stopErr = errors.Join(s.stopErr, s.folder.close())
	})
	return s.stopErr
}

// chooseListen prefers the socket, which only we can reach. Linux takes 107
// bytes for its path, macOS 103.
func (f *folder) chooseListen() (listen, error) {
	const standardPort = 5432
	dir := f.socketDir()
	if len(filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", standardPort))) <= 100 {
		if err := f.makeOwned(dir); err != nil {
			return listen{}, err
		}
		return listen{socketDir: dir, port: standardPort}, nil
	}
	port, err := freePort()
	if err != nil {
		return listen{}, fmt.Errorf("find a free port: %w", err)
	}
	return listen{port: port, password: rand.Text()}, nil
}

// freePort names a port that was free a moment ago; launch tries another one
// when somebody else was faster.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// makeOwned makes a folder of mode 0700 that belongs to the server's user.
func (f *folder) makeOwned(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := f.runAs.chown(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

func signal(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }
