package mirror

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServerToBeKilled is the server of the test below: it fetches with a git that
// never ends.
func TestServerToBeKilled(t *testing.T) {
	origin := os.Getenv("MIRROR_TO_BE_KILLED")
	if origin == "" {
		t.Skip("is run by TestAKilledServerLeavesNoGitBehind")
	}
	dir := os.Getenv("MIRROR_DIR")
	w := &world{t: t, origin: origin, m: nil}
	w.m = w.mirror(Config{Dir: filepath.Join(dir, "mirrors"), Git: filepath.Join(dir, "git")})
	w.src = sourceOf(origin)
	_, _, err := w.m.Line(t.Context(), w.src, "main", "")
	t.Fatalf("a fetch that never ends has ended: %v", err)
}

// A server that is killed in the middle of a fetch leaves no git behind, and the
// next one works with what it left.
func TestAKilledServerLeavesNoGitBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	slow := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *\" fetch \"*) echo $$ >%[1]s.new; mv %[1]s.new %[1]s; exec sleep 3600;; esac\nexec git \"$@\"\n", pidFile)
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestServerToBeKilled$")
	server.Env = append(os.Environ(), "MIRROR_TO_BE_KILLED="+w.origin, "MIRROR_DIR="+dir)
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	wait := func(what string, so func() bool) {
		t.Helper()
		for !so() {
			select {
			case <-ctx.Done():
				t.Fatalf("it never is so that %s\n%s", what, &said)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	var pid string
	wait("git fetches", func() bool {
		text, err := os.ReadFile(pidFile)
		pid = strings.TrimSpace(string(text))
		return err == nil
	})
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	wait("git has ended", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "Z") // nobody may have waited for it
	})

	next := w.mirror(Config{Dir: filepath.Join(dir, "mirrors")})
	if line, ok, err := next.Line(ctx, sourceOf(w.origin), "main", ""); err != nil || !ok || len(line) != 1 {
		t.Errorf("the next server reads %v, %v, %v", line, ok, err)
	}
}
