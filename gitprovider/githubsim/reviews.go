package githubsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reviewRule is what a ruleset or classic protection wants of reviews.
type reviewRule struct {
	on            bool // reviews are required
	approvals     int
	codeOwners    bool
	lastPush      bool // somebody other than who pushed last must have approved that
	conversations bool // every conversation must be resolved
}

// reviews is what a pull_request rule wants. It counts as requiring reviews
// only when it wants one.
func (r Rule) reviews() reviewRule {
	number, _ := r.Parameters["required_approving_review_count"].(float64)
	if n, ok := r.Parameters["required_approving_review_count"].(int); ok {
		number = float64(n)
	}
	flag := func(name string) bool { on, _ := r.Parameters[name].(bool); return on }
	w := reviewRule{
		approvals: int(number), codeOwners: flag("require_code_owner_review"), lastPush: flag("require_last_push_approval"),
		conversations: flag("required_review_thread_resolution"),
	}
	w.on = w.approvals > 0 || w.codeOwners || w.lastPush
	return w
}

// lastWords is the last review with an opinion of everybody, or of everybody who
// may write: those are the ones that count.
func (p *pull) lastWords(writersOnly bool) map[*account]*review {
	last := map[*account]*review{}
	for _, v := range p.reviews {
		if v.state != "COMMENTED" && (!writersOnly || p.repo.canWrite(v.author)) {
			last[v.author] = v
		}
	}
	return last
}

// lacksReview says, in GitHub's words, what a rule about reviews misses. mu is held.
func (p *pull) lacksReview(rule reviewRule) (why []string) {
	if rule.on {
		why = p.lacksApproval(rule)
	}
	if rule.conversations && slices.ContainsFunc(p.threads, func(t *thread) bool { return !t.resolved }) {
		why = append(why, "All comments must be resolved.")
	}
	return why
}

const changesRequested = "Changes were requested by a reviewer with write access."

func (p *pull) lacksApproval(rule reviewRule) (why []string) {
	have, fresh := 0, false
	approved := map[string]bool{}
	for who, v := range p.lastWords(true) {
		switch v.state {
		case "CHANGES_REQUESTED":
			return []string{changesRequested}
		case "APPROVED":
			have++
			approved[strings.ToLower(who.login)] = true
			fresh = fresh || who != p.pushedBy && v.sha == p.headSHA
		}
	}
	switch {
	case have >= rule.approvals:
	case rule.approvals == 1:
		why = append(why, "At least 1 approving review is required by reviewers with write access.")
	default:
		why = append(why, fmt.Sprintf("At least %d approving reviews are required by reviewers with write access.", rule.approvals))
	}
	if rule.codeOwners && slices.ContainsFunc(p.mergeable.owners, func(any []string) bool {
		return !slices.ContainsFunc(any, func(owner string) bool { return approved[owner] })
	}) {
		why = append(why, "Waiting on code owner review.")
	}
	if rule.lastPush && !fresh {
		why = append(why, "New changes require approval from someone other than the last pusher.")
	}
	return why
}

// decision is GraphQL's reviewDecision: nil where no rule requires reviews. mu is held.
func (s *Server) decision(p *pull) any {
	var rules []reviewRule
	for _, u := range s.rulesOf(p.repo, p.baseRef) {
		for _, rule := range u.rules {
			if rule.Type == "pull_request" {
				rules = append(rules, rule.reviews())
			}
		}
	}
	if c := p.repo.protect[p.baseRef]; c != nil {
		rules = append(rules, c.reviews)
	}
	var verdict any
	for _, rule := range rules {
		if !rule.on {
			continue
		}
		switch why := p.lacksApproval(rule); {
		case slices.Contains(why, changesRequested):
			return "CHANGES_REQUESTED"
		case len(why) > 0:
			verdict = "REVIEW_REQUIRED"
		case verdict == nil:
			verdict = "APPROVED"
		}
	}
	return verdict
}

// ownersOf lists, for each changed path that has owners, their logins in lower
// case, by the base's CODEOWNERS. Of its patterns *, /folder/ and a whole path
// are understood; the last line that matches counts, as on GitHub.
func (g *gitStore) ownersOf(base string, files []fileChange) ([][]string, error) {
	k, err := g.commit(base)
	if err != nil {
		return nil, err
	}
	var body []byte
	for _, path := range []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"} {
		e, err := g.lookup(k.Tree, path)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if body, err = g.blob(e.SHA); err != nil {
			return nil, err
		}
		break
	}
	var all [][]string
	for _, f := range files {
		var owners []string
		for line := range strings.Lines(string(body)) {
			line, _, _ = strings.Cut(line, "#")
			words := strings.Fields(line)
			if len(words) == 0 || !owns(words[0], f.Path) {
				continue
			}
			owners = nil
			for _, w := range words[1:] {
				owners = append(owners, strings.ToLower(strings.TrimPrefix(w, "@")))
			}
		}
		if len(owners) > 0 {
			all = append(all, owners)
		}
	}
	return all, nil
}

func owns(pattern, path string) bool {
	name := strings.TrimPrefix(pattern, "/")
	return pattern == "*" || name == path || strings.HasSuffix(name, "/") && strings.HasPrefix(path, name)
}

// Converse begins a conversation on a line of a pull request's change, as a
// review comment does, and returns its id.
func (s *Server) Converse(repo string, number int, author, body string) (int64, error) {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return 0, err
	}
	if err := checkComment(body); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &thread{id: s.newID(), author: who, body: body, sha: p.headSHA, created: s.now()}
	p.threads = append(p.threads, t)
	return t.id, nil
}

// Resolve marks a conversation resolved, or open again.
func (s *Server) Resolve(repo string, number int, id int64, author string, resolved bool) error {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range p.threads {
		if t.id != id {
			continue
		}
		t.resolved = resolved
		s.emit("pull_request_review_thread", map[bool]string{true: "resolved", false: "unresolved"}[resolved], p.repo, who, object{
			"pull_request": s.pullJSON(p),
			"thread":       object{"node_id": nodeID("PRRT", t.id), "comments": []any{s.reviewCommentJSON(p, t)}},
		})
		return nil
	}
	return fmt.Errorf("conversation %d on %s#%d: %w", id, repo, number, ErrUnknown)
}

// reviewCommentJSON is the first comment of a conversation.
func (s *Server) reviewCommentJSON(p *pull, t *thread) object {
	api := s.api("/repos/%s/pulls/comments/%d", p.repo.fullName(), t.id)
	pull := s.api("/repos/%s/pulls/%d", p.repo.fullName(), p.number)
	web := fmt.Sprintf("%s/%s/pull/%d#discussion_r%d", s.URL(), p.repo.fullName(), p.number, t.id)
	return object{
		"id": t.id, "node_id": nodeID("PRRC", t.id), "url": api, "html_url": web, "pull_request_url": pull, "pull_request_review_id": t.id,
		"diff_hunk": "@@ -0,0 +1 @@", "path": "README.md", "position": 1, "original_position": 1, "commit_id": t.sha, "original_commit_id": t.sha,
		"user": s.userJSON(t.author), "body": t.body, "created_at": when(t.created), "updated_at": when(t.created),
		"author_association": p.repo.association(t.author), "start_line": nil, "original_start_line": nil, "start_side": nil,
		"line": 1, "original_line": 1, "side": "RIGHT", "subject_type": "line", "reactions": reactionCounts(api, nil),
		"_links": object{"self": object{"href": api}, "html": object{"href": web}, "pull_request": object{"href": pull}},
	}
}
