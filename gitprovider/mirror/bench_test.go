package mirror

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/queue"
)

// What a large repository costs: its first copy, chains of many pull requests
// built on it, and the disk that is kept. Processor time is that of git's
// processes, which is what a busy machine does not blur.
//
//	go test ./gitprovider/mirror -run '^$' -bench Large -benchtime 1x
//
// SIGNALBOX_BENCH_FILES and SIGNALBOX_BENCH_PULLS choose other sizes.

func number(b *testing.B, name string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

// large makes a repository of many files, 100 a folder, and pull requests that
// change one each and add one.
func large(b *testing.B, files, pulls int) (origin string, steps []queue.StepSpec) {
	origin = filepath.Join(b.TempDir(), "origin.git")
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		cmd.Stdin = strings.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("git %s: %v %s", args[0], err, stderr.String())
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "--bare", "-b", "main", origin)
	for _, kv := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		git("", "-C", origin, "config", kv, "true")
	}
	name := func(i int) string { return fmt.Sprintf("d%02d/e%02d/file%06d.txt", i/10000%100, i/100%100, i) }
	var in strings.Builder
	commit := func(ref, from string) {
		fmt.Fprintf(&in, "commit %s\ncommitter Alice <7+alice@users.noreply.github.com> 1700000000 +0000\ndata 1\nx\n", ref)
		if from != "" {
			fmt.Fprintf(&in, "from %s\n", from)
		}
	}
	write := func(name, text string) {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	commit("refs/heads/main", "")
	for i := range files {
		write(name(i), fmt.Sprintf("file %d\n%s", i, lines(20)))
	}
	in.WriteString("\n")
	for n := 1; n <= pulls; n++ {
		i := n * (files / (pulls + 1))
		commit(pullRef(int64(n)), "refs/heads/main")
		write(name(i), fmt.Sprintf("file %d\n%sa line of pull request %d\n", i, lines(20), n))
		write(fmt.Sprintf("d00/e00/new%d.txt", n), "new\n")
		in.WriteString("\n")
	}
	// Main moves on in the files that they change, so that merges look inside.
	commit("refs/heads/main", "")
	for n := 1; n <= pulls; n++ {
		i := n * (files / (pulls + 1))
		write(name(i), fmt.Sprintf("file %d changed\n%s", i, lines(20)))
	}
	in.WriteString("\n")
	git(in.String(), "-C", origin, "fast-import", "--quiet", "--force")
	for n := 1; n <= pulls; n++ {
		id := strconv.Itoa(n)
		steps = append(steps, queue.StepSpec{
			Step:  queue.Step{Entry: queue.EntryID("entry-" + id), PR: int64(n), Head: git("", "-C", origin, "rev-parse", pullRef(int64(n)))},
			Title: "Pull request " + id, Author: queue.Actor{Login: "alice", ID: 7},
		})
	}
	return origin, steps
}

// spent is the processor time of all processes that were waited for.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func folderSize(dir string) (total int64) {
	filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

func BenchmarkLarge(b *testing.B) {
	files, pulls := number(b, "SIGNALBOX_BENCH_FILES", 100_000), number(b, "SIGNALBOX_BENCH_PULLS", 50)
	origin, steps := large(b, files, pulls)
	for _, method := range []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase} {
		b.Run(string(method), func(b *testing.B) {
			for range b.N {
				m, err := New(Config{Dir: b.TempDir(), AllowFile: true})
				if err != nil {
					b.Fatal(err)
				}
				src := Source{Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app"}, URL: origin}
				measure := func(what string, per int, do func()) {
					wall, cpu := time.Now(), spent()
					do()
					b.ReportMetric(float64(time.Since(wall).Milliseconds())/float64(per), what+"-ms")
					b.ReportMetric(float64((spent()-cpu).Milliseconds())/float64(per), what+"-cpu-ms")
				}
				build := func(run queue.BuildRun) Made {
					made, err := m.Make(b.Context(), src, []queue.BuildRun{run})
					if err != nil || made[0].Trouble != "" {
						b.Fatalf("%v %+v", err, made)
					}
					return made[0]
				}
				measure("first-copy", 1, func() {
					if _, _, err := m.Since(b.Context(), src, "main", "", 1); err != nil {
						b.Fatal(err)
					}
				})
				c := m.at(src)
				first := c.size()
				b.ReportMetric(float64(first)/(1<<20), "first-copy-MiB")
				var whole Made
				measure("chain-step", pulls, func() { whole = build(buildRun("r1", method, 1, steps...)) })
				known := append([]queue.StepSpec{}, steps...)
				for i := range known {
					known[i].Step = whole.Chain[i]
				}
				last := known[pulls-1]
				last.Commit, last.Tree, last.Stamp = "", "", 1_800_000_000
				known[pulls-1] = last
				again := buildRun("r2", method, 1, known...)
				again.Base = whole.Base
				measure("one-more", 1, func() { build(again) })
				measure("publish", 1, func() {
					if refused, err := m.Publish(b.Context(), src, []Branch{{"signalbox/pr-1/r1", whole.Commit()}}); err != nil || len(refused) > 0 {
						b.Fatal(refused, err)
					}
				})
				kept := folderSize(c.dir)
				b.ReportMetric(float64(kept)/(1<<20), "kept-MiB")
				b.ReportMetric(float64(kept-first)/(1<<10)/float64(pulls), "step-KiB")
				// What each run of a pull request alone costs from then on, with its
				// branch: the heads are known already, as they are after a retry.
				measure("run", pulls, func() {
					for i, step := range steps {
						made := build(buildRun(fmt.Sprint("alone", i), method, 1, step))
						if refused, err := m.Publish(b.Context(), src, []Branch{{fmt.Sprintf("signalbox/pr-%d/alone", i), made.Commit()}}); err != nil || len(refused) > 0 {
							b.Fatal(refused, err)
						}
					}
				})
				m.Close() // which ends the tidying beside the work
				if _, err := c.git(b.Context(), job{timeout: m.cfg.CloneTimeout, args: []string{"gc", "--quiet", "--prune=now"}}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(folderSize(c.dir))/(1<<20), "tidied-MiB")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
