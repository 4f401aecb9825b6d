package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// graphQLPath is where queries go, seen from the REST API: beside its version
// on an Enterprise Server (/api/v3, /api/graphql), under it on github.com.
func (c *Client) graphQLPath() string {
	if c.enterpriseServer() {
		return "../graphql"
	}
	return "graphql"
}

// isGraphQL reports whether a call is one of GraphQL. All of them are a POST.
func isGraphQL(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/graphql") }

type changesKey struct{}

// changesOf is how many things a call of GraphQL creates, if it is one that changes
// anything.
func changesOf(ctx context.Context) (creates int, changes bool) {
	creates, changes = ctx.Value(changesKey{}).(int)
	return creates, changes
}

// graphQLError is an error about one part of an answer, or about all of it when it
// has no path. See "Errors" in the specification of GraphQL; the type is GitHub's own.
type graphQLError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Path    []any  `json:"path"` // names and positions
}

// asError gives it its kind. need is the permission that the App may lack.
func (e graphQLError) asError(need string) error {
	said := errors.New(oneLine(e.Message, 300))
	switch e.Type {
	case "NOT_FOUND":
		return &gitprovider.Error{Kind: gitprovider.Gone, Message: "the host does not find it", Err: said}
	case "FORBIDDEN", "INSUFFICIENT_SCOPES":
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: "the App may not; it needs the permission " + need, Err: said}
	case "UNPROCESSABLE":
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: "the host refuses", Err: said}
	default:
		return fmt.Errorf("the host's answer: %w", said)
	}
}

// ask asks a query of GraphQL and decodes what it gives into out. What could not be
// answered is null there and has an error.
func (k *conn) ask(ctx context.Context, text string, vars map[string]any, out any) ([]graphQLError, error) {
	answer := struct {
		Data   any            `json:"data"`
		Errors []graphQLError `json:"errors"`
	}{Data: out}
	_, err := k.call(ctx, http.MethodPost, k.c.graphQLPath(), map[string]any{"query": text, "variables": vars}, &answer)
	return answer.Errors, err
}

// query is ask for a query of which an error in any part is an error: half an answer
// judges nothing.
func (k *conn) query(ctx context.Context, text string, vars map[string]any, out any) error {
	problems, err := k.ask(ctx, text, vars, out)
	if err == nil && len(problems) > 0 {
		err = problems[0].asError("pull_requests: read")
	}
	return err
}

// change is one of the changes that a mutation of GraphQL makes.
type change struct {
	field   string         // of Mutation
	in      string         // the type of its input
	input   map[string]any // its input
	give    string         // what is asked for of the result
	need    string         // the permission that it takes
	creates bool           // it counts as a creation

	out any   // what was asked for is decoded into it
	err error // what became of it
}

// mutate makes changes in one call, in their order, and notes in each what became
// of it: the host makes or refuses each by itself. Where the call as a whole had no
// answer, or one that does not speak of a change, nobody knows whether it was made.
func (k *conn) mutate(ctx context.Context, changes ...*change) {
	var head, body []string
	vars := map[string]any{}
	creates := 0
	for i, c := range changes {
		name := fmt.Sprint("c", i)
		head = append(head, fmt.Sprintf("$%s: %s!", name, c.in))
		body = append(body, fmt.Sprintf("%s: %s(input: $%s) { %s }", name, c.field, name, c.give))
		vars[name] = c.input
		if c.creates {
			creates++
		}
	}
	var answer struct {
		Data   map[string]json.RawMessage `json:"data"`
		Errors []graphQLError             `json:"errors"`
	}
	text := fmt.Sprintf("mutation(%s) {\n  %s\n}", strings.Join(head, ", "), strings.Join(body, "\n  "))
	ctx = context.WithValue(ctx, changesKey{}, creates)
	_, err := k.call(ctx, http.MethodPost, k.c.graphQLPath(), map[string]any{"query": text, "variables": vars}, &answer)
	for i, c := range changes {
		name := fmt.Sprint("c", i)
		c.err = err
		for _, e := range answer.Errors {
			if c.err == nil && (len(e.Path) == 0 || e.Path[0] == name || answer.Data == nil) {
				c.err = e.asError(c.need)
			}
		}
		if c.err == nil {
			c.err = c.take(answer.Data[name])
		}
	}
}

// take decodes the result of a change.
func (c *change) take(result json.RawMessage) error {
	if len(result) == 0 || string(result) == "null" {
		return errors.New("the host's answer does not say what became of it")
	}
	return json.Unmarshal(result, c.out)
}

// reviewed is what people said about a pull request's head.
type reviewed struct {
	// decision is APPROVED, CHANGES_REQUESTED or REVIEW_REQUIRED; "" where
	// no rule that the host counts here wants reviews.
	decision string
	approved []string // logins of those who may write and whose last word it was
	against  []string // of those who asked for changes
	open     int      // conversations that are not resolved
}

// connectionJSON is a page of something.
type connectionJSON[T any] struct {
	Nodes []T `json:"nodes"`
	Page  struct {
		More bool   `json:"hasNextPage"`
		End  string `json:"endCursor"`
	} `json:"pageInfo"`
}

type reviewedJSON struct {
	Decision string `json:"reviewDecision"`
	Reviews  *connectionJSON[struct {
		State  string `json:"state"`
		Author *struct {
			Login string `json:"login"`
		} `json:"author"`
	}] `json:"latestOpinionatedReviews"`
	Threads *connectionJSON[struct {
		Resolved bool `json:"isResolved"`
	}] `json:"reviewThreads"`
}

const reviewedFields = `
fragment reviewed on PullRequest {
  reviewDecision
  latestOpinionatedReviews(first: 100, writersOnly: true, after: $reviews) {
    nodes { state author { login } } pageInfo { hasNextPage endCursor }
  }
  reviewThreads(first: 100, after: $threads) {
    nodes { isResolved } pageInfo { hasNextPage endCursor }
  }
}`

// moreReviews reads what follows a page of what people said about a pull request.
func (c *Client) moreReviews(ctx context.Context, k *conn, repo queue.Repo, n int64, page *reviewedJSON, reviews, threads string, all map[int64]reviewed) error {
	for page.Reviews.Page.More || page.Threads.Page.More {
		// A list that has ended is asked for behind its end once more, which
		// gives nothing.
		nextReviews, nextThreads := orElse(page.Reviews.Page.End, reviews), orElse(page.Threads.Page.End, threads)
		if nextReviews == reviews && nextThreads == threads {
			return fmt.Errorf("the host's list of what was said about pull request %d does not go on where it says so", n)
		}
		reviews, threads = nextReviews, nextThreads
		vars := map[string]any{"owner": repo.Owner, "name": repo.Name, "number": n}
		if reviews != "" {
			vars["reviews"] = reviews
		}
		if threads != "" {
			vars["threads"] = threads
		}
		var out struct {
			Repository struct {
				Pull *reviewedJSON `json:"pullRequest"`
			} `json:"repository"`
		}
		if err := k.query(ctx, reviewsQuery, vars, &out); err != nil {
			return err
		}
		if page = out.Repository.Pull; page == nil || page.Reviews == nil || page.Threads == nil {
			return fmt.Errorf("the host's answer does not describe pull request %d", n)
		}
		all[n] = all[n].with(page)
	}
	return nil
}

const reviewsQuery = `query($owner: String!, $name: String!, $number: Int!, $reviews: String, $threads: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { ...reviewed } }
}` + reviewedFields

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// with adds a page.
func (v reviewed) with(page *reviewedJSON) reviewed {
	v.decision = strings.ToUpper(page.Decision)
	for _, r := range page.Reviews.Nodes {
		who := "a deleted user"
		if r.Author != nil {
			who = "@" + oneLine(r.Author.Login, 100)
		}
		switch strings.ToUpper(r.State) {
		case "APPROVED":
			v.approved = append(v.approved, who)
		case "CHANGES_REQUESTED":
			v.against = append(v.against, who)
		}
	}
	for _, t := range page.Threads.Nodes {
		if !t.Resolved {
			v.open++
		}
	}
	return v
}
