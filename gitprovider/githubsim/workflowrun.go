package githubsim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// workflowRun is a run of GitHub Actions for a pull request.
type workflowRun struct {
	id      int64
	pull    *pull
	sha     string
	head    *commit // that sha, when it is one
	event   string
	status  string
	created time.Time
	updated time.Time
}

// WorkflowRun is a run of GitHub Actions to make or to change.
type WorkflowRun struct {
	ID      int64  `json:"id"` // of one to change; 0 makes one
	Repo    string `json:"repo"`
	Number  int    `json:"number"`  // of the pull request
	Status  string `json:"status"`  // "in_progress" when empty
	HeadSHA string `json:"headSha"` // the head of the pull request when empty
	Event   string `json:"event"`   // "pull_request" when empty
}

var workflowStatuses = []string{"requested", "queued", "pending", "waiting", "in_progress", "completed"}

// SetWorkflowRun makes or changes a run and returns its id.
func (s *Server) SetWorkflowRun(_ context.Context, in WorkflowRun) (int64, error) {
	p, err := s.findPull(in.Repo, in.Number)
	if err != nil {
		return 0, err
	}
	status := orElse(in.Status, "in_progress")
	if !slices.Contains(workflowStatuses, status) {
		return 0, fmt.Errorf("a workflow run's status is one of %q, not %q", workflowStatuses, status)
	}
	s.mu.Lock()
	sha := orElse(in.HeadSHA, p.headSHA)
	s.mu.Unlock()
	known, unknown := p.repo.git.commit(sha)
	s.mu.Lock()
	defer s.mu.Unlock()
	run := p.repo.workflowRuns[in.ID]
	if run == nil {
		if in.ID != 0 {
			return 0, fmt.Errorf("workflow run %d of %s: %w", in.ID, in.Repo, ErrUnknown)
		}
		run = &workflowRun{id: s.newID(), pull: p, created: s.now()}
		if p.repo.workflowRuns == nil {
			p.repo.workflowRuns = map[int64]*workflowRun{}
		}
		p.repo.workflowRuns[run.id] = run
	}
	run.sha, run.event, run.head = sha, orElse(in.Event, "pull_request"), nil
	if unknown == nil {
		run.head = known
	}
	run.status, run.updated = status, s.now()
	if run.head != nil && slices.Contains([]string{"requested", "in_progress", "completed"}, status) {
		s.emit("workflow_run", status, p.repo, p.author, object{"workflow_run": s.workflowRunJSON(run), "workflow": s.workflowJSON(run)})
	}
	return run.id, nil
}

func (c *call) getWorkflowRun() (any, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	run := c.repo.workflowRuns[id]
	if run == nil {
		return nil, notFound()
	}
	return c.s.workflowRunJSON(run), nil
}

// workflowRunJSON is a run as GitHub shows it. That of a pull request from a
// fork does not name the pull request: it lists those of its own repository only.
func (s *Server) workflowRunJSON(run *workflowRun) object {
	p := run.pull
	r := p.repo
	api := s.api("/repos/%s/actions/runs/%d", r.fullName(), run.id)
	web := fmt.Sprintf("%s/%s/actions/runs/%d", s.URL(), r.fullName(), run.id)
	workflow := s.api("/repos/%s/actions/workflows/%d", r.fullName(), r.id)
	pulls := []any{}
	if p.headRepo == r {
		side := func(ref, sha string) object {
			return object{"ref": ref, "sha": sha, "repo": object{"id": r.id, "url": s.api("/repos/%s", r.fullName()), "name": r.name}}
		}
		pulls = append(pulls, object{
			"id": p.id, "number": p.number, "url": s.api("/repos/%s/pulls/%d", r.fullName(), p.number),
			"head": side(p.headRef, p.headSHA), "base": side(p.baseRef, p.baseSHA),
		})
	}
	var head any
	if run.head != nil {
		head = headCommitJSON(run.head)
	}
	var conclusion any
	if run.status == "completed" {
		conclusion = "success"
	}
	return object{
		"id": run.id, "name": "CI", "node_id": nodeID("WFR", run.id), "head_branch": p.headRef, "head_sha": run.sha,
		"path": ".github/workflows/ci.yml", "display_title": p.title, "run_number": 1, "run_attempt": 1, "event": run.event,
		"status": run.status, "conclusion": conclusion, "workflow_id": r.id, "check_suite_id": run.id, "check_suite_node_id": nodeID("CS", run.id),
		"url": api, "html_url": web, "pull_requests": pulls, "created_at": when(run.created), "updated_at": when(run.updated),
		"run_started_at": when(run.created), "actor": s.userJSON(p.author), "triggering_actor": s.userJSON(p.author),
		"referenced_workflows": []any{}, "previous_attempt_url": nil,
		"jobs_url": api + "/jobs", "logs_url": api + "/logs", "check_suite_url": s.api("/repos/%s/check-suites/%d", r.fullName(), run.id),
		"artifacts_url": api + "/artifacts", "cancel_url": api + "/cancel", "rerun_url": api + "/rerun", "workflow_url": workflow,
		"head_commit": head, "repository": s.briefRepo(r), "head_repository": s.briefRepo(p.headRepo),
	}
}

// briefRepo is a repository as a workflow run shows it: without its settings
// and numbers. mu is held.
func (s *Server) briefRepo(r *repo) object {
	all, brief := s.repoObject(r), object{}
	for _, name := range []string{"id", "node_id", "name", "full_name", "private", "owner", "html_url", "description", "fork", "url"} {
		brief[name] = all[name]
	}
	for name := range repoLinks {
		brief[name] = all[name]
	}
	return brief
}

// workflowJSON is the workflow of a run.
func (s *Server) workflowJSON(run *workflowRun) object {
	r := run.pull.repo
	web := s.URL() + "/" + r.fullName()
	return object{
		"id": r.id, "node_id": nodeID("W", r.id), "name": "CI", "path": ".github/workflows/ci.yml", "state": "active",
		"created_at": when(r.created), "updated_at": when(r.created), "url": s.api("/repos/%s/actions/workflows/%d", r.fullName(), r.id),
		"html_url": web + "/blob/main/.github/workflows/ci.yml", "badge_url": web + "/workflows/CI/badge.svg",
	}
}
