package github

import (
	"context"
	"net/http"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// ForkRun reads a run of GitHub Actions of a repository: the head commit that
// it tests, and whether it is, at this moment, in progress for a pull request
// that comes from a fork. It errs on the side of no. Gone: the repository has
// no such run.
//
// GitHub does not say which pull request such a run is for: its list of pull
// requests has only those from branches of the repository itself. The caller
// compares the head commit.
func (c *Client) ForkRun(ctx context.Context, repo queue.Repo, run int64) (head string, live bool, err error) {
	k, err := c.conn(repo)
	if err != nil {
		return "", false, err
	}
	var out github.WorkflowRun
	if _, err := k.call(ctx, http.MethodGet, at(repo, "actions", "runs", run), nil, &out); err != nil {
		return "", false, explain(err, "read workflow run %d of %s", run, repo)
	}
	home, from := out.GetRepository().GetID(), out.GetHeadRepository().GetID()
	live = out.GetID() == run && out.GetStatus() == "in_progress" && validCommit(out.GetHeadSHA()) &&
		// pull_request_target is not one of these: it has secrets, and so a token.
		out.GetEvent() == "pull_request" && home == repo.HostID && from != 0 && from != home
	return out.GetHeadSHA(), live, nil
}
