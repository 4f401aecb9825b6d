package rest

import (
	"context"
	"fmt"
	"time"

	"signalbox/queue"
)

// standing is where a pull request stands in its queue.
type standing struct {
	waitingFor []condition
	position   *int64 // from 1; null when it has none
	estimate   *moment
}

// explain puts the queue's own reading of an entry into the API's words.
func explain(s *queue.Snapshot, e *queue.Entry, now time.Time) standing {
	return standingOf(queue.Explain(s, e, now))
}

func standingOf(x queue.Explanation) standing {
	out := standing{position: valueOrNull(x.Position), estimate: momentOrNull(x.EstimatedMergeAt)}
	for _, c := range x.Conditions {
		out.waitingFor = append(out.waitingFor, condition{c.Name, c.Met, c.Message})
	}
	return out
}

// explanation is everything that is known of why a pull request is where it is.
type explanation struct {
	PRNumber   int64       `json:"prNumber"`
	PRTitle    string      `json:"prTitle"`
	ID         string      `json:"id"`
	State      string      `json:"state"`
	Reason     reason      `json:"reason"`
	Conditions []condition `json:"conditions"`
	// Position is the place in line, from 1; null when it has none.
	Position *int64 `json:"position"`
	// WaitsFor is what has to happen next, a sentence; null once it has ended.
	WaitsFor *string `json:"waitsFor"`
	// WaitsUntil is when waiting ends by itself; null when nobody can know.
	WaitsUntil *moment `json:"waitsUntil"`
	// TestRunID is the run that tests it, or that proved it; null if none.
	TestRunID *string `json:"testRunId"`
	// TestedWith are the pull requests ahead that the run includes.
	TestedWith       []int64 `json:"testedWith"`
	EstimatedMergeAt *moment `json:"estimatedMergeAt"`
	// Timeline is every move of all its submissions, oldest first.
	Timeline []timelineRow `json:"timeline"`
}

// timelineRow is one move of a pull request.
type timelineRow struct {
	Submission int64   `json:"submission"` // counts from 1
	From       *string `json:"from"`       // null: before the first submission
	To         string  `json:"to"`
	At         moment  `json:"at"`
	Reason     reason  `json:"reason"`
	Actor      *string `json:"actor"` // login of who caused it; null: Signalbox or a program
	TestRunID  *string `json:"testRunId"`
}

func (a *API) explainPullRequest(ctx context.Context, c *call) (any, error) {
	p, pr, err := a.decodePullRequest(c)
	if err != nil {
		return nil, err
	}
	q, err := a.find(ctx, c, p)
	if err != nil {
		return nil, err
	}
	s, e, err := a.entry(ctx, p, q, pr)
	if err != nil {
		return nil, err
	}
	moves, err := a.store.Timeline(ctx, q.ID, pr)
	if err != nil {
		return nil, fmt.Errorf("read the timeline of #%d: %w", pr, err)
	}
	return encodeExplanation(e, queue.Explain(s, e, c.now), moves), nil
}

func encodeExplanation(e *queue.Entry, x queue.Explanation, moves []queue.Move) explanation {
	st := standingOf(x)
	out := explanation{
		PRNumber: e.Number, PRTitle: e.Title, ID: string(e.ID), State: string(e.State), Reason: reason{string(e.Reason), e.Message},
		Conditions: list(st.waitingFor), Position: st.position,
		WaitsFor: valueOrNull(x.WaitsFor), WaitsUntil: momentOrNull(x.Until),
		TestRunID: valueOrNull(string(x.Run)), TestedWith: list(x.TestedWith), EstimatedMergeAt: st.estimate,
		Timeline: make([]timelineRow, len(moves)),
	}
	for i, m := range moves {
		out.Timeline[i] = timelineRow{
			Submission: m.Submission, From: valueOrNull(string(m.From)), To: string(m.To), At: moment(m.At),
			Reason: reason{string(m.Reason), m.Message}, Actor: valueOrNull(m.Actor.Login), TestRunID: valueOrNull(string(m.Run)),
		}
	}
	return out
}
