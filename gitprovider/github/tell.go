package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Bounds of the host on what people read.
const (
	maxComment = 65000
	maxSummary = 65000
)

// Tell writes the sticky comment and the status checks, see gitprovider.Teller. What
// there is already is looked for where we do not know it; then one call writes all.
// What is gone by then is looked for once more.
//
// A check run that is completed is not opened again: a new one of the same name takes
// its place.
func (c *Client) Tell(ctx context.Context, repo queue.Repo, number int64, t gitprovider.Telling) gitprovider.Told {
	told := gitprovider.Told{Statuses: make([]error, len(t.Statuses))}
	k, err := c.conn(repo)
	if err != nil {
		told.Comment = err
		for i := range told.Statuses {
			told.Statuses[i] = err
		}
		return told
	}
	w := writing{c: c, k: k, repo: repo, number: number}
	var parts, checks []*written
	var sticky *written
	if t.Comment != nil {
		sticky = w.sticky(*t.Comment, &told.CommentID)
		parts = append(parts, sticky)
	}
	for _, s := range t.Statuses {
		checks = append(checks, w.status(s))
	}
	w.write(last(ctx), append(parts, checks...))
	if sticky != nil {
		told.Comment = sticky.err
	}
	for i, p := range checks {
		told.Statuses[i] = p.err
	}
	return told
}

// writing is what is told on one pull request.
type writing struct {
	c      *Client
	k      *conn
	repo   queue.Repo
	number int64
}

// written is one thing that is told.
type written struct {
	doing string // for people
	// prepare finds out how it is to be written: changed or made.
	prepare func(context.Context) (*change, error)
	// wrote takes note that it was; forget, that nobody knows what there is now.
	wrote  func() error
	forget func()

	change *change
	err    error // what became of it
}

// write writes parts. One that was to be changed and is gone is prepared again.
func (w writing) write(ctx context.Context, parts []*written) {
	for try := 1; len(parts) > 0; try++ {
		var ready []*change
		for _, p := range parts {
			if p.change, p.err = p.prepare(ctx); p.err == nil {
				ready = append(ready, p.change)
			}
		}
		if len(ready) > 0 {
			w.k.mutate(ctx, ready...)
		}
		var again []*written
		for _, p := range parts {
			if p.err == nil {
				p.err = p.outcome()
			}
			if p.err == nil {
				continue
			}
			p.forget()
			if p.change != nil && !p.change.creates && gitprovider.KindOf(p.err) == gitprovider.Gone && try == 1 {
				again = append(again, p)
			}
			p.err = explain(p.err, "%s of %s", p.doing, w.repo)
		}
		parts = again
	}
}

func (p *written) outcome() error {
	if p.change.err != nil {
		return p.change.err
	}
	return p.wrote()
}

// commentJSON is a comment as GraphQL names it.
type commentJSON struct {
	Node string          `json:"id"`
	ID   json.RawMessage `json:"fullDatabaseId"` // a number, as text
}

// sticky is the sticky comment; id becomes what REST and webhooks call it.
func (w writing) sticky(s gitprovider.Sticky, id *int64) *written {
	pull := pullKey(w.repo, w.number)
	body := withMarker(s.Marker, s.Body)
	var out struct {
		Comment commentJSON                `json:"issueComment"`
		Edge    struct{ Node commentJSON } `json:"commentEdge"`
	}
	p := &written{doing: fmt.Sprintf("write the comment on pull request %d", w.number)}
	*id = s.ID
	p.prepare = func(ctx context.Context) (*change, error) {
		node, err := w.findSticky(ctx, s.Marker, id)
		if err != nil {
			return nil, err
		}
		if node != "" {
			return &change{field: "updateIssueComment", in: "UpdateIssueCommentInput", input: map[string]any{"id": node, "body": body},
				give: "issueComment { id }", need: "issues: write", out: &out}, nil
		}
		subject, err := w.node(ctx, pull)
		if err != nil {
			return nil, err
		}
		return &change{field: "addComment", in: "AddCommentInput", input: map[string]any{"subjectId": subject, "body": body},
			give: "commentEdge { node { id fullDatabaseId } }", need: "issues: write", creates: true, out: &out}, nil
	}
	p.wrote = func() (err error) {
		if p.change.creates {
			w.c.silent.drop(pull)
			if *id, err = strconv.ParseInt(strings.Trim(string(out.Edge.Node.ID), `"`), 10, 64); err != nil || out.Edge.Node.Node == "" {
				return errors.New("the host's answer does not describe the comment")
			}
			w.c.nodes.put(commentKey(w.repo, *id), out.Edge.Node.Node)
		}
		return nil
	}
	p.forget = func() {
		w.c.silent.drop(pull)
		w.c.nodes.drop(pull)
		w.c.nodes.drop(commentKey(w.repo, *id))
		*id = 0
	}
	return p
}

// findSticky finds the sticky comment, "" if there is none. One that we have not
// written before is looked for, unless the pull request has just been seen without
// any comment.
func (w writing) findSticky(ctx context.Context, marker string, id *int64) (node string, err error) {
	if *id != 0 {
		if node, known := w.c.nodes.get(commentKey(w.repo, *id)); known {
			return node, nil
		}
	} else if seen, ok := w.c.silent.get(pullKey(w.repo, w.number)); ok && w.c.cfg.Now().Sub(seen) < silentFor {
		return "", nil
	}
	*id, node, err = w.c.findComment(ctx, w.k, w.repo, w.number, marker)
	if err == nil && *id != 0 {
		w.c.nodes.put(commentKey(w.repo, *id), node)
	}
	return node, err
}

// silentFor is for how long a pull request that was read without a comment of ours is
// believed to have none. Whoever else tells people on it has the turn and stores what
// he made before we come; he would have to die in between, and who takes over his
// work comes later than this.
const silentFor = time.Minute

// The keys of what has a node: GraphQL knows everything by that alone.
func repoKey(repo queue.Repo) string { return fmt.Sprint("repository ", repo.HostID) }
func pullKey(repo queue.Repo, number int64) string {
	return fmt.Sprint("pull ", repo.HostID, " ", number)
}
func commentKey(repo queue.Repo, id int64) string {
	return fmt.Sprint("comment ", repo.HostID, " ", id)
}

// node is the id that GraphQL knows the pull request or its repository by. Whoever
// reads a pull request learns both, see Client.look.
func (w writing) node(ctx context.Context, key string) (string, error) {
	if node, known := w.c.nodes.get(key); known {
		return node, nil
	}
	if _, _, err := w.c.pull(ctx, w.k, w.repo, w.number); err != nil {
		return "", err
	}
	if node, known := w.c.nodes.get(key); known {
		return node, nil
	}
	return "", fmt.Errorf("the host's answer about pull request %d of %s has no node ids", w.number, w.repo)
}

// status is our check run of a name on a commit.
func (w writing) status(s gitprovider.Status) *written {
	key := fmt.Sprint(w.repo.HostID, " ", s.Commit, " ", s.Name)
	var out struct {
		Run struct {
			Node string `json:"id"`
		} `json:"checkRun"`
	}
	p := &written{doing: fmt.Sprintf("write the check %q on %.10s", s.Name, s.Commit)}
	looked := s.New
	p.prepare = func(ctx context.Context) (*change, error) {
		run, known := w.c.ownRun.get(key)
		if !known && !looked {
			var err error
			if run, err = w.c.findRun(ctx, w.k, w.repo, s); err != nil {
				return nil, err
			}
		}
		repository, err := w.node(ctx, repoKey(w.repo))
		if err != nil {
			return nil, err
		}
		ch := &change{field: "updateCheckRun", in: "UpdateCheckRunInput", input: statusInput(s, w.c.cfg.Now().UTC()), give: "checkRun { id }", need: "checks: write", out: &out}
		ch.input["repositoryId"], ch.input["checkRunId"] = repository, run
		if run == "" {
			ch.field, ch.in, ch.creates = "createCheckRun", "CreateCheckRunInput", true
			delete(ch.input, "checkRunId")
			ch.input["headSha"] = s.Commit
		}
		return ch, nil
	}
	p.wrote = func() error {
		// One that is completed is looked for again, because what is to be done
		// depends on how it is.
		if s.Status == "completed" || out.Run.Node == "" {
			w.c.ownRun.drop(key)
		} else {
			w.c.ownRun.put(key, out.Run.Node)
		}
		return nil
	}
	p.forget = func() {
		looked = false
		w.c.ownRun.drop(key)
		w.c.nodes.drop(repoKey(w.repo))
	}
	return p
}

// Notice adds a comment once, see gitprovider.Teller.
func (c *Client) Notice(ctx context.Context, repo queue.Repo, number int64, marker, body string) error {
	ctx = last(ctx)
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	there, _, err := c.findComment(ctx, k, repo, number, marker)
	if err != nil || there != 0 {
		return err
	}
	c.silent.drop(pullKey(repo, number))
	if _, err := k.call(ctx, http.MethodPost, at(repo, "issues", number, "comments"), map[string]string{"body": withMarker(marker, body)}, nil); err != nil {
		return explain(err, "comment on pull request %d of %s", number, repo)
	}
	return nil
}

// withMarker makes sure that a body carries its marker, in an HTML comment,
// also when it has to be cut.
func withMarker(marker, body string) string {
	body = cut(body, maxComment)
	hidden := marker
	if !strings.HasPrefix(marker, "<!--") {
		hidden = "<!-- " + marker + " -->"
	}
	if !strings.Contains(body, marker) {
		body += "\n\n" + hidden
	}
	return body
}

// cut makes of a text what the host takes: valid, without zeros, and after most bytes
// an ellipsis.
func cut(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// findComment looks for a comment of our own that carries a marker, on all
// pages, with the id that GraphQL knows it by; 0 = none. Of several the oldest.
// Comments of others do not count, whatever they quote.
func (c *Client) findComment(ctx context.Context, k *conn, repo queue.Repo, number int64, marker string) (id int64, node string, err error) {
	type comment struct {
		ID   int64        `json:"id"`
		Node string       `json:"node_id"`
		Body string       `json:"body"`
		User *github.User `json:"user"`
		Via  *github.App  `json:"performed_via_github_app"`
	}
	err = pages(ctx, k, at(repo, "issues", number, "comments"), func(page []comment) error {
		for _, m := range page {
			ours := m.Via.GetID() == c.cfg.AppID || m.User.GetType() == "Bot" && strings.EqualFold(m.User.GetLogin(), c.cfg.BotLogin)
			if ours && strings.Contains(m.Body, marker) && (id == 0 || m.ID < id) {
				id, node = m.ID, m.Node
			}
		}
		return nil
	})
	if err != nil {
		return 0, "", explain(err, "read the comments of pull request %d of %s", number, repo)
	}
	return id, node, nil
}

// React puts a reaction on a comment, see gitprovider.Teller.
func (c *Client) React(ctx context.Context, repo queue.Repo, comment int64, reaction string) error {
	ctx = last(ctx)
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	_, err = k.call(ctx, http.MethodPost, at(repo, "issues", "comments", comment, "reactions"), map[string]string{"content": reaction}, nil)
	if err != nil {
		return explain(err, "react to comment %d of %s", comment, repo)
	}
	return nil
}

// findRun looks for our newest check run of a name on a commit and returns the id
// that GraphQL knows it by; "" = none that can become what is wanted.
func (c *Client) findRun(ctx context.Context, k *conn, repo queue.Repo, s gitprovider.Status) (node string, err error) {
	id, done := int64(0), false
	query := fmt.Sprintf("?filter=latest&app_id=%d&check_name=%s", c.cfg.AppID, url.QueryEscape(s.Name))
	err = pages(ctx, k, at(repo, "commits", s.Commit, "check-runs")+query, func(page github.ListCheckRunsResults) error {
		for _, run := range page.CheckRuns {
			if run.GetApp().GetID() == c.cfg.AppID && run.GetName() == s.Name && run.GetID() > id {
				id, node, done = run.GetID(), run.GetNodeID(), run.GetStatus() == "completed"
			}
		}
		return nil
	})
	if err != nil {
		return "", explain(err, "look for check run %q on %.10s of %s", s.Name, s.Commit, repo)
	}
	if done && s.Status != "completed" {
		return "", nil
	}
	return node, nil
}

// statusInput is a check run as GraphQL takes it.
func statusInput(s gitprovider.Status, now time.Time) map[string]any {
	body := map[string]any{"name": s.Name, "status": strings.ToUpper(s.Status)}
	if s.Status == "completed" {
		body["conclusion"] = strings.ToUpper(s.Conclusion)
		body["completedAt"] = now.Format(time.RFC3339)
	}
	if s.Title != "" || s.Summary != "" {
		title := cut(s.Title, 250)
		if title == "" {
			title = s.Name
		}
		body["output"] = map[string]string{"title": title, "summary": cut(s.Summary, maxSummary)}
	}
	if strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://") {
		body["detailsUrl"] = s.URL
	}
	return body
}
