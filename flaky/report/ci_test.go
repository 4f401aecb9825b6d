package report

import (
	"testing"

	"signalbox/flaky"
)

// What each CI system says of a job for a pull request.
func TestFacts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want flaky.Facts
	}{
		"nothing": {map[string]string{"GITHUB_SHA": "abc"}, flaky.Facts{}},
		"GitHub Actions, a pull request": {map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/shop", "GITHUB_SHA": "abc", "GITHUB_REF": "refs/pull/7/merge",
			"GITHUB_REF_NAME": "7/merge", "GITHUB_HEAD_REF": "topic", "GITHUB_BASE_REF": "main", "GITHUB_RUN_ID": "99", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "test",
		}, flaky.Facts{CI: "GitHub Actions", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "topic", Pull: 7, Target: "main", Job: "99/test", Attempt: 2, Check: "test", Link: "https://github.com/acme/shop/actions/runs/99"}},
		"GitHub Actions, a push": {map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/shop", "GITHUB_SHA": "abc", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main", "GITHUB_RUN_ID": "99", "GITHUB_JOB": "test",
		}, flaky.Facts{CI: "GitHub Actions", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "main", Job: "99/test", Attempt: 1, Check: "test", Link: "https://github.com/acme/shop/actions/runs/99"}},
		"GitLab CI, from a fork": {map[string]string{
			"GITLAB_CI": "true", "CI_SERVER_HOST": "gitlab.com", "CI_PROJECT_NAMESPACE": "acme/web", "CI_PROJECT_NAME": "shop", "CI_PROJECT_PATH": "acme/web/shop", "CI_COMMIT_SHA": "abc", "CI_COMMIT_REF_NAME": "x",
			"CI_PIPELINE_ID": "5", "CI_JOB_NAME": "unit", "CI_JOB_URL": "https://gitlab.com/j/1", "CI_MERGE_REQUEST_IID": "8", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "head",
			"CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "base", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "eve/shop",
		}, flaky.Facts{CI: "GitLab CI", Host: "gitlab.com", Owner: "acme/web", Name: "shop", Commit: "abc", Head: "head", Base: "base", Branch: "topic", Pull: 8, Target: "main", Job: "5/unit", Attempt: 1, Check: "unit", Link: "https://gitlab.com/j/1", Fork: true}},
		"GitLab CI, for a repository on GitHub": {map[string]string{
			"GITLAB_CI": "true", "CI_SERVER_HOST": "gitlab.com", "CI_PROJECT_NAMESPACE": "mirrors", "CI_PROJECT_NAME": "shop", "CI_COMMIT_SHA": "abc", "CI_PIPELINE_ID": "5", "CI_JOB_NAME": "unit",
			"CI_EXTERNAL_PULL_REQUEST_IID": "8", "CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY": "eve/shop", "CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY": "acme/shop", "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME": "topic",
			"CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA": "head", "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME": "main", "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA": "base",
		}, flaky.Facts{CI: "GitLab CI", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Head: "head", Base: "base", Branch: "topic", Pull: 8, Target: "main", Job: "5/unit", Attempt: 1, Check: "unit", Fork: true}},
		"CircleCI": {map[string]string{
			"CIRCLECI": "true", "CIRCLE_REPOSITORY_URL": "git@github.com:acme/shop.git", "CIRCLE_SHA1": "abc", "CIRCLE_BRANCH": "topic", "CIRCLE_WORKFLOW_ID": "w", "CIRCLE_JOB": "unit", "CIRCLE_NODE_INDEX": "1",
			"CIRCLE_PULL_REQUEST": "https://github.com/acme/shop/pull/9", "CIRCLE_BUILD_URL": "https://circleci.com/1",
		}, flaky.Facts{CI: "CircleCI", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "topic", Pull: 9, Job: "w/unit/1", Attempt: 1, Check: "ci/circleci: unit", Link: "https://circleci.com/1"}},
		"Buildkite": {map[string]string{
			"BUILDKITE": "true", "BUILDKITE_REPO": "https://github.com/acme/shop.git", "BUILDKITE_COMMIT": "abc", "BUILDKITE_BRANCH": "topic", "BUILDKITE_BUILD_ID": "b", "BUILDKITE_STEP_ID": "s", "BUILDKITE_RETRY_COUNT": "1",
			"BUILDKITE_PIPELINE_SLUG": "shop", "BUILDKITE_PULL_REQUEST": "4", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main", "BUILDKITE_PULL_REQUEST_REPO": "git://github.com/eve/shop.git", "BUILDKITE_BUILD_URL": "https://buildkite.com/1",
		}, flaky.Facts{CI: "Buildkite", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "topic", Pull: 4, Target: "main", Job: "b/s", Attempt: 2, Check: "buildkite/shop", Link: "https://buildkite.com/1", Fork: true}},
		"Buildkite, no pull request": {map[string]string{"BUILDKITE": "true", "BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_COMMIT": "abc"}, flaky.Facts{CI: "Buildkite", Commit: "abc", Attempt: 1}},
		"Azure Pipelines": {map[string]string{
			"TF_BUILD": "True", "BUILD_REPOSITORY_URI": "https://github.com/acme/shop", "BUILD_SOURCEVERSION": "abc", "BUILD_SOURCEBRANCH": "refs/pull/3/merge", "BUILD_BUILDID": "6", "SYSTEM_JOBNAME": "Job", "SYSTEM_JOBATTEMPT": "3",
			"BUILD_DEFINITIONNAME": "shop.ci", "SYSTEM_PULLREQUEST_PULLREQUESTNUMBER": "3", "SYSTEM_PULLREQUEST_SOURCEBRANCH": "refs/heads/topic", "SYSTEM_PULLREQUEST_SOURCECOMMITID": "head", "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main", "SYSTEM_PULLREQUEST_ISFORK": "False",
		}, flaky.Facts{CI: "Azure Pipelines", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Head: "head", Branch: "topic", Pull: 3, Target: "main", Job: "6/Job", Attempt: 3, Check: "shop.ci"}},
		"Jenkins, a pull request": {map[string]string{"JENKINS_URL": "https://ci", "GIT_URL": "https://github.com/acme/shop.git", "GIT_COMMIT": "abc", "CHANGE_ID": "5", "CHANGE_TARGET": "main", "CHANGE_BRANCH": "topic", "CHANGE_FORK": "eve"},
			flaky.Facts{CI: "Jenkins", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "topic", Pull: 5, Target: "main", Attempt: 1, Fork: true}},
		"Jenkins": {map[string]string{
			"JENKINS_URL": "https://ci", "GIT_URL": "https://github.com/acme/shop.git", "GIT_COMMIT": "abc", "GIT_BRANCH": "origin/main", "BUILD_TAG": "jenkins-shop-12", "JOB_NAME": "shop", "BUILD_URL": "https://ci/12",
		}, flaky.Facts{CI: "Jenkins", Host: "github.com", Owner: "acme", Name: "shop", Commit: "abc", Branch: "main", Job: "jenkins-shop-12", Attempt: 1, Check: "shop", Link: "https://ci/12"}},
	} {
		if got := FactsOf(func(v string) string { return c.env[v] }); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
		for v := range c.env {
			if !KnownVariable(v) {
				t.Errorf("%s is not known", v)
			}
		}
	}
	for remote, want := range map[string][3]string{
		"https://github.com/acme/shop.git": {"github.com", "acme", "shop"}, "git@gitlab.com:a/b/c.git": {"gitlab.com", "a/b", "c"},
		"ssh://git@Host.example:22/acme/shop/": {"host.example", "acme", "shop"}, "https://user:pw@github.com/acme/shop": {"github.com", "acme", "shop"},
		"/srv/git/shop": {}, "": {}, "shop": {}, "https://github.com/acme": {},
	} {
		if host, owner, name := SplitURL(remote); [3]string{host, owner, name} != want {
			t.Errorf("%s is %q %q %q", remote, host, owner, name)
		}
	}
}
