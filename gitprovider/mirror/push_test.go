package mirror

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/gitprovider"
	"signalbox/queue"
)

func TestAdvanceIsCompareAndSwapAndFastForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.at("refs/heads/main")
	made := w.built(buildRun("r1", queue.MergeCommit, 1, w.pull(1, "one", "1.txt", "1\n")))
	other := w.built(buildRun("r2", queue.MergeCommit, 1, w.pull(2, "two", "2.txt", "2\n")))
	w.publish(made, other)
	kind := func(from, to string) gitprovider.Kind {
		err := w.m.Advance(soon(t), w.src, "main", from, to)
		if err == nil {
			return ""
		}
		return gitprovider.KindOf(err)
	}
	if k := kind(made.Commit(), main); k != gitprovider.Stale {
		t.Errorf("backwards: %q", k)
	}
	if k := kind(main, made.Commit()); k != "" || w.at("refs/heads/main") != made.Commit() {
		t.Errorf("forward: %q", k)
	}
	if k := kind(main, other.Commit()); k != gitprovider.Stale || w.at("refs/heads/main") != made.Commit() {
		t.Errorf("lost race: %q", k)
	}
}

func TestARefusalIsToldInFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := "#!/bin/sh\nwhile read old new ref; do case $ref in refs/heads/main|*/r2) echo 'error: GH006: Protected branch update failed for '$ref'.' >&2; echo 'error: At least 1 approving review is required.' >&2; exit 1;; esac; done\n"
	if err := os.WriteFile(filepath.Join(w.origin, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	main := w.at("refs/heads/main")
	made := w.built(buildRun("r1", queue.MergeCommit, 1, w.pull(1, "one", "1.txt", "1\n")))
	err := w.m.Advance(soon(t), w.src, "main", main, made.Commit())
	var known *gitprovider.Error
	if !errors.As(err, &known) || known.Kind != gitprovider.Denied ||
		!strings.Contains(known.Message, "GH006") || !strings.Contains(known.Message, "approving review is required") {
		t.Errorf("%v", err)
	}
	refused, err := w.m.Publish(soon(t), w.src, []Branch{{"signalbox/pr-1/r2", made.Commit()}})
	if err != nil || !strings.Contains(refused["signalbox/pr-1/r2"], "GH006") {
		t.Errorf("%v %v", refused, err)
	}
}

// The token goes to git through the environment, and only the token's host gets it.
func TestTheTokenIsInNoArgumentAddressOrFile(t *testing.T) {
	t.Parallel()
	const token = "ghs_SecretSecretSecret"
	w := newWorld(t)
	w.serve(token)
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	wrapper, record := filepath.Join(dir, "git"), filepath.Join(dir, "record")
	script := "#!/bin/sh\nfor a in \"$@\"; do printf 'arg %s\\n' \"$a\"; done >>" + record + "\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	mirrors := filepath.Join(dir, "mirrors")
	w.m = w.mirror(Config{Git: wrapper, Dir: mirrors})
	made := w.built(buildRun("r1", queue.Squash, 1, w.pull(1, "one", "base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1))))
	w.publish(made)
	if err := w.m.Advance(soon(t), w.src, "main", made.Base.Commit, made.Commit()); err != nil {
		t.Fatal(err)
	}
	basic := (&clone{src: w.src}).basic()
	look := func(name string) {
		text, err := os.ReadFile(name)
		if err == nil && (strings.Contains(string(text), token) || strings.Contains(string(text), basic)) {
			t.Errorf("the token stands in %s", name)
		}
	}
	look(record)
	filepath.WalkDir(mirrors, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			look(p)
		}
		return nil
	})

	// A token that is not taken is an operator's matter, and is not repeated in the message.
	w.src.Token = "ghs_WrongWrongWrong"
	_, err = w.m.Make(soon(t), w.src, []queue.BuildRun{buildRun("r2", queue.Squash, 1, w.pull(2, "two", "2.txt", "2\n"))})
	var remote *RemoteError
	if gitprovider.KindOf(err) != gitprovider.Denied || !errors.As(err, &remote) || remote.Status != 401 || strings.Contains(err.Error(), "Wrong") {
		t.Errorf("%v", err)
	}
}

func TestHostileNamesAreRefusedBeforeGitSeesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.pull(1, "one", "1.txt", "1\n")
	var runs []queue.BuildRun
	for _, name := range []string{"", "-x", "--upload-pack=touch /tmp/x", "a b", "a..b", "a\x00b", "a\nb", "/a", "a/", "a//b", "a.lock", ".a", "a/.b", "@", "a@{b", "a:b", "a*", "a?", "a[", "a~", "a^", `a\b`, "a.", "HEAD"} {
		if validBranch(name) {
			t.Errorf("%q passes for a branch", name)
		}
		run := buildRun("r1", queue.Squash, 1, one)
		run.Branch = name
		runs = append(runs, run)
		if _, err := w.m.Publish(soon(t), w.src, []Branch{{name, one.Head}}); err == nil {
			t.Errorf("published %q", name)
		}
		if err := w.m.Advance(soon(t), w.src, name, one.Head, one.Head); err == nil {
			t.Errorf("advanced %q", name)
		}
		run = buildRun("r1", queue.Squash, 1, one)
		run.Target = name
		if _, err := w.m.Make(soon(t), w.src, []queue.BuildRun{run}); err == nil {
			t.Errorf("target %q", name)
		}
	}
	for i, made := range w.make(runs...) {
		if made.Trouble != queue.TroubleDenied && i == 0 || made.Trouble == "" {
			t.Errorf("branch %q: %+v", made.Branch, made)
		}
	}
	runs = nil
	for _, name := range []string{"main", "feature/ünïcode", "a/b/c", "x$(touch)y", "rel-1.0", "#1", "a'b\"c;d|e&f", "refs/heads/main"} {
		run := buildRun("r9", queue.Squash, 1, one)
		run.Branch = "signalbox/" + name
		runs = append(runs, run)
	}
	w.publish(w.make(runs...)...)
	for _, run := range runs {
		if w.at("refs/heads/"+run.Branch) == "" {
			t.Errorf("%q is not there", run.Branch)
		}
	}
}

func TestReadsHistoryAndFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.at("refs/heads/main")
	made := w.built(buildRun("r1", queue.MergeCommit, 1, w.pull(1, "one", ".github/signalbox.yaml", "merge: {}\n", "big.txt", lines(1000))))
	w.publish(made)
	if err := w.m.Advance(soon(t), w.src, "main", base, made.Commit()); err != nil {
		t.Fatal(err)
	}
	gained, ok, err := w.m.Since(soon(t), w.src, "main", base, 10)
	if err != nil || !ok || len(gained) != 1 || gained[0].ID != made.Commit() || gained[0].Message != "Merge pull request #1 from alice: one\n" {
		t.Errorf("%+v %v %v", gained, ok, err)
	}
	if _, ok, err := w.m.Since(soon(t), w.src, "main", strings.Repeat("a", 40), 10); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	name, body, long, err := w.m.File(soon(t), w.src, made.Commit(), 100, ".signalbox.yaml", ".github/signalbox.yaml")
	if name != ".github/signalbox.yaml" || string(body) != "merge: {}\n" || long || err != nil {
		t.Errorf("%q %q %v %v", name, body, long, err)
	}
	if name, _, long, err = w.m.File(soon(t), w.src, made.Commit(), 100, "big.txt"); name != "big.txt" || !long || err != nil {
		t.Errorf("%q %v %v", name, long, err)
	}
	if name, _, _, err = w.m.File(soon(t), w.src, made.Commit(), 100, "none", ".github"); name != "" || err != nil {
		t.Errorf("%q %v", name, err)
	}
	paths, err := w.m.Differ(soon(t), w.src, base, made.Commit(), 1)
	if err != nil || len(paths) != 1 || paths[0] != `".github/signalbox.yaml"` {
		t.Errorf("%v %v", paths, err)
	}
}
