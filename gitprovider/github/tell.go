package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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

// Comment keeps the one comment with a marker, see gitprovider.Teller.
func (c *Client) Comment(ctx context.Context, repo queue.Repo, number int64, known int64, marker, body string) (int64, error) {
	ctx = last(ctx)
	k, err := c.conn(repo)
	if err != nil {
		return 0, err
	}
	body = withMarker(marker, body)
	if known == 0 {
		if known, err = c.findComment(ctx, k, repo, number, marker); err != nil {
			return 0, err
		}
	}
	if known != 0 {
		_, err := k.call(ctx, http.MethodPatch, at(repo, "issues", "comments", known), map[string]string{"body": body}, nil)
		if err == nil {
			return known, nil
		}
		if status := statusOf(err); status != http.StatusNotFound && status != http.StatusGone {
			return 0, explain(err, "edit the comment on pull request %d of %s", number, repo)
		}
		// Somebody deleted it, or it is not where we remember it.
		if known, err = c.findComment(ctx, k, repo, number, marker); err != nil {
			return 0, err
		}
		if known != 0 {
			return c.Comment(ctx, repo, number, 0, marker, body)
		}
	}
	return c.addComment(ctx, k, repo, number, body)
}

// Notice adds a comment once, see gitprovider.Teller.
func (c *Client) Notice(ctx context.Context, repo queue.Repo, number int64, marker, body string) error {
	ctx = last(ctx)
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	there, err := c.findComment(ctx, k, repo, number, marker)
	if err != nil || there != 0 {
		return err
	}
	_, err = c.addComment(ctx, k, repo, number, withMarker(marker, body))
	return err
}

// withMarker makes sure that a body carries its marker, in an HTML comment,
// also when it has to be cut.
func withMarker(marker, body string) string {
	body = strings.ReplaceAll(strings.ToValidUTF8(body, "�"), "\x00", "")
	hidden := marker
	if !strings.HasPrefix(marker, "<!--") {
		hidden = "<!-- " + marker + " -->"
	}
	if len(body) > maxComment {
		body = strings.ToValidUTF8(body[:maxComment], "") + "…"
	}
	if !strings.Contains(body, marker) {
		body += "\n\n" + hidden
	}
	return body
}

func (c *Client) addComment(ctx context.Context, k *conn, repo queue.Repo, number int64, body string) (int64, error) {
	var out github.IssueComment
	if _, err := k.call(ctx, http.MethodPost, at(repo, "issues", number, "comments"), map[string]string{"body": body}, &out); err != nil {
		return 0, explain(err, "comment on pull request %d of %s", number, repo)
	}
	if out.GetID() == 0 {
		return 0, fmt.Errorf("comment on pull request %d of %s: the host's answer does not describe the comment", number, repo)
	}
	return out.GetID(), nil
}

// findComment looks for a comment of our own that carries a marker, on all
// pages; 0 = none. Of several the oldest. Comments of others do not count,
// whatever they quote.
func (c *Client) findComment(ctx context.Context, k *conn, repo queue.Repo, number int64, marker string) (id int64, err error) {
	type comment struct {
		ID   int64        `json:"id"`
		Body string       `json:"body"`
		User *github.User `json:"user"`
		Via  *github.App  `json:"performed_via_github_app"`
	}
	err = pages(ctx, k, at(repo, "issues", number, "comments"), func(page []comment) error {
		for _, m := range page {
			ours := m.Via.GetID() == c.cfg.AppID || m.User.GetType() == "Bot" && strings.EqualFold(m.User.GetLogin(), c.cfg.BotLogin)
			if ours && strings.Contains(m.Body, marker) && (id == 0 || m.ID < id) {
				id = m.ID
			}
		}
		return nil
	})
	if err != nil {
		return 0, explain(err, "read the comments of pull request %d of %s", number, repo)
	}
	return id, nil
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

// Status keeps the App's check run of a name on a commit, see
// gitprovider.Teller. A check run that is completed is not opened again: a
// new one of the same name takes its place.
func (c *Client) Status(ctx context.Context, repo queue.Repo, s gitprovider.Status) error {
	ctx = last(ctx)
	k, err := c.conn(repo)
	if err != nil {
		return err
	}
	return c.status(ctx, k, repo, s)
}

func (c *Client) status(ctx context.Context, k *conn, repo queue.Repo, s gitprovider.Status) error {
	key := fmt.Sprint(repo.HostID, " ", s.Commit, " ", s.Name)
	id, known := c.ownRun.get(key)
	if !known && !s.New {
		var err error
		if id, err = c.findRun(ctx, k, repo, s); err != nil {
			return err
		}
	}
	body := statusBody(s, c.cfg.Now().UTC())
	if id != 0 {
		_, err := k.call(ctx, http.MethodPatch, at(repo, "check-runs", id), body, nil)
		if err == nil {
			c.remember(key, id, s)
			return nil
		}
		c.ownRun.drop(key)
		if statusOf(err) != http.StatusNotFound {
			return explain(err, "update check run %q on %.10s of %s", s.Name, s.Commit, repo)
		}
	}
	body["head_sha"] = s.Commit
	var out github.CheckRun
	if _, err := k.call(ctx, http.MethodPost, at(repo, "check-runs"), body, &out); err != nil {
		return explain(err, "make check run %q on %.10s of %s", s.Name, s.Commit, repo)
	}
	c.remember(key, out.GetID(), s)
	return nil
}

// remember keeps the id of a check run that can still be updated. Others are
// looked for again, because what is to be done depends on how they are.
func (c *Client) remember(key string, id int64, s gitprovider.Status) {
	if id == 0 || s.Status == "completed" {
		c.ownRun.drop(key)
		return
	}
	c.ownRun.put(key, id)
}

// findRun looks for our newest check run of a name on a commit; 0 = none that
// can become what is wanted.
func (c *Client) findRun(ctx context.Context, k *conn, repo queue.Repo, s gitprovider.Status) (id int64, err error) {
	done := false
	query := fmt.Sprintf("?filter=latest&app_id=%d&check_name=%s", c.cfg.AppID, url.QueryEscape(s.Name))
	err = pages(ctx, k, at(repo, "commits", s.Commit, "check-runs")+query, func(page github.ListCheckRunsResults) error {
		for _, run := range page.CheckRuns {
			if run.GetApp().GetID() == c.cfg.AppID && run.GetName() == s.Name && run.GetID() > id {
				id, done = run.GetID(), run.GetStatus() == "completed"
			}
		}
		return nil
	})
	if err != nil {
		return 0, explain(err, "look for check run %q on %.10s of %s", s.Name, s.Commit, repo)
	}
	if done && s.Status != "completed" {
		return 0, nil
	}
	return id, nil
}

func statusBody(s gitprovider.Status, now time.Time) map[string]any {
	cut := func(text string, most int) string {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "")
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "…"
		}
		return text
	}
	body := map[string]any{"name": s.Name, "status": s.Status}
	if s.Status == "completed" {
		body["conclusion"] = s.Conclusion
		body["completed_at"] = now.Format(time.RFC3339)
	}
	if s.Title != "" || s.Summary != "" {
		title := cut(s.Title, 250)
		if title == "" {
			title = s.Name
		}
		body["output"] = map[string]string{"title": title, "summary": cut(s.Summary, maxSummary)}
	}
	if strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://") {
		body["details_url"] = s.URL
	}
	return body
}
