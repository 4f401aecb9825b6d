package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// servedBy is what runs on a data folder according to its postmaster.pid.
type servedBy int

const (
	servedByNobody  servedBy = iota // no file, or its process is gone
	servedByReused                  // its process id belongs to something else now
	servedByOurs                    // a Postgres that one of us started
	servedByForeign                 // a Postgres that somebody else started
)

// whoServes reads data/postmaster.pid and looks at the process that it names.
// A process counts as the folder's server only if its arguments say so: the
// file survives crashes, and process ids come round again.
func whoServes(data string) (pid int, by servedBy) {
	pid = postmasterPID(data)
	if pid <= 1 {
		return 0, servedByNobody
	}
	args := processArgs(pid)
	switch {
	case len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "postgres") && hasArg(args, data):
		if hasArg(args, "cluster_name="+clusterName) {
			return pid, servedByOurs
		}
		return pid, servedByForeign
	case errors.Is(signal(pid, 0), syscall.ESRCH):
		return 0, servedByNobody
	default:
		return pid, servedByReused
	}
}

// hasArg compares with the arguments joined again, because not every system
// tells where one ends.
func hasArg(args []string, arg string) bool {
	return strings.Contains(" "+strings.Join(args, " ")+" ", " "+arg+" ")
}

func postmasterPID(data string) int {
	b, err := os.ReadFile(pidFile(data))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	return pid
}

func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// clearWay makes sure that nothing serves the folder any more. The caller
// holds the folder's lock, so a server of ours there has lost its parent.
func (f *folder) clearWay(ctx context.Context) error {
	pid, by := whoServes(f.data())
	switch by {
	case servedByOurs:
		f.log.Warn("stopping a postgres whose parent died", "pid", pid, "dir", f.path)
		return f.stopOrphan(ctx, pid)
	case servedByForeign:
		return fmt.Errorf("%w, pid %d, and not started by signalbox: stop it first", ErrRunning, pid)
	case servedByReused:
		// Postgres would take that process for itself and refuse to start. In
		// a container, where every start counts from 1, this is common. (With
		// the process gone leave the file: Postgres uses it to look for
		// backends that outlived a killed postmaster.)
		return os.Remove(pidFile(f.data()))
	}
	return nil
}

// stopOrphan shuts down a server that is not our child. A temporary one has
// nothing worth a checkpoint.
func (f *folder) stopOrphan(ctx context.Context, pid int) error {
	gone := func() bool { _, by := whoServes(f.data()); return by != servedByOurs }
	if f.kept {
		_ = signal(pid, syscall.SIGINT)
		if poll(ctx, fastShutdown, gone) {
			return nil
		}
	}
	_ = signal(pid, syscall.SIGQUIT)
	if !poll(ctx, immediateShutdown, gone) {
		return fmt.Errorf("%w, pid %d: its parent is gone and it does not stop", ErrRunning, pid)
	}
	return nil
}

// poll asks until the answer is yes, for as long as the context and the limit
// allow. It is for what no system call announces.
func poll(ctx context.Context, limit time.Duration, ask func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ask()
		}
	}
	return true
}
