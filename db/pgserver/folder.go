package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// folder is where one server lives:
//
//	owner.lock   locked by the process that owns the server; holds its pid
//	data/        Postgres's own
//	s/           the socket (one letter: the path must stay short)
//	pg_hba.conf  only when it listens on a port
type folder struct {
	path  string
	kept  bool
	runAs *account
	log   *slog.Logger
	lock  *os.File
}

func (f *folder) data() string      { return filepath.Join(f.path, "data") }
func (f *folder) socketDir() string { return filepath.Join(f.path, "s") }

// openFolder makes or opens the folder, takes its lock, and stops what an
// earlier owner left running there.
func openFolder(ctx context.Context, dir string, runAs *account, log *slog.Logger) (*folder, error) {
	if dir == "" {
		return openTemporary(ctx, runAs, log)
	}
	f, err := openKept(dir, runAs, log)
	if err != nil {
		return nil, err
	}
	if err := f.clearWay(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.path, err), f.close())
	}
	return f, nil
}

func openKept(dir string, runAs *account, log *slog.Logger) (*folder, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, "PG_VERSION")); err == nil {
		return nil, fmt.Errorf("%s is itself a data folder of Postgres: name a folder of signalbox's own", path)
	}
	if err := runAs.letIn(path); err != nil {
		return nil, err
	}
	f := &folder{path: path, kept: true, runAs: runAs, log: log}
	if f.lock, err = lockFile(filepath.Join(path, lockName)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// letIn opens our own folder, and no other, for the account to pass through:
// what is inside has modes of its own.
func (a *account) letIn(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || a == nil || a.mayEnter(info) {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o011)
}

// prefix names temporary folders: prefix, our pid, a dash, something random.
const prefix = "signalbox-pg-"

// openTemporary also removes what killed processes left behind.
func openTemporary(ctx context.Context, runAs *account, log *slog.Logger) (*folder, error) {
	base := temporaryBase(runAs)
	sweep(ctx, base, runAs, log)
	path, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	f := &folder{path: path, runAs: runAs, log: log}
	if err := runAs.letIn(path); err != nil {
		return nil, errors.Join(err, f.close())
	}
	// Lock first, then show: whoever sweeps never finds the lock file unlocked
	// while its owner lives.
	hidden := filepath.Join(path, lockName+".new")
	if f.lock, err = lockFile(hidden); err == nil {
		err = os.Rename(hidden, filepath.Join(path, lockName))
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// temporaryBase is the usual folder for temporary files, unless the server's
// user cannot reach it.
func temporaryBase(runAs *account) string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && runAs.blockedAt(dir) == "" {
			return dir
		}
	}
	return os.TempDir()
}

var temporaryName = regexp.MustCompile(`^` + prefix + `(\d+)-\d+$`)

// sweep removes temporary folders whose owner is gone. It errs on the side of
// leaving them: only folders of our own user, and only when it can take the
// lock, or there is none and the process in the name has ended.
func sweep(ctx context.Context, base string, runAs *account, log *slog.Logger) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		m := temporaryName.FindStringSubmatch(e.Name())
		path := filepath.Join(base, e.Name())
		if m == nil || !e.IsDir() || ownerOf(path) != os.Geteuid() {
			continue
		}
		lock, err := openLock(filepath.Join(path, lockName), os.O_RDWR)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			pid, _ := strconv.Atoi(m[1])
			if !errors.Is(signal(pid, 0), syscall.ESRCH) {
				continue
			}
		case err != nil:
			continue
		}
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved // as the orphan's arguments have it
		}
		f := &folder{path: path, runAs: runAs, log: log, lock: lock}
		if err = f.clearWay(ctx); err == nil {
			err = f.close()
		} else {
			lock.Close()
		}
		if err != nil {
			log.Warn("a temporary folder of a killed process stays", "dir", path, "error", err)
		}
	}
}

// close gives up the lock, and removes a temporary folder.
func (f *folder) close() error {
	var err error
	if !f.kept {
		// A backend that outlived its postmaster may still write for a moment.
		poll(context.Background(), 2*time.Second, func() bool {
			err = os.RemoveAll(f.path)
			return err == nil
		})
	}
	if f.lock != nil {
		f.lock.Close()
	}
	return err
}

const lockName = "owner.lock"

// lockFile takes the lock and writes our process id into it.
func lockFile(path string) (*os.File, error) {
	file, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w, pid %s", ErrRunning, lockHolder(path))
	}
	if err != nil {
		return nil, err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return file, nil
}

// openLock opens and locks a file without waiting. The lock belongs to the
// open file: it ends when that is closed or our process dies, and children do
// not inherit it.
func openLock(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

func lockHolder(path string) string {
	b, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}
