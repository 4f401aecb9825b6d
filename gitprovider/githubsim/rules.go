package githubsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ruleset is a GitHub ruleset for branches. For the repository's, Source is
// "owner/name"; for an organisation's its login.
type ruleset struct {
	id         int64
	name       string
	source     string
	sourceType string // Repository or Organization
	active     bool   // else disabled
	include    []string
	exclude    []string
	bypass     []bypassActor
	rules      []Rule
	created    time.Time
}

// bypassActor is somebody whom a ruleset does not bind.
type bypassActor struct {
	ActorID   int64  `json:"actor_id"`
	ActorType string `json:"actor_type"` // Integration, RepositoryRole, OrganizationAdmin, …
	Mode      string `json:"bypass_mode"`
}

// Rule is one rule of a ruleset, as the API writes it. The simulator enforces
// creation, update, deletion, non_fast_forward, required_linear_history,
// required_signatures, merge_queue, pull_request and required_status_checks;
// others are kept and shown.
type Rule struct {
	Type       string         `json:"type"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// protection is classic branch protection.
type protection struct {
	checks  []requiredCheck
	strict  bool // a pull request must be up to date
	reviews reviewRule
	linear  bool     // no merge commits
	signed  bool     // shown, not enforced
	locked  bool     // nobody may change the branch
	pushers []string // who may push without a pull request: logins, or App slugs with [bot]
	id      int64
	created time.Time
}

// contexts are the names of the required checks.
func (p *protection) contexts() []string {
	names := []string{}
	for _, q := range p.checks {
		names = append(names, q.context)
	}
	return names
}

// classicMark begins a violation of classic protection, which git is told in
// other words than that of a ruleset.
const classicMark = "\x00"

// reasonMark begins a refusal that git is told in one line, without a code.
const reasonMark = "\x01"

// appliesTo reports whether a ruleset covers a branch.
func (u *ruleset) appliesTo(r *repo, branch string) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			switch p {
			case "~ALL":
				return true
			case "~DEFAULT_BRANCH":
				return branch == r.defaultBranch
			}
			return matchBranch(strings.TrimPrefix(p, "refs/heads/"), branch)
		})
	}
	return u.active && matches(u.include) && !matches(u.exclude)
}

// bypassMode is how a caller may pass a ruleset: "" for not at all. mu is held.
func (s *Server) bypassMode(who caller, r *repo, u *ruleset) string {
	for _, a := range u.bypass {
		switch {
		case a.ActorType == "Integration" && who.kind == asInstallation && a.ActorID == s.app.id:
			return a.Mode
		case a.ActorType == "RepositoryRole" && who.kind == asUser && a.ActorID == 5 && r != nil && r.permission(who.account) == "admin":
			return a.Mode
		}
	}
	return ""
}

// rulesOf are the active rulesets for a branch, the organisation's included. mu is held.
func (s *Server) rulesOf(r *repo, branch string) []*ruleset {
	var out []*ruleset
	for _, u := range slices.Concat(r.rules, s.orgRules[strings.ToLower(r.owner.login)]) {
		if u.appliesTo(r, branch) {
			out = append(out, u)
		}
	}
	return out
}

// pushViolations lists, in GitHub's words, the rules that a push to a branch
// would break. forwardOnly says that git must refuse it unless it is a
// fast-forward. mu is held.
func (s *Server) pushViolations(who caller, r *repo, branch string, c pushCommand) (why []string, forwardOnly bool) {
	for _, u := range s.rulesOf(r, branch) {
		if mode := s.bypassMode(who, r, u); mode == "always" || mode == "exempt" {
			continue
		}
		for _, rule := range u.rules {
			switch {
			case rule.Type == "creation" && c.old == "":
				why = append(why, "Cannot create ref due to creations being restricted.")
			case rule.Type == "deletion" && c.new == "":
				why = append(why, "Cannot delete this branch")
			case rule.Type == "update" && c.old != "" && c.new != "":
				why = append(why, "Cannot update this protected ref.")
			case rule.Type == "pull_request" && c.new != "" && c.old != "":
				why = append(why, "Changes must be made through a pull request.")
			case rule.Type == "merge_queue" && c.new != "" && c.old != "":
				why = append(why, "Changes must be made through the merge queue")
			case rule.Type == "required_linear_history" && c.merges:
				why = append(why, "This branch must not contain merge commits.")
			case rule.Type == "required_status_checks" && c.new != "" && c.old != "":
				why = append(why, s.missingChecks(r, c.new, rule.checks())...)
			case rule.Type == "non_fast_forward":
				forwardOnly = true
			}
		}
	}
	if p := r.protect[branch]; p != nil && !p.lets(who) {
		forwardOnly = true
		switch {
		case c.new == "":
			why = append(why, classicMark+"Cannot delete a protected branch")
		case p.locked:
			why = append(why, classicMark+"Cannot change this locked branch")
		case p.reviews.on:
			why = append(why, classicMark+"Changes must be made through a pull request.")
		case p.linear && c.merges:
			why = append(why, classicMark+"This branch must not contain merge commits.")
		}
		if c.new != "" {
			for _, missing := range s.missingChecks(r, c.new, p.checks) {
				why = append(why, classicMark+missing)
			}
		}
	}
	return why, forwardOnly
}

// lets reports whether classic protection lets a caller push without a pull request.
func (p *protection) lets(who caller) bool {
	return who.account != nil && slices.Contains(p.pushers, who.account.login)
}

// requiredCheck is a check that must be green; app 0 is any App's.
type requiredCheck struct {
	context string
	app     int64
}

// checks are the checks that a required_status_checks rule names. A rule that
// is not of the expected form names none.
func (r Rule) checks() []requiredCheck {
	var out []requiredCheck
	list, _ := r.Parameters["required_status_checks"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		name, _ := m["context"].(string)
		app, _ := m["integration_id"].(float64)
		if name != "" {
			out = append(out, requiredCheck{name, int64(app)})
		}
	}
	return out
}

// requireChecks is the rule that checks are green.
func requireChecks(names []string, strict bool) Rule {
	list := []any{}
	for _, n := range names {
		list = append(list, map[string]any{"context": n})
	}
	return Rule{Type: "required_status_checks", Parameters: map[string]any{
		"required_status_checks": list, "strict_required_status_checks_policy": strict, "do_not_enforce_on_create": false,
	}}
}

// missingChecks says which required checks of a commit are not green. mu is held.
func (s *Server) missingChecks(r *repo, sha string, required []requiredCheck) []string {
	var why []string
	for _, q := range required {
		switch s.checkState(r, sha, q) {
		case "success":
		case "failure":
			why = append(why, fmt.Sprintf("Required status check %q is failing.", q.context))
		case "pending":
			why = append(why, fmt.Sprintf("Required status check %q is in progress.", q.context))
		default:
			why = append(why, fmt.Sprintf("Required status check %q is expected.", q.context))
		}
	}
	return why
}

// checkState is how a required check stands on a commit: success, failure,
// pending, or "" when nothing reported it. mu is held.
func (s *Server) checkState(r *repo, sha string, q requiredCheck) string {
	state := ""
	for _, t := range latestStatuses(r, sha) {
		if t.context == q.context && (q.app == 0 || t.creator.app == q.app) {
			state = t.state
		}
	}
	for _, u := range r.suites[sha] {
		for _, c := range u.latest() {
			switch {
			case c.name != q.context || q.app != 0 && u.app.id != q.app:
			case c.status != "completed":
				state = "pending"
			case passed(c.conclusion):
				state = "success"
			default:
				state = "failure"
			}
		}
	}
	if state == "error" {
		return "failure"
	}
	return state
}

// mergeViolations lists the rules that merging a pull request would break for
// somebody without any bypass. mu is held.
func (s *Server) mergeViolations(p *pull) []string {
	return s.mergeViolationsFor(caller{}, p)
}

// mergeViolationsFor lists, in GitHub's words, the rules that a merge of a
// pull request by a caller would break. mu is held.
func (s *Server) mergeViolationsFor(who caller, p *pull) (why []string) {
	for _, u := range s.rulesOf(p.repo, p.baseRef) {
		if s.bypassMode(who, p.repo, u) != "" {
			continue
		}
		for _, rule := range u.rules {
			switch rule.Type {
			case "update":
				why = append(why, "Cannot update this protected ref.")
			case "merge_queue":
				why = append(why, "Changes must be made through the merge queue")
			case "pull_request":
				why = append(why, p.lacksReview(rule.reviews())...)
			case "required_status_checks":
				why = append(why, s.missingChecks(p.repo, p.headSHA, rule.checks())...)
			}
		}
	}
	if c := p.repo.protect[p.baseRef]; c != nil && !c.lets(who) {
		if c.locked {
			why = append(why, "Cannot change this locked branch")
		}
		why = append(why, p.lacksReview(c.reviews)...)
		why = append(why, s.missingChecks(p.repo, p.headSHA, c.checks)...)
	}
	return why
}

// mustBeCurrent reports whether a rule wants the pull request up to date with
// its base before it is merged. mu is held.
func (s *Server) mustBeCurrent(p *pull) bool {
	return s.mustBeCurrentFor(caller{}, p)
}

func (s *Server) mustBeCurrentFor(who caller, p *pull) bool {
	for _, u := range s.rulesOf(p.repo, p.baseRef) {
		for _, rule := range u.rules {
			strict, _ := rule.Parameters["strict_required_status_checks_policy"].(bool)
			if strict && rule.Type == "required_status_checks" && s.bypassMode(who, p.repo, u) == "" {
				return true
			}
		}
	}
	c := p.repo.protect[p.baseRef]
	return c != nil && c.strict && !c.lets(who)
}
