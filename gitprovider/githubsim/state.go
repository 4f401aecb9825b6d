package githubsim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// The nouns of the simulator. Every field is guarded by Server.mu unless its
// comment says otherwise; the lock is held for map work only, never over a git
// process or the network.

// account is a person, an organisation or an App's bot.
type account struct {
	id    int64
	login string
	kind  string // User, Organization, Bot
	app   int64  // of a bot: the id of its App
}

// email is the address that GitHub gives an account for its commits.
func (a *account) email() string {
	return fmt.Sprintf("%d+%s@users.noreply.github.com", a.id, a.login)
}

// app is a GitHub App: ours, or the one that plays GitHub Actions.
type app struct {
	id          int64
	slug, name  string
	owner       *account
	bot         *account
	permissions map[string]string
	events      []string
	created     time.Time
}

// installation is our App on one account. Every repository of the account is
// in it that is not outside.
type installation struct {
	id          int64
	owner       *account
	created     time.Time
	suspended   time.Time // zero when it is not
	suspendedBy *account
}

// repo is one repository.
type repo struct {
	id            int64
	owner         *account
	name          string
	private       bool
	outside       bool   // not in the installation on its owner
	parent        *repo  // what it is a fork of
	defaultBranch string // written with pushing and mu held, as refs are
	created       time.Time
	updated       time.Time
	pushed        time.Time
	settings      repoSettings
	rendered      json.RawMessage // its JSON; nil after a change

	git *gitStore // safe by itself

	// pushing is held while refs move, over git processes too, so that what
	// the server believes about refs and what git has never part. A fork's is
	// taken before its parent's.
	pushing sync.Mutex
	refs    map[string]string // full ref name to commit; written with pushing and mu held

	access  map[string]string // login to admin, maintain, write, triage, read
	number  int               // the last issue or pull number
	pulls   map[int]*pull
	open    map[int]*pull // those that are open
	labels  map[string]*label
	rules   []*ruleset
	protect map[string]*protection // classic, by branch

	statuses map[string][]*status // by commit, oldest first
	suites   map[string][]*suite  // by commit, oldest first
	ci       ciState

	workflowRuns map[int64]*workflowRun
}

// repoSettings is what PATCH /repos/{owner}/{repo} can change about merging.
type repoSettings struct {
	allowMerge, allowSquash, allowRebase bool
	deleteOnMerge                        bool
}

func (r *repo) fullName() string { return r.owner.login + "/" + r.name }

// branch returns the tip of a branch, "" when there is none.
func (r *repo) branch(name string) string { return r.refs["refs/heads/"+name] }

// openPulls lists the open pull requests by number.
func (r *repo) openPulls() []*pull {
	out := make([]*pull, 0, len(r.open))
	for _, p := range r.open {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *pull) int { return a.number - b.number })
	return out
}

// pull is a pull request.
type pull struct {
	id          int64
	number      int
	repo        *repo
	title, body string
	author      *account
	draft       bool
	open        bool
	created     time.Time
	updated     time.Time
	closed      time.Time
	closedBy    *account

	headRepo        *repo
	headRef         string
	headSHA         string
	baseRef         string
	baseSHA         string // the base when the head was last pushed, as GitHub keeps it
	merged          time.Time
	mergedBy        *account
	mergeSHA        string
	labels          []*label
	comments        []*comment
	reviews         []*review
	threads         []*thread
	pushedBy        *account // who pushed the head
	mergeable       mergeability
	maintainerCanPR bool
}

// headLabel is "owner:branch".
func (p *pull) headLabel() string { return p.headRepo.owner.login + ":" + p.headRef }

func (p *pull) state() string {
	if p.open {
		return "open"
	}
	return "closed"
}

// mergeability is what is known about merging one head into one base.
type mergeability struct {
	head, base string // what the answer is for
	asked      bool   // somebody asked about it; it is being worked out
	known      bool
	conflict   bool
	behind     bool
	stats      pullStats
	owners     [][]string // of the changed paths that have code owners: their logins
}

// pullStats are the numbers on a pull request's page.
type pullStats struct {
	commits, files, additions, deletions int
}

type label struct {
	id   int64
	name string
}

type comment struct {
	id        int64
	pull      *pull
	author    *account
	via       *app // the App that wrote it
	body      string
	created   time.Time
	updated   time.Time
	reactions []*reaction
}

type reaction struct {
	id      int64
	user    *account
	content string
	created time.Time
}

type review struct {
	id        int64
	author    *account
	body      string
	state     string // APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED
	sha       string
	submitted time.Time
}

// thread is a conversation on a pull request's change.
type thread struct {
	id       int64
	author   *account
	body     string
	sha      string
	resolved bool
	created  time.Time
}

type status struct {
	id                  int64
	sha, context, state string
	description, target string
	creator             *account
	created             time.Time
}

// suite is a check suite: the runs of one App on one commit.
type suite struct {
	id      int64
	repo    *repo
	app     *app
	sha     string
	branch  string
	before  string
	created time.Time
	updated time.Time
	runs    []*checkRun
	done    bool // its completed event was sent and nothing was added since
}

type checkRun struct {
	id         int64
	suite      *suite
	name       string
	status     string // queued, in_progress, completed
	conclusion string
	started    time.Time
	completed  time.Time
	externalID string
	detailsURL string
	output     checkOutput
	actions    json.RawMessage
}

type checkOutput struct {
	Title       *string           `json:"title"`
	Summary     *string           `json:"summary"`
	Text        *string           `json:"text"`
	Annotations []json.RawMessage `json:"annotations,omitempty"`
}

// newID returns the next id; ids of all kinds grow together. mu is held.
func (s *Server) newID() int64 {
	s.lastID++
	return s.lastID
}

// accountNamed finds or makes the account with a login. Its id depends on the
// login alone, so that it is the same in the next run. mu is held.
func (s *Server) accountNamed(login, kind string) *account {
	key := strings.ToLower(login)
	if a := s.accounts[key]; a != nil {
		return a
	}
	h := fnv.New32a()
	h.Write([]byte(key))
	id := int64(h.Sum32()%90_000_000) + 10_000_000
	for s.accountsByID[id] != nil {
		id++
	}
	a := &account{id: id, login: login, kind: kind}
	s.accounts[key], s.accountsByID[id] = a, a
	return a
}

// user finds or makes a person. mu is held.
func (s *Server) user(login string) *account { return s.accountNamed(login, "User") }

// repoNamed finds a repository by "owner/name". mu is held.
func (s *Server) repoNamed(full string) *repo { return s.repos[strings.ToLower(full)] }

// network is a repository with everything whose pull requests it can be the
// head of: itself and its parent.
func (r *repo) network() []*repo {
	if r.parent != nil {
		return []*repo{r, r.parent}
	}
	return []*repo{r}
}

// permission is what a person may do with a repository: admin, maintain,
// write, triage, read or none. mu is held.
func (r *repo) permission(a *account) string {
	switch p := r.access[strings.ToLower(a.login)]; {
	case a == r.owner:
		return "admin"
	case p != "":
		return p
	case !r.private:
		return "read"
	}
	return "none"
}

var permissionRank = map[string]int{"none": 0, "read": 1, "triage": 2, "write": 3, "maintain": 4, "admin": 5}

// canWrite reports whether a person may push to a repository. mu is held.
func (r *repo) canWrite(a *account) bool {
	return permissionRank[r.permission(a)] >= permissionRank["write"]
}

// checkRefName refuses names that git would refuse for a branch or a tag.
func checkRefName(ref string) error {
	bad := ref == "" || strings.HasSuffix(ref, ".") || strings.HasSuffix(ref, "/") || strings.Contains(ref, "..") ||
		strings.Contains(ref, "@{") || strings.Contains(ref, "//") || strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "-") ||
		strings.ContainsAny(ref, " ~^:?*[\\\x7f")
	for _, part := range strings.Split(ref, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	for _, c := range ref {
		bad = bad || c < ' '
	}
	if bad {
		return fmt.Errorf("%q is not a ref name", ref)
	}
	return nil
}
