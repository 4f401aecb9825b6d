package rest

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"signalbox/queue"
)

// The contract has names that end as those of counters and are none. The
// linter may find nothing else.
func TestQueueMetricsPassTheLinterButForTheContractsOwnNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	measures := []queue.Measures{{Queue: queue.Queue{Repo: queue.Repo{Owner: "acme", Name: "app"}, Branch: "main"}, Kind: queue.MainRun}}
	if err := registry.Register(queueCollector(measures)); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		found = append(found, p.Metric)
		if !slices.Contains([]string{"mq_pr_conclusions_1h_total", "mq_pr_restarts_1h_total"}, p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if len(found) != 2 {
		t.Errorf("the linter finds %v", found)
	}
}
