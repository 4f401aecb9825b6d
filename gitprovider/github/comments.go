package github

import (
	"context"
	"errors"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// mostComments bounds how many comments are read at a time; the rest comes
// next time, because the list begins with the oldest.
const mostComments = 2000

// Comments lists the comments on pull requests of a repository that were made
// or changed since a moment, the oldest change first. While since stays the
// same and no comment changes, asking costs nothing: the host says that its answer
// has not changed.
func (c *Client) Comments(ctx context.Context, repo queue.Repo, since time.Time) ([]account.Comment, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	var list []account.Comment
	query := "?sort=updated&direction=asc&since=" + url.QueryEscape(since.UTC().Format(time.RFC3339))
	err = pages(ctx, k, at(repo, "issues", "comments")+query, func(page []listedComment) error {
		for _, m := range page {
			if pr, ok := m.pull(); ok {
				list = append(list, account.Comment{
					ID: m.ID, PR: pr, Login: m.User.GetLogin(), UserID: m.User.GetID(), Bot: m.User.GetType() == "Bot",
					App: m.Via.GetID(), Body: m.Body, Created: m.Created, Updated: m.Updated,
				})
			}
		}
		if len(list) >= mostComments {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, explain(err, "list the comments of %s", repo)
	}
	return list, nil
}

type listedComment struct {
	ID      int64        `json:"id"`
	Page    string       `json:"html_url"`
	Issue   string       `json:"issue_url"`
	Body    string       `json:"body"`
	User    *github.User `json:"user"`
	Via     *github.App  `json:"performed_via_github_app"`
	Created time.Time    `json:"created_at"`
	Updated time.Time    `json:"updated_at"`
}

// pull is the pull request that the comment is on. The list has those on issues
// too, and only the address of a comment's page tells them apart.
func (m listedComment) pull() (number int64, ok bool) {
	page, _, _ := strings.Cut(m.Page, "#")
	number, err := strconv.ParseInt(path.Base(m.Issue), 10, 64)
	return number, err == nil && number > 0 && m.ID > 0 && strings.HasSuffix(page, "/pull/"+strconv.FormatInt(number, 10))
}
