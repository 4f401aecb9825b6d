package report

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"signalbox/flaky"
)

// ciSystem is how to see that a job runs in a CI system, and what it says.
type ciSystem struct {
	name   string
	marker string // a variable that only it sets
	facts  func(env) flaky.Facts
}

// env gives the value of a variable and "" if it is not set.
type env func(string) string

// first is the value of the first variable that is set.
func (e env) first(names ...string) string {
	for _, name := range names {
		if v := e(name); v != "" {
			return v
		}
	}
	return ""
}

func (e env) number(names ...string) int {
	n, _ := strconv.Atoi(e.first(names...)) // 0 is unknown
	return max(n, 0)
}

// systems are the CI systems that are known, in the order in which they are
// looked for.
var systems = []ciSystem{
	{"GitHub Actions", "GITHUB_ACTIONS", github},
	{"GitLab CI", "GITLAB_CI", gitlab},
	{"CircleCI", "CIRCLECI", circle},
	{"Buildkite", "BUILDKITE", buildkite},
	{"Azure Pipelines", "TF_BUILD", azure},
	{"Jenkins", "JENKINS_URL", jenkins},
}

// variables are all that is looked at. Nothing else of an environment is ever
// read, sent or kept.
var variables = []string{
	"GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_REF", "GITHUB_REF_NAME", "GITHUB_HEAD_REF", "GITHUB_BASE_REF",
	"GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "GITHUB_EVENT_NAME",
	"GITLAB_CI", "CI_SERVER_HOST", "CI_PROJECT_NAMESPACE", "CI_PROJECT_NAME", "CI_PROJECT_PATH", "CI_COMMIT_SHA", "CI_COMMIT_REF_NAME", "CI_PIPELINE_ID", "CI_JOB_NAME", "CI_JOB_URL",
	"CI_MERGE_REQUEST_IID", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "CI_NODE_INDEX",
	"CI_EXTERNAL_PULL_REQUEST_IID", "CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY", "CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY", "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME",
	"CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA", "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME", "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA",
	"CIRCLECI", "CIRCLE_REPOSITORY_URL", "CIRCLE_SHA1", "CIRCLE_BRANCH", "CIRCLE_WORKFLOW_ID", "CIRCLE_JOB", "CIRCLE_NODE_INDEX", "CIRCLE_BUILD_URL", "CIRCLE_PULL_REQUEST", "CIRCLE_PR_NUMBER",
	"BUILDKITE", "BUILDKITE_REPO", "BUILDKITE_COMMIT", "BUILDKITE_BRANCH", "BUILDKITE_BUILD_ID", "BUILDKITE_STEP_ID", "BUILDKITE_STEP_KEY", "BUILDKITE_LABEL", "BUILDKITE_RETRY_COUNT",
	"BUILDKITE_BUILD_URL", "BUILDKITE_PULL_REQUEST", "BUILDKITE_PULL_REQUEST_BASE_BRANCH", "BUILDKITE_PULL_REQUEST_REPO", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PIPELINE_SLUG",
	"TF_BUILD", "BUILD_REPOSITORY_URI", "BUILD_SOURCEVERSION", "BUILD_SOURCEBRANCH", "BUILD_BUILDID", "SYSTEM_JOBNAME", "SYSTEM_JOBATTEMPT", "SYSTEM_JOBDISPLAYNAME", "BUILD_DEFINITIONNAME",
	"SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_SOURCEBRANCH", "SYSTEM_PULLREQUEST_SOURCECOMMITID", "SYSTEM_PULLREQUEST_TARGETBRANCH", "SYSTEM_PULLREQUEST_ISFORK",
	"JENKINS_URL", "GIT_URL", "GIT_COMMIT", "GIT_BRANCH", "BUILD_TAG", "BUILD_URL", "JOB_NAME", "STAGE_NAME", "CHANGE_ID", "CHANGE_BRANCH", "CHANGE_TARGET", "CHANGE_FORK", "BRANCH_NAME",
}

// KnownVariable reports whether a variable of the environment is looked at.
func KnownVariable(name string) bool { return slices.Contains(variables, name) }

// FactsOf asks the environment of a job what it knows. The generic names that
// upload takes as flags come on top of it.
func FactsOf(get func(string) string) flaky.Facts {
	e := env(func(name string) string {
		if !KnownVariable(name) {
			return ""
		}
		return strings.TrimSpace(get(name))
	})
	for _, s := range systems {
		if e(s.marker) == "" {
			continue
		}
		f := s.facts(e)
		f.CI = s.name
		f.Branch = strings.TrimPrefix(f.Branch, "refs/heads/")
		f.Target = strings.TrimPrefix(f.Target, "refs/heads/")
		f.Attempt = max(f.Attempt, 1)
		return f
	}
	return flaky.Facts{}
}

func github(e env) flaky.Facts {
	f := flaky.Facts{Commit: e("GITHUB_SHA"), Branch: e.first("GITHUB_HEAD_REF", "GITHUB_REF_NAME"), Attempt: e.number("GITHUB_RUN_ATTEMPT"),
		Job: joinJob(e("GITHUB_RUN_ID"), e("GITHUB_JOB")), Check: e("GITHUB_JOB"), Target: e("GITHUB_BASE_REF")}
	f.Host = hostOf(e("GITHUB_SERVER_URL"))
	f.Owner, f.Name, _ = strings.Cut(e("GITHUB_REPOSITORY"), "/")
	if e("GITHUB_RUN_ID") != "" {
		f.Link = e("GITHUB_SERVER_URL") + "/" + e("GITHUB_REPOSITORY") + "/actions/runs/" + e("GITHUB_RUN_ID")
	}
	// refs/pull/7/merge: what is checked out is the merge with the base.
	if rest, ok := strings.CutPrefix(e("GITHUB_REF"), "refs/pull/"); ok {
		number, _, _ := strings.Cut(rest, "/")
		f.Pull, _ = strconv.Atoi(number)
	}
	return f
}

func gitlab(e env) flaky.Facts {
	f := flaky.Facts{Host: e("CI_SERVER_HOST"), Owner: e("CI_PROJECT_NAMESPACE"), Name: e("CI_PROJECT_NAME"), Commit: e("CI_COMMIT_SHA"),
		Branch: e.first("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"), Head: e("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), Base: e("CI_MERGE_REQUEST_TARGET_BRANCH_SHA"),
		Pull: e.number("CI_MERGE_REQUEST_IID"), Target: e("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"), Job: joinJob(e("CI_PIPELINE_ID"), e("CI_JOB_NAME")), Check: e("CI_JOB_NAME"), Link: e("CI_JOB_URL")}
	source := e("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH")
	f.Fork = source != "" && source != e("CI_PROJECT_PATH")
	if n := e.number("CI_EXTERNAL_PULL_REQUEST_IID"); n > 0 { // GitLab's CI for a repository on GitHub: its own project is a mirror
		f.Host, f.Pull, f.Target = "github.com", n, e("CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME")
		f.Owner, f.Name, _ = strings.Cut(e("CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY"), "/")
		f.Branch, f.Head, f.Base = e("CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME"), e("CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA"), e("CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA")
		f.Fork = !strings.EqualFold(e("CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY"), e("CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY"))
	}
	return f
}

func circle(e env) flaky.Facts {
	f := flaky.Facts{Commit: e("CIRCLE_SHA1"), Branch: e("CIRCLE_BRANCH"), Job: joinJob(e("CIRCLE_WORKFLOW_ID"), e("CIRCLE_JOB"), e("CIRCLE_NODE_INDEX")),
		Check: prefixed("ci/circleci: ", e("CIRCLE_JOB")), Link: e("CIRCLE_BUILD_URL"), Pull: e.number("CIRCLE_PR_NUMBER"), Fork: e("CIRCLE_PR_NUMBER") != ""}
	if f.Pull == 0 {
		f.Pull, _ = strconv.Atoi(lastPart(e("CIRCLE_PULL_REQUEST")))
	}
	f.Host, f.Owner, f.Name = SplitURL(e("CIRCLE_REPOSITORY_URL"))
	return f
}

func buildkite(e env) flaky.Facts {
	f := flaky.Facts{Commit: e("BUILDKITE_COMMIT"), Branch: e("BUILDKITE_BRANCH"), Job: joinJob(e("BUILDKITE_BUILD_ID"), e.first("BUILDKITE_STEP_ID", "BUILDKITE_STEP_KEY"), e("BUILDKITE_PARALLEL_JOB")),
		Check: prefixed("buildkite/", e("BUILDKITE_PIPELINE_SLUG")), Link: e("BUILDKITE_BUILD_URL"), Pull: e.number("BUILDKITE_PULL_REQUEST"), Target: e("BUILDKITE_PULL_REQUEST_BASE_BRANCH"), Attempt: e.number("BUILDKITE_RETRY_COUNT") + 1}
	f.Host, f.Owner, f.Name = SplitURL(e("BUILDKITE_REPO"))
	if from := e("BUILDKITE_PULL_REQUEST_REPO"); from != "" {
		_, owner, name := SplitURL(from)
		f.Fork = owner != f.Owner || name != f.Name
	}
	return f
}

func azure(e env) flaky.Facts {
	f := flaky.Facts{Commit: e("BUILD_SOURCEVERSION"), Branch: strings.TrimPrefix(e.first("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH"), "refs/heads/"), Head: e("SYSTEM_PULLREQUEST_SOURCECOMMITID"),
		Job: joinJob(e("BUILD_BUILDID"), e("SYSTEM_JOBNAME")), Check: e("BUILD_DEFINITIONNAME"), Attempt: e.number("SYSTEM_JOBATTEMPT"),
		Pull: e.number("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER"), Target: e("SYSTEM_PULLREQUEST_TARGETBRANCH"), Fork: strings.EqualFold(e("SYSTEM_PULLREQUEST_ISFORK"), "true")}
	f.Host, f.Owner, f.Name = SplitURL(e("BUILD_REPOSITORY_URI"))
	return f
}

func jenkins(e env) flaky.Facts {
	f := flaky.Facts{Commit: e("GIT_COMMIT"), Branch: strings.TrimPrefix(e.first("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"), "origin/"),
		Job: joinJob(e("BUILD_TAG"), e("STAGE_NAME")), Check: e("JOB_NAME"), Link: e("BUILD_URL"), Pull: e.number("CHANGE_ID"), Target: e("CHANGE_TARGET"), Fork: e("CHANGE_FORK") != ""}
	f.Host, f.Owner, f.Name = SplitURL(e("GIT_URL"))
	return f
}

// joinJob names a job; "" if its run is not known.
func joinJob(run string, parts ...string) string {
	if run == "" {
		return ""
	}
	for _, p := range parts {
		if p != "" {
			run += "/" + p
		}
	}
	return run
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func lastPart(text string) string { return text[strings.LastIndexByte(text, '/')+1:] }

func hostOf(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return u.Host
}

// SplitURL takes the address of a git remote apart: an URL, or the short form of
// ssh (git@host:owner/name.git). All three are "" if it is neither.
func SplitURL(remote string) (host, owner, name string) {
	remote = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(remote), "/"), ".git")
	path := ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if before, after, ok := strings.Cut(remote, ":"); ok && !strings.Contains(before, "/") {
		host, path = before[strings.LastIndexByte(before, '@')+1:], after
	}
	path = strings.Trim(path, "/")
	if i := strings.LastIndexByte(path, '/'); i > 0 && host != "" {
		return strings.ToLower(host), path[:i], path[i+1:]
	}
	return "", "", ""
}
