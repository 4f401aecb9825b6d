package flaky

import (
	"testing"

	"github.com/google/uuid"
)

func TestSameCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b Run
		want bool
	}{
		"same tree":                {Run{Tree: "t", Commit: "a"}, Run{Tree: "t", Commit: "b"}, true},
		"other tree, same commit":  {Run{Tree: "t", Commit: "a"}, Run{Tree: "u", Commit: "a"}, false},
		"same head and base":       {Run{Head: "h", Base: "b", Kind: PullRequest}, Run{Head: "h", Base: "b", Kind: PullRequest}, true},
		"same head, other base":    {Run{Head: "h", Base: "b", Commit: "h", Kind: PullRequest}, Run{Head: "h", Base: "c", Commit: "h", Kind: PullRequest}, false},
		"a head alone, of a pull":  {Run{Commit: "h", Kind: PullRequest}, Run{Commit: "h", Kind: PullRequest}, false},
		"one commit of main":       {Run{Commit: "h", Kind: Stable}, Run{Commit: "h", Kind: Stable}, true},
		"main's commit in a pull":  {Run{Commit: "h", Kind: Stable}, Run{Commit: "h", Kind: PullRequest}, false},
		"nothing known":            {Run{Kind: Stable}, Run{Kind: Stable}, false},
		"another job":              {Run{Tree: "t", Check: "linux"}, Run{Tree: "t", Check: "mac"}, false},
		"a job and an unknown one": {Run{Tree: "t", Check: "linux"}, Run{Tree: "t"}, true},
	} {
		if c.a.SameCodeAs(c.b) != c.want || c.b.SameCodeAs(c.a) != c.want {
			t.Errorf("%s: want %t", name, c.want)
		}
	}
}

func TestMassFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tests, failed int
		want          bool
	}{{20, 15, false}, {20, 16, true}, {750, 15, false}, {10_000, 200, false}, {10_000, 201, true}, {0, 0, false}} {
		if got := (Run{Tests: c.tests, Failed: c.failed}).Mass(); got != c.want {
			t.Errorf("%d of %d: %t", c.failed, c.tests, got)
		}
	}
}

// Of five failures one is a clue: two more tests share the words of three, and
// one cannot be told from another test. A failure without words is a clue, too.
func TestClues(t *testing.T) {
	t.Parallel()
	id := func(n byte) uuid.UUID { return uuid.UUID{15: n} }
	results := []Result{
		{Test: id(1), Failed: true, Fingerprint: 7}, {Test: id(2), Failed: true, Fingerprint: 7}, {Test: id(3), Failed: true, Fingerprint: 7},
		{Test: id(4), Failed: true, Ambiguous: true, Fingerprint: 8}, {Test: id(5), Failed: true, Fingerprint: 9},
		{Test: id(6), Failed: true}, {Test: id(7), Failed: true}, {Test: id(8), Failed: true}, {Test: id(9), Passed: true, Fingerprint: 7},
	}
	run := Run{Trusted: true, Tests: 1000, Failed: 8}
	var got []byte
	for _, c := range Clues(run, results) {
		got = append(got, c.Test[15])
	}
	if string(got) != "\x05\x06\x07\x08" {
		t.Errorf("clues are %v", got)
	}
	for name, change := range map[string]func(*Run){
		"untrusted": func(r *Run) { r.Trusted = false }, "marked": func(r *Run) { r.Infrastructure = true }, "mass": func(r *Run) { r.Failed = 21 },
	} {
		r := run
		change(&r)
		if clues := Clues(r, results); len(clues) > 0 {
			t.Errorf("%s: %d clues", name, len(clues))
		}
	}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	failed := Run{ID: 1, At: monday, Tree: "t", Trusted: true}
	clues := []Result{{Test: uuid.UUID{1}, Failed: true, Fingerprint: 3}, {Test: uuid.UUID{2}, Failed: true}}
	passed := func(id uuid.UUID) bool { return id[0] == 1 }
	found := Contradictions(failed, clues, Run{ID: 2, Tree: "t", Trusted: true}, passed)
	if len(found) != 1 || found[0] != (Evidence{Test: uuid.UUID{1}, Kind: SameCode, At: monday, FailedRun: 1, PassedRun: 2, Fingerprint: 3}) {
		t.Errorf("found %+v", found)
	}
	for name, other := range map[string]Run{
		"other code": {ID: 2, Tree: "u", Trusted: true}, "untrusted": {ID: 2, Tree: "t"}, "marked": {ID: 2, Tree: "t", Trusted: true, Infrastructure: true},
	} {
		if found := Contradictions(failed, clues, other, passed); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
