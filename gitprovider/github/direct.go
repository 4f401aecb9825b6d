package github

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// Direct reads whether a pull request was tested on top of a branch already,
// see gitprovider.Reader. Where nothing is required nothing is proved.
func (c *Client) Direct(ctx context.Context, repo queue.Repo, number int64, branch string, required []string) (queue.DirectSeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return queue.DirectSeen{}, err
	}
	_, pr, err := c.pull(ctx, k, repo, number)
	if err != nil {
		return queue.DirectSeen{}, err
	}
	seen := queue.DirectSeen{PR: number, Head: pr.Head}
	target, _, err := c.target(ctx, k, repo, branch)
	if err != nil {
		return seen, err
	}
	on, err := c.standsOn(ctx, k, repo, target, pr.Head)
	if err != nil || !on {
		return seen, err
	}
	need, _, err := c.required(ctx, k, mirror.Source{Repo: repo}, required, branch, pr.Head, func() (rules, error) { return c.rulesOf(ctx, k, repo, branch) })
	var config *configError
	if errors.As(err, &config) { // its own run will say so
		return seen, nil
	}
	if err != nil || len(need) == 0 {
		return seen, err
	}
	reports, err := c.reported(ctx, k, repo, pr.Head)
	if err != nil {
		return seen, err
	}
	for _, q := range need {
		if report, there := q.Newest(slices.Values(reports)); !there || report.Outcome() != queue.VerdictPassed {
			return seen, nil
		}
	}
	seen.Target = target
	return seen, nil
}

// standsOn reports whether a head contains a commit.
func (c *Client) standsOn(ctx context.Context, k *conn, repo queue.Repo, commit, head string) (bool, error) {
	var diff github.CommitsComparison
	if _, err := k.call(ctx, http.MethodGet, at(repo, "compare", commit+"..."+head), nil, &diff); err != nil {
		return false, explain(err, "compare %.10s with %.10s in %s", head, commit, repo)
	}
	return diff.GetMergeBaseCommit().GetSHA() == commit, nil
}
