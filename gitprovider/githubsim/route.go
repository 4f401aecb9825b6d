package githubsim

import (
	"net/http"
	"net/url"
	"strings"
)

// route is one call of the REST API. In its pattern {name} is one segment of
// the path and {name+} is one or more, for refs and file paths.
type route struct {
	method  string
	pattern string
	// need is what the caller must be or have: "" for anybody, "app" for an
	// App JWT, "installation" for an installation token, "token" for any
	// token, else a permission on the repository such as "contents:write".
	need  string
	serve func(*call) (any, error)
	parts []string
}

func (s *Server) routeTable() []route {
	const r = "/repos/{owner}/{repo}"
	table := []route{
		{"GET", "/app", "app", (*call).getApp, nil},
		{"GET", "/app/installations", "app", (*call).listInstallations, nil},
		{"GET", "/app/installations/{id}", "app", (*call).getInstallation, nil},
		{"POST", "/app/installations/{id}/access_tokens", "app", (*call).createToken, nil},
		{"GET", "/app/hook/config", "app", (*call).hookConfig, nil},
		{"GET", "/app/hook/deliveries", "app", (*call).listDeliveries, nil},
		{"GET", "/app/hook/deliveries/{id}", "app", (*call).getDelivery, nil},
		{"POST", "/app/hook/deliveries/{id}/attempts", "app", (*call).redeliver, nil},
		{"GET", "/orgs/{org}/installation", "app", (*call).ownerInstallation, nil},
		{"GET", "/users/{org}/installation", "app", (*call).ownerInstallation, nil},
		{"GET", r + "/installation", "app", (*call).repoInstallation, nil},
		{"GET", "/installation/repositories", "installation", (*call).installationRepos, nil},
		{"DELETE", "/installation/token", "installation", (*call).revokeToken, nil},
		{"GET", "/rate_limit", "", (*call).rateLimit, nil},
		{"GET", "/meta", "", (*call).meta, nil},
		{"POST", "/app-manifests/{code}/conversions", "", (*call).convertManifest, nil},
		{"POST", "/graphql", "token", (*call).graphQL, nil},
		{"GET", "/user", "token", (*call).getSelf, nil},
		{"GET", "/user/{id}", "token", (*call).getUserByID, nil},
		{"GET", "/users/{login}", "token", (*call).getUser, nil},
		{"GET", "/orgs/{org}/rulesets", "token", (*call).listOrgRulesets, nil},
		{"GET", "/orgs/{org}/rulesets/{id}", "token", (*call).getOrgRuleset, nil},

		{"GET", r, "metadata:read", (*call).getRepo, nil},
		{"PATCH", r, "administration:write", (*call).updateRepo, nil},
		{"GET", r + "/collaborators/{login}/permission", "metadata:read", (*call).getPermission, nil},
		{"GET", r + "/contents/{path+}", "contents:read", (*call).getContents, nil},
		{"GET", r + "/branches", "contents:read", (*call).listBranches, nil},
		{"GET", r + "/branches/{branch+}/protection/required_status_checks", "administration:read", (*call).getProtectionChecks, nil},
		{"GET", r + "/branches/{branch+}/protection", "administration:read", (*call).getProtection, nil},
		{"GET", r + "/branches/{branch+}", "contents:read", (*call).getBranch, nil},
		{"GET", r + "/rules/branches/{branch+}", "metadata:read", (*call).rulesForBranch, nil},
		{"GET", r + "/rulesets", "metadata:read", (*call).listRulesets, nil},
		{"GET", r + "/rulesets/{id}", "metadata:read", (*call).getRuleset, nil},

		{"GET", r + "/git/ref/{ref+}", "contents:read", (*call).getRef, nil},
		{"GET", r + "/git/matching-refs/{ref+}", "contents:read", (*call).matchingRefs, nil},
		{"POST", r + "/git/refs", "contents:write", (*call).createRef, nil},
		{"PATCH", r + "/git/refs/{ref+}", "contents:write", (*call).updateRef, nil},
		{"DELETE", r + "/git/refs/{ref+}", "contents:write", (*call).deleteRef, nil},
		{"GET", r + "/git/commits/{sha}", "contents:read", (*call).getGitCommit, nil},
		{"GET", r + "/git/trees/{sha}", "contents:read", (*call).getGitTree, nil},
		{"GET", r + "/compare/{basehead+}", "contents:read", (*call).compare, nil},

		{"GET", r + "/commits", "contents:read", (*call).listCommits, nil},
		{"GET", r + "/commits/{ref+}/status", "statuses:read", (*call).combinedStatus, nil},
		{"GET", r + "/commits/{ref+}/statuses", "statuses:read", (*call).listStatuses, nil},
		{"GET", r + "/commits/{ref+}/check-runs", "checks:read", (*call).runsForRef, nil},
		{"GET", r + "/commits/{ref+}/check-suites", "checks:read", (*call).suitesForRef, nil},
		{"GET", r + "/commits/{ref+}/pulls", "pull_requests:read", (*call).pullsForCommit, nil},
		{"GET", r + "/commits/{ref+}", "contents:read", (*call).getCommit, nil},
		{"POST", r + "/statuses/{sha}", "statuses:write", (*call).createStatus, nil},
		{"POST", r + "/check-runs", "checks:write", (*call).createRun, nil},
		{"GET", r + "/check-runs/{id}", "checks:read", (*call).getRun, nil},
		{"PATCH", r + "/check-runs/{id}", "checks:write", (*call).updateRun, nil},
		{"POST", r + "/check-runs/{id}/rerequest", "checks:write", (*call).rerequestRun, nil},
		{"GET", r + "/check-suites/{id}", "checks:read", (*call).getSuite, nil},
		{"GET", r + "/check-suites/{id}/check-runs", "checks:read", (*call).runsForSuite, nil},

		{"GET", r + "/actions/runs/{id}", "actions:read", (*call).getWorkflowRun, nil},

		{"GET", r + "/pulls", "pull_requests:read", (*call).listPulls, nil},
		{"POST", r + "/pulls", "pull_requests:write", (*call).createPull, nil},
		{"GET", r + "/pulls/{number}", "pull_requests:read", (*call).getPull, nil},
		{"PATCH", r + "/pulls/{number}", "pull_requests:write", (*call).updatePull, nil},
		{"GET", r + "/pulls/{number}/commits", "pull_requests:read", (*call).pullCommits, nil},
		{"GET", r + "/pulls/{number}/files", "pull_requests:read", (*call).pullFiles, nil},
		{"GET", r + "/pulls/{number}/reviews", "pull_requests:read", (*call).pullReviews, nil},
		{"GET", r + "/pulls/{number}/merge", "pull_requests:read", (*call).pullMerged, nil},
		{"PUT", r + "/pulls/{number}/merge", "contents:write", (*call).mergePull, nil},

		{"GET", r + "/issues/comments", "issues:read", (*call).listAllComments, nil},
		{"GET", r + "/issues/comments/{id}", "issues:read", (*call).getComment, nil},
		{"PATCH", r + "/issues/comments/{id}", "issues:write", (*call).updateComment, nil},
		{"DELETE", r + "/issues/comments/{id}", "issues:write", (*call).deleteComment, nil},
		{"GET", r + "/issues/comments/{id}/reactions", "issues:read", (*call).listReactions, nil},
		{"POST", r + "/issues/comments/{id}/reactions", "issues:write", (*call).createReaction, nil},
		{"DELETE", r + "/issues/comments/{id}/reactions/{reaction}", "issues:write", (*call).deleteReaction, nil},
		{"GET", r + "/issues/{number}/comments", "issues:read", (*call).listComments, nil},
		{"POST", r + "/issues/{number}/comments", "issues:write", (*call).createComment, nil},
		{"GET", r + "/issues/{number}/labels", "issues:read", (*call).listLabels, nil},
		{"POST", r + "/issues/{number}/labels", "issues:write", (*call).addLabels, nil},
		{"DELETE", r + "/issues/{number}/labels/{name}", "issues:write", (*call).removeLabel, nil},
	}
	for i := range table {
		table[i].parts = strings.Split(table[i].pattern[1:], "/")
	}
	return table
}

// find returns the first route that a call matches, with its parameters.
func (s *Server) find(method, escapedPath string) (*route, map[string]string) {
	path := strings.Split(strings.Trim(escapedPath, "/"), "/")
	for i := range path {
		if part, err := url.PathUnescape(path[i]); err == nil {
			path[i] = part
		}
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range s.routes {
		if r := &s.routes[i]; r.method == method {
			if params, ok := match(r.parts, path); ok {
				return r, params
			}
		}
	}
	return nil, nil
}

// match compares a pattern with a path. At most one part of a pattern is {x+}.
func match(pattern, path []string) (map[string]string, bool) {
	if len(path) < len(pattern) || pattern[0] != path[0] {
		return nil, false
	}
	extra := len(path) - len(pattern)
	params := map[string]string{}
	at := 0
	for _, part := range pattern {
		n := 1
		switch name, param := strings.CutPrefix(part, "{"); {
		case !param:
			if part != path[at] {
				return nil, false
			}
		case strings.HasSuffix(name, "+}"):
			n += extra
			params[name[:len(name)-2]] = strings.Join(path[at:at+n], "/")
		default:
			params[name[:len(name)-1]] = path[at]
		}
		at += n
	}
	return params, at == len(path)
}

// Calls lists the calls of the REST API that the simulator answers, as "GET
// /repos/{owner}/{repo}". What stands in braces is one part of a path, or
// several in {ref}, {branch}, {path} and {basehead}.
func Calls() []string {
	var all []string
	for _, r := range (*Server)(nil).routeTable() {
		if r.pattern == "/graphql" { // no REST: schema.graphql describes it
			continue
		}
		all = append(all, r.method+" "+strings.ReplaceAll(r.pattern, "+}", "}"))
	}
	return all
}
