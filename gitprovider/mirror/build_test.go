package mirror

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/queue"
)

var methods = []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase}

// A chain's trees are those that git itself makes with a work tree.
func TestTreesEqualThoseOfPlainGit(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.pull(1, "change the top", "base.txt", strings.Replace(lines(20), "line 1\n", "LINE 1\n", 1))
			w.pull(2, "change the bottom", "base.txt", strings.Replace(lines(20), "line 18\n", "LINE 18\n", 1), "new/two.txt", "2\n")
			w.commit("and more", "more.txt", "more\n")
			two := w.open(2, "change the bottom")
			// main moves on, so that nothing is a fast-forward
			w.onMain()
			w.commit("meanwhile", "meanwhile.txt", "x\n")
			w.push("HEAD:refs/heads/main")

			made := w.built(buildRun("r1", method, 1, one, two))
			w.publish(made)

			w.onMain()
			for _, s := range []queue.StepSpec{one, two} {
				switch method {
				case queue.MergeCommit:
					w.git("merge", "-q", "--no-ff", "-m", "m", s.Head)
				case queue.Squash:
					w.git("merge", "-q", "--squash", s.Head)
					w.git("commit", "-q", "-m", "s")
				case queue.Rebase:
					w.git("cherry-pick", w.at("refs/heads/main")+".."+s.Head)
				}
				i := 0
				if s.PR == 2 {
					i = 1
				}
				if want := w.git("rev-parse", "HEAD^{tree}"); made.Chain[i].Tree != want {
					t.Errorf("step %d has tree %s, plain git has %s", i, made.Chain[i].Tree, want)
				}
			}
			if got := w.at("refs/heads/" + made.Branch); got != made.Commit() {
				t.Errorf("the branch is at %s, not at %s", got, made.Commit())
			}
			if made.Base.Commit != w.at("refs/heads/main") || made.Base.Tree != w.at("refs/heads/main^{tree}") {
				t.Errorf("base is %+v", made.Base)
			}
			first := w.run(w.origin, "git", "log", "--first-parent", "--format=%s|%an|%ae|%cn", "main.."+made.Branch)
			want := map[queue.MergeMethod]string{
				queue.MergeCommit: "Merge pull request #2 from alice: change the bottom|signalbox[bot]|signalbox[bot]@users.noreply.github.com|signalbox[bot]\n" +
					"Merge pull request #1 from alice: change the top|signalbox[bot]|signalbox[bot]@users.noreply.github.com|signalbox[bot]",
				queue.Squash: "change the bottom (#2)|Alice|7+alice@users.noreply.github.com|signalbox[bot]\n" +
					"change the top (#1)|Alice|7+alice@users.noreply.github.com|signalbox[bot]",
				queue.Rebase: "and more|Alice|7+alice@users.noreply.github.com|signalbox[bot]\n" +
					"change the bottom|Alice|7+alice@users.noreply.github.com|signalbox[bot]\n" +
					"change the top|Alice|7+alice@users.noreply.github.com|signalbox[bot]",
			}[method]
			if first != want {
				t.Errorf("the history is\n%s\nwant\n%s", first, want)
			}
		})
	}
}

// Whoever builds a chain again, in another folder and later, gets the same commits.
func TestTheSameRunMakesTheSameCommits(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		w := newWorld(t)
		one := w.pull(1, "one", "1.txt", "1\n")
		two := w.pull(2, "two", "2.txt", "2\n")
		run := buildRun("r1", method, 2, one, two)
		first := w.built(run)
		w.clock += 100_000
		w.m = w.mirror(Config{})
		again := w.built(run)
		if first.Commit() != again.Commit() {
			t.Errorf("%s: %s, then %s", method, first.Commit(), again.Commit())
		}
		w.publish(first)
		w.publish(again)
	}
}

// A chain whose beginning is built already continues on those very commits,
// fetched from the host if need be.
func TestKnownStepsAreReused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.pull(1, "one", "1.txt", "1\n"), w.pull(2, "two", "2.txt", "2\n")
	first := w.built(buildRun("r1", queue.Squash, 1, one))
	w.publish(first)
	one.Step = first.Chain[0]
	one.Title = "renamed since" // would make another commit
	w.m = w.mirror(Config{})
	run := buildRun("r2", queue.Squash, 1, one, two)
	run.Base = first.Base
	second := w.built(run)
	w.publish(second)
	if parent := w.at(second.Commit() + "^"); parent != first.Commit() {
		t.Errorf("step 2 stands on %s, not on %s", parent, first.Commit())
	}
	if second.Base.Commit != first.Base.Commit || second.Chain[0] != first.Chain[0] {
		t.Errorf("chain is %+v on %+v", second.Chain, second.Base)
	}

	// The host has lost the first run: it is built again.
	w.run(w.origin, "git", "update-ref", "-d", "refs/heads/"+first.Branch)
	w.run(w.origin, "git", "update-ref", "-d", "refs/heads/"+second.Branch)
	w.run(w.origin, "git", "gc", "-q", "--prune=now")
	w.m = w.mirror(Config{})
	run.Chain[0].Title = "one"
	if again := w.built(run); again.Chain[0].Commit != first.Commit() || again.Chain[1].Commit != second.Commit() {
		t.Errorf("built again: %+v", again.Chain)
	}
}

func TestRunsOfOneBuildShareSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.pull(1, "one", "1.txt", "1\n"), w.pull(2, "two", "2.txt", "2\n")
	made := w.make(buildRun("r1", queue.MergeCommit, 1, one), buildRun("r2", queue.MergeCommit, 1, one, two))
	if made[0].Trouble+made[1].Trouble != "" || made[1].Chain[0] != made[0].Chain[0] {
		t.Errorf("%+v\n%+v", made[0], made[1])
	}
	w.publish(made...)
	for _, m := range made {
		if w.at("refs/heads/"+m.Branch) != m.Commit() {
			t.Errorf("%s is not at %s", m.Branch, m.Commit())
		}
	}
}

func TestAConflictSaysWhoseItIsAndWithWhom(t *testing.T) {
	t.Parallel()
	top := func(text string) string { return strings.Replace(lines(20), "line 1\n", text+"\n", 1) }
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.pull(1, "a", "base.txt", top("A"))
			b := w.pull(2, "b", "other.txt", "b\n")
			c := w.pull(3, "c", "base.txt", top("C"))
			d := w.pull(4, "d", "keep.txt", "D\n")
			e := w.pull(5, "e", "keep.txt", "E\n")
			f := w.pull(6, "f", "new.txt", "F\n")
			g := w.pull(7, "g", "new.txt", "G\n")
			w.onMain()
			w.commit("main moves", "keep.txt", "M\n")
			w.push("HEAD:refs/heads/main")

			made := w.make(
				buildRun("r1", method, 1, a),
				buildRun("r2", method, 1, a, b),
				buildRun("r3", method, 1, a, b, c),
				buildRun("r4", method, 1, a, b, c, d), // includes c
				buildRun("r5", method, 1, a, b, e),
				buildRun("r6", method, 1, d, a),    // what is ahead does not merge
				buildRun("r7", method, 1, f, g, b), // two that are ahead do not merge with each other
			)
			type end struct {
				trouble     queue.Trouble
				entry, with queue.EntryID
			}
			want := []end{{}, {}, {queue.TroubleConflict, "entry-3", "entry-1"}, {queue.TroubleStale, "entry-3", ""},
				{queue.TroubleConflict, "entry-5", ""}, {queue.TroubleStale, "entry-4", ""}, {queue.TroubleConflict, "entry-7", "entry-6"}}
			for i, m := range made {
				if got := (end{m.Trouble, m.Entry, m.With}); got != want[i] {
					t.Errorf("run %d: %+v (%s), want %+v", i+1, got, m.Message, want[i])
				}
			}
			if !strings.Contains(made[2].Message, `pull request 3 does not merge with pull request 1: conflicts in "base.txt"`) {
				t.Errorf("message: %s", made[2].Message)
			}
			if !strings.Contains(made[4].Message, `does not merge with main: conflicts in "keep.txt"`) {
				t.Errorf("message: %s", made[4].Message)
			}
		})
	}
}

func TestWhatMovedMakesARunStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.pull(1, "one", "1.txt", "1\n")
	first := w.built(buildRun("r1", queue.Squash, 1, one))
	w.publish(first)

	// our own landing is no move
	w.run(w.origin, "git", "update-ref", "refs/heads/main", first.Commit())
	two := w.pull(2, "two", "2.txt", "2\n")
	known := one
	known.Step = first.Chain[0]
	chain := buildRun("r3", queue.Squash, 1, known, two)
	chain.Base = first.Base
	w.built(chain)

	// the host landed it with a commit of its own: same tree
	w.git("checkout", "-q", "--detach", first.Base.Commit) // before it landed
	w.commit("landed by the host", "1.txt", "1\n")
	w.push("HEAD:refs/heads/main")
	w.built(chain)

	// somebody else pushed: a stated base is used as it is
	w.commit("by hand", "hand.txt", "x\n")
	w.push("HEAD:refs/heads/main")
	run := buildRun("r2", queue.Squash, 1, one)
	run.Base = first.Base
	if made := w.built(run); made.Base.Commit != first.Base.Commit {
		t.Errorf("built on %s", made.Base.Commit)
	}
	// the pull request was pushed to, or is gone
	moved := w.pull(3, "three", "3.txt", "3\n")
	w.commit("more", "4.txt", "4\n")
	w.open(3, "three")
	if made := w.make(buildRun("r4", queue.Squash, 1, moved))[0]; made.Trouble != queue.TroubleStale || made.Entry != "entry-3" {
		t.Errorf("%+v", made)
	}
	gone := moved
	gone.PR, gone.Entry = 99, "entry-99"
	made := w.make(buildRun("r5", queue.Squash, 1, gone), buildRun("r6", queue.Squash, 1, two))
	if made[0].Trouble != queue.TroubleStale || made[1].Trouble != "" {
		t.Errorf("%+v", made)
	}
	// the target is gone
	lost := buildRun("r7", queue.Squash, 1, two)
	lost.Target = "release"
	if made := w.make(lost)[0]; made.Trouble != queue.TroubleStale {
		t.Errorf("%+v", made)
	}
}

// A pull request that changes nothing, one that main has already, and one
// with merges of main in it.
func TestOddPullRequestsStillMakeAStep(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		w := newWorld(t)
		nothing := w.pull(1, "nothing")
		w.onMain()
		there := w.open(2, "is main")
		w.pull(3, "x", "x.txt", "x\n")
		w.onMain()
		main := w.commit("on main", "m.txt", "m\n")
		w.push("HEAD:refs/heads/main")
		w.git("checkout", "-q", "--detach", w.at(pullRef(3)))
		w.clock += 10
		w.git("merge", "-q", "-m", "update branch", main)
		w.commit("y", "y.txt", "y\n")
		merged := w.open(3, "with a merge")

		made := w.built(buildRun("r1", method, 3, nothing, there, merged))
		w.publish(made)
		at := w.at("refs/heads/main")
		for i, s := range made.Chain {
			if s.Commit == "" || s.Commit == at {
				t.Errorf("%s: step %d has no commit of its own", method, i)
			}
			at = s.Commit
		}
		if made.Chain[1].Tree != w.at("refs/heads/main^{tree}") {
			t.Errorf("%s: an empty change has changed something", method)
		}
		if files := w.run(w.origin, "git", "ls-tree", "--name-only", made.Commit()); files != "base.txt\nkeep.txt\nm.txt\nx.txt\ny.txt" {
			t.Errorf("%s: files are %q", method, files)
		}
	}
}

// Squashing a branch that lags behind takes nothing back (BC-04).
func TestAStaleBranchUndoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.pull(1, "one line", "base.txt", strings.Replace(lines(20), "line 3\n", "LINE 3\n", 1))
	w.onMain()
	for i := range 30 {
		w.commit("c", "many/"+strings.Repeat("x", i+1), "x\n")
	}
	w.commit("far line", "base.txt", strings.Replace(lines(20), "line 19\n", "LINE 19\n", 1))
	w.push("HEAD:refs/heads/main")
	made := w.built(buildRun("r1", queue.Squash, 1, old))
	w.publish(made)
	if diff := w.run(w.origin, "git", "diff", "--stat", "--format=", "main", made.Commit()); !strings.Contains(diff, "1 file changed, 1 insertion(+), 1 deletion(-)") {
		t.Errorf("lands %s", diff)
	}
}

func TestALostOrBrokenMirrorIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"lost":      func(t *testing.T, dir string) { os.RemoveAll(dir) },
		"half":      func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "signalbox-ready")) },
		"no HEAD":   func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "HEAD")) },
		"no config": func(t *testing.T, dir string) { os.WriteFile(filepath.Join(dir, "config"), []byte("[["), 0o644) },
		"objects": func(t *testing.T, dir string) {
			filepath.WalkDir(filepath.Join(dir, "objects"), func(p string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					os.Chmod(p, 0o644)
					os.WriteFile(p, []byte("garbage"), 0o644)
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.pull(1, "one", "1.txt", "1\n")
			run := buildRun("r1", queue.Rebase, 1, one)
			first := w.built(run)
			dirs, _ := filepath.Glob(filepath.Join(w.m.cfg.Dir, "*.git"))
			if len(dirs) != 1 {
				t.Fatalf("mirrors: %v", dirs)
			}
			harm(t, dirs[0])
			if again := w.built(run); again.Commit() != first.Commit() {
				t.Errorf("%s, then %s", first.Commit(), again.Commit())
			}
		})
	}
}

func TestTheHostBeingAwayIsNoConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.pull(1, "one", "base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1))
	w.built(buildRun("r1", queue.Squash, 1, one))
	dirs, _ := filepath.Glob(filepath.Join(w.m.cfg.Dir, "*.git"))
	before, _ := os.Stat(dirs[0])
	if err := os.Rename(w.origin, w.origin+".away"); err != nil {
		t.Fatal(err)
	}
	made, err := w.m.Make(context.Background(), w.src, []queue.BuildRun{buildRun("r2", queue.Squash, 1, one)})
	if err == nil {
		t.Fatalf("made %+v", made)
	}
	if after, err := os.Stat(dirs[0]); err != nil || !os.SameFile(before, after) {
		t.Error("the mirror was thrown away for nothing")
	}
}

// A second run of the same changes is a commit of its own, so that what CI said
// of the first does not count for it; built again, it is the same one.
func TestEachRunIsACommitOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.pull(1, "one", "1.txt", "1\n")
			at := func(stamp int64) Made {
				s := one
				s.Stamp = stamp
				return w.built(buildRun("r", method, 1, s))
			}
			first, second := at(4102444800), at(4102444801)
			if first.Commit() == second.Commit() {
				t.Error("two runs share a commit")
			}
			if first.Chain[0].Tree != second.Chain[0].Tree {
				t.Error("the stamp changed the tree")
			}
			if again := at(4102444801); again.Commit() != second.Commit() {
				t.Error("the same run built twice is two commits")
			}
		})
	}
}
