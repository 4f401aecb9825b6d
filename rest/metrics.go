package rest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"signalbox/queue"
)

// metricsType is the content type of metrics, whatever a caller would like.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// getMergeQueueMetrics answers in Prometheus's text format. The numbers are
// computed when they are asked for, and are those of the caller's
// organisation alone, so there is no registry that lives on.
func (a *API) getMergeQueueMetrics(ctx context.Context, c *call) (any, error) {
	p, one, err := a.decodeMetricsQuery(c)
	if err != nil {
		return nil, err
	}
	var repo queue.Repo
	if one {
		repo, err = a.store.Repository(ctx, c.org.ID, p.host, p.owner, p.name)
		if err != nil {
			return nil, orNotFound(fmt.Errorf("find repository: %w", err),
				notFound(CodeRepositoryNotFound, "There is no repository %s in your organisation.", p.repo()))
		}
	}
	measures, err := a.store.Measures(ctx, c.org.ID, repo.ID, c.now)
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	text, err := encodeMetrics(queueCollector(measures))
	if err != nil {
		return nil, err
	}
	return document{kind: metricsType, body: text}, nil
}

// decodeMetricsQuery reads which repository is asked about, if it is only one.
func (a *API) decodeMetricsQuery(c *call) (p place, one bool, err error) {
	for _, name := range []string{"repo", "repoHost"} {
		if len(c.query[name]) > 1 {
			return p, false, invalidRequest(name + " is given twice.")
		}
	}
	if !c.query.Has("repo") && !c.query.Has("repoHost") {
		return p, false, nil
	}
	repo, host := c.query.Get("repo"), c.query.Get("repoHost")
	owner, name, _ := strings.Cut(repo, "/")
	switch {
	case repo == "":
		return p, false, invalidRequest("repo is required when repoHost is given, as owner/name.")
	case host == "":
		return p, false, invalidRequest("repoHost is required when repo is given, such as github.com.")
	case owner == "" || name == "" || strings.Contains(name, "/"):
		return p, false, invalidRequest("repo must be owner/name.")
	case len(host) > maxHost || len(owner) > maxOwner || len(name) > maxName:
		return p, false, invalidRequest("repo or repoHost is longer than any name is.")
	}
	return place{host: a.host(host), owner: owner, name: name}, true, nil
}

func encodeMetrics(c prometheus.Collector) ([]byte, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return nil, fmt.Errorf("collect metrics: %w", err)
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("collect metrics: %w", err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	return out.Bytes(), nil
}

// queueCollector shows measures as metrics.
type queueCollector []queue.Measures

// queueMetric is one of them. Exactly one of number and durations is set.
type queueMetric struct {
	name, help string
	kind       prometheus.ValueType
	number     func(queue.Measures) int64
	durations  func(queue.Measures) queue.Durations
}

// conclusionMetric is one that has the conclusion as a label.
type conclusionMetric struct {
	name, help string
	kind       prometheus.ValueType
	of         func(queue.Measures) queue.Happened
}

// The contract has the names with _1h, and that what they count is a gauge:
// it falls when an hour has passed. The others only grow, as rate() wants it.
func queueMetrics() []queueMetric {
	return []queueMetric{
		{name: "mq_depth_current", help: "Pull requests in the queue, without those that are not ready.", kind: prometheus.GaugeValue,
			number: func(m queue.Measures) int64 { return m.Depth }},
		{name: "mq_awaiting_mergeability", help: "Submitted pull requests that are not ready to be tested.", kind: prometheus.GaugeValue,
			number: func(m queue.Measures) int64 { return m.NotReady }},
		{name: "mq_testing_slots_active", help: "Test runs under way.", kind: prometheus.GaugeValue,
			number: func(m queue.Measures) int64 { return m.Testing }},
		{name: "mq_pr_restarts_1h_total", help: "Pull requests that went back to be tested again in the last hour.", kind: prometheus.GaugeValue,
			number: func(m queue.Measures) int64 { return m.LastHour.Restarts }},
		{name: "mq_pr_restarts_total", help: "Pull requests that went back to be tested again.", kind: prometheus.CounterValue,
			number: func(m queue.Measures) int64 { return m.Ever.Restarts }},
		{name: "mq_pr_wait_duration_1h_seconds", help: "Time that pull requests waited for their test to begin, in the last hour.",
			durations: func(m queue.Measures) queue.Durations { return m.LastHour.Wait }},
		{name: "mq_pr_test_duration_1h_seconds", help: "Time that tests took, in the last hour.",
			durations: func(m queue.Measures) queue.Durations { return m.LastHour.Test }},
		{name: "mq_pr_time_in_queue_1h_seconds", help: "Time from submission to the ending, of pull requests that left in the last hour.",
			durations: func(m queue.Measures) queue.Durations { return m.LastHour.InQueue }},
		{name: "mq_pr_wait_duration_seconds", help: "Time that pull requests waited for their test to begin.",
			durations: func(m queue.Measures) queue.Durations { return m.Ever.Wait }},
		{name: "mq_pr_test_duration_seconds", help: "Time that tests took.",
			durations: func(m queue.Measures) queue.Durations { return m.Ever.Test }},
		{name: "mq_pr_time_in_queue_seconds", help: "Time from submission to the ending.",
			durations: func(m queue.Measures) queue.Durations { return m.Ever.InQueue }},
	}
}

func conclusionMetrics() []conclusionMetric {
	return []conclusionMetric{
		{"mq_pr_conclusions_1h_total", "Pull requests that left the queue in the last hour, by how they ended.", prometheus.GaugeValue,
			func(m queue.Measures) queue.Happened { return m.LastHour }},
		{"mq_pr_conclusions_total", "Pull requests that left the queue, by how they ended.", prometheus.CounterValue,
			func(m queue.Measures) queue.Happened { return m.Ever }},
	}
}

var queueLabels = []string{"repo", "branch", "queue_type"}

// Describe sends nothing: what there is depends on the queues.
func (q queueCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every metric of every queue, zeros too.
func (q queueCollector) Collect(out chan<- prometheus.Metric) {
	for _, metric := range queueMetrics() {
		desc := prometheus.NewDesc(metric.name, metric.help, queueLabels, nil)
		for _, m := range q {
			if metric.number != nil {
				out <- prometheus.MustNewConstMetric(desc, metric.kind, float64(metric.number(m)), labelsOf(m)...)
				continue
			}
			out <- histogram(desc, metric.durations(m), labelsOf(m))
		}
	}
	for _, metric := range conclusionMetrics() {
		desc := prometheus.NewDesc(metric.name, metric.help, append([]string{"conclusion"}, queueLabels...), nil)
		for _, m := range q {
			h := metric.of(m)
			for _, c := range []struct {
				name string
				n    int64
			}{{"merged", h.Merged}, {"failed", h.Failed}, {"cancelled", h.Cancelled}} {
				out <- prometheus.MustNewConstMetric(desc, metric.kind, float64(c.n), append([]string{c.name}, labelsOf(m)...)...)
			}
		}
	}
}

func labelsOf(m queue.Measures) []string {
	return []string{m.Queue.Repo.Owner + "/" + m.Queue.Repo.Name, m.Queue.Branch, string(m.Kind)}
}

func histogram(desc *prometheus.Desc, d queue.Durations, labels []string) prometheus.Metric {
	buckets := map[float64]uint64{}
	for i, bound := range queue.DurationBounds() {
		buckets[bound] = 0
		if i < len(d.Within) {
			buckets[bound] = uint64(d.Within[i])
		}
	}
	return prometheus.MustNewConstHistogram(desc, uint64(d.Count), d.Seconds, buckets, labels...)
}
