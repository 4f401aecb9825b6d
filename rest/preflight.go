package rest

import (
	"context"

	"signalbox/queue"
)

// preflight is what is known of a queue's set-up on the Git host.
type preflight struct {
	CheckedAt *moment `json:"checkedAt"` // null: nobody has looked yet
	// Running says that a newer answer is on its way.
	Running     bool      `json:"running"`
	Problems    int       `json:"problems"`
	LandingMode string    `json:"landingMode"`
	Findings    []finding `json:"findings"`
}

// finding is what one check found.
type finding struct {
	Check   string  `json:"check"`
	Level   string  `json:"level"`
	Message string  `json:"message"`
	Action  *string `json:"action"`
}

func encodePreflight(q queue.Queue) preflight {
	p := &q.Preflight
	out := preflight{
		CheckedAt: momentOrNull(p.At), Running: p.Running(), Problems: p.Problems(),
		LandingMode: string(q.LandingMode()), Findings: make([]finding, len(p.Findings)),
	}
	for i, f := range p.Findings {
		out.Findings[i] = finding{f.Check, string(f.Level), f.Message, valueOrNull(f.Action)}
	}
	return out
}

// getPreflight answers with what the newest preflight found. The host is not asked.
func (a *API) getPreflight(ctx context.Context, c *call) (any, error) {
	_, q, err := a.named(ctx, c)
	if err != nil {
		return nil, err
	}
	return encodePreflight(q), nil
}

// runPreflight has the host looked at again. The answer is what is known
// until then.
func (a *API) runPreflight(ctx context.Context, c *call) (any, error) {
	p, q, err := a.named(ctx, c)
	if err != nil {
		return nil, err
	}
	if q, err = a.decided(ctx, c, p, q, queue.PreflightWanted{}); err != nil {
		return nil, err
	}
	return encodePreflight(q), nil
}
