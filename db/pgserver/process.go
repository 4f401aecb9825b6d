package pgserver

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lib/pq"
)

// launch starts the server and waits until it answers. It tries again while
// the only obstacle is one that passes.
func (s *Server) launch(ctx context.Context, settings map[string]string) error {
	for {
		err := s.launchOnce(ctx, settings)
		if err == nil || !passes(err) {
			return err
		}
		s.log.Info("postgres must wait", "reason", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// passes reports obstacles that go away: backends of a killed postmaster that
// have not noticed yet, and a port that somebody took before we did.
func passes(err error) bool {
	text := err.Error()
	return strings.Contains(text, "pre-existing shared memory block") ||
		strings.Contains(text, "could not bind IPv4 address")
}

// blamesSettings reports errors that come from Config.Settings.
func blamesSettings(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unrecognized configuration parameter") ||
		strings.Contains(text, "invalid value for parameter")
}

func (s *Server) launchOnce(ctx context.Context, settings map[string]string) (err error) {
	if s.listen, err = s.folder.chooseListen(); err != nil {
		return err
	}
	if s.listen.socketDir == "" {
		if err := s.setPassword(ctx); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
	}
	out := &logTail{log: s.log}
	cmd := s.folder.command(context.Background(), s.bin, "postgres", s.arguments(settings)...)
	cmd.Stderr = out
	proc, err := spawn(cmd, out)
	if err != nil {
		return s.folder.runAs.explain(err, s.folder.path, s.bin.dir)
	}
	s.proc = proc
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, proc.stop())
	}
	return nil
}

// arguments are ours, then the caller's, then those that make the DSN true:
// the last one wins.
func (s *Server) arguments(settings map[string]string) []string {
	args := []string{"-D", s.folder.data()}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	ours := map[string]string{"timezone": "UTC", "log_timezone": "UTC", "jit": "off"}
	if !s.folder.kept {
		maps.Copy(ours, map[string]string{
			"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
			"wal_level": "minimal", "max_wal_senders": "0",
			"shared_buffers": "32MB", "max_connections": "300",
		})
	}
	maps.Copy(ours, settings)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		set(name, ours[name])
	}
	set("cluster_name", clusterName)
	set("logging_collector", "off")
	set("log_destination", "stderr")
	set("log_line_prefix", "")
	set("port", strconv.Itoa(s.listen.port))
	set("unix_socket_directories", s.listen.socketDir)
	if s.listen.socketDir != "" {
		set("listen_addresses", "")
	} else {
		set("listen_addresses", "127.0.0.1")
		set("hba_file", s.hbaFile())
	}
	return args
}

func (s *Server) hbaFile() string { return filepath.Join(s.folder.path, "pg_hba.conf") }

// setPassword prepares for listening on a port: the password is set by a
// server that runs for this one statement and listens nowhere, so it need not
// be kept between starts.
func (s *Server) setPassword(ctx context.Context) error {
	const rules = "host all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(s.hbaFile(), []byte(rules), 0o644); err != nil {
		return err
	}
	cmd := s.folder.command(ctx, s.bin, "postgres", "--single", "-D", s.folder.data(), "postgres")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'\n", superuser, s.listen.password))
	return s.folder.run(cmd)
}

// command makes a command of Postgres's. It runs inside the folder, because
// the server's user may not be able to enter the one that we are in, and sees
// little of our environment: no secrets of ours, no PGOPTIONS, no language.
func (f *folder) command(ctx context.Context, bin binaries, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin.dir, program), args...)
	cmd.Dir = f.path
	cmd.SysProcAttr = childAttr(f.runAs)
	cmd.WaitDelay = 2 * time.Second // a grandchild may hold the pipe open
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// run runs a command to its end. Its error carries what the command said.
func (f *folder) run(cmd *exec.Cmd) error {
	out := &logTail{log: slog.New(slog.DiscardHandler)}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return signal(-cmd.Process.Pid, syscall.SIGKILL) } // its children too
	runtime.LockOSThread()                                                         // see spawn
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return f.runAs.explain(err, f.path, cmd.Path)
	default:
		return fmt.Errorf("%s: %w%s", filepath.Base(cmd.Path), err, out.quote())
	}
}

// process is a running postmaster.
type process struct {
	cmd  *exec.Cmd
	out  *logTail
	done chan struct{} // closed when it has exited
	err  error         // how; read only after done
}

// spawn starts the postmaster. The kernel ties a child to the thread that
// forked it, not to the process: the goroutine keeps its thread until the
// child has exited, or the child would be told to stop whenever Go gives up a
// thread.
func spawn(cmd *exec.Cmd, out *logTail) (*process, error) {
	p := &process{cmd: cmd, out: out, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// stop asks, then insists, then kills. A process that is gone is stopped.
func (p *process) stop() error {
	for _, step := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{
		{syscall.SIGINT, fastShutdown},
		{syscall.SIGQUIT, immediateShutdown},
		{syscall.SIGKILL, immediateShutdown},
	} {
		_ = p.cmd.Process.Signal(step.sig)
		timer := time.NewTimer(step.wait)
		select {
		case <-p.done:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("stop Postgres: process %d survives SIGKILL", p.cmd.Process.Pid)
}

// exitError may be called once done is closed.
func (p *process) exitError() error {
	if p.err == nil || errors.Is(p.err, exec.ErrWaitDelay) {
		return nil
	}
	return fmt.Errorf("postgres exited: %w%s", p.err, p.out.quote())
}

// saysReady spares the server the connections that it would only refuse: the
// eighth line of its postmaster.pid is its state.
func saysReady(data string) bool {
	b, err := os.ReadFile(pidFile(data))
	lines := strings.Split(string(b), "\n")
	return err == nil && len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
}

// awaitReady returns when a query works, or when none ever will.
func (s *Server) awaitReady(ctx context.Context) error {
	connector, err := pq.NewConnector(s.URL())
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := errors.New("it is starting up")
		if saysReady(s.folder.data()) {
			_, err = db.ExecContext(ctx, "SELECT 1")
		}
		if err == nil {
			return nil
		}
		var refused *pq.Error
		if errors.As(err, &refused) && refused.Code.Class() == "28" { // invalid authorization
			return fmt.Errorf("log in: %w", err)
		}
		select {
		case <-tick.C:
		case <-s.proc.done:
			return cmp.Or(s.proc.exitError(), errors.New("postgres exited"))
		case <-ctx.Done():
			return fmt.Errorf("%w, still not ready: %w%s", ctx.Err(), err, s.proc.out.quote())
		}
	}
}
