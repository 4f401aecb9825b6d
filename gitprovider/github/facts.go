package github

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// pullJSON is a pull request of GraphQL.
type pullJSON struct {
	Node     string     `json:"id"`
	Number   int        `json:"number"`
	Title    string     `json:"title"`
	URL      string     `json:"url"`
	Body     string     `json:"body"`
	State    string     `json:"state"` // OPEN, CLOSED or MERGED
	Draft    bool       `json:"isDraft"`
	Merged   *time.Time `json:"mergedAt"`
	Updated  time.Time  `json:"updatedAt"`
	Head     string     `json:"headRefOid"`
	HeadRef  string     `json:"headRefName"`
	Base     string     `json:"baseRefName"`
	Cross    bool       `json:"isCrossRepository"`
	Author   *actorJSON `json:"author"`
	HeadRepo *struct {
		ID int64 `json:"databaseId"`
	} `json:"headRepository"`
	Labels struct {
		Nodes []struct {
			Name string `json:"name"`
		} `json:"nodes"`
	} `json:"labels"`
	Mergeable   string `json:"mergeable"` // MERGEABLE, CONFLICTING or UNKNOWN
	MergeState  string `json:"mergeStateStatus"`
	MergeCommit *struct {
		ID string `json:"oid"`
	} `json:"mergeCommit"`
	MergedBy *actorJSON `json:"mergedBy"`
	BaseRef  *struct {
		Rule *struct{} `json:"refUpdateRule"`
	} `json:"baseRef"`
	Comments *connectionJSON[commentedJSON] `json:"comments"`
	reviewedJSON
	reportedJSON
}

// actorJSON is an account of GraphQL.
type actorJSON struct {
	Kind  string `json:"__typename"`
	Login string `json:"login"`
	ID    int64  `json:"databaseId"`
}

// commentedJSON says of a comment whether it is ours.
type commentedJSON struct {
	Ours bool `json:"viewerDidAuthor"`
}

// asREST is the account as REST has it.
func (a *actorJSON) asREST() *github.User {
	login := a.Login
	if a.Kind == "Bot" && !strings.HasSuffix(login, "[bot]") { // which REST adds
		login += "[bot]"
	}
	return &github.User{Login: &login, ID: &a.ID, Type: &a.Kind}
}

// learnPull takes a pull request from an answer; null is one that does not exist.
func (c *Client) learnPull(ctx context.Context, k *conn, repo queue.Repo, n int64, answer map[string]rawJSON, f *facts) error {
	var p *pullJSON
	if err := answer[fmt.Sprint("pr", n)].into(&p); err != nil || p == nil {
		return err
	}
	if int64(p.Number) != n || !validCommit(p.Head) || p.Base == "" || p.Updated.IsZero() || p.Reviews == nil || p.Threads == nil {
		return fmt.Errorf("the host's answer does not describe pull request %d", n)
	}
	f.pulls[n] = p.asREST(repo)
	c.learnComments(pullKey(repo, n), p)
	if p.BaseRef != nil {
		k.learnProtection(at(repo, p.Base), p.BaseRef.Rule == nil, c.cfg.Now())
	}
	f.said[n] = f.said[n].with(&p.reviewedJSON)
	if err := c.moreReviews(ctx, k, repo, n, &p.reviewedJSON, "", "", f.said); err != nil {
		return err
	}
	var err error
	if f.heads[n] = c.pageOfReports(nil, &p.reportedJSON); p.more() {
		f.heads[n], err = c.reported(ctx, k, repo, p.Head) // from its beginning: the place in the list is the commit's
	}
	return err
}

// learnComments notes what GraphQL calls a pull request, and whether we have
// commented on it.
func (c *Client) learnComments(key string, p *pullJSON) {
	if p.Node != "" {
		c.nodes.put(key, p.Node)
	}
	if p.silent() {
		c.silent.put(key, c.cfg.Now())
	} else {
		c.silent.drop(key)
	}
}

// silent reports whether we have certainly not commented on the pull request.
func (p *pullJSON) silent() bool {
	return p.Comments != nil && !p.Comments.Page.More &&
		!slices.ContainsFunc(p.Comments.Nodes, func(m commentedJSON) bool { return m.Ours })
}

// asREST is the pull request as REST has it.
func (p *pullJSON) asREST(repo queue.Repo) *github.PullRequest {
	state := "closed"
	if p.State == "OPEN" {
		state = "open"
	}
	pr := &github.PullRequest{
		Number: &p.Number, NodeID: &p.Node, Title: &p.Title, HTMLURL: &p.URL, Body: &p.Body, State: &state, Draft: &p.Draft,
		UpdatedAt: &github.Timestamp{Time: p.Updated},
		Head:      &github.PullRequestBranch{Ref: &p.HeadRef, SHA: &p.Head},
		Base:      &github.PullRequestBranch{Ref: &p.Base, Repo: &github.Repository{ID: &repo.HostID}},
	}
	if p.HeadRepo != nil && !p.Cross {
		pr.Head.Repo = &github.Repository{ID: &repo.HostID}
	}
	if merged := p.State == "MERGED" || p.Merged != nil; merged {
		pr.Merged = &merged
	}
	if p.Merged != nil {
		pr.MergedAt = &github.Timestamp{Time: *p.Merged}
	}
	if mergeable := p.Mergeable == "MERGEABLE"; mergeable || p.Mergeable == "CONFLICTING" {
		pr.Mergeable = &mergeable
	}
	mergeState := strings.ToLower(p.MergeState)
	pr.MergeableState = &mergeState
	if p.MergeCommit != nil {
		pr.MergeCommitSHA = &p.MergeCommit.ID
	}
	if p.MergedBy != nil {
		pr.MergedBy = p.MergedBy.asREST()
	}
	for _, l := range p.Labels.Nodes {
		pr.Labels = append(pr.Labels, &github.Label{Name: &l.Name})
	}
	if p.Author == nil { // the account was deleted; REST shows the one that stands for all of those
		pr.User = &github.User{Login: github.String("ghost"), ID: github.Int64(10137), Type: github.String("User")}
		return pr
	}
	pr.User = p.Author.asREST()
	return pr
}

// learnBranch takes a branch from an answer; null is one that does not exist.
func (c *Client) learnBranch(k *conn, repo queue.Repo, branch string, answer rawJSON, f *facts) error {
	var ref *struct {
		Rule   *struct{} `json:"refUpdateRule"` // classic protection
		Target *struct {
			Commit string `json:"oid"`
			Tree   struct {
				ID string `json:"oid"`
			} `json:"tree"`
		} `json:"target"`
	}
	if err := answer.into(&ref); err != nil {
		return err
	}
	if ref == nil {
		f.missing = true
		return nil
	}
	if ref.Target == nil || !validCommit(ref.Target.Commit) || !validCommit(ref.Target.Tree.ID) {
		return fmt.Errorf("the host's answer does not describe branch %s", branch)
	}
	f.target, f.tree = ref.Target.Commit, ref.Target.Tree.ID
	f.unprotected = ref.Rule == nil
	k.learnProtection(at(repo, branch), f.unprotected, c.cfg.Now())
	return nil
}

// learnProtection notes whether a branch has no classic protection, of which
// everybody is told who may read it.
func (k *conn) learnProtection(branch string, none bool, now time.Time) {
	if none {
		k.unprotected.put(branch, now)
	} else {
		k.unprotected.drop(branch)
	}
}

// reportedJSON is a commit with what was reported on it. Without any report it has
// no roll-up.
type reportedJSON struct {
	Rollup *struct {
		Contexts connectionJSON[contextJSON] `json:"contexts"`
	} `json:"statusCheckRollup"`
}

// more reports whether a page follows.
func (on *reportedJSON) more() bool { return on.Rollup != nil && on.Rollup.Contexts.Page.More }

// pageOfReports adds a page of reports to a list. Our own App's are left out.
func (c *Client) pageOfReports(list []queue.Report, on *reportedJSON) []queue.Report {
	if on.Rollup == nil {
		return list
	}
	for _, j := range on.Rollup.Contexts.Nodes {
		if r := j.report(); r.Kind == queue.CommitStatus || r.AppID != c.cfg.AppID {
			list = addReport(list, r)
		}
	}
	return list
}

// contextJSON is a check run or a commit status.
type contextJSON struct {
	Kind string `json:"__typename"`

	ID         int64     `json:"databaseId"`
	Name       string    `json:"name"`
	Status     string    `json:"status"`
	Conclusion string    `json:"conclusion"`
	Details    string    `json:"detailsUrl"`
	URL        string    `json:"url"`
	Started    time.Time `json:"startedAt"`
	Completed  time.Time `json:"completedAt"`
	Suite      struct {
		ID  int64 `json:"databaseId"`
		App *struct {
			ID int64 `json:"databaseId"`
		} `json:"app"`
	} `json:"checkSuite"`

	Context string    `json:"context"`
	State   string    `json:"state"`
	Target  string    `json:"targetUrl"`
	Created time.Time `json:"createdAt"`
	Avatar  string    `json:"avatarUrl"`
}

func (j contextJSON) report() queue.Report {
	if j.Kind == "StatusContext" {
		return queue.Report{Kind: queue.CommitStatus, Name: oneLine(j.Context, 512), Result: status(j.State), AppID: account.AppOfPicture(j.Avatar),
			URL: link(j.Target), At: j.Created.UTC()}
	}
	r := queue.Report{Kind: queue.CheckRun, Name: oneLine(j.Name, 512), ID: j.ID, Suite: j.Suite.ID, Status: strings.ToLower(j.Status), Result: strings.ToLower(j.Conclusion),
		URL: cmp.Or(link(j.Details), link(j.URL)), At: j.Started.UTC()}
	if j.Suite.App != nil {
		r.AppID = j.Suite.App.ID
	}
	if !j.Completed.IsZero() {
		r.At = j.Completed.UTC()
	}
	return r
}

// learnReports takes the reports on a commit from an answer, and asks for the
// pages that follow. Of reports that replace each other the newest stays.
func (c *Client) learnReports(ctx context.Context, k *conn, repo queue.Repo, commit string, answer rawJSON) ([]queue.Report, error) {
	var list []queue.Report
	for after := ""; ; {
		var on *reportedJSON
		if err := answer.into(&on); err != nil || on == nil {
			return list, err
		}
		if list = c.pageOfReports(list, on); !on.more() {
			return list, nil
		}
		page := on.Rollup.Contexts.Page
		if page.End == "" || page.End == after {
			return nil, fmt.Errorf("the host's list of reports on %.10s does not go on where it says so", commit)
		}
		after = page.End
		text, vars := question{commit: commit}.ask(repo)
		vars["contexts"] = after
		var out struct {
			Repository map[string]rawJSON `json:"repository"`
		}
		if err := k.query(ctx, text, vars, &out); err != nil {
			return nil, explain(err, "read the reports on %.10s of %s", commit, repo)
		}
		answer = out.Repository["object"]
	}
}

// addReport adds a report, in the place of one that it replaces.
func addReport(list []queue.Report, r queue.Report) []queue.Report {
	i := slices.IndexFunc(list, func(old queue.Report) bool { return old.Key() == r.Key() })
	if i < 0 {
		return append(list, r)
	}
	if r.Newer(list[i]) {
		list[i] = r
	}
	return list
}
