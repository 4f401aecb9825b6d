package pgserver

// A machine without Postgres: embedded-postgres fetches an archive, here from
// a server of ours, and our own starter runs what was in it. The archive holds
// scripts that call this machine's programs, which keeps it small. As root the
// library's own start fails, as an ordinary user it works; either way we go on.

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// archive makes what Maven Central serves: a zip (jar) with one tar.xz in it.
func archive(t *testing.T) []byte {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz makes the archive, and is not here")
	}
	system, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if system, err = filepath.EvalSymlinks(filepath.Join(system, "postgres")); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s/%s \"$@\"\n", filepath.Dir(system), program)
		path := filepath.Join(root, "bin", program)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(script), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	txz := filepath.Join(t.TempDir(), "postgres.txz")
	if out, err := exec.Command("tar", "-C", root, "-cJf", txz, "bin").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v %s", err, out)
	}
	packed, err := os.ReadFile(txz)
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}

// repository serves the archive under any name, with its checksum.
func repository(t *testing.T, jar []byte, sum string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/maven/io/zonky/test/postgres/"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, ".sha256"):
			fmt.Fprint(w, sum)
		default:
			_, _ = w.Write(jar)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/maven/"
}

func TestFetchedProgramsRun(t *testing.T) {
	t.Parallel()
	jar := archive(t)
	url := repository(t, jar, fmt.Sprintf("%x", sha256.Sum256(jar)))
	cache := filepath.Join(filepath.Dir(newDir(t)), "cache")
	if err := openCache(cache); err != nil {
		t.Fatal(err)
	}
	b, err := fetch(t.Context(), url, 0, cache)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{BinDir: b.dir, CacheDir: cache})
	query(t, s.URL(), "SELECT 1")

	again, err := fetch(t.Context(), url, 0, cache) // as another process would at the same time
	if err != nil || again.dir != b.dir {
		t.Errorf("second fetch: %v, %v", again, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, unfinished+"*")); len(left) > 0 {
		t.Errorf("left in the cache: %v", left)
	}
	// The next start finds them, when nothing else is there.
	found, err := find(places("", []string{filepath.Join(cache, "postgres-*", "bin")}), 0)
	if err != nil || found.dir != b.dir {
		t.Errorf("find = %v, %v", found, err)
	}
}

func TestFetchRefusals(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		url   string
		major int
		want  string
	}{
		{"wrong checksum", t.Context(), repository(t, []byte("jar"), "00"), 0, "checksums do not match"},
		{"not an archive", t.Context(), repository(t, []byte("jar"), fmt.Sprintf("%x", sha256.Sum256([]byte("jar")))), 0, "zip"},
		{"nobody there", t.Context(), "http://127.0.0.1:1", 0, "unable to connect"},
		{"no such build", t.Context(), "http://127.0.0.1:1", 9, "no build of Postgres 9"},
		{"cancelled", gone, "http://127.0.0.1:1", 0, "canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := fetch(tt.ctx, tt.url, tt.major, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				// Cancelled, or refused: the two race, and both are right.
				if tt.ctx.Err() == nil || err == nil {
					t.Errorf("error %v lacks %q", err, tt.want)
				}
			}
		})
	}
}

// With no Postgres anywhere, and none to fetch, the error says what to do.
// Uses PATH: not parallel.
func TestNothingToRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	saved := systemFolders
	systemFolders = nil
	defer func() { systemFolders = saved }()
	_, err := Start(t.Context(), Config{
		FetchURL: "http://127.0.0.1:1",
		CacheDir: filepath.Join(filepath.Dir(newDir(t)), "cache"),
	})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "unable to connect") ||
		!strings.Contains(err.Error(), "set DATABASE_URL") {
		t.Errorf("error: %v", err)
	}
}
