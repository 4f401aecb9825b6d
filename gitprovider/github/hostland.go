package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// mergeTries bounds the merge calls for one pull request in one Land. After
// each that did not say yes, pull request and target are read back first.
const mergeTries = 4

// host has the host merge each pull request in order. The target is checked
// before each, and the tree after it.
func (l *landing) host(ctx context.Context) error {
	expected, err := l.expected(ctx)
	if err != nil || l.end.Trouble != "" {
		return err
	}
	from := len(l.end.Landed)
	for i, s := range l.work.Steps[from:] {
		before := len(l.end.Landed)
		err := l.mergeOne(ctx, from+i, expected[i])
		if err != nil && before == 0 {
			return err
		}
		if err != nil {
			// What landed before is known; only the rest is not.
			l.stop(queue.TroubleTransient, "", err.Error())
		}
		if l.end.Trouble != "" {
			return nil
		}
		done := l.end.Landed[len(l.end.Landed)-1]
		if l.left() == 0 {
			l.closeLanded(ctx)
			return nil
		}
		if !l.asExpected() {
			return nil
		}
		if l.target != done.Commit {
			l.stop(queue.TroubleStale, "", fmt.Sprintf("%s moved to %.10s right after pull request %d had landed", l.work.Branch, l.target, s.PR))
			return nil
		}
	}
	return nil
}

// expected are the trees that the remaining steps shall have on the target:
// the tested ones, after a look whether the host's merges can give them at
// all; those of merges that we compute, where others landed in between.
func (l *landing) expected(ctx context.Context) ([]string, error) {
	trees := make([]string, l.left())
	for i, s := range l.rest() {
		trees[i] = l.stated(s)
	}
	if !l.work.Recompute {
		stand, _, err := l.stand(ctx)
		if err != nil || stand || len(l.end.Landed) > 0 {
			return trees, err
		}
	}
	steps, err := l.rewritten(ctx)
	if err != nil || l.end.Trouble != "" || !l.asTested(steps) {
		return nil, err
	}
	for i, s := range steps {
		trees[i] = s.Tree
	}
	return trees, nil
}

// mergeOne has the host merge the pull request of step i and reads back what
// it did. A call without a yes is followed by a look, never by another call
// right away.
func (l *landing) mergeOne(ctx context.Context, i int, tree string) error {
	s := l.work.Steps[i]
	title, body, err := l.message(ctx, s)
	if err != nil {
		return err
	}
	if err := l.retarget(ctx, i); err != nil {
		return err
	}
	return l.announced(ctx, s.PR, s.Head, func(ctx context.Context) error { return l.mergeNow(ctx, i, title, body, tree) })
}

// mergeNow has the host merge, as often as may help.
func (l *landing) mergeNow(ctx context.Context, i int, title, body, tree string) error {
	s, expect := l.work.Steps[i], l.target
	l.begun = true
	for try := 1; ; try++ {
		sha, outcome := l.merge(ctx, s, title, body)
		if outcome == nil {
			return l.readBack(ctx, s, sha, tree)
		}
		done, err := l.look(ctx, i, expect, tree)
		if err != nil {
			return fmt.Errorf("%w (and then: %w)", outcome, err)
		}
		if done || l.end.Trouble != "" {
			return nil
		}
		// The pull request is open at that head, and the target has not moved.
		again := false
		switch statusOf(outcome) {
		case http.StatusMethodNotAllowed:
			again = l.pulls[i].Mergeable == nil
		case http.StatusConflict:
			again = true
		case http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusNotFound:
		default:
			again = true // nobody knows, and nothing has happened
		}
		if !again {
			l.refused(ctx, s, outcome)
			return nil
		}
		if try == mergeTries {
			return outcome
		}
		if err := pause(ctx, time.Duration(try)*300*time.Millisecond); err != nil {
			return outcome
		}
	}
}

// refused notes that the host said no for good.
func (l *landing) refused(ctx context.Context, s queue.StepSpec, outcome error) {
	what := fmt.Sprintf("the host refuses to merge pull request %d: %s", s.PR, hostWords(outcome))
	l.stop(queue.TroubleDenied, s.Entry, withRemedy(what, l.mergeRemedy(ctx, outcome)))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// methodNames are the host's words for merge methods.
var methodNames = map[queue.MergeMethod]string{queue.MergeCommit: "merge", queue.Squash: "squash", queue.Rebase: "rebase"}

// merge makes one merge call. The host refuses it when the head has moved by the
// time at which the call arrives: so whenever that is, the head is what was tested.
// It takes no commit of the target and no base, so a call that the network held back
// merges on whatever is there then, and into whatever the base is by then; see
// queue.GivenUp for what follows.
func (l *landing) merge(ctx context.Context, s queue.StepSpec, title, body string) (sha string, err error) {
	ask := map[string]any{"sha": s.Head, "merge_method": methodNames[l.work.Method]}
	if l.work.Method != queue.Rebase {
		ask["commit_title"], ask["commit_message"] = title, body
	}
	var out github.PullRequestMergeResult
	if _, err := l.k.call(ctx, http.MethodPut, at(l.repo, "pulls", s.PR, "merge"), ask, &out); err != nil {
		return "", err
	}
	if !out.GetMerged() || !validCommit(out.GetSHA()) {
		return "", fmt.Errorf("merge pull request %d: the host's answer does not say that it did", s.PR)
	}
	return out.GetSHA(), nil
}

// mostMerged bounds how many commits are looked through for one that was just merged.
const mostMerged = 250

// readBack reads the target after a merge and compares its tree. It asks git, which
// fetches what the next branch stands on: that costs no call. A host whose git does
// not show the merge yet is asked by its API.
func (l *landing) readBack(ctx context.Context, s queue.StepSpec, sha, tree string) error {
	gained, _, err := l.since(ctx, l.target, mostMerged)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(gained, func(k mirror.Commit) bool { return k.ID == sha }); at >= 0 {
		tip := gained[len(gained)-1]
		l.at(tip.ID, tip.Tree)
		l.landed(ctx, s, sha, gained[at].Tree, tree)
		return nil
	}
	if err := l.readTarget(ctx); err != nil {
		return err
	}
	got := l.tree
	if l.target != sha {
		if got, err = l.c.commitTree(ctx, l.k, l.repo, sha); err != nil {
			return err
		}
	}
	l.landed(ctx, s, sha, got, tree)
	return nil
}

// look finds out what became of a merge call that did not say yes.
func (l *landing) look(ctx context.Context, i int, expect, tree string) (done bool, err error) {
	s := l.work.Steps[i]
	if l.pulls[i], l.seen[i], err = l.c.pull(ctx, l.k, l.repo, s.PR); err != nil {
		return false, err
	}
	if err := l.readTarget(ctx); err != nil {
		return false, err
	}
	if sha := l.pulls[i].GetMergeCommitSHA(); l.seen[i].Merged && validCommit(sha) {
		gained, _, err := l.gained(ctx)
		if err != nil {
			return false, err
		}
		if has(gained, sha) {
			return true, l.readBack(ctx, s, sha, tree)
		}
	}
	if why := l.amiss(s.PR, s.Head, s.On, l.seen[i]); why != "" {
		l.differing = append(l.differing, l.seen[i])
		l.stop(queue.TroubleStale, s.Entry, why)
	} else if l.target != expect {
		l.stop(queue.TroubleStale, "", fmt.Sprintf("%s has moved to %.10s", l.work.Branch, l.target))
	}
	return false, nil
}

// message is the title and text with which the host shall merge: those of the
// tested commit.
func (l *landing) message(ctx context.Context, s queue.StepSpec) (title, body string, err error) {
	if l.work.Method == queue.Rebase || s.Commit == "" {
		return mirror.Title(l.work.Method, s), "", nil
	}
	var commits []mirror.Commit
	err = l.c.withSource(ctx, l.k, l.repo, func(src mirror.Source) (err error) {
		commits, err = l.c.mirrors.Read(ctx, src, s.Commit)
		return err
	})
	if gitprovider.KindOf(err) == gitprovider.Stale {
		return mirror.Title(l.work.Method, s), "", nil
	}
	if err != nil {
		return "", "", err
	}
	title, body, _ = strings.Cut(commits[0].Message, "\n")
	return title, strings.TrimSpace(body), nil
}
