package github

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"signalbox/gitprovider"
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
	methods       [][]string // each rule's list of the only merge methods that are allowed, in the host's words
	unknown       []string   // what we cannot judge, in words
	unseen        []string   // what may not be read, in words

	sets    []ruleset // where the rules of rulesets are from
	classic *classic  // nil: there is none, or it may not be read
}

// ruleset is one ruleset's part in the rules of a branch.
type ruleset struct {
	id     int64
	types  []string
	checks []string // names of those it requires
	strict bool
}

// classic is what classic protection asks of whoever pushes.
type classic struct {
	restricted, mayPush bool // only some may push, and we are among them
	reviews, mayBypass  bool // changes go through pull requests, and we may go past that
	strict              bool // pull requests must be up to date
	locked, signed      bool
	checks              []string
}

// The rules that need nothing of a pull request: they are about how the
// branch is moved, or only have something done. "update" is what makes the
// host say blocked to everybody.
var movementRules = []string{"update", "creation", "deletion", "non_fast_forward", "copilot_code_review"}

// strict reports whether a pull request must be up to date with its base.
func (r rules) strict() bool {
	return r.classic != nil && r.classic.strict || slices.ContainsFunc(r.sets, func(s ruleset) bool { return s.strict })
}

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
	Ruleset    int64           `json:"ruleset_id"`
}

// unprotectedFor is for how long a branch without classic protection is believed
// to have none, where nothing lands by it. Only that answer is not free to ask
// for again: the host confirms no 404 as unchanged.
const unprotectedFor = 30 * time.Second

// rulesOf reads the rules of a branch, all pages.
func (c *Client) rulesOf(ctx context.Context, k *conn, repo queue.Repo, branch string) (rules, error) {
	return c.readRules(ctx, k, repo, branch, false)
}

// rulesLately is rulesOf for what is decided again before anything lands: that a
// branch has no classic protection may have been read a moment ago.
func (c *Client) rulesLately(ctx context.Context, k *conn, repo queue.Repo, branch string) (rules, error) {
	read, known := k.unprotected.get(at(repo, branch))
	return c.readRules(ctx, k, repo, branch, known && c.cfg.Now().Sub(read) < unprotectedFor)
}

// readRules is rulesOf of a branch that may be known to have no classic protection.
func (c *Client) readRules(ctx context.Context, k *conn, repo queue.Repo, branch string, unprotected bool) (rules, error) {
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
	if unprotected {
		return r, nil
	}
	return r, c.addProtection(ctx, k, repo, branch, &r)
}

// set is the ruleset with an id among those that were seen.
func (r *rules) set(id int64) *ruleset {
	at := slices.IndexFunc(r.sets, func(s ruleset) bool { return s.id == id })
	if at < 0 {
		at = len(r.sets)
		r.sets = append(r.sets, ruleset{id: id})
	}
	return &r.sets[at]
}

func (r *rules) add(rule ruleJSON) {
	set := r.set(rule.Ruleset)
	set.types = append(set.types, oneLine(rule.Type, 60))
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
			set.checks = append(set.checks, check.Context)
		}
		set.strict = set.strict || p.Strict
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

// toggle is a setting of classic protection that is on or off.
type toggle struct {
	Enabled bool `json:"enabled"`
}

// appsJSON are Apps that protection lets do something.
type appsJSON []struct {
	ID int64 `json:"id"`
}

func (a appsJSON) have(id int64) bool {
	for _, app := range a {
		if app.ID == id {
			return true
		}
	}
	return false
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
			Bypass     struct {
				Apps appsJSON `json:"apps"`
			} `json:"bypass_pull_request_allowances"`
		} `json:"required_pull_request_reviews"`
		Restrictions *struct {
			Apps appsJSON `json:"apps"`
		} `json:"restrictions"`
		Conversations toggle `json:"required_conversation_resolution"`
		Linear        toggle `json:"required_linear_history"`
		Signatures    toggle `json:"required_signatures"`
		Locked        toggle `json:"lock_branch"`
	}
	_, err := k.call(ctx, http.MethodGet, at(repo, "branches", branch, "protection"), nil, &p)
	switch status := statusOf(err); {
	case status == http.StatusNotFound:
		k.unprotected.put(at(repo, branch), c.cfg.Now())
		return nil
	case status == http.StatusForbidden:
		r.unseen = append(r.unseen, "branch protection")
		return nil
	case err != nil:
		return explain(err, "read the protection of branch %s of %s", branch, repo)
	}
	r.classic = &classic{locked: p.Locked.Enabled, signed: p.Signatures.Enabled}
	if p.Restrictions != nil {
		r.classic.restricted, r.classic.mayPush = true, p.Restrictions.Apps.have(c.cfg.AppID)
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
				named[name] = true
			}
		}
		r.classic.strict, r.classic.checks = p.Checks.Strict, slices.Sorted(maps.Keys(named))
	}
	if p.Reviews != nil {
		r.classic.reviews, r.classic.mayBypass = true, p.Reviews.Bypass.Apps.have(c.cfg.AppID)
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
	return slices.DeleteFunc(slices.Clone(r.checks), func(q queue.Required) bool { return q.Name == gitprovider.OwnCheck(branch) })
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
