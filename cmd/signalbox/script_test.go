package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db/dbtest"
	"signalbox/queue"
	"signalbox/queue/sim"
)

func TestMain(m *testing.M) {
	asChild()
	dbtest.Main(m)
}

// storyLimit bounds one story, so that one that hangs says where.
const storyLimit = 4 * time.Minute

// TestStoriesOnTheWholeService plays the stories of package queue once more:
// with real git, a real Postgres, the simulated GitHub, webhooks, jobs, and the
// same words at the end. Only the names of commits differ.
func TestStoriesOnTheWholeService(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	paths, err := filepath.Glob("../../queue/testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			story := string(text)
			ctx, cancel := context.WithTimeout(context.Background(), storyLimit)
			defer cancel()
			p := sim.Player{Build: func(s queue.Settings) (sim.Town, error) {
				return newTown(ctx, t, s, strings.Contains(story, "block "))
			}}
			got, err := p.Play(story)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(nameless(story), nameless(got)); diff != "" {
				t.Errorf("the story ends differently on the whole service (-core +service):\n%s", diff)
			}
		})
	}
}

// commitNames are what commits are called for short.
var commitNames = regexp.MustCompile(`\b[0-9a-f]{7}\b`)

// nameless is a story without the names of commits.
func nameless(story string) string { return commitNames.ReplaceAllString(story, "COMMIT") }
