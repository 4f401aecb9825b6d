package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"signalbox/account"
	"signalbox/gitprovider/github"
	"signalbox/notify"
	"signalbox/queue"
	"signalbox/queue/engine"
	"signalbox/webhook"
)

// metrics are the process's own, served on an address of their own. What the
// queues do is another page, per organisation, in the API. Every label is from
// a closed set, or a number of an installation.
type metrics struct {
	http.Handler
	registry    *prometheus.Registry
	decisions   prometheus.Histogram
	facts       prometheus.Counter
	moves       *prometheus.CounterVec
	conclusions *prometheus.CounterVec
	restarts    prometheus.Counter
	landing     prometheus.Histogram
	actions     *prometheus.HistogramVec
	failures    *prometheus.CounterVec
	webhooks    *prometheus.CounterVec
	calls       *prometheus.CounterVec
	budget      *prometheus.GaugeVec
	budgetLimit *prometheus.GaugeVec
	requests    *prometheus.HistogramVec
	deliveries  *prometheus.HistogramVec
	strays      prometheus.Counter
}

// newMetrics makes the metrics of one process and registers them.
func newMetrics(d *database) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "signalbox_decision_seconds", Help: "Time that a decision took, with its transaction.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, 1, 5},
		}),
		facts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "signalbox_facts_total", Help: "Facts folded into decisions.",
		}),
		moves: counters("signalbox_moves_total", "Moves of pull requests in queues, by the new state and the reason.", "to", "reason"),
		conclusions: counters("signalbox_conclusions_total", "Pull requests that left their queue, by how they ended: merged, failed or cancelled.",
			"conclusion"),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "signalbox_restarts_total", Help: "Pull requests that went back to be tested again.",
		}),
		landing: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "signalbox_landing_seconds", Help: "Time from submission to landing, of pull requests that landed.",
			Buckets: queue.DurationBounds(),
		}),
		actions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "signalbox_action_seconds", Help: "Time that an attempt at an action (a job) took, by its kind and how it ended.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"kind", "outcome"}),
		failures: counters("signalbox_engine_failures_total", "Errors of the engine's loops (listen, route, decide, time), and panics.", "where"),
		webhooks: counters("signalbox_webhooks_total", "Webhooks received, by event and what became of them.", "event", "outcome"),
		calls:    counters("signalbox_github_calls_total", "Calls to the Git host by endpoint and status; status 0 is no answer.", "endpoint", "status"),
		budget: gauges("signalbox_github_rate_limit_remaining", "Calls that the host still allows an installation until its limit is reset.",
			"installation", "resource"),
		budgetLimit: gauges("signalbox_github_rate_limit", "Calls that the host allows an installation between two resets.",
			"installation", "resource"),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "signalbox_api_request_seconds", Help: "Time that requests to the API took, by route and status; no route is a path that does not exist.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "status"}),
		deliveries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "signalbox_delivery_seconds", Help: "Time that an attempt to tell a subscriber something took, by its kind (webhook or slack) and how it ended.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"kind", "outcome"}),
		strays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "signalbox_stray_branches_total", Help: "Test branches that were found on the Git host after their runs had ended, and removed.",
		}),
	}
	m.showZeros()
	m.registry.MustRegister(
		buildInfo(), m.decisions, m.facts, m.moves, m.conclusions, m.restarts, m.landing, m.actions, m.failures,
		m.webhooks, m.calls, m.budget, m.budgetLimit, m.requests, m.deliveries, m.strays, newBacklog(d.DB),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "signalbox_facts_dropped_total", Help: "Facts that could not be decoded and were left out. Each is a fault of ours.",
		}, func() float64 { return float64(d.Dropped()) }),
		collectors.NewDBStatsCollector(d.SQL(), "signalbox"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	m.Handler = mux
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func buildInfo() prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "signalbox_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": programVersion()},
	})
	build.Set(1)
	return build
}

// showZeros makes known what has not happened yet, so that it is shown as 0
// and an alert can see it change.
func (m *metrics) showZeros() {
	for _, where := range []string{"listen", "route", "decide", "time", "panic"} {
		m.failures.WithLabelValues(where)
	}
	for _, kind := range account.SubscriberKinds {
		for _, outcome := range notify.Outcomes {
			m.deliveries.WithLabelValues(string(kind), string(outcome))
		}
	}
	for _, state := range queue.EntryStates {
		if state.Final() {
			m.conclusions.WithLabelValues(string(state))
		}
	}
}

// engineHooks counts what the engine does. moved hears of moves too; it may be nil.
func (m *metrics) engineHooks(moved func(queue.Move)) engine.Hooks {
	return engine.Hooks{
		Decided: func(facts int, took time.Duration) {
			m.decisions.Observe(took.Seconds())
			m.facts.Add(float64(facts))
		},
		Moved: func(move queue.Move) {
			m.count(move)
			if moved != nil {
				moved(move)
			}
		},
		Landed: func(took time.Duration) { m.landing.Observe(took.Seconds()) },
		Performed: func(kind string, outcome engine.Outcome, took time.Duration) {
			m.actions.WithLabelValues(kind, string(outcome)).Observe(took.Seconds())
		},
		Failed: func(where string) { m.failures.WithLabelValues(where).Inc() },
	}
}

// count counts a move.
func (m *metrics) count(move queue.Move) {
	m.moves.WithLabelValues(string(move.To), string(move.Reason)).Inc()
	switch {
	case move.To.Final():
		m.conclusions.WithLabelValues(string(move.To)).Inc()
	case move.To == queue.Pending && move.From != queue.NotReady:
		m.restarts.Inc()
	}
}

// received counts a webhook.
func (m *metrics) received(e webhook.Event) {
	m.webhooks.WithLabelValues(e.Name, string(e.Outcome)).Inc()
}

// called counts a call to the Git host.
func (m *metrics) called(endpoint string, status int) {
	m.calls.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
}

// left notes what is left of the host's limit.
func (m *metrics) left(b github.Budget) {
	installation := strconv.FormatInt(b.Installation, 10)
	m.budget.WithLabelValues(installation, b.Resource).Set(float64(b.Remaining))
	m.budgetLimit.WithLabelValues(installation, b.Resource).Set(float64(b.Limit))
}

// delivered notes an attempt to tell a subscriber something.
func (m *metrics) delivered(kind account.SubscriberKind, outcome notify.Outcome, took time.Duration) {
	m.deliveries.WithLabelValues(string(kind), string(outcome)).Observe(took.Seconds())
}

// requested counts a request to the API.
func (m *metrics) requested(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}
