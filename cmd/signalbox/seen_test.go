package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// What people see on a pull request, on the whole service: one comment of ours
// that is always true, one new comment for each ending that the author must
// hear of, one status check, one label; whatever happens, and however fast.

// seenBy is what is written on pull request 1.
type seenBy struct {
	sticky, notices []string
	others          []githubsim.Commented
	checks, labels  []string
}

func (w *town) seen(t *testing.T) seenBy {
	t.Helper()
	var s seenBy
	comments, err := w.sim.Comments(w.name, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comments {
		switch {
		case c.Author != "signalbox[bot]":
			s.others = append(s.others, c)
		case strings.Contains(c.Body, "<!-- signalbox:sticky -->"):
			s.sticky = append(s.sticky, c.Body)
		default:
			s.notices = append(s.notices, c.Body)
		}
	}
	if s.checks, err = w.sim.CheckRuns(w.name, w.heads[1], "signalbox"); err != nil {
		t.Fatal(err)
	}
	pulls, err := w.sim.Pulls(w.name)
	if err != nil {
		t.Fatal(err)
	}
	s.labels = pulls[0].Labels
	return s
}

// want compares it with what should be there: what the sticky comment says, how
// many notices there are, the status check and the labels.
func (s seenBy) want(t *testing.T, sticky string, notices int, check string, labels ...string) {
	t.Helper()
	if len(s.sticky) != 1 || !strings.Contains(s.sticky[0], sticky) {
		t.Errorf("the sticky comments are %q, want one that says %q", s.sticky, sticky)
	}
	if len(s.notices) != notices {
		t.Errorf("the other comments of ours are %q, want %d", s.notices, notices)
	}
	if want := []string{"Signalbox (main): " + check}; !slices.Equal(s.checks, want) {
		t.Errorf("the status checks are %q, want %q", s.checks, want)
	}
	if !slices.Equal(s.labels, labels) {
		t.Errorf("the labels are %q, want %q", s.labels, labels)
	}
}

// demand ends a test with the first error among those that it is given.
func demand(t testing.TB) func(...error) {
	return func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWhatPeopleSee(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts everything")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.MergeMethod, settings.RequiredStatuses = queue.MergeCommit, []string{"ci"}
	settings.LabelCommandsEnabled, settings.EnqueueingLabel, settings.StateLabelsEnabled = true, "queue", true
	settings.CreatePRsForTestingBranches = false
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	do := demand(t)
	label := func(by string, add, remove []string) {
		t.Helper()
		do(w.sim.EditPull(githubsim.Edit{Repo: w.name, Number: 1, Author: by, AddLabel: add, RemoveLabel: remove}))
	}
	do(w.Open(1, "bob", map[string]string{"a.txt": "1"}))

	// Somebody takes our markers for their own comment. It is theirs for ever.
	const fake = "<!-- signalbox:sticky -->\n- [ ] <!-- signalbox:submit --> Free merges here"
	stranger, err := w.sim.Comment(w.name, 1, "mallory", fake)
	do(err, w.sim.EditComment(stranger, "mallory", strings.Replace(fake, "[ ]", "[x]", 1)), w.settle())
	if s := w.seen(t); len(s.sticky)+len(s.notices) != 0 {
		t.Fatalf("we answered a box that is not ours: %q %q", s.sticky, s.notices)
	}

	// The label that queues, in another case; by somebody who may not, then by alice.
	label("mallory", []string{"Queue"}, nil)
	do(w.settle())
	if s := w.seen(t); len(s.sticky) != 0 || len(s.notices) != 1 || !strings.Contains(s.notices[0], "You need write access") {
		t.Fatalf("a stranger's label is answered with %q %q", s.sticky, s.notices)
	}
	label("mallory", nil, []string{"Queue"})
	label("alice", []string{"Queue"}, nil)
	do(w.settle())
	w.seen(t).want(t, "**Signalbox: testing**", 1, "in_progress", "Queue", "signalbox: testing")

	// Ten changes of state within a second.
	for i := range 10 {
		command := "/cancel"
		if i%2 == 1 {
			command = "/merge"
		}
		_, err := w.sim.Comment(w.name, 1, "alice", command)
		do(err, w.settle())
		w.clock.advance(10 * time.Millisecond)
	}
	w.seen(t).want(t, "**Signalbox: testing**", 1, "in_progress", "signalbox: testing")

	// What we remember of our comment is lost; it is found again by its marker,
	// though an older one of somebody else has it, too.
	repo, err := w.service.db.Repo(ctx, w.queue.Repo.ID)
	do(err, w.service.db.SetComment(ctx, repo.ID, 1, 0))
	do(w.CI(1, "ci", "failure"), w.settle())
	w.seen(t).want(t, "**Signalbox: failed**", 2, "failure", "signalbox: failed")

	// Nothing is repeated, however often somebody looks.
	do(w.Pass(30*time.Minute), w.Close(1), w.Reopen(1), w.Pass(30*time.Minute))
	s := w.seen(t)
	s.want(t, "**Signalbox: failed**", 2, "failure", "signalbox: failed")
	if s.others[0].ID != stranger || !strings.Contains(s.others[0].Body, "Free merges here") {
		t.Errorf("the stranger's comment reads %+v", s.others[0])
	}

	// A tick in our own box, by alice, queues it again.
	ours, err := w.sim.Comments(w.name, 1)
	do(err)
	at := slices.IndexFunc(ours, func(c githubsim.Commented) bool {
		return c.Author == "signalbox[bot]" && strings.Contains(c.Body, "signalbox:sticky")
	})
	do(w.sim.EditComment(ours[at].ID, "alice", strings.Replace(ours[at].Body, "- [ ]", "- [x]", 1)), w.settle())
	w.seen(t).want(t, "**Signalbox: testing**", 2, "in_progress", "signalbox: testing")
	do(w.CI(1, "ci", "success"), w.settle())
	w.seen(t).want(t, "**Signalbox: merged**", 2, "success", "signalbox: merged")
}

// On the pull requests beneath its top, a stack has a comment too; when it has
// landed, all of them are merged, and no branch of theirs is deleted.
func TestWhatPeopleSeeOnAStack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts everything")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settings := queue.DefaultSettings()
	settings.MergeMethod, settings.RequiredStatuses = queue.MergeCommit, []string{"ci"}
	settings.CreatePRsForTestingBranches = false
	w, err := newTown(ctx, t, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	do := demand(t)
	do(w.Open(1, "bob", map[string]string{"a.txt": "1"}), w.OpenOn(2, 1, "carol", map[string]string{"b.txt": "1"}), w.OpenOn(3, 2, "bob", map[string]string{"c.txt": "1"}))
	_, err = w.sim.Comment(w.name, 2, "alice", `/signalbox stack -t "Add the signal"`)
	do(err, w.settle())
	if s := w.seen(t); len(s.sticky) != 1 || !strings.Contains(s.sticky[0], "in the stack of [PR 2]") {
		t.Errorf("comments on #1 = %q, want that it is in the stack of #2", s.sticky)
	}
	do(w.CI(2, "ci", "success"), w.settle())
	if s := w.seen(t); len(s.sticky) != 1 || !strings.Contains(s.sticky[0], "The stack has landed") || len(s.notices) != 0 {
		t.Errorf("comments on #1 = %q %q, want that the stack has landed", s.sticky, s.notices)
	}
	pulls, err := w.sim.Pulls(w.name)
	do(err)
	for _, p := range pulls {
		if want := map[int]string{1: "merged", 2: "merged", 3: "open"}[p.Number]; stateOf(p) != want {
			t.Errorf("#%d is %s, want %s", p.Number, stateOf(p), want)
		}
	}
	// BC-19: #3 stands on the branch of #2. That is not ours to delete.
	branches, err := w.sim.Branches(w.name)
	do(err)
	for _, number := range []int64{1, 2} {
		if !slices.ContainsFunc(branches, func(b string) bool { return strings.HasPrefix(b, branchName(number)+" ") }) {
			t.Errorf("branches = %q, want those of the authors left alone", branches)
		}
	}
	log, err := w.sim.Log(ctx, w.name, "main")
	do(err)
	if !strings.HasPrefix(log[0].Message, "Add the signal") {
		t.Errorf("what landed is called %q", log[0].Message)
	}
}

func stateOf(p githubsim.Pulled) string {
	switch {
	case p.Merged:
		return "merged"
	case p.Open:
		return "open"
	default:
		return "closed"
	}
}
