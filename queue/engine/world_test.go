package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// world is a Git host in memory: pull requests, branches, checks, people and
// what is written on pull requests. It has no expectations; a test looks at
// what the world is like afterwards. faults make the calls of a method fail,
// before or after they did what they do.
type world struct {
	mu       sync.Mutex
	prs      map[int64]*queue.PullRequest
	ready    map[int64]queue.Mergeability
	heads    map[string]string // branch → commit
	branches map[string]string // test branch → commit
	away     bool              // the repository is not where it was
	checks   map[string][]queue.Report
	people   map[string]gitprovider.Permission
	comments []comment
	statuses []gitprovider.Status // newest last
	reacted  map[int64][]string
	stopped  []queue.RunID
	calls    map[string]int
	faults   map[string]fault
	during   func(method string) // runs inside a call, to change the world meanwhile
	pause    func()              // runs between a look at what is there and a write
}

type fault struct {
	err   error
	after bool // it happens, and then the answer is lost
	panic bool
}

type comment struct {
	id   int64
	pr   int64
	body string
}

func newWorld() *world {
	return &world{
		prs: map[int64]*queue.PullRequest{}, ready: map[int64]queue.Mergeability{},
		heads: map[string]string{"main": "m0", "release": "r0"}, checks: map[string][]queue.Report{},
		people:  map[string]gitprovider.Permission{"ada": gitprovider.AdminPermission, "wil": gitprovider.WritePermission, "rea": gitprovider.ReadPermission},
		reacted: map[int64][]string{}, calls: map[string]int{}, faults: map[string]fault{},
	}
}

// open makes a pull request that is ready to be queued.
func (w *world) open(number int64, base string) *queue.PullRequest {
	pr := &queue.PullRequest{
		Number: number, Title: fmt.Sprintf("Change %d", number), URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number),
		Author: queue.Actor{Login: "wil", ID: 2}, Head: fmt.Sprintf("%07dabc", number), HeadRef: "topic", Base: base, Open: true,
	}
	w.prs[number], w.ready[number] = pr, queue.Mergeable
	return pr
}

// begin is called first by every method: it counts, and fails if it is to.
func (w *world) begin(method string) (after error, err error) {
	if w.during != nil {
		w.during(method)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[method]++
	f := w.faults[method]
	switch {
	case f.panic:
		panic("the client is broken")
	case f.after:
		return f.err, nil
	default:
		return nil, f.err
	}
}

var errGone = &gitprovider.Error{Kind: gitprovider.Gone, Message: "There is no such thing."}

func (w *world) PullRequest(_ context.Context, _ queue.Repo, number int64) (queue.PullRequestSeen, error) {
	if _, err := w.begin("PullRequest"); err != nil {
		return queue.PullRequestSeen{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pr, ok := w.prs[number]
	if !ok {
		return queue.PullRequestSeen{}, errGone
	}
	return queue.PullRequestSeen{PullRequest: *pr, Read: true}, nil
}

func (w *world) Preflight(_ context.Context, _ queue.Repo, a queue.RunPreflight) (queue.PreflightSeen, error) {
	if _, err := w.begin("Preflight"); err != nil {
		return queue.PreflightSeen{}, err
	}
	return queue.PreflightSeen{Findings: []queue.Finding{{Check: "branch", Level: queue.LevelOK, Message: "The branch " + a.Branch + " is there."}}}, nil
}

func (w *world) Mergeability(_ context.Context, _ queue.Repo, numbers ...int64) (facts []queue.Fact, err error) {
	if _, err := w.begin("Mergeability"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range numbers {
		if pr, ok := w.prs[n]; ok {
			facts = append(facts, queue.PullRequestSeen{PullRequest: *pr, Read: true}, queue.MergeabilitySeen{PR: n, Head: pr.Head, Value: w.ready[n]})
		} else {
			facts = append(facts, queue.RefreshEnded{PR: n, Gone: true, Message: "It does not exist."})
		}
	}
	return facts, nil
}

// Stack reads every pull request; which contains which is not looked at here.
func (w *world) Stack(ctx context.Context, repo queue.Repo, _ string, numbers []int64) ([]queue.Fact, error) {
	if _, err := w.begin("Stack"); err != nil {
		return nil, err
	}
	var facts []queue.Fact
	below := ""
	for _, n := range numbers {
		one, err := w.Mergeability(ctx, repo, n)
		if err != nil {
			return nil, err
		}
		seen, ok := one[0].(queue.PullRequestSeen)
		if !ok {
			return nil, errGone
		}
		mergeability := one[1].(queue.MergeabilitySeen)
		mergeability.Below = below
		facts, below = append(facts, seen, mergeability), seen.Head
	}
	return facts, nil
}

func (w *world) From(_ context.Context, _ queue.Repo, branch string) ([]queue.PullRequestSeen, error) {
	if _, err := w.begin("From"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []queue.PullRequestSeen
	for _, n := range slices.Sorted(maps.Keys(w.prs)) {
		if pr := w.prs[n]; pr.HeadRef == branch && pr.Open {
			found = append(found, queue.PullRequestSeen{PullRequest: *pr, Read: true})
		}
	}
	return found, nil
}

func (w *world) Labels(_ context.Context, _ queue.Repo, number int64, want, drop []string) error {
	after, err := w.begin("Labels")
	if err != nil {
		return err
	}
	if w.pause != nil {
		w.pause() // what it has now may be otherwise when it is written
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pr := w.prs[number]
	pr.Labels = slices.DeleteFunc(slices.Clone(pr.Labels), func(l string) bool { return slices.Contains(drop, l) || slices.Contains(want, l) })
	pr.Labels = append(pr.Labels, want...)
	return after
}

func (w *world) Direct(_ context.Context, _ queue.Repo, number int64, branch string, _ []string) (queue.DirectSeen, error) {
	if _, err := w.begin("Direct"); err != nil {
		return queue.DirectSeen{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pr, ok := w.prs[number]
	if !ok {
		return queue.DirectSeen{}, errGone
	}
	return queue.DirectSeen{PR: number, Head: pr.Head, Target: w.heads[branch]}, nil
}

func (w *world) Target(_ context.Context, _ queue.Repo, branch string) (string, string, error) {
	if _, err := w.begin("Target"); err != nil {
		return "", "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	head, ok := w.heads[branch]
	if !ok {
		return "", "", errGone
	}
	return head, treeOf(head), nil
}

func (w *world) Checks(_ context.Context, _ queue.Repo, commit string) ([]queue.Report, error) {
	if _, err := w.begin("Checks"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checks[commit], nil
}

func (w *world) OpenPullRequests(_ context.Context, _ queue.Repo, branch string) ([]queue.PullRequestSeen, error) {
	if _, err := w.begin("OpenPullRequests"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []queue.PullRequestSeen
	for _, number := range slices.Sorted(maps.Keys(w.prs)) {
		if pr := w.prs[number]; pr.Open && pr.Base == branch {
			all = append(all, queue.PullRequestSeen{PullRequest: *pr})
		}
	}
	return all, nil
}

func (w *world) TestBranches(context.Context, queue.Repo) (map[string]string, error) {
	if _, err := w.begin("TestBranches"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.branches), nil
}

func (w *world) Permission(_ context.Context, _ queue.Repo, who queue.Actor) (gitprovider.Permission, error) {
	if _, err := w.begin("Permission"); err != nil {
		return 0, err
	}
	return w.people[who.Login], nil
}

func (w *world) Find(_ context.Context, host, owner, name string) (queue.Repo, error) {
	if w.away {
		return queue.Repo{}, errGone
	}
	return queue.Repo{Host: host, Owner: owner, Name: name, HostID: 11}, nil
}

func (w *world) Build(_ context.Context, _ queue.Repo, work queue.BuildRuns) ([]queue.Fact, error) {
	after, err := w.begin("Build")
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var facts []queue.Fact
	for _, r := range work.Runs {
		base := r.Base
		if base.Commit == "" {
			base.Commit = w.heads[r.Target]
		}
		base.Tree = treeOf(base.Commit)
		built := queue.RunBuilt{Run: r.Run, Base: base, Required: []queue.Required{{Name: "build"}}, RequiredSource: queue.FromQueue}
		parent := base.Commit
		for _, s := range r.Chain {
			step := s.Step
			step.Commit = "c" + digest(parent + s.Head)[:9]
			step.Tree = treeOf(step.Commit)
			parent = step.Commit
			built.Chain = append(built.Chain, step)
		}
		w.heads[r.Branch] = parent
		facts = append(facts, built)
	}
	return facts, after
}

func (w *world) Stop(_ context.Context, _ queue.Repo, work queue.StopRun) error {
	if _, err := w.begin("Stop"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.heads, work.Branch)
	w.stopped = append(w.stopped, work.Run)
	return nil
}

func (w *world) Land(ctx context.Context, repo queue.Repo, work queue.Land, turn gitprovider.Turn) (queue.LandingEnded, []queue.PullRequestSeen, error) {
	after, err := w.begin("Land")
	if err != nil {
		return queue.LandingEnded{}, nil, err
	}
	for _, s := range work.Steps {
		if work.Method == queue.MergeCommit {
			break // there is nothing to say: the host sees that it landed
		}
		err := turn(ctx, s.PR, func(ctx context.Context) error {
			return w.Notice(ctx, repo, s.PR, "landed", "<!-- landed --> It is on "+work.Branch)
		})
		if err != nil {
			return queue.LandingEnded{}, nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := queue.LandingEnded{Landing: work.Landing}
	var seen []queue.PullRequestSeen
	for _, s := range work.Steps {
		w.heads[work.Branch] = s.Commit
		ended.Landed = append(ended.Landed, queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: s.Commit, Tree: s.Tree})
		if pr := w.prs[s.PR]; pr != nil {
			pr.Open, pr.Merged = false, true
			seen = append(seen, queue.PullRequestSeen{PullRequest: *pr, Read: true})
		}
	}
	ended.Commit, ended.Tree = w.heads[work.Branch], treeOf(w.heads[work.Branch])
	return ended, seen, after
}

func (w *world) Tell(_ context.Context, _ queue.Repo, number int64, t gitprovider.Telling) (told gitprovider.Told) {
	for _, status := range t.Statuses {
		told.Statuses = append(told.Statuses, w.setStatus(status))
	}
	if t.Comment != nil {
		told.CommentID, told.Comment = w.sticky(number, t.Comment)
	}
	return told
}

func (w *world) sticky(number int64, c *gitprovider.Sticky) (int64, error) {
	after, err := w.begin("Comment")
	if err != nil {
		return 0, err
	}
	if i := w.marked(number, c.Marker); i >= 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.comments[i].body = c.Body
		return w.comments[i].id, after
	}
	return w.write(number, c.Body), after
}

// marked looks for a comment that carries a marker; -1 = none. Like the host's
// own answer, what it says may be old when it is read.
func (w *world) marked(number int64, marker string) int {
	w.mu.Lock()
	i := slices.IndexFunc(w.comments, func(c comment) bool { return c.pr == number && strings.Contains(c.body, marker) })
	w.mu.Unlock()
	if w.pause != nil {
		w.pause()
	}
	return i
}

func (w *world) write(number int64, body string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := int64(len(w.comments) + 9001)
	w.comments = append(w.comments, comment{id, number, body})
	return id
}

func (w *world) Notice(_ context.Context, _ queue.Repo, number int64, marker, body string) error {
	after, err := w.begin("Notice")
	if err != nil {
		return err
	}
	if w.marked(number, marker) < 0 {
		w.write(number, body)
	}
	return after
}

func (w *world) setStatus(s gitprovider.Status) error {
	after, err := w.begin("Status")
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses = append(w.statuses, s)
	return after
}

func (w *world) React(_ context.Context, _ queue.Repo, comment int64, reaction string) error {
	after, err := w.begin("React")
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.reacted[comment] {
		if r == reaction {
			return after
		}
	}
	w.reacted[comment] = append(w.reacted[comment], reaction)
	return after
}

// on lists the comments on a pull request.
func (w *world) on(number int64) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var bodies []string
	for _, c := range w.comments {
		if c.pr == number {
			bodies = append(bodies, c.body)
		}
	}
	return bodies
}

// status is the newest of our status checks on a commit.
func (w *world) status(commit string) gitprovider.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	var newest gitprovider.Status
	for _, s := range w.statuses {
		if s.Commit == commit {
			newest = s
		}
	}
	return newest
}

func treeOf(commit string) string { return "t" + digest(commit)[:9] }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
