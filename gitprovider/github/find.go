package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/queue"
)

// Find looks a repository up by name, see gitprovider.Reader.
func (c *Client) Find(ctx context.Context, host, owner, name string) (queue.Repo, error) {
	repo := queue.Repo{Host: c.cfg.Host, Owner: owner, Name: name}
	inst, err := c.Installation(ctx, host, owner, name)
	if err != nil {
		return queue.Repo{}, err
	}
	if inst.Suspended {
		return queue.Repo{}, denied("the App's installation on %s is suspended", inst.Account)
	}
	k := c.installation(inst.ID)
	var out github.Repository
	if _, err := k.call(ctx, http.MethodGet, at(repo), nil, &out); err != nil {
		return queue.Repo{}, explain(err, "read repository %s", repo)
	}
	if out.GetID() == 0 || out.GetName() == "" || out.GetOwner().GetLogin() == "" {
		return queue.Repo{}, fmt.Errorf("read repository %s: the host's answer does not describe one", repo)
	}
	return queue.Repo{Host: c.cfg.Host, Owner: out.GetOwner().GetLogin(), Name: out.GetName(), HostID: out.GetID(), Installation: inst.ID}, nil
}

// Installation finds the installation that serves a repository. Gone: there
// is no such repository on this host, or the App is not installed on it.
func (c *Client) Installation(ctx context.Context, host, owner, name string) (account.Installation, error) {
	repo := queue.Repo{Host: host, Owner: owner, Name: name}
	if !strings.EqualFold(host, c.cfg.Host) {
		return account.Installation{}, &gitprovider.Error{Kind: gitprovider.Gone,
			Message: fmt.Sprintf("%s is on another host than %s, which this server is connected to", repo, c.cfg.Host)}
	}
	if !validName(owner) || !validName(name) {
		return account.Installation{}, &gitprovider.Error{Kind: gitprovider.Gone, Message: fmt.Sprintf("%.200q is not a repository's name", owner+"/"+name)}
	}
	var out github.Installation
	if _, err := c.app.call(ctx, http.MethodGet, at(repo, "installation"), nil, &out); err != nil {
		if status := statusOf(err); status == http.StatusNotFound {
			return account.Installation{}, &gitprovider.Error{Kind: gitprovider.Gone, Err: err,
				Message: fmt.Sprintf("%s does not exist, or the App is not installed on it", repo)}
		}
		return account.Installation{}, explain(err, "find the App's installation on %s", repo)
	}
	if out.GetID() == 0 {
		return account.Installation{}, fmt.Errorf("find the App's installation on %s: the host's answer does not describe one", repo)
	}
	return c.installationOf(&out), nil
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

func validName(name string) bool {
	return repoName.MatchString(name) && name != "." && name != ".."
}

func (c *Client) installationOf(in *github.Installation) account.Installation {
	return account.Installation{ID: in.GetID(), Host: c.cfg.Host, Account: in.GetAccount().GetLogin(), Suspended: in.SuspendedAt != nil}
}

// Installations lists every installation of the App with all of its
// repositories, all pages, for start-up: what happened while nobody listened.
// A suspended installation comes without repositories and not Complete.
func (c *Client) Installations(ctx context.Context) ([]account.Connection, error) {
	var all []account.Connection
	err := pages(ctx, c.app, "app/installations", func(page []*github.Installation) error {
		for _, in := range page {
			if in.GetID() != 0 {
				all = append(all, account.Connection{Installation: c.installationOf(in)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "list the App's installations")
	}
	for i := range all {
		if all[i].Installation.Suspended {
			continue
		}
		if all[i].Added, err = c.repositories(ctx, c.installation(all[i].Installation.ID)); err != nil {
			return nil, explain(err, "list the repositories of the installation on %s", all[i].Installation.Account)
		}
		all[i].Complete = true
	}
	return all, nil
}

func (c *Client) repositories(ctx context.Context, k *conn) ([]account.Repository, error) {
	var repos []account.Repository
	err := pages(ctx, k, "installation/repositories", func(page github.ListRepositories) error {
		if page.TotalCount == nil {
			return errors.New("the host's answer has no repositories in it")
		}
		for _, r := range page.Repositories {
			if r.GetID() != 0 {
				repos = append(repos, account.Repository{HostID: r.GetID(), Host: c.cfg.Host,
					Owner: r.GetOwner().GetLogin(), Name: r.GetName(), DefaultBranch: r.GetDefaultBranch()})
			}
		}
		return nil
	})
	return repos, err
}

// authorEmails lists, in lower case, the addresses in the commits of a pull
// request that the host knows to be those of its author.
func (c *Client) authorEmails(ctx context.Context, k *conn, repo queue.Repo, s queue.StepSpec) ([]string, error) {
	if s.Author.ID == 0 {
		return nil, nil
	}
	key := fmt.Sprint(repo.HostID, " ", s.PR, " ", s.Head, " ", s.Author.ID)
	if known, ok := c.emails.get(key); ok {
		return known, nil
	}
	var mine []string
	err := pages(ctx, k, at(repo, "pulls", s.PR, "commits"), func(page []*github.RepositoryCommit) error {
		for _, commit := range page {
			email := strings.ToLower(commit.GetCommit().GetAuthor().GetEmail())
			if commit.GetAuthor().GetID() == s.Author.ID && !slices.Contains(mine, email) {
				mine = append(mine, email)
			}
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "read the commits of pull request %d of %s", s.PR, repo)
	}
	c.emails.put(key, mine)
	return mine, nil
}
