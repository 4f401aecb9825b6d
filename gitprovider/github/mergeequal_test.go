package github

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/gitprovider"
	"signalbox/gitprovider/githubsim"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// What we build is what the host's merge call would make: the same tree, the
// same parents, the same authors, and a conflict where the host sees one. The
// host merges in a work tree and we do not, so the two have little in common.
// Histories are random and small, and made of what real ones are made of.

// history draws a repository with a base branch, and a pull request off some
// commit of it.
type history struct {
	t    *rapid.T
	dir  string
	n    int // commits made
	tell []string
}

func (h *history) git(args ...string) string {
	out, err := h.try(args...)
	if err != nil {
		h.t.Fatalf("%v\nafter\n%s", err, strings.Join(h.tell, "\n"))
	}
	return out
}

func (h *history) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = h.dir
	when := "@" + strconv.Itoa(1_700_000_000+10*h.n) + " +0200"
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Alice", "GIT_AUTHOR_EMAIL=alice@example.org", "GIT_COMMITTER_NAME=Carol", "GIT_COMMITTER_EMAIL=carol@example.org",
		"GIT_AUTHOR_DATE="+when, "GIT_COMMITTER_DATE="+when)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

func (h *history) files() []string {
	return strings.Fields(h.git("ls-files", "--", "f*", "d/*", "e/*")) // no submodules among them
}

func (h *history) write(name, text string) {
	path := filepath.Join(h.dir, name)
	os.Remove(path) // it may be a link
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return // a file is where the folder should be
	}
	os.WriteFile(path, []byte(text), 0o644)
}

func body(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// edit makes one change to the work tree.
func (h *history) edit() {
	names := h.files()
	some := func() string { return rapid.SampledFrom(names).Draw(h.t, "file") }
	what := rapid.SampledFrom([]string{"line", "line", "line", "top", "new", "rename", "rename", "delete", "mode", "link", "submodule", "crlf", "folder", "same"}).Draw(h.t, "edit")
	if len(names) == 0 {
		what = "new"
	}
	h.tell = append(h.tell, "  "+what)
	switch what {
	case "line", "top", "crlf":
		name := some()
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		switch what {
		case "top":
			lines = append([]string{"top " + strconv.Itoa(rapid.IntRange(0, 2).Draw(h.t, "top"))}, lines...)
		case "crlf":
			for i := range lines {
				lines[i] = strings.TrimSuffix(lines[i], "\r") + "\r"
			}
		default:
			lines[rapid.IntRange(0, len(lines)-1).Draw(h.t, "line")] = "changed " + strconv.Itoa(rapid.IntRange(0, 3).Draw(h.t, "to"))
		}
		h.write(name, body(lines))
	case "new":
		h.write(rapid.SampledFrom([]string{"f4", "f5", "d/x", "e/y", "d", "f1/z"}).Draw(h.t, "name"), rapid.SampledFrom([]string{"one\n", "two\n", "no newline", ""}).Draw(h.t, "text"))
	case "rename":
		to := rapid.SampledFrom([]string{"f6", "f7", "d/moved", "e/moved", "f1", "f2"}).Draw(h.t, "to")
		os.MkdirAll(filepath.Join(h.dir, filepath.Dir(to)), 0o755)
		h.try("mv", "-f", "--", some(), to)
	case "delete":
		os.Remove(filepath.Join(h.dir, some()))
	case "mode":
		os.Chmod(filepath.Join(h.dir, some()), 0o755)
	case "link":
		name := some()
		os.Remove(filepath.Join(h.dir, name))
		os.Symlink(rapid.SampledFrom([]string{"f1", "nowhere"}).Draw(h.t, "to"), filepath.Join(h.dir, name))
	case "submodule":
		h.try("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat(rapid.SampledFrom([]string{"1", "2"}).Draw(h.t, "at"), 40)+",sub")
	case "folder":
		h.try("mv", "-f", "--", "d", "moved-d")
	}
}

// commit makes up to three changes and commits them, or an empty commit.
func (h *history) commit(label string) {
	h.n++
	h.tell = append(h.tell, label)
	for range rapid.IntRange(0, 3).Draw(h.t, label) {
		h.edit()
	}
	h.try("add", "-A", "--", ":!sub")
	h.git("commit", "-q", "--allow-empty", "--no-verify", "-m", label+" "+strconv.Itoa(h.n))
}

// draw makes the whole history and leaves branches base and pull.
func (h *history) draw() {
	h.git("init", "-q", "-b", "base", ".")
	os.WriteFile(filepath.Join(h.dir, ".git", "info", "attributes"), []byte("* !merge !text !eol\n"), 0o644)
	var lines []string
	for i := range 12 {
		lines = append(lines, "line "+strconv.Itoa(i))
	}
	for i, name := range []string{"f1", "f2", "f3", "d/a", "d/b"} {
		h.write(name, fmt.Sprintf("this is %s\n", name)+body(lines[i:]))
	}
	h.commit("first")
	if rapid.Bool().Draw(h.t, "attributes") {
		h.write(".gitattributes", "* text=auto\nf* merge=union\nd/* -merge\n")
		h.git("add", ".gitattributes")
	}
	h.commit("second")
	h.git("branch", "pull")
	for range rapid.IntRange(0, 3).Draw(h.t, "on base") {
		h.commit("base")
	}
	h.git("checkout", "-q", "-f", "pull")
	for range rapid.IntRange(1, 3).Draw(h.t, "on pull") {
		h.commit("pull")
		if rapid.IntRange(0, 4).Draw(h.t, "merge base into it") == 0 {
			h.n++
			h.tell = append(h.tell, "merge base")
			if _, err := h.try("merge", "-q", "--no-ff", "-m", "Merge base", "base"); err != nil {
				// Settled by hand, in favour of one side.
				h.git("checkout", "-f", "-q", "pull")
				h.git("clean", "-ffdxq")
				h.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "Merge base, keep ours", "base")
			}
		}
	}
}

// personsToken is a token with which git can be used as somebody.
func personsToken(w *world, login string) string {
	answer, err := http.Post(w.URL()+"/_control/token", "application/json", strings.NewReader(`{"login":"`+login+`"}`))
	w.must(err)
	defer answer.Body.Close()
	var out struct{ Token string }
	w.must(json.NewDecoder(answer.Body).Decode(&out))
	return out.Token
}

func TestWhatWeBuildIsWhatTheHostWouldMerge(t *testing.T) {
	w := newWorld(t)
	if set := goflag.Lookup("rapid.checks"); set.Value.String() == set.DefValue {
		defer goflag.Set("rapid.checks", set.DefValue)
		goflag.Set("rapid.checks", "12") // each makes three merges of two repositories
	}
	token := personsToken(w, "alice")
	number, conflicts, merged := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		name := fmt.Sprint("random-", number)
		h := &history{t: rt, dir: t.TempDir()}
		h.draw()
		for _, method := range methods {
			repo := name + "-" + methodNames[method]
			if err := w.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "acme", Name: repo, Creator: "alice", Files: map[string]*string{}}); err != nil {
				rt.Fatal(err)
			}
			url := strings.Replace(w.URL(), "://", "://x-access-token:"+token+"@", 1) + "/acme/" + repo + ".git"
			h.git("push", "-q", "-f", url, "base:refs/heads/main", "pull:refs/heads/pull")
			opened, err := w.OpenPull(w.ctx, githubsim.OpenPull{Repo: "acme/" + repo, Title: "Change", Author: "alice", Branch: "pull"})
			if err != nil {
				if method == queue.MergeCommit {
					return // nothing to merge: the host opens no such pull request
				}
				rt.Fatal(err)
			}
			if w.compare(rt, h, repo, opened, method) {
				merged++
			} else {
				conflicts++
			}
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d merged, %d conflicts", merged, conflicts)
	if number >= 100 && (merged == 0 || conflicts == 0) { // a dozen may well have no conflict
		t.Errorf("only one kind was tried: %d merged, %d conflicts", merged, conflicts)
	}
}

// compare builds a pull request both ways and reports whether it merges.
func (w *world) compare(rt *rapid.T, h *history, repo string, opened githubsim.Opened, method queue.MergeMethod) (merges bool) {
	r, err := w.c.Find(w.ctx, w.c.Host(), "acme", repo)
	if err != nil {
		rt.Fatal(err)
	}
	base := h.git("rev-parse", "base")
	k, err := w.c.conn(r)
	if err != nil {
		rt.Fatal(err)
	}
	step := queue.StepSpec{Step: queue.Step{Entry: "e", PR: int64(opened.Number), Head: opened.HeadSHA}, Title: "Change", Author: queue.Actor{Login: "alice"}}
	var ours []queue.Step
	var read []mirror.Commit // the new commits, newest first
	mine := w.c.withSource(w.ctx, k, r, func(src mirror.Source) (err error) {
		ours, err = w.c.mirrors.Chain(w.ctx, src, base, method, []queue.StepSpec{step})
		if err != nil {
			return err
		}
		for at := ours[0].Commit; at != base; at = read[len(read)-1].Parents[0] {
			one, err := w.c.mirrors.Read(w.ctx, src, at)
			if err != nil {
				return err
			}
			read = append(read, one...)
		}
		return nil
	})
	sha, theirs := w.MergePull(w.ctx, "acme/"+repo, opened.Number, "alice", methodNames[method])
	story := fmt.Sprintf("%s of\n%s\nours: %v\nthe host's: %v", method, strings.Join(h.tell, "\n"), mine, theirs)
	if mine != nil && gitprovider.KindOf(mine) != gitprovider.Conflict {
		rt.Fatalf("we failed: %s", story)
	}
	if (mine == nil) != (theirs == nil) {
		rt.Fatalf("only one of us merges: %s", story)
	}
	if mine != nil {
		return false
	}
	log, err := w.Log(w.ctx, "acme/"+repo, "main")
	if err != nil {
		rt.Fatal(err)
	}
	if log[0].SHA != sha || log[0].Tree != ours[0].Tree {
		rt.Fatalf("trees %s and, the host's, %s: %s", ours[0].Tree, log[0].Tree, story)
	}
	parents := strings.Join(log[0].Parents, " ")
	if method != queue.Rebase && strings.Join(read[0].Parents, " ") != parents {
		rt.Fatalf("parents %v and, the host's, %s: %s", read[0].Parents, parents, story)
	}
	if method == queue.Rebase && log[0].SHA != base { // the host makes no commit where nothing is left
		for i, k := range read {
			if log[i].Tree != k.Tree || strings.TrimSpace(log[i].Message) != strings.TrimSpace(k.Message) {
				rt.Fatalf("commit %d is %q (%s) and, the host's, %q (%s): %s", i, k.Message, k.Tree, log[i].Message, log[i].Tree, story)
			}
		}
	}
	return true
}
