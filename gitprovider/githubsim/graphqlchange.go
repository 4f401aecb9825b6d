package githubsim

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// mutationNode are the changes that GraphQL can make. They are made one after the
// other, in the order in which they are asked for, and each is made or refused by
// itself. mu is held.
func (c *call) mutationNode() node {
	change := func(do func(input) (node, error)) func(map[string]any) (any, error) {
		return func(args map[string]any) (any, error) {
			out, err := do(args["input"].(map[string]any))
			if err == nil {
				return out, nil
			}
			var refused *apiError
			if errors.As(err, &refused) {
				err = graphQLError{"UNPROCESSABLE", refused.message}
			}
			return nil, err
		}
	}
	return node{
		"addComment":         change(c.graphQLAddComment),
		"updateIssueComment": change(c.graphQLUpdateComment),
		"createCheckRun":     change(c.graphQLCreateRun),
		"updateCheckRun":     change(c.graphQLUpdateRun),
	}
}

// input is what a change is asked with. The schema has made sure of its types.
type input map[string]any

// text is a field of text, nil when it is not there.
func (in input) text(name string) *string {
	if v, ok := in[name].(string); ok {
		return &v
	}
	return nil
}

// moment is a field with a time.
func (in input) moment(name string) (*time.Time, error) {
	v := in.text(name)
	if v == nil {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, *v)
	if err != nil {
		return nil, graphQLError{"", fmt.Sprintf("Could not coerce value %q to DateTime", *v)}
	}
	return &at, nil
}

// lower is a value of an enumeration as REST has it.
func (in input) lower(name string) *string {
	v := in.text(name)
	if v != nil {
		*v = strings.ToLower(*v)
	}
	return v
}

// named is the number in a node's id; 0 when it is no id of that kind.
func (in input) named(field, kind string) int64 {
	rest, ok := strings.CutPrefix(orEmpty(in.text(field)), kind+"_")
	if !ok {
		return 0
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return 0
	}
	id, err := strconv.ParseInt(strings.TrimPrefix(string(raw), kind), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// lost says that no node has an id that was given, or none that the caller sees.
func (in input) lost(field string) error {
	return graphQLError{"NOT_FOUND", fmt.Sprintf("Could not resolve to a node with the global id of '%s'", orEmpty(in.text(field)))}
}

// allowed checks what the caller may do on the repository of a node.
func (c *call) allowed(in input, field string, r *repo, need string) error {
	if r == nil || !c.s.sees(c.who, r) {
		return in.lost(field)
	}
	if !c.s.may(c.who, r, need) {
		return graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
	}
	return nil
}

func (c *call) graphQLAddComment(in input) (node, error) {
	p := c.s.pullWithID(in.named("subjectId", "PR"))
	if p == nil {
		return nil, in.lost("subjectId")
	}
	if err := c.allowed(in, "subjectId", p.repo, "issues:write"); err != nil {
		return nil, err
	}
	body := orEmpty(in.text("body"))
	if err := checkComment(body); err != nil {
		return nil, err
	}
	k := c.s.addComment(p, c.who.account, c.s.via(c.who), body)
	return node{"commentEdge": value(node{"node": value(commentNode(k))})}, nil
}

func (c *call) graphQLUpdateComment(in input) (node, error) {
	k := c.s.comments[in.named("id", "IC")]
	if k == nil {
		return nil, in.lost("id")
	}
	if err := c.allowed(in, "id", k.pull.repo, "issues:write"); err != nil {
		return nil, err
	}
	body := orEmpty(in.text("body"))
	if err := checkComment(body); err != nil {
		return nil, err
	}
	c.s.editComment(k, c.who.account, body)
	return node{"issueComment": value(commentNode(k))}, nil
}

func commentNode(k *comment) node {
	return node{"id": value(nodeID("IC", k.id)), "fullDatabaseId": value(strconv.FormatInt(k.id, 10))}
}

// runOf is what both changes of check runs are asked with.
func runOf(in input) (runInput, error) {
	run := runInput{
		Name: in.text("name"), HeadSHA: orEmpty(in.text("headSha")), DetailsURL: in.text("detailsUrl"), ExternalID: in.text("externalId"),
		Status: in.lower("status"), Conclusion: in.lower("conclusion"),
	}
	var err error
	if run.StartedAt, err = in.moment("startedAt"); err != nil {
		return run, err
	}
	if run.CompletedAt, err = in.moment("completedAt"); err != nil {
		return run, err
	}
	if out, ok := in["output"].(map[string]any); ok {
		run.Output = &checkOutput{Title: input(out).text("title"), Summary: input(out).text("summary"), Text: input(out).text("text")}
	}
	return run, run.check()
}

func (c *call) graphQLCreateRun(in input) (node, error) {
	r := c.s.reposByID[in.named("repositoryId", "R")]
	if err := c.allowed(in, "repositoryId", r, "checks:write"); err != nil {
		return nil, err
	}
	run, err := runOf(in)
	if err != nil {
		return nil, err
	}
	if _, err := r.git.commit(run.HeadSHA); err != nil || !fullSHA.MatchString(run.HeadSHA) {
		return nil, invalid("No commit found for SHA: %s", run.HeadSHA)
	}
	u := c.s.suiteFor(r, c.s.app, run.HeadSHA, r.branchOf(run.HeadSHA))
	return runNode(c.s.addRun(u, c.who.account, run)), nil
}

func (c *call) graphQLUpdateRun(in input) (node, error) {
	r := c.s.reposByID[in.named("repositoryId", "R")]
	if err := c.allowed(in, "repositoryId", r, "checks:write"); err != nil {
		return nil, err
	}
	k := c.s.runs[in.named("checkRunId", "CR")]
	if k == nil || k.suite.repo != r {
		return nil, in.lost("checkRunId")
	}
	run, err := runOf(in)
	if err != nil {
		return nil, err
	}
	if c.who.kind != asInstallation || k.suite.app != c.s.app {
		return nil, graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
	}
	c.s.changeRun(k, c.who.account, run)
	return runNode(k), nil
}

func runNode(k *checkRun) node {
	return node{"checkRun": value(node{"id": value(nodeID("CR", k.id))})}
}

// pullWithID finds a pull request by its own id, which is not its number. mu is held.
func (s *Server) pullWithID(id int64) *pull {
	for _, r := range s.reposByID {
		for _, p := range r.pulls {
			if p.id == id {
				return p
			}
		}
	}
	return nil
}
