package pgserver

// Postgres refuses to run as root, so as root everything of it happens as
// another user, who must be able to reach the folder.

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func needRoot(t *testing.T) *account {
	t.Helper()
	runAs, err := childUser()
	if err != nil {
		t.Fatal(err)
	}
	if runAs == nil {
		t.Skip("only root has privileges to drop")
	}
	return runAs
}

func TestRootDropsPrivileges(t *testing.T) {
	t.Parallel()
	runAs := needRoot(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	s := start(t, Config{})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for line := range strings.Lines(string(status)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			got[key] = strings.Fields(value)
		}
	}
	four := func(id uint32) []string { s := fmt.Sprint(id); return []string{s, s, s, s} } // real, effective, saved, file system
	var groups []string
	for _, g := range runAs.groups {
		groups = append(groups, fmt.Sprint(g))
	}
	want := map[string][]string{"Uid": four(runAs.uid), "Gid": four(runAs.gid), "CapEff": {"0000000000000000"}}
	for key, ids := range want {
		if diff := cmp.Diff(ids, got[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if len(got["Groups"]) != len(groups) {
		t.Errorf("groups %v, want %v", got["Groups"], groups)
	}
	for _, dir := range []string{s.folder.data(), s.folder.socketDir()} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 || ownerOf(dir) != int(runAs.uid) {
			t.Errorf("%s: mode %v, owner %d, %v", dir, info.Mode(), ownerOf(dir), err)
		}
	}
}

func TestUnreachableFolderIsExplained(t *testing.T) {
	t.Parallel()
	runAs := needRoot(t)
	closed := newDir(t)
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: filepath.Join(closed, "pg")})
	want := fmt.Sprintf("user %s, who may not enter %s: choose a folder outside of it", runAs.name, closed)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v lacks %q", err, want)
	}
}

// The folder itself is ours to open; data that another user made is handed over.
func TestFolderIsMadeReachable(t *testing.T) {
	t.Parallel()
	runAs := needRoot(t)
	dir := newDir(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Dir: dir})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	root := &account{uid: 0, gid: 0}
	if err := root.chownTree(s.folder.data()); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	if got := ownerOf(filepath.Join(s.folder.data(), "PG_VERSION")); got != int(runAs.uid) {
		t.Errorf("PG_VERSION belongs to %d", got)
	}
}

func TestLookupAccount(t *testing.T) {
	t.Parallel()
	machine := func(users ...user.User) func(string) (*user.User, error) {
		return func(name string) (*user.User, error) {
			for _, u := range users {
				if u.Username == name {
					return &u, nil
				}
			}
			return nil, user.UnknownUserError(name)
		}
	}
	postgres := user.User{Username: "postgres", Uid: "101", Gid: "104"}
	nobody := user.User{Username: "nobody", Uid: "65534", Gid: "65533"}
	tests := []struct {
		name   string
		lookup func(string) (*user.User, error)
		want   string
	}{
		{"postgres if there is one", machine(nobody, postgres), "postgres 101 104"},
		{"else nobody", machine(nobody), "nobody 65534 65533"},
		{"else say so", machine(), "error we are root, Postgres refuses to run as root, and this machine has no user postgres or nobody"},
		{"an odd user", machine(user.User{Username: "postgres", Uid: "S-1-5", Gid: "1"}), "error look up user postgres"},
	}
	for _, tt := range tests {
		a, err := lookupAccount(tt.lookup, "postgres", "nobody")
		got := fmt.Sprint("error ", err)
		if err == nil {
			got = fmt.Sprint(a.name, " ", a.uid, " ", a.gid)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestBlockedAt(t *testing.T) {
	t.Parallel()
	runAs := needRoot(t)
	base := newDir(t)
	mk := func(name string, mode os.FileMode, uid, gid int) string {
		dir := filepath.Join(base, name)
		for _, err := range []error{os.MkdirAll(filepath.Join(dir, "in"), 0o755), os.Chown(dir, uid, gid), os.Chmod(dir, mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	tests := []struct {
		dir     string
		blocked bool
	}{
		{mk("open", 0o711, 0, 0), false},
		{mk("closed", 0o700, 0, 0), true},
		{mk("own", 0o700, int(runAs.uid), 0), false},
		{mk("own-closed", 0o677, int(runAs.uid), 0), true},
		{mk("group", 0o710, 0, int(runAs.gid)), false},
		{mk("group-closed", 0o701, 0, int(runAs.gid)), true},
	}
	for _, tt := range tests {
		want := ""
		if tt.blocked {
			want = tt.dir
		}
		if got := runAs.blockedAt(filepath.Join(tt.dir, "in")); got != want {
			t.Errorf("%s: blocked at %q, want %q", tt.dir, got, want)
		}
	}
}
