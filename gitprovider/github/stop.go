package github

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// Stop takes a run off the host, see gitprovider.Builder.
func (c *Client) Stop(ctx context.Context, repo queue.Repo, work queue.StopRun) error {
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	if work.Cancel && work.Commit != "" {
		c.cancelCI(ctx, k, repo, work.Commit)
	}
	switch {
	case work.Branch != "": // with its branch the draft pull request is closed
		return c.deleteBranch(ctx, k, repo, work.Branch)
	case work.DraftPR != 0:
		return c.closePull(ctx, k, repo, work.DraftPR)
	default:
		return nil
	}
}

// closePull closes a pull request. Closed already, or gone, is fine.
func (c *Client) closePull(ctx context.Context, k *conn, repo queue.Repo, number int64) error {
	_, err := k.call(ctx, http.MethodPatch, at(repo, "pulls", number), map[string]string{"state": "closed"}, nil)
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusGone {
		return nil
	}
	if err != nil {
		return explain(err, "close pull request %d of %s", number, repo)
	}
	return nil
}

// deleteBranch deletes a test branch. Gone already is fine: the host says
// that with 404 or 422, and the second is looked into.
func (c *Client) deleteBranch(ctx context.Context, k *conn, repo queue.Repo, branch string) error {
	if !strings.HasPrefix(branch, branchPrefix) {
		return denied("%.200q is not a test branch and is left alone", branch)
	}
	_, err := k.call(ctx, http.MethodDelete, at(repo, "git", "refs", "heads", branch), nil, nil)
	switch statusOf(err) {
	case http.StatusNotFound:
		return nil
	case http.StatusUnprocessableEntity:
		if _, lost := k.call(ctx, http.MethodGet, at(repo, "git", "ref", "heads", branch), nil, new(github.Reference)); statusOf(lost) == http.StatusNotFound {
			return nil
		}
	}
	if err != nil {
		return explain(err, "delete test branch %s of %s", branch, repo)
	}
	return nil
}

// cancelCI stops the host's own CI on a commit. Other CI services notice that
// the branch is gone, or do not; either way it costs machine time only.
func (c *Client) cancelCI(ctx context.Context, k *conn, repo queue.Repo, commit string) {
	var runs []int64
	err := pages(ctx, k, at(repo, "actions", "runs")+"?head_sha="+url.QueryEscape(commit), func(page github.WorkflowRuns) error {
		for _, run := range page.WorkflowRuns {
			if run.GetStatus() != "completed" && run.GetID() != 0 && run.GetHeadSHA() == commit {
				runs = append(runs, run.GetID())
			}
		}
		return nil
	})
	for _, id := range runs {
		if _, stop := k.call(ctx, http.MethodPost, at(repo, "actions", "runs", id, "cancel"), nil, nil); stop != nil && statusOf(stop) != http.StatusConflict {
			err = errors.Join(err, stop)
		}
	}
	if err != nil && statusOf(err) != http.StatusNotFound {
		c.log.Info("cancel workflow runs", "sha", commit, "error", err)
	}
}
