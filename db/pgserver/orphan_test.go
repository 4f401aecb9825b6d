package pgserver

// Servers and folders that lost their parent. On Linux the kernel takes the
// server down with its parent, so these tests start theirs without asking for
// that, as every start is on other systems.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// orphan runs a server on the folder of a stopped one, with nobody's lock.
func orphan(t *testing.T, s *Server, args []string) int {
	t.Helper()
	if s.listen.socketDir != "" {
		if err := s.folder.makeOwned(s.folder.socketDir()); err != nil {
			t.Fatal(err)
		}
	}
	cmd := s.folder.command(context.Background(), s.bin, "postgres", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.folder.runAs.credential()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { _ = cmd.Wait(); close(reaped) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-reaped })
	eventually(t, "the orphan is up", func() bool { return saysReady(s.folder.data()) })
	return cmd.Process.Pid
}

func stoppedServer(t *testing.T) *Server {
	t.Helper()
	s := start(t, Config{Dir: newDir(t)})
	execute(t, s.URL(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (42)")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOrphanIsStoppedFirst(t *testing.T) {
	t.Parallel()
	s := stoppedServer(t)
	pid := orphan(t, s, s.arguments(nil))
	again := start(t, Config{Dir: s.folder.path})
	if processArgs(pid) != nil {
		t.Error("the orphan still runs")
	}
	if got := query(t, again.URL(), "SELECT n FROM kept"); got != "42" {
		t.Errorf("n = %s", got)
	}
}

// Somebody's pg_ctl on our folder is not ours to stop.
func TestForeignServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := stoppedServer(t)
	pid := orphan(t, s, []string{"-D", s.folder.data(), "-k", s.folder.socketDir(), "-c", "listen_addresses="})
	_, err := Start(t.Context(), Config{Dir: s.folder.path})
	if want := fmt.Sprintf("pid %d, and not started by signalbox", pid); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v lacks %q", err, want)
	}
	if processArgs(pid) == nil {
		t.Error("it was stopped")
	}
}

// After a crash the process id in postmaster.pid may belong to something else.
// In a container it usually does. That process is left alone and is no
// obstacle.
func TestReusedProcessID(t *testing.T) {
	t.Parallel()
	s := stoppedServer(t)
	bystander := exec.Command("sleep", "600")
	bystander.SysProcAttr = &syscall.SysProcAttr{Credential: s.folder.runAs.credential()}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	stale := fmt.Sprintf("%d\n%s\n1700000000\n5432\n%s\n\n", bystander.Process.Pid, s.folder.data(), s.folder.socketDir())
	if err := os.WriteFile(pidFile(s.folder.data()), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: s.folder.path})
	query(t, again.URL(), "SELECT n FROM kept")
	if processArgs(bystander.Process.Pid) == nil {
		t.Error("a bystander was killed")
	}
}

func TestGarbledPostmasterPID(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "x\n", "-1\n", "0\n", "1\n", "999999999\n"} {
		data := t.TempDir()
		if err := os.WriteFile(pidFile(data), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid, by := whoServes(data); by != servedByNobody {
			t.Errorf("%q: %d, %v", content, pid, by)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	deadPID := gone.Process.Pid
	mk := func(name string, lockFile string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if lockFile != "" {
			if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	held := mk(fmt.Sprintf("%s%d-4", prefix, deadPID), lockName)
	lock, err := openLock(filepath.Join(held, lockName), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	tests := []struct {
		name string
		dir  string
		stay bool
	}{
		{"the lock is free", mk(fmt.Sprintf("%s%d-1", prefix, deadPID), lockName), false},
		{"the lock is free and the process id came round again", mk(fmt.Sprintf("%s%d-2", prefix, os.Getpid()), lockName), false},
		{"killed before it had a lock", mk(fmt.Sprintf("%s%d-3", prefix, deadPID), ""), false},
		{"the lock is held", held, true},
		{"just being made", mk(fmt.Sprintf("%s%d-5", prefix, os.Getpid()), ""), true},
		{"another name", mk("signalbox-pg-notes", lockName), true},
	}
	sweep(t.Context(), base, nil, slog.New(slog.DiscardHandler))
	for _, tt := range tests {
		if exists(tt.dir) != tt.stay {
			t.Errorf("%s: stays %v, want %v", tt.name, exists(tt.dir), tt.stay)
		}
	}
}

func TestProcessArgs(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "sleep has its arguments", func() bool { return hasArg(processArgs(cmd.Process.Pid), "600") })
	if hasArg(processArgs(cmd.Process.Pid), "60") {
		t.Error("a piece of an argument counts as the whole")
	}
	_ = cmd.Process.Kill()
	if runtime.GOOS == "linux" { // not reaped yet: a zombie does not count
		eventually(t, "the zombie has no arguments", func() bool { return processArgs(cmd.Process.Pid) == nil })
	}
	_ = cmd.Wait()
}
