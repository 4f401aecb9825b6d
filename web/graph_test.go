package web

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

// The picture is golden: testdata/graph holds what is drawn for some queues,
// as SVG that a browser shows. "go test ./web -rewrite" writes them anew.

func boxes(ahead ...[]int) []box {
	var all []box
	for i, a := range ahead {
		all = append(all, box{Ahead: a, State: badge{"testing", "busy"}, Age: moment{Text: "4 min ago"}, URL: fmt.Sprintf("/run/%d", i),
			Rows: []boxRow{{Number: int64(i + 1), Title: "Paint the lever", URL: fmt.Sprintf("/pr/%d", i+1)}}, Checks: progress{1, 0, 3}, Says: "a box"})
	}
	return all
}

var pictures = map[string][]band{
	"one_line":  {{Label: "main", Base: code{Short: "0a0a0a0a0a"}, Boxes: boxes(nil, []int{0}, []int{0, 1})}},
	"lanes":     {{Label: "main", Boxes: boxes(nil, nil, []int{0}, []int{1}, []int{0, 1, 2, 3}, nil)}},
	"bisection": {{Label: "main", Boxes: boxes(nil)}, {Title: "Looking for the culprit among 4 pull requests", Label: "where it failed", Boxes: boxes(nil, []int{0})}},
	"large_batch": {{Label: "release/2026-a-very-long-name", Boxes: func() []box {
		b := boxes(nil)
		b[0].Rows = rows(5)
		b[0].More = 7
		b[0].Marks = []string{"urgent"}
		return b
	}()}},
	"hostile_title": {{Label: hostile, Boxes: func() []box { b := boxes(nil); b[0].Rows[0].Title, b[0].Says = hostile, hostile; return b }()}},
}

func rows(n int) []boxRow {
	all := make([]boxRow, n)
	for i := range all {
		all[i] = boxRow{Number: int64(100 * i), Title: "A title that is far too long to be shown whole", URL: "/pr"}
	}
	return all
}

func TestPicturesAreDrawnAsTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	parsed := template.Must(template.ParseFS(files, "pages/graph.html"))
	for name, bands := range pictures {
		var drawn bytes.Buffer
		if err := parsed.ExecuteTemplate(&drawn, "graph", draw(bands)); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "graph", name+".svg")
		if *rewrite {
			if err := os.WriteFile(golden, drawn.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(drawn.String(), "\n")); diff != "" {
			t.Errorf("%s is drawn differently (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever the queue: nothing covers anything else, everything is inside the
// picture, and whoever is tested on top of another stands right of it.
func TestNothingInAPictureCoversAnything(t *testing.T) {
	t.Parallel()
	for seed := range 300 {
		state := uint32(seed*7919 + 1)
		dice := func(n int) int { state = state*1664525 + 1013904223; return int(state>>16) % n }
		var all []box
		for i := range 2 + dice(12) {
			b := box{Rows: rows(1 + dice(boxRows)), More: dice(2)}
			for a := range i { // with all that those are on top of
				if dice(3) == 0 {
					b.Ahead = append(b.Ahead, a)
					b.Ahead = append(b.Ahead, all[a].Ahead...)
				}
			}
			slices.Sort(b.Ahead)
			b.Ahead = slices.Compact(b.Ahead)
			all = append(all, b)
		}
		p := draw([]band{{Boxes: all}, {Title: "x", Boxes: all}})
		var seen []drawnBox
		for _, band := range p.Bands {
			for i, b := range band.Boxes {
				if b.X < 0 || b.Y < 0 || b.X+b.Width > p.Width || b.Y+b.Height > p.Height {
					t.Fatalf("seed %d: box %d is outside the picture", seed, i)
				}
				for _, a := range b.Ahead {
					if band.Boxes[a].X+boxWidth >= b.X {
						t.Fatalf("seed %d: box %d is not right of %d", seed, i, a)
					}
				}
				for _, o := range seen {
					if b.X < o.X+o.Width && o.X < b.X+b.Width && b.Y < o.Y+o.Height && o.Y < b.Y+b.Height {
						t.Fatalf("seed %d: box %d covers another", seed, i)
					}
				}
				seen = append(seen, b)
			}
		}
	}
}

func TestTitlesAreCutToTheirRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 5, "short"}, {"longer", 5, "longe…"}, {"", 3, ""}, {"日本語です", 4, "日本…"}, {"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"🚂🚂", 3, "🚂…"},
		{"WWWW", 5, "WWW…"}, {"illill", 4, "illill"},
	} {
		if got := clip(tt.text, tt.width); got != tt.want {
			t.Errorf("%q in %d: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

// A box says what happens to its group, which is more than the state of its
// entries says.
func TestABoxSaysWhatHappensToItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld()
	one, two := w.s.Groups[1], w.s.Groups[2]
	says := func(g *queue.Group) string { return stateOfGroup(w.s, g).Text }
	if got := says(one) + ", " + says(two); got != "tests passed, testing" {
		t.Error(got)
	}
	w.s.Queue.Landing = &queue.Landing{Groups: []queue.GroupID{1}}
	w.s.Runs["run-two"].State = queue.Building
	if got := says(one) + ", " + says(two); got != "landing, building its branch" {
		t.Error(got)
	}
	two.Run = ""
	for _, id := range two.Members {
		w.s.Entries[id].State = queue.Pending
	}
	if got := says(two); got != "waits for a slot" {
		t.Error(got)
	}
	if got := says(&queue.Group{}); got != "changing" {
		t.Error(got)
	}
}
