package githubsim

// The in-process half of the git side against git itself: histories, trees
// and diffs made at random.

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func newStore(t *testing.T) *gitStore {
	t.Helper()
	g, err := createStore(t.Context(), filepath.Join(t.TempDir(), "r.git"), "main", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

// randomHistory makes n commits with one to three parents each and clocks
// that are not to be trusted.
func randomHistory(t *testing.T, g *gitStore, dice *rand.Rand, n int) []string {
	t.Helper()
	tree, err := g.edit("", files("a", "a"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range n {
		who := signature{"dev", "dev@example.com", time.Unix(1_700_000_000+dice.Int64N(100), 0).UTC()}
		c := &commit{Tree: tree, Author: who, Committer: who, Message: fmt.Sprint(i)}
		for range min(i, 1+dice.IntN(3)) {
			if p := all[max(0, len(all)-1-dice.IntN(6))]; !slices.Contains(c.Parents, p) {
				c.Parents = append(c.Parents, p)
			}
		}
		if err := g.writeCommit(c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c.SHA)
	}
	return all
}

// The clocks of this history lie, which misleads git's own a..b and
// merge-base; so git is asked for whole histories only, and sets do the rest.
func TestWalksAgreeWithGit(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(42, 1))
	g := newStore(t)
	all := randomHistory(t, g, dice, 40)
	reach := map[string][]string{}
	for _, sha := range all {
		out, err := runGit(t.Context(), g.dir, "rev-list", sha)
		if err != nil {
			t.Fatal(err)
		}
		reach[sha] = strings.Fields(out)
	}
	for range 400 {
		a, b := all[dice.IntN(len(all))], all[dice.IntN(len(all))]
		commits, err := g.between(a, b)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(reach[b]), func(sha string) bool { return slices.Contains(reach[a], sha) })
		if len(commits) != len(want) || slices.ContainsFunc(commits, func(c *commit) bool { return !slices.Contains(want, c.SHA) }) {
			t.Fatalf("%.7s..%.7s: %d commits, want %d", a, b, len(commits), len(want))
		}
		ancestor, err := g.isAncestor(a, b)
		if err != nil || ancestor != slices.Contains(reach[b], a) {
			t.Fatalf("%.7s is an ancestor of %.7s: %v, %v", a, b, ancestor, err)
		}
		base, err := g.mergeBase(a, b)
		if err != nil {
			t.Fatal(err)
		}
		common := slices.DeleteFunc(slices.Clone(reach[b]), func(sha string) bool { return !slices.Contains(reach[a], sha) })
		better := func(sha string) bool { return sha != base && slices.Contains(reach[sha], base) }
		if len(common) > 0 && (!slices.Contains(common, base) || slices.ContainsFunc(common, better)) {
			t.Fatalf("%.7s is not a best common ancestor of %.7s and %.7s", base, a, b)
		}
	}
}

func TestTreesAgreeWithGit(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(7, 1))
	g := newStore(t)
	tree := ""
	want := map[string]string{}
	for i := range 60 {
		path := fmt.Sprintf("%c/%c.txt", 'a'+rune(dice.IntN(4)), 'a'+rune(dice.IntN(4)))
		if dice.IntN(3) == 0 {
			path = path[:1] + ".txt"
		}
		edit := map[string]*string{path: nil}
		if dice.IntN(4) > 0 {
			content := fmt.Sprint(i, "\n")
			edit[path] = &content
			want[path] = content
		} else {
			delete(want, path)
		}
		before := tree
		var err error
		if tree, err = g.edit(before, edit); err != nil {
			t.Fatal(err)
		}
		if before != "" {
			compareDiff(t, g, before, tree)
		}
	}
	out, err := runGit(t.Context(), g.dir, "ls-tree", "-r", "--name-only", tree)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(out); len(got) != len(want) {
		t.Errorf("git lists %v, want %d files", got, len(want))
	}
	for path, content := range want {
		e, err := g.lookup(tree, path)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := g.blob(e.SHA); err != nil || string(data) != content {
			t.Errorf("%s is %q, %v", path, data, err)
		}
	}
	if _, err := runGit(t.Context(), g.dir, "fsck", "--full", "--strict"); err != nil {
		t.Error(err)
	}
}

func compareDiff(t *testing.T, g *gitStore, before, after string) {
	t.Helper()
	changes, err := g.diff(before, after, false)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range changes {
		got += strings.ToUpper(c.Status[:1]) + "\t" + c.Path + "\n"
	}
	want, err := runGit(t.Context(), g.dir, "diff-tree", "-r", "--name-status", "--no-renames", before, after)
	if err != nil {
		t.Fatal(err)
	}
	want = strings.ReplaceAll(want, "D\t", "R\t") // "removed" in GitHub's words
	if got != want {
		t.Fatalf("diff:\n%s\ngit has:\n%s", got, want)
	}
}

func TestRefsMoveTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	g := newStore(t)
	all := randomHistory(t, g, rand.New(rand.NewPCG(1, 1)), 2)
	set := func(updates ...refUpdate) error { return g.updateRefs(updates...) }
	if err := set(refUpdate{Ref: "refs/heads/a", New: all[0]}, refUpdate{Ref: "refs/heads/b", New: all[0]}); err != nil {
		t.Fatal(err)
	}
	err := set(refUpdate{Ref: "refs/heads/a", Old: all[0], New: all[1]}, refUpdate{Ref: "refs/heads/b", Old: all[1], New: all[1]})
	if err == nil {
		t.Fatal("a wrong old value was accepted")
	}
	if err := set(refUpdate{Ref: "refs/heads/a/b", New: all[0]}); err == nil {
		t.Fatal("a branch below a branch was accepted")
	}
	out, _ := runGit(t.Context(), g.dir, "for-each-ref", "--format=%(objectname)")
	if strings.Count(out, all[0]) != 2 {
		t.Errorf("refs are\n%s", out)
	}
	if err := set(refUpdate{Ref: "refs/heads/a", Old: all[0]}, refUpdate{Ref: "refs/heads/b", New: all[1], AnyOld: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.commit("refs/heads/a"); err == nil {
		t.Error("a deleted ref is there")
	}
}

func TestMalformedPushesAreRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "0", "zzzz", "0003", "ffff", "0008abcd", "000800000000"} {
		if commands, _, err := parsePush([]byte(body)); err == nil && len(commands) > 0 {
			t.Errorf("%q: %v", body, commands)
		}
	}
	line := strings.Repeat("0", 40) + " " + strings.Repeat("1", 40) + " refs/heads/x\x00 report-status side-band-64k"
	commands, caps, err := parsePush(fmt.Appendf(nil, "%04x%s0000PACK", len(line)+4, line))
	if err != nil || len(commands) != 1 || commands[0] != (pushCommand{new: strings.Repeat("1", 40), ref: "refs/heads/x"}) || !strings.Contains(caps, "side-band-64k") {
		t.Errorf("%v %q %v", commands, caps, err)
	}
}
