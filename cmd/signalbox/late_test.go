package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
	"signalbox/queue/proof"
	"signalbox/queue/sim"
)

// A call to merge that hung in the network is carried out after its landing was
// given up: once on what it was tested on, once after something else has landed.
// People are told of both, and verify-history of each what it is.
func TestWhatTheHostMergesLateIsToldAsWhatItIs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.RequiredStatuses, settings.MergeMethod, settings.ChosenLandingMode = []string{"ci"}, queue.MergeCommit, queue.LandHost
	settings.CreatePRsForTestingBranches = false
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tested := func(number int64, file string) {
		t.Helper()
		must(w.Open(number, "alice", map[string]string{file: "1"}), w.Merge(number, "alice", sim.Wish{}), w.Pass(time.Second), w.CI(number, "ci", "success"), w.Pass(time.Second))
	}
	must(w.Hang(1))
	tested(1, "a.txt")
	must(w.Arrive(), w.Pass(time.Second))
	must(w.Hang(2))
	tested(2, "b.txt")
	tested(3, "c.txt")
	must(w.Arrive(), w.Pass(time.Minute))

	v, err := verify(ctx, w.service.db.DB, w.service.host, w.queue, time.Time{})
	must(err)
	if len(v.Landings) != 3 || len(v.Others) != 0 || len(v.Faults) != 0 || v.Problems != 1 {
		t.Fatalf("%+v", v)
	}
	for i, want := range []struct {
		pr         int64
		how        proof.How
		told       bool
		note, what string
	}{
		{1, proof.Tested, true, "had tested this very tree", ""},
		{3, proof.Tested, false, "", ""},
		{2, proof.NotProven, true, "", "nobody tested that"},
	} {
		l := v.Landings[i]
		if l.PR != want.pr || l.How != want.how || l.Told != want.told || !strings.Contains(l.Note, want.note) || !strings.Contains(l.Problem, want.what) || l.Tree == "" {
			t.Errorf("landing %d is %+v, want %+v", i, l, want)
		}
	}
	var said bytes.Buffer
	v.print(&said, true)
	t.Logf("verify-history says:\n%s", &said)

	comments, err := w.sim.Comments(w.name, 2)
	must(err)
	var all strings.Builder
	for _, c := range comments {
		all.WriteString(c.Body)
	}
	for _, want := range []string{"LANDED_LATE", "carried out a call that the queue had given up"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("nobody says %q on #2:\n%s", want, &all)
		}
	}
}
