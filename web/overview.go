package web

import (
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// overviewView is the page of all queues.
type overviewView struct {
	Repos []repoQueues
	Now   moment
}

// repoQueues are the queues of one repository.
type repoQueues struct {
	Repo   string
	URL    string
	Queues []queueLine
}

// queueLine is one queue among others.
type queueLine struct {
	Branch, URL       string
	State             badge
	Why               string
	Mode              queue.Mode
	Slots             int64
	NotReady, Pending int64
	Testing, Passed   int64
	Failing           int64 // failed, and the cause is not clear yet
}

func (overviewView) template() string { return "overview" }

// Heading is the page's title.
func (overviewView) Heading() string { return "Queues" }

func viewOverview(queues []queue.Queue, counts map[queue.ID]map[queue.EntryState]int64, now time.Time) overviewView {
	v := overviewView{Now: at(now, now)}
	for _, q := range queues {
		name := q.Repo.String()
		if len(v.Repos) == 0 || v.Repos[len(v.Repos)-1].Repo != name {
			v.Repos = append(v.Repos, repoQueues{Repo: name, URL: RepoURL("", q.Repo)})
		}
		repo, n := &v.Repos[len(v.Repos)-1], counts[q.ID]
		repo.Queues = append(repo.Queues, queueLine{
			Branch: q.Branch, URL: QueueURL("", q.Repo, q.Branch), State: look(queueBadges, q.State), Why: q.StateWhy,
			Mode: q.ReportedMode(), Slots: q.Concurrency, NotReady: n[queue.NotReady], Pending: n[queue.Pending],
			Testing: n[queue.Testing], Passed: n[queue.TestsPassed], Failing: n[queue.PendingFailure],
		})
	}
	return v
}

// only keeps the queues of one repository and returns them.
func (v *overviewView) only(repo string) []queueLine {
	v.Repos = slices.DeleteFunc(v.Repos, func(r repoQueues) bool { return !strings.EqualFold(r.Repo, repo) })
	if len(v.Repos) == 0 {
		return nil
	}
	return v.Repos[0].Queues
}

// problemView is the page for what cannot be shown.
type problemView struct {
	Title, Message string
	Back           string // where the reader came from; "" = all queues
}

func (problemView) template() string { return "problem" }

// Heading is the page's title.
func (v problemView) Heading() string { return v.Title }
