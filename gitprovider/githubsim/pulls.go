package githubsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// pull finds the pull request that the path names. mu is held.
func (c *call) pull() (*pull, error) {
	n, err := c.number("number")
	if err != nil {
		return nil, err
	}
	p := c.repo.pulls[int(n)]
	if p == nil {
		return nil, notFound()
	}
	return p, nil
}

func (c *call) getPull() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	if c.s.cfg.MergeableDelay < 0 {
		c.s.workOutNow(c.r.Context(), p)
	}
	c.s.wonder(p)
	return c.s.fullPullJSON(p), nil
}

func (c *call) listPulls() (any, error) {
	state, head, base := c.query("state", "open"), c.query("head", ""), c.query("base", "")
	sort, direction := c.query("sort", "created"), c.query("direction", "")
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*pull
	for _, p := range c.repo.pulls {
		// GitHub ignores a head that is not "owner:branch".
		headOK := !strings.Contains(head, ":") || strings.EqualFold(head, p.headLabel())
		if (state == "all" || state == p.state()) && headOK && (base == "" || base == p.baseRef) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pull) int {
		if sort == "updated" && !a.updated.Equal(b.updated) {
			return a.updated.Compare(b.updated)
		}
		return a.number - b.number
	})
	if direction == "desc" || direction == "" && sort == "created" {
		slices.Reverse(all)
	}
	return paged(c, all, func(p *pull) any { return c.s.pullJSON(p) })
}

// newPull is what a pull request is made from.
type newPull struct {
	title, body string
	author      *account
	headRepo    *repo
	headRef     string
	baseRef     string
	draft       bool
}

func (c *call) createPull() (any, error) {
	var in struct {
		Title    string `json:"title"`
		Body     string `json:"body"`
		Head     string `json:"head"`
		HeadRepo string `json:"head_repo"`
		Base     string `json:"base"`
		Draft    bool   `json:"draft"`
		Modify   *bool  `json:"maintainer_can_modify"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Title == "" {
		return nil, invalidField("PullRequest", "title", "missing_field", "")
	}
	n := newPull{title: in.Title, body: in.Body, author: c.who.account, baseRef: in.Base, draft: in.Draft, headRepo: c.repo, headRef: in.Head}
	if owner, ref, ok := strings.Cut(in.Head, ":"); ok {
		n.headRef = ref
		c.s.mu.Lock()
		n.headRepo = c.s.repoNamed(owner + "/" + orElse(in.HeadRepo, c.repo.name))
		c.s.mu.Unlock()
	}
	p, err := c.s.openPull(c.r.Context(), c.repo, n)
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return reply{status: 201, body: c.s.fullPullJSON(p)}, nil
}

// openPull makes a pull request of two branches that exist.
func (s *Server) openPull(ctx context.Context, r *repo, n newPull) (*pull, error) {
	if n.headRepo == nil || n.headRepo != r && n.headRepo.parent != r {
		return nil, invalidField("PullRequest", "head", "invalid", "")
	}
	unlock := n.headRepo.lockPushing()
	defer unlock()
	head, base := n.headRepo.branch(n.headRef), r.branch(n.baseRef)
	switch {
	case head == "":
		return nil, invalidField("PullRequest", "head", "invalid", "")
	case base == "":
		return nil, invalidField("PullRequest", "base", "invalid", "")
	}
	contained, err := n.headRepo.git.isAncestor(head, base)
	if err != nil {
		return nil, err
	}
	if contained {
		return nil, invalidField("PullRequest", "", "custom", fmt.Sprintf("No commits between %s and %s", n.baseRef, n.headRef))
	}
	p, err := s.addPull(r, n, head, base)
	if err != nil {
		return nil, err
	}
	ref := fmt.Sprintf("refs/pull/%d/head", p.number)
	if n.headRepo == r {
		err = r.git.updateRefs(refUpdate{Ref: ref, New: head, AnyOld: true})
	} else {
		err = fetchHead(ctx, r, n.headRepo, head, ref)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.emitPull("opened", p, n.author, nil)
	s.mu.Unlock()
	return p, s.ciForPull(r, n.headRef, head)
}

// addPull enters a new pull request unless there is an open one for its branches.
func (s *Server) addPull(r *repo, n newPull, head, base string) (*pull, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range r.open {
		if other.headRepo == n.headRepo && other.headRef == n.headRef && other.baseRef == n.baseRef {
			return nil, invalidField("PullRequest", "", "custom", fmt.Sprintf("A pull request already exists for %s.", other.headLabel()))
		}
	}
	r.number++
	p := &pull{
		id: s.newID(), number: r.number, repo: r, title: n.title, body: n.body, author: n.author, draft: n.draft, open: true,
		created: s.now(), updated: s.now(), headRepo: n.headRepo, headRef: n.headRef, headSHA: head, baseRef: n.baseRef, baseSHA: base,
		pushedBy: n.author,
	}
	r.pulls[p.number], r.open[p.number] = p, p
	r.rendered = nil
	return p, nil
}

// pullEdit is what can be changed about a pull request; nil leaves it.
type pullEdit struct {
	Title *string `json:"title"`
	Body  *string `json:"body"`
	State *string `json:"state"`
	Base  *string `json:"base"`
	Draft *bool   `json:"-"` // REST cannot change it
}

func (c *call) updatePull() (any, error) {
	var in pullEdit
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	p, err := c.pull()
	c.s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.s.editPull(p, c.who.account, in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.fullPullJSON(p), nil
}

// editPull changes a pull request and tells the App.
func (s *Server) editPull(p *pull, who *account, in pullEdit) error {
	unlock := p.headRepo.lockPushing()
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkEdit(p, in); err != nil {
		return err
	}
	changes := object{}
	if in.Title != nil && *in.Title != p.title {
		changes["title"] = object{"from": p.title}
		p.title = *in.Title
	}
	if in.Body != nil && *in.Body != p.body {
		changes["body"] = object{"from": p.body}
		p.body = *in.Body
	}
	if in.Base != nil && *in.Base != p.baseRef {
		changes["base"] = object{"ref": object{"from": p.baseRef}, "sha": object{"from": p.baseSHA}}
		p.baseRef, p.baseSHA = *in.Base, p.repo.branch(*in.Base)
	}
	p.updated = s.now()
	if len(changes) > 0 {
		s.emitPull("edited", p, who, object{"changes": changes})
	}
	if in.Draft != nil && *in.Draft != p.draft {
		p.draft = *in.Draft
		action := "ready_for_review"
		if p.draft {
			action = "converted_to_draft"
		}
		s.emitPull(action, p, who, nil)
	}
	switch {
	case in.State == nil:
	case *in.State == "closed" && p.open:
		s.closePull(p, who)
	case *in.State == "open" && !p.open:
		return s.reopenPull(p, who)
	}
	return nil
}

// checkEdit refuses what GitHub refuses. mu is held.
func (s *Server) checkEdit(p *pull, in pullEdit) error {
	switch {
	case in.Title != nil && *in.Title == "":
		return invalidField("PullRequest", "title", "missing_field", "")
	case in.State != nil && *in.State != "open" && *in.State != "closed":
		return invalidField("PullRequest", "state", "invalid", "")
	case in.Base != nil && p.repo.branch(*in.Base) == "":
		return invalidField("PullRequest", "base", "invalid", "")
	case in.Base != nil && !p.open:
		return invalidField("PullRequest", "base", "custom", "Cannot change the base branch of a closed pull request.")
	}
	return nil
}

// reopenPull opens a closed pull request again at its branch's present head. mu is held.
func (s *Server) reopenPull(p *pull, who *account) error {
	head := p.headRepo.branch(p.headRef)
	if !p.merged.IsZero() || head == "" || p.repo.branch(p.baseRef) == "" {
		return invalidField("PullRequest", "state", "invalid", "The pull request cannot be reopened.")
	}
	p.open, p.closedBy, p.updated, p.headSHA = true, nil, s.now(), head
	p.closed = p.merged
	p.repo.open[p.number] = p
	p.repo.rendered = nil
	s.emitPull("reopened", p, who, nil)
	return nil
}

// pullSides is the pull request that the path names with its head and base commits.
func (c *call) pullSides() (p *pull, head, base string, err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if p, err = c.pull(); err != nil {
		return nil, "", "", err
	}
	base = p.baseSHA
	if tip := c.repo.branch(p.baseRef); p.open && tip != "" {
		base = tip
	}
	return p, p.headSHA, base, nil
}

func (c *call) pullCommits() (any, error) {
	_, head, base, err := c.pullSides()
	if err != nil {
		return nil, err
	}
	commits, err := c.repo.git.between(base, head)
	if err != nil {
		return nil, err
	}
	slices.Reverse(commits)
	commits = commits[:min(len(commits), 250)] // GitHub's own limit
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return paged(c, commits, func(k *commit) any { return c.s.commitJSON(c.repo, k) })
}

func (c *call) pullFiles() (any, error) {
	_, head, base, err := c.pullSides()
	if err != nil {
		return nil, err
	}
	files, err := pullDiff(c.repo.git, base, head)
	if err != nil {
		return nil, err
	}
	return paged(c, files[:min(len(files), 3000)], func(f fileChange) any { return c.fileJSON(head, f) })
}

func (c *call) fileJSON(head string, f fileChange) object {
	full := c.full
	return object{
		"sha": f.SHA, "filename": f.Path, "status": f.Status, "additions": f.Additions, "deletions": f.Deletions,
		"changes": f.Additions + f.Deletions, "blob_url": c.s.URL() + "/" + full + "/blob/" + head + "/" + f.Path,
		"raw_url":      c.s.URL() + "/" + full + "/raw/" + head + "/" + f.Path,
		"contents_url": c.s.api("/repos/%s/contents/%s?ref=%s", full, f.Path, head),
	}
}

func (c *call) pullReviews() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	return paged(c, p.reviews, func(v *review) any { return c.s.reviewJSON(p, v) })
}

func (c *call) pullMerged() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err == nil && p.merged.IsZero() {
		err = notFound()
	}
	return reply{status: 204}, err
}

// pullsForCommit lists the pull requests of a commit: those whose head it is
// and the one that it merged.
func (c *call) pullsForCommit() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*pull
	for _, p := range c.repo.pulls {
		if p.headSHA == k.SHA || p.mergeSHA == k.SHA {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pull) int { return a.number - b.number })
	return paged(c, all, func(p *pull) any { return c.s.pullJSON(p) })
}
