package mirror

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/queue"
)

// A description becomes the body of a commit message only where that is set,
// and then it is text: BC-61 (none at all) and BC-70 (everything at once).
func TestDescriptionsAreHarmlessInCommits(t *testing.T) {
	t.Parallel()
	nobody := func(string) bool { return false }
	for _, c := range []struct{ body, want string }{
		{"", "T\n"},
		{" \r\n\t\n ", "T\n"},
		{"Why.\r\n\r\nHow.\r\n", "T\n\nWhy.\n\nHow.\n"},
		{"a\n\n\n\n\nb   \n", "T\n\na\n\nb\n"},
		{"ünï 😀 <!-- hidden\nlines --> code", "T\n\nünï 😀  code\n"},
		{"before <!-- never closed\nSigned-off-by: X <x@y.z>", "T\n\nbefore\n"},
		{"merge-commit-title: Better\nthe rest", "T\n\nthe rest\n"},
		{"thanks @team/core and a@b.c", "T\n\nthanks @\u200bteam/core and a@b.c\n"},
		{"a\x00b\x1b[2Jc\u202ed\u2028e", "T\n\nab[2Jcd\ne\n"},
		{"${PR_REFS} {{ .Secret }} $(id) `id`", "T\n\n${PR_REFS} {{ .Secret }} $(id) `id`\n"},
		{"bad \xff utf8", "T\n\nbad � utf8\n"},
		{"Text.\n\nSigned-off-by: A <a@b.c>\nCo-authored-by: B <b@b.c>\nReviewed-by: C <c@b.c>",
			"T\n\nText.\n\nSigned-off-by: A <a@b.c>\nReviewed-by: C <c@b.c>\nCo-authored-by: B <b@b.c>\n"},
		{"Co-authored-by: B <b@b.c>\nco-AUTHORED-by: B again <B@b.c>\n\nText.", "T\n\nText.\n\nCo-authored-by: B <b@b.c>\n"},
		{"Text: with a colon\nand more", "T\n\nText: with a colon\nand more\n"},
	} {
		got := compose("T", harmless(c.body), nil, nobody)
		if got != c.want {
			t.Errorf("%q becomes\n%q, want\n%q", c.body, got, c.want)
		}
	}
	long := harmless(strings.Repeat("😀 ", maxBody))
	if n := utf8.RuneCountInString(long); n > maxBody+1 || !utf8.ValidString(long) {
		t.Errorf("%d characters", n)
	}
	who := []identity{{"B", "b@b.c"}, {"B", "B@B.C"}, {"A <x> Y", "a@b.c"}}
	got := compose("T", "Text.\n\nFixes: abc\nCo-authored-by: Me <me@b.c>", who, func(email string) bool { return email == "me@b.c" })
	if got != "T\n\nText.\n\nFixes: abc\nCo-authored-by: B <b@b.c>\nCo-authored-by: A x Y <a@b.c>\n" {
		t.Errorf("%q", got)
	}
}

func FuzzDescription(f *testing.F) {
	f.Add("a <!-- b --> @c\r\n\r\nCo-authored-by: A <a@b>\nX: y")
	f.Fuzz(func(t *testing.T, body string) {
		got := compose("T", harmless(body), []identity{{"Z", "z@z.z"}}, func(string) bool { return false })
		if !utf8.ValidString(got) || !strings.HasPrefix(got, "T\n\n") || strings.ContainsAny(got, "\x00\r\x1b") || strings.Contains(got, "<!--") {
			t.Errorf("%q becomes %q", body, got)
		}
		last := got[strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n\n")+2:]
		if !strings.Contains(last, "Co-authored-by: Z <z@z.z>\n") {
			t.Errorf("%q: the trailers are not last in %q", body, got)
		}
	})
}

func TestTheDescriptionIsInTheCommitWhereThatIsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	w.src.Body = func(_ context.Context, s queue.StepSpec) (string, error) {
		return "Why it is so.\n\nCo-authored-by: Bob <bob@example.org>\nCo-authored-by: Me <7+Alice@users.noreply.github.com>", nil
	}
	for method, want := range map[queue.MergeMethod]string{
		queue.MergeCommit: "Merge pull request #1 from alice: one\n\nWhy it is so.\n\nCo-authored-by: Bob <bob@example.org>\nCo-authored-by: Me <7+Alice@users.noreply.github.com>\n",
		queue.Squash:      "one (#1)\n\nWhy it is so.\n\nCo-authored-by: Bob <bob@example.org>\n",
		queue.Rebase:      "one\n",
	} {
		made := w.built(buildRun("r-"+string(method), method, 1, s))
		w.publish(made)
		if got := w.run(w.origin, "git", "log", "-1", "--format=%B", made.Commit()) + "\n"; got != want {
			t.Errorf("%s: %q", method, got)
		}
	}
}

// With a key every commit that lands is signed by it, and built again it is the
// same commit.
func TestCommitsAreSignedByTheKeyThatIsSet(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("there is no ssh-keygen here")
	}
	w := newWorld(t)
	dir := t.TempDir()
	key := func(name string, args ...string) string {
		w.run(dir, "ssh-keygen", append([]string{"-q", "-N", "", "-C", "test", "-f", filepath.Join(dir, name)}, args...)...)
		return filepath.Join(dir, name)
	}
	good := key("good", "-t", "ed25519")
	w.m = w.mirror(Config{SigningKey: good, Name: "Machine", Email: "machine@example.org"})
	w.onMain()
	w.commit("one", "1.txt", "1\n")
	w.commit("two", "2.txt", "2\n")
	s := w.open(1, "one")
	signers := filepath.Join(dir, "signers")
	write(t, signers, "machine@example.org "+read(t, good+".pub"))
	for _, method := range []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase} {
		run := buildRun("r-"+string(method), method, 1, s)
		made := w.built(run)
		w.publish(made)
		ours := "main.." + made.Commit()
		if method == queue.MergeCommit {
			ours = "-1 " + made.Commit()
		}
		got := w.run(w.origin, "git", append([]string{"-c", "gpg.ssh.allowedSignersFile=" + signers, "log", "--format=%G? %GS %cn"}, strings.Fields(ours)...)...)
		for line := range strings.Lines(got) {
			if strings.TrimSpace(line) != "G machine@example.org Machine" {
				t.Errorf("%s: %s", method, line)
			}
		}
		if got == "" {
			t.Errorf("%s: no commits", method)
		}
		m := w.m
		w.m = w.mirror(Config{SigningKey: good, Name: "Machine", Email: "machine@example.org"})
		if again := w.built(run); again.Commit() != made.Commit() {
			t.Errorf("%s: %s, then %s", method, made.Commit(), again.Commit())
		}
		w.m = m
	}

	open := key("open", "-t", "ed25519")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	w.run(dir, "ssh-keygen", "-q", "-N", "a passphrase", "-t", "ed25519", "-f", locked)
	for name, want := range map[string]string{
		filepath.Join(dir, "none"): "none", open: "only its owner", locked: "without a passphrase",
		key("ecdsa", "-t", "ecdsa"): "Ed25519 or RSA",
	} {
		if _, err := New(Config{Dir: t.TempDir(), SigningKey: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	if _, err := New(Config{Dir: t.TempDir(), SigningKey: key("rsa", "-t", "rsa", "-b", "2048")}); err != nil {
		t.Error(err)
	}
}
