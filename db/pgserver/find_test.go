package pgserver

// Which Postgres gets used: what stands first on PATH, then the newest of the
// usual folders, never one that is too old. The programs here are scripts that
// know one answer.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakePrograms makes a bin folder under root whose postgres prints a version.
func fakePrograms(t *testing.T, root, name, versionText string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", versionText)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fakePrograms(t, root, "lib/9.6/bin", "9.6.24")
	fakePrograms(t, root, "lib/15/bin", "15.14 (Debian 15.14-0+deb12u1)")
	fakePrograms(t, root, "lib/100/bin", "100beta1")
	fakePrograms(t, root, "path/13", "13.1")
	fakePrograms(t, root, "path/16", "16.2")
	if err := os.Remove(filepath.Join(fakePrograms(t, root, "path/client", "17.0"), "initdb")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(fakePrograms(t, root, "path/closed", "17.0"), "postgres"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, pattern string
		major               int
		want                string
	}{
		{"PATH comes first", "path/16", "lib/*/bin", 0, "path/16"},
		{"too old on PATH is passed over", "path/13:path/16", "lib/*/bin", 0, "path/16"},
		{"clients only, or not executable, is passed over", "path/client:path/closed:nowhere:", "lib/*/bin", 0, "lib/100/bin"},
		{"a relative PATH entry is passed over", "", "lib/*/bin", 0, "lib/100/bin"},
		{"existing data wants its version", "path/16", "lib/*/bin", 15, "lib/15/bin"},
		{"existing data too old", "path/16", "lib/*/bin", 9, ""},
		{"nothing", "", "none/*/bin", 0, ""},
		{"only old ones", "path/13", "lib/9*/bin", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var path []string
			for _, p := range strings.Split(tt.path, ":") {
				if p != "" {
					p = filepath.Join(root, p)
				}
				path = append(path, p)
			}
			path = append(path, "relative")
			dirs := places(strings.Join(path, ":"), []string{filepath.Join(root, tt.pattern)})
			b, err := find(dirs, tt.major)
			if tt.want == "" {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("found %v, %v", b, err)
				}
				return
			}
			if got, _ := filepath.Rel(root, b.dir); err != nil || got != tt.want {
				t.Errorf("found %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestOldOnesAreNamedInTheError(t *testing.T) {
	t.Parallel()
	dir := fakePrograms(t, t.TempDir(), "bin", "9.6.24")
	_, err := find([]string{dir}, 0)
	if want := "found 9.6 in " + dir; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v lacks %q", err, want)
	}
}

// Uses PATH, which belongs to the whole process: not parallel.
func TestFindLooksOnPath(t *testing.T) {
	dir := fakePrograms(t, t.TempDir(), "bin", "16.2")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if got, err := Find(); err != nil || got != dir {
		t.Errorf("Find = %q, %v, want %q", got, err, dir)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want string
	}{
		{"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "15.14"},
		{"postgres (PostgreSQL) 14.0", "14.0"},
		{"postgres (PostgreSQL) 18beta1", "18.0"},
		{"postgres (PostgreSQL) 19devel", "19.0"},
		{"postgres (PostgreSQL) 9.6.24", "9.6"},
		{"postgres (EnterpriseDB) 15.1", ""},
		{"postgres (PostgreSQL) 99999999999999999999.1", ""},
		{"", ""},
	}
	for _, tt := range tests {
		v, err := parseVersion(tt.line)
		if tt.want == "" {
			if err == nil {
				t.Errorf("parseVersion(%q) = %v, want an error", tt.line, v)
			}
			continue
		}
		if err != nil || v.String() != tt.want {
			t.Errorf("parseVersion(%q) = %v, %v, want %s", tt.line, v, err, tt.want)
		}
	}
}

func TestPlacesSortsByNumber(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, v := range []string{"9.6", "14", "16", "100"} {
		if err := os.MkdirAll(filepath.Join(root, "postgresql@"+v, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, dir := range places("", []string{filepath.Join(root, "postgresql*", "bin")}) {
		got = append(got, strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "postgresql@"))
	}
	if diff := cmp.Diff([]string{"100", "16", "14", "9.6"}, got); diff != "" {
		t.Error(diff)
	}
}
