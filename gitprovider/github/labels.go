package github

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// Labels gives and takes labels, see gitprovider.Teller. The host compares
// their names without regard to case, and makes a label that a repository does
// not have yet.
func (c *Client) Labels(ctx context.Context, repo queue.Repo, number int64, want, drop []string) error {
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	var have []string
	err = pages(ctx, k, at(repo, "issues", number, "labels"), func(page []*github.Label) error {
		for _, l := range page {
			have = append(have, l.GetName())
		}
		return nil
	})
	if err != nil {
		return explain(err, "read the labels of pull request %d of %s", number, repo)
	}
	among := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(name, other) })
	}
	for _, name := range have {
		if !among(drop, name) {
			continue
		}
		_, err := k.call(ctx, http.MethodDelete, at(repo, "issues", number, "labels", name), nil, nil)
		if err != nil && statusOf(err) != http.StatusNotFound { // somebody was faster
			return explain(err, "take label %q from pull request %d of %s", name, number, repo)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return among(have, name) })
	if len(missing) == 0 {
		return nil
	}
	if _, err := k.call(ctx, http.MethodPost, at(repo, "issues", number, "labels"), map[string]any{"labels": missing}, nil); err != nil {
		return explain(err, "label pull request %d of %s", number, repo)
	}
	return nil
}
