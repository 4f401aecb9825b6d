package githubsim

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What the people of the simulated GitHub do. These are the verbs of the
// control API as Go methods.

// ErrUnknown is what an actor's deed fails with when it names a repository,
// pull request or comment that does not exist.
var ErrUnknown = errors.New("there is no such thing")

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// reserved are owner names that the server needs for itself.
var reserved = map[string]bool{"repos": true, "api": true, "_control": true, "app": true, "apps": true, "orgs": true, "users": true, "login": true}

func goodName(name string) bool {
	return namePattern.MatchString(name) && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".git")
}

// NewRepo describes a repository to be made.
type NewRepo struct {
	Owner string `json:"owner"` // an organisation unless it is known as a person
	Name  string `json:"name"`
	// Creator becomes an administrator.
	Creator string `json:"creator"`
	// Checks are the names of the checks that its CI runs.
	Checks []string `json:"checks"`
	// RequiredChecks makes an active ruleset on the default branch that
	// requires them.
	RequiredChecks []string `json:"requiredChecks"`
	// Bypass says whether the App is exempt from that ruleset; yes when nil.
	Bypass *bool `json:"bypass"`
	CI     CI    `json:"ci"`
	// Files are in its first commit, besides a README.md.
	Files map[string]*string `json:"files"`
	// Public makes it readable by everybody; it is private otherwise, so that
	// a missing token shows.
	Public bool `json:"public"`
}

func (n NewRepo) check() error {
	switch {
	case !goodName(n.Owner) || reserved[strings.ToLower(n.Owner)]:
		return fmt.Errorf("owner %q is not a name that can be used", n.Owner)
	case !goodName(n.Name):
		return fmt.Errorf("name %q is not a name that can be used", n.Name)
	}
	for _, check := range append(append([]string{}, n.Checks...), n.RequiredChecks...) {
		if checkPath(check) != nil || strings.Contains(check, "/") {
			return fmt.Errorf("check %q must be a name without slashes", check)
		}
	}
	return n.CI.check()
}

// CreateRepo makes a repository with a first commit on main, and installs the
// App on its owner.
func (s *Server) CreateRepo(ctx context.Context, n NewRepo) error {
	if err := n.check(); err != nil {
		return err
	}
	if n.CI.MaxSeconds < n.CI.MinSeconds {
		n.CI.MaxSeconds = n.CI.MinSeconds
	}
	if len(n.CI.Branches) == 0 {
		n.CI.Branches = []string{"signalbox/**"}
	}
	s.mu.Lock()
	owner := s.accountNamed(n.Owner, "Organization")
	creator := owner
	if n.Creator != "" {
		creator = s.user(n.Creator)
	}
	r, err := s.reserveRepo(owner, n.Name, nil)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.private = !n.Public
	r.ci = ciState{CI: n.CI, checks: n.Checks, tested: map[string]bool{}, attempts: map[string]int{}}
	if n.Creator != "" {
		r.access[strings.ToLower(n.Creator)] = "admin"
	}
	if err := s.initRepo(ctx, r, creator, n.Files); err != nil {
		s.mu.Lock()
		delete(s.repos, strings.ToLower(r.fullName()))
		s.mu.Unlock()
		if r.git != nil {
			r.git.close()
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(n.RequiredChecks) > 0 {
		u := &ruleset{id: s.newID(), name: "main", source: r.fullName(), sourceType: "Repository", active: true,
			include: []string{"~DEFAULT_BRANCH"}, rules: []Rule{requireChecks(n.RequiredChecks, false)}, created: s.now()}
		if n.Bypass == nil || *n.Bypass {
			u.bypass = []bypassActor{{ActorID: s.app.id, ActorType: "Integration", Mode: "exempt"}}
		}
		r.rules = append(r.rules, u)
	}
	s.publishRepo(r, creator)
	return nil
}

// reserveRepo makes the entry of a repository that nobody can see yet. mu is held.
func (s *Server) reserveRepo(owner *account, name string, parent *repo) (*repo, error) {
	key := strings.ToLower(owner.login + "/" + name)
	if _, taken := s.repos[key]; taken {
		return nil, fmt.Errorf("repository %s/%s exists already", owner.login, name)
	}
	s.repos[key] = nil // taken, not there
	return &repo{
		id: s.newID(), owner: owner, name: name, parent: parent, defaultBranch: "main", created: s.now(), updated: s.now(), pushed: s.now(),
		settings: repoSettings{allowMerge: true, allowSquash: true, allowRebase: true},
		refs:     map[string]string{}, access: map[string]string{}, pulls: map[int]*pull{}, open: map[int]*pull{}, labels: map[string]*label{},
		protect: map[string]*protection{}, statuses: map[string][]*status{}, suites: map[string][]*suite{},
	}, nil
}

// initRepo makes the bare repository and its first commit.
func (s *Server) initRepo(ctx context.Context, r *repo, creator *account, files map[string]*string) error {
	var err error
	dir := fmt.Sprintf("%s/%d.git", s.cfg.DataDir, r.id)
	if r.git, err = createStore(ctx, dir, r.defaultBranch, nil); err != nil {
		return err
	}
	readme := "# " + r.name + "\n"
	all := map[string]*string{"README.md": &readme}
	for path, content := range files {
		all[path] = content
	}
	tree, err := r.git.edit("", all)
	if err != nil {
		return err
	}
	who := signature{creator.login, creator.email(), s.now()}
	c := &commit{Tree: tree, Author: who, Committer: who, Message: "Initial commit\n"}
	if err := r.git.writeCommit(c); err != nil {
		return err
	}
	r.refs["refs/heads/main"] = c.SHA
	return r.git.updateRefs(refUpdate{Ref: "refs/heads/main", New: c.SHA})
}

// publishRepo makes a repository visible and puts the App on it. mu is held.
func (s *Server) publishRepo(r *repo, who *account) {
	s.repos[strings.ToLower(r.fullName())] = r
	s.reposByID[r.id] = r
	inst := s.installationOf(r.owner)
	if inst == nil {
		s.install(r.owner, who)
		return
	}
	s.emitAbout(inst, "installation_repositories", "added", who, object{
		"installation": s.installationJSON(inst), "repository_selection": s.selection(inst), "repositories_added": shortRepos(r),
		"repositories_removed": []any{}, "requester": nil,
	})
}

// repository looks up a repository by "owner/name".
func (s *Server) repository(repo string) (*repo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repoNamed(repo); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("repository %q: %w", repo, ErrUnknown)
}

// findPull looks up a pull request by "owner/name" and number.
func (s *Server) findPull(repo string, number int) (*pull, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := r.pulls[number]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("pull request %s#%d: %w", repo, number, ErrUnknown)
}

// person finds or makes the account of somebody who acts.
func (s *Server) person(login string) (*account, error) {
	if !goodName(strings.TrimSuffix(login, "[bot]")) {
		return nil, fmt.Errorf("author %q is not a login", login)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user(login), nil
}

// grantWrite gives somebody write access unless they have more. mu is not held.
func (s *Server) grantWrite(r *repo, a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := strings.ToLower(a.login); !r.canWrite(a) {
		r.access[key] = "write"
	}
}

// Push describes a commit to be pushed to a branch. Its author gets write
// access. The rules of the branch are not asked: it is an administrator's push.
type Push struct {
	Repo    string             `json:"repo"`
	Branch  string             `json:"branch"` // made from the default branch when it is not there
	Files   map[string]*string `json:"files"`  // null removes a file
	Message string             `json:"message"`
	Author  string             `json:"author"`
	// Force starts again from the default branch, so that the old commits of
	// the branch are gone.
	Force bool `json:"force"`
	// From is a commit or a branch to start from instead, as a push with
	// force does; for a branch that is not there, where it begins.
	From string `json:"from"`
	// Delete removes the branch instead.
	Delete bool `json:"delete"`
}

// Push makes one commit and pushes it, and returns its id.
func (s *Server) Push(ctx context.Context, in Push) (sha string, err error) {
	r, err := s.repository(in.Repo)
	if err != nil {
		return "", err
	}
	who, err := s.person(in.Author)
	if err != nil {
		return "", err
	}
	if err := checkRefName(in.Branch); err != nil {
		return "", err
	}
	s.grantWrite(r, who)
	unlock := r.lockPushing()
	defer unlock()
	return s.pushCommit(ctx, r, who, in)
}

// pushCommit does the work of Push. r.lockPushing is held.
func (s *Server) pushCommit(ctx context.Context, r *repo, who *account, in Push) (string, error) {
	ref := "refs/heads/" + in.Branch
	old := r.refs[ref]
	if in.Delete {
		if old == "" {
			return "", fmt.Errorf("branch %q: %w", in.Branch, ErrUnknown)
		}
		return "", s.moveRefs(ctx, r, who, refChange{ref, old, ""})
	}
	from := old
	if from == "" || in.Force {
		from = r.branch(r.defaultBranch)
	}
	if in.From != "" {
		k, err := s.resolve(r, in.From)
		if err != nil {
			return "", fmt.Errorf("commit %q: %w", in.From, ErrUnknown)
		}
		from = k.SHA
	}
	sha, err := s.commitFiles(r, who, from, in.Files, in.Message)
	if err != nil {
		return "", err
	}
	return sha, s.moveRefs(ctx, r, who, refChange{ref, old, sha})
}

// commitFiles makes a commit on top of another. Nothing points to it yet.
func (s *Server) commitFiles(r *repo, who *account, parent string, files map[string]*string, message string) (string, error) {
	p, err := r.git.commit(parent)
	if err != nil {
		return "", err
	}
	tree, err := r.git.edit(p.Tree, files)
	if err != nil {
		return "", err
	}
	sig := signature{who.login, who.email(), s.now()}
	c := &commit{Tree: tree, Parents: []string{parent}, Author: sig, Committer: sig, Message: orElse(message, "Change") + "\n"}
	err = r.git.writeCommit(c)
	return c.SHA, err
}
