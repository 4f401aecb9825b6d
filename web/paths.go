package web

import (
	"net/url"
	"strconv"
	"strings"

	"signalbox/queue"
)

// The addresses of pages. Comments and checks link to them for ever, so they
// never change. The branch stands in the query: it may contain slashes, and
// the router takes no encoded one in a path.
//
//	/                                            all queues
//	/q/github.com/acme/app                       the queues of a repository
//	/q/github.com/acme/app?branch=main           a queue
//	/q/github.com/acme/app/pr/12?branch=main     a pull request in it
//	/q/github.com/acme/app/run/<id>?branch=main  a test run of it
//	/q/github.com/acme/app/tests                 the tests of the repository
//	/q/github.com/acme/app/tests/<uuid>          one of them
//	/q/github.com/acme/app/uploads               the test reports that came
//	/q/github.com/acme/app/uploads/12            one of them

// RepoURL is the address of a repository's page: its queue, or the list of
// them. base is as in QueueURL.
func RepoURL(base string, repo queue.Repo) string {
	return strings.TrimRight(base, "/") + "/q/" + url.PathEscape(repo.Host) + "/" + url.PathEscape(repo.Owner) + "/" + url.PathEscape(repo.Name)
}

// QueueURL is the address of a queue's page. base is where the dashboard is,
// such as "https://signalbox.example.com"; with "" the address is a path.
func QueueURL(base string, repo queue.Repo, branch string) string {
	return pageURL(base, repo, "", branch)
}

// PRURL is the address of the page of a pull request in a queue.
func PRURL(base string, repo queue.Repo, branch string, number int64) string {
	return pageURL(base, repo, "/pr/"+strconv.FormatInt(number, 10), branch)
}

// RunURL is the address of the page of a test run of a queue.
func RunURL(base string, repo queue.Repo, branch string, run queue.RunID) string {
	return pageURL(base, repo, "/run/"+url.PathEscape(string(run)), branch)
}

// TestURL is the address of the page of a test. base is as in QueueURL.
func TestURL(base string, repo queue.Repo, id string) string {
	return RepoURL(base, repo) + "/tests/" + url.PathEscape(id)
}

func testsURL(repo queue.Repo) string { return RepoURL("", repo) + "/tests" }

func uploadsURL(repo queue.Repo) string { return RepoURL("", repo) + "/uploads" }

func uploadURL(repo queue.Repo, id int64) string {
	return uploadsURL(repo) + "/" + strconv.FormatInt(id, 10)
}

func tokensURL(org string) string { return "/orgs/" + url.PathEscape(org) + "/tokens" }

func auditURL(org string) string { return "/orgs/" + url.PathEscape(org) + "/audit" }

func pageURL(base string, repo queue.Repo, rest, branch string) string {
	return RepoURL(base, repo) + rest + "?branch=" + url.QueryEscape(branch)
}
