package githubsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// mergeAsk is one request to merge a pull request.
type mergeAsk struct {
	Title  *string `json:"commit_title"`
	Body   *string `json:"commit_message"`
	SHA    string  `json:"sha"`
	Method string  `json:"merge_method"`
}

func (c *call) mergePull() (any, error) {
	var in mergeAsk
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	p, err := c.pull()
	c.s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	sha, err := c.s.merge(c.r.Context(), c.who, p, in, false)
	if err != nil {
		return nil, err
	}
	return object{"sha": sha, "merged": true, "message": "Pull Request successfully merged"}, nil
}

func notMergeable(message string) *apiError {
	return &apiError{status: 405, message: message, doc: docs + "/pulls/pulls#merge-a-pull-request"}
}

// merge merges a pull request by one of the three methods and returns the
// new tip of its base. With byHand nobody asks the rules.
func (s *Server) merge(ctx context.Context, who caller, p *pull, in mergeAsk, byHand bool) (string, error) {
	ctx = context.WithoutCancel(ctx) // once begun it is finished, as on GitHub
	unlock := p.repo.lockPushing()
	defer unlock()
	s.mu.Lock()
	head, base := p.headSHA, p.repo.branch(p.baseRef)
	err := s.refuseMerge(who, p, in, byHand)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	contained, err := p.repo.git.isAncestor(base, head)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	if !contained && !byHand && s.mustBeCurrentFor(who, p) {
		err = notMergeable("Head branch is out of date. Review and try the merge again.")
	}
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	tip, err := s.buildMerge(ctx, who.account, p, head, base, in)
	if err != nil {
		return "", err
	}
	ref := "refs/heads/" + p.baseRef
	if err := p.repo.git.updateRefs(refUpdate{Ref: ref, Old: base, New: tip}); err != nil {
		return "", notMergeable("Base branch was modified. Review and try the merge again.")
	}
	s.mu.Lock()
	s.markMerged(p, who.account, tip)
	remove := p.repo.settings.deleteOnMerge && p.headRepo == p.repo
	s.mu.Unlock()
	if err := s.refsChanged(ctx, p.repo, who.account, []refChange{{ref, base, tip}}); err != nil {
		return "", err
	}
	if gone := "refs/heads/" + p.headRef; remove && p.repo.refs[gone] == head {
		return tip, s.moveRefs(ctx, p.repo, who.account, refChange{gone, head, ""})
	}
	return tip, nil
}

// refuseMerge finds what GitHub would say no to before it tries. mu is held.
func (s *Server) refuseMerge(who caller, p *pull, in mergeAsk, byHand bool) error {
	set := p.repo.settings
	allowed := map[string]bool{"": set.allowMerge, "merge": set.allowMerge, "squash": set.allowSquash, "rebase": set.allowRebase}
	ok, known := allowed[in.Method]
	switch {
	case !known:
		return invalid("Invalid request.\n\nFor 'properties/merge_method', %s is not a member of [merge, squash, rebase].", in.Method)
	case !ok && !byHand:
		return notMergeable(map[string]string{
			"": "Merge commits are not allowed on this repository.", "merge": "Merge commits are not allowed on this repository.",
			"squash": "Squash merges are not allowed on this repository.", "rebase": "Rebase merges are not allowed on this repository.",
		}[in.Method])
	case !p.open:
		return notMergeable("Pull Request is not mergeable")
	case p.draft:
		return notMergeable("Pull Request is still a draft")
	case in.SHA != "" && in.SHA != p.headSHA:
		return &apiError{status: 409, message: "Head branch was modified. Review and try the merge again."}
	case byHand:
		return nil
	}
	why := s.mergeViolationsFor(who, p)
	if len(why) == 0 {
		return nil
	}
	if p.repo.protect[p.baseRef] != nil {
		return notMergeable(why[0])
	}
	return notMergeable("Repository rule violations found\n\n" + strings.Join(why, "\n\n") + "\n\n")
}

// buildMerge makes the commits of a merge and returns the last of them.
// Nothing points to them yet.
func (s *Server) buildMerge(ctx context.Context, who *account, p *pull, head, base string, in mergeAsk) (string, error) {
	g := p.repo.git
	own, err := g.between(base, head)
	if err != nil {
		return "", err
	}
	slices.Reverse(own) // oldest first
	if in.Method == "rebase" {
		return s.buildRebase(ctx, g, base, head)
	}
	tree, conflict, err := g.work.merge(ctx, base, head)
	if err != nil {
		return "", err
	}
	if conflict {
		return "", notMergeable("Pull Request is not mergeable")
	}
	now := s.now()
	c := &commit{Tree: tree, Parents: []string{base}, Committer: signature{"GitHub", "noreply@github.com", now}}
	title, body := "", ""
	s.mu.Lock()
	if in.Method == "squash" {
		title = fmt.Sprintf("%s (#%d)", p.title, p.number)
		body = squashBody(own)
		c.Author = signature{p.author.login, p.author.email(), now}
	} else {
		title = fmt.Sprintf("Merge pull request #%d from %s/%s", p.number, p.headRepo.owner.login, p.headRef)
		body = p.title
		c.Author = signature{who.login, who.email(), now}
		c.Parents = append(c.Parents, head)
	}
	s.mu.Unlock()
	if in.Title != nil && *in.Title != "" {
		title = *in.Title
	}
	if in.Body != nil {
		body = *in.Body
	}
	c.Message = title
	if body != "" {
		c.Message += "\n\n" + body
	}
	if err := g.writeCommit(c); err != nil {
		return "", err
	}
	return c.SHA, nil
}

// squashBody is the default body of a squash commit: the messages of its
// commits when there are several.
func squashBody(own []*commit) string {
	if len(own) < 2 {
		return ""
	}
	var b strings.Builder
	for _, c := range own {
		b.WriteString("* " + strings.TrimSpace(c.Message) + "\n\n")
	}
	return strings.TrimSpace(b.String())
}

// buildRebase picks the commits of a pull request one by one onto a base. As
// on GitHub, merges among them are left out, commits of which nothing is left
// are dropped, and a result that differs from that of a merge is refused:
// https://docs.github.com/en/pull-requests/collaborating-with-pull-requests/incorporating-changes-from-a-pull-request/about-pull-request-merges
func (s *Server) buildRebase(ctx context.Context, g *gitStore, base, head string) (string, error) {
	whole, conflict, err := g.work.merge(ctx, base, head)
	if err != nil {
		return "", err
	}
	if conflict {
		return "", notMergeable("This branch can't be rebased due to conflicts")
	}
	out, err := runGit(ctx, g.dir, "rev-list", "--reverse", "--topo-order", "--no-merges", base+".."+head)
	if err != nil {
		return "", err
	}
	own := strings.Fields(out)
	trees, conflict, err := g.work.pick(ctx, base, own)
	if err != nil {
		return "", err
	}
	if conflict {
		return "", notMergeable("This branch can't be rebased due to conflicts")
	}
	tip, err := g.commit(base)
	if err != nil {
		return "", err
	}
	for i, sha := range own {
		if trees[i] == tip.Tree {
			continue
		}
		c, err := g.commit(sha)
		if err != nil {
			return "", err
		}
		picked := &commit{
			Tree: trees[i], Parents: []string{tip.SHA}, Author: c.Author, Message: c.Message,
			Committer: signature{"GitHub", "noreply@github.com", s.now()},
		}
		if err := g.writeCommit(picked); err != nil {
			return "", err
		}
		tip = picked
	}
	if tip.Tree != whole {
		return "", notMergeable("This branch can't be rebased safely")
	}
	return tip.SHA, nil
}
