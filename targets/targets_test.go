package targets

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// shown is a set as tests write it: "ALL: why", or names with the file that is
// why.
func shown(s *Set) string {
	if why, all := s.All(); all {
		return "ALL: " + why
	}
	var parts []string
	for _, n := range s.Names() {
		text := n
		if c := s.Why(n); c.File != "" {
			text += "=" + c.File
			if c.More > 0 {
				text += fmt.Sprintf("+%d", c.More)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

const rulesFile = `
merge:
  required_statuses: [test]
impacted_targets:
  everything: ["*.lock", .github]
  ignore: ["**/*.md"]
  targets:
    ui: [web, libs/ui/**]
    "//pay:all": ["services/pay/**/*.go"]
  folders: ["services/*", libs/ui/]
  otherwise: nothing
`

// What a changed file impacts, rule by rule.
func TestRules(t *testing.T) {
	t.Parallel()
	r, err := ReadRules(".signalbox.yaml", strings.NewReader(rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	for files, want := range map[string]string{
		"":                                     "",
		"web/index.html":                       "ui=web/index.html",
		"web/a web/b web/c":                    "ui=web/a+2",
		"webx/index.html":                      "",
		"libs/ui/a/b.ts":                       "libs/ui=libs/ui/a/b.ts ui=libs/ui/a/b.ts",
		"services/pay/x/y.go":                  "//pay:all=services/pay/x/y.go services/pay=services/pay/x/y.go",
		"services/mail/x.py":                   "services/mail=services/mail/x.py",
		"services/README":                      "",
		"services/mail/README.md":              "",
		"README.md":                            "",
		"go.lock":                              "ALL: go.lock changed",
		"sub/go.lock":                          "",
		".github/workflows/a.yml web/a":        "ALL: .github/workflows/a.yml changed",
		"web/a .signalbox.yaml":                "ALL: .signalbox.yaml changed, which says which targets a file impacts",
		".github/signalbox.yaml":               "ALL: .github/signalbox.yaml changed, which says which targets a file impacts",
		"services/mail/[x].py services/mail/*": "services/mail=services/mail/[x].py+1",
	} {
		var s Set
		for _, f := range strings.Fields(files) {
			r.Impacted(f, &s)
		}
		if got := shown(&s); got != want {
			t.Errorf("%s: %s, want %s", files, got, want)
		}
	}
	for otherwise, want := range map[string]string{"": "ALL: x changed, and no rule knows it", "everything": "ALL: x changed, and no rule knows it", "rest": "rest=x"} {
		var s Set
		Rules{Otherwise: otherwise}.Impacted("x", &s)
		if got := shown(&s); got != want {
			t.Errorf("otherwise %q: %s", otherwise, got)
		}
	}
}

// A mistake in the file is an error that says where, and never a rule that
// matches nothing.
func TestMistakesInRulesAreSaid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "there is no section impacted_targets",
		"merge: {}":                           "there is no section impacted_targets",
		"impacted_targets:":                   "there is no section impacted_targets",
		"impacted_targets:\n  foldrs: [a]":    "[2:3]",
		"impacted_targets:\n  folders: a: b":  "[2:",
		"impacted_targets:\n  folders: {a: b": "no YAML",
		"impacted_targets: [a]":               "[1:",
		"impacted_targets:\n  folders: [\"a[\", \"/b\"]\n  targets: {web: [\"\"]}": `folders: "a[" is no pattern`,
		"impacted_targets:\n  targets: {\"\": [a]}":                                "one has no name",
		"[]":                                   "Sequence",
		"# " + strings.Repeat("x", maxRules+1): "larger than 1 MiB",
	} {
		_, err := ReadRules("f.yaml", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f.yaml") {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
		if none := strings.HasPrefix(want, "there is no section"); none != errors.Is(err, ErrNoRules) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

// Names as build tools print them.
func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"\n \n":                    "",
		"//a:b\n//c:d\r\n\n//a:b":  "//a:b //c:d",
		"signalbox/queue":          "signalbox/queue",
		`["ui","api"]`:             "api ui",
		"\ufeff [ ]\n":             "",
		`{"a":[{}],"projects":[]}`: "",
		`{"tasks":{"x":[1]},"projects":["ui"],"more":1}`: "ui",
		"a\nALL\nb":                            "ALL: the list says so",
		`["IMPACTS_ALL"]`:                      "ALL: the list says so",
		"a\tb\n":                               "error",
		"a\x00b\n":                             "error",
		"a\x1b[31m\n":                          "error",
		`["a",1]`:                              "error",
		`["a"`:                                 "error",
		`["a"] ["b"]`:                          "error",
		`{"projects":"a"}`:                     "error",
		`{"other":["a"]}`:                      "error",
		`{"projects":["a"]`:                    "error",
		"a\n" + strings.Repeat("x", maxName+1): "error",
	} {
		var s Set
		err := Read(strings.NewReader(text), &s)
		if got := shown(&s); err == nil && got != want || (err != nil) != (want == "error") {
			t.Errorf("%.80q: %v %s, want %s", text, err, got, want)
		}
	}
}

// endless is a list of names that are all different, of a size, read to its end.
type endless struct{ left, size, n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	e.left--
	e.n++
	return copy(p, fmt.Sprintf("%0*d\n", e.size, e.n)), nil
}

// More than may be uploaded is everything, and is not kept.
func TestTooMuchIsEverything(t *testing.T) {
	t.Parallel()
	for _, e := range []*endless{{left: MaxTargets + 5, size: 7}, {left: 500, size: 60_000}} {
		var s Set
		err := Read(e, &s)
		if why, all := s.All(); err != nil || !all || s.why != nil || e.left != 0 {
			t.Errorf("%v %q, %d kept, %d not read", err, why, s.Len(), e.left)
		}
	}
	var s Set
	if err := Read(&endless{left: 350_000, size: 40}, &s); err != nil || s.Len() != 350_000 {
		t.Errorf("%v: %d", err, s.Len())
	}
}

// Packages are impacted through what they and their tests import.
func TestGoPackages(t *testing.T) {
	t.Parallel()
	const list = `
{"ImportPath":"m","Dir":"/r","Imports":["fmt","m/a"]}
{"ImportPath":"m/a","Dir":"/r/a","Imports":["m/b"],"TestImports":["m/tools"]}
{"ImportPath":"m/b","Dir":"/r/b","XTestImports":["m/tools"]}
{"ImportPath":"m/tools","Dir":"/r/internal/tools","TestImports":["m/b"]}
{"ImportPath":"m/cmd/x","Dir":"/r/cmd/x","Imports":["m/a"]}
{"ImportPath":"fmt","Dir":"/r/fmt","Standard":true}
{"ImportPath":"other","Dir":"/elsewhere/other"}
{"ImportPath":"above","Dir":"/"}
`
	for files, want := range map[string]string{
		"":                         "",
		"cmd/x/main.go":            "m/cmd/x=cmd/x/main.go",
		"b/b.go":                   "m=b/b.go m/a=b/b.go m/b=b/b.go m/cmd/x=b/b.go m/tools=b/b.go",
		"internal/tools/t.go":      "m/a=internal/tools/t.go m/b=internal/tools/t.go m/tools=internal/tools/t.go",
		"cmd/x/testdata/a/b.json":  "m/cmd/x=cmd/x/testdata/a/b.json",
		"cmd/x/a.go cmd/x/b.go":    "m/cmd/x=cmd/x/a.go",
		"a/a.go cmd/x/x.go":        "m=a/a.go m/a=a/a.go m/cmd/x=cmd/x/x.go",
		"README.md":                "m=README.md",
		"go.mod":                   "ALL: go.mod changed",
		"tools/go.sum":             "ALL: tools/go.sum changed",
		"vendor/golang.org/x/x.go": "ALL: vendor/golang.org/x/x.go changed",
	} {
		g, err := ReadGoPackages(strings.NewReader(list), "/r")
		if err != nil {
			t.Fatal(err)
		}
		var s Set
		for _, f := range strings.Fields(files) {
			if !g.Changed(f, &s) {
				t.Errorf("nobody knows %s", f)
			}
		}
		g.Impacted(&s)
		if got := shown(&s); got != want {
			t.Errorf("%s:\n%s, want\n%s", files, got, want)
		}
	}
	g, err := ReadGoPackages(strings.NewReader(`{"ImportPath":"m/a","Dir":"/r/a"}`), "/r")
	if err != nil || g.Changed("b/b.go", new(Set)) || g.Changed("b.go", new(Set)) {
		t.Errorf("%v; a file outside of all packages is one's", err)
	}
	for _, bad := range []string{"", "x", `{"ImportPath":"m"}`, `{"ImportPath":"other","Dir":"/elsewhere"}`, `{"ImportPath":"m","Dir":"/r","Error":{"Err":"no Go files"}}`} {
		if _, err := ReadGoPackages(strings.NewReader(bad), "/r"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Whatever a build tool prints, reading it ends without a panic, and what is
// kept fits into one upload.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"//a:b\n//c:d\n", `["ui","api"]`, `{"projects":["ui"]}`, "ALL", "\ufeffa", "[[", "{\"a\":{\"projects\":[]}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Set
		if Read(strings.NewReader(text), &s) == nil {
			for _, n := range s.Names() {
				if n == "" || strings.ContainsRune(n, 0) || slices.Contains([]string{"ALL", "IMPACTS_ALL"}, n) {
					t.Errorf("%q is kept", n)
				}
			}
		}
	})
}

// Whatever stands in a file with rules, reading it ends, and the rules that come
// of it are all ones that can match.
func FuzzReadRules(f *testing.F) {
	f.Add(rulesFile)
	f.Add("impacted_targets: {folders: [a], targets: {b: [c]}, otherwise: nothing}")
	f.Add("impacted_targets: &a\n  folders: [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadRules("f.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		var s Set
		r.Impacted("services/pay/x.go", &s)
	})
}

// Whatever go list prints, reading it ends.
func FuzzReadGoPackages(f *testing.F) {
	f.Add(`{"ImportPath":"m","Dir":"/r","Imports":["m/a"]}{"ImportPath":"m/a","Dir":"/r/a","Imports":["m"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ReadGoPackages(strings.NewReader(text), "/r")
		if err != nil {
			return
		}
		var s Set
		g.Changed("a/b/c.go", &s)
		g.Changed("x.go", &s)
		g.Impacted(&s)
	})
}
