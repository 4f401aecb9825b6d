package web

import "signalbox/queue"

// tab is one of several pages that belong together. A page that is to be
// found beside others is a line in one of the functions here.
type tab struct {
	Text, URL string
	On        bool // it is the page that is shown
}

// queueTabs are the pages of a queue. here is the address of the one that is
// shown; "" = one below them.
func queueTabs(q *queue.Queue, here string) []tab {
	return tabs(here, []tab{
		{Text: "Queue", URL: QueueURL("", q.Repo, q.Branch)},
		{Text: "Flaky tests", URL: testsURL(q.Repo)},
		{Text: "Health", URL: pageURL("", q.Repo, "/health", q.Branch)},
		{Text: "Settings", URL: pageURL("", q.Repo, "/settings", q.Branch)},
	})
}

// repoTabs are the pages of a repository.
func repoTabs(repo queue.Repo, here string) []tab {
	return tabs(here, []tab{
		{Text: "Queue", URL: RepoURL("", repo)},
		{Text: "Flaky tests", URL: testsURL(repo)},
		{Text: "Test reports", URL: uploadsURL(repo)},
	})
}

// orgTabs are the pages of an organisation, for its administrators.
func orgTabs(org, here string) []tab {
	return tabs(here, []tab{
		{Text: "API tokens", URL: tokensURL(org)},
		{Text: "Audit log", URL: auditURL(org)},
		{Text: "Webhooks and Slack", URL: subscribersURL(org)},
	})
}

func tabs(here string, all []tab) []tab {
	for i := range all {
		all[i].On = all[i].URL == here
	}
	return all
}

// trail leads from a page below a queue back to it.
type trail struct {
	Repo, RepoURL, Branch, QueueURL string
}

func trailOf(q *queue.Queue) trail {
	return trail{q.Repo.String(), RepoURL("", q.Repo), q.Branch, QueueURL("", q.Repo, q.Branch)}
}
