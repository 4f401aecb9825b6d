package githubsim

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// OpenPull describes a pull request to be opened. Its author gets write
// access to the repository, except with Fork.
type OpenPull struct {
	Repo   string `json:"repo"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Author string `json:"author"`
	// Branch is its head; "{author}/change-{n}" when empty. A branch that
	// exists is used as it is, with Files committed on top.
	Branch string             `json:"branch"`
	Base   string             `json:"base"`  // the default branch when empty
	Files  map[string]*string `json:"files"` // null removes a file
	// Fork opens it from the author's own fork, which is made if need be. A
	// fork's author gets no rights.
	Fork  bool `json:"fork"`
	Draft bool `json:"draft"`
}

// Opened is a pull request that was opened.
type Opened struct {
	Number  int    `json:"number"`
	HeadSHA string `json:"headSha"`
}

// OpenPull makes a branch with one commit and opens a pull request from it.
func (s *Server) OpenPull(ctx context.Context, in OpenPull) (Opened, error) {
	r, err := s.repository(in.Repo)
	if err != nil {
		return Opened{}, err
	}
	who, err := s.person(in.Author)
	if err != nil {
		return Opened{}, err
	}
	s.mu.Lock()
	base := orElse(in.Base, r.defaultBranch)
	s.mu.Unlock()
	head := r
	if in.Fork {
		if head, err = s.forkOf(ctx, r, who); err != nil {
			return Opened{}, err
		}
	} else {
		s.grantWrite(r, who)
	}
	s.mu.Lock()
	branch := orElse(in.Branch, fmt.Sprintf("%s/change-%d", who.login, s.newID()))
	s.mu.Unlock()
	if err := checkRefName(branch); err != nil {
		return Opened{}, err
	}
	if err := s.prepareHead(ctx, r, head, who, base, branch, in); err != nil {
		return Opened{}, err
	}
	p, err := s.openPull(ctx, r, newPull{
		title: orElse(in.Title, "Change by "+who.login), body: in.Body, author: who, headRepo: head, headRef: branch, baseRef: base, draft: in.Draft,
	})
	if err != nil {
		return Opened{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Opened{p.number, p.headSHA}, nil
}

// prepareHead makes or extends the head branch of a pull request to be opened.
func (s *Server) prepareHead(ctx context.Context, r, head *repo, who *account, base, branch string, in OpenPull) error {
	unlock := head.lockPushing()
	defer unlock()
	ref := "refs/heads/" + branch
	old := head.refs[ref]
	if old != "" && len(in.Files) == 0 {
		return nil
	}
	from := old
	if from == "" {
		s.mu.Lock()
		from = r.branch(base)
		s.mu.Unlock()
	}
	if from == "" {
		return fmt.Errorf("base branch %q: %w", base, ErrUnknown)
	}
	sha, err := s.commitFiles(head, who, from, in.Files, in.Title)
	if err != nil {
		return err
	}
	return s.moveRefs(ctx, head, who, refChange{ref, old, sha})
}

// forkOf finds or makes somebody's fork of a repository.
func (s *Server) forkOf(ctx context.Context, r *repo, who *account) (*repo, error) {
	s.forking.Lock()
	defer s.forking.Unlock()
	s.mu.Lock()
	if f := s.repoNamed(who.login + "/" + r.name); f != nil {
		s.mu.Unlock()
		if f.parent != r {
			return nil, fmt.Errorf("%s/%s is not a fork of %s", who.login, r.name, r.fullName())
		}
		return f, nil
	}
	f, err := s.reserveRepo(who, r.name, r)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	tip := r.branch(r.defaultBranch)
	f.private, f.defaultBranch = r.private, r.defaultBranch
	s.mu.Unlock()
	f.ci = ciState{tested: map[string]bool{}, attempts: map[string]int{}}
	if f.git, err = createStore(ctx, fmt.Sprintf("%s/%d.git", s.cfg.DataDir, f.id), f.defaultBranch, r.git); err == nil {
		err = f.git.updateRefs(refUpdate{Ref: "refs/heads/" + f.defaultBranch, New: tip})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.repos, strings.ToLower(f.fullName()))
		return nil, fmt.Errorf("fork %s: %w", r.fullName(), err)
	}
	f.refs["refs/heads/"+f.defaultBranch] = tip
	s.repos[strings.ToLower(f.fullName())], s.reposByID[f.id] = f, f
	return f, nil
}

// Comment writes a comment on a pull request and returns its id.
func (s *Server) Comment(repo string, number int, author, body string) (int64, error) {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return 0, err
	}
	if err := checkComment(body); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addComment(p, who, nil, body).id, nil
}

// EditComment changes a comment in somebody's name, whoever wrote it.
func (s *Server) EditComment(id int64, author, body string) error {
	who, err := s.person(author)
	if err != nil {
		return err
	}
	if err := checkComment(body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.comments[id]
	if c == nil {
		return fmt.Errorf("comment %d: %w", id, ErrUnknown)
	}
	s.editComment(c, who, body)
	return nil
}

// deed finds the pull request and the person of something done to it.
func (s *Server) deed(repo string, number int, author string) (*pull, *account, error) {
	p, err := s.findPull(repo, number)
	if err != nil {
		return nil, nil, err
	}
	who, err := s.person(author)
	return p, who, err
}

var reviewStates = map[string]string{
	"approve": "APPROVED", "approved": "APPROVED", "comment": "COMMENTED", "commented": "COMMENTED",
	"request_changes": "CHANGES_REQUESTED", "changes_requested": "CHANGES_REQUESTED", "dismiss": "DISMISSED", "dismissed": "DISMISSED",
}

// Review submits a review: state is approved, changes_requested or commented.
// With dismissed the author's last review is dismissed instead.
func (s *Server) Review(repo string, number int, author, state, body string) error {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return err
	}
	state, ok := reviewStates[strings.ToLower(state)]
	if !ok {
		return fmt.Errorf("review state must be approved, changes_requested, commented or dismissed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != "DISMISSED" {
		v := &review{id: s.newID(), author: who, body: body, state: state, sha: p.headSHA, submitted: s.now()}
		p.reviews = append(p.reviews, v)
		s.emitReview("submitted", p, v, who)
		return nil
	}
	for _, v := range slices.Backward(p.reviews) {
		if v.author == who && v.state != "DISMISSED" {
			v.state = state
			s.emitReview("dismissed", p, v, who)
			return nil
		}
	}
	return fmt.Errorf("review by %s on %s#%d: %w", author, repo, number, ErrUnknown)
}

// emitReview sends a pull_request_review event, in which states are in lower
// case. mu is held.
func (s *Server) emitReview(action string, p *pull, v *review, who *account) {
	o := s.reviewJSON(p, v)
	o["state"], o["body"] = strings.ToLower(v.state), text(v.body)
	s.emit("pull_request_review", action, p.repo, who, object{"review": o, "pull_request": s.pullJSON(p)})
}

// ClosePull closes a pull request without merging it.
func (s *Server) ClosePull(repo string, number int, author string) error {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return err
	}
	closed := "closed"
	return s.editPull(p, who, pullEdit{State: &closed})
}

// MergePull merges a pull request by hand, as an administrator who asks no
// rules, and returns the new tip of its base. method is merge, squash or rebase.
func (s *Server) MergePull(ctx context.Context, repo string, number int, author, method string) (string, error) {
	p, who, err := s.deed(repo, number, author)
	if err != nil {
		return "", err
	}
	return s.merge(ctx, caller{kind: asUser, account: who}, p, mergeAsk{Method: method}, true)
}

// Edit describes a change to a pull request or a comment; nil leaves as it is.
type Edit struct {
	Repo        string   `json:"repo"`
	Number      int      `json:"number"`
	Author      string   `json:"author"`
	Title       *string  `json:"title"`
	Body        *string  `json:"body"`
	Base        *string  `json:"base"`
	Draft       *bool    `json:"draft"`
	State       *string  `json:"state"` // open or closed
	AddLabel    []string `json:"addLabels"`
	RemoveLabel []string `json:"removeLabels"`
	// CommentID and CommentBody change a comment instead of the pull request.
	CommentID   int64  `json:"commentId"`
	CommentBody string `json:"commentBody"`
}

// EditPull changes a pull request: its title, body, base, draft state, state
// and labels.
func (s *Server) EditPull(in Edit) error {
	if in.CommentID != 0 {
		return s.EditComment(in.CommentID, in.Author, in.CommentBody)
	}
	p, who, err := s.deed(in.Repo, in.Number, in.Author)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, name := range in.AddLabel {
		if name != "" {
			s.addLabel(p, who, name)
		}
	}
	for _, name := range in.RemoveLabel {
		s.removeLabelFrom(p, who, name)
	}
	s.mu.Unlock()
	return s.editPull(p, who, pullEdit{Title: in.Title, Body: in.Body, Base: in.Base, State: in.State, Draft: in.Draft})
}

// Report is the result of a check, reported by a CI other than the simulated
// one, or instead of it.
type Report struct {
	Repo string `json:"repo"`
	SHA  string `json:"sha"`
	Name string `json:"name"`
	// Conclusion is success, failure, …; with "pending" the check is in progress.
	Conclusion string `json:"conclusion"`
	Summary    string `json:"summary"`
	// Status reports a commit status instead of a check run: conclusion is
	// then success, failure, error or pending.
	Status bool `json:"status"`
	// App is the id of the App that reports; GitHub Actions when 0.
	App int64 `json:"app"`
	// Author reports a commit status as a person instead.
	Author string `json:"author"`
}

var conclusionPattern = regexp.MustCompile(`^[a-z_]{1,40}$`)

// Report reports a check. One that is running under its name is completed.
func (s *Server) Report(_ context.Context, in Report) error {
	r, err := s.repository(in.Repo)
	if err != nil {
		return err
	}
	k, err := s.resolve(r, in.SHA)
	if err != nil {
		return fmt.Errorf("commit %q: %w", in.SHA, ErrUnknown)
	}
	// GitHub adds conclusions now and then, so a check may have any word.
	if in.Name == "" || in.Status && !slices.Contains(statusStates, in.Conclusion) || !conclusionPattern.MatchString(in.Conclusion) {
		return fmt.Errorf("a report needs a name and a conclusion such as %s; a status has one of %s",
			strings.Join(conclusionOrder, ", "), strings.Join(statusStates, ", "))
	}
	if in.Author != "" && !in.Status {
		return errors.New("people report commit statuses; a check run is an App's")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.reporter(in.App)
	if in.Status {
		t := &status{context: in.Name, state: in.Conclusion, description: in.Summary, creator: by.bot}
		if in.Author != "" {
			t.creator = s.user(in.Author)
		}
		s.addStatus(r, k, t)
		return nil
	}
	state := "completed"
	run := runInput{Name: &in.Name, Status: &state, Conclusion: &in.Conclusion, Output: &checkOutput{Title: &in.Conclusion, Summary: &in.Summary}}
	if in.Conclusion == "pending" {
		state, run.Conclusion = "in_progress", nil
	}
	u := s.suiteFor(r, by, k.SHA, r.branchOf(k.SHA))
	for _, c := range u.latest() {
		if c.name == in.Name && c.status != "completed" {
			s.changeRun(c, by.bot, run)
			return nil
		}
	}
	s.addRun(u, by.bot, run)
	return nil
}

// SetPermission gives somebody a permission on a repository: admin, maintain,
// write, triage, read or none.
func (s *Server) SetPermission(repo, login, permission string) error {
	r, err := s.repository(repo)
	if err != nil {
		return err
	}
	who, err := s.person(login)
	if err != nil {
		return err
	}
	if _, ok := permissionRank[permission]; !ok {
		return fmt.Errorf("permission must be admin, maintain, write, triage, read or none")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.access[strings.ToLower(who.login)] = permission
	return nil
}

// Logged is one commit of a branch.
type Logged struct {
	SHA     string   `json:"sha"`
	Tree    string   `json:"tree"`
	Parents []string `json:"parents"`
	Message string   `json:"message"`
	Author  string   `json:"author"`
	// PR is the pull request that the commit merged, 0 when none is known.
	PR int `json:"pr,omitempty"`
}

var pullInMessage = regexp.MustCompile(`(?m)^(?:Merge pull request #(\d+) |.*\(#(\d+)\)$)`)

// Log lists a branch's commits along first parents, newest first.
func (s *Server) Log(_ context.Context, repo, branch string) ([]Logged, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	tip := r.branch(orElse(branch, r.defaultBranch))
	merged := map[string]int{}
	heads := map[string]int{}
	for _, p := range r.pulls {
		heads[p.headSHA] = p.number
		if p.mergeSHA != "" && p.baseRef == orElse(branch, r.defaultBranch) {
			merged[p.mergeSHA] = p.number
		}
	}
	s.mu.Unlock()
	if tip == "" {
		return nil, fmt.Errorf("branch %q: %w", branch, ErrUnknown)
	}
	commits, err := r.git.firstParents(tip, 1_000_000)
	if err != nil {
		return nil, err
	}
	out := make([]Logged, 0, len(commits))
	for _, c := range commits {
		l := Logged{SHA: c.SHA, Tree: c.Tree, Parents: append([]string{}, c.Parents...), Message: c.Message, Author: c.Author.Name}
		if len(c.Parents) > 1 {
			l.PR = heads[c.Parents[1]]
		}
		l.PR = orElse(l.PR, heads[c.SHA])
		if m := pullInMessage.FindStringSubmatch(c.Message); m != nil && l.PR == 0 {
			l.PR, _ = strconv.Atoi(orElse(m[1], m[2]))
		}
		l.PR = orElse(l.PR, merged[c.SHA])
		out = append(out, l)
	}
	return out, nil
}
