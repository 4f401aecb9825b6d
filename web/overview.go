package web

import (
	"slices"
	"strings"

	"signalbox/queue"
)

// overviewView is the page of all queues.
type overviewView struct {
	Queues []queueLine
}

// queueLine is one queue among others.
type queueLine struct {
	Repo, Branch, URL string
	State             badge
	Mode              queue.Mode
	NotReady, Pending int64
	Testing, Passed   int64
}

func (overviewView) template() string { return "overview" }

// Heading is the page's title.
func (overviewView) Heading() string { return "Queues" }

func viewOverview(queues []queue.Queue, counts map[queue.ID]map[queue.EntryState]int64) overviewView {
	v := overviewView{}
	for _, q := range queues {
		n := counts[q.ID]
		v.Queues = append(v.Queues, queueLine{
			Repo: q.Repo.String(), Branch: q.Branch, URL: QueueURL("", q.Repo, q.Branch),
			State: look(queueBadges, q.State), Mode: q.Mode,
			NotReady: n[queue.NotReady], Pending: n[queue.Pending],
			Testing: n[queue.Testing] + n[queue.PendingFailure], Passed: n[queue.TestsPassed],
		})
	}
	return v
}

// only keeps the queues of one repository.
func (v *overviewView) only(repo string) {
	v.Queues = slices.DeleteFunc(slices.Clone(v.Queues), func(q queueLine) bool { return !strings.EqualFold(q.Repo, repo) })
}

// problemView is the page for what cannot be shown.
type problemView struct {
	Title, Message string
}

func (problemView) template() string { return "problem" }

// Heading is the page's title.
func (v problemView) Heading() string { return v.Title }
