package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/queue"
)

// question is what one look at the host is about. Each part may be left out.
type question struct {
	pulls  []int64 // pull requests, with what people said about each
	branch string  // where it stands
	commit string  // what was reported on it
}

// facts is what the host says about a question, all of it read now.
type facts struct {
	pulls map[int64]*github.PullRequest // those that exist
	said  map[int64]reviewed
	heads map[int64][]queue.Report // what was reported on the head of each, as reports
	// missing: there is no such branch. unprotected: it has no classic protection.
	missing, unprotected bool
	target, tree         string
	reports              []queue.Report // without our own App's; those of statuses have no ID
}

// pullsTogether is how many pull requests one query is about. Each may give
// 500 nodes; the host refuses queries that could give half a million.
const pullsTogether = 25

// look asks the host a question: one query where REST takes a call for each pull
// request, its reviews, each reviewer's rights, the branch, its protection, the check
// runs and the statuses, and has no word for conversations and code owners. What
// does not fit on the first page of a list takes more. Of a branch and a commit it
// hears after all pull requests.
func (c *Client) look(ctx context.Context, k *conn, repo queue.Repo, q question) (facts, error) {
	f := facts{pulls: map[int64]*github.PullRequest{}, said: map[int64]reviewed{}, heads: map[int64][]queue.Report{}}
	for len(q.pulls) > pullsTogether {
		if err := c.lookOnce(ctx, k, repo, question{pulls: q.pulls[:pullsTogether]}, &f); err != nil {
			return f, err
		}
		q.pulls = q.pulls[pullsTogether:]
	}
	return f, c.lookOnce(ctx, k, repo, q, &f)
}

const pullFields = `
fragment pull on PullRequest {
  id number title url body state isDraft mergedAt updatedAt headRefOid headRefName baseRefName isCrossRepository
  author { __typename login ... on User { databaseId } ... on Bot { databaseId } ... on Mannequin { databaseId } }
  headRepository { databaseId }
  labels(first: 100) { nodes { name } }
  mergeable mergeStateStatus mergeCommit { oid }
  mergedBy { __typename login }
  comments(first: 100) { nodes { viewerDidAuthor } pageInfo { hasNextPage } }
  statusCheckRollup { ...reports }
  baseRef { refUpdateRule { pattern } }
}`

const reportFields = `
fragment reports on StatusCheckRollup {
  contexts(first: 100, after: $contexts) {
    nodes {
      __typename
      ... on CheckRun { databaseId name status conclusion detailsUrl url startedAt completedAt checkSuite { databaseId app { databaseId } } }
      ... on StatusContext { context state targetUrl createdAt avatarUrl }
    }
    pageInfo { hasNextPage endCursor }
  }
}`

// ask is the text of the query and the values in it.
func (q question) ask(repo queue.Repo) (string, map[string]any) {
	vars := map[string]any{"owner": repo.Owner, "name": repo.Name}
	head := "$owner: String!, $name: String!"
	var parts, fragments string
	if len(q.pulls) > 0 {
		head += ", $reviews: String, $threads: String, $contexts: String"
		fragments += pullFields + reviewedFields
		for _, n := range q.pulls {
			parts += fmt.Sprintf("    pr%d: pullRequest(number: %d) { ...pull ...reviewed }\n", n, n)
		}
	}
	if q.branch != "" {
		head += ", $ref: String!"
		vars["ref"] = "refs/heads/" + q.branch
		parts += "    ref(qualifiedName: $ref) { refUpdateRule { pattern } target { oid ... on Commit { tree { oid } } } }\n"
	}
	if q.commit != "" {
		head += ", $commit: GitObjectID!"
		if len(q.pulls) == 0 {
			head += ", $contexts: String"
		}
		vars["commit"] = q.commit
		parts += "    object(oid: $commit) { ... on Commit { statusCheckRollup { ...reports } } }\n"
	}
	if len(q.pulls) > 0 || q.commit != "" {
		fragments += reportFields
	}
	return fmt.Sprintf("query(%s) {\n  repository(owner: $owner, name: $name) {\n    id\n%s  }\n}%s", head, parts, fragments), vars
}

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
	Comments *connectionJSON[struct {
		Ours bool `json:"viewerDidAuthor"`
	}] `json:"comments"`
	reviewedJSON
	reportedJSON
}

// actorJSON is an account of GraphQL.
type actorJSON struct {
	Kind  string `json:"__typename"`
	Login string `json:"login"`
	ID    int64  `json:"databaseId"`
}

// asREST is the account as REST has it.
func (a *actorJSON) asREST() *github.User {
	login := a.Login
	if a.Kind == "Bot" && !strings.HasSuffix(login, "[bot]") { // which REST adds
		login += "[bot]"
	}
	return &github.User{Login: &login, ID: &a.ID, Type: &a.Kind}
}

// lookOnce asks one query, and for what follows its pages.
func (c *Client) lookOnce(ctx context.Context, k *conn, repo queue.Repo, q question, f *facts) error {
	doing := fmt.Sprintf("look at %s", repo)
	text, vars := q.ask(repo)
	var out struct {
		Repository map[string]rawJSON `json:"repository"`
	}
	problems, err := k.ask(ctx, text, vars, &out)
	if err != nil {
		return explain(err, "%s", doing)
	}
	for _, e := range problems {
		if gone := e.Type == "NOT_FOUND" && len(e.Path) == 2 && strings.HasPrefix(fmt.Sprint(e.Path[1]), "pr"); !gone {
			return explain(e.asError("contents: read, pull_requests: read, checks: read and statuses: read"), "%s", doing)
		}
	}
	if out.Repository == nil {
		return fmt.Errorf("%s: the host's answer does not describe it", doing)
	}
	var node string
	if err := out.Repository["id"].into(&node); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	c.nodes.put(repoKey(repo), node)
	for _, n := range q.pulls {
		if err := c.learnPull(ctx, k, repo, n, out.Repository, f); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if q.branch != "" {
		if err := c.learnBranch(k, repo, q.branch, out.Repository["ref"], f); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if q.commit != "" {
		f.reports, err = c.learnReports(ctx, k, repo, q.commit, out.Repository["object"])
	}
	return err
}

// rawJSON is a part of an answer that is not decoded yet; nil is one that is not there.
type rawJSON json.RawMessage

// UnmarshalJSON keeps it.
func (r *rawJSON) UnmarshalJSON(text []byte) error { return (*json.RawMessage)(r).UnmarshalJSON(text) }

// into decodes it. What was asked for and is not there is an error; null is an answer.
func (r rawJSON) into(out any) error {
	if len(r) == 0 {
		return errors.New("the host's answer lacks a part")
	}
	return json.Unmarshal(r, out)
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
	if p.Comments == nil || p.Comments.Page.More {
		c.silent.drop(key)
		return
	}
	for _, m := range p.Comments.Nodes {
		if m.Ours {
			c.silent.drop(key)
			return
		}
	}
	c.silent.put(key, c.cfg.Now())
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

// reported reads the reports on a commit, to be judged at once: see facts.
func (c *Client) reported(ctx context.Context, k *conn, repo queue.Repo, commit string) ([]queue.Report, error) {
	f, err := c.look(ctx, k, repo, question{commit: commit})
	return f.reports, err
}

// seenOf is what was read of a pull request; Gone if it does not exist.
func (c *Client) seenOf(repo queue.Repo, f facts, number int64) (*github.PullRequest, queue.PullRequestSeen, error) {
	pr := f.pulls[number]
	if pr == nil {
		return nil, queue.PullRequestSeen{}, &gitprovider.Error{Kind: gitprovider.Gone, Message: fmt.Sprintf("pull request %d of %s does not exist", number, repo)}
	}
	return pr, c.seen(pr), nil
}
