package webhook

import (
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// installation translates changes of an installation. The list that comes with
// a new one is added and not taken for complete: deliveries come out of order,
// and a repository added since must stay.
func (tr translator) installation(e *github.InstallationEvent) translation {
	c := account.Connection{Installation: tr.installed(e.GetInstallation())}
	switch e.GetAction() {
	case "created":
		c.Added = tr.repositories(e.Repositories)
	case "deleted":
		c.Deleted = true
	case "suspend":
		c.Installation.Suspended = true
	case "unsuspend":
		c.Installation.Suspended = false
	case "new_permissions_accepted":
		c.Permitted = true
	default:
		return translation{}
	}
	return connected(c)
}

// installationRepositories translates repositories given to or taken from the App.
func (tr translator) installationRepositories(e *github.InstallationRepositoriesEvent) translation {
	switch e.GetAction() {
	case "added", "removed":
		return connected(account.Connection{
			Installation: tr.installed(e.GetInstallation()),
			Added:        tr.repositories(e.RepositoriesAdded),
			Removed:      tr.repositories(e.RepositoriesRemoved),
		})
	}
	return translation{}
}

// repository translates what happens to a repository as a whole. A transfer is
// told to the account that received it, so that the owner is the account of
// the installation in both cases.
func (tr translator) repository(e *github.RepositoryEvent) translation {
	repo, ok := tr.named(e.GetRepo())
	if !ok {
		return translation{}
	}
	in := tr.installed(e.GetInstallation())
	in.Account = repo.Owner
	t := translation{repo: repo.HostID}
	switch e.GetAction() {
	case "transferred": // to the account of this installation, so it is in it
		t.connections = connected(account.Connection{Installation: in, Added: []account.Repository{repo}}).connections
	case "renamed":
		t.connections = connected(account.Connection{Installation: in, Renamed: []account.Repository{repo}}).connections
	case "edited":
		if e.GetChanges().GetDefaultBranch() == nil {
			return translation{}
		}
		// Rules can name "the default branch", so other ones may hold now.
		t.facts = []queue.Fact{queue.RulesChanged{}}
		t.connections = connected(account.Connection{Installation: in, Renamed: []account.Repository{repo}}).connections
	case "deleted":
		t.facts = []queue.Fact{queue.RepositoryGone{Message: "The repository " + repo.Owner + "/" + repo.Name + " was deleted."}}
		t.connections = connected(account.Connection{Installation: in, Removed: []account.Repository{repo}}).connections
	default:
		return translation{}
	}
	return t
}

// connected is one change; without an installation it says nothing.
func connected(c account.Connection) translation {
	if c.Installation.ID == 0 {
		return translation{}
	}
	return translation{connections: []account.Connection{c}}
}

func (tr translator) installed(in *github.Installation) account.Installation {
	return account.Installation{
		ID:        in.GetID(),
		Host:      tr.host,
		Account:   line(in.GetAccount().GetLogin(), maxLogin),
		Suspended: in.GetSuspendedAt().Unix() > 0,
	}
}

func (tr translator) repositories(list []*github.Repository) []account.Repository {
	var repos []account.Repository
	for _, r := range list {
		if repo, ok := tr.named(r); ok {
			repos = append(repos, repo)
		}
	}
	return repos
}

// named reads a repository. Lists of an installation give no owner, only the
// full name.
func (tr translator) named(r *github.Repository) (account.Repository, bool) {
	owner, name := r.GetOwner().GetLogin(), r.GetName()
	if before, after, ok := strings.Cut(r.GetFullName(), "/"); ok {
		owner, name = before, after
	}
	repo := account.Repository{HostID: r.GetID(), Host: tr.host, Owner: owner, Name: name}
	if validBranch(r.GetDefaultBranch()) {
		repo.DefaultBranch = r.GetDefaultBranch()
	}
	return repo, repo.HostID > 0 && validName(owner) && validName(name)
}

// validName holds back what cannot be an owner or a repository and would do
// harm in a path.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 100 &&
		!strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c > '~' || strings.ContainsRune(`/\%?#:`, c)
		})
}
