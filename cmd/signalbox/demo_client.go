package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// client calls the API as anybody's program would.
type client struct {
	api, token  string
	host        string
	owner, name string
	branch      string
	http        *http.Client
}

// newClient calls the API about one queue.
func newClient(w whereabouts, name string) *client {
	return &client{
		api: w.API, token: w.AdminToken, host: w.Host, owner: w.Org, name: name, branch: "main",
		http: &http.Client{Timeout: 30 * time.Second},
	}
}

// apiError is an error that the API answered with.
type apiError struct {
	Status  int
	Code    string
	Message string
}

// Error is what the API said.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// entry is what the demo reads of a submitted pull request.
type entry struct {
	Number    int64  `json:"prNumber"`
	State     string `json:"state"`
	Readiness struct {
		Mergeability string `json:"gitHubMergeability"`
	} `json:"readiness"`
	Reason struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"reason"`
	ChangedAt time.Time `json:"stateChangedAt"`
}

// final reports whether the pull request's submission has ended.
func (e entry) final() bool {
	return e.State == "merged" || e.State == "failed" || e.State == "cancelled"
}

// call posts to an endpoint about the client's queue.
func (c *client) call(ctx context.Context, endpoint string, more map[string]any, answer any) error {
	body := map[string]any{
		"repo":         map[string]string{"host": c.host, "owner": c.owner, "name": c.name},
		"targetBranch": c.branch,
	}
	return c.post(ctx, endpoint, body, more, answer)
}

// about posts to an endpoint about the tests of the client's repository.
func (c *client) about(ctx context.Context, endpoint string, more map[string]any, answer any) error {
	body := map[string]any{"repo": map[string]string{"host": c.host, "owner": c.owner, "name": c.name}, "org_url_slug": c.owner}
	return c.post(ctx, endpoint, body, more, answer)
}

func (c *client) post(ctx context.Context, endpoint string, body, more map[string]any, answer any) error {
	maps.Copy(body, more)
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.api+"/"+endpoint, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-api-token", c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	if resp.StatusCode != http.StatusOK {
		var failed struct{ Error apiError }
		_ = json.Unmarshal(text, &failed) // what is no JSON is an error without a message
		failed.Error.Status = resp.StatusCode
		return fmt.Errorf("%s: %w", endpoint, &failed.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// pull calls an endpoint about a pull request.
func (c *client) pull(ctx context.Context, endpoint string, number int) (entry, error) {
	var e entry
	err := c.call(ctx, endpoint, map[string]any{"pr": map[string]int{"number": number}}, &e)
	return e, err
}
