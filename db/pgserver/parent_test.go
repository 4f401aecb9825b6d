package pgserver

// One of the two dies: the server, or its parent. The parent that gets killed
// is this test binary, run again.

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// childDir asks the test binary to be a parent: it starts a server on the
// folder ("temporary": on none), prints its process id and URL, and waits to
// be killed.
const childDir = "PGSERVER_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(childDir); ok {
		beParent(strings.TrimPrefix(dir, "temporary"))
	}
	os.Exit(m.Run())
}

func beParent(dir string) {
	s, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), s.folder.path)
	select {}
}

// The server dies under us, with a client inside. What was committed is there
// after the next start; whoever waits on Done hears of it.
func TestKilledServerRecovers(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	s := start(t, Config{Dir: dir})
	execute(t, s.URL(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (42)")
	db, err := sql.Open("postgres", s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(); err != nil { // a backend that outlives the postmaster for a moment
		t.Fatal(err)
	}
	if err := signal(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err = %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	if got := query(t, s.URL(), "SELECT n FROM kept"); got != "42" {
		t.Errorf("n = %s", got)
	}
}

// startParent runs this test binary as the parent of a server.
func startParent(t *testing.T, dir string) (parent *exec.Cmd, pid int, path string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscan(line, &pid, &path); err != nil {
		t.Fatalf("child says %q: %v", line, err)
	}
	return cmd, pid, path
}

func TestServerGoesWithAKilledParent(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"temporary", newDir(t)} {
		parent, pid, path := startParent(t, dir)
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait()
		if runtime.GOOS == "linux" {
			eventually(t, "the server is gone", func() bool { return processArgs(pid) == nil })
		}
		// Elsewhere, and for the temporary folder, the next start cleans up.
		s := start(t, Config{Dir: strings.TrimPrefix(dir, "temporary")})
		if processArgs(pid) != nil {
			t.Errorf("server %d outlives the next start", pid)
		}
		if dir == "temporary" && exists(path) {
			t.Errorf("%s outlives the next start", path)
		}
		query(t, s.URL(), "SELECT 1")
	}
}

func TestFolderHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	parent, pid, _ := startParent(t, dir)
	_, err := Start(t.Context(), Config{Dir: dir})
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", parent.Process.Pid)) {
		t.Errorf("second owner got %v, want already running, pid %d", err, parent.Process.Pid)
	}
	if processArgs(pid) == nil {
		t.Error("the first owner's server is gone")
	}
}
