package webhook

import (
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// comment finds what a comment on a pull request asks for: a command when it is
// made, and our checkbox when a person ticks it. Any other edit is none, so
// that nobody's old text can be turned into a command of theirs.
func (tr translator) comment(e *github.IssueCommentEvent, now time.Time) []queue.Fact {
	c := e.GetComment()
	if e.Issue == nil || !e.Issue.IsPullRequest() || e.Issue.GetNumber() <= 0 ||
		e.Sender == nil || tr.ours(e.GetSender(), c.GetBody()) {
		return nil
	}
	ask := queue.CommandAsked{PR: int64(e.Issue.GetNumber()), Comment: c.GetID(), By: actor(e.GetSender())}
	switch e.GetAction() {
	case "created":
		command, ok := ParseCommand(c.GetBody(), tr.prefixes)
		if !ok {
			return nil
		}
		ask.At, ask.Command = moment(c.GetCreatedAt(), now), command
	case "edited":
		if !tr.ours(c.GetUser(), c.GetBody()) || !tr.tickedNow(e) {
			return nil
		}
		ask.At = moment(c.GetUpdatedAt(), now)
		ask.Command = queue.Command{Verb: queue.VerbMerge, Text: "(the checkbox)"}
	default:
		return nil
	}
	return []queue.Fact{ask}
}

// review translates a review: it changes what stands between a pull request
// and its base, and its text may hold a command.
func (tr translator) review(e *github.PullRequestReviewEvent, now time.Time) []queue.Fact {
	switch e.GetAction() {
	case "submitted", "edited", "dismissed":
	default:
		return nil
	}
	facts := doubted(e.GetPullRequest())
	r := e.GetReview()
	if len(facts) == 0 || e.GetAction() != "submitted" || e.Sender == nil || tr.ours(e.GetSender(), r.GetBody()) {
		return facts
	}
	command, ok := ParseCommand(r.GetBody(), tr.prefixes)
	if !ok {
		return facts
	}
	return append(facts, queue.CommandAsked{
		PR: int64(e.GetPullRequest().GetNumber()), Review: r.GetID(), By: actor(e.GetSender()),
		At: moment(r.GetSubmittedAt(), now), Command: command,
	})
}

// ours reports whether u is our App, by its name or, because the name may not
// be known, as a bot that writes our marker. A person who copies the marker
// stays a person.
func (tr translator) ours(u *github.User, body string) bool {
	return tr.own(u) || (u.GetType() == "Bot" && tr.marker != "" && strings.Contains(body, tr.marker))
}

// tickedNow reports whether an edit of our comment ticked its box. Without the
// text from before it is not known, and not knowing is no.
func (tr translator) tickedNow(e *github.IssueCommentEvent) bool {
	body := e.GetComment().GetBody()
	before := e.GetChanges().GetBody()
	return tr.marker != "" && strings.Contains(body, tr.marker) &&
		before != nil && before.From != nil && !tr.ticked(*before.From) && tr.ticked(body)
}

// ticked reports whether the box that submits is ticked in a text of ours.
func (tr translator) ticked(body string) bool {
	for raw := range strings.Lines(body) {
		item := strings.TrimSpace(raw)
		for _, bullet := range []string{"- ", "* ", "+ "} {
			box, ok := strings.CutPrefix(item, bullet)
			if ok && strings.HasPrefix(strings.ToLower(box), "[x]") && strings.Contains(box, tr.checkbox) {
				return true
			}
		}
	}
	return false
}

// moment is the host's time of something, else ours.
func moment(t github.Timestamp, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t.UTC()
}
