package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/queue"

	"github.com/google/go-cmp/cmp"
)

// simulated counts the pull requests of random histories.
var simulated atomic.Int64

// TestMain says how many there were: make soak adds them up.
func TestMain(m *testing.M) {
	code := m.Run()
	if n := simulated.Load(); n > 0 {
		fmt.Printf("simulated pull requests: %d\n", n)
	}
	os.Exit(code)
}

var rewrite = flag.Bool("rewrite", false, "write what the scripts really say into their files")

// TestScripts plays every story on the pure core. Package cmd/signalbox plays
// the same files on the whole service.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := Player{Build: func(s queue.Settings) (Town, error) {
				w := NewWorld(s)
				if !strings.HasSuffix(path, "/squash_exact.txt") { // there somebody opens again what has landed
					(&Checker{}).Watch(w) // whatever a story tells, the promises hold
				}
				return w, nil
			}}
			got, err := p.Play(string(script))
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(script), got); diff != "" {
				t.Errorf("the story ends differently (-told +happened); -rewrite writes it down:\n%s", diff)
			}
		})
	}
}
