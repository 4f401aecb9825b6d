package engine

import (
	"net/url"
	"strconv"
	"strings"

	"signalbox/queue"
)

// Links makes the addresses of our own pages. The zero Links makes none: texts
// then name things without linking to them.
type Links struct {
	// Base is where the dashboard is, such as "https://signalbox.example.com".
	Base string
}

// Queue is the page of a queue.
func (l Links) Queue(repo queue.Repo, branch string) string {
	return l.page(repo, "", branch)
}

// PR is the page of a pull request in a queue.
func (l Links) PR(repo queue.Repo, branch string, number int64) string {
	return l.page(repo, "/pr/"+strconv.FormatInt(number, 10), branch)
}

// Run is the page of a test run of a queue.
func (l Links) Run(repo queue.Repo, branch string, run queue.RunID) string {
	return l.page(repo, "/run/"+url.PathEscape(string(run)), branch)
}

// page keeps the branch in the query, because a branch may contain slashes
// and the router takes no encoded one in a path.
func (l Links) page(repo queue.Repo, rest, branch string) string {
	if l.Base == "" {
		return ""
	}
	return strings.TrimRight(l.Base, "/") + "/q/" + url.PathEscape(repo.Host) + "/" + url.PathEscape(repo.Owner) +
		"/" + url.PathEscape(repo.Name) + rest + "?branch=" + url.QueryEscape(branch)
}
