package githubsim

import (
	"fmt"
	"slices"
)

// pullJSON is a pull request as lists and webhooks show it.
func (s *Server) pullJSON(p *pull) object {
	r := p.repo
	api := s.api("/repos/%s/pulls/%d", r.fullName(), p.number)
	issue := s.api("/repos/%s/issues/%d", r.fullName(), p.number)
	web := fmt.Sprintf("%s/%s/pull/%d", s.URL(), r.fullName(), p.number)
	link := func(to string) object { return object{"href": to} }
	return object{
		"url": api, "id": p.id, "node_id": nodeID("PR", p.id), "html_url": web, "diff_url": web + ".diff", "patch_url": web + ".patch",
		"issue_url": issue, "number": p.number, "state": p.state(), "locked": false, "title": p.title, "user": s.userJSON(p.author),
		"body": text(p.body), "created_at": when(p.created), "updated_at": when(p.updated), "closed_at": when(p.closed),
		"merged_at": when(p.merged), "merge_commit_sha": text(p.mergeSHA), "assignee": nil, "assignees": []any{},
		"requested_reviewers": []any{}, "requested_teams": []any{}, "labels": s.labelsJSON(r, p.labels), "milestone": nil,
		"draft": p.draft, "commits_url": api + "/commits", "review_comments_url": api + "/comments",
		"review_comment_url": s.api("/repos/%s/pulls/comments{/number}", r.fullName()), "comments_url": issue + "/comments",
		"statuses_url": s.api("/repos/%s/statuses/%s", r.fullName(), p.headSHA),
		"head":         s.sideJSON(p.headRepo, p.headLabel(), p.headRef, p.headSHA),
		"base":         s.sideJSON(r, r.owner.login+":"+p.baseRef, p.baseRef, p.baseSHA),
		"_links": object{
			"self": link(api), "html": link(web), "issue": link(issue), "comments": link(issue + "/comments"),
			"review_comments": link(api + "/comments"), "commits": link(api + "/commits"),
			"review_comment": link(s.api("/repos/%s/pulls/comments{/number}", r.fullName())),
			"statuses":       link(s.api("/repos/%s/statuses/%s", r.fullName(), p.headSHA)),
		},
		"author_association": r.association(p.author), "auto_merge": nil, "active_lock_reason": nil,
	}
}

// fullPullJSON adds what only a single pull request shows: its mergeability
// as far as it is known, who merged it, and its numbers.
func (s *Server) fullPullJSON(p *pull) object {
	o := s.pullJSON(p)
	mergeable, state := s.mergeState(p)
	m := p.mergeable.stats
	o["merged"], o["mergeable"], o["mergeable_state"], o["rebaseable"] = !p.merged.IsZero(), mergeable, state, mergeable
	o["merged_by"] = s.userJSON(p.mergedBy)
	o["comments"], o["review_comments"], o["maintainer_can_modify"] = len(p.comments), 0, p.maintainerCanPR
	o["commits"], o["additions"], o["deletions"], o["changed_files"] = m.commits, m.additions, m.deletions, m.files
	return o
}

func (s *Server) sideJSON(r *repo, label, ref, sha string) object {
	return object{"label": label, "ref": ref, "sha": sha, "user": s.userJSON(r.owner), "repo": s.repoJSON(r)}
}

// issueJSON is a pull request as the issues API shows it.
func (s *Server) issueJSON(p *pull) object {
	r := p.repo
	issue := s.api("/repos/%s/issues/%d", r.fullName(), p.number)
	pr := s.api("/repos/%s/pulls/%d", r.fullName(), p.number)
	web := fmt.Sprintf("%s/%s/pull/%d", s.URL(), r.fullName(), p.number)
	return object{
		"url": issue, "repository_url": s.api("/repos/%s", r.fullName()), "labels_url": issue + "/labels{/name}",
		"comments_url": issue + "/comments", "events_url": issue + "/events", "html_url": web, "id": p.id + 1_000_000_000,
		"node_id": nodeID("PR", p.id), "number": p.number, "title": p.title, "user": s.userJSON(p.author),
		"labels": s.labelsJSON(r, p.labels), "state": p.state(), "locked": false, "assignee": nil, "assignees": []any{},
		"milestone": nil, "comments": len(p.comments), "created_at": when(p.created), "updated_at": when(p.updated),
		"closed_at": when(p.closed), "author_association": r.association(p.author), "active_lock_reason": nil, "draft": p.draft,
		"pull_request": object{"url": pr, "html_url": web, "diff_url": web + ".diff", "patch_url": web + ".patch", "merged_at": when(p.merged)},
		"body":         text(p.body), "reactions": reactionCounts(issue, nil), "timeline_url": issue + "/timeline",
		"performed_via_github_app": nil, "state_reason": nil,
	}
}

func (s *Server) commentJSON(c *comment) object {
	r := c.pull.repo
	api := s.api("/repos/%s/issues/comments/%d", r.fullName(), c.id)
	o := object{
		"url": api, "html_url": fmt.Sprintf("%s/%s/pull/%d#issuecomment-%d", s.URL(), r.fullName(), c.pull.number, c.id),
		"issue_url": s.api("/repos/%s/issues/%d", r.fullName(), c.pull.number), "id": c.id, "node_id": nodeID("IC", c.id),
		"user": s.userJSON(c.author), "created_at": when(c.created), "updated_at": when(c.updated),
		"author_association": r.association(c.author), "body": c.body, "reactions": reactionCounts(api, c.reactions),
		"performed_via_github_app": nil,
	}
	if c.via != nil {
		o["performed_via_github_app"] = s.appJSON(c.via)
	}
	return o
}

// reactionNames are the contents a reaction can have.
var reactionNames = []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"}

func reactionCounts(api string, reactions []*reaction) object {
	o := object{"url": api + "/reactions", "total_count": len(reactions)}
	for _, name := range reactionNames {
		n := 0
		for _, r := range reactions {
			if r.content == name {
				n++
			}
		}
		o[name] = n
	}
	return o
}

func (s *Server) reactionJSON(r *reaction) object {
	return object{
		"id": r.id, "node_id": nodeID("REA", r.id), "user": s.userJSON(r.user), "content": r.content, "created_at": when(r.created),
	}
}

func (s *Server) reviewJSON(p *pull, v *review) object {
	api := s.api("/repos/%s/pulls/%d", p.repo.fullName(), p.number)
	web := fmt.Sprintf("%s/%s/pull/%d#pullrequestreview-%d", s.URL(), p.repo.fullName(), p.number, v.id)
	return object{
		"id": v.id, "node_id": nodeID("PRR", v.id), "user": s.userJSON(v.author), "body": v.body, "state": v.state,
		"html_url": web, "pull_request_url": api, "author_association": p.repo.association(v.author),
		"_links":       object{"html": object{"href": web}, "pull_request": object{"href": api}},
		"submitted_at": when(v.submitted), "commit_id": v.sha,
	}
}

func (s *Server) statusJSON(r *repo, t *status) object {
	return object{
		"url": s.api("/repos/%s/statuses/%s", r.fullName(), t.sha), "avatar_url": s.avatar(t.creator),
		"id": t.id, "node_id": nodeID("SC", t.id), "state": t.state, "description": text(t.description), "target_url": text(t.target),
		"context": t.context, "created_at": when(t.created), "updated_at": when(t.created), "creator": s.userJSON(t.creator),
	}
}

// runPulls are the pull requests that a check run lists: those of the same
// repository with its commit as their head. Forks' are never there.
func (s *Server) runPulls(r *repo, sha string) []any {
	out := []any{}
	for _, p := range r.openPulls() {
		if p.headSHA != sha || p.headRepo != r {
			continue
		}
		small := func(x *repo) object {
			return object{"id": x.id, "url": s.api("/repos/%s", x.fullName()), "name": x.name}
		}
		out = append(out, object{
			"url": s.api("/repos/%s/pulls/%d", r.fullName(), p.number), "id": p.id, "number": p.number,
			"head": object{"ref": p.headRef, "sha": p.headSHA, "repo": small(p.headRepo)},
			"base": object{"ref": p.baseRef, "sha": p.baseSHA, "repo": small(r)},
		})
	}
	return out
}

func (s *Server) runJSON(c *checkRun) object {
	r := c.suite.repo
	api := s.api("/repos/%s/check-runs/%d", r.fullName(), c.id)
	var title, summary, body any
	if c.output.Title != nil {
		title = *c.output.Title
	}
	if c.output.Summary != nil {
		summary = *c.output.Summary
	}
	if c.output.Text != nil {
		body = *c.output.Text
	}
	return object{
		"id": c.id, "node_id": nodeID("CR", c.id), "head_sha": c.suite.sha, "name": c.name, "external_id": c.externalID, "url": api,
		"html_url":    fmt.Sprintf("%s/%s/runs/%d", s.URL(), r.fullName(), c.id),
		"details_url": orElse(c.detailsURL, fmt.Sprintf("%s/%s/runs/%d", s.URL(), r.fullName(), c.id)), "status": c.status,
		"conclusion": text(c.conclusion), "started_at": when(c.started), "completed_at": when(c.completed),
		"output": object{
			"title": title, "summary": summary, "text": body, "annotations_count": len(c.output.Annotations), "annotations_url": api + "/annotations",
		},
		"check_suite": object{"id": c.suite.id}, "app": s.appJSON(c.suite.app), "pull_requests": s.runPulls(r, c.suite.sha),
	}
}

// state is a suite's status and conclusion: those of the newest run of each name.
func (u *suite) state() (status, conclusion string) {
	latest := u.latest()
	if len(latest) == 0 {
		return "queued", ""
	}
	status, conclusion = "completed", "success"
	worst := 0
	for _, c := range latest {
		if c.status != "completed" {
			status = "in_progress"
		}
		rank := slices.Index(conclusionOrder, c.conclusion)
		if rank < 0 {
			rank = len(conclusionOrder) // a word that nobody knows is no good news
		}
		if rank > worst {
			worst, conclusion = rank, c.conclusion
		}
	}
	if status != "completed" {
		return status, ""
	}
	return status, conclusion
}

// conclusionOrder ranks conclusions from good to bad for a whole suite.
var conclusionOrder = []string{"success", "neutral", "skipped", "stale", "cancelled", "action_required", "timed_out", "failure"}

// latest is the newest run of each name, newest first.
func (u *suite) latest() []*checkRun {
	seen := map[string]bool{}
	var out []*checkRun
	for _, c := range slices.Backward(u.runs) {
		if !seen[c.name] {
			seen[c.name] = true
			out = append(out, c)
		}
	}
	return out
}

func (s *Server) suiteJSON(u *suite, head *commit) object {
	api := s.api("/repos/%s/check-suites/%d", u.repo.fullName(), u.id)
	status, conclusion := u.state()
	o := object{
		"id": u.id, "node_id": nodeID("CS", u.id), "head_branch": text(u.branch), "head_sha": u.sha, "status": status,
		"conclusion": text(conclusion), "url": api, "before": text(u.before), "after": u.sha,
		"pull_requests": s.runPulls(u.repo, u.sha), "app": s.appJSON(u.app), "created_at": when(u.created), "updated_at": when(u.updated),
		"latest_check_runs_count": len(u.latest()), "check_runs_url": api + "/check-runs", "rerequestable": true, "runs_rerequestable": true,
	}
	if head != nil {
		o["head_commit"] = headCommitJSON(head)
	}
	return o
}

func headCommitJSON(c *commit) object {
	person := func(g signature) object { return object{"name": g.Name, "email": g.Email} }
	return object{
		"id": c.SHA, "tree_id": c.Tree, "message": c.Message, "timestamp": when(c.Committer.When),
		"author": person(c.Author), "committer": person(c.Committer),
	}
}
