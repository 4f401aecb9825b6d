//go:build unix

package mirror

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// lockFile takes a lock that other processes see. It ends with the process,
// however that ends.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// ownGroup gives git a process group of its own. What is sent to ours, such
// as Ctrl-C in a terminal, does not reach it, and when its time is up the
// whole group ends: git's helpers, too. The returned function ends helpers
// that outlived git; call it after git was waited for.
//
// When we are killed, git is too, where the system can do that. It counts as our
// death when the thread ends that started git: that thread must be held, by
// runtime.LockOSThread, until git was waited for (golang.org/issue/27505). A helper
// that talks to the host ends when git no longer does, at the latest with what it
// was sending: such a push is found as one that arrives late.
func ownGroup(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	return func() {
		if cmd.Process != nil {
			_ = kill() // nobody is left, usually
		}
	}
}

// crashSignal reports whether a program was ended by its own fault.
func crashSignal(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT}, status.Signal())
}
