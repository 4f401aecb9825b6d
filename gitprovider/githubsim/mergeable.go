package githubsim

import (
	"context"
)

// mergeState is what GitHub says about merging a pull request right now:
// mergeable (null while unknown) and mergeable_state. Asking for it is what
// makes it known, later. mu is held.
func (s *Server) mergeState(p *pull) (mergeable any, state string) {
	if !p.open {
		return nil, "unknown"
	}
	if !p.mergeable.matches(p) || !p.mergeable.known {
		return nil, "unknown"
	}
	switch {
	case p.mergeable.conflict:
		return false, "dirty"
	case p.draft:
		return true, "draft"
	case len(s.mergeViolations(p)) > 0:
		return true, "blocked"
	case p.mergeable.behind && s.mustBeCurrent(p):
		return true, "behind"
	case s.unstable(p):
		return true, "unstable"
	}
	return true, "clean"
}

// matches reports whether m is about the pull request's present head and base.
func (m mergeability) matches(p *pull) bool {
	return m.head == p.headSHA && m.base == p.repo.branch(p.baseRef)
}

// wonder has the mergeability of a pull request worked out after a while,
// unless it is known or being worked out. mu is held.
func (s *Server) wonder(p *pull) {
	if !p.open {
		return
	}
	if !p.mergeable.matches(p) {
		p.mergeable = mergeability{head: p.headSHA, base: p.repo.branch(p.baseRef), stats: p.mergeable.stats, owners: p.mergeable.owners}
	}
	if p.mergeable.asked || p.mergeable.base == "" {
		return
	}
	p.mergeable.asked = true
	want := p.mergeable
	s.work.after(s.cfg.MergeableDelay, func(ctx context.Context) {
		if _, err := s.workOut(ctx, p, want.head, want.base); err != nil && ctx.Err() == nil {
			s.log.Error("work out mergeability", "repo", p.repo.fullName(), "pr", p.number, "error", err)
			s.mu.Lock()
			p.mergeable.asked = false
			s.mu.Unlock()
		}
	})
}

// workOutNow works the mergeability of a pull request out before it is told.
// mu is held, but not all the time.
func (s *Server) workOutNow(ctx context.Context, p *pull) {
	for p.open && !(p.mergeable.known && p.mergeable.matches(p)) {
		head, base := p.headSHA, p.repo.branch(p.baseRef)
		if base == "" {
			return
		}
		s.mu.Unlock()
		_, err := s.workOut(ctx, p, head, base)
		s.mu.Lock()
		if err != nil {
			return // it is told as unknown, and worked out later
		}
	}
}

// workOut merges a head into a base for trial and remembers the outcome if
// the pull request still has them.
func (s *Server) workOut(ctx context.Context, p *pull, head, base string) (mergeability, error) {
	m := mergeability{head: head, base: base, asked: true, known: true}
	g := p.repo.git
	contained, err := g.isAncestor(base, head)
	if err != nil {
		return m, err
	}
	m.behind = !contained
	if m.behind {
		if _, m.conflict, err = g.mergeTree(ctx, base, head); err != nil {
			return m, err
		}
	}
	files, err := pullDiff(g, base, head)
	if err != nil {
		return m, err
	}
	if m.stats, err = pullNumbers(g, base, head, files); err != nil {
		return m, err
	}
	if m.owners, err = g.ownersOf(base, files); err != nil {
		return m, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.matches(p) {
		p.mergeable = m
	}
	return m, nil
}

// pullNumbers counts the commits, files and lines of a pull request.
func pullNumbers(g *gitStore, base, head string, files []fileChange) (pullStats, error) {
	commits, err := g.between(base, head)
	if err != nil {
		return pullStats{}, err
	}
	n := pullStats{commits: len(commits), files: len(files)}
	for _, f := range files {
		n.additions += f.Additions
		n.deletions += f.Deletions
	}
	return n, nil
}

// pullDiff lists the files that a pull request changes: from the merge base
// to its head.
func pullDiff(g *gitStore, base, head string) ([]fileChange, error) {
	fork, err := g.mergeBase(base, head)
	if err != nil {
		return nil, err
	}
	before := ""
	if fork != "" {
		c, err := g.commit(fork)
		if err != nil {
			return nil, err
		}
		before = c.Tree
	}
	c, err := g.commit(head)
	if err != nil {
		return nil, err
	}
	return g.diff(before, c.Tree, true)
}

// unstable reports whether a check or status of the head is not green. mu is held.
func (s *Server) unstable(p *pull) bool {
	for _, t := range latestStatuses(p.repo, p.headSHA) {
		if t.state != "success" {
			return true
		}
	}
	for _, u := range p.repo.suites[p.headSHA] {
		for _, c := range u.latest() {
			if !passed(c.conclusion) {
				return true
			}
		}
	}
	return false
}

// passed reports whether a conclusion counts as green.
func passed(conclusion string) bool {
	return conclusion == "success" || conclusion == "neutral" || conclusion == "skipped"
}

// latestStatuses is the newest status of each context, oldest context first.
func latestStatuses(r *repo, sha string) []*status {
	at := map[string]int{}
	var out []*status
	for _, t := range r.statuses[sha] {
		if i, ok := at[t.context]; ok {
			out[i] = t
		} else {
			at[t.context] = len(out)
			out = append(out, t)
		}
	}
	return out
}
