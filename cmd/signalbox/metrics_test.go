package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"signalbox/account"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/github"
	"signalbox/notify"
	"signalbox/queue"
	"signalbox/queue/engine"
	"signalbox/rest"
	"signalbox/webhook"
)

// measured are the metrics of a process that has done one of everything.
func measured(t *testing.T) (*metrics, *database) {
	t.Helper()
	d, err := openDatabase(t.Context(), storageConfig{databaseURL: dbtest.DSN(t), connections: 4}, nil, discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.SQL().Exec(`INSERT INTO river_job (kind, args, max_attempts) VALUES ('land', '{}', 4)`); err != nil {
		t.Fatal(err)
	}
	keepWaiting(t, d)
	m := newMetrics(d)
	moved := 0
	hooks := m.engineHooks(func(queue.Move) { moved++ })
	hooks.Decided(3, time.Millisecond)
	hooks.Moved(queue.Move{From: queue.Testing, To: queue.Pending, Reason: queue.GroupChanged})
	hooks.Moved(queue.Move{From: queue.NotReady, To: queue.Pending, Reason: queue.NowReady})
	hooks.Moved(queue.Move{From: queue.TestsPassed, To: queue.Merged, Reason: queue.MergedByQueue})
	hooks.Landed(time.Minute)
	hooks.Performed("land", engine.Done, time.Second)
	hooks.Failed("decide")
	m.received(webhook.Event{Name: "push", Outcome: webhook.Stored})
	m.called("GET /repos/:/:", 200)
	m.left(github.Budget{Installation: 5, Resource: "core", Limit: 5000, Remaining: 4999})
	m.requested("/v1/getQueue", 200, time.Millisecond)
	if moved != 3 {
		t.Errorf("%d moves were passed on, want 3", moved)
	}
	return m, d
}

// keepWaiting has something wait for a subscriber since an hour, and for one that is
// switched off.
func keepWaiting(t *testing.T, d *database) {
	t.Helper()
	ctx := t.Context()
	org, err := d.CreateOrganization(ctx, "told")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range account.SubscriberKinds {
		s, err := d.AddSubscriber(ctx, org.ID, account.Subscriber{ID: uuid.NewString(), Kind: kind, Name: "x", Address: "x", Events: []string{"*"}}, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.AddTestDelivery(ctx, org.ID, s.ID, notify.Ping, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.SQL().Exec(`UPDATE subscribers SET enabled = false WHERE kind = 'slack'`); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SQL().Exec(`UPDATE event_deliveries SET since = now() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
}

func TestTheProcessMetricsPassTheLinterAndCount(t *testing.T) {
	t.Parallel()
	m, _ := measured(t)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// What client_golang itself makes is not ours to name.
		if strings.HasPrefix(p.Metric, "signalbox_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	page := httptest.NewRecorder()
	m.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`signalbox_conclusions_total{conclusion="merged"} 1`, `signalbox_conclusions_total{conclusion="failed"} 0`,
		"signalbox_restarts_total 1", `signalbox_landing_seconds_bucket{le="60"} 1`,
		`signalbox_github_rate_limit_remaining{installation="5",resource="core"} 4999`,
		`signalbox_api_request_seconds_count{route="/v1/getQueue",status="200"} 1`,
		`signalbox_queue_depth{state="pending"} 0`, "signalbox_database_up 1", `signalbox_jobs{kind="land",state="available"} 1`, `go_sql_open_connections{db_name="signalbox"}`,
		`signalbox_deliveries_waiting{kind="webhook"} 1`, `signalbox_deliveries_waiting{kind="slack"} 0`, `signalbox_deliveries_oldest_seconds{kind="slack"} 0`,
		`signalbox_webhooks_total{event="push",outcome="stored"} 1`, "signalbox_decision_seconds_count 1",
	} {
		if !strings.Contains(page.Body.String(), want+"\n") && !strings.Contains(page.Body.String(), want+" ") {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !regexp.MustCompile(`signalbox_deliveries_oldest_seconds\{kind="webhook"\} 3[6-9]\d\d`).MatchString(page.Body.String()) {
		t.Error("the page does not say that something has waited for an hour")
	}
}

func TestWithoutADatabaseTheOtherMetricsAreStillThere(t *testing.T) {
	t.Parallel()
	m, d := measured(t)
	if err := d.DB.Close(); err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	m.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := page.Body.String(); page.Code != 200 || !strings.Contains(body, "signalbox_database_up 0\n") || !strings.Contains(body, "signalbox_restarts_total 1\n") {
		t.Errorf("%d %s", page.Code, body)
	}
}

// Dashboards and alerts name metrics in expressions. Every name in them must
// be one that the process or the API really shows.
func TestDashboardAndAlertsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	m, d := measured(t)
	known := map[string]bool{"up": true} // Prometheus's own
	page := httptest.NewRecorder()
	m.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, text := range []string{page.Body.String(), apiMetrics(t, d)} {
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			if words := strings.Fields(lines.Text()); len(words) == 4 && words[1] == "TYPE" {
				known[words[2]] = true
				if words[3] == "histogram" {
					known[words[2]+"_bucket"], known[words[2]+"_sum"], known[words[2]+"_count"] = true, true, true
				}
			}
		}
	}
	used := map[string]bool{}
	for file, expressions := range map[string][]string{
		"grafana/signalbox.json": dashboardExpressions(t), "prometheus/alerts.yml": alertExpressions(t),
	} {
		if len(expressions) < 5 {
			t.Errorf("%s has %d expressions", file, len(expressions))
		}
		for _, e := range expressions {
			for _, name := range namesIn(e) {
				used[name] = true
				if !known[name] {
					t.Errorf("%s: %s is no metric, in %s", file, name, e)
				}
			}
		}
	}
	for _, name := range metricNames(t) {
		if !used[name] && !used[name+"_bucket"] && !used[name+"_count"] {
			t.Errorf("nothing shows or watches %s", name)
		}
	}
}

// apiMetrics is what getMergeQueueMetrics shows of an empty queue.
func apiMetrics(t *testing.T, d *database) string {
	t.Helper()
	ctx := context.Background()
	_, secret, err := createToken(ctx, d.DB, "acme", "test", account.Admin, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	api := rest.New(rest.Config{Store: d.DB, Log: discard})
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Api-Token", secret)
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		api.ServeHTTP(got, r)
		if got.Code != 200 {
			t.Fatalf("%s: %d %s", path, got.Code, got.Body)
		}
		return got
	}
	ask("POST", "/v1/createQueue", `{"repo":{"host":"github.com","owner":"acme","name":"app"},"targetBranch":"main"}`)
	return ask("GET", "/v1/getMergeQueueMetrics", "").Body.String()
}

func dashboardExpressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/signalbox.json")
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []json.RawMessage
	}
	var board struct {
		UID    string
		Panels []panel
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatalf("the dashboard is not JSON: %v", err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

func alertExpressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Expr        string
				For         string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatalf("the alerts are not YAML: %v", err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %q lacks a name, a severity or words", r.Alert)
			}
		}
	}
	return all
}

// The parts of an expression that are no metrics: strings, label matchers,
// lists of labels, durations, functions and operators.
var (
	strayText     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	strayMatchers = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]`)
	strayLabels   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	identifier    = regexp.MustCompile(`\b[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	operators     = []string{"and", "or", "unless", "bool", "offset", "by", "without", "inf", "nan"}
)

// namesIn are the metrics that an expression of PromQL names.
func namesIn(expression string) (names []string) {
	for _, stray := range []*regexp.Regexp{strayText, strayMatchers, strayLabels} {
		expression = stray.ReplaceAllString(expression, " ")
	}
	for _, word := range identifier.FindAllString(expression, -1) {
		if !strings.HasSuffix(word, "(") && !slices.Contains(operators, strings.ToLower(word)) {
			names = append(names, word)
		}
	}
	return names
}

func TestNamesAreFoundInExpressions(t *testing.T) {
	t.Parallel()
	got := namesIn(`sum by (le, x) (rate(a_bucket{repo="b_c",x=~"d|e"}[5m])) / on(y) group_left(z) max(f_total offset 5m) > bool 0.5 and g:h`)
	if want := []string{"a_bucket", "f_total", "g:h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
