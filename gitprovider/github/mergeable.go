package github

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Mergeability reads what stands between a pull request and its base, see
// gitprovider.Reader. The host computes it in the background: the first read
// starts that, and in_progress is the answer until it is done.
func (c *Client) Mergeability(ctx context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, queue.MergeabilitySeen, error) {
	k, err := c.conn(repo)
	if err != nil {
		return queue.PullRequestSeen{}, queue.MergeabilitySeen{}, err
	}
	pr, seen, err := c.pull(ctx, k, repo, number)
	if err != nil {
		return seen, queue.MergeabilitySeen{}, err
	}
	m := queue.MergeabilitySeen{PR: number, Head: seen.Head}
	m.Value, m.Why = hostsWord(pr)
	if m.Value == queue.MergeabilityUnspecified { // blocked: by what?
		r, err := c.rulesOf(ctx, k, repo, seen.Base)
		if err != nil {
			return seen, queue.MergeabilitySeen{}, err
		}
		lacks, err := c.missing(ctx, k, repo, seen.PullRequest, r, nil)
		if err != nil {
			return seen, queue.MergeabilitySeen{}, err
		}
		words := append(append(lacks.words, lacks.pending...), r.unjudged()...)
		m.Value, m.Why = queue.Mergeable, ""
		if len(words) > 0 {
			m.Value, m.Why = queue.NotMergeable, strings.Join(words, "; ")
		}
	}
	m.Why = asSentence(m.Why)
	return seen, m, nil
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
// as far as we can judge. tested are the reports on the commit that is about
// to land, nil if there is none yet: a check that reported there has its say there.
func (c *Client) missing(ctx context.Context, k *conn, repo queue.Repo, pr queue.PullRequest, r rules, tested []queue.Report) (lacking, error) {
	l, err := c.missingChecks(ctx, k, repo, pr, r.others(pr.Base), tested)
	if err == nil && r.approvals > 0 {
		err = c.missingReviews(ctx, k, repo, pr, r.approvals, &l)
	}
	return l, err
}

// missingChecks names required checks that failed or have not ended. One that
// never reported on the head does not hold a pull request back: it may run on
// test branches only.
func (c *Client) missingChecks(ctx context.Context, k *conn, repo queue.Repo, pr queue.PullRequest, need []queue.Required, tested []queue.Report) (l lacking, err error) {
	var head []queue.Report
	asked := false
	for _, q := range need {
		where, there := "the tested commit", verdict(tested, q)
		if there == "" {
			if !asked {
				if head, err = c.checks(ctx, k, repo, pr.Head); err != nil {
					return l, err
				}
				asked = true
			}
			where, there = "the pull request", verdict(head, q)
		}
		switch there {
		case "failed":
			l.words = append(l.words, fmt.Sprintf("the required check %q has failed on %s", oneLine(q.Name, 200), where))
		case "pending":
			l.pending = append(l.pending, fmt.Sprintf("the required check %q has not ended on %s", oneLine(q.Name, 200), where))
		}
	}
	return l, nil
}

// verdict is what the reports say about one required check: passed, pending,
// failed, or "" for nothing. Where several Apps report one name, the worst counts.
func verdict(reports []queue.Report, q queue.Required) string {
	worst := ""
	for _, r := range reports {
		if r.Name != q.Name || q.AppID != 0 && r.AppID != 0 && r.AppID != q.AppID {
			continue
		}
		switch {
		case r.Result == "" || r.Status != "" && r.Status != "completed":
			if worst != "failed" {
				worst = "pending"
			}
		case r.Result == "success" || r.Result == "neutral" || r.Result == "skipped":
			if worst == "" {
				worst = "passed"
			}
		default:
			worst = "failed"
		}
	}
	return worst
}

// missingReviews says how many approvals are missing and who wants changes.
// The last word of each reviewer counts, if the reviewer may write: others'
// reviews do not count on the host either.
func (c *Client) missingReviews(ctx context.Context, k *conn, repo queue.Repo, pr queue.PullRequest, need int, l *lacking) error {
	last := map[int64]*github.PullRequestReview{}
	var order []int64
	err := pages(ctx, k, at(repo, "pulls", pr.Number, "reviews"), func(page []*github.PullRequestReview) error {
		for _, review := range page {
			id := review.GetUser().GetID()
			switch strings.ToUpper(review.GetState()) {
			case "APPROVED", "CHANGES_REQUESTED", "DISMISSED":
				if last[id] == nil {
					order = append(order, id)
				}
				last[id] = review
			}
		}
		return nil
	})
	if err != nil {
		return explain(err, "read the reviews of pull request %d of %s", pr.Number, repo)
	}
	approvals := 0
	for _, id := range order {
		state := strings.ToUpper(last[id].GetState())
		if state == "DISMISSED" || id == 0 {
			continue
		}
		may, err := c.Permission(ctx, repo, actor(last[id].GetUser()))
		if err != nil {
			return err
		}
		switch {
		case may < gitprovider.WritePermission:
		case state == "APPROVED":
			approvals++
		default:
			l.words = append(l.words, "@"+oneLine(last[id].GetUser().GetLogin(), 100)+" requested changes")
		}
	}
	if approvals < need {
		l.words = append(l.words, fmt.Sprintf("%d of %d required approvals", approvals, need))
	}
	return nil
}
