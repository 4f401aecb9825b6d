package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// What somebody who can open a pull request, or who can put something into the
// environment of the server, might try. Each trap writes a file when it is
// stepped into.

// everything asks a mirror for all it can do with two pull requests.
func (w *world) everything(steps ...queue.StepSpec) {
	w.t.Helper()
	main := w.at("refs/heads/main")
	for i, method := range []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase} {
		run := buildRun(fmt.Sprint("r", i), method, len(steps), steps...)
		made := w.built(run)
		w.publish(made)
		if err := w.m.Advance(soon(w.t), w.src, "main", main, made.Commit()); err != nil {
			w.t.Fatal(err)
		}
		w.run(w.origin, "git", "update-ref", "refs/heads/main", main)
		if _, _, _, err := w.m.File(soon(w.t), w.src, made.Commit(), 1000, ".signalbox.yaml", "base.txt"); err != nil {
			w.t.Error(err)
		}
		if _, err := w.m.Differ(soon(w.t), w.src, main, made.Commit(), 10); err != nil {
			w.t.Error(err)
		}
	}
}

// both are two pull requests that change the same file, so that their merge
// has to look into it.
func (w *world) both(more ...string) []queue.StepSpec {
	w.t.Helper()
	return []queue.StepSpec{
		w.pull(1, "one", append([]string{"base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1)}, more...)...),
		w.pull(2, "two", "base.txt", strings.Replace(lines(20), "line 18\n", "B\n", 1)),
	}
}

func noTrap(t *testing.T, trap string) {
	t.Helper()
	if exists(trap) {
		t.Error("the trap was stepped into")
	}
}

// Neither git's variables nor our secrets nor anybody's configuration reach git.
// Not parallel: the environment is the whole program's.
func TestNothingOfTheServersEnvironmentReachesGit(t *testing.T) {
	w := newWorld(t)
	steps := w.both(".gitattributes", "* merge=evil filter=evil diff=evil\n")
	home := t.TempDir()
	trap := filepath.Join(home, "trap")
	evil := filepath.Join(home, "evil")
	write(t, evil, "#!/bin/sh\n: >"+trap+"\n")
	if err := os.Chmod(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(home, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"pre-push", "reference-transaction", "post-merge", "pre-auto-gc", "post-rewrite"} {
		if err := os.Symlink(evil, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	attributes := filepath.Join(home, "attributes")
	write(t, attributes, "* merge=evil\n")
	config := "[core]\n\thooksPath = " + hooks + "\n\tfsmonitor = " + evil + "\n\tattributesFile = " + attributes + "\n\tsshCommand = " + evil + "\n\taskPass = " + evil + "\n" +
		"[merge \"evil\"]\n\tdriver = " + evil + "\n[filter \"evil\"]\n\tclean = " + evil + "\n\tsmudge = " + evil + "\n[diff]\n\texternal = " + evil + "\n" +
		"[credential]\n\thelper = !" + evil + "\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = " + evil + "\n[log]\n\tshowSignature = true\n" +
		"[url \"ext::" + evil + " \"]\n\tinsteadOf = /\n[push]\n\tgpgSign = if-asked\n[protocol]\n\tallow = always\n"
	write(t, filepath.Join(home, ".gitconfig"), config)
	program, _, dir := wrapGit(t, `env >>"$dir/env"`)
	for name, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_GLOBAL": filepath.Join(home, ".gitconfig"), "GIT_CONFIG_SYSTEM": filepath.Join(home, ".gitconfig"),
		"GIT_DIR": home, "GIT_WORK_TREE": home, "GIT_INDEX_FILE": "/nonexistent", "GIT_OBJECT_DIRECTORY": home, "GIT_ALTERNATE_OBJECT_DIRECTORIES": home,
		"GIT_COMMON_DIR": home, "GIT_NAMESPACE": "evil", "GIT_EXEC_PATH": home, "GIT_TEMPLATE_DIR": home, "GIT_TRACE": trap, "GIT_TRACE2": trap, "GIT_CURL_VERBOSE": "1",
		"GIT_SSH_COMMAND": evil, "GIT_PROXY_COMMAND": evil, "GIT_ASKPASS": evil, "GIT_EDITOR": evil, "GIT_PAGER": evil, "GIT_EXTERNAL_DIFF": evil,
		"GIT_AUTHOR_DATE": "@1 +0000", "GIT_COMMITTER_DATE": "@1 +0000", "GIT_AUTHOR_NAME": "Mallory", "GIT_COMMITTER_NAME": "Mallory", "EMAIL": "mallory@example.org",
		"GIT_CONFIG_PARAMETERS": "'core.hooksPath'='" + hooks + "'", "GIT_REPLACE_REF_BASE": "refs/pull/", "GIT_NO_REPLACE_OBJECTS": "", "GIT_PROTOCOL_FROM_USER": "1",
		"SIGNALBOX_WEBHOOK_SECRET": "s3cret-of-the-server", "DATABASE_URL": "postgres://s3cret-of-the-server", "LD_PRELOAD": "",
	} {
		t.Setenv(name, value)
	}
	w.m = w.mirror(Config{Git: program})
	main, made := "", w.built(buildRun("r1", queue.Squash, 2, steps...))
	refused, err := w.m.Publish(soon(t), w.src, []Branch{{made.Branch, made.Commit()}})
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v %v", refused, err)
	}
	main = made.Base.Commit
	if err := w.m.Advance(soon(t), w.src, "main", main, made.Commit()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Differ(soon(t), w.src, main, made.Commit(), 10); err != nil {
		t.Error(err)
	}
	got, err := w.m.Read(soon(t), w.src, made.Commit())
	if err != nil || got[0].author.name == "Mallory" || got[0].When == 1 {
		t.Errorf("%+v %v", got, err)
	}
	noTrap(t, trap)
	seen := read(t, filepath.Join(dir, "env"))
	if seen == "" || strings.Contains(seen, "s3cret-of-the-server") || strings.Contains(seen, "Mallory") {
		t.Errorf("git sees\n%s", seen)
	}
}

// A mirror's own folder is ours. Should something get into it all the same, no
// program that its configuration or its hooks name is run.
func TestNoProgramThatTheMirrorNamesIsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := w.both(".gitattributes", "* merge=evil filter=evil\n")
	w.make(buildRun("r0", queue.Squash, 1, steps[0]))
	dir := w.m.at(w.src).dir
	trap := filepath.Join(t.TempDir(), "trap")
	for _, hook := range []string{"pre-push", "reference-transaction", "post-merge"} {
		if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "hooks", hook), []byte("#!/bin/sh\n: >"+trap+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.onMain()
	w.commit("main moves", "moved.txt", "x\n")
	w.push("HEAD:refs/heads/main")
	w.everything(steps...)
	noTrap(t, trap)

	config := filepath.Join(dir, "config")
	write(t, config, read(t, config)+"[merge \"evil\"]\n\tdriver = \": >"+trap+"\"\n[remote \"origin\"]\n\tuploadpack = \": >"+trap+"; git-upload-pack\"\n\treceivepack = \": >"+trap+"; git-receive-pack\"\n")
	if err := os.MkdirAll(filepath.Join(dir, "info"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "info", "attributes"), "* merge=evil\n")
	w.everything(steps...)
	noTrap(t, trap)
}

// What a pull request says in .gitattributes and .gitmodules, and under names that
// look like something else, is content: it is merged and nothing else.
func TestFilesOfAPullRequestAreContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	trap := filepath.Join(t.TempDir(), "trap")
	w.onMain()
	// The author's own git does not look at them either.
	write(t, filepath.Join(w.work, ".git", "info", "attributes"), "* !filter !text !eol !working-tree-encoding !ident !merge\n")
	for name, text := range map[string]string{
		".gitattributes": "*.txt merge=union filter=lfs text eol=crlf working-tree-encoding=UTF-16 ident\n",
		".gitmodules":    "[submodule \"--upload-pack=: >" + trap + "\"]\n\tpath = sub\n\turl = ext::sh -c ': >" + trap + "'\n",
		"-rf":            "x\n", "--help": "x\n", "a\nb\tc": "x\n", "$(: >trap)": "x\n", "\x1b[2J\u202egpj.exe": "x\n", ":(top)x": "x\n", "HEAD": "x\n",
	} {
		write(t, filepath.Join(w.work, name), text)
	}
	w.commit("odd names", "base.txt", strings.Replace(lines(20), "line 1\n", "A\r\n", 1))
	w.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
	w.git("commit", "-q", "-m", "a submodule")
	one := w.open(1, "one")
	w.git("reset", "-q", "--hard")
	two := w.pull(2, "two", "base.txt", strings.Replace(lines(20), "line 18\n", "B\n", 1))
	w.everything(one, two)
	noTrap(t, trap)
	made := w.built(buildRun("r9", queue.Squash, 2, one, two))
	w.publish(made)
	want := strings.Replace(strings.Replace(lines(20), "line 1\n", "A\r\n", 1), "line 18\n", "B\n", 1)
	if got := w.run(w.origin, "git", "cat-file", "blob", made.Commit()+":base.txt") + "\n"; got != want {
		t.Errorf("merged to %q", got)
	}
	if got := w.run(w.origin, "git", "ls-tree", made.Commit(), "sub"); !strings.HasPrefix(got, "160000 commit 1111") {
		t.Errorf("the submodule is %q", got)
	}
}

// Union merges that a tree asks for are not made, as the host does not make them.
func TestAConflictIsOneWhateverTheAttributesSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.pull(1, "one", ".gitattributes", "* merge=union\n", "base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1))
	two := w.pull(2, "two", ".gitattributes", "* merge=union\n", "base.txt", strings.Replace(lines(20), "line 1\n", "B\n", 1))
	if made := w.make(buildRun("r1", queue.MergeCommit, 2, one, two))[0]; made.Trouble != queue.TroubleConflict {
		t.Errorf("%+v", made)
	}
}

// Names that a conflict is reported with cannot move the cursor of whoever reads them.
func TestAConflictNamesPathsHarmlessly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := "\x1b[2J\u202etxt\nSigned-off-by: x <!-- @team #1"
	one := w.pull(1, "one", name, "1\n")
	two := w.pull(2, "two", name, "2\n")
	made := w.make(buildRun("r1", queue.MergeCommit, 2, one, two))[0]
	if made.Trouble != queue.TroubleConflict || strings.ContainsAny(made.Message, "\x1b\u202e\n") {
		t.Errorf("%q", made.Message)
	}
}

// A tree nested so deep that git crashes over it fails its pull request, and the
// mirror stays.
func TestAMergeThatCrashesGitIsTheChangesFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "base.txt", strings.Replace(lines(20), "line 1\n", "A\n", 1))
	git, record, dir := wrapGit(t, `case " $* " in *" merge-tree "*) if [ -e "$dir/crash" ]; then kill -SEGV $$; fi;; esac`)
	w.m = w.mirror(Config{Git: git})
	w.built(buildRun("r1", queue.Squash, 1, s))
	write(t, filepath.Join(dir, "crash"), "")
	made := w.make(buildRun("r2", queue.Squash, 1, s))[0]
	if made.Trouble != queue.TroubleConflict || made.Entry != s.Entry || !strings.Contains(made.Message, "git cannot merge it") {
		t.Errorf("%+v", made)
	}
	if n := strings.Count(read(t, record), " --progress "); n != 1 {
		t.Errorf("the mirror was fetched %d times", n)
	}
}

// One that would take gigabytes of memory does not get them.
func TestAMergeMayNotTakeAllMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" merge-tree "*) echo "$GIT_ALLOC_LIMIT" >"$dir/limit"; [ -e "$dir/small" ] && export GIT_ALLOC_LIMIT=1k;; esac`)
	w.m = w.mirror(Config{Git: git})
	big := strings.Repeat("a line of a long file\n", 2000)
	w.onMain()
	w.commit("long", "long.txt", big)
	w.push("HEAD:refs/heads/main")
	one, two := w.pull(1, "one", "long.txt", "A\n"+big), w.pull(2, "two", "long.txt", big+"B\n")
	w.built(buildRun("r1", queue.Squash, 2, one, two))
	if got := strings.TrimSpace(read(t, filepath.Join(dir, "limit"))); "GIT_ALLOC_LIMIT="+got != mergeMemory {
		t.Errorf("the limit is %q", got)
	}
	write(t, filepath.Join(dir, "small"), "") // the same limit for a file that a test can make
	if made := w.make(buildRun("r2", queue.Squash, 2, one, two))[0]; made.Trouble != queue.TroubleConflict || !strings.Contains(made.Message, "too large") {
		t.Errorf("%+v", made)
	}
}

// A run that hangs is ended in its time, and so is everything that it started.
func TestARunThatTakesTooLongLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" log "*) sleep 100000 & echo $! >"$dir/new"; mv "$dir/new" "$dir/helper"; wait;; esac`)
	w.m = w.mirror(Config{Git: git})
	main := w.at("refs/heads/main")
	w.m.cfg.Timeout = 3 * time.Second
	_, err := w.m.Read(soon(t), w.src, main)
	if err == nil || gitprovider.KindOf(err) != gitprovider.Transient || !strings.Contains(err.Error(), "took longer than 3s") {
		t.Errorf("%v", err)
	}
	dead(t, filepath.Join(dir, "helper"))
}

// A helper that git leaves behind without waiting for it is ended as well.
func TestAHelperThatOutlivesGitIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" log "*) sleep 100000 >/dev/null 2>&1 & echo $! >"$dir/helper";; esac`)
	w.m = w.mirror(Config{Git: git})
	if _, err := w.m.Read(soon(t), w.src, w.at("refs/heads/main")); err != nil {
		t.Fatal(err)
	}
	dead(t, filepath.Join(dir, "helper"))
}

// What git prints is bounded, and a run that prints without end is ended.
func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `case " $* " in *" cat-file "*) (sh -c 'echo $$ >"$0/new" && mv "$0/new" "$0/helper" && exec yes' "$dir") & wait;; esac`)
	w.m = w.mirror(Config{Git: git})
	_, _, long, err := w.m.File(soon(t), w.src, w.at("refs/heads/main"), 1000, "base.txt")
	if !long || err != nil {
		t.Errorf("%v %v", long, err)
	}
	dead(t, filepath.Join(dir, "helper"))
	b := &bounded{max: 10}
	fmt.Fprint(b, strings.Repeat("x", 100))
	if b.buf.Len() != 10 {
		t.Errorf("%d bytes are kept", b.buf.Len())
	}
}

// Ctrl-C in the server's terminal goes to its process group, and git is not in it.
func TestGitHasAProcessGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _, dir := wrapGit(t, `cut -d' ' -f5 /proc/$$/stat >"$dir/group"`)
	w.m = w.mirror(Config{Git: git})
	if _, err := w.m.Read(soon(t), w.src, w.at("refs/heads/main")); err != nil {
		t.Fatal(err)
	}
	group, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(dir, "group"))))
	if err != nil {
		t.Fatal(err)
	}
	if ours, err := syscall.Getpgid(0); err != nil || group == ours || group == 0 {
		t.Errorf("git is in group %d, ours is %d (%v)", group, ours, err)
	}
}

// A redirect leads git nowhere: it would take the token along, to any address.
func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve("ghs_secret")
	var asked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer elsewhere.Close()
	from := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, elsewhere.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer from.Close()
	w.src.URL = from.URL + "/origin.git"
	_, err := w.m.Read(soon(t), w.src, w.at("refs/heads/main"))
	var known *gitprovider.Error
	if !errors.As(err, &known) || known.Kind != gitprovider.Transient || !strings.Contains(known.Message, "redirects git") {
		t.Errorf("%v", err)
	}
	if asked.Load() {
		t.Error("git went there")
	}
}

func TestOnlyPlainAddressesReachGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, record, _ := wrapGit(t, "")
	m, err := New(Config{Git: git, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before := read(t, record)
	for _, url := range []string{"", "ext::sh -c id", "ssh://x/y", "git@x:y", "file:///etc", w.origin, "-u", "--upload-pack=x", "https://x/y\nz", "http://x/ y", "git://x/y", "HTTP://x"} {
		w.src.URL = url
		if _, err := m.Read(soon(t), w.src, strings.Repeat("a", 40)); gitprovider.KindOf(err) != gitprovider.Denied {
			t.Errorf("%q: %v", url, err)
		}
	}
	if read(t, record) != before {
		t.Errorf("git was run: %s", read(t, record))
	}
}

// The second fence: should another address get there all the same, git refuses it.
func TestGitItselfRefusesOtherProtocols(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.m.at(w.src)
	for _, url := range []string{"ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", "ext::sh -c false", "ftp://127.0.0.1:1/x"} {
		c.src.URL = url
		if err := c.reachable(soon(t)); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The token is in no log and no error, whatever git says.
func TestTheTokenIsInNoLogAndNoError(t *testing.T) {
	t.Parallel()
	const token = "ghs_SecretSecretSecret"
	w := newWorld(t)
	git, _, dir := wrapGit(t, `if [ -e "$dir/talk" ]; then env >&2; printf 'x-access-token:`+token+`\n`+token+`\n' >&2; exit 128; fi`)
	log := &locked{}
	w.m = w.mirror(Config{Git: git, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.serve(token)
	main := w.at("refs/heads/main")
	if _, err := w.m.Read(soon(t), w.src, main); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "talk"), "")
	_, err := w.m.Make(soon(t), w.src, []queue.BuildRun{buildRun("r1", queue.Squash, 1, queue.StepSpec{Step: queue.Step{PR: 1, Head: main}})})
	c := w.m.at(w.src)
	var run *runError
	if !errors.As(err, &run) || !strings.Contains(run.stderr, "[token]") {
		t.Fatalf("%v", err)
	}
	for _, text := range []string{err.Error(), log.String()} {
		if strings.Contains(text, token) || strings.Contains(text, c.basic()) {
			t.Errorf("it is in\n%s", text)
		}
	}
}

// locked is a buffer that several goroutines write to.
type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Heads and commits that are no ids never reach git.
func TestOnlyIDsOfCommitsReachGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.pull(1, "one", "1.txt", "1\n")
	for _, id := range []string{"main", "HEAD", "-x", "--all", "--upload-pack=x", strings.Repeat("A", 40), strings.Repeat("a", 39), "refs/heads/main", "a..b", ""} {
		s := one
		s.Commit = id
		if id != "" {
			if _, err := w.m.Make(soon(t), w.src, []queue.BuildRun{buildRun("r1", queue.Squash, 1, s)}); err == nil {
				t.Errorf("step at %q was built", id)
			}
		}
		if _, err := w.m.Read(soon(t), w.src, id); err == nil {
			t.Errorf("read %q", id)
		}
		if _, err := w.m.Differ(soon(t), w.src, id, one.Head, 1); err == nil {
			t.Errorf("compared %q", id)
		}
		if _, err := w.m.Chain(soon(t), w.src, id, queue.Squash, []queue.StepSpec{one}); err == nil {
			t.Errorf("built on %q", id)
		}
		s = one
		s.Head = id
		if _, err := w.m.Chain(soon(t), w.src, one.Head, queue.Squash, []queue.StepSpec{s}); err == nil {
			t.Errorf("built %q", id)
		}
		if _, err := w.m.Publish(soon(t), w.src, []Branch{{"signalbox/x", id}}); err == nil {
			t.Errorf("published %q", id)
		}
		if err := w.m.Advance(soon(t), w.src, "main", id, one.Head); err == nil {
			t.Errorf("advanced from %q", id)
		}
	}
}

// Git's replacement objects and grafts, which anybody can push as references,
// change nothing of what is merged.
func TestReplacedObjectsAreNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	first := w.built(buildRun("r1", queue.Squash, 1, s))
	c := w.m.at(w.src)
	other := strings.TrimSpace(w.run(c.dir, "git", "commit-tree", "-m", "another", w.run(w.origin, "git", "rev-parse", "main^{tree}")))
	w.run(c.dir, "git", "update-ref", "refs/replace/"+s.Head, other)
	if again := w.built(buildRun("r1", queue.Squash, 1, s)); again.Commit() != first.Commit() {
		t.Errorf("%s, then %s", first.Commit(), again.Commit())
	}
}
