package github

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
)

// The checks of a preflight about the App itself: where it is installed, what
// it may do, and whether its webhooks arrive.

// installedJSON is an installation as far as a preflight reads it. The
// library does not know every permission.
type installedJSON struct {
	ID          int64             `json:"id"`
	URL         string            `json:"html_url"`
	Account     *github.User      `json:"account"`
	Permissions map[string]string `json:"permissions"`
	SuspendedAt *github.Timestamp `json:"suspended_at"`
}

// appJSON is the App.
type appJSON struct {
	Permissions map[string]string `json:"permissions"`
	Events      []string          `json:"events"`
}

func (p *preflight) installation(ctx context.Context) error {
	_, err := p.c.app.call(ctx, http.MethodGet, at(p.repo, "installation"), nil, &p.installed)
	if statusOf(err) == http.StatusNotFound {
		p.problem(fmt.Sprintf("the App is not installed on %s, or there is no such repository", p.repo),
			fmt.Sprintf("install it: %s/apps/%s/installations/new", p.c.webURL, strings.TrimSuffix(p.c.cfg.BotLogin, "[bot]")))
		return errEnough
	}
	switch {
	case statusOf(err) == http.StatusUnauthorized:
		p.problem("the host does not accept the App's key", "check the App's id and private key, and this machine's clock")
		return errEnough
	case err != nil:
		return explain(err, "find the App's installation on %s", p.repo)
	}
	if p.installed.SuspendedAt != nil {
		p.problem("the App's installation on "+oneLine(p.installed.Account.GetLogin(), 100)+" is suspended", "lift the suspension: "+link(p.installed.URL))
		return errEnough
	}
	p.k = p.c.installation(p.installed.ID)
	p.repo.Installation = p.installed.ID
	p.ok("the App is installed on %s", p.repo)
	return nil
}

func (p *preflight) permissions(ctx context.Context) error {
	var app appJSON
	if _, err := p.c.app.call(ctx, http.MethodGet, "app", nil, &app); err != nil {
		return explain(err, "read the App")
	}
	var asked, granted []string
	for _, name := range slices.Sorted(maps.Keys(account.Permissions)) {
		need := account.Permissions[name]
		switch {
		case account.Grants(p.installed.Permissions[name], need):
		case account.Grants(app.Permissions[name], need):
			granted = append(granted, name+": "+need)
		default:
			asked = append(asked, name+": "+need)
		}
	}
	if len(asked) > 0 {
		p.problem("the App lacks permissions: "+strings.Join(asked, ", "),
			"give them to it on its settings page under Permissions & events, then accept them for the installation: "+link(p.installed.URL))
	}
	if len(granted) > 0 {
		p.problem("permissions that the App asks for are not accepted on this installation: "+strings.Join(granted, ", "),
			"accept them: "+link(p.installed.URL))
	}
	if !p.found() {
		p.ok("the App has the permissions that it needs")
	}
	return nil
}

func (p *preflight) events(ctx context.Context) error {
	var app appJSON
	if _, err := p.c.app.call(ctx, http.MethodGet, "app", nil, &app); err != nil {
		return explain(err, "read the App")
	}
	missing := slices.DeleteFunc(slices.Clone(account.Events), func(e string) bool { return slices.Contains(app.Events, e) })
	if len(missing) > 0 {
		p.problem("the App does not hear of "+strings.Join(missing, ", ")+": what they tell is noticed minutes late, or never",
			"subscribe it to these events on its settings page under Permissions & events")
		return nil
	}
	p.ok("the App hears of every event that it needs")
	return nil
}

// newestDeliveries is how many deliveries must have failed, one after the
// other, before webhooks are said not to arrive.
const newestDeliveries = 5

func (p *preflight) webhooks(ctx context.Context) error {
	var config struct {
		URL string `json:"url"`
	}
	if _, err := p.c.app.call(ctx, http.MethodGet, "app/hook/config", nil, &config); err != nil {
		return explain(err, "read where the App's webhooks go")
	}
	if want := p.c.cfg.WebhookURL; want != "" && !strings.EqualFold(strings.TrimRight(config.URL, "/"), want) {
		p.problem(fmt.Sprintf("the App's webhooks go to %q, and this server takes them at %s", oneLine(config.URL, 300), want),
			"set the webhook URL on the App's settings page")
		return nil
	}
	var newest []struct {
		Status string `json:"status"`
		Code   int    `json:"status_code"`
	}
	if _, err := p.c.app.call(ctx, http.MethodGet, fmt.Sprintf("app/hook/deliveries?per_page=%d", newestDeliveries), nil, &newest); err != nil {
		return explain(err, "list the App's webhook deliveries")
	}
	failed := 0
	for _, d := range newest {
		if d.Code < 200 || d.Code > 299 {
			failed++
		}
	}
	switch {
	case len(newest) == 0:
		p.unknown("the host has sent no webhook yet", "comment on a pull request, then look again")
	case failed < len(newest):
		p.ok("webhooks arrive")
	case newest[0].Code == http.StatusUnauthorized:
		p.problem("the webhooks of the host are refused, because their signature is not right",
			"set the same webhook secret here and on the App's settings page")
	default:
		p.problem(fmt.Sprintf("the newest webhooks did not arrive: the host says %q", oneLine(newest[0].Status, 100)),
			fmt.Sprintf("make %s reachable for the host; its deliveries are listed on the App's settings page under Advanced", link(config.URL)))
	}
	return nil
}
