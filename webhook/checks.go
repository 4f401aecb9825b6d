package webhook

import (
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// checkRunEvent is what we read of a check_run payload. Most webhooks are of this
// kind, hundreds for each run of CI, and of their six kilobytes and more this is
// a twentieth: decoding all of it, as go-github's type does, took a third of the
// processor time of the whole server, and this much with encoding/json, which
// reads everything twice, a quarter.
type checkRunEvent struct {
	Action string `json:"action"`
	Check  struct {
		ID          int64             `json:"id"`
		Name        string            `json:"name"`
		HeadSHA     string            `json:"head_sha"`
		Status      string            `json:"status"`
		Conclusion  string            `json:"conclusion"`
		HTMLURL     string            `json:"html_url"`
		StartedAt   *github.Timestamp `json:"started_at"`
		CompletedAt *github.Timestamp `json:"completed_at"`
		App         struct {
			ID int64 `json:"id"`
		} `json:"app"`
		Suite struct {
			ID int64 `json:"id"`
		} `json:"check_suite"`
	} `json:"check_run"`
	Repository struct {
		ID int64 `json:"id"`
	} `json:"repository"`
}

// checkRun reports a check run. A rerequested one says nothing yet: the rerun
// makes reports of its own.
func (tr translator) checkRun(e *checkRunEvent) []queue.Fact {
	run := &e.Check
	switch e.Action {
	case "created", "completed":
	default:
		return nil
	}
	if tr.ownApp(run.App.ID) {
		return nil
	}
	r := queue.Report{
		Kind:   queue.CheckRun,
		Name:   line(run.Name, maxName),
		AppID:  run.App.ID,
		Suite:  run.Suite.ID,
		ID:     run.ID,
		Status: word(run.Status),
		URL:    link(run.HTMLURL),
	}
	for _, at := range []*github.Timestamp{run.StartedAt, run.CompletedAt} {
		if at != nil && !at.IsZero() {
			r.At = at.UTC()
		}
	}
	// A conclusion of something that has not ended is left over from before.
	if r.Status == "completed" {
		r.Result = word(run.Conclusion)
	}
	return reported(run.HeadSHA, r)
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
