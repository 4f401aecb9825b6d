package github

import (
	"context"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// What somebody can do about a refusal. The host's own words come first and
// are told in full; these stand behind them. A remedy never decides what
// happens next: it is looked up by the host's code, by a field of its answer or
// by a rule that it lists, and where none is known there is none.

// workflowsPermission is what a push of files under .github/workflows needs
// and what the host names, in backticks, when it is missing.
const workflowsPermission = "`workflows` permission"

const grantWorkflows = "give the App the permission workflows: write on its page under Permissions & events, accept it for the organisation, and submit again"

// pushRemedy is what to do about a push to the target that the host refuses.
func (l *landing) pushRemedy(said string) string {
	branch := l.work.Branch
	switch {
	case l.rules.signed && !l.c.signs():
		return "commits on " + branch + " must be signed: set a signing key for Signalbox, or have this queue land through the host (landingMode host)"
	case strings.Contains(said, "GH013"):
		return "add the App to the bypass list of every active ruleset that covers " + branch + ", as Exempt, or have this queue land through the host (landingMode host)"
	case strings.Contains(said, "GH006"):
		return "in the protection of " + branch + ", let the App push and bypass required pull requests, or have this queue land through the host (landingMode host)"
	default:
		return anyPushRemedy(said)
	}
}

// branchRemedy is the same for a test branch.
func branchRemedy(said string) string {
	switch {
	case strings.Contains(said, "GH013"):
		return "exclude signalbox/** from the ruleset, or add the App to its bypass list, as Exempt"
	case strings.Contains(said, "GH006"):
		return "make the branch protection not match signalbox/**, or let the App push there"
	default:
		return anyPushRemedy(said)
	}
}

func anyPushRemedy(said string) string {
	switch {
	case strings.Contains(said, workflowsPermission):
		return grantWorkflows
	case strings.Contains(said, "GH001"):
		return "take the large file out of the pull request's commits, or keep it in Git LFS"
	default:
		return ""
	}
}

// mergeRemedy is what to do about a merge call that the host refuses.
func (l *landing) mergeRemedy(ctx context.Context, outcome error) string {
	if need := missingPermission(outcome); need != "" {
		return "give the App the permission " + need
	}
	if statusOf(outcome) == http.StatusForbidden {
		return "give the App the permissions contents: write and pull requests: write, and workflows: write for pull requests that change workflows"
	}
	if statusOf(outcome) != http.StatusMethodNotAllowed {
		return ""
	}
	var repo github.Repository
	if _, err := l.k.call(ctx, http.MethodGet, at(l.repo), nil, &repo); err == nil {
		allowed := map[queue.MergeMethod]*bool{queue.MergeCommit: repo.AllowMergeCommit, queue.Squash: repo.AllowSquashMerge, queue.Rebase: repo.AllowRebaseMerge}[l.work.Method]
		if allowed != nil && !*allowed {
			return "allow the method " + methodNames[l.work.Method] + " in the repository's settings under General, or set another mergeMethod for this queue"
		}
	}
	if l.rules.strict() {
		return "the rules want a pull request to be up to date before it merges, which a queue does for it: turn that off for " + l.work.Branch + ", or make the App exempt from the rule"
	}
	return "meet the rules of " + l.work.Branch + ", or make the App exempt from them"
}

// withRemedy puts what to do behind what happened.
func withRemedy(what, todo string) string {
	if todo == "" {
		return what
	}
	return strings.TrimRight(what, ". \n") + ". What to do: " + todo
}
