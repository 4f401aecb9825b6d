package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

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
