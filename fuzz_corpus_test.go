package signalbox_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fuzzTest = regexp.MustCompile(`(?m)^func (Fuzz[A-Z]\w*)\(`)

// Each fuzz test has inputs in the repository that reach different code, so that
// fuzzing for seconds begins where fuzzing for longer has ended, and every run of
// the tests tries them.
func TestEachFuzzTestHasACorpus(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range fuzzTest.FindAllStringSubmatch(string(text), -1) {
			found++
			inputs, err := os.ReadDir(filepath.Join(filepath.Dir(path), "testdata", "fuzz", name[1]))
			if err != nil || len(inputs) == 0 {
				t.Errorf("%s: %s has no inputs in testdata/fuzz (%v)", path, name[1], err)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d fuzz tests found (%v)", found, err)
	}
}
