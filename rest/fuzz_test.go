package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Whatever body is sent to an endpoint, the answer is one that the contract
// has, in JSON, and never a 500.

func FuzzCreateQueue(f *testing.F)       { fuzzEndpoint(f, "/v1/createQueue", `{@main,"concurrency":2}`) }
func FuzzUpdateQueue(f *testing.F)       { fuzzEndpoint(f, "/v1/updateQueue", settingsSeed) }
func FuzzDeleteQueue(f *testing.F)       { fuzzEndpoint(f, "/v1/deleteQueue", `{@main}`) }
func FuzzGetQueue(f *testing.F)          { fuzzEndpoint(f, "/v1/getQueue", `{@main}`) }
func FuzzSubmitPullRequest(f *testing.F) { fuzzEndpoint(f, "/v1/submitPullRequest", submitSeed) }
func FuzzCancelPullRequest(f *testing.F) { fuzzEndpoint(f, "/v1/cancelPullRequest", submitSeed) }
func FuzzRestartTestsOnPullRequest(f *testing.F) {
	fuzzEndpoint(f, "/v1/restartTestsOnPullRequest", submitSeed)
}
func FuzzGetSubmittedPullRequest(f *testing.F) {
	fuzzEndpoint(f, "/v1/getSubmittedPullRequest", submitSeed)
}
func FuzzGetMergeQueueTestingDetails(f *testing.F) {
	fuzzEndpoint(f, "/v1/getMergeQueueTestingDetails", `{@main,"testRunId":"x-bisection"}`)
}

func FuzzGetSubmittedPullRequests(f *testing.F) {
	fuzzEndpoint(f, "/v1/getSubmittedPullRequests", `{@main,"prs":[{"number":12},{"number":"13"}]}`)
}
func FuzzListPullRequests(f *testing.F) {
	fuzzEndpoint(f, "/v1/listPullRequests", `{@main,"state":"TESTING","since":"2026-11-27T20:07:41Z","until":null,"cursor":"AAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAA","take":1}`)
}
func FuzzSetImpactedTargets(f *testing.F) {
	fuzzEndpoint(f, "/v1/setImpactedTargets", `{@main,"pr":{"number":"12","sha":"0000000000000000000000000000000000000012"},"impactedTargets":["a","ALL"]}`)
}
func FuzzExplainPullRequest(f *testing.F) { fuzzEndpoint(f, "/v1/explainPullRequest", submitSeed) }
func FuzzGetQueueGraph(f *testing.F)      { fuzzEndpoint(f, "/v1/getQueueGraph", `{@main}`) }
func FuzzPreviewQueue(f *testing.F) {
	fuzzEndpoint(f, "/v1/previewQueue", `{@main,"concurrency":4,"batch":true}`)
}
func FuzzGetPreflight(f *testing.F) { fuzzEndpoint(f, "/v1/getPreflight", `{@main}`) }
func FuzzRunPreflight(f *testing.F) { fuzzEndpoint(f, "/v1/runPreflight", `{@main}`) }

// FuzzEveryEndpoint sends anything to any endpoint that takes a body: those that
// have a fuzz test of their own, too, and those that are new.
func FuzzEveryEndpoint(f *testing.F) {
	routes := map[string]route{}
	for _, rt := range (&API{}).routes() {
		if rt.method == http.MethodPost && !rt.deaf {
			routes[rt.path] = rt
			f.Add(rt.path, []byte(sampleOf(rt.path)))
		}
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		rt, ok := routes[path]
		if !ok {
			t.Skip("no such endpoint")
		}
		w := newWorld(t, nil)
		runCommands(w)
		got := w.send(w.requestFor(rt, "admin", string(body)))
		if got.Code >= 500 || got.Code == http.StatusUnauthorized || got.Code == http.StatusForbidden {
			t.Errorf("%s %q: %d %s", path, body, got.Code, got.Body)
		}
		if !json.Valid(got.Body.Bytes()) && got.Code != http.StatusNoContent {
			t.Errorf("%s %q: the answer is not JSON: %s", path, body, got.Body)
		}
	})
}

// Whatever stands in the query, the answer is metrics or an error in JSON.
func FuzzGetMergeQueueMetrics(f *testing.F) {
	f.Add("repo=acme/app&repoHost=github.com")
	f.Add("repo=%00&repoHost=%ff&x")
	f.Fuzz(func(t *testing.T, query string) {
		w := newWorld(t, nil)
		runCommands(w)
		r := httptest.NewRequest("GET", "/v1/getMergeQueueMetrics", nil)
		r.URL.RawQuery = query
		r.Header.Set("X-Api-Token", "read")
		if got := w.send(r); !slices.Contains([]int{200, 400, 404}, got.Code) {
			t.Errorf("%q: %d %s", query, got.Code, got.Body)
		}
	})
}

const (
	submitSeed   = `{@main,"pr":{"number":"12"},"priority":"HIGH","noBatch":true}`
	settingsSeed = `{@main,"state":"PAUSED","pendingFailureDepth":null,"requiredStatuses":["a","b"],"deleteRequiredStatuses":false,
"mergeMethod":"rebase","landingMode":"exact","mode":"parallel","enqueueingLabel":"x","notReadyTimeoutHours":0,"batchingMinSize":4}`
)

func fuzzEndpoint(f *testing.F, path, seed string) {
	seed = strings.ReplaceAll(seed, "@main", mainQueue)
	f.Add([]byte(seed))
	f.Add([]byte(strings.ReplaceAll(seed, `"app"`, `"\u0000"`)))
	f.Add([]byte(`{"repo":{"host":7},"targetBranch":null,"pr":{"number":1e9999}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, nil)
		runCommands(w)
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Token", "admin")
		got := w.send(r)
		if !slices.Contains([]int{200, 400, 404, 409}, got.Code) {
			t.Errorf("%q: %d %s", body, got.Code, got.Body)
		}
		if !json.Valid(got.Body.Bytes()) {
			t.Errorf("%q: the answer is not JSON: %s", body, got.Body)
		}
	})
}
