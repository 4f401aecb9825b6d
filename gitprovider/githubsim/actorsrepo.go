package githubsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What happens to whole repositories, and to the App's installations.

// withRepo finds a repository ("owner/name") and who acts, and has it changed
// with pushing and mu held.
func (s *Server) withRepo(name, author string, change func(*repo, *account) error) error {
	r, err := s.repository(name)
	if err != nil {
		return err
	}
	who, err := s.person(author)
	if err != nil {
		return err
	}
	unlock := r.lockPushing()
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return change(r, who)
}

// RenameRepo gives a repository another name.
func (s *Server) RenameRepo(name, newName, author string) error {
	return s.withRepo(name, author, func(r *repo, who *account) error { return s.rename(r, newName, who) })
}

// TransferRepo gives a repository to another organisation, on which the App is
// installed if it was not. The App hears of it there.
func (s *Server) TransferRepo(name, owner, author string) error {
	return s.withRepo(name, author, func(r *repo, who *account) error {
		to := s.accountNamed(owner, "Organization")
		if s.repoNamed(to.login+"/"+r.name) != nil {
			return fmt.Errorf("repository %s/%s exists already", to.login, r.name)
		}
		from := r.owner
		delete(s.repos, strings.ToLower(r.fullName()))
		r.owner, r.rendered, r.updated = to, nil, s.now()
		s.repos[strings.ToLower(r.fullName())] = r
		if s.installationOf(to) == nil {
			s.install(to, who)
		}
		was := object{"user": s.userJSON(from)}
		if from.kind == "Organization" {
			was = object{"organization": s.orgJSON(from)}
		}
		s.emit("repository", "transferred", r, who, object{"changes": object{"owner": object{"from": was}}})
		return nil
	})
}

// DeleteRepo deletes a repository. Its files stay until the simulator ends.
func (s *Server) DeleteRepo(name, author string) error {
	return s.withRepo(name, author, func(r *repo, who *account) error {
		s.emit("repository", "deleted", r, who, object{})
		delete(s.repos, strings.ToLower(r.fullName()))
		delete(s.reposByID, r.id)
		s.deleted = append(s.deleted, r)
		return nil
	})
}

// SetDefaultBranch makes another branch the default one.
func (s *Server) SetDefaultBranch(name, branch, author string) error {
	return s.withRepo(name, author, func(r *repo, who *account) error {
		if r.branch(branch) == "" {
			return fmt.Errorf("branch %q: %w", branch, ErrUnknown)
		}
		s.changeDefault(r, branch, who)
		return nil
	})
}

// changeDefault changes the default branch and tells the App. pushing and mu
// are held.
func (s *Server) changeDefault(r *repo, branch string, who *account) {
	if from := r.defaultBranch; from != branch {
		r.defaultBranch, r.rendered, r.updated = branch, nil, s.now()
		s.emit("repository", "edited", r, who, object{"changes": object{"default_branch": object{"from": from}}})
	}
}

// SetInstalled takes a repository out of its owner's installation of the App,
// or puts it in again.
func (s *Server) SetInstalled(name, author string, installed bool) error {
	return s.withRepo(name, author, func(r *repo, who *account) error {
		inst := s.installationOf(r.owner)
		if inst == nil {
			return fmt.Errorf("installation on %s: %w", r.owner.login, ErrUnknown)
		}
		if r.outside != installed {
			return nil
		}
		r.outside = !installed
		action, added, removed := "removed", []any{}, shortRepos(r)
		if installed {
			action, added, removed = "added", removed, added
		}
		s.emitAbout(inst, "installation_repositories", action, who, object{
			"installation": s.installationJSON(inst), "repository_selection": s.selection(inst),
			"repositories_added": added, "repositories_removed": removed, "requester": nil,
		})
		return nil
	})
}

// install puts the App on an account and tells it which repositories it finds
// there. The installation's id depends on the account alone, so that it is the
// same in the next run. mu is held.
func (s *Server) install(owner, who *account) {
	inst := &installation{id: owner.id + 1_000_000_000, owner: owner, created: s.now()}
	s.installations[inst.id] = inst
	s.emitInstallation(inst, "created", who)
}

// emitInstallation tells the App what happened to an installation. mu is held.
func (s *Server) emitInstallation(inst *installation, action string, who *account) {
	s.emitAbout(inst, "installation", action, who, object{
		"installation": s.installationJSON(inst), "repositories": shortRepos(s.reposIn(inst)...),
	})
}

// Install puts the App on an account again, after Uninstall.
func (s *Server) Install(owner, author string) error {
	who, err := s.person(author)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[strings.ToLower(owner)]
	if a == nil || s.installationOf(a) != nil {
		return fmt.Errorf("account %q without the App: %w", owner, ErrUnknown)
	}
	s.install(a, who)
	return nil
}

// withInstallation finds the installation on an account and who acts, and has
// it changed with mu held.
func (s *Server) withInstallation(owner, author string, change func(*installation, *account)) error {
	who, err := s.person(author)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	inst := s.installationOf(s.accounts[strings.ToLower(owner)])
	if inst == nil {
		return fmt.Errorf("installation on %q: %w", owner, ErrUnknown)
	}
	change(inst, who)
	return nil
}

// Uninstall takes the App off an account. Its tokens end.
func (s *Server) Uninstall(owner, author string) error {
	return s.withInstallation(owner, author, func(inst *installation, who *account) {
		s.emitInstallation(inst, "deleted", who)
		delete(s.installations, inst.id)
		s.endTokens(inst)
	})
}

// Suspend stops an installation: it gets no tokens and no events, and those
// that it has end. Unsuspend lets it work again.
func (s *Server) Suspend(owner, author string) error {
	return s.withInstallation(owner, author, func(inst *installation, who *account) {
		inst.suspended, inst.suspendedBy = s.now(), who
		s.emitInstallation(inst, "suspend", who)
		s.endTokens(inst)
	})
}

// Unsuspend ends what Suspend began.
func (s *Server) Unsuspend(owner, author string) error {
	return s.withInstallation(owner, author, func(inst *installation, who *account) {
		inst.suspended, inst.suspendedBy = time.Time{}, nil
		s.emitInstallation(inst, "unsuspend", who)
	})
}

// endTokens ends every token of an installation. mu is held.
func (s *Server) endTokens(inst *installation) {
	for secret, t := range s.tokens {
		if t.inst == inst {
			delete(s.tokens, secret)
		}
	}
}

// reposIn are the repositories of an installation, oldest first. mu is held.
func (s *Server) reposIn(inst *installation) []*repo {
	var all []*repo
	for _, r := range s.reposByID {
		if inst.has(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *repo) int { return int(a.id - b.id) })
	return all
}

// has reports whether a repository is in the installation. mu is held.
func (i *installation) has(r *repo) bool { return r.owner == i.owner && !r.outside }

// selection says whether an installation has all of its account's
// repositories. mu is held.
func (s *Server) selection(inst *installation) string {
	for _, r := range s.reposByID {
		if r.owner == inst.owner && r.outside {
			return "selected"
		}
	}
	return "all"
}

// shortRepos are repositories as the events of an installation list them.
func shortRepos(repos ...*repo) []any {
	out := []any{}
	for _, r := range repos {
		out = append(out, object{"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": r.fullName(), "private": r.private})
	}
	return out
}

// RepoDeed is one change of a whole repository over the control API.
type RepoDeed struct {
	Repo          string `json:"repo"`
	Author        string `json:"author"`
	Name          string `json:"name"`  // a new name
	Owner         string `json:"owner"` // a new owner
	DefaultBranch string `json:"defaultBranch"`
	Delete        bool   `json:"delete"`
	Installed     *bool  `json:"installed"`
}

func (s *Server) changeRepo(in RepoDeed) error {
	switch {
	case in.Name != "":
		return s.RenameRepo(in.Repo, in.Name, in.Author)
	case in.Owner != "":
		return s.TransferRepo(in.Repo, in.Owner, in.Author)
	case in.DefaultBranch != "":
		return s.SetDefaultBranch(in.Repo, in.DefaultBranch, in.Author)
	case in.Delete:
		return s.DeleteRepo(in.Repo, in.Author)
	case in.Installed != nil:
		return s.SetInstalled(in.Repo, in.Author, *in.Installed)
	}
	return fmt.Errorf("say one of name, owner, defaultBranch, delete, installed")
}

// InstallationDeed is one change of an installation over the control API.
type InstallationDeed struct {
	Owner  string `json:"owner"`
	Author string `json:"author"`
	Action string `json:"action"`
}

func (s *Server) changeInstallation(in InstallationDeed) error {
	deeds := map[string]func(owner, author string) error{
		"install": s.Install, "uninstall": s.Uninstall, "suspend": s.Suspend, "unsuspend": s.Unsuspend,
	}
	deed := deeds[in.Action]
	if deed == nil {
		return fmt.Errorf("action must be install, uninstall, suspend or unsuspend")
	}
	return deed(in.Owner, in.Author)
}
