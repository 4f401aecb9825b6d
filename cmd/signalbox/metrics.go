package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"signalbox/queue"
	"signalbox/queue/engine"
	"signalbox/webhook"
)

// metrics are the process's own, served on an address of their own. What the
// queues do is another page, per organisation, in the API. Every label is from
// a closed set.
type metrics struct {
	http.Handler
	registry  *prometheus.Registry
	decisions prometheus.Histogram
	facts     prometheus.Counter
	moves     *prometheus.CounterVec
	actions   *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	webhooks  *prometheus.CounterVec
	calls     *prometheus.CounterVec
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
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_moves_total", Help: "Moves of pull requests in queues, by the new state and the reason.",
		}, []string{"to", "reason"}),
		actions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "signalbox_action_seconds", Help: "Time that an attempt at an action took, by its kind and how it ended.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"kind", "outcome"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_engine_failures_total", Help: "Errors of the engine's loops (listen, route, decide, time), and panics.",
		}, []string{"where"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_webhooks_total", Help: "Webhooks received, by event and what became of them.",
		}, []string{"event", "outcome"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_github_calls_total", Help: "Calls to the Git host by endpoint and status; status 0 is no answer.",
		}, []string{"endpoint", "status"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "signalbox_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": programVersion()},
	})
	build.Set(1)
	for _, where := range []string{"listen", "route", "decide", "time", "panic"} {
		m.failures.WithLabelValues(where) // so that it is shown as 0, and an alert can be made
	}
	m.registry.MustRegister(
		build, m.decisions, m.facts, m.moves, m.actions, m.failures, m.webhooks, m.calls,
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

// engineHooks counts what the engine does. moved hears of moves too; it may be nil.
func (m *metrics) engineHooks(moved func(queue.Move)) engine.Hooks {
	return engine.Hooks{
		Decided: func(facts int, took time.Duration) {
			m.decisions.Observe(took.Seconds())
			m.facts.Add(float64(facts))
		},
		Moved: func(move queue.Move) {
			m.moves.WithLabelValues(string(move.To), string(move.Reason)).Inc()
			if moved != nil {
				moved(move)
			}
		},
		Performed: func(kind string, outcome engine.Outcome, took time.Duration) {
			m.actions.WithLabelValues(kind, string(outcome)).Observe(took.Seconds())
		},
		Failed: func(where string) { m.failures.WithLabelValues(where).Inc() },
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
