package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// patience bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const patience = 15 * time.Minute

// allStories plays every story; without it only shortForm is played.
var allStories = flag.Bool("all", false, "play every story on the whole service, not only one of each kind")

// shortForm is one story of each kind. make stories plays them all.
var shortForm = []string{
	"base_moved_from_outside", "batch_one_culprit", "blame_only_the_guilty", "break_together", "cancel_in_each_state",
	"conflict_with_undecided", "direct_merge", "interrupted", "lanes", "merged_by_hand", "mode_switch", "not_ready",
	"one_lands", "optimistic_merging", "pushed_to", "quarantine_clears", "squash_exact", "stack_lands", "urgent_in_front",
}

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
	played := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if !*allStories && !slices.Contains(shortForm, name) {
			continue
		}
		played++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			story := string(text)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	if want := len(shortForm); played < want {
		t.Errorf("%d stories are there of the %d in the short form", played, want)
	}
}

// commitNames are what commits are called for short.
var commitNames = regexp.MustCompile(`\b[0-9a-f]{7}\b`)

// nameless is a story without the names of commits.
func nameless(story string) string { return commitNames.ReplaceAllString(story, "COMMIT") }
