package queue

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of moves into doc.go")

// TestDocShowsTheTable holds the package comment to the table of moves.
func TestDocShowsTheTable(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, tr := range Transitions {
		from := string(tr.From)
		if tr.From == Never {
			from = "(new)"
		}
		fmt.Fprintf(&table, "//\t%s → %s:", from, tr.To)
		line := 0
		for _, r := range tr.Reasons {
			if line += len(r) + 1; line > 90 {
				table.WriteString("\n//\t   ")
				line = len(r)
			}
			table.WriteString(" " + string(r))
		}
		table.WriteString("\n")
	}
	place := regexp.MustCompile(`(?s)(documents and the database are held to it by tests\.\n//\n).*?(//\n// # States of a queue)`)
	want := place.ReplaceAllString(string(text), "${1}"+table.String()+"${2}")
	if *rewrite {
		if err := os.WriteFile("doc.go", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("doc.go does not show the table of moves; go test ./queue -rewrite writes it there")
	}
}

// TestEveryMoveHasAScript looks for each row of the table, and each of its
// reasons, in the stories.
func TestEveryMoveHasAScript(t *testing.T) {
	told := map[string]bool{}
	paths, _ := filepath.Glob("testdata/*.txt")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		collectMoves(string(text), told)
	}
	for _, tr := range Transitions {
		taken := false
		for _, r := range tr.Reasons {
			taken = taken || told[fmt.Sprintf("%s>%s %s", tr.From, tr.To, r)]
		}
		if !taken {
			t.Errorf("no script takes the move from %q to %q", tr.From, tr.To)
		}
	}
}

var toldMove = regexp.MustCompile(`(\w+) \(([A-Z_]+)\)`)

// collectMoves follows each pull request through a script's output.
func collectMoves(script string, told map[string]bool) {
	state := map[string]string{}
	for line := range strings.Lines(script) {
		pr, rest, ok := strings.Cut(line, " → ")
		if !ok || !strings.HasPrefix(pr, "#") {
			continue
		}
		for _, m := range toldMove.FindAllStringSubmatch(rest, -1) {
			told[fmt.Sprintf("%s>%s %s", state[pr], m[1], m[2])] = true
			state[pr] = m[1]
		}
	}
}

// An ended submission can only begin again, and only an ended one can. What the host
// merged late has landed, whatever was said before.
func TestFinalStatesOnlyBeginAgain(t *testing.T) {
	for _, tr := range Transitions {
		late := tr.To == Merged && slices.Equal(tr.Reasons, []Reason{LandedLate})
		if tr.From.Final() && tr.To != NotReady && !late {
			t.Errorf("%s may not follow %s", tr.To, tr.From)
		}
		if tr.To == NotReady && !tr.From.Final() && tr.From != Never {
			t.Errorf("an active entry (%s) may not become not_ready", tr.From)
		}
	}
}
