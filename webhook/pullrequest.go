package webhook

import (
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// pullRequest translates what happened to a pull request.
func (tr translator) pullRequest(e *github.PullRequestEvent, now time.Time) []queue.Fact {
	pr := e.GetPullRequest()
	switch e.GetAction() {
	case "opened", "edited", "synchronize", "closed", "converted_to_draft", "ready_for_review":
		return tr.seen(pr, e.GetRepo())
	case "reopened":
		// It may come back with another base, or after a merge that we know of.
		return append(tr.seen(pr, e.GetRepo()), doubted(pr)...)
	case "labeled", "unlabeled":
		facts := tr.seen(pr, e.GetRepo())
		if tr.own(e.GetSender()) { // our state labels are nobody's rule
			return facts
		}
		return append(append(facts, doubted(pr)...), tr.label(e, now)...)
	}
	return nil
}

// label says which label was given or taken away, and by whom: it may be the
// one that queues. Whether it is, and who may, is looked at when it is answered.
func (tr translator) label(e *github.PullRequestEvent, now time.Time) []queue.Fact {
	pr, name := e.GetPullRequest(), line(e.GetLabel().GetName(), maxLabel)
	if e.Sender == nil || name == "" || pr.GetNumber() <= 0 || !validBranch(pr.GetBase().GetRef()) || pr.GetState() != "open" {
		return nil
	}
	return []queue.Fact{queue.CommandAsked{
		PR: int64(pr.GetNumber()), By: actor(e.GetSender()), At: moment(pr.GetUpdatedAt(), now),
		Label: &queue.LabelMoved{Name: name, Gone: e.GetAction() == "unlabeled", Base: pr.GetBase().GetRef()},
	}}
}

// seen is the state of a pull request. What cannot be understood whole is not
// half believed: it only raises a doubt, so that the host is asked.
func (tr translator) seen(pr *github.PullRequest, repo *github.Repository) []queue.Fact {
	p, ok := pullRequest(pr, repo)
	if !ok {
		return doubted(pr)
	}
	seen := queue.PullRequestSeen{PullRequest: p}
	if p.Merged && tr.own(pr.GetMergedBy()) {
		seen.Landed = existing(pr.GetMergeCommitSHA())
	}
	return []queue.Fact{seen}
}

// doubted says that something about a pull request may have changed.
func doubted(pr *github.PullRequest) []queue.Fact {
	if pr.GetNumber() <= 0 {
		return nil
	}
	return []queue.Fact{queue.PullRequestDoubted{PR: int64(pr.GetNumber())}}
}

// pullRequest reads a pull request; ok is false when something that decisions
// need is missing or is not what we know.
func pullRequest(pr *github.PullRequest, repo *github.Repository) (p queue.PullRequest, ok bool) {
	if pr == nil {
		return queue.PullRequest{}, false
	}
	p = queue.PullRequest{
		Number:      int64(pr.GetNumber()),
		Title:       line(pr.GetTitle(), maxTitle),
		URL:         link(pr.GetHTMLURL()),
		Author:      actor(pr.GetUser()),
		Head:        existing(pr.GetHead().GetSHA()),
		HeadRef:     line(pr.GetHead().GetRef(), maxBranch),
		Fork:        fork(pr, repo),
		Base:        pr.GetBase().GetRef(),
		Draft:       pr.GetDraft(),
		Open:        pr.GetState() == "open",
		Merged:      pr.GetMerged() || pr.MergedAt != nil,
		Labels:      labels(pr.Labels),
		CommitTitle: MergeTitle(pr.GetBody()),
		UpdatedAt:   pr.GetUpdatedAt().UTC(),
	}
	known := pr.GetState() == "open" || pr.GetState() == "closed"
	ok = known && p.Number > 0 && p.Head != "" && validBranch(p.Base) && !p.UpdatedAt.IsZero()
	return p, ok
}

// fork reports whether the head is in another repository than the base. A head
// repository that is gone was a fork.
func fork(pr *github.PullRequest, repo *github.Repository) bool {
	base := pr.GetBase().GetRepo().GetID()
	if base == 0 {
		base = repo.GetID()
	}
	return pr.GetHead().GetRepo().GetID() != base
}

func labels(list []*github.Label) []string {
	var names []string
	for _, l := range list {
		if name := line(l.GetName(), maxLabel); name != "" && len(names) < maxLabels {
			names = append(names, name)
		}
	}
	return names
}
