package githubsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NewRuleset describes a ruleset to be made.
type NewRuleset struct {
	// Repo is "owner/name"; Org instead makes it an organisation's.
	Repo string `json:"repo"`
	Org  string `json:"org"`
	Name string `json:"name"`
	// Include and Exclude are branch patterns: ~DEFAULT_BRANCH, ~ALL or
	// refs/heads/…; the default branch when Include is empty.
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
	Rules   []Rule   `json:"rules"`
	// Bypass is how the App may pass it: always, pull_request, exempt, or ""
	// for not at all.
	Bypass string `json:"bypass"`
	// Disabled makes one that is not enforced.
	Disabled bool `json:"disabled"`
	// ID of one to change: everything else of it is new. 0 makes one.
	ID int64 `json:"id"`
}

// AddRuleset makes a ruleset and returns its id.
func (s *Server) AddRuleset(in NewRuleset) (int64, error) {
	if !slices.Contains([]string{"", "always", "pull_request", "exempt"}, in.Bypass) {
		return 0, fmt.Errorf("bypass must be always, pull_request, exempt or empty")
	}
	for _, rule := range in.Rules {
		if rule.Type == "" {
			return 0, fmt.Errorf("a rule needs a type")
		}
	}
	in.Rules = filled(in.Rules)
	if len(in.Include) == 0 {
		in.Include = []string{"~DEFAULT_BRANCH"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.ID != 0 {
		return in.ID, s.editRuleset(in)
	}
	u := &ruleset{id: s.newID(), name: orElse(in.Name, "rules"), active: !in.Disabled, include: in.Include, exclude: in.Exclude, rules: in.Rules, created: s.now()}
	if in.Bypass != "" {
		u.bypass = []bypassActor{{ActorID: s.app.id, ActorType: "Integration", Mode: in.Bypass}}
	}
	if in.Org != "" {
		a := s.accounts[strings.ToLower(in.Org)]
		if a == nil || a.kind != "Organization" {
			return 0, fmt.Errorf("organisation %q: %w", in.Org, ErrUnknown)
		}
		u.source, u.sourceType = a.login, "Organization"
		key := strings.ToLower(a.login)
		s.orgRules[key] = append(s.orgRules[key], u)
		s.emitOrg("repository_ruleset", "created", a, a, object{"repository_ruleset": s.fullRulesetJSON(caller{}, nil, u)})
		return u.id, nil
	}
	r := s.repoNamed(in.Repo)
	if r == nil {
		return 0, fmt.Errorf("repository %q: %w", in.Repo, ErrUnknown)
	}
	u.source, u.sourceType = r.fullName(), "Repository"
	r.rules = append(r.rules, u)
	s.emit("repository_ruleset", "created", r, r.owner, object{"repository_ruleset": s.fullRulesetJSON(caller{}, r, u)})
	return u.id, nil
}

// editRuleset changes a ruleset of a repository. mu is held.
func (s *Server) editRuleset(in NewRuleset) error {
	if in.Org != "" {
		return s.editOrgRuleset(in)
	}
	r := s.repoNamed(in.Repo)
	if r == nil {
		return fmt.Errorf("repository %q: %w", in.Repo, ErrUnknown)
	}
	at := slices.IndexFunc(r.rules, func(u *ruleset) bool { return u.id == in.ID })
	if at < 0 {
		return fmt.Errorf("ruleset %d: %w", in.ID, ErrUnknown)
	}
	u := r.rules[at]
	u.take(in)
	s.emit("repository_ruleset", "edited", r, r.owner, object{"repository_ruleset": s.fullRulesetJSON(caller{}, r, u), "changes": object{}})
	return nil
}

// take takes over what is new about a ruleset.
func (u *ruleset) take(in NewRuleset) {
	u.active, u.include, u.exclude, u.rules = !in.Disabled, in.Include, in.Exclude, in.Rules
}

// editOrgRuleset changes a ruleset of an organisation. mu is held.
func (s *Server) editOrgRuleset(in NewRuleset) error {
	for _, u := range s.orgRules[strings.ToLower(in.Org)] {
		if u.id == in.ID {
			u.take(in)
			a := s.accounts[strings.ToLower(in.Org)]
			s.emitOrg("repository_ruleset", "edited", a, a, object{"repository_ruleset": s.fullRulesetJSON(caller{}, nil, u), "changes": object{}})
			return nil
		}
	}
	return fmt.Errorf("ruleset %d of %s: %w", in.ID, in.Org, ErrUnknown)
}

// ruleDefaults are the parameters that GitHub fills in: a rule of a type that
// has parameters always shows all of them.
var ruleDefaults = map[string]map[string]any{
	"pull_request": {"dismiss_stale_reviews_on_push": false, "require_code_owner_review": false, "require_last_push_approval": false,
		"required_approving_review_count": 0, "required_review_thread_resolution": false},
	"required_status_checks": {"strict_required_status_checks_policy": false, "do_not_enforce_on_create": false},
	"code_scanning":          {"code_scanning_tools": []any{}},
}

// filled is the rules with the parameters that were not given.
func filled(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i, rule := range rules {
		defaults := ruleDefaults[rule.Type]
		if defaults == nil {
			continue
		}
		all := maps.Clone(defaults)
		maps.Copy(all, rule.Parameters)
		rules[i].Parameters = all
	}
	return rules
}

// RemoveRuleset deletes a ruleset of a repository.
func (s *Server) RemoveRuleset(repo string, id int64) error {
	r, err := s.repository(repo)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(r.rules, func(u *ruleset) bool { return u.id == id })
	if at < 0 {
		return fmt.Errorf("ruleset %d: %w", id, ErrUnknown)
	}
	u := r.rules[at]
	r.rules = slices.Delete(r.rules, at, at+1)
	s.emit("repository_ruleset", "deleted", r, r.owner, object{"repository_ruleset": s.fullRulesetJSON(caller{}, r, u)})
	return nil
}

// Protect describes classic protection of a branch.
type Protect struct {
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	// Checks are required; with Strict the pull request must be up to date too.
	Checks []string `json:"checks"`
	Strict bool     `json:"strict"`
	// Apps are the ids of the only Apps whose word counts, by check.
	Apps map[string]int64 `json:"apps"`
	// Reviews is how many approvals a pull request needs, CodeOwners whether
	// those of the changed files must approve, LastPush whether somebody else
	// must have approved the newest push.
	Reviews    int  `json:"reviews"`
	CodeOwners bool `json:"codeOwners"`
	LastPush   bool `json:"lastPush"`
	// Conversations must be resolved.
	Conversations bool `json:"conversations"`
	// Linear refuses merge commits, Locked every change. Signed is shown only.
	Linear bool `json:"linear"`
	Locked bool `json:"locked"`
	Signed bool `json:"signed"`
	// AppMayPush puts the App on the list of those who may push without a
	// pull request and without green checks.
	AppMayPush bool `json:"appMayPush"`
	// Remove takes protection off instead.
	Remove bool `json:"remove"`
}

// ProtectBranch sets or removes classic protection of a branch.
func (s *Server) ProtectBranch(in Protect) error {
	r, err := s.repository(in.Repo)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	branch := orElse(in.Branch, r.defaultBranch)
	if r.branch(branch) == "" {
		return fmt.Errorf("branch %q: %w", branch, ErrUnknown)
	}
	old := r.protect[branch]
	if in.Remove {
		delete(r.protect, branch)
		if old != nil {
			s.emitProtection("deleted", r, old, branch)
		}
		return nil
	}
	p := &protection{strict: in.Strict, linear: in.Linear, signed: in.Signed, locked: in.Locked, reviews: reviewRule{
		on:        in.Reviews > 0 || in.CodeOwners || in.LastPush,
		approvals: in.Reviews, codeOwners: in.CodeOwners, lastPush: in.LastPush, conversations: in.Conversations,
	}}
	for _, name := range in.Checks {
		p.checks = append(p.checks, requiredCheck{name, in.Apps[name]})
	}
	if in.AppMayPush {
		p.pushers = []string{s.app.bot.login}
	}
	r.protect[branch] = p
	if old == nil {
		p.id, p.created = s.newID(), s.now()
		s.emitProtection("created", r, p, branch)
	} else {
		p.id, p.created = old.id, old.created
		s.emitProtection("edited", r, p, branch)
	}
	return nil
}

// emitProtection tells the App of a change of classic protection. mu is held.
func (s *Server) emitProtection(action string, r *repo, p *protection, branch string) {
	level := func(on bool) string { return map[bool]string{true: "everyone", false: "off"}[on] }
	rule := object{
		"id": p.id, "repository_id": r.id, "name": branch, "created_at": when(p.created), "updated_at": when(s.now()),
		"pull_request_reviews_enforcement_level": level(p.reviews.on), "required_approving_review_count": p.reviews.approvals,
		"dismiss_stale_reviews_on_push": false, "require_code_owner_review": p.reviews.codeOwners, "authorized_dismissal_actors_only": false,
		"ignore_approvals_from_contributors": false, "require_last_push_approval": p.reviews.lastPush,
		"required_status_checks": p.contexts(), "required_status_checks_enforcement_level": level(len(p.checks) > 0),
		"strict_required_status_checks_policy": p.strict, "signature_requirement_enforcement_level": level(p.signed),
		"linear_history_requirement_enforcement_level": level(p.linear), "lock_branch_enforcement_level": level(p.locked), "lock_allows_fork_sync": false,
		"admin_enforced": false, "create_protected": false, "allow_force_pushes_enforcement_level": "off",
		"allow_deletions_enforcement_level": "off", "merge_queue_enforcement_level": "off",
		"required_deployments_enforcement_level": "off", "required_conversation_resolution_level": level(p.reviews.conversations),
		"authorized_actors_only": len(p.pushers) > 0, "authorized_actor_names": append([]string{}, p.pushers...),
	}
	payload := object{"rule": rule}
	if action == "edited" {
		payload["changes"] = object{}
	}
	s.emit("branch_protection_rule", action, r, r.owner, payload)
}
