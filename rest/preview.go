package rest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"signalbox/queue"
)

// preview is what a queue's settings and changed ones would have done lately,
// next to what happened.
type preview struct {
	Since    moment `json:"since"`
	Until    moment `json:"until"`
	Replayed int    `json:"replayed"`
	LeftOut  int64  `json:"leftOut"`
	// Changes are the settings that the request makes different.
	Changes   []settingChange `json:"changes"`
	Happened  figures         `json:"happened"`
	AsItIs    figures         `json:"asItIs"`
	AsChanged figures         `json:"asChanged"`
}

// settingChange is one setting that is different.
type settingChange struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// figures are how pull requests fared.
type figures struct {
	Merged             int        `json:"merged"`
	Failed             int        `json:"failed"`
	TurnaroundMinutes  turnaround `json:"turnaroundMinutes"`
	RunsPerPullRequest float64    `json:"runsPerPullRequest"`
	CIMinutesPerMerged float64    `json:"ciMinutesPerMerged"`
	MostInQueue        int        `json:"mostInQueue"`
}

// turnaround are quantiles of the minutes from being ready to the end.
type turnaround struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func encodeFigures(f queue.Figures) figures {
	tenths := func(v float64) float64 { return math.Round(v*10) / 10 }
	minutes := func(d time.Duration) float64 { return tenths(d.Minutes()) }
	return figures{
		Merged: f.Merged, Failed: f.Failed,
		TurnaroundMinutes:  turnaround{minutes(f.P50), minutes(f.P95), minutes(f.P99)},
		RunsPerPullRequest: math.Round(f.Runs*100) / 100, CIMinutesPerMerged: tenths(f.CIMinutes), MostInQueue: f.MostWaiting,
	}
}

// previewQueue answers what changed settings would have done. It changes
// nothing; the queue's state plays no part in it.
func (a *API) previewQueue(ctx context.Context, c *call) (any, error) {
	s, err := decodeSettings(c)
	if err != nil {
		return nil, err
	}
	s.host, s.change.State = a.host(s.host), nil
	q, err := a.find(ctx, c, s.place)
	if err != nil {
		return nil, err
	}
	p, err := a.preview(ctx, q, q.Changed(s.change))
	switch {
	case errors.Is(err, queue.ErrNoHistory):
		return nil, &failure{status: http.StatusConflict, code: CodeNothingToReplay,
			message: "Nothing landed or failed its tests in this queue during the last week, so there is nothing to replay."}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &failure{status: http.StatusServiceUnavailable, code: CodeReplayTooSlow, retry: time.Minute, cause: err,
			message: "The last week took too long to replay. Try again, or use signalbox simulate."}
	case err != nil:
		return nil, fmt.Errorf("replay the last week: %w", err)
	}
	out := preview{Since: moment(p.Since), Until: moment(p.Until), Replayed: p.Replayed, LeftOut: p.LeftOut, Changes: []settingChange{},
		Happened: encodeFigures(p.Happened), AsItIs: encodeFigures(p.AsIs), AsChanged: encodeFigures(p.Changed)}
	for _, d := range s.change.Against(&q) {
		out.Changes = append(out.Changes, settingChange(d))
	}
	return out, nil
}
