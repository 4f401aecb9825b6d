package main

import (
	"context"
	"time"

	"signalbox/db"
	"signalbox/queue"
	"signalbox/queue/sim"
)

// previewer answers what other settings would have done during the last week.
type previewer struct {
	store *db.DB
	now   func() time.Time
	// one lets one replay run at a time: each keeps two processors busy for a
	// few seconds.
	one chan struct{}
}

func newPreviewer(store *db.DB, now func() time.Time) *previewer {
	return &previewer{store: store, now: now, one: make(chan struct{}, 1)}
}

// preview replays the last week of a queue.
func (p *previewer) preview(ctx context.Context, q queue.Queue, changed queue.Settings) (queue.Preview, error) {
	select {
	case p.one <- struct{}{}:
		defer func() { <-p.one }()
	case <-ctx.Done():
		return queue.Preview{}, ctx.Err()
	}
	until := p.now()
	h, err := p.store.History(ctx, q, until.AddDate(0, 0, -7), until, sim.HistoryAtMost)
	if err != nil {
		return queue.Preview{}, err
	}
	return sim.Replay(ctx, h, q.Changed(queue.Change{}), changed)
}
