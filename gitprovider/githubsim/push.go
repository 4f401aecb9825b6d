package githubsim

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// refChange is a ref that moved; "" stands for "does not exist".
type refChange struct {
	ref, old, new string
}

// moved is a ref change with what git says about it, read before any lock is taken.
type moved struct {
	refChange
	branch  string // "" for tags and the like
	commits []*commit
	fresh   map[string]bool // commits that the ref did not reach before
	forced  bool
	tip     *commit
	files   map[string][]fileChange // of the commits that the push event lists
}

// maxPushCommits is how many commits a push event lists.
const maxPushCommits = 20

// study asks git what a ref change means.
func (r *repo) study(c refChange) (moved, error) {
	m := moved{refChange: c, fresh: map[string]bool{}, files: map[string][]fileChange{}}
	m.branch, _ = strings.CutPrefix(c.ref, "refs/heads/")
	if m.branch == c.ref {
		m.branch = ""
	}
	if c.new == "" {
		return m, nil
	}
	var err error
	if m.tip, err = r.git.commit(c.new); err != nil {
		return m, err
	}
	other := c.old
	if other == "" && m.branch != r.defaultBranch {
		other = r.branch(r.defaultBranch)
	}
	if m.commits, err = r.git.between(other, c.new); err != nil {
		return m, err
	}
	for _, k := range m.commits {
		m.fresh[k.SHA] = true
	}
	if c.old != "" {
		ok, err := r.git.isAncestor(c.old, c.new)
		if err != nil {
			return m, err
		}
		m.forced = !ok
	}
	for _, k := range m.commits[:min(len(m.commits), maxPushCommits)] {
		before := ""
		if len(k.Parents) > 0 {
			parent, err := r.git.commit(k.Parents[0])
			if err != nil {
				return m, err
			}
			before = parent.Tree
		}
		if m.files[k.SHA], err = r.git.diff(before, k.Tree, false); err != nil {
			return m, err
		}
	}
	return m, nil
}

// moveRefs moves refs and then does what GitHub does after a push.
// r.lockPushing is held.
func (s *Server) moveRefs(ctx context.Context, r *repo, who *account, changes ...refChange) error {
	updates := make([]refUpdate, 0, len(changes))
	for _, c := range changes {
		updates = append(updates, refUpdate{Ref: c.ref, Old: c.old, New: c.new})
	}
	if err := r.git.updateRefs(updates...); err != nil {
		return err
	}
	return s.refsChanged(ctx, r, who, changes)
}

// refsChanged does what GitHub does when refs have moved: it tells the App,
// follows pull requests whose head or base moved, and starts CI.
// r.lockPushing is held.
func (s *Server) refsChanged(ctx context.Context, r *repo, who *account, changes []refChange) error {
	var all []moved
	for _, c := range changes {
		m, err := r.study(c)
		if err != nil {
			return fmt.Errorf("study push to %s: %w", c.ref, err)
		}
		all = append(all, m)
	}
	s.mu.Lock()
	for _, m := range all {
		if m.new == "" {
			delete(r.refs, m.ref)
		} else {
			r.refs[m.ref] = m.new
		}
	}
	r.pushed = s.now()
	r.rendered = nil
	heads := s.headsMoved(r, all)
	s.mu.Unlock()

	if err := s.followHeads(ctx, r, heads); err != nil {
		return err
	}
	for i := range heads {
		if err := heads[i].study(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	for _, m := range all {
		s.emitPush(r, who, m)
	}
	for _, h := range heads {
		s.headPushed(who, h)
	}
	for _, m := range all {
		s.basePushed(r, who, m)
	}
	s.mu.Unlock()
	var errs []error
	for _, m := range all {
		errs = append(errs, s.ciForPush(r, who, m))
	}
	for _, h := range heads {
		if h.new != "" {
			errs = append(errs, s.ciForPull(h.pull.repo, h.pull.headRef, h.new))
		}
	}
	return errors.Join(errs...)
}

// headMove is a pull request whose head branch moved.
type headMove struct {
	pull     *pull
	old, new string
	nothing  bool // nothing is left to merge
}

// study finds out whether the pull request still has something to merge.
func (h *headMove) study() error {
	if h.new == "" {
		return nil
	}
	r := h.pull.repo
	base := r.branch(h.pull.baseRef) // pushing of r is held
	if base == "" {
		return nil
	}
	var err error
	h.nothing, err = r.git.isAncestor(h.new, base)
	return err
}

// headsMoved finds the open pull requests whose head is one of the refs that
// moved. mu is held.
func (s *Server) headsMoved(r *repo, all []moved) []headMove {
	byBranch := map[string]moved{}
	for _, m := range all {
		if m.branch != "" {
			byBranch[m.branch] = m
		}
	}
	var out []headMove
	for _, base := range r.network() {
		for _, p := range base.openPulls() {
			m, ok := byBranch[p.headRef]
			if ok && p.headRepo == r && m.new != p.headSHA {
				out = append(out, headMove{pull: p, old: p.headSHA, new: m.new})
			}
		}
	}
	return out
}

// followHeads moves refs/pull/N/head of the pull requests whose head moved.
// A head in a fork is fetched.
func (s *Server) followHeads(ctx context.Context, r *repo, heads []headMove) error {
	var own []refUpdate
	for _, h := range heads {
		if h.new == "" {
			continue
		}
		ref := fmt.Sprintf("refs/pull/%d/head", h.pull.number)
		if h.pull.repo == r {
			own = append(own, refUpdate{Ref: ref, New: h.new, AnyOld: true})
		} else if err := fetchHead(ctx, h.pull.repo, r, h.new, ref); err != nil {
			return err
		}
	}
	return r.git.updateRefs(own...)
}

// fetchHead brings a commit of a fork into its parent, under a ref there.
func fetchHead(ctx context.Context, parent, fork *repo, sha, ref string) error {
	if _, err := parent.git.commit(sha); err == nil {
		return parent.git.updateRefs(refUpdate{Ref: ref, New: sha, AnyOld: true})
	}
	_, err := runGit(ctx, parent.git.dir, "fetch", "--quiet", "--no-tags", fork.git.dir, "+"+sha+":"+ref)
	return err
}

// headPushed tells what a push to its head means for a pull request. mu is held.
func (s *Server) headPushed(who *account, h headMove) {
	p := h.pull
	if h.new == "" {
		s.closePull(p, who)
		return
	}
	p.headSHA, p.pushedBy, p.updated = h.new, who, s.now()
	if h.nothing {
		s.closePull(p, who)
		return
	}
	if base := p.repo.branch(p.baseRef); base != "" {
		p.baseSHA = base
	}
	s.emitPull("synchronize", p, who, object{"before": h.old, "after": h.new})
}

// basePushed tells what a push to their base means for pull requests: one
// whose head it contains is merged, and without a base it is closed. mu is held.
func (s *Server) basePushed(r *repo, who *account, m moved) {
	if m.branch == "" {
		return
	}
	for _, p := range r.openPulls() {
		switch {
		case p.baseRef != m.branch:
		case m.new == "":
			s.baseGone(r, who, p)
		case m.fresh[p.headSHA]:
			s.markMerged(p, who, m.new)
		}
	}
}

// baseGone tells what the deletion of its base means for a pull request: where
// that was the branch of a merged one, it gets that one's base; else it is
// closed. See "Retargeting" in GitHub's documentation of deleting branches.
// mu is held.
func (s *Server) baseGone(r *repo, who *account, p *pull) {
	var merged *pull
	for _, other := range r.pulls {
		if !other.merged.IsZero() && other.headRepo == r && other.headRef == p.baseRef && r.branch(other.baseRef) != "" &&
			(merged == nil || other.merged.After(merged.merged)) {
			merged = other
		}
	}
	if merged == nil {
		s.closePull(p, who)
		return
	}
	changes := object{"base": object{"ref": object{"from": p.baseRef}, "sha": object{"from": p.baseSHA}}}
	p.baseRef, p.baseSHA, p.updated = merged.baseRef, r.branch(merged.baseRef), s.now()
	p.repo.rendered = nil
	s.emitPull("edited", p, who, object{"changes": changes})
}

// closePull closes a pull request without merging it. mu is held.
func (s *Server) closePull(p *pull, who *account) {
	p.open, p.closed, p.closedBy, p.updated = false, s.now(), who, s.now()
	delete(p.repo.open, p.number)
	p.repo.rendered = nil
	s.emitPull("closed", p, who, nil)
}

// markMerged closes a pull request as merged by a commit. mu is held.
func (s *Server) markMerged(p *pull, who *account, sha string) {
	p.merged, p.mergedBy, p.mergeSHA = s.now(), who, sha
	s.closePull(p, who)
}

// emitPull sends a pull_request event. mu is held.
func (s *Server) emitPull(action string, p *pull, who *account, more object) {
	payload := object{"number": p.number, "pull_request": s.fullPullJSON(p)}
	for k, v := range more {
		payload[k] = v
	}
	s.emit("pull_request", action, p.repo, who, payload)
}

// emitPush sends a push event. mu is held.
func (s *Server) emitPush(r *repo, who *account, m moved) {
	orZero := func(sha string) string { return orElse(sha, zeroSHA) }
	web := s.URL() + "/" + r.fullName()
	commits := []any{}
	for i := min(len(m.commits), maxPushCommits) - 1; i >= 0; i-- {
		commits = append(commits, s.pushCommitJSON(r, m.commits[i], m.files[m.commits[i].SHA]))
	}
	var head any
	if m.tip != nil {
		head = s.pushCommitJSON(r, m.tip, m.files[m.tip.SHA])
	}
	repository := s.repoObject(r)
	repository["created_at"], repository["pushed_at"] = r.created.Unix(), r.pushed.Unix()
	repository["stargazers"], repository["master_branch"] = 0, r.defaultBranch
	if r.owner.kind == "Organization" {
		repository["organization"] = r.owner.login
	}
	s.emit("push", "", r, who, object{
		"ref": m.ref, "before": orZero(m.old), "after": orZero(m.new), "created": m.old == "", "deleted": m.new == "",
		"forced": m.forced, "base_ref": nil, "compare": fmt.Sprintf("%s/compare/%.12s...%.12s", web, orZero(m.old), orZero(m.new)),
		"commits": commits, "head_commit": head, "repository": repository,
		"pusher": object{"name": who.login, "email": who.email()},
	})
}

// pushCommitJSON is a commit as push events show it.
func (s *Server) pushCommitJSON(r *repo, c *commit, files []fileChange) object {
	person := func(g signature) object {
		o := object{"name": g.Name, "email": g.Email, "date": when(g.When)}
		if a := s.accountOf(g); a != nil {
			o["username"] = a.login
		}
		return o
	}
	lists := map[string][]string{"added": {}, "removed": {}, "modified": {}}
	for _, f := range files {
		lists[f.Status] = append(lists[f.Status], f.Path)
	}
	return object{
		"id": c.SHA, "tree_id": c.Tree, "distinct": true, "message": strings.TrimSuffix(c.Message, "\n"),
		"timestamp": when(c.Committer.When), "url": s.URL() + "/" + r.fullName() + "/commit/" + c.SHA,
		"author": person(c.Author), "committer": person(c.Committer),
		"added": lists["added"], "removed": lists["removed"], "modified": lists["modified"],
	}
}
