package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// From reads the open pull requests whose head is a branch of the repository
// itself, see gitprovider.Reader.
func (c *Client) From(ctx context.Context, repo queue.Repo, branch string) ([]queue.PullRequestSeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	var found []queue.PullRequestSeen
	query := "?state=open&head=" + url.QueryEscape(repo.Owner+":"+branch)
	err = pages(ctx, k, at(repo, "pulls")+query, func(page []*github.PullRequest) error {
		for _, pr := range page {
			p := c.pullRequest(pr)
			if p.HeadRef == branch && !p.Fork && p.Open && p.Number > 0 && validCommit(p.Head) && p.Base != "" && !p.UpdatedAt.IsZero() {
				found = append(found, queue.PullRequestSeen{PullRequest: p, Read: true})
			}
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "look for the pull requests from branch %s of %s", branch, repo)
	}
	return found, nil
}

// Stack reads the pull requests of a stack, see gitprovider.Reader.
func (c *Client) Stack(ctx context.Context, repo queue.Repo, branch string, numbers []int64) ([]queue.Fact, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	f, err := c.look(ctx, k, repo, question{pulls: numbers})
	if err != nil {
		return nil, err
	}
	var facts []queue.Fact
	var below queue.PullRequest
	for _, number := range numbers {
		_, seen, err := c.seenOf(repo, f, number)
		if err != nil {
			return nil, err
		}
		m := queue.MergeabilitySeen{PR: number, Head: seen.Head, Below: below.Head}
		if m.Value, m.Why, err = c.judge(ctx, k, repo, f, seen.PullRequest, branch); err != nil {
			return nil, err
		}
		if below.Head != "" && seen.Open {
			on, err := c.standsOn(ctx, k, repo, below.Head, seen.Head)
			if err != nil {
				return nil, err
			}
			if !on {
				m.Value = queue.NotMergeable
				m.Why = fmt.Sprintf("its branch does not contain the newest commits of pull request %d, on which it stands; bring it up to date", below.Number)
			}
		}
		m.Why = asSentence(m.Why)
		facts, below = append(facts, seen, m), seen.PullRequest
	}
	return facts, nil
}

// checkUnder compares the pull requests beneath a step's with what was stated.
func (l *landing) checkUnder(i int) {
	s := l.work.Steps[i]
	for j, u := range s.Stack {
		seen := l.under[i][j]
		if why := l.amiss(u.PR, u.Head, u.On, seen); why != "" && seen.Number != 0 {
			l.differing = append(l.differing, seen)
			l.stop(queue.TroubleStale, s.Entry, why)
		}
	}
}

// retarget gives the pull requests of a stack the target as their base, those
// of which the host shall see that they were merged: it looks only for heads
// that arrive on a pull request's own base. It is done last before landing. A
// base that was changed for a landing that then does not happen does no harm:
// the pull request leads to the target as before.
func (l *landing) retarget(ctx context.Context, i int) error {
	s := l.work.Steps[i]
	if s.On == "" {
		return nil
	}
	see := map[int64]string{} // pull request: its base
	if l.work.Method == queue.MergeCommit {
		for _, seen := range l.under[i] {
			see[seen.Number] = seen.Base
		}
	}
	if l.work.Method == queue.MergeCommit || l.work.Mode == queue.LandHost {
		see[s.PR] = l.seen[i].Base
	}
	for _, number := range append(numbersOf(l.under[i]), s.PR) {
		base, wanted := see[number]
		if !wanted || base == l.work.Branch {
			continue
		}
		_, err := l.k.call(ctx, http.MethodPatch, at(l.repo, "pulls", number), map[string]string{"base": l.work.Branch}, nil)
		if err != nil {
			return explain(err, "change the base of pull request %d of %s", number, l.repo)
		}
	}
	return nil
}

func numbersOf(seen []queue.PullRequestSeen) []int64 {
	var numbers []int64
	for _, pr := range seen {
		numbers = append(numbers, pr.Number)
	}
	return numbers
}
