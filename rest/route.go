package rest

import (
	"context"
	"net/http"
	"time"

	"signalbox/account"
)

// route is one endpoint.
type route struct {
	method string
	path   string
	scope  account.Scope // what the token must allow
	handle handler
}

// handler decodes, validates, calls and answers. What it returns is encoded
// as JSON with status 200; an error that is no failure is a 500.
type handler func(ctx context.Context, c *call) (any, error)

// call is a request that has passed everything that all requests must.
type call struct {
	org    account.Organization
	header http.Header
	body   []byte // nil for a GET
	now    time.Time
}

// routes is every endpoint of the API.
func (a *API) routes() []route {
	return []route{
		{http.MethodPost, "/v1/createQueue", account.Admin, a.createQueue},
		{http.MethodPost, "/v1/deleteQueue", account.Admin, a.deleteQueue},
		{http.MethodPost, "/v1/getQueue", account.Read, a.getQueue},
		{http.MethodPost, "/v1/updateQueue", account.Admin, a.updateQueue},

		{http.MethodPost, "/v1/submitPullRequest", account.Submit, a.submitPullRequest},
		{http.MethodPost, "/v1/cancelPullRequest", account.Submit, a.cancelPullRequest},
		{http.MethodPost, "/v1/restartTestsOnPullRequest", account.Submit, a.restartTestsOnPullRequest},
		{http.MethodPost, "/v1/getSubmittedPullRequest", account.Read, a.getSubmittedPullRequest},

		{http.MethodPost, "/v1/getMergeQueueTestingDetails", account.Read, a.getMergeQueueTestingDetails},
	}
}
