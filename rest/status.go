package rest

import (
	"context"
	"fmt"

	"signalbox/queue"
)

// status is what a token can see, at a glance.
type status struct {
	Status       string        `json:"status"` // "ok": the service and its storage answer
	Version      string        `json:"version"`
	Time         moment        `json:"time"`
	Host         string        `json:"host"` // what repo.host must say
	Organization string        `json:"organization"`
	Token        statusToken   `json:"token"`
	Queues       []statusQueue `json:"queues"`
}

// statusToken is the caller's own token.
type statusToken struct {
	Name      string  `json:"name"`
	Scope     string  `json:"scope"`
	ExpiresAt *moment `json:"expiresAt"` // null: never
}

// statusQueue is one queue of the organisation.
type statusQueue struct {
	Repo         statusRepo `json:"repo"`
	TargetBranch string     `json:"targetBranch"`
	State        string     `json:"state"`
	Mode         string     `json:"mode"`
	Enqueued     int64      `json:"enqueued"` // active entries without those that are not ready
	NotReady     int64      `json:"notReady"`
	Testing      int64      `json:"testing"` // runs that hold a testing slot
}

type statusRepo struct {
	Host  string `json:"host"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

func (a *API) getStatus(ctx context.Context, c *call) (any, error) {
	depths, err := a.store.Depths(ctx, c.org.ID)
	if err != nil {
		return nil, fmt.Errorf("look at the queues: %w", err)
	}
	out := status{
		Status: "ok", Version: a.version, Time: moment(c.now), Host: a.hostName, Organization: c.org.Slug,
		Token:  statusToken{c.token.Name, string(c.token.Scope), momentOrNull(c.token.ExpiresAt)},
		Queues: []statusQueue{},
	}
	var last queue.ID
	for _, m := range depths {
		if m.Queue.ID != last { // the other kind of the same queue is counted in
			last = m.Queue.ID
			r := m.Queue.Repo
			out.Queues = append(out.Queues, statusQueue{
				Repo: statusRepo{r.Host, r.Owner, r.Name}, TargetBranch: m.Queue.Branch,
				State: string(m.Queue.State), Mode: string(m.Queue.ReportedMode()),
			})
		}
		row := &out.Queues[len(out.Queues)-1]
		row.Enqueued += m.Depth
		row.NotReady += m.NotReady
		row.Testing += m.Testing
	}
	return out, nil
}
