package webhook

import (
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// checkRun reports a check run. A rerequested one says nothing yet: the rerun
// makes reports of its own.
func (tr translator) checkRun(e *github.CheckRunEvent) []queue.Fact {
	run := e.GetCheckRun()
	switch e.GetAction() {
	case "created", "completed":
	default:
		return nil
	}
	if tr.ownApp(run.GetApp()) {
		return nil
	}
	r := queue.Report{
		Kind:   queue.CheckRun,
		Name:   line(run.GetName(), maxName),
		AppID:  run.GetApp().GetID(),
		Suite:  run.GetCheckSuite().GetID(),
		ID:     run.GetID(),
		Status: word(run.GetStatus()),
		URL:    link(run.GetHTMLURL()),
		At:     run.GetStartedAt().UTC(),
	}
	if done := run.GetCompletedAt(); !done.IsZero() {
		r.At = done.UTC()
	}
	// A conclusion of something that has not ended is left over from before.
	if r.Status == "completed" {
		r.Result = word(run.GetConclusion())
	}
	return reported(run.GetHeadSHA(), r)
}

// status reports a commit status.
func status(e *github.StatusEvent) []queue.Fact {
	r := queue.Report{
		Kind:   queue.CommitStatus,
		Name:   line(e.GetContext(), maxName),
		ID:     e.GetID(),
		Result: word(e.GetState()),
		AppID:  account.AppOfPicture(e.GetSender().GetAvatarURL()), // who sends it made it
		URL:    link(e.GetTargetURL()),
		At:     e.GetUpdatedAt().UTC(),
	}
	if r.At.IsZero() {
		r.At = e.GetCreatedAt().UTC()
	}
	return reported(e.GetSHA(), r)
}

// reported is a report that can be believed, or a doubt about its commit.
func reported(sha string, r queue.Report) []queue.Fact {
	sha = existing(sha)
	if sha == "" {
		return nil
	}
	if r.Name == "" || r.ID == 0 {
		return checksDoubted(sha)
	}
	return []queue.Fact{queue.CheckReported{Commit: sha, Report: r}}
}

// checksDoubted asks for the reports of a commit to be read: a suite or a
// workflow has ended, maybe before the last of its runs was told.
func checksDoubted(sha string) []queue.Fact {
	if sha = existing(sha); sha == "" {
		return nil
	}
	return []queue.Fact{queue.ChecksDoubted{Commit: sha}}
}

// word is a value of an enumeration, in lower case. It may be one that did not
// exist when this was written.
func word(text string) string { return strings.ToLower(line(text, 40)) }
