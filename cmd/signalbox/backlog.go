package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

// backlogTimeout bounds how long a scrape waits for the database.
const backlogTimeout = 5 * time.Second

// backlog shows what waits in the database. It looks when it is scraped. All
// copies of the program show the same, so it is to be looked at with max, not
// sum.
type backlog struct {
	db                             *db.DB
	up, depth, jobs, facts, oldest *prometheus.Desc
	untold, longest                *prometheus.Desc
}

func newBacklog(d *db.DB) *backlog {
	return &backlog{
		db:      d,
		up:      prometheus.NewDesc("signalbox_database_up", "1 when the database answered this scrape, else 0.", nil, nil),
		depth:   prometheus.NewDesc("signalbox_queue_depth", "Pull requests in all queues, by state. Every copy of the program shows the same.", []string{"state"}, nil),
		jobs:    prometheus.NewDesc("signalbox_jobs", "Jobs that have not ended, by kind and state. Every copy of the program shows the same.", []string{"kind", "state"}, nil),
		facts:   prometheus.NewDesc("signalbox_facts_waiting", "Facts that no decision has folded yet. Every copy of the program shows the same.", nil, nil),
		oldest:  prometheus.NewDesc("signalbox_facts_oldest_seconds", "How long the fact that waits longest has waited. Every copy of the program shows the same.", nil, nil),
		untold:  prometheus.NewDesc("signalbox_deliveries_waiting", "What subscribers have not been told yet, by their kind (webhook or slack). Those that are switched off do not count. Every copy of the program shows the same.", []string{"kind"}, nil),
		longest: prometheus.NewDesc("signalbox_deliveries_oldest_seconds", "How long what waits longest to be told to a subscriber has waited, by its kind. Every copy of the program shows the same.", []string{"kind"}, nil),
	}
}

// Describe lists them.
func (b *backlog) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{b.up, b.depth, b.jobs, b.facts, b.oldest, b.untold, b.longest} {
		out <- desc
	}
}

// Collect looks. When the database does not answer, that is all there is to
// show; the other metrics are as they are.
func (b *backlog) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	waiting, err := b.db.Backlog(ctx)
	if err != nil {
		gauge(b.up, 0)
		return
	}
	gauge(b.up, 1)
	for _, state := range queue.EntryStates {
		if !state.Final() {
			gauge(b.depth, float64(waiting.Entries[state]), string(state))
		}
	}
	for _, j := range waiting.Jobs {
		gauge(b.jobs, float64(j.N), j.Kind, j.State)
	}
	gauge(b.facts, float64(waiting.Facts.N))
	gauge(b.oldest, waiting.Facts.Oldest.Seconds())
	for _, kind := range account.SubscriberKinds {
		gauge(b.untold, float64(waiting.Untold[kind].N), string(kind))
		gauge(b.longest, waiting.Untold[kind].Oldest.Seconds(), string(kind))
	}
}
