package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"signalbox/api"
	"signalbox/flaky"
	"signalbox/queue"
)

// pullTarget says which pull request of which queue a command is about.
type pullTarget struct {
	target
	PR   string `arg:"" optional:"" name:"pr" help:"Number of the pull request. Default: the one of the CI job, or the one whose head commit is checked out."`
	JSON bool   `name:"json" help:"Print the answer of the API, as JSON."`
}

// lsRemoteLimit bounds the question which pull request has a commit.
const lsRemoteLimit = 30 * time.Second

// find finds the queue and the pull request.
func (p pullTarget) find(ctx context.Context, c console) (*api.Queue, int, error) {
	return p.findAs(ctx, c, api.StandIn{})
}

// findAs finds them for a caller who may do without a token; see clientFor.
func (p pullTarget) findAs(ctx context.Context, c console, in api.StandIn) (*api.Queue, int, error) {
	given, err := pullNumber(p.PR)
	if err != nil {
		return nil, 0, err
	}
	q, f, err := p.target.findAs(ctx, in)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case given > 0:
		return q, given, nil
	case f.Pull > 0:
		return q, f.Pull, nil
	case f.CI != "":
		return nil, 0, wrongUse("", "%s runs this job for no pull request that it names: give the number", f.CI)
	}
	number, err := checkedOut(ctx, c, f)
	return q, number, err
}

// pullNumber reads the number of a pull request, as people write it; "" is 0.
func pullNumber(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 32)
	if err != nil || n == 0 {
		return 0, wrongUse("", "%q is not the number of a pull request", text)
	}
	return int(n), nil
}

// checkedOut finds the pull request whose head commit is checked out, or is
// what the branch was last pushed as. The Git host lists the heads of all pull
// requests under refs/pull, to everybody who may fetch.
func checkedOut(ctx context.Context, c console, f flaky.Facts) (int, error) {
	give := "give the number of the pull request"
	if f.Commit == "" {
		return 0, wrongUse("", "%s, or call this from a checkout of its branch", give)
	}
	pushed := git(ctx, "rev-parse", "--verify", "--quiet", "@{push}")
	remote := remoteOf(ctx)
	heads, err := pullHeads(ctx, remote, f.Commit, pushed)
	if err != nil {
		return 0, wrongUse("", "%s: it cannot be found out from the checkout (%w)", give, err)
	}
	commit := f.Commit
	if len(heads[commit]) == 0 && len(heads[pushed]) > 0 {
		fmt.Fprintf(c.err, "note: the checkout has commits that are not pushed\n")
		commit = pushed
	}
	switch found := heads[commit]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, wrongUse("", "%s: %.12s, which is checked out, is the head of none on %s. Push it, if it should be", give, f.Commit, remote)
	default:
		return 0, wrongUse("", "%s: %.12s, which is checked out, is the head of several: %v", give, f.Commit, found)
	}
}

// pullHeads lists the pull requests whose head is one of two commits.
func pullHeads(ctx context.Context, remote, one, other string) (map[string][]int, error) {
	ctx, cancel := context.WithTimeout(ctx, lsRemoteLimit)
	defer cancel()
	cmd := gitCommand(ctx, "ls-remote", "--quiet", remote, "refs/pull/*/head")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	heads := map[string][]int{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		commit, ref, _ := strings.Cut(lines.Text(), "\t")
		if commit != one && commit != other {
			continue
		}
		number := strings.TrimSuffix(strings.TrimPrefix(ref, "refs/pull/"), "/head")
		if n, err := pullNumber(number); err == nil && n > 0 {
			heads[commit] = append(heads[commit], n)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("git ls-remote %s: %w", remote, err)
	}
	return heads, nil
}

// ask posts to an endpoint about a pull request, and returns the answer as it
// came and as it is read here.
func ask[T any](ctx context.Context, q *api.Queue, endpoint string, number int, more map[string]any) (raw json.RawMessage, answer T, err error) {
	body := map[string]any{"pr": map[string]int{"number": number}}
	maps.Copy(body, more)
	if err := q.Call(ctx, endpoint, body, &raw); err != nil {
		return nil, answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, answer, &api.Stranger{Host: q.Server(), Err: err}
	}
	return raw, answer, nil
}

// submitCommand queues a pull request.
type submitCommand struct {
	pullTarget
	Priority string `short:"p" completion:"urgent,high,medium,low,lowest" help:"urgent, high, medium, low, lowest, or a number from 0 (first) to 255."`
	NoBatch  bool   `name:"no-batch" help:"Test it in no batch with others."`
	waiting
}

// Run submits, and waits if asked to.
func (s *submitCommand) Run(ctx context.Context, c console) error {
	more := map[string]any{}
	if s.Priority != "" {
		value, ok := queue.ParsePriority(s.Priority)
		if !ok {
			return wrongUse("submit", "priority is %q: give %s or a number from 0 to 255", s.Priority, strings.Join(queue.PriorityNames(), ", "))
		}
		more["priority"] = value
	}
	if s.NoBatch {
		more["noBatch"] = true
	}
	if err := s.check("submit"); err != nil {
		return err
	}
	q, number, err := s.find(ctx, c)
	if err != nil {
		return err
	}
	raw, p, err := ask[api.PullRequest](ctx, q, "submitPullRequest", number, more)
	if err != nil {
		return err
	}
	if s.Wait {
		return s.outcome(ctx, c, q, number, s.JSON)
	}
	if s.JSON {
		return printJSON(c, raw)
	}
	_, err = fmt.Fprint(c.out, summary(q, p))
	return err
}

// cancelCommand takes a pull request out of its queue.
type cancelCommand struct{ pullTarget }

// Run cancels.
func (p *cancelCommand) Run(ctx context.Context, c console) error {
	return p.wish(ctx, c, "cancelPullRequest")
}

// restartCommand tests a pull request again.
type restartCommand struct{ pullTarget }

// Run restarts.
func (p *restartCommand) Run(ctx context.Context, c console) error {
	return p.wish(ctx, c, "restartTestsOnPullRequest")
}

// wish asks for something about a pull request and says where it stands then.
func (p pullTarget) wish(ctx context.Context, c console, endpoint string) error {
	q, number, err := p.find(ctx, c)
	if err != nil {
		return err
	}
	raw, answer, err := ask[api.PullRequest](ctx, q, endpoint, number, nil)
	switch {
	case err != nil:
		return err
	case p.JSON:
		return printJSON(c, raw)
	}
	_, err = fmt.Fprint(c.out, summary(q, answer))
	return err
}

// statusCommand shows where a pull request stands.
type statusCommand struct {
	pullTarget
	waiting
}

// Run shows it, and waits for its end if asked to.
func (s *statusCommand) Run(ctx context.Context, c console) error {
	if err := s.check("status"); err != nil {
		return err
	}
	q, number, err := s.find(ctx, c)
	if err != nil {
		return err
	}
	if s.Wait {
		return s.outcome(ctx, c, q, number, s.JSON)
	}
	if s.JSON {
		return printAnswer[api.PullRequest](ctx, c, q, "getSubmittedPullRequest", number)
	}
	return printSight(ctx, c, q, number, false)
}

// explainCommand shows everything that is known of a pull request.
type explainCommand struct{ pullTarget }

// Run shows it.
func (p *explainCommand) Run(ctx context.Context, c console) error {
	q, number, err := p.find(ctx, c)
	if err != nil {
		return err
	}
	if p.JSON {
		return printAnswer[api.Explanation](ctx, c, q, "explainPullRequest", number)
	}
	return printSight(ctx, c, q, number, true)
}

// printAnswer prints what an endpoint says of a pull request, as it came.
func printAnswer[T any](ctx context.Context, c console, q *api.Queue, endpoint string, number int) error {
	raw, _, err := ask[T](ctx, q, endpoint, number, nil)
	if err != nil {
		return err
	}
	return printJSON(c, raw)
}

// printSight prints where a pull request stands, for people; all is as in
// [sight.text].
func printSight(ctx context.Context, c console, q *api.Queue, number int, all bool) error {
	seen, err := sightOf(ctx, q, number)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c.out, seen.text(q, time.Now(), all))
	return err
}
