package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
)

// FromManifest trades the code with which the host leads back from the page
// where an App is made from a manifest. The code works once and for an hour.
// apiURL is the REST API's address; the proxy of the environment is used.
func FromManifest(ctx context.Context, apiURL, code string) (account.App, error) {
	rest := github.NewClient(&http.Client{Timeout: 30 * time.Second})
	base, err := url.Parse(strings.TrimRight(apiURL, "/") + "/")
	if err != nil {
		return account.App{}, fmt.Errorf("trade the App's code: %w", err)
	}
	rest.BaseURL, rest.UserAgent = base, "signalbox"
	out, _, err := rest.Apps.CompleteAppManifest(ctx, url.PathEscape(code))
	if err != nil {
		return account.App{}, fmt.Errorf("trade the App's code: %s", hostWords(err))
	}
	app := account.App{ID: out.GetID(), Slug: out.GetSlug(), PEM: out.GetPEM(), WebhookSecret: out.GetWebhookSecret(),
		ClientID: out.GetClientID(), ClientSecret: out.GetClientSecret()}
	if app.ID <= 0 || app.Slug == "" || app.PEM == "" || app.WebhookSecret == "" {
		return account.App{}, errors.New("trade the App's code: the host's answer lacks the App's id, name, key or webhook secret")
	}
	return app, nil
}
