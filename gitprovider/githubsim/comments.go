package githubsim

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxComment is the longest comment that GitHub takes.
const maxComment = 65536

// addComment writes a comment and tells the App. mu is held.
func (s *Server) addComment(p *pull, author *account, via *app, body string) *comment {
	c := &comment{id: s.newID(), pull: p, author: author, via: via, body: body, created: s.now(), updated: s.now()}
	p.comments = append(p.comments, c)
	p.updated = s.now()
	s.comments[c.id] = c
	s.emit("issue_comment", "created", p.repo, author, object{"issue": s.issueJSON(p), "comment": s.commentJSON(c)})
	return c
}

// editComment changes a comment and tells the App. mu is held.
func (s *Server) editComment(c *comment, who *account, body string) {
	from := c.body
	c.body, c.updated = body, s.now()
	s.emit("issue_comment", "edited", c.pull.repo, who, object{
		"issue": s.issueJSON(c.pull), "comment": s.commentJSON(c), "changes": object{"body": object{"from": from}},
	})
}

// removeComment deletes a comment and tells the App. mu is held.
func (s *Server) removeComment(c *comment, who *account) {
	p := c.pull
	p.comments = slices.DeleteFunc(p.comments, func(o *comment) bool { return o == c })
	delete(s.comments, c.id)
	s.emit("issue_comment", "deleted", p.repo, who, object{"issue": s.issueJSON(p), "comment": s.commentJSON(c)})
}

func checkComment(body string) error {
	switch {
	case strings.TrimSpace(body) == "":
		return invalidField("IssueComment", "body", "missing_field", "")
	case len(body) > maxComment:
		return invalidField("IssueComment", "body", "custom", "body is too long (maximum is 65536 characters)")
	}
	return nil
}

func (c *call) listComments() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	return paged(c, p.comments, func(k *comment) any { return c.s.commentJSON(k) })
}

// listAllComments lists the comments of a repository, by when they were made,
// or changed with sort=updated, since a moment if one is given.
func (c *call) listAllComments() (any, error) {
	var since time.Time
	if text := c.query("since", ""); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, invalid("since is no time")
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*comment
	for _, k := range c.s.comments {
		if k.pull.repo == c.repo && !k.updated.Before(since) {
			all = append(all, k)
		}
	}
	byUpdate := c.query("sort", "created") == "updated"
	slices.SortFunc(all, func(a, b *comment) int {
		if byUpdate {
			return cmp.Or(a.updated.Compare(b.updated), cmp.Compare(a.id, b.id))
		}
		return cmp.Compare(a.id, b.id)
	})
	if byUpdate && c.query("direction", "desc") == "desc" {
		slices.Reverse(all)
	}
	return paged(c, all, func(k *comment) any { return c.s.commentJSON(k) })
}

// commentBody reads the body of a call that writes a comment.
func (c *call) commentBody() (string, error) {
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return "", err
	}
	return in.Body, checkComment(in.Body)
}

func (c *call) createComment() (any, error) {
	body, err := c.commentBody()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	return reply{status: 201, body: c.s.commentJSON(c.s.addComment(p, c.who.account, c.s.via(c.who), body))}, nil
}

// comment finds the comment that the path names. mu is held.
func (c *call) comment() (*comment, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	k := c.s.comments[id]
	if k == nil || k.pull.repo != c.repo {
		return nil, notFound()
	}
	return k, nil
}

func (c *call) getComment() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	return c.s.commentJSON(k), nil
}

func (c *call) updateComment() (any, error) {
	body, err := c.commentBody()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	c.s.editComment(k, c.who.account, body)
	return c.s.commentJSON(k), nil
}

func (c *call) deleteComment() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	c.s.removeComment(k, c.who.account)
	return reply{status: 204}, nil
}

func (c *call) listReactions() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	want := c.query("content", "")
	var all []*reaction
	for _, r := range k.reactions {
		if want == "" || want == r.content {
			all = append(all, r)
		}
	}
	return paged(c, all, func(r *reaction) any { return c.s.reactionJSON(r) })
}

// createReaction answers 201, or 200 when the same reaction is there already.
func (c *call) createReaction() (any, error) {
	var in struct{ Content string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !slices.Contains(reactionNames, in.Content) {
		return nil, invalidField("Reaction", "content", "invalid", "")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	for _, r := range k.reactions {
		if r.user == c.who.account && r.content == in.Content {
			return c.s.reactionJSON(r), nil
		}
	}
	r := &reaction{id: c.s.newID(), user: c.who.account, content: in.Content, created: c.s.now()}
	k.reactions = append(k.reactions, r)
	return reply{status: 201, body: c.s.reactionJSON(r)}, nil
}

func (c *call) deleteReaction() (any, error) {
	id, err := c.number("reaction")
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.comment()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(k.reactions, func(r *reaction) bool { return r.id == id })
	if at < 0 {
		return nil, notFound()
	}
	k.reactions = slices.Delete(k.reactions, at, at+1)
	return reply{status: 204}, nil
}

func (c *call) listLabels() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	return paged(c, c.s.labelsJSON(c.repo, p.labels), func(l any) any { return l })
}

func (c *call) addLabels() (any, error) {
	var in struct{ Labels []string }
	if strings.HasPrefix(strings.TrimSpace(string(c.body)), "[") {
		if err := c.decode(&in.Labels); err != nil {
			return nil, err
		}
	} else if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	for _, name := range in.Labels {
		if name == "" {
			return nil, invalidField("Label", "name", "missing_field", "")
		}
	}
	for _, name := range in.Labels {
		c.s.addLabel(p, c.who.account, name)
	}
	return c.s.labelsJSON(c.repo, p.labels), nil
}

func (c *call) removeLabel() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.pull()
	if err != nil {
		return nil, err
	}
	if !c.s.removeLabelFrom(p, c.who.account, c.params["name"]) {
		return nil, &apiError{status: 404, message: "Label does not exist"}
	}
	return c.s.labelsJSON(c.repo, p.labels), nil
}

// addLabel puts a label on a pull request and tells the App. mu is held.
func (s *Server) addLabel(p *pull, who *account, name string) {
	key := strings.ToLower(name)
	l := p.repo.labels[key]
	if l == nil {
		l = &label{id: s.newID(), name: name}
		p.repo.labels[key] = l
	}
	if slices.Contains(p.labels, l) {
		return
	}
	p.labels = append(p.labels, l)
	p.updated = s.now()
	s.emitPull("labeled", p, who, object{"label": s.labelsJSON(p.repo, []*label{l})[0]})
}

// removeLabelFrom takes a label off a pull request and tells the App. mu is held.
func (s *Server) removeLabelFrom(p *pull, who *account, name string) bool {
	at := slices.IndexFunc(p.labels, func(l *label) bool { return strings.EqualFold(l.name, name) })
	if at < 0 {
		return false
	}
	l := p.labels[at]
	p.labels = slices.Delete(p.labels, at, at+1)
	p.updated = s.now()
	s.emitPull("unlabeled", p, who, object{"label": s.labelsJSON(p.repo, []*label{l})[0]})
	return true
}
