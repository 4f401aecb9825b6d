package db_test

// One pull request goes all the way: submitted, read, tested, landed. The
// decisions are the real ones; the host is this file: it takes the jobs out of
// River's table and answers with facts.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"signalbox/queue"
)

// perform does what the jobs want, and deletes them.
func (w *world) perform() (kinds []string) {
	w.t.Helper()
	rows, err := w.SQL().Query(`DELETE FROM river_job RETURNING kind, args`)
	w.must(err)
	defer rows.Close()
	var facts []queue.Fact
	for rows.Next() {
		var kind string
		var args []byte
		w.must(rows.Scan(&kind, &args))
		kinds = append(kinds, kind)
		facts = append(facts, w.performOne(kind, args)...)
	}
	w.must(rows.Err())
	w.must(w.Append(w.t.Context(), w.repo.ID, w.queue.ID, facts...))
	return kinds
}

func (w *world) performOne(kind string, args []byte) (facts []queue.Fact) {
	read := func(action any) { w.must(json.Unmarshal(args, action)) }
	switch kind {
	case "read_target":
		var a queue.ReadTarget
		read(&a)
		return []queue.Fact{queue.TargetRead{Commit: "c0", Tree: "t0", Version: a.Version}}
	case "refresh_pr":
		var a queue.RefreshPR
		read(&a)
		return []queue.Fact{queue.MergeabilitySeen{PR: a.PR, Head: fmt.Sprintf("head%d", a.PR), Value: queue.Mergeable}}
	case "build_runs":
		var a queue.BuildRuns
		read(&a)
		for _, b := range a.Runs {
			built := queue.RunBuilt{Run: b.Run, Base: queue.Base{Commit: "c0", Tree: "t0"}, Required: []queue.Required{{Name: "ci"}}, RequiredSource: queue.FromProtection, At: epoch}
			for i, step := range b.Chain {
				step.Commit, step.Tree = fmt.Sprintf("c%d", i+1), fmt.Sprintf("t%d", i+1)
				built.Chain = append(built.Chain, step.Step)
			}
			tip := built.Chain[len(built.Chain)-1].Commit
			// CI is faster than we are, and tells it to whoever asks.
			w.must(w.Append(w.t.Context(), w.repo.ID, 0, queue.CheckReported{
				Commit: tip, Report: queue.Report{Kind: queue.CheckRun, Name: "ci", ID: 1, Status: "completed", Result: "success", At: epoch},
			}))
			w.must(w.Route(w.t.Context(), epoch))
			facts = append(facts, built)
		}
	case "land":
		var a queue.Land
		read(&a)
		ended := queue.LandingEnded{Landing: a.Landing, At: epoch}
		for _, step := range a.Steps {
			ended.Landed = append(ended.Landed, queue.LandedStep{Entry: step.Entry, Submission: step.Submission, Commit: step.Commit, Tree: step.Tree})
			ended.Commit, ended.Tree = step.Commit, step.Tree
		}
		return []queue.Fact{ended}
	}
	return facts
}

func TestAPullRequestGoesAllTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, submitted(7)))
	var did []string
	for range 20 {
		for {
			_, ok, err := w.UpdateDue(t.Context(), epoch, queue.Reconcile)
			w.must(err)
			if !ok {
				break
			}
		}
		kinds := w.perform()
		did = append(did, kinds...)
		if len(kinds) == 0 {
			break
		}
	}
	e, err := w.Entry(t.Context(), w.queue.ID, 7)
	w.must(err)
	if e.State != queue.Merged || e.LandedCommit != "c1" {
		t.Errorf("it ended %s (%s) at %q, after %v", e.State, e.Message, e.LandedCommit, did)
	}
	moves, err := w.Timeline(t.Context(), w.queue.ID, 7)
	w.must(err)
	var told []string
	for _, m := range moves {
		told = append(told, string(m.To))
	}
	if got, want := strings.Join(told, " "), "not_ready pending testing tests_passed merged"; got != want {
		t.Errorf("the timeline tells %q, want %q", got, want)
	}
}
