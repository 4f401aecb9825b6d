package githubsim

import (
	"slices"
	"strings"
)

func cutHeads(ref string) (string, bool) { return strings.CutPrefix(ref, "refs/heads/") }

// addStatus records a commit status and tells the App. mu is held; k is the commit.
func (s *Server) addStatus(r *repo, k *commit, t *status) {
	t.id, t.sha, t.created = s.newID(), k.SHA, s.now()
	r.statuses[k.SHA] = append(r.statuses[k.SHA], t)
	branches := []any{}
	if name := r.branchOf(k.SHA); name != "" {
		branches = append(branches, object{
			"name": name, "commit": object{"sha": k.SHA, "url": s.api("/repos/%s/commits/%s", r.fullName(), k.SHA)}, "protected": false,
		})
	}
	s.emit("status", "", r, t.creator, object{
		"id": t.id, "sha": k.SHA, "name": r.fullName(), "avatar_url": s.avatar(t.creator), "target_url": text(t.target),
		"context": t.context, "description": text(t.description), "state": t.state, "commit": s.commitJSON(r, k), "branches": branches,
		"created_at": when(t.created), "updated_at": when(t.created),
	})
}

var statusStates = []string{"error", "failure", "pending", "success"}

func (c *call) createStatus() (any, error) {
	var in struct {
		State       string
		TargetURL   string `json:"target_url"`
		Description string
		Context     string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !slices.Contains(statusStates, in.State) {
		return nil, invalidField("Status", "state", "custom", "State is not included in the list")
	}
	if len(in.Description) > 140 {
		return nil, invalidField("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	k, err := c.commitNamed(c.params["sha"])
	if err != nil {
		return nil, invalid("No commit found for SHA: %s", c.params["sha"])
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	t := &status{context: orElse(in.Context, "default"), state: in.State, description: in.Description, target: in.TargetURL, creator: c.who.account}
	c.s.addStatus(c.repo, k, t)
	return reply{status: 201, body: c.s.statusJSON(c.repo, t)}, nil
}

func (c *call) listStatuses() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	all := slices.Clone(c.repo.statuses[k.SHA])
	slices.Reverse(all)
	return paged(c, all, func(t *status) any { return c.s.statusJSON(c.repo, t) })
}

func (c *call) combinedStatus() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	latest := latestStatuses(c.repo, k.SHA)
	state := "success"
	for _, t := range latest {
		switch {
		case t.state == "failure" || t.state == "error":
			state = "failure"
		case t.state == "pending" && state == "success":
			state = "pending"
		}
	}
	if len(latest) == 0 {
		state = "pending"
	}
	items, err := paged(c, latest, func(t *status) any { return c.s.statusJSON(c.repo, t) })
	api := c.s.api("/repos/%s/commits/%s", c.repo.fullName(), k.SHA)
	return object{
		"state": state, "statuses": items, "sha": k.SHA, "total_count": len(latest), "repository": c.s.repoJSON(c.repo),
		"commit_url": api, "url": api + "/status",
	}, err
}
