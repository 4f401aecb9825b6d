package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// wrapGit writes a program that stands in for git: it records its arguments,
// one run a line, in the file it returns second, runs the script, in which
// "$@" are the arguments and $dir is a folder of the test's, and then git.
func wrapGit(t *testing.T, script string) (program, record, dir string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	program, record = filepath.Join(dir, "git"), filepath.Join(dir, "record")
	text := "#!/bin/sh\ndir='" + dir + "'\necho \"$*\" >>'" + record + "'\n" + script + "\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, record, dir
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// poll waits for a condition for as long as a test may take.
func poll(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

// The first fetch of a repository belongs to no attempt: attempts come and go,
// each is told how far it is, and it is made once.
func TestTheFirstFetchOutlivesTheAttemptsThatWaitForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	git, record, dir := wrapGit(t, `case " $* " in *" --progress "*)
		printf 'remote: Counting objects: 5, done.\nReceiving objects:  43%% (430/1000), 1.2 MiB | 3 MiB/s\r' >&2
		: >"$dir/told"
		while ! [ -e "$dir/go" ]; do sleep 0.02; done;;
	esac`)
	w.m = w.mirror(Config{Git: git, ClonePatience: time.Millisecond})
	attempt := func() error {
		_, err := w.m.Make(soon(t), w.src, []queue.BuildRun{buildRun("r1", queue.Squash, 1, s)})
		return err
	}
	var cloning *CloningError
	if err := attempt(); !errors.As(err, &cloning) || gitprovider.KindOf(err) != gitprovider.Transient {
		t.Fatalf("first attempt: %v", err)
	}
	poll(t, soon(t), "git to tell", func() bool { return read(t, filepath.Join(dir, "told")) == "" && exists(filepath.Join(dir, "told")) })
	poll(t, soon(t), "progress", func() bool {
		err := attempt()
		var known *gitprovider.Error
		return errors.As(err, &known) && strings.Contains(known.Message, "first copy of github.com/acme/app") && strings.Contains(known.Message, "43% (430/1000), 1.2 MiB")
	})
	write(t, filepath.Join(dir, "go"), "")
	var err error
	poll(t, soon(t), "the first fetch", func() bool { err = attempt(); return !errors.As(err, &cloning) })
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(read(t, record), " --progress "); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

func TestCloseEndsAFirstFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" --progress "*) sleep 100000 & echo $! >"$dir/helper.new"; mv "$dir/helper.new" "$dir/helper"; wait;; esac`)
	w.m = w.mirror(Config{Git: git, ClonePatience: time.Millisecond})
	if _, err := w.m.Read(soon(t), w.src, w.at("refs/heads/main")); gitprovider.KindOf(err) != gitprovider.Transient || err == nil {
		t.Errorf("%v", err)
	}
	poll(t, soon(t), "the helper", func() bool { return exists(filepath.Join(dir, "helper")) })
	w.m.Close()
	dead(t, filepath.Join(dir, "helper"))
}

// dead waits until the process whose number stands in a file is gone.
func dead(t *testing.T, name string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, soon(t), "process "+strconv.Itoa(pid)+" to end", func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		// Nobody may have waited for it yet: a zombie is dead.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
}

func TestAFirstFetchThatFailsIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve("ghs_right")
	w.src.Token = "ghs_wrong"
	main := w.at("refs/heads/main")
	if _, err := w.m.Read(soon(t), w.src, main); gitprovider.KindOf(err) != gitprovider.Denied {
		t.Errorf("%v", err)
	}
	w.src.Token = "ghs_right"
	if got, err := w.m.Read(soon(t), w.src, main); err != nil || got[0].ID != main {
		t.Errorf("%v %v", got, err)
	}
}

func TestARepositoryWithoutADefaultBranchHasAMirrorToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.at("refs/heads/main")
	w.run(w.origin, "git", "symbolic-ref", "HEAD", "refs/heads/none")
	if got, err := w.m.Read(soon(t), w.src, main); err != nil || got[0].ID != main {
		t.Errorf("%v %v", got, err)
	}
	w.run(w.origin, "git", "update-ref", "-d", "refs/heads/main")
	w.m = w.mirror(Config{})
	if _, ok, err := w.m.Since(soon(t), w.src, "main", main, 10); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}

// A mirror above its cap is made anew, and one that cannot be smaller is refused.
func TestAMirrorIsNoBiggerThanItMayBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	run := []queue.BuildRun{buildRun("r1", queue.Squash, 1, s)}
	w.m = w.mirror(Config{MaxSize: 1})
	if _, err := w.m.Make(soon(t), w.src, run); gitprovider.KindOf(err) != gitprovider.Denied || !strings.Contains(err.Error(), "disk") {
		t.Errorf("%v", err)
	}

	w.m = w.mirror(Config{MaxSize: 100 << 10})
	w.make(run...)
	c := w.m.at(w.src)
	if !c.whole() || c.size() == 0 {
		t.Fatalf("%d bytes", c.size())
	}
	write(t, filepath.Join(c.dir, "objects", "pack", "pack-garbage.pack"), strings.Repeat("x", 200<<10))
	w.make(run...)
	if c.size() > 100<<10 {
		t.Errorf("%d bytes are left", c.size())
	}
}

// A fetch that would fill the disk is ended while it runs.
func TestAFetchThatGrowsTooBigIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" --progress "*)
		for a in "$@"; do case $a in --git-dir=*) to=${a#--git-dir=}/objects/pack;; esac; done
		sleep 100000 & echo $! >"$dir/helper"
		head -c 300000 /dev/zero >"$to/tmp_pack_half"
		wait;;
	esac`)
	w.m = w.mirror(Config{Git: git, MaxSize: 100 << 10, CloneTimeout: time.Hour, ClonePatience: time.Hour})
	w.m.weighEvery = time.Millisecond
	if _, err := w.m.Read(soon(t), w.src, w.at("refs/heads/main")); gitprovider.KindOf(err) != gitprovider.Denied {
		t.Errorf("%v", err)
	}
	dead(t, filepath.Join(dir, "helper"))
}

// Packing a large mirror takes longer than an attempt: the work goes on beside it.
func TestAMirrorIsPackedBesideTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, record, dir := wrapGit(t, `case " $* " in *" gc "*) sleep 100000 & echo $! >"$dir/new"; mv "$dir/new" "$dir/helper"; wait;; esac`)
	w.m = w.mirror(Config{Git: git})
	run := buildRun("r1", queue.Squash, 1, w.pull(1, "one", "1.txt", "1\n"))
	w.built(run)
	for i := range manyPacks { // without an index git does not look at them
		write(t, filepath.Join(w.m.at(w.src).dir, "objects", "pack", fmt.Sprintf("pack-%d.pack", i)), "x")
	}
	for range 3 {
		w.built(run)
	}
	poll(t, soon(t), "packing to begin", func() bool { return exists(filepath.Join(dir, "helper")) })
	w.built(run)
	if n := strings.Count(read(t, record), " gc "); n != 1 {
		t.Errorf("packed %d times", n)
	}
	w.m.Close()
	dead(t, filepath.Join(dir, "helper"))
}
