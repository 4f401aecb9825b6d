package webhook

import (
	"context"
	"fmt"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
)

// Missed takes the comments on pull requests of a repository, named by the
// host's number, that the host lists, in case it never sent the webhook of one:
// a command is answered once, however it became known. One that was changed
// since is left out, because nobody can tell what it said at first. It returns
// how many held a command that was not known.
func (rc *Receiver) Missed(ctx context.Context, repo int64, comments []account.Comment) (int, error) {
	n := 0
	for _, c := range comments {
		if !c.Updated.Equal(c.Created) || rc.tr.ownApp(c.App) {
			continue
		}
		said := rc.tr.translate(madeKnown(repo, c), rc.clock())
		if said.empty() {
			continue
		}
		fresh, err := rc.store.Receive(ctx, said.once, rc.host, said.repo, said.facts, nil)
		if err != nil {
			return n, fmt.Errorf("store a command that was missed: %w", err)
		}
		if fresh {
			n++
		}
	}
	return n, nil
}

// madeKnown is the webhook that says of a comment that it was made.
func madeKnown(repo int64, c account.Comment) *github.IssueCommentEvent {
	var author *github.User
	if c.UserID != 0 {
		kind := "User"
		if c.Bot {
			kind = "Bot"
		}
		author = &github.User{Login: &c.Login, ID: &c.UserID, Type: &kind}
	}
	number := int(c.PR)
	return &github.IssueCommentEvent{
		Action: github.String("created"), Sender: author, Repo: &github.Repository{ID: &repo},
		Issue:   &github.Issue{Number: &number, PullRequestLinks: &github.PullRequestLinks{}},
		Comment: &github.IssueComment{ID: &c.ID, Body: &c.Body, User: author, CreatedAt: &github.Timestamp{Time: c.Created}},
	}
}
