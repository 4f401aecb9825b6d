package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that the server runs as when we are root. The nil
// account is ourselves: its methods then do nothing.
type account struct {
	name     string
	uid, gid uint32
	groups   []uint32
}

// childUser is nil unless we are root.
func childUser() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	return lookupAccount(user.Lookup, "postgres", "nobody")
}

// lookupAccount returns the first of the named users that exists.
func lookupAccount(lookup func(string) (*user.User, error), names ...string) (*account, error) {
	for _, name := range names {
		u, err := lookup(name)
		if err != nil {
			continue
		}
		return newAccount(u)
	}
	return nil, fmt.Errorf("we are root, Postgres refuses to run as root, and this machine has no user %s to run it as: "+
		"start signalbox as an ordinary user, or set DATABASE_URL", strings.Join(names, " or "))
}

func newAccount(u *user.User) (*account, error) {
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("look up user %s: %w", u.Username, err)
	}
	a := &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}
	ids, err := u.GroupIds()
	if err != nil { // Its own group must do; root's groups are dropped either way.
		ids = []string{u.Gid}
	}
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			a.groups = append(a.groups, uint32(g))
		}
	}
	return a, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}

func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// chownTree gives a folder and all in it to the account, unless it has it.
func (a *account) chownTree(root string) error {
	if a == nil || ownerOf(root) == int(a.uid) {
		return nil
	}
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return a.chown(path)
	})
}

// ownerOf returns the user id that owns path, or -1.
func ownerOf(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// blockedAt returns the first folder on the way to path, path included, that
// the account may not enter, or "". It knows mode bits only: an access list
// that opens the folder goes unseen, so only ask where a refusal is certain or
// where there is another choice.
func (a *account) blockedAt(path string) string {
	if a == nil {
		return ""
	}
	step := string(filepath.Separator)
	for _, part := range strings.Split(filepath.Clean(path), step) {
		step = filepath.Join(step, part)
		info, err := os.Stat(step)
		if err != nil {
			return ""
		}
		if info.IsDir() && !a.mayEnter(info) {
			return step
		}
	}
	return ""
}

func (a *account) mayEnter(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	perm := info.Mode().Perm()
	switch {
	case st.Uid == a.uid:
		return perm&0o100 != 0
	case st.Gid == a.gid || slices.Contains(a.groups, st.Gid):
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}

// explain makes "permission denied" from starting a program into a sentence
// that says which folder is in the way and what to do.
func (a *account) explain(err error, paths ...string) error {
	if a == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, path := range paths {
		if at := a.blockedAt(path); at != "" {
			return fmt.Errorf("%w: we are root, so Postgres runs as user %s, who may not enter %s: "+
				"choose a folder outside of it, or open it with chmod o+x %s, or start signalbox as an ordinary user",
				err, a.name, at, at)
		}
	}
	return fmt.Errorf("run Postgres as user %s: %w", a.name, err)
}
