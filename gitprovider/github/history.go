package github

import (
	"context"
	"fmt"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// Line lists the first parents of a branch, see mirror.Mirrors.Line. Gone:
// there is no such branch.
func (c *Client) Line(ctx context.Context, repo queue.Repo, branch, from string) (line []mirror.Commit, err error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	ok := false
	err = c.withSource(first(ctx), k, repo, func(src mirror.Source) (err error) {
		line, ok, err = c.mirrors.Line(ctx, src, branch, from)
		return err
	})
	if err == nil && !ok {
		err = &gitprovider.Error{Kind: gitprovider.Gone, Message: fmt.Sprintf("the branch %s does not exist", branch)}
	}
	return line, err
}

// Chain builds steps on a commit and publishes nothing, see mirror.Mirrors.Chain.
func (c *Client) Chain(ctx context.Context, repo queue.Repo, onto string, method queue.MergeMethod, steps []queue.StepSpec) (built []queue.Step, err error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	err = c.withSource(first(ctx), k, repo, func(src mirror.Source) (err error) {
		built, err = c.mirrors.Chain(ctx, src, onto, method, steps)
		return err
	})
	return built, err
}
