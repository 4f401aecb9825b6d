// Package docstest holds parts of documents that are written from the code.
package docstest

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Region fails a test unless the part of a file between the lines
// "<!-- generated: name -->" and "<!-- end -->" is want. With rewrite it writes
// want there instead.
func Region(t *testing.T, path, name, want string, rewrite bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- generated: "+name+" -->\n\n"), []byte("\n<!-- end -->\n")
	before, rest, found := bytes.Cut(text, begin)
	got, after, closed := bytes.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no part %q…%q", path, begin, end)
	}
	if string(got) == want {
		return
	}
	if !rewrite {
		t.Errorf("the part %s of %s is not what the code says. The flag of this package that writes golden files writes it. The first line that differs:\n%s", name, path, firstDifference(string(got), want))
		return
	}
	if err := os.WriteFile(path, bytes.Join([][]byte{before, begin, []byte(want), end, after}, nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

func firstDifference(got, want string) string {
	have := strings.Split(got, "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(have) {
			return "want " + line
		}
		if have[i] != line {
			return "got  " + have[i] + "\nwant " + line
		}
	}
	return "something follows that should not"
}
