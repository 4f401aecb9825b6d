package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-github/v60/github"
)

// mostDeliveries bounds how many deliveries are looked through.
const mostDeliveries = 20_000

// keepsDeliveries is for how long the host can send a webhook again: three days
// on github.com, seven on an Enterprise Server.
// https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks
func (c *Client) keepsDeliveries() time.Duration {
	if c.enterpriseServer() {
		return 7 * 24 * time.Hour
	}
	return 3 * 24 * time.Hour
}

// Redeliver asks the host to send again every webhook since a moment that it
// could not deliver, and returns how many those were. A webhook sent again has
// the id that it had, so whoever has it already knows. The host tells of
// deliveries newest first, by its own clock.
func (c *Client) Redeliver(ctx context.Context, since time.Time) (int, error) {
	if oldest := c.cfg.Now().Add(-c.keepsDeliveries()); since.Before(oldest) {
		since = oldest
	}
	arrived := map[string]bool{}
	newest := map[string]int64{} // the newest attempt of those that did not arrive
	var order []string
	cursor := ""
	for seen := 0; seen < mostDeliveries; {
		path := "app/hook/deliveries?per_page=100"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var page []*github.HookDelivery
		resp, err := c.app.call(ctx, http.MethodGet, path, nil, &page)
		if err != nil {
			return 0, explain(err, "list the App's deliveries")
		}
		older := false
		for _, d := range page {
			seen++
			if at := d.GetDeliveredAt(); !at.IsZero() && at.Before(since) {
				older = true
				continue
			}
			switch guid := d.GetGUID(); {
			case guid == "" || d.GetID() == 0:
			case d.GetStatusCode() >= 200 && d.GetStatusCode() < 300:
				arrived[guid] = true
			case newest[guid] == 0:
				newest[guid] = d.GetID()
				order = append(order, guid)
			}
		}
		if older || resp.Cursor == "" || resp.Cursor == cursor {
			break
		}
		cursor = resp.Cursor
	}
	return c.deliverAgain(ctx, order, newest, arrived)
}

// deliverAgain asks for what did not arrive, oldest first.
func (c *Client) deliverAgain(ctx context.Context, order []string, newest map[string]int64, arrived map[string]bool) (int, error) {
	n := 0
	for i := len(order) - 1; i >= 0; i-- {
		if arrived[order[i]] {
			continue
		}
		path := fmt.Sprintf("app/hook/deliveries/%d/attempts", newest[order[i]])
		if _, err := c.app.call(ctx, http.MethodPost, path, nil, nil); err != nil && statusOf(err) != http.StatusNotFound && !accepted(err) {
			return n, explain(err, "have delivery %s sent again", order[i])
		}
		n++
	}
	return n, nil
}

// accepted reports whether an error is only how the library tells of status 202.
func accepted(err error) bool {
	_, ok := err.(*github.AcceptedError)
	return ok
}
