package webhook

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/queue"
)

// translation is what one delivery says.
type translation struct {
	repo        int64 // the host's number of the repository that the facts are about
	facts       []queue.Fact
	connections []account.Connection
	// once, if not empty, is what to remember it by in place of the delivery's
	// id: it can become known in another way than by a delivery.
	once string
}

// empty reports whether there is nothing to store. Facts without a repository
// have nowhere to go.
func (t translation) empty() bool {
	return len(t.connections) == 0 && (len(t.facts) == 0 || t.repo == 0)
}

// translator turns payloads into facts. It is pure: what it says depends on
// its fields, the payload and the time that it is given.
type translator struct {
	host     string
	appID    int64
	appSlug  string
	marker   string
	checkbox string
	prefixes []string
}

// used reports whether translate has a case for the event.
func used(name string) bool {
	switch name {
	case "issue_comment", "pull_request", "pull_request_review", "pull_request_review_thread",
		"check_run", "check_suite", "status", "workflow_run", "push",
		"branch_protection_rule", "repository_ruleset", "repository",
		"installation", "installation_repositories":
		return true
	}
	return false
}

// metricName is the event for metrics and logs: a name that we know, else
// "other", because anything can stand in a header.
func metricName(name string) string {
	if used(name) || name == "ping" {
		return name
	}
	return "other"
}

// translate says what an event means. It is one table: event and action on the
// left, facts on the right. Actions without a row mean nothing to us.
func (tr translator) translate(event any, now time.Time) translation {
	switch e := event.(type) {
	case *github.IssueCommentEvent:
		said := about(e.GetRepo(), tr.comment(e, now)...)
		if e.GetAction() == "created" && e.GetComment().GetID() != 0 {
			said.once = fmt.Sprintf("comment-%d", e.GetComment().GetID())
		}
		return said
	case *github.PullRequestEvent:
		return about(e.GetRepo(), tr.pullRequest(e, now)...)
	case *github.PullRequestReviewEvent:
		return about(e.GetRepo(), tr.review(e, now)...)
	case *github.PullRequestReviewThreadEvent:
		switch e.GetAction() {
		case "resolved", "unresolved":
			return about(e.GetRepo(), doubted(e.GetPullRequest())...)
		}
	case *checkRunEvent:
		return translation{repo: e.Repository.ID, facts: tr.checkRun(e)}
	case *github.CheckSuiteEvent:
		suite := e.GetCheckSuite()
		if e.GetAction() == "completed" && !tr.ownApp(suite.GetApp().GetID()) {
			return about(e.GetRepo(), checksDoubted(suite.GetHeadSHA())...)
		}
	case *github.WorkflowRunEvent:
		if e.GetAction() == "completed" {
			return about(e.GetRepo(), checksDoubted(e.GetWorkflowRun().GetHeadSHA())...)
		}
	case *github.StatusEvent:
		return about(e.GetRepo(), status(e)...)
	case *github.PushEvent:
		return translation{repo: e.GetRepo().GetID(), facts: push(e)}
	case *github.BranchProtectionRuleEvent:
		switch e.GetAction() {
		case "created", "edited", "deleted":
			return about(e.GetRepo(), queue.RulesChanged{})
		}
	case *rulesetEvent:
		return e.translate(tr.host)
	case *github.RepositoryEvent:
		return tr.repository(e)
	case *github.InstallationEvent:
		return tr.installation(e)
	case *github.InstallationRepositoriesEvent:
		return tr.installationRepositories(e)
	}
	return translation{}
}

func about(repo *github.Repository, facts ...queue.Fact) translation {
	return translation{repo: repo.GetID(), facts: facts}
}

// rulesetEvent is what we read of a repository_ruleset payload. That of a
// ruleset of a whole organisation comes without a repository.
type rulesetEvent struct {
	Action     string `json:"action"`
	Repository struct {
		ID int64 `json:"id"`
	} `json:"repository"`
	Organization struct {
		Login string `json:"login"`
	} `json:"organization"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
}

func (e *rulesetEvent) translate(host string) translation {
	switch e.Action {
	case "created", "edited", "deleted":
	default:
		return translation{}
	}
	if e.Repository.ID != 0 {
		return translation{repo: e.Repository.ID, facts: []queue.Fact{queue.RulesChanged{}}}
	}
	return connected(account.Connection{
		Installation: account.Installation{ID: e.Installation.ID, Host: host, Account: line(e.Organization.Login, maxLogin)},
		RulesChanged: true,
	})
}

// testBranches is where the branches of runs are. Only there a push can be to
// one; anywhere else it can only be to a target.
const testBranches = "signalbox/"

// push says that a branch moved. A tag is nothing to us.
func push(e *github.PushEvent) []queue.Fact {
	name := branch(e.GetRef())
	if name == "" {
		return nil
	}
	after := existing(e.GetAfter())
	if after == "" && !e.GetDeleted() && commit(e.GetAfter()) == "" {
		return nil // neither a commit nor a deletion: nothing that we understand
	}
	facts := []queue.Fact{queue.TargetMoved{Branch: name, Before: existing(e.GetBefore()), After: after}}
	if strings.HasPrefix(name, testBranches) {
		facts = append(facts, queue.TestBranchMoved{Branch: name, After: after})
	}
	return facts
}

// actor is who did something; nobody (an account that is gone) is ghost.
func actor(u *github.User) queue.Actor {
	login := line(u.GetLogin(), maxLogin)
	if login == "" {
		return queue.Actor{Login: "ghost"}
	}
	return queue.Actor{Login: login, ID: u.GetID(), Bot: u.GetType() == "Bot"}
}

// own reports whether u is our App.
func (tr translator) own(u *github.User) bool {
	return tr.appSlug != "" && strings.EqualFold(u.GetLogin(), tr.appSlug+"[bot]")
}

// ownApp reports whether an App's number is ours.
func (tr translator) ownApp(id int64) bool { return tr.appID != 0 && id == tr.appID }
