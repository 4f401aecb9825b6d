package texts

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"signalbox/queue"
)

// Site is what differs from one installation of Signalbox to the next.
type Site struct {
	// Base is where the dashboard is, such as "https://signalbox.example.com".
	// Without it texts name things and do not link to them.
	Base string
	// Prefix is the word that begins a long command; "/signalbox" if empty.
	Prefix string
}

// command is a long command as people write it.
func (s Site) command(words string) string {
	return quoted(cmp.Or(s.Prefix, "/signalbox") + " " + words)
}

// Help is where the documents explain a reason, and what to do about it.
func (s Site) Help(why queue.Reason) string {
	if s.Base == "" {
		return ""
	}
	return strings.TrimRight(s.Base, "/") + queue.HelpPath(string(why))
}

// Queue is the page of a queue.
func (s Site) Queue(repo queue.Repo, branch string) string {
	return s.page(repo, "", branch)
}

// PR is the page of a pull request in a queue.
func (s Site) PR(repo queue.Repo, branch string, number int64) string {
	return s.page(repo, "/pr/"+strconv.FormatInt(number, 10), branch)
}

// Run is the page of a test run of a queue.
func (s Site) Run(repo queue.Repo, branch string, run queue.RunID) string {
	return s.page(repo, "/run/"+url.PathEscape(string(run)), branch)
}

// Test is the page of a test of a repository.
func (s Site) Test(repo queue.Repo, id string) string {
	if s.Base == "" || id == "" {
		return ""
	}
	return s.repo(repo) + "/tests/" + url.PathEscape(id)
}

// page keeps the branch in the query, because a branch may contain slashes
// and the router takes no encoded one in a path.
func (s Site) page(repo queue.Repo, rest, branch string) string {
	if s.Base == "" {
		return ""
	}
	return s.repo(repo) + rest + "?branch=" + url.QueryEscape(branch)
}

func (s Site) repo(repo queue.Repo) string {
	return strings.TrimRight(s.Base, "/") + "/q/" + url.PathEscape(repo.Host) + "/" + url.PathEscape(repo.Owner) + "/" + url.PathEscape(repo.Name)
}
