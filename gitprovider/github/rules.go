package github

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"signalbox/queue"
)

// rules is what the host demands of a change to a branch, from rulesets
// (organisation level too) and classic protection together.
type rules struct {
	checks        []queue.Required
	approvals     int
	codeOwners    bool       // those of changed files must approve
	lastPush      bool       // somebody else must have approved the newest push
	conversations bool       // every conversation must be resolved
	linear        bool       // no merge commits
	signed        bool       // commits must carry a signature
	strict        bool       // the pull request must be up to date with its base
	methods       [][]string // each rule's list of the only merge methods that are allowed, in the host's words
	unknown       []string   // what we cannot judge, in words
	unseen        []string   // what may not be read, in words
}

// The rules that need nothing of a pull request: they are about how the
// branch is moved, or only have something done. "update" is what makes the
// host say blocked to everybody.
var movementRules = []string{"update", "creation", "deletion", "non_fast_forward", "copilot_code_review"}

// wantReviews reports whether anybody must approve.
func (r rules) wantReviews() bool { return r.approvals > 0 || r.codeOwners || r.lastPush }

// allow says why a branch does not take commits that a method makes, "" if it does.
func (r rules) allow(method queue.MergeMethod) string {
	if r.linear && method == queue.MergeCommit {
		return "they want a linear history, without merge commits"
	}
	for _, list := range r.methods {
		if !slices.Contains(list, methodNames[method]) {
			return "they allow no other merge method than " + strings.Join(list, " and ")
		}
	}
	return ""
}

// ruleJSON is a rule as rules/branches lists it. The library of that name
// cannot decode a list in which one rule is new to it.
type ruleJSON struct {
	Type       string          `json:"type"`
	Parameters json.RawMessage `json:"parameters"`
}

// rulesOf reads the rules of a branch, all pages.
func (c *Client) rulesOf(ctx context.Context, k *conn, repo queue.Repo, branch string) (rules, error) {
	var r rules
	err := pages(ctx, k, at(repo, "rules", "branches", branch), func(page []ruleJSON) error {
		for _, rule := range page {
			r.add(rule)
		}
		return nil
	})
	switch statusOf(err) {
	case http.StatusNotFound: // a server without rulesets has no such call
	case http.StatusForbidden: // a private repository whose plan has none, or they are not for us to see
		r.unseen = append(r.unseen, "rulesets")
	default:
		if err != nil {
			return r, explain(err, "read the rules of branch %s of %s", branch, repo)
		}
	}
	return r, c.addProtection(ctx, k, repo, branch, &r)
}

func (r *rules) add(rule ruleJSON) {
	switch {
	case slices.Contains(movementRules, rule.Type):
	case rule.Type == "required_linear_history":
		r.linear = true
	case rule.Type == "required_status_checks":
		var p struct {
			Checks []struct {
				Context string `json:"context"`
				AppID   *int64 `json:"integration_id"`
			} `json:"required_status_checks"`
			Strict bool `json:"strict_required_status_checks_policy"`
		}
		if json.Unmarshal(rule.Parameters, &p) != nil {
			r.doubt("required checks in a form that is not known")
		}
		for _, check := range p.Checks {
			r.check(check.Context, check.AppID)
		}
		r.strict = r.strict || p.Strict
	case rule.Type == "pull_request":
		var p struct {
			Approvals     int      `json:"required_approving_review_count"`
			CodeOwners    bool     `json:"require_code_owner_review"`
			LastPush      bool     `json:"require_last_push_approval"`
			Conversations bool     `json:"required_review_thread_resolution"`
			Methods       []string `json:"allowed_merge_methods"`
			Teams         []any    `json:"required_reviewers"`
		}
		if json.Unmarshal(rule.Parameters, &p) != nil {
			r.doubt("required reviews in a form that is not known")
		}
		r.reviews(p.Approvals, p.CodeOwners, p.LastPush, p.Conversations)
		if len(p.Methods) > 0 {
			r.methods = append(r.methods, p.Methods)
		}
		if len(p.Teams) > 0 { // the host's decision leaves them out
			r.doubt("reviews by the teams that a rule names")
		}
	case rule.Type == "required_signatures":
		r.signatures()
	case rule.Type == "merge_queue":
		r.doubt("the host's own merge queue is on for this branch")
	default:
		r.doubt("the rule " + oneLine(rule.Type, 60))
	}
}

func (r *rules) doubt(what string) {
	if !slices.Contains(r.unknown, what) {
		r.unknown = append(r.unknown, what)
	}
}

// signatures notes that commits must be signed: those of the pull request too,
// which we cannot judge.
func (r *rules) signatures() {
	r.signed = true
	r.doubt("signed commits")
}

func (r *rules) check(name string, app *int64) {
	need := queue.Required{Name: name}
	if app != nil && *app > 0 {
		need.AppID = *app
	}
	if name != "" && !slices.Contains(r.checks, need) {
		r.checks = append(r.checks, need)
	}
}

func (r *rules) reviews(approvals int, codeOwners, lastPush, conversations bool) {
	r.approvals = max(r.approvals, approvals)
	r.conversations = r.conversations || conversations
	r.codeOwners = r.codeOwners || codeOwners
	r.lastPush = r.lastPush || lastPush
}

// flag is a setting of classic protection that is on or off.
type flag struct {
	Enabled bool `json:"enabled"`
}

// addProtection adds classic protection. A branch without any is 404, and
// without the permission to read it 403, as on a plan that has none: then the
// host enforces it, if there is any, unseen by us.
func (c *Client) addProtection(ctx context.Context, k *conn, repo queue.Repo, branch string, r *rules) error {
	var p struct {
		Checks *struct {
			Strict   bool     `json:"strict"`
			Contexts []string `json:"contexts"`
			Checks   []struct {
				Context string `json:"context"`
				AppID   *int64 `json:"app_id"`
			} `json:"checks"`
		} `json:"required_status_checks"`
		Reviews *struct {
			Approvals  int  `json:"required_approving_review_count"`
			CodeOwners bool `json:"require_code_owner_reviews"`
			LastPush   bool `json:"require_last_push_approval"`
		} `json:"required_pull_request_reviews"`
		Conversations flag `json:"required_conversation_resolution"`
		Linear        flag `json:"required_linear_history"`
		Signatures    flag `json:"required_signatures"`
		Locked        flag `json:"lock_branch"`
	}
	_, err := k.call(ctx, http.MethodGet, at(repo, "branches", branch, "protection"), nil, &p)
	switch status := statusOf(err); {
	case status == http.StatusNotFound:
		return nil
	case status == http.StatusForbidden:
		r.unseen = append(r.unseen, "branch protection")
		return nil
	case err != nil:
		return explain(err, "read the protection of branch %s of %s", branch, repo)
	}
	if p.Checks != nil {
		named := map[string]bool{}
		for _, check := range p.Checks.Checks {
			named[check.Context] = true
			r.check(check.Context, check.AppID)
		}
		for _, name := range p.Checks.Contexts {
			if !named[name] {
				r.check(name, nil)
			}
		}
		r.strict = r.strict || p.Checks.Strict
	}
	if p.Reviews != nil {
		r.reviews(p.Reviews.Approvals, p.Reviews.CodeOwners, p.Reviews.LastPush, false)
	}
	r.conversations = r.conversations || p.Conversations.Enabled
	r.linear = r.linear || p.Linear.Enabled
	if p.Signatures.Enabled {
		r.signatures()
	}
	if p.Locked.Enabled {
		r.doubt("the branch is locked")
	}
	return nil
}

// others are the required checks that are not our own.
func (r rules) others(branch string) []queue.Required {
	return slices.DeleteFunc(slices.Clone(r.checks), func(q queue.Required) bool { return q.Name == ownCheck(branch) })
}

// requiresUs reports whether our own check is among the required ones.
func (r rules) requiresUs(branch string) bool { return len(r.others(branch)) < len(r.checks) }

// unjudged names the rules that we cannot judge by ourselves.
func (r rules) unjudged() []string {
	var words []string
	for _, what := range r.unknown {
		words = append(words, "cannot be judged: "+what)
	}
	for _, what := range r.unseen {
		words = append(words, "cannot be judged: "+what+", which the App may not read; it needs the permission administration: read")
	}
	return words
}
