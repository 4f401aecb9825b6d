package signalbox_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/field-cases.md says which test shows each case. What it names is there,
// and what the code calls by a number is in it.

var (
	caseRow    = regexp.MustCompile(`(?m)^\| BC-(\d+) \|.*\| ([^|]*) \|$`)
	caseShown  = regexp.MustCompile("`([^`]+)`")
	caseNumber = regexp.MustCompile(`(?i)\bBC-(\d+)|func TestBC(\d+)`)
)

func TestEachFieldCaseIsShownByATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/field-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range caseRow.FindAllStringSubmatch(string(text), -1) {
		number := strings.TrimLeft(row[1], "0")
		if listed[number] {
			t.Errorf("BC-%s is listed twice", row[1])
		}
		listed[number] = true
		shown := caseShown.FindAllStringSubmatch(row[2], -1)
		if len(shown) == 0 {
			t.Errorf("BC-%s is shown by no test", row[1])
		}
		for _, s := range shown {
			if !isThere(t, s[1]) {
				t.Errorf("BC-%s is said to be shown by %s, which does not exist", row[1], s[1])
			}
		}
	}
	if len(listed) < 60 {
		t.Errorf("only %d rows were understood", len(listed))
	}
	for number, where := range numbersInCode(t) {
		if !listed[number] {
			t.Errorf("%s speaks of BC-%s, which docs/field-cases.md does not list", where, number)
		}
	}
}

// isThere reports whether "folder.TestName" is a test, or a path a file.
func isThere(t *testing.T, name string) bool {
	folder, test, found := strings.Cut(name, ".Test")
	if !found {
		_, err := os.Stat(name)
		return err == nil
	}
	files, err := filepath.Glob(path.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc Test"+test+"(") {
			return true
		}
	}
	return false
}

// numbersInCode are the numbers of cases that tests and scripts name, and where.
func numbersInCode(t *testing.T) map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "." {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		script := strings.HasSuffix(name, ".txt") && strings.Contains(name, "testdata")
		if d.IsDir() || !strings.HasSuffix(name, ".go") && !script {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range caseNumber.FindAllStringSubmatch(string(text), -1) {
			if number := strings.TrimLeft(m[1]+m[2], "0"); number != "" {
				found[number] = name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
