package mirror

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// What is done to a mirror behind git's back, as shell commands in the mirror.
var harms = map[string]string{
	"deleted":   `rm -rf "$m"`,
	"emptied":   `rm -rf "$m"/* `,
	"truncated": `for f in "$m"/objects/pack/*.pack; do chmod u+w "$f"; : >"$f"; done`,
	"unindexed": `rm -f "$m"/objects/pack/*.idx; find "$m/objects" -type f -path '*/??/*' -delete`,
	"garbled":   `find "$m/objects" -type f -exec chmod u+w {} + -exec sh -c 'for f; do echo garbage >"$f"; done' sh {} +`,
}

// The mirror is a cache: whatever happens to it, and before whichever run of
// git, the work is done at the latest when it is asked for once more, and with
// the same result.
func TestAMirrorMayBreakAtAnyMoment(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(harms))
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.pull(1, "one", "base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1))
			w.onMain()
			w.commit("two", "base.txt", strings.Replace(lines(20), "line 18\n", "B\n", 1))
			w.commit("two again", "2.txt", "2\n")
			two := w.open(2, "two")
			main := w.at("refs/heads/main")
			chain := []queue.StepSpec{one, two}
			script := `n=$(cat "$dir/n" 2>/dev/null || echo 0); n=$((n+1)); echo $n >"$dir/n"
				m=; for a in "$@"; do case $a in --git-dir=*) m=${a#--git-dir=};; esac; done
				if [ -n "$m" ] && [ $n = "$(cat "$dir/at")" ]; then ` + harm + `; fi`
			git, _, dir := wrapGit(t, script)
			count := filepath.Join(dir, "n")

			// work is everything that is asked of a mirror; each is asked for
			// at most three times, as the engine does.
			var want string
			work := func(m *Mirrors) string {
				again := func(what string, do func() error) {
					var err error
					for range 3 {
						if err = do(); err == nil {
							return
						}
						if kind := gitprovider.KindOf(err); kind == gitprovider.Conflict || kind == gitprovider.Denied {
							break
						}
					}
					t.Fatalf("%s, harmed before run %s: %v", what, read(t, filepath.Join(dir, "at")), err)
				}
				var made []Made
				again("build and publish", func() (err error) {
					if made, err = m.Make(soon(t), w.src, []queue.BuildRun{buildRun("r1", queue.Rebase, 2, chain...)}); err != nil {
						return err
					}
					if made[0].Trouble != "" {
						t.Fatalf("harmed before run %s: %+v", read(t, filepath.Join(dir, "at")), made[0])
					}
					refused, err := m.Publish(soon(t), w.src, []Branch{{made[0].Branch, made[0].Commit()}})
					if len(refused) > 0 {
						t.Fatalf("harmed before run %s: %v", read(t, filepath.Join(dir, "at")), refused)
					}
					return err
				})
				tip := made[0].Commit()
				again("advance", func() error { return m.Advance(soon(t), w.src, "main", main, tip) })
				var seen []string
				again("read", func() error {
					got, ok, err := m.Since(soon(t), w.src, "main", main, 10)
					seen = []string{fmt.Sprint(ok, len(got)), tip}
					return err
				})
				again("file", func() error {
					_, body, _, err := m.File(soon(t), w.src, tip, 1000, "base.txt")
					seen = append(seen[:2], string(body))
					return err
				})
				again("chain", func() error {
					steps, err := m.Chain(soon(t), w.src, main, queue.Squash, chain)
					seen = append(seen[:3], fmt.Sprint(steps))
					return err
				})
				again("differ", func() error {
					paths, err := m.Differ(soon(t), w.src, main, tip, 10)
					seen = append(seen[:4], fmt.Sprint(paths))
					return err
				})
				w.run(w.origin, "git", "update-ref", "refs/heads/main", main)
				w.run(w.origin, "git", "update-ref", "-d", "refs/heads/"+made[0].Branch)
				return strings.Join(seen, "\n")
			}
			round := func(at int) int {
				os.Remove(count)
				write(t, filepath.Join(dir, "at"), fmt.Sprint(at))
				m := w.mirror(Config{Git: git})
				got := work(m)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("harmed before run %d:\n%s\nelse:\n%s", at, got, want)
				}
				var n int
				fmt.Sscan(read(t, count), &n)
				return n
			}
			runs := round(0)
			// A sample of all moments, another one for each harm: all of both take minutes.
			// "git version" and "git init" come first.
			for at := 3 + slices.Index(names, name); at <= runs; at += 3 * len(names) {
				round(at)
			}
		})
	}
}
