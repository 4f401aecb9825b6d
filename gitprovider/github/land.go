package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// Land puts tested steps on the target, see gitprovider.Lander and queue.Land.
//
//	read every pull request and the target ──► what did an earlier attempt
//	land? ──► is the rest as stated, and do the rules allow it?
//	  ├── exact: one compare-and-swap push of the last step's commit
//	  └── host:  for each pull request the host's merge call, then its tree
//
// Anything that is not as stated stops it before the first merge, and between
// two merges of the host.
func (c *Client) Land(ctx context.Context, repo queue.Repo, work queue.Land, turn gitprovider.Turn) (queue.LandingEnded, []queue.PullRequestSeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return queue.LandingEnded{}, nil, err
	}
	l := &landing{c: c, k: k, repo: repo, work: work, turn: turn, end: queue.LandingEnded{Landing: work.Landing}}
	if err := l.land(first(ctx)); err != nil {
		if l.begun {
			err = &gitprovider.Error{Kind: gitprovider.Transient, Message: "nobody knows yet whether it has landed", Err: err}
		}
		return queue.LandingEnded{}, nil, fmt.Errorf("land %d steps on %s of %s: %w", len(work.Steps), work.Branch, repo, err)
	}
	l.end.At = c.cfg.Now().UTC()
	return l.end, l.differing, nil
}

// landing is one Land.
type landing struct {
	c    *Client
	k    *conn
	repo queue.Repo
	work queue.Land
	turn gitprovider.Turn

	pulls     []*github.PullRequest     // as work.Steps
	seen      []queue.PullRequestSeen   // as work.Steps
	under     [][]queue.PullRequestSeen // as work.Steps, and their Stack
	differing []queue.PullRequestSeen
	facts     facts // as the landing began
	rules     rules
	target    string // commit
	tree      string
	end       queue.LandingEnded
	// begun: the host may have landed something by now. Who may not look any more
	// what it was has not been refused: he does not know.
	begun bool
}

// land does the work. What stops it is in end.Trouble; an error says that
// nothing is known.
func (l *landing) land(ctx context.Context) error {
	if len(l.work.Steps) == 0 {
		return errors.New("there are no steps")
	}
	if err := l.read(ctx); err != nil || l.end.Missing {
		return err
	}
	if err := l.already(ctx); err != nil {
		return err
	}
	if l.left() == 0 {
		l.end.Trouble, l.end.Entry, l.end.Message = "", "", ""
		l.closeLanded(ctx)
		return nil
	}
	if !l.asExpected() {
		return nil
	}
	if err := l.check(ctx); err != nil || l.end.Trouble != "" {
		return err
	}
	if l.work.Mode == queue.LandExact {
		return l.exact(ctx)
	}
	return l.host(ctx)
}

// read reads with one look all that the decision to land depends on: every pull
// request, the target, and the reports on the commit that is to land.
func (l *landing) read(ctx context.Context) (err error) {
	q := question{branch: l.work.Branch, commit: l.work.Steps[len(l.work.Steps)-1].Commit}
	for _, s := range l.work.Steps {
		q.pulls = append(q.pulls, s.PR)
		for _, u := range s.Stack {
			q.pulls = append(q.pulls, u.PR)
		}
	}
	if l.facts, err = l.c.look(ctx, l.k, l.repo, q); err != nil {
		return err
	}
	l.under = make([][]queue.PullRequestSeen, len(l.work.Steps))
	for i, s := range l.work.Steps {
		pr, seen := l.readOne(s.Entry, s.PR)
		l.pulls, l.seen = append(l.pulls, pr), append(l.seen, seen)
		for _, u := range s.Stack {
			_, under := l.readOne(s.Entry, u.PR)
			l.under[i] = append(l.under[i], under)
		}
	}
	if l.facts.missing {
		l.end.Missing = true
		l.stop(queue.TroubleStale, "", "the branch "+l.work.Branch+" does not exist any more")
		return nil
	}
	l.at(l.facts.target, l.facts.tree)
	return nil
}

// readOne is a pull request as it was read. One that does not exist stops the landing.
func (l *landing) readOne(entry queue.EntryID, number int64) (*github.PullRequest, queue.PullRequestSeen) {
	pr, seen, err := l.c.seenOf(l.repo, l.facts, number)
	if err != nil {
		l.stop(queue.TroubleStale, entry, fmt.Sprintf("pull request %d does not exist any more", number))
		return new(github.PullRequest), seen
	}
	return pr, seen
}

// stop notes what stopped the landing; the first reason stays.
func (l *landing) stop(trouble queue.Trouble, entry queue.EntryID, message string) {
	if l.end.Trouble == "" {
		l.end.Trouble, l.end.Entry, l.end.Message = trouble, entry, asSentence(message)
	}
}

// left is how many steps are not on the target yet.
func (l *landing) left() int { return len(l.work.Steps) - len(l.end.Landed) }

// rest are those steps.
func (l *landing) rest() []queue.StepSpec { return l.work.Steps[len(l.end.Landed):] }

func (l *landing) readTarget(ctx context.Context) (err error) {
	commit, tree, err := l.c.target(ctx, l.k, l.repo, l.work.Branch)
	if err != nil {
		return err
	}
	l.at(commit, tree)
	return nil
}

// at notes where the target is.
func (l *landing) at(commit, tree string) {
	l.target, l.tree = commit, tree
	l.end.Commit, l.end.Tree = commit, tree
}

// landed notes that a step is on the target with a commit and a tree.
func (l *landing) landed(ctx context.Context, s queue.StepSpec, commit, tree, expected string) {
	step := queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: commit, Tree: tree}
	if expected != "" && tree != expected {
		step.Differs = l.differs(ctx, s, tree, expected)
	}
	l.end.Landed = append(l.end.Landed, step)
}

// asExpected reports whether what has landed is what was tested, and stops the
// landing if it is not: nothing more lands on top of that.
func (l *landing) asExpected() bool {
	for _, step := range l.end.Landed {
		if step.Differs != "" {
			l.stop(queue.TroubleStale, "", "what landed is not what was tested")
			return false
		}
	}
	return true
}

// stated is the tree that a step shall have as tested, "" where only a merge
// on the target can tell.
func (l *landing) stated(s queue.StepSpec) string {
	if l.work.Recompute {
		return ""
	}
	return s.Tree
}

// differs says in words how a landed tree is not the tested one.
func (l *landing) differs(ctx context.Context, s queue.StepSpec, tree, expected string) string {
	if expected == noTree {
		return fmt.Sprintf("pull request %d landed with tree %.10s, and what it was to give cannot be computed: it does not merge on %.10s, or one of them is gone", s.PR, tree, l.work.Expect)
	}
	text := fmt.Sprintf("pull request %d landed with tree %.10s; tested was %.10s", s.PR, tree, expected)
	var paths []string
	err := l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) (err error) {
		// The landed tree is on the host; reading the branch brings it.
		if _, _, err := l.c.mirrors.Since(ctx, src, l.work.Branch, l.work.Expect, 1); err != nil {
			return err
		}
		paths, err = l.c.mirrors.Differ(ctx, src, expected, tree, 10)
		return err
	})
	if err == nil && len(paths) > 0 {
		text += "; they differ in " + strings.Join(paths, ", ")
	}
	return text
}

// check compares the pull requests that are left with what was stated, then
// with the host's rules. Where one is amiss nothing lands from here on.
func (l *landing) check(ctx context.Context) error {
	from := len(l.end.Landed)
	for i, s := range l.rest() {
		seen := l.seen[from+i]
		if seen.Number == 0 {
			continue // gone, noted already
		}
		if why := l.amiss(s.PR, s.Head, s.On, seen); why != "" {
			l.differing = append(l.differing, seen)
			l.stop(queue.TroubleStale, s.Entry, why)
		}
		l.checkUnder(from + i)
	}
	if l.end.Trouble != "" {
		return nil
	}
	return l.checkRules(ctx)
}

// checkRules refuses what the host would refuse if we were not exempt. Rules
// that we cannot judge are left to the host's verdict at admission.
func (l *landing) checkRules(ctx context.Context) (err error) {
	if l.rules, err = l.c.readRules(ctx, l.k, l.repo, l.work.Branch, l.facts.unprotected); err != nil {
		return err
	}
	l.checkSigned()
	from := len(l.end.Landed)
	for i, s := range l.rest() {
		if slices.Contains(l.work.Forced, s.Entry) {
			continue
		}
		for _, seen := range append(slices.Clone(l.under[from+i]), l.seen[from+i]) {
			l.allowed(s, seen.PullRequest)
		}
	}
	return nil
}

// allowed refuses a step of which one pull request is not allowed to land.
func (l *landing) allowed(s queue.StepSpec, pr queue.PullRequest) {
	pr.Base = l.work.Branch
	lacks := l.rules.missing(pr, l.facts.said[pr.Number], l.facts.reports, l.facts.heads[pr.Number])
	if why := l.rules.allow(l.work.Method); why != "" {
		lacks.words = append(lacks.words, why)
	}
	why := fmt.Sprintf("the rules of %s do not allow pull request %d to land: %s", l.work.Branch, pr.Number,
		strings.Join(append(lacks.words, lacks.pending...), "; "))
	switch {
	case len(lacks.words) > 0:
		l.stop(queue.TroubleDenied, s.Entry, why)
	case len(lacks.pending) > 0:
		l.stop(queue.TroubleStale, s.Entry, why) // it waits in the line, not in flight
	}
}

// checkSigned refuses to push commits without a signature to a branch that
// wants one: an exemption would let them pass, and skip the rule. The host
// signs what it merges itself.
func (l *landing) checkSigned() {
	if l.work.Mode != queue.LandExact || !l.rules.signed || l.c.signs() {
		return
	}
	for _, s := range l.rest() {
		if !slices.Contains(l.work.Forced, s.Entry) {
			l.stop(queue.TroubleDenied, s.Entry, withRemedy(
				fmt.Sprintf("the rules of %s do not allow pull request %d to land: its commit would not be signed", l.work.Branch, s.PR), l.pushRemedy("")))
		}
	}
}

// amiss says how a pull request is not as stated, "" if it is. on is the
// branch that it stands on in its stack, which may be its base too.
func (l *landing) amiss(number int64, head, on string, seen queue.PullRequestSeen) string {
	switch {
	case seen.Merged:
		return fmt.Sprintf("pull request %d is merged already", number)
	case !seen.Open:
		return fmt.Sprintf("pull request %d is closed", number)
	case seen.Head != head:
		return fmt.Sprintf("pull request %d is at %.10s and no longer at %.10s", number, seen.Head, head)
	case seen.Base != l.work.Branch && (on == "" || seen.Base != on):
		return fmt.Sprintf("pull request %d is for %s and no longer for %s", number, seen.Base, l.work.Branch)
	case seen.Draft:
		return fmt.Sprintf("pull request %d is a draft", number)
	default:
		return ""
	}
}

// announced calls land, which has the host put a pull request on the target. If
// a rule requires our own check, that is set to success on a commit before, and
// nobody sets it to anything else until land has returned.
func (l *landing) announced(ctx context.Context, number int64, commit string, land func(context.Context) error) error {
	if !l.rules.requiresUs(l.work.Branch) {
		return land(ctx)
	}
	return l.turn(ctx, number, func(ctx context.Context) error {
		told := l.c.Tell(ctx, l.repo, number, gitprovider.Telling{Statuses: []gitprovider.Status{texts.Landing(l.work.Branch, commit)}})
		if err := told.Statuses[0]; err != nil {
			return err
		}
		return land(ctx)
	})
}

// closeLanded closes pull requests whose commits landed by a push in which
// the host cannot see a merge, with a link to the commit. Failing at that
// leaves an open pull request and takes nothing back, so it is only logged.
//
// Of a stack the host sees at most that its top was merged.
func (l *landing) closeLanded(ctx context.Context) {
	if l.work.Method == queue.MergeCommit {
		return
	}
	for i, step := range l.end.Landed {
		s := l.work.Steps[i]
		for j, u := range s.Stack {
			l.closeOne(ctx, l.under[i][j], u.Head, step.Commit)
		}
		if l.work.Mode == queue.LandExact {
			l.closeOne(ctx, l.seen[i], s.Head, step.Commit)
		}
	}
}

func (l *landing) closeOne(ctx context.Context, seen queue.PullRequestSeen, head, commit string) {
	if !seen.Open || seen.Head != head {
		return
	}
	err := l.turn(ctx, seen.Number, func(ctx context.Context) error {
		return l.c.Notice(ctx, l.repo, seen.Number, texts.LandedMarker(commit), texts.Landed(l.c.webOfRepo(l.repo), l.work.Branch, commit))
	})
	if err == nil {
		err = l.c.closePull(ctx, l.k, l.repo, seen.Number)
	}
	if err != nil {
		l.c.log.Warn("close a pull request that has landed", "pr", seen.Number, "sha", commit, "error", err)
	}
}

// commitTree reads the tree of a commit of the host.
func (c *Client) commitTree(ctx context.Context, k *conn, repo queue.Repo, commit string) (string, error) {
	var out github.Commit
	if _, err := k.call(ctx, http.MethodGet, at(repo, "git", "commits", commit), nil, &out); err != nil {
		return "", explain(err, "read commit %.10s of %s", commit, repo)
	}
	if tree := out.GetTree().GetSHA(); validCommit(tree) {
		return tree, nil
	}
	return "", fmt.Errorf("read commit %.10s of %s: the host's answer does not describe it", commit, repo)
}
