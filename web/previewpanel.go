package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"signalbox/queue"
)

// The settings' page can replay the last week with other settings. That is a
// question and changes nothing: whoever may read the page may ask.

// previewed are the settings that it can be asked with.
var previewed = []string{
	"mode", "concurrency", "bisectionConcurrency", "batch", "batchingMinSize", "batchingMaxWaitTimeMinutes",
	"pendingFailureDepth", "canOptimisticallyMerge", "optimizationMode", "speculation",
}

// previewPanel is the question, with the answer once it was asked.
type previewPanel struct {
	Action, Branch string // of the form
	Rows           []settingRow
	Answer         *previewAnswer
	Problem        string // instead of an answer
}

// previewAnswer is what happened and what would have.
type previewAnswer struct {
	About   string
	Changes []queue.Changed
	Rows    []previewRow
}

// previewRow is a figure: as it happened, as the settings of now and as the
// changed ones would have made it.
type previewRow struct{ Name, Happened, AsIs, Changed string }

// preview reads what is asked, and answers it.
func (h *Handler) preview(ctx context.Context, q queue.Queue, asked url.Values) (*previewPanel, error) {
	if h.replay == nil {
		return nil, nil
	}
	panel := &previewPanel{Action: RepoURL("", q.Repo) + "/settings", Branch: q.Branch}
	var change queue.Change
	var problems []error
	for _, g := range settingGroups {
		for _, d := range g.Defs {
			if !slices.Contains(previewed, d.Name) {
				continue
			}
			value := d.read(&q)
			if asked.Has("preview") && (asked.Has(d.Name) || d.Kind == "switch") {
				if value = asked.Get(d.Name); d.Kind == "switch" {
					value = strconv.FormatBool(value == "true")
				}
				problems = append(problems, d.wish(&change, value))
			}
			panel.Rows = append(panel.Rows, settingRow{settingDef: d, Value: value, Shown: d.shown(value)})
		}
	}
	if !asked.Has("preview") {
		return panel, nil
	}
	if err := errors.Join(problems...); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error(), pageURL("", q.Repo, "/settings", q.Branch)}
	}
	p, err := h.replay(ctx, q, q.Changed(change))
	switch {
	case errors.Is(err, queue.ErrNoHistory):
		panel.Problem = "Nothing landed or failed its tests in this queue during the last week."
	case err != nil:
		return nil, fmt.Errorf("replay the last week: %w", err)
	default:
		panel.Answer = answerOf(p, change.Against(&q))
	}
	return panel, nil
}

func answerOf(p queue.Preview, changes []queue.Changed) *previewAnswer {
	a := &previewAnswer{About: plural(p.Replayed, "pull request") + " of the last week", Changes: changes}
	if p.LeftOut > 0 {
		a.About += fmt.Sprintf(" (%d older ones are left out)", p.LeftOut)
	}
	row := func(name string, of func(queue.Figures) string) {
		a.Rows = append(a.Rows, previewRow{name, of(p.Happened), of(p.AsIs), of(p.Changed)})
	}
	took := func(d time.Duration) string { return length(d.Round(time.Minute)) }
	row("Merged", func(f queue.Figures) string { return strconv.Itoa(f.Merged) })
	row("Failed", func(f queue.Figures) string { return strconv.Itoa(f.Failed) })
	row("Half are through after", func(f queue.Figures) string { return took(f.P50) })
	row("95 of 100 after", func(f queue.Figures) string { return took(f.P95) })
	row("99 of 100 after", func(f queue.Figures) string { return took(f.P99) })
	row("Runs for each", func(f queue.Figures) string { return fmt.Sprintf("%.2f", f.Runs) })
	row("Minutes of CI for each merged", func(f queue.Figures) string { return fmt.Sprintf("%.1f", f.CIMinutes) })
	row("In the queue at most", func(f queue.Figures) string { return strconv.Itoa(f.MostWaiting) })
	return a
}
