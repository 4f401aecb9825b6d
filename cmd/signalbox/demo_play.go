package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"signalbox/api"
	"signalbox/gitprovider/githubsim"
)

// demoRepo is the repository of the demo, in demoOrg.
const demoRepo = "app"

// demoChecks are what its CI reports, and what its rules require.
var demoChecks = []string{"build", "test"}

// part is one pull request of the play, with how it must end.
type part struct {
	author, title string
	files         map[string]string
	state, reason string
}

// tenParts are the play: every kind of trouble once. Pull requests are
// submitted in this order and have these numbers, from 1.
//
// The simulated CI fails a tree in which all paths exist that some file under
// .ci-sim/<check>/ lists: an empty file always fails, and two changes that
// break only together are one path each and a file that lists both.
var tenParts = []part{
	{"alice", "Greet people by name", map[string]string{"greeting.txt": "Hello, you!\n"}, "merged", "MERGED_BY_QUEUE"},
	{"bob", "Greet people politely", map[string]string{"greeting.txt": "Good day!\n"}, "failed", "MERGE_CONFLICT"},
	{"carol", "Divide by zero", map[string]string{"math/divide.go": "package math\n", ".ci-sim/test/divide": ""}, "failed", "REQUIRED_STATUS_FAILED"},
	{"dave", "Rename the old interface", map[string]string{"api/renamed.go": "package api\n"}, "merged", "MERGED_BY_QUEUE"},
	{"erin", "Speed up the parser", map[string]string{"parser/fast.go": "package parser\n"}, "cancelled", "PR_PUSHED_TO"},
	{"frank", "Call the old interface once more", map[string]string{"cmd/caller.go": "package cmd\n", ".ci-sim/build/caller": "api/renamed.go\ncmd/caller.go\n"}, "failed", "REQUIRED_STATUS_FAILED"},
	{"grace", "Try something that is not needed", map[string]string{"idea.md": "maybe\n"}, "cancelled", "USER_REQUESTED"},
	{"heidi", "Write down how it works", map[string]string{"docs/how.md": "like this\n"}, "merged", "MERGED_BY_QUEUE"},
	{"ivan", "Log less", map[string]string{"log/less.go": "package log\n"}, "merged", "MERGED_BY_QUEUE"},
	{"judy", "Add a licence", map[string]string{"LICENSE": "do what is right\n"}, "merged", "MERGED_BY_QUEUE"},
}

// The parts that do more than wait.
const (
	pushedTo = 5
	takenOut = 7
	byAPI    = 10 // submitted through the API; the others with a comment
)

// play is ten pull requests on one queue.
type play struct {
	sim    *githubsim.Server
	client *api.Queue
	tell   func(format string, args ...any)
	begun  [len10]time.Time       // when each was submitted
	ended  [len10]api.PullRequest // how each ended
}

const len10 = 10

// repo is the repository's full name.
func (p *play) repo() string { return p.client.Repo() }

// prepare makes the repository and the queue.
func (p *play) prepare(ctx context.Context, ci githubsim.CI) error {
	if err := p.sim.CreateRepo(ctx, githubsim.NewRepo{
		Owner: p.client.Owner, Name: p.client.Name, Creator: "alice", Checks: demoChecks, RequiredChecks: demoChecks, CI: ci,
		Files: filesOf(map[string]string{"greeting.txt": "Hello!\n"}),
	}); err != nil {
		return err
	}
	err := persist(ctx, func() error {
		return p.client.Call(ctx, "createQueue", map[string]any{"mergeMethod": "merge_commit", "concurrency": 4}, nil)
	})
	var known *api.Error
	if errors.As(err, &known) && known.Status == http.StatusConflict {
		return nil // an earlier attempt made it, and its answer got lost
	}
	return err
}

// perform plays all parts and waits until every one has ended. It does not
// mind a server that goes away and comes back.
func (p *play) perform(ctx context.Context) error {
	// While the queue is paused pull requests wait, so that what follows does
	// not depend on how fast anything is.
	if err := p.set(ctx, "paused"); err != nil {
		return err
	}
	for i, part := range tenParts {
		if err := p.open(ctx, i+1, part); err != nil {
			return err
		}
	}
	for i := range tenParts {
		if err := p.submit(ctx, i+1); err != nil {
			return err
		}
	}
	if err := p.await(ctx, allParts, func(e api.PullRequest) bool { return e.Readiness.Mergeability == "mergeable" }); err != nil {
		return fmt.Errorf("wait until all are mergeable: %w", err)
	}
	// Nor can anything land before what people do meanwhile has come about.
	release, err := p.sim.HoldCI(p.repo())
	if err != nil {
		return err
	}
	defer release()
	p.tell("All ten can be merged as far as GitHub knows. The queue is set running.")
	if err := p.set(ctx, "running"); err != nil {
		return err
	}
	if err := p.interfere(ctx); err != nil {
		return err
	}
	release()
	if err := p.await(ctx, allParts, api.PullRequest.Final); err != nil {
		return fmt.Errorf("wait until all have ended: %w", err)
	}
	return nil
}

func (p *play) set(ctx context.Context, state string) error {
	return persist(ctx, func() error { return p.client.Call(ctx, "updateQueue", map[string]any{"state": state}, nil) })
}

func (p *play) open(ctx context.Context, number int, part part) error {
	opened, err := p.sim.OpenPull(ctx, githubsim.OpenPull{
		Repo: p.repo(), Title: part.title, Author: part.author, Branch: branchOf(number), Files: filesOf(part.files),
	})
	if err != nil {
		return err
	}
	if opened.Number != number {
		return fmt.Errorf("%q got number %d, not %d", part.title, opened.Number, number)
	}
	p.tell("%s opens #%d: %s", part.author, number, part.title)
	return nil
}

// submit asks for a pull request to be merged and waits until the queue knows,
// so that the order is the one of the play.
func (p *play) submit(ctx context.Context, number int) error {
	author := tenParts[number-1].author
	p.begun[number-1] = time.Now()
	if number == byAPI {
		p.tell("a script submits #%d through the API", number)
		return submitPull(ctx, p.client, number)
	}
	if _, err := p.sim.Comment(p.repo(), number, author, "/merge"); err != nil {
		return err
	}
	p.tell("%s comments /merge on #%d", author, number)
	return persist(ctx, func() error {
		_, err := p.client.Pull(ctx, "getSubmittedPullRequest", number)
		return err
	})
}

// submitPull submits a pull request through the API.
func submitPull(ctx context.Context, client *api.Queue, number int) error {
	return persist(ctx, func() error {
		_, err := client.Pull(ctx, "submitPullRequest", number)
		return err
	})
}

// interfere is what people do while their pull requests are in the queue. It
// ends when that has come about.
func (p *play) interfere(ctx context.Context) error {
	both := []int{pushedTo, takenOut}
	if err := p.await(ctx, both, func(e api.PullRequest) bool { return e.State != "not_ready" }); err != nil {
		return fmt.Errorf("wait until they are in the queue: %w", err)
	}
	author := tenParts[takenOut-1].author
	if _, err := p.sim.Comment(p.repo(), takenOut, author, "/cancel"); err != nil {
		return err
	}
	p.tell("%s comments /cancel on #%d", author, takenOut)
	author = tenParts[pushedTo-1].author
	p.tell("%s pushes to #%d, which is in the queue", author, pushedTo)
	_, err := p.sim.Push(ctx, githubsim.Push{
		Repo: p.repo(), Branch: branchOf(pushedTo), Message: "Faster still", Author: author,
		Files: filesOf(map[string]string{"parser/faster.go": "package parser\n"}),
	})
	if err != nil {
		return err
	}
	if err := p.await(ctx, both, api.PullRequest.Final); err != nil {
		return fmt.Errorf("wait until they have left the queue: %w", err)
	}
	return nil
}

// branchOf is the branch of a part.
func branchOf(number int) string {
	return fmt.Sprintf("%s/work-%d", tenParts[number-1].author, number)
}

// allParts are the numbers of the parts.
var allParts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

// await polls until a condition holds of each of these parts.
func (p *play) await(ctx context.Context, numbers []int, holds func(api.PullRequest) bool) error {
	for _, number := range numbers {
		e := &p.ended[number-1]
		err := persist(ctx, func() (err error) {
			if *e, err = p.client.Pull(ctx, "getSubmittedPullRequest", number); err == nil && !holds(*e) {
				err = errNotYet
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("#%d is %s: %s: %w", number, e.State, e.Reason.Message, err)
		}
	}
	return nil
}

// verdicts compares how every part ended with how it should have.
func (p *play) verdicts() error {
	var wrong []error
	for i, part := range tenParts {
		if e := p.ended[i]; e.State != part.state || e.Reason.Code != part.reason {
			wrong = append(wrong, fmt.Errorf("#%d ended %s (%s: %s), not %s (%s)", i+1, e.State, e.Reason.Code, e.Reason.Message, part.state, part.reason))
		}
	}
	return errors.Join(wrong...)
}

// errNotYet is why persist goes on.
var errNotYet = errors.New("not yet")

// persist tries until it works, the answer is final, or ctx ends: the server
// may be away for a moment.
func persist(ctx context.Context, try func() error) error {
	for {
		err := try()
		var known *api.Error
		if err == nil || errors.As(err, &known) && known.Status < 500 && !slices.Contains([]int{http.StatusNotFound, http.StatusTooManyRequests}, known.Status) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// filesOf is a change as the simulator takes it.
func filesOf(files map[string]string) map[string]*string {
	out := map[string]*string{}
	for path, content := range files {
		out[path] = &content
	}
	return out
}
