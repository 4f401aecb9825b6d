package githubsim

import (
	"slices"
	"strings"
)

// The calls that show rulesets and classic branch protection.

// rulesetJSON is a ruleset as lists show it.
func (s *Server) rulesetJSON(u *ruleset) object {
	enforcement := map[bool]string{true: "active", false: "disabled"}[u.active]
	path := "/repos/" + u.source
	if u.sourceType == "Organization" {
		path = "/orgs/" + u.source
	}
	return object{
		"id": u.id, "name": u.name, "target": "branch", "source_type": u.sourceType, "source": u.source, "enforcement": enforcement,
		"node_id": nodeID("RRS", u.id), "created_at": when(u.created), "updated_at": when(u.created),
		"_links": object{"self": object{"href": s.api("%s/rulesets/%d", path, u.id)}, "html": object{"href": s.URL() + "/" + u.source + "/rules/" + itoa(int(u.id))}},
	}
}

// fullRulesetJSON adds conditions, rules and who may pass. mu is held.
func (s *Server) fullRulesetJSON(who caller, r *repo, u *ruleset) object {
	o := s.rulesetJSON(u)
	o["conditions"] = object{"ref_name": object{"include": append([]string{}, u.include...), "exclude": append([]string{}, u.exclude...)}}
	if u.sourceType == "Organization" {
		o["conditions"].(object)["repository_name"] = object{"include": []string{"~ALL"}, "exclude": []string{}, "protected": false}
	}
	o["rules"] = append([]Rule{}, u.rules...)
	o["bypass_actors"] = append([]bypassActor{}, u.bypass...)
	can := map[string]string{"always": "always", "pull_request": "pull_requests_only", "exempt": "exempt"}[s.bypassMode(who, r, u)]
	o["current_user_can_bypass"] = orElse(can, "never")
	return o
}

func (c *call) listRulesets() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	all := slices.Clone(c.repo.rules)
	if c.query("includes_parents", "true") != "false" {
		all = append(all, c.s.orgRules[strings.ToLower(c.repo.owner.login)]...)
	}
	return paged(c, all, func(u *ruleset) any { return c.s.rulesetJSON(u) })
}

func (c *call) getRuleset() (any, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, u := range slices.Concat(c.repo.rules, c.s.orgRules[strings.ToLower(c.repo.owner.login)]) {
		if u.id == id {
			return c.s.fullRulesetJSON(c.who, c.repo, u), nil
		}
	}
	return nil, notFound()
}

// orgRulesets are an organisation's, for a caller that may see them. mu is held.
func (c *call) orgRulesets() ([]*ruleset, error) {
	a := c.s.accounts[strings.ToLower(c.params["org"])]
	if a == nil || a.kind != "Organization" || c.who.kind == asInstallation && c.who.token.inst.owner != a {
		return nil, notFound()
	}
	return c.s.orgRules[strings.ToLower(a.login)], nil
}

func (c *call) listOrgRulesets() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	all, err := c.orgRulesets()
	if err != nil {
		return nil, err
	}
	return paged(c, all, func(u *ruleset) any { return c.s.rulesetJSON(u) })
}

func (c *call) getOrgRuleset() (any, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	all, err := c.orgRulesets()
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		if u.id == id {
			return c.s.fullRulesetJSON(c.who, nil, u), nil
		}
	}
	return nil, notFound()
}

// rulesForBranch lists the rules of all active rulesets that cover a branch,
// whether or not it exists.
func (c *call) rulesForBranch() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []object
	for _, u := range c.s.rulesOf(c.repo, c.params["branch"]) {
		for _, rule := range u.rules {
			o := object{"type": rule.Type, "ruleset_source_type": u.sourceType, "ruleset_source": u.source, "ruleset_id": u.id}
			if rule.Parameters != nil {
				o["parameters"] = rule.Parameters
			}
			all = append(all, o)
		}
	}
	return paged(c, all, func(o object) any { return o })
}

func checksJSON(p *protection) []any {
	out := []any{}
	for _, q := range p.checks {
		out = append(out, object{"context": q.context, "app_id": positive(q.app)})
	}
	return out
}

// protection finds the classic protection of the branch in the path. mu is held.
func (c *call) protection() (*protection, error) {
	if c.repo.branch(c.params["branch"]) == "" {
		return nil, &apiError{status: 404, message: "Branch not found"}
	}
	p := c.repo.protect[c.params["branch"]]
	if p == nil {
		return nil, &apiError{status: 404, message: "Branch not protected", doc: docs + "/branches/branch-protection#get-branch-protection"}
	}
	return p, nil
}

// requiredChecksJSON is the part of a protection about checks. mu is held.
func (c *call) requiredChecksJSON(p *protection) object {
	api := c.s.api("/repos/%s/branches/%s/protection/required_status_checks", c.repo.fullName(), c.params["branch"])
	return object{
		"url": api, "strict": p.strict, "contexts": p.contexts(), "contexts_url": api + "/contexts", "checks": checksJSON(p),
	}
}

func (c *call) getProtectionChecks() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.protection()
	if err != nil {
		return nil, err
	}
	if len(p.checks) == 0 {
		return nil, &apiError{status: 404, message: "Required status checks not enabled"}
	}
	return c.requiredChecksJSON(p), nil
}

func (c *call) getProtection() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	p, err := c.protection()
	if err != nil {
		return nil, err
	}
	api := c.s.api("/repos/%s/branches/%s/protection", c.repo.fullName(), c.params["branch"])
	off := object{"enabled": false}
	flag := func(on bool) object { return object{"enabled": on} }
	o := object{
		"url": api, "enforce_admins": object{"url": api + "/enforce_admins", "enabled": false},
		"required_linear_history": flag(p.linear), "allow_force_pushes": off, "allow_deletions": off, "block_creations": off,
		"required_conversation_resolution": flag(p.reviews.conversations), "lock_branch": flag(p.locked), "allow_fork_syncing": off,
		"required_signatures": object{"url": api + "/required_signatures", "enabled": p.signed},
	}
	if len(p.checks) > 0 {
		o["required_status_checks"] = c.requiredChecksJSON(p)
	}
	if len(p.pushers) > 0 {
		o["restrictions"] = object{
			"url": api + "/restrictions", "users_url": api + "/restrictions/users", "teams_url": api + "/restrictions/teams",
			"apps_url": api + "/restrictions/apps", "users": []any{}, "teams": []any{}, "apps": []any{c.s.appJSON(c.s.app)},
		}
	}
	if p.reviews.on {
		o["required_pull_request_reviews"] = object{
			"url": api + "/required_pull_request_reviews", "dismiss_stale_reviews": false, "require_code_owner_reviews": p.reviews.codeOwners,
			"required_approving_review_count": p.reviews.approvals, "require_last_push_approval": p.reviews.lastPush,
		}
		if len(p.pushers) > 0 {
			o["required_pull_request_reviews"].(object)["bypass_pull_request_allowances"] = object{
				"users": []any{}, "teams": []any{}, "apps": []any{c.s.appJSON(c.s.app)},
			}
		}
	}
	return o, nil
}
