package main

import (
	"context"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/queue"
)

// pagesHost is the Git host in the words of the pages, which know nothing of
// package gitprovider.
type pagesHost struct{ gitprovider.Reader }

// rights are the host's permissions in the words of package account.
var rights = map[gitprovider.Permission]account.Right{
	gitprovider.ReadPermission: account.ReadRight, gitprovider.WritePermission: account.WriteRight, gitprovider.AdminPermission: account.AdminRight,
}

// Right is what somebody may do on a repository. Whoever is gone may nothing.
func (h pagesHost) Right(ctx context.Context, repo queue.Repo, who queue.Actor) (account.Right, error) {
	may, err := h.Permission(ctx, repo, who)
	if gitprovider.KindOf(err) == gitprovider.Gone {
		return account.NoRight, nil
	}
	return rights[may], err
}

// PullRequest reads a pull request.
func (h pagesHost) PullRequest(ctx context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, bool, error) {
	seen, err := h.Reader.PullRequest(ctx, repo, number)
	if gitprovider.KindOf(err) == gitprovider.Gone {
		return seen, true, nil
	}
	return seen, false, err
}
