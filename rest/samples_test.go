package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
)

// samples are requests that their endpoints grant in the world of runCommands,
// one for each endpoint that takes more than a queue.
var samples = map[string]string{
	"/v1/submitPullRequest":           `{@main,"pr":{"number":12}}`,
	"/v1/cancelPullRequest":           `{@main,"pr":{"number":12}}`,
	"/v1/restartTestsOnPullRequest":   `{@main,"pr":{"number":12}}`,
	"/v1/getSubmittedPullRequest":     `{@main,"pr":{"number":12}}`,
	"/v1/getSubmittedPullRequests":    `{@main,"prs":[{"number":12},{"number":13}]}`,
	"/v1/explainPullRequest":          `{@main,"pr":{"number":12}}`,
	"/v1/getMergeQueueTestingDetails": `{@main,"testRunId":"$run12"}`,
	"/v1/setImpactedTargets":          `{@main,"pr":{"number":12},"impactedTargets":["a"]}`,
	"/v1/getMergeQueueMetrics":        "",

	"/v1/test-results":                       "a report; what it is about stands in the query",
	"/v1/flaky-tests/list-quarantined-tests": `{@main,"org_url_slug":"acme"}`,
	"/v1/flaky-tests/list-unhealthy-tests":   `{@main,"org_url_slug":"acme","status":"FLAKY"}`,
	"/v1/flaky-tests/list-failing-tests":     `{@main,"org_url_slug":"acme","start_time":"2026-11-27T00:00:00Z","end_time":"2026-11-28T00:00:00Z"}`,
	"/v1/flaky-tests/list-uploads":           `{@main,"org_url_slug":"acme"}`,
	"/v1/flaky-tests/get-test-details":       `{@main,"org_url_slug":"acme","test_id":"` + sampleTest + `"}`,
	"/v1/flaky-tests/list-test-evidence":     `{@main,"org_url_slug":"acme","test_id":"` + sampleTest + `"}`,
	"/v1/flaky-tests/set-quarantine":         `{@main,"org_url_slug":"acme","test_id":"` + sampleTest + `","setting":"NEVER_QUARANTINE"}`,

	"/v1/flaky-tests/set-automatic-quarantine": `{@main,"org_url_slug":"acme","automatic":true}`,
	"/v1/flaky-tests/link-ticket-to-test-case": `{@main,"org_url_slug":"acme","test_case_id":"` + sampleTest + `","external_ticket_id":"KAN-1"}`,
	"/v1/flaky-tests/export-quarantine":        `{@main,"org_url_slug":"acme"}`,
	"/v1/flaky-tests/import-quarantine":        `{@main,"org_url_slug":"acme","overrides":[{"test_id":"` + sampleTest + `","setting":"NEVER_QUARANTINE"}]}`,
	"/v1/flaky-tests/set-public-uploads":       `{@main,"org_url_slug":"acme","enabled":true}`,
	"/v1/metrics/createBundleUpload":           `{@main,"orgUrlSlug":"acme","clientVersion":"1","remoteUrls":[]}`,
	"/v1/metrics/getQuarantineConfig":          `{@main,"orgUrlSlug":"acme","remoteUrls":[],"testIdentifiers":[]}`,
	"/v1/flaky-tests/get-upload":               `{@main,"org_url_slug":"acme","upload_id":"1"}`,

	"/v1/createSubscriber":       `{"name":"ops","url":"https://hooks.example.com/x","events":["*"],"repos":[{"host":"github.com","owner":"acme","name":"app"}]}`,
	"/v1/listSubscribers":        `{}`,
	"/v1/updateSubscriber":       `{"subscriberId":"` + sampleSubscriber + `","name":"other"}`,
	"/v1/deleteSubscriber":       `{"subscriberId":"` + sampleSubscriber + `"}`,
	"/v1/rotateSubscriberSecret": `{"subscriberId":"` + sampleSubscriber + `"}`,
	"/v1/testSubscriber":         `{"subscriberId":"` + sampleSubscriber + `"}`,
	"/v1/listDeliveries":         `{"subscriberId":"` + sampleSubscriber + `"}`,
	"/v1/redeliver":              `{"subscriberId":"` + sampleSubscriber + `","deliveryId":"1"}`,

	"/v1/status": "",
}

// sampleSubscriber is the subscriber that runCommands makes.
const sampleSubscriber = "01010101-0101-4101-8101-010101010101"

// sampleTest is the test that runCommands runs.
const sampleTest = "f8aeaf62-c47d-54aa-9855-d1e1b2c57f5b"

// sampleUpload is the query of an upload that is granted.
const sampleUpload = "?owner=acme&name=app&job=1&sha=0123456789012345678901234567890123456789"

func sampleOf(path string) string {
	if body, ok := samples[path]; ok {
		return body
	}
	return `{@main}`
}

// ask sends a request to a route, with @main and $run12 as in scripts, and
// returns status, code and message.
func (w *world) ask(rt route, token, body string) (int, string, string) {
	got := w.send(w.requestFor(rt, token, body))
	var answer errorBody
	if got.Code != http.StatusOK {
		if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
			w.t.Errorf("%s: %v: %s", rt.path, err, got.Body)
		}
	}
	return got.Code, answer.Error.Code, answer.Error.Message
}

func (w *world) requestFor(rt route, token, body string) *http.Request {
	body = runOf.ReplaceAllStringFunc(strings.ReplaceAll(body, "@main", mainQueue), w.runOf)
	path := rt.path
	if rt.raw {
		path += sampleUpload
	}
	r := httptest.NewRequest(rt.method, path, strings.NewReader(body))
	if rt.method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("X-Api-Token", token)
	}
	return r
}
