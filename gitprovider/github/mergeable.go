package github

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// Mergeability reads what stands between pull requests and their bases, see
// gitprovider.Reader. The host computes it in the background: the first read
// starts that, and in_progress is the answer until it is done.
func (c *Client) Mergeability(ctx context.Context, repo queue.Repo, numbers ...int64) ([]queue.Fact, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	f, err := c.look(ctx, k, repo, question{pulls: numbers})
	if err != nil {
		return nil, err
	}
	var list []queue.Fact
	for _, n := range numbers {
		_, seen, err := c.seenOf(repo, f, n)
		if err != nil {
			list = append(list, queue.RefreshEnded{PR: n, Gone: true, Message: asSentence(err.Error())})
			continue
		}
		m := queue.MergeabilitySeen{PR: n, Head: seen.Head}
		if m.Value, m.Why, err = c.judge(ctx, k, repo, f, seen.PullRequest, seen.Base); err != nil {
			return nil, err
		}
		m.Why = asSentence(m.Why)
		list = append(list, seen, m)
	}
	return list, nil
}

// judge says whether a pull request can be merged, as far as its conflicts go
// by the host's word, and by the rules of the branch where it is to land. The
// host's word holds for its base only: where that is another branch, and where
// the host calls it blocked, we look at the rules for ourselves.
func (c *Client) judge(ctx context.Context, k *conn, repo queue.Repo, f facts, seen queue.PullRequest, branch string) (queue.Mergeability, string, error) {
	value, why := hostsWord(f.pulls[seen.Number])
	blocked := value == queue.MergeabilityUnspecified
	if !blocked && (value != queue.Mergeable || seen.Base == branch) {
		return value, why, nil
	}
	r, err := c.rulesLately(ctx, k, repo, branch)
	if err != nil {
		return value, "", err
	}
	seen.Base = branch
	lacks := r.missing(seen, f.said[seen.Number], nil, f.heads[seen.Number])
	if words := append(append(lacks.words, lacks.pending...), r.unjudged()...); len(words) > 0 {
		return queue.NotMergeable, strings.Join(words, "; "), nil
	}
	return queue.Mergeable, "", nil
}

// asSentence makes a sentence, as people are shown it, of the words of an error.
func asSentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + strings.TrimRight(words[size:], ".") + "."
}

// hostsWord reads the host's own verdict. Unspecified stands for "blocked":
// the host says that to everybody as soon as a rule lets nobody update the
// branch, so we look for ourselves.
func hostsWord(pr *github.PullRequest) (queue.Mergeability, string) {
	state := strings.ToLower(pr.GetMergeableState())
	switch {
	case pr.GetState() != "open":
		return queue.NotMergeable, "the pull request is closed"
	case pr.GetDraft() || state == "draft":
		return queue.NotMergeable, "the pull request is a draft"
	case state == "dirty":
		return queue.NotMergeable, "it has conflicts with its base branch"
	case pr.Mergeable == nil || state == "unknown" || state == "":
		return queue.MergeabilityInProgress, "the host is still computing whether it can be merged"
	case !pr.GetMergeable():
		return queue.NotMergeable, "the host says that it cannot be merged"
	case slices.Contains([]string{"clean", "unstable", "has_hooks", "behind"}, state):
		return queue.Mergeable, ""
	case state == "blocked":
		return queue.MergeabilityUnspecified, ""
	default:
		return queue.MergeabilityInProgress, fmt.Sprintf("the host says %q, which is not known", oneLine(state, 40))
	}
}

// lacking is what the rules of a branch still demand of a pull request.
type lacking struct {
	words   []string // what somebody must do something about
	pending []string // checks that are at work
}

// missing finds what the rules of a pull request's base still demand of it,
// as far as we can judge. said is what people said about it. tested are the reports
// on the commit that is about to land, nil if there is none yet: a check that reported
// there has its say there, any other on the pull request's own head.
func (r rules) missing(pr queue.PullRequest, said reviewed, tested, head []queue.Report) lacking {
	l := missingChecks(r.others(pr.Base), tested, head)
	// Of protection that we may not read we know only the host's decision.
	if r.wantReviews() || r.conversations || len(r.unseen) > 0 {
		l.words = append(l.words, r.missingReviews(said)...)
	}
	return l
}

// missingChecks names required checks that failed or have not ended. One that
// never reported on the head does not hold a pull request back: it may run on
// test branches only.
func missingChecks(need []queue.Required, tested, head []queue.Report) (l lacking) {
	for _, q := range need {
		where := "the tested commit"
		report, there := q.Newest(slices.Values(tested))
		if !there {
			where = "the pull request"
			if report, there = q.Newest(slices.Values(head)); !there {
				continue
			}
		}
		switch report.Outcome() {
		case queue.VerdictPassed:
		case queue.VerdictWaiting:
			l.pending = append(l.pending, fmt.Sprintf("the required check %q has not ended on %s", oneLine(q.Name, 200), where))
		default:
			l.words = append(l.words, fmt.Sprintf("the required check %q has failed on %s", oneLine(q.Name, 200), where))
		}
	}
	return l
}

// missingReviews says which reviews are missing, who wants changes, and which
// conversations are open. The host's decision is the judge: it knows code
// owners, dismissed and stale reviews. Where it decided nothing although a rule
// that we read wants approvals, which it did for some rulesets, they are
// counted here: it errs on the safe side.
func (r rules) missingReviews(said reviewed) (words []string) {
	counted := fmt.Sprintf("%d of %d required approvals", len(said.approved), r.approvals)
	enough := len(said.approved) >= r.approvals
	switch said.decision {
	case "APPROVED":
	case "CHANGES_REQUESTED":
		words = append(words, against(said))
		if !enough {
			words = append(words, counted)
		}
	case "REVIEW_REQUIRED":
		switch {
		case !enough:
			words = append(words, counted)
		case r.codeOwners:
			words = append(words, "an approval by a code owner of the changed files is missing")
		case r.lastPush:
			words = append(words, "the newest push must be approved by somebody who did not push it")
		default:
			words = append(words, "the host still wants an approving review")
		}
	case "":
		if r.wantReviews() && len(said.against) > 0 {
			words = append(words, against(said))
		}
		if !enough {
			words = append(words, counted)
		}
		if r.lastPush {
			words = append(words, "cannot be judged: whether the newest push was approved by somebody else")
		}
	default:
		words = append(words, fmt.Sprintf("the host's review decision is %q, which is not known", oneLine(said.decision, 40)))
	}
	if r.conversations && said.open > 0 {
		words = append(words, fmt.Sprintf("%d %s not resolved", said.open, map[bool]string{true: "conversation is", false: "conversations are"}[said.open == 1]))
	}
	return words
}

// against names who wants changes.
func against(said reviewed) string {
	if len(said.against) == 0 {
		return "changes are requested"
	}
	return strings.Join(said.against, " and ") + " requested changes"
}
