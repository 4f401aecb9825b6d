package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/queue"
)

// PullRequest reads a pull request, see gitprovider.Reader.
func (c *Client) PullRequest(ctx context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return queue.PullRequestSeen{}, err
	}
	_, seen, err := c.pull(ctx, k, repo, number)
	return seen, err
}

// pull reads a pull request and returns it as the host has it, too.
func (c *Client) pull(ctx context.Context, k *conn, repo queue.Repo, number int64) (*github.PullRequest, queue.PullRequestSeen, error) {
	f, err := c.look(ctx, k, repo, question{pulls: []int64{number}})
	if err != nil {
		return nil, queue.PullRequestSeen{}, explain(err, "read pull request %d", number)
	}
	return c.seenOf(repo, f, number)
}

// seen is what was read of a pull request, and whether it was us who merged it.
func (c *Client) seen(pr *github.PullRequest) queue.PullRequestSeen {
	seen := queue.PullRequestSeen{PullRequest: c.pullRequest(pr), Read: true}
	if sha := pr.GetMergeCommitSHA(); seen.Merged && strings.EqualFold(pr.GetMergedBy().GetLogin(), c.cfg.BotLogin) && validCommit(sha) {
		seen.Landed = sha
	}
	return seen
}

// OpenPullRequests lists pull requests into a branch, see gitprovider.Reader.
func (c *Client) OpenPullRequests(ctx context.Context, repo queue.Repo, branch string) ([]queue.PullRequestSeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	var all []queue.PullRequestSeen
	path := at(repo, "pulls") + "?state=open&base=" + url.QueryEscape(branch)
	err = pages(ctx, k, path, func(page []*github.PullRequest) error {
		for _, pr := range page {
			if p := c.pullRequest(pr); p.Number > 0 && validCommit(p.Head) && p.Base != "" && !p.UpdatedAt.IsZero() {
				all = append(all, queue.PullRequestSeen{PullRequest: p})
			}
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "list the open pull requests of %s into %s", repo, branch)
	}
	return all, nil
}

// TestBranches reads the branches of runs, see gitprovider.Reader.
func (c *Client) TestBranches(ctx context.Context, repo queue.Repo) (map[string]string, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	heads := map[string]string{}
	// The host gives this list in one page, whatever is asked.
	var refs []struct {
		Ref    string `json:"ref"`
		Object struct {
			SHA string `json:"sha"`
		} `json:"object"`
	}
	if _, err := k.call(ctx, http.MethodGet, at(repo, "git", "matching-refs", "heads", "signalbox")+"/", nil, &refs); err != nil {
		return nil, explain(err, "list the test branches of %s", repo)
	}
	for _, r := range refs {
		if name, ok := strings.CutPrefix(r.Ref, "refs/heads/"); ok && strings.HasPrefix(name, branchPrefix) && validCommit(r.Object.SHA) {
			heads[name] = r.Object.SHA
		}
	}
	return heads, nil
}

func (c *Client) pullRequest(pr *github.PullRequest) queue.PullRequest {
	p := queue.PullRequest{
		Number:      int64(pr.GetNumber()),
		Title:       oneLine(pr.GetTitle(), 256),
		URL:         link(pr.GetHTMLURL()),
		Author:      actor(pr.GetUser()),
		Head:        pr.GetHead().GetSHA(),
		HeadRef:     oneLine(pr.GetHead().GetRef(), 255),
		Fork:        pr.GetHead().GetRepo() == nil || pr.GetHead().GetRepo().GetID() != pr.GetBase().GetRepo().GetID(),
		Base:        pr.GetBase().GetRef(),
		Draft:       pr.GetDraft(),
		Open:        pr.GetState() == "open",
		Merged:      pr.GetMerged() || pr.MergedAt != nil,
		CommitTitle: c.cfg.CommitTitle(pr.GetBody()),
		UpdatedAt:   pr.GetUpdatedAt().UTC(),
	}
	for _, l := range pr.Labels {
		if name := oneLine(l.GetName(), 100); name != "" && len(p.Labels) < 100 {
			p.Labels = append(p.Labels, name)
		}
	}
	return p
}

func actor(u *github.User) queue.Actor {
	return queue.Actor{Login: oneLine(u.GetLogin(), 256), ID: u.GetID(), Bot: u.GetType() == "Bot"}
}

// link is a web address, "" for anything else: it becomes a link on pages.
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > 1024 || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

// oneLine makes text from outside fit for storage: valid, one line, at most
// that many characters. Bounds are those that webhooks are cut to, so that
// what was read and what was heard compare equal.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text
}

var commitID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

func validCommit(id string) bool { return commitID.MatchString(id) }

// commitTitle is the text of the first line of a description that begins with
// "merge-commit-title:".
func commitTitle(body string) string {
	const key = "merge-commit-title:"
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if len(line) >= len(key) && strings.EqualFold(line[:len(key)], key) {
			return oneLine(line[len(key):], 256)
		}
	}
	return ""
}

// Target reads the head of a branch, see gitprovider.Reader.
func (c *Client) Target(ctx context.Context, repo queue.Repo, branch string) (commit, tree string, err error) {
	k, err := c.conn(repo)
	if err != nil {
		return "", "", err
	}
	return c.target(ctx, k, repo, branch)
}

func (c *Client) target(ctx context.Context, k *conn, repo queue.Repo, branch string) (commit, tree string, err error) {
	var out github.Branch
	if _, err := k.call(ctx, http.MethodGet, at(repo, "branches", branch), nil, &out); err != nil {
		return "", "", explain(err, "read branch %s of %s", branch, repo)
	}
	commit, tree = out.GetCommit().GetSHA(), out.GetCommit().GetCommit().GetTree().GetSHA()
	if !validCommit(commit) || !validCommit(tree) || out.GetName() != branch {
		return "", "", fmt.Errorf("read branch %s of %s: the host's answer does not describe it", branch, repo)
	}
	return commit, tree, nil
}

// Checks reads every report on a commit but our own App's, see
// gitprovider.Reader. Of reports that replace each other only the newest is
// returned.
func (c *Client) Checks(ctx context.Context, repo queue.Repo, commit string) ([]queue.Report, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	return c.checks(ctx, k, repo, commit)
}

func (c *Client) checks(ctx context.Context, k *conn, repo queue.Repo, commit string) ([]queue.Report, error) {
	newest := map[string]queue.Report{}
	var order []string
	add := func(r queue.Report) {
		old, known := newest[r.Key()]
		if !known {
			order = append(order, r.Key())
		}
		if !known || r.Newer(old) {
			newest[r.Key()] = r
		}
	}
	err := pages(ctx, k, at(repo, "commits", commit, "check-runs")+"?filter=latest", func(page struct {
		Total *int               `json:"total_count"`
		Runs  []*github.CheckRun `json:"check_runs"`
	}) error {
		if page.Total == nil {
			return errors.New("the host's answer has no check runs in it")
		}
		for _, run := range page.Runs {
			if run.GetApp().GetID() != c.cfg.AppID {
				add(runReport(run))
			}
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "read check runs of %.10s of %s", commit, repo)
	}
	// The combined status has the newest of each context.
	err = pages(ctx, k, at(repo, "commits", commit, "status"), func(page struct {
		State    *string `json:"state"`
		Statuses []struct {
			github.RepoStatus
			AvatarURL string `json:"avatar_url"` // the library leaves it out
		} `json:"statuses"`
	}) error {
		if page.State == nil {
			return errors.New("the host's answer has no statuses in it")
		}
		for _, s := range page.Statuses {
			add(queue.Report{
				Kind: queue.CommitStatus, Name: oneLine(s.GetContext(), 512), ID: s.GetID(), Result: status(s.GetState()),
				AppID: account.AppOfPicture(s.AvatarURL), URL: link(s.GetTargetURL()), At: s.GetUpdatedAt().UTC(),
			})
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, "read statuses of %.10s of %s", commit, repo)
	}
	reports := make([]queue.Report, len(order))
	for i, key := range order {
		reports[i] = newest[key]
	}
	return reports, nil
}

// status is the result that the state of a commit status stands for; pending
// is none yet.
func status(state string) string {
	state = strings.ToLower(state)
	if state == "pending" {
		return ""
	}
	return state
}

func runReport(run *github.CheckRun) queue.Report {
	r := queue.Report{
		Kind: queue.CheckRun, Name: oneLine(run.GetName(), 512), AppID: run.GetApp().GetID(), Suite: run.GetCheckSuite().GetID(), ID: run.GetID(),
		Status: strings.ToLower(run.GetStatus()), Result: strings.ToLower(run.GetConclusion()),
		URL: link(run.GetDetailsURL()), At: run.GetStartedAt().UTC(),
	}
	if r.URL == "" {
		r.URL = link(run.GetHTMLURL())
	}
	if done := run.GetCompletedAt(); !done.IsZero() {
		r.At = done.UTC()
	}
	return r
}

// Permission reads what a person may do, see gitprovider.Reader. The host is
// asked by login and answers with the id of whoever has that login now.
func (c *Client) Permission(ctx context.Context, repo queue.Repo, who queue.Actor) (gitprovider.Permission, error) {
	k, err := c.conn(repo)
	if err != nil {
		return gitprovider.NoPermission, err
	}
	if who.Login == "" {
		return gitprovider.NoPermission, nil
	}
	var out struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
		User       *struct {
			ID int64 `json:"id"`
		} `json:"user"`
	}
	_, err = k.call(ctx, http.MethodGet, at(repo, "collaborators", who.Login, "permission"), nil, &out)
	if statusOf(err) == http.StatusNotFound {
		return gitprovider.NoPermission, nil // nobody has that login
	}
	if err != nil {
		return gitprovider.NoPermission, explain(err, "read what @%s may do on %s", who.Login, repo)
	}
	if who.ID != 0 && (out.User == nil || out.User.ID != who.ID) {
		return gitprovider.NoPermission, nil
	}
	switch strings.ToLower(out.Permission) {
	case "admin":
		return gitprovider.AdminPermission, nil
	case "write", "maintain":
		return gitprovider.WritePermission, nil
	case "read", "triage":
		return gitprovider.ReadPermission, nil
	default:
		return gitprovider.NoPermission, nil
	}
}
