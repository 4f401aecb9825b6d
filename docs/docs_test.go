package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file: its links with their lines, and the addresses of
// its headings.
type page struct {
	links    []link
	headings map[string]bool
}

type link struct {
	line int
	to   string
}

var (
	linkText    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingLine = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	codeSpan    = regexp.MustCompile("`[^`]*`")
)

// readPage finds links and headings outside blocks of code.
func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := page{headings: map[string]bool{}}
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		if m := headingLine.FindStringSubmatch(line); m != nil {
			p.headings[address(m[1])] = true
		}
		for _, m := range linkText.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			p.links = append(p.links, link{i + 1, m[1]})
		}
	}
	return p
}

// address is what GitHub makes of a heading.
func address(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// pages are the Markdown files that people read, by their path from the root.
func pages(t *testing.T) map[string]page {
	t.Helper()
	all := map[string]page{}
	for _, root := range []string{"..", "../docs", "../deploy"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != root && root == ".." {
				return fs.SkipDir
			}
			if err == nil && strings.HasSuffix(path, ".md") {
				all[filepath.Clean(path)] = readPage(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestLinksLeadSomewhere: every link to a file or a heading of ours finds it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	links := 0
	for path, p := range all {
		for _, l := range p.links {
			if strings.HasPrefix(l.to, "https://") || strings.HasPrefix(l.to, "http://") {
				continue
			}
			links++
			file, heading, _ := strings.Cut(l.to, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s:%d: there is no %s", path, l.line, l.to)
				continue
			}
			if to, isPage := all[target]; heading != "" && isPage && !to.headings[heading] {
				t.Errorf("%s:%d: %s has no heading for #%s", path, l.line, target, heading)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// TestEveryDocumentIsInTheIndex: what is written can be found.
func TestEveryDocumentIsInTheIndex(t *testing.T) {
	t.Parallel()
	all := pages(t)
	listed := map[string]bool{}
	for _, l := range all["../docs/README.md"].links {
		file, _, _ := strings.Cut(l.to, "#")
		listed[file] = true
	}
	for path := range all {
		if filepath.Dir(path) == "../docs" && path != "../docs/README.md" && !listed[filepath.Base(path)] {
			t.Errorf("docs/README.md does not link to %s", path)
		}
	}
	if len(listed) < 8 {
		t.Errorf("the index lists %d documents", len(listed))
	}
}

var (
	namedPath = regexp.MustCompile("`((?:[a-z_.-]+/)+[A-Za-z0-9_.-]*|[a-z_]+\\.(?:go|yml))`")
	namedTest = regexp.MustCompile("`?\\b(Test[A-Z][A-Za-z0-9]+)\\b")
)

// TestRecipesNameWhatIsThere: every file, folder and test of CONTRIBUTING.md exists.
func TestRecipesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			source, err := os.ReadFile(path)
			tests.Write(source)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	paths := namedPath.FindAllStringSubmatch(string(text), -1)
	for _, m := range paths {
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil && m[1] != "dist/" {
			t.Errorf("there is no %s", m[1])
		}
	}
	names := namedTest.FindAllStringSubmatch(string(text), -1)
	for _, m := range names {
		if !strings.Contains(tests.String(), "func "+m[1]+"(t *testing.T") {
			t.Errorf("there is no test %s", m[1])
		}
	}
	if len(paths) < 30 || len(names) < 12 {
		t.Errorf("only %d files and %d tests were found", len(paths), len(names))
	}
}
