package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// runView is the page of one test run.
type runView struct {
	trail
	ID                   string
	Of                   string // the pull requests that it tests
	State                badge
	Message              string
	Kind, Took           string
	Checks               progress
	BaseCommit, BaseTree code
	Details              []detail
	Source               string
	Required, Others     []checkRow
	Failing              []failedTests
	Chain                []stepRow
	Now                  moment
}

// checkRow is one check and what was last reported of it.
type checkRow struct {
	Name   string
	State  badge
	Result string // the host's own word; "" = nothing reported
	URL    string
	At     moment
}

// stepRow is one step of the chain.
type stepRow struct {
	PR           prLink
	Own          bool // tested by this run, and not only included
	Head         code
	Commit, Tree code
}

func (runView) template() string { return "run" }

// Heading is the page's title.
func (v runView) Heading() string { return "Test run of " + v.Of }

func viewRun(q queue.Queue, r *queue.Run, entries []queue.Entry, now time.Time) runView {
	prURL := anyURL(&queue.Snapshot{}, entries)
	v := runView{
		trail: trailOf(&q),
		ID:    string(r.ID), State: look(runBadges, r.State), Message: r.Message,
		Source: sources[r.RequiredSource], Now: at(now, now), Checks: progressOf(r), Took: took(r, now),
		BaseCommit: commit(r.Base.Commit, prURL), BaseTree: tree(r.Base.Tree),
		Kind: map[queue.RunKind]string{queue.MainRun: "of the line", queue.BisectionRun: "of a bisection, to find a culprit"}[r.Kind],
	}
	v.Details = []detail{
		{Label: "Run", Text: string(r.ID)},
		{Label: "Test branch", Text: r.Branch},
		{Label: "Tested commit", Code: commit(r.Commit, prURL)},
		{Label: "Tested tree", Code: tree(r.Tree)},
		{Label: "Merge method", Text: methods[r.MergeMethod]},
		{Label: "Asked for", Time: at(r.AskedAt, now)},
		{Label: "Started", Time: at(r.StartedAt, now)},
	}
	if r.DraftPR != 0 {
		v.Details = append(v.Details, detail{Label: "Draft pull request", Text: fmt.Sprintf("#%d", r.DraftPR)})
	}
	if text := r.ClearedText(); text != "" {
		v.Details = append(v.Details, detail{Label: "Quarantine", Text: text})
	}
	if r.Spoilt != "" {
		v.Details = append(v.Details, detail{Label: "Somebody else", Text: r.Spoilt})
	}
	if r.State.Live() {
		v.Details = append(v.Details, detail{Label: "Time runs out", Time: at(r.Deadline, now)})
	} else {
		v.Details = append(v.Details, detail{Label: "Ended", Time: at(r.EndedAt, now)})
	}
	v.Required, v.Others = checksOf(r, now)
	v.Failing = failedIn(q.Repo, r)
	v.Chain = chainOf(q, r, entries, prURL)
	var own []string
	for _, step := range v.Chain {
		if step.Own {
			own = append(own, fmt.Sprintf("#%d", step.PR.Number))
		}
	}
	v.Of = strings.Join(own, ", ")
	return v
}

// checksOf lists the required checks in their order, then what else reported, by name.
func checksOf(r *queue.Run, now time.Time) (required, others []checkRow) {
	counted := map[string]bool{}
	for _, want := range r.Required {
		report, found := r.Report(want)
		if !found {
			required = append(required, checkRow{Name: want.Name, State: look(verdictBadges, queue.VerdictWaiting)})
			continue
		}
		counted[report.Key()] = true
		required = append(required, checkOf(report, now))
	}
	for key, report := range r.Checks {
		if !counted[key] {
			others = append(others, checkOf(report, now))
		}
	}
	slices.SortFunc(others, func(a, b checkRow) int {
		return strings.Compare(a.Name+"\x00"+a.URL, b.Name+"\x00"+b.URL)
	})
	return required, others
}

func checkOf(r queue.Report, now time.Time) checkRow {
	result := r.Result
	if result == "" {
		result = r.Status
	}
	return checkRow{
		Name: r.Name, State: look(verdictBadges, r.Outcome()), Result: strings.ReplaceAll(result, "_", " "),
		URL: r.URL, At: at(r.At, now),
	}
}

func chainOf(q queue.Queue, r *queue.Run, entries []queue.Entry, prURL string) []stepRow {
	var rows []stepRow
	ahead := len(r.Chain) - len(r.Members)
	for i, step := range r.Chain {
		row := stepRow{
			PR:  prLink{Number: step.PR, Page: PRURL("", q.Repo, q.Branch, step.PR)},
			Own: i >= ahead, Head: commit(step.Head, prURL), Commit: commit(step.Commit, prURL), Tree: tree(step.Tree),
		}
		for j := range entries {
			if entries[j].ID == step.Entry {
				row.PR = linkTo(&q, &entries[j])
			}
		}
		rows = append(rows, row)
	}
	return rows
}
