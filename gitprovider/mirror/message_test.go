package mirror

import (
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/queue"
)

// BC-70: whatever a title is made of, it is text, one line of it, and nobody is
// called by it.
func TestTitlesAreInert(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ title, given, merge, squash string }{
		{"Add a thing", "", "Merge pull request #7: Add a thing", "Add a thing (#7)"},
		{"Add a thing", "Better title", "Better title (#7)", "Better title (#7)"},
		{"", "", "Merge pull request #7", "Merge pull request #7"},
		{"  a\r\n\x00b\tc  ", "", "Merge pull request #7: a b c", "a b c (#7)"},
		{"#42: hidden as a comment", "", "Merge pull request #7: PR: #42: hidden as a comment", "PR: #42: hidden as a comment (#7)"},
		{"Co-authored-by: X <x@y>", "", "Merge pull request #7: PR: Co-authored-by: X <x@y>", "PR: Co-authored-by: X <x@y> (#7)"},
		{"ünï <!-- secret --> code <!-- open", "", "Merge pull request #7: ünï code", "ünï code (#7)"},
		{"thanks @alice, mail a@b.c", "", "Merge pull request #7: thanks @\u200balice, mail a@b.c", "thanks @\u200balice, mail a@b.c (#7)"},
		{"${PR_REFS} {{ x }} $(id) `id` \\n \"q\"", "", "Merge pull request #7: ${PR_REFS} {{ x }} $(id) `id` \\n \"q\"", "${PR_REFS} {{ x }} $(id) `id` \\n \"q\" (#7)"},
		{"\u202eevil\u200f", "", "Merge pull request #7: evil", "evil (#7)"},
		{"bad \xff utf8", "", "Merge pull request #7: bad � utf8", "bad � utf8 (#7)"},
	} {
		s := queue.StepSpec{Step: queue.Step{PR: 7}, Title: c.title, CommitTitle: c.given}
		if got := Title(queue.MergeCommit, s); got != c.merge {
			t.Errorf("merge %q: %q, want %q", c.title, got, c.merge)
		}
		if got := Title(queue.Squash, s); got != c.squash {
			t.Errorf("squash %q: %q, want %q", c.title, got, c.squash)
		}
	}
	long := inert(strings.Repeat("😀", 400))
	if utf8.RuneCountInString(long) != maxTitle || !utf8.ValidString(long) {
		t.Errorf("%d characters", utf8.RuneCountInString(long))
	}
}

func FuzzTitle(f *testing.F) {
	f.Add("a <!-- b --> @c\n#d", "x")
	f.Fuzz(func(t *testing.T, title, given string) {
		got := Title(queue.Squash, queue.StepSpec{Step: queue.Step{PR: 7}, Title: title, CommitTitle: given})
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\n\r") || strings.HasPrefix(got, "#") || !strings.Contains(got, "#7") {
			t.Errorf("%q, %q: %q", title, given, got)
		}
	})
}

// BC-71: who wrote what survives a squash.
func TestASquashCreditsEverybodyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onMain()
	by := func(name, email, message, file string) {
		w.clock += 10
		w.commit("x", file, "x\n")
		w.git("commit", "-q", "--amend", "--author", name+" <"+email+">", "-m", message)
	}
	by("dependabot[bot]", "bot@users.noreply.github.com", "bot", "1")
	by("Alice Smith", "Alice@Users.noreply.github.com", "human\n\nCo-authored-by: Carol <carol@example.org>\nco-authored-by: dup <CAROL@example.org>", "2")
	by("Bob A b C", "bob@example.org", "bob", "3")
	by("Bob again", "BOB@example.org", "bob\n\nCo-authored-by: Alice <7+alice@users.noreply.github.com>", "4")
	s := w.open(1, "Title @team\nwith lines")
	made := w.built(buildRun("r1", queue.Squash, 1, s))
	w.publish(made)
	got := w.run(w.origin, "git", "log", "-1", "--format=%an|%ae|%cn|%B", made.Commit())
	want := "Alice Smith|Alice@Users.noreply.github.com|signalbox[bot]|Title @\u200bteam with lines (#1)\n\n" +
		"Co-authored-by: dependabot[bot] <bot@users.noreply.github.com>\n" +
		"Co-authored-by: Carol <carol@example.org>\n" +
		"Co-authored-by: Bob A b C <bob@example.org>"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if trailers := w.run(w.origin, "git", "log", "-1", "--format=%(trailers:only)", made.Commit()); strings.Count(trailers, "\n") != 2 {
		t.Errorf("trailers are %q", trailers)
	}
}

func TestNamesAndAddressesCannotBreakACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	for _, login := range []string{"A <b> C", "x\ny", "\x00", "<>", "..", ""} {
		s.Author = queue.Actor{Login: login, ID: 9}
		made := w.built(buildRun("r1", queue.Squash, 1, s))
		w.publish(made)
		raw := w.run(w.origin, "git", "cat-file", "commit", made.Commit())
		if n := strings.Count(raw, "\nauthor "); n != 1 {
			t.Errorf("login %q makes %q", login, raw)
		}
	}
	w.run(w.origin, "git", "fsck", "--strict", "--no-dangling")
}

func TestAMergeSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	s := queue.StepSpec{Step: queue.Step{PR: 7}, Title: "Add a thing", Author: queue.Actor{Login: "alice"}}
	if got := Title(queue.MergeCommit, s); got != "Merge pull request #7 from alice: Add a thing" {
		t.Error(got)
	}
}
