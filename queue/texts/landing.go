package texts

import (
	"fmt"
	"net/url"
	"strings"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Landed is the comment on a pull request that landed in a way in which the
// host cannot see a merge, so that we close it. web is the address of the
// repository on the host. It carries LandedMarker.
func Landed(web, branch, commit string) string {
	return fmt.Sprintf("%s\nThis landed on %s as %s. The Git host cannot see that it is merged, therefore Signalbox closes it.\n",
		LandedMarker(commit), quoted(branch), link(short(commit), web+"/commit/"+url.PathEscape(commit)))
}

// LandedMarker is how that comment is found again.
func LandedMarker(commit string) string { return "<!-- signalbox:landed:" + commit + " -->" }

// Landing is our own check at the moment when a rule of the host must see it
// passed: on the commit of a pull request, or on the one that was tested.
func Landing(branch, commit string) gitprovider.Status {
	return gitprovider.Status{
		Commit: commit, Name: gitprovider.OwnCheck(branch), Status: "completed", Conclusion: "success",
		Title: "landing", Summary: "Its tests passed, and it is being landed.",
	}
}

// DraftTitle and DraftBody are what the draft pull request of a test branch
// says. web is the address of the repository on the host. The body links the
// pull requests that are tested without mentioning them: a mention would put a
// line into the timeline of each, for every run. github.com makes one of every
// link to itself, too, except by another name.
func DraftTitle(run queue.BuildRun) string { return run.Branch }

// DraftBody is described at DraftTitle.
func DraftBody(web string, run queue.BuildRun) string {
	if rest, ok := strings.CutPrefix(web, "https://github.com/"); ok {
		web = "https://redirect.github.com/" + rest
	}
	var b lines
	to := func(pr int64) string {
		return link(fmt.Sprintf("pull request %d", pr), fmt.Sprintf("%s/pull/%d", web, pr))
	}
	b.line("Signalbox tests here what would land. It closes this pull request when the test ends; please do not merge it or push to it.")
	b.line("")
	b.line("Under test:")
	for i, s := range run.Chain {
		ahead := ""
		if i < len(run.Chain)-run.Own {
			ahead = " (ahead in the queue)"
		}
		b.line("- %s%s", to(s.PR), ahead)
		for _, u := range s.Stack {
			b.line("  - with it %s", to(u.PR))
		}
	}
	return b.String()
}
