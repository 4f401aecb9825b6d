package githubsim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The JSON shapes of GitHub. Functions named …JSON need Server.mu held when
// they render a noun of state.go; what they return holds no reference to it.

func (s *Server) api(path string, args ...any) string {
	return s.URL() + "/api/v3" + fmt.Sprintf(path, args...)
}

func nodeID(kind string, id int64) string {
	return kind + "_" + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d", kind, id))
}

// when is a time as GitHub writes it, null when zero.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// text is a string, null when empty.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (s *Server) userJSON(a *account) any {
	if a == nil {
		return nil
	}
	api := s.api("/users/%s", url.PathEscape(a.login))
	web := s.URL() + "/" + strings.TrimSuffix(a.login, "[bot]")
	return object{
		"login": a.login, "id": a.id, "node_id": nodeID("U", a.id), "type": a.kind, "user_view_type": "public", "site_admin": false,
		"avatar_url": s.avatar(a), "gravatar_id": "", "url": api, "html_url": web,
		"followers_url": api + "/followers", "following_url": api + "/following{/other_user}",
		"gists_url": api + "/gists{/gist_id}", "starred_url": api + "/starred{/owner}{/repo}",
		"subscriptions_url": api + "/subscriptions", "organizations_url": api + "/orgs", "repos_url": api + "/repos",
		"events_url": api + "/events{/privacy}", "received_events_url": api + "/received_events",
	}
}

// avatar is where an account's picture is. That of an App's bot names the App
// by its id, as on GitHub: nothing else in a commit status does.
func (s *Server) avatar(a *account) string {
	if a.app != 0 {
		return fmt.Sprintf("%s/avatars/in/%d?v=4", s.URL(), a.app)
	}
	return s.URL() + "/avatars/" + url.PathEscape(a.login)
}

func (s *Server) orgJSON(a *account) object {
	api := s.api("/orgs/%s", a.login)
	return object{
		"login": a.login, "id": a.id, "node_id": nodeID("O", a.id), "url": api, "repos_url": api + "/repos",
		"events_url": api + "/events", "hooks_url": api + "/hooks", "issues_url": api + "/issues",
		"members_url": api + "/members{/member}", "public_members_url": api + "/public_members{/member}",
		"avatar_url": s.avatar(a), "description": nil,
	}
}

// repoLinks are the address templates of a repository, by field.
var repoLinks = map[string]string{
	"archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
	"branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}",
	"comments_url": "/comments{/number}", "commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}",
	"contents_url": "/contents/{+path}", "contributors_url": "/contributors", "deployments_url": "/deployments",
	"downloads_url": "/downloads", "events_url": "/events", "forks_url": "/forks", "git_commits_url": "/git/commits{/sha}",
	"git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}", "hooks_url": "/hooks",
	"issue_comment_url": "/issues/comments{/number}", "issue_events_url": "/issues/events{/number}",
	"issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}", "labels_url": "/labels{/name}",
	"languages_url": "/languages", "merges_url": "/merges", "milestones_url": "/milestones{/number}",
	"notifications_url": "/notifications{?since,all,participating}", "pulls_url": "/pulls{/number}",
	"releases_url": "/releases{/id}", "stargazers_url": "/stargazers", "statuses_url": "/statuses/{sha}",
	"subscribers_url": "/subscribers", "subscription_url": "/subscription", "tags_url": "/tags",
	"teams_url": "/teams", "trees_url": "/git/trees{/sha}",
}

// repoJSON is a repository as it stands in other objects. It is kept until
// the repository changes, because every webhook carries it.
func (s *Server) repoJSON(r *repo) json.RawMessage {
	if r.rendered == nil {
		r.rendered, _ = json.Marshal(s.repoObject(r))
	}
	return r.rendered
}

func (s *Server) repoObject(r *repo) object {
	api, web := s.api("/repos/%s", r.fullName()), s.URL()+"/"+r.fullName()
	o := object{
		"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": r.fullName(), "private": r.private,
		"owner": s.userJSON(r.owner), "html_url": web, "description": nil, "fork": r.parent != nil, "url": api,
		"git_url": strings.Replace(web, "http://", "git://", 1) + ".git", "ssh_url": "git@localhost:" + r.fullName() + ".git",
		"clone_url": web + ".git", "svn_url": web, "mirror_url": nil, "homepage": nil, "size": 0, "language": nil,
		"created_at": when(r.created), "updated_at": when(r.updated), "pushed_at": when(r.pushed),
		"stargazers_count": 0, "watchers_count": 0, "watchers": 0, "forks_count": 0, "forks": 0,
		"open_issues_count": len(r.open), "open_issues": len(r.open), "has_issues": true, "has_projects": false,
		"has_downloads": true, "has_wiki": false, "has_pages": false, "has_discussions": false, "archived": false,
		"disabled": false, "license": nil, "allow_forking": true, "is_template": false,
		"web_commit_signoff_required": false, "topics": []string{}, "custom_properties": object{}, "visibility": "public", "default_branch": r.defaultBranch,
	}
	if r.private {
		o["visibility"] = "private"
	}
	for field, tail := range repoLinks {
		o[field] = api + tail
	}
	return o
}

// fullRepoJSON is the answer to GET /repos/{owner}/{repo}.
func (s *Server) fullRepoJSON(r *repo) object {
	o := s.repoObject(r)
	o["allow_merge_commit"] = r.settings.allowMerge
	o["allow_squash_merge"] = r.settings.allowSquash
	o["allow_rebase_merge"] = r.settings.allowRebase
	o["delete_branch_on_merge"] = r.settings.deleteOnMerge
	o["allow_auto_merge"], o["allow_update_branch"], o["use_squash_pr_title_as_default"] = false, false, false
	o["merge_commit_title"], o["merge_commit_message"] = "MERGE_MESSAGE", "PR_TITLE"
	o["squash_merge_commit_title"], o["squash_merge_commit_message"] = "COMMIT_OR_PR_TITLE", "COMMIT_MESSAGES"
	o["subscribers_count"], o["network_count"] = 0, 0
	if r.owner.kind == "Organization" {
		o["organization"] = s.userJSON(r.owner)
	}
	if r.parent != nil {
		o["parent"], o["source"] = s.repoJSON(r.parent), s.repoJSON(r.parent)
	}
	return o
}

func (s *Server) appJSON(a *app) object {
	return object{
		"id": a.id, "slug": a.slug, "node_id": nodeID("A", a.id), "owner": s.userJSON(a.owner), "name": a.name,
		"client_id": fmt.Sprintf("Iv1.%016x", a.id), "description": "", "external_url": "https://example.com/" + a.slug,
		"html_url": s.URL() + "/apps/" + a.slug, "created_at": when(a.created), "updated_at": when(a.created),
		"permissions": a.permissions, "events": a.events,
	}
}

func (s *Server) installationJSON(i *installation) object {
	return object{
		"id": i.id, "account": s.userJSON(i.owner), "repository_selection": s.selection(i),
		"access_tokens_url": s.api("/app/installations/%d/access_tokens", i.id), "repositories_url": s.api("/installation/repositories"),
		"html_url": fmt.Sprintf("%s/organizations/%s/settings/installations/%d", s.URL(), i.owner.login, i.id),
		"app_id":   s.app.id, "app_slug": s.app.slug, "target_id": i.owner.id, "target_type": i.owner.kind,
		"permissions": s.permitted(), "events": s.app.events, "created_at": when(i.created), "updated_at": when(i.created),
		"single_file_name": nil, "has_multiple_single_files": false, "single_file_paths": []string{},
		"suspended_by": s.userJSON(i.suspendedBy), "suspended_at": when(i.suspended),
	}
}

func (s *Server) labelsJSON(r *repo, ls []*label) []any {
	out := []any{}
	for _, l := range ls {
		out = append(out, object{
			"id": l.id, "node_id": nodeID("LA", l.id), "url": s.api("/repos/%s/labels/%s", r.fullName(), url.PathEscape(l.name)),
			"name": l.name, "color": "ededed", "default": false, "description": "",
		})
	}
	return out
}

// association is how an author stands to a repository.
func (r *repo) association(a *account) string {
	switch {
	case a == r.owner:
		return "OWNER"
	case r.access[strings.ToLower(a.login)] == "":
		return "NONE"
	case r.owner.kind == "Organization":
		return "MEMBER"
	}
	return "COLLABORATOR"
}

// signatureJSON is an author or committer inside a git commit.
func signatureJSON(g signature) object {
	return object{"name": g.Name, "email": g.Email, "date": g.When.UTC().Format(time.RFC3339)}
}

// accountOf finds the account that a commit's e-mail address belongs to.
func (s *Server) accountOf(g signature) *account {
	local, domain, _ := strings.Cut(g.Email, "@")
	if domain != "users.noreply.github.com" {
		return nil
	}
	_, login, ok := strings.Cut(local, "+")
	if !ok {
		login = local
	}
	return s.accounts[strings.ToLower(login)]
}

func (s *Server) parentsJSON(r *repo, c *commit) []any {
	out := []any{}
	for _, p := range c.Parents {
		out = append(out, object{
			"sha": p, "url": s.api("/repos/%s/commits/%s", r.fullName(), p), "html_url": s.URL() + "/" + r.fullName() + "/commit/" + p,
		})
	}
	return out
}

var unverified = object{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil}

// commitJSON is a commit as the commits API shows it.
func (s *Server) commitJSON(r *repo, c *commit) object {
	api := s.api("/repos/%s/commits/%s", r.fullName(), c.SHA)
	return object{
		"sha": c.SHA, "node_id": nodeID("C", r.id) + c.SHA, "url": api, "comments_url": api + "/comments",
		"html_url": s.URL() + "/" + r.fullName() + "/commit/" + c.SHA,
		"commit": object{
			"author": signatureJSON(c.Author), "committer": signatureJSON(c.Committer), "message": strings.TrimSuffix(c.Message, "\n"),
			"tree":          object{"sha": c.Tree, "url": s.api("/repos/%s/git/trees/%s", r.fullName(), c.Tree)},
			"url":           s.api("/repos/%s/git/commits/%s", r.fullName(), c.SHA),
			"comment_count": 0, "verification": unverified,
		},
		"author": s.userJSON(s.accountOf(c.Author)), "committer": s.userJSON(s.accountOf(c.Committer)),
		"parents": s.parentsJSON(r, c),
	}
}

// gitCommitJSON is a commit as the git database API shows it.
func (s *Server) gitCommitJSON(r *repo, c *commit) object {
	return object{
		"sha": c.SHA, "node_id": nodeID("C", r.id) + c.SHA, "url": s.api("/repos/%s/git/commits/%s", r.fullName(), c.SHA),
		"html_url": s.URL() + "/" + r.fullName() + "/commit/" + c.SHA,
		"author":   signatureJSON(c.Author), "committer": signatureJSON(c.Committer),
		"tree":    object{"sha": c.Tree, "url": s.api("/repos/%s/git/trees/%s", r.fullName(), c.Tree)},
		"message": strings.TrimSuffix(c.Message, "\n"), "parents": s.parentsJSON(r, c), "verification": unverified,
	}
}

func (s *Server) refJSON(r *repo, ref, sha, kind string) object {
	return object{
		"ref": ref, "node_id": nodeID("REF", r.id) + ref, "url": s.api("/repos/%s/git/%s", r.fullName(), ref),
		"object": object{"sha": sha, "type": kind, "url": s.api("/repos/%s/git/%ss/%s", r.fullName(), kind, sha)},
	}
}
