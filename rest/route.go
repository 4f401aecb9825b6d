package rest

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"signalbox/account"
)

// route is one endpoint.
type route struct {
	method string
	path   string
	// scope is what the token must allow. "": the route is for everybody,
	// and a token is not even looked at.
	scope  account.Scope
	handle handler
	// open reports whether a request that brings no token may go on all the
	// same. Its call has no organisation then (call.anonymous), and the
	// handler alone decides what such a caller may do. nil: never.
	open func(http.Header) bool
	// raw: the body is of any type, and the query has what it is about.
	raw bool
	// check refuses a raw request before its body is read; nil: none.
	check checker
	// deaf: the body is not even read.
	deaf bool
	// forCI: the client is a CI job, which must not fail because of us. Texts
	// of the body are mended rather than refused, and what goes wrong on our
	// side is always 503.
	forCI bool
}

// checker is a step of a request that answers nothing.
type checker func(ctx context.Context, c *call) error

// handler decodes, validates, calls and answers. What it returns is encoded
// as JSON with status 200, unless it is a document; an error that is no
// failure is a 500.
type handler func(ctx context.Context, c *call) (any, error)

// document is an answer that is not encoded as JSON.
type document struct {
	kind   string // content type, exactly as it is sent
	body   []byte
	policy string // Content-Security-Policy of a page; "" = none
}

// call is a request that has passed everything that all requests must.
type call struct {
	token  account.Token        // zero when anonymous
	org    account.Organization // of the token
	header http.Header
	query  url.Values   // of a GET and of a raw body; nil otherwise
	body   []byte       // nil for a GET
	ticket bundleTicket // of a bundle
	now    time.Time
}

// anonymous reports whether the request brought no token.
func (c *call) anonymous() bool { return c.org.ID == 0 }

// routes is every endpoint of the API.
func (a *API) routes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/createQueue", scope: account.Admin, handle: a.createQueue},
		{method: http.MethodPost, path: "/v1/deleteQueue", scope: account.Admin, handle: a.deleteQueue},
		{method: http.MethodPost, path: "/v1/getQueue", scope: account.Read, handle: a.getQueue},
		{method: http.MethodPost, path: "/v1/updateQueue", scope: account.Admin, handle: a.updateQueue},
		{method: http.MethodPost, path: "/v1/previewQueue", scope: account.Read, handle: a.previewQueue},
		{method: http.MethodPost, path: "/v1/getPreflight", scope: account.Read, handle: a.getPreflight},
		{method: http.MethodPost, path: "/v1/runPreflight", scope: account.Submit, handle: a.runPreflight},

		{method: http.MethodPost, path: "/v1/submitPullRequest", scope: account.Submit, handle: a.submitPullRequest},
		{method: http.MethodPost, path: "/v1/cancelPullRequest", scope: account.Submit, handle: a.cancelPullRequest},
		{method: http.MethodPost, path: "/v1/restartTestsOnPullRequest", scope: account.Submit, handle: a.restartTestsOnPullRequest},
		{method: http.MethodPost, path: "/v1/getSubmittedPullRequest", scope: account.Read, handle: a.getSubmittedPullRequest},

		{method: http.MethodPost, path: "/v1/getSubmittedPullRequests", scope: account.Read, handle: a.getSubmittedPullRequests},
		{method: http.MethodPost, path: "/v1/listPullRequests", scope: account.Read, handle: a.listPullRequests},
		{method: http.MethodPost, path: "/v1/explainPullRequest", scope: account.Read, handle: a.explainPullRequest},

		{method: http.MethodPost, path: "/v1/setImpactedTargets", scope: account.Submit, handle: a.setImpactedTargets, open: fromFork},
		{method: http.MethodPost, path: "/v1/getMergeQueueTestingDetails", scope: account.Read, handle: a.getMergeQueueTestingDetails},
		{method: http.MethodPost, path: "/v1/getQueueGraph", scope: account.Read, handle: a.getQueueGraph},
		{method: http.MethodGet, path: "/v1/getMergeQueueMetrics", scope: account.Read, handle: a.getMergeQueueMetrics},

		{method: http.MethodPost, path: "/v1/test-results", scope: account.Submit, handle: a.testResults, raw: true, open: fromPublic},
		{method: http.MethodPost, path: "/v1/metrics/createBundleUpload", scope: account.Submit, handle: a.createBundleUpload, open: fromPublic, forCI: true},
		{method: http.MethodPut, path: bundlePath, handle: a.putBundle, raw: true, check: a.checkBundle, forCI: true},
		{method: http.MethodPost, path: "/v1/metrics/getQuarantineConfig", scope: account.Read, handle: a.getQuarantineConfig, open: fromPublic, forCI: true},
		{method: http.MethodPost, path: "/v1/flakytests-cli/upload-metrics", handle: a.telemetry, deaf: true},
		{method: http.MethodPost, path: "/v1/flaky-tests/list-quarantined-tests", scope: account.Read, handle: a.listQuarantinedTests},
		{method: http.MethodPost, path: "/v1/flaky-tests/list-unhealthy-tests", scope: account.Read, handle: a.listUnhealthyTests},
		{method: http.MethodPost, path: "/v1/flaky-tests/list-failing-tests", scope: account.Read, handle: a.listFailingTests},
		{method: http.MethodPost, path: "/v1/flaky-tests/get-test-details", scope: account.Read, handle: a.getTestDetails},
		{method: http.MethodPost, path: "/v1/flaky-tests/list-test-evidence", scope: account.Read, handle: a.listTestEvidence},
		{method: http.MethodPost, path: "/v1/flaky-tests/set-quarantine", scope: account.Admin, handle: a.setQuarantine},
		{method: http.MethodPost, path: "/v1/flaky-tests/export-quarantine", scope: account.Read, handle: a.exportQuarantine},
		{method: http.MethodPost, path: "/v1/flaky-tests/import-quarantine", scope: account.Admin, handle: a.importQuarantine},
		{method: http.MethodPost, path: "/v1/flaky-tests/set-automatic-quarantine", scope: account.Admin, handle: a.setAutomaticQuarantine},
		{method: http.MethodPost, path: "/v1/flaky-tests/set-public-uploads", scope: account.Admin, handle: a.setPublicUploads},
		{method: http.MethodPost, path: "/v1/flaky-tests/get-upload", scope: account.Read, handle: a.getUpload},
		{method: http.MethodPost, path: "/v1/flaky-tests/list-uploads", scope: account.Read, handle: a.listUploads},
		{method: http.MethodPost, path: "/v1/flaky-tests/link-ticket-to-test-case", scope: account.Submit, handle: a.linkTicket},

		{method: http.MethodPost, path: "/v1/createSubscriber", scope: account.Admin, handle: a.createSubscriber},
		{method: http.MethodPost, path: "/v1/listSubscribers", scope: account.Admin, handle: a.listSubscribers},
		{method: http.MethodPost, path: "/v1/updateSubscriber", scope: account.Admin, handle: a.updateSubscriber},
		{method: http.MethodPost, path: "/v1/deleteSubscriber", scope: account.Admin, handle: a.deleteSubscriber},
		{method: http.MethodPost, path: "/v1/rotateSubscriberSecret", scope: account.Admin, handle: a.rotateSubscriberSecret},
		{method: http.MethodPost, path: "/v1/testSubscriber", scope: account.Admin, handle: a.testSubscriber},
		{method: http.MethodPost, path: "/v1/listDeliveries", scope: account.Admin, handle: a.listDeliveries},
		{method: http.MethodPost, path: "/v1/redeliver", scope: account.Admin, handle: a.redeliver},

		{method: http.MethodGet, path: "/v1/status", scope: account.Read, handle: a.getStatus},
		{method: http.MethodGet, path: "/v1/openapi.json", handle: a.getOpenAPI},
		{method: http.MethodGet, path: "/docs/api", handle: a.getDocs},
	}
}
