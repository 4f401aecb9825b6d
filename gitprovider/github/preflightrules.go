package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/account"
	"signalbox/gitprovider"
	"signalbox/queue"
)

// The checks of a preflight about rules: which bind the App, and what follows
// for how the queue can land.

// boundSet is a ruleset with how it binds the App.
type boundSet struct {
	ruleset
	name string
	// can is the host's word on whether we may pass it: exempt, always,
	// pull_requests_only or never; "" where it does not say.
	can  string
	link string
}

// exempt reports whether the ruleset lets the App push what it likes.
func (s boundSet) exempt() bool { return s.can == "exempt" }

// passable reports whether the ruleset lets the App merge what it likes.
func (s boundSet) passable() bool {
	return s.can == "exempt" || s.can == "always" || s.can == "pull_requests_only"
}

// bound reads the rulesets of a branch with how they bind us.
func (p *preflight) bound(ctx context.Context, r rules) ([]boundSet, error) {
	var all []boundSet
	for _, set := range r.sets {
		var out struct {
			Name  string `json:"name"`
			Can   string `json:"current_user_can_bypass"`
			Links struct {
				HTML struct {
					Href string `json:"href"`
				} `json:"html"`
			} `json:"_links"`
		}
		_, err := p.k.call(ctx, http.MethodGet, at(p.repo, "rulesets", set.id), nil, &out)
		if status := statusOf(err); err != nil && status != http.StatusNotFound && status != http.StatusForbidden {
			return nil, explain(err, "read ruleset %d of %s", set.id, p.repo)
		}
		b := boundSet{ruleset: set, name: oneLine(out.Name, 100), can: oneLine(out.Can, 40), link: link(out.Links.HTML.Href)}
		if b.name == "" {
			b.name = fmt.Sprint(set.id)
		}
		if b.link == "" {
			b.link = fmt.Sprintf("%s/%s/%s/settings/rules", p.c.webURL, p.repo.Owner, p.repo.Name)
		}
		all = append(all, b)
	}
	return all, nil
}

// noPush are the rules that do not mind who moves the branch forward, or how.
var noPush = []string{"creation", "deletion", "non_fast_forward", "required_linear_history", "copilot_code_review"}

// bypass looks at each ruleset on the target.
func (p *preflight) bypass(ctx context.Context) (err error) {
	if p.sets, err = p.bound(ctx, p.rules); err != nil {
		return err
	}
	for _, what := range p.rules.unseen {
		if account.Grants(p.installed.Permissions["administration"], "read") {
			continue // we may; the host has none to show, as for a private repository on a free plan
		}
		p.unknown("the App may not read "+what, "give it the permission administration: read")
	}
	for _, s := range p.sets {
		if !slices.ContainsFunc(s.types, func(kind string) bool { return !slices.Contains(noPush, kind) }) {
			continue
		}
		switch {
		case s.exempt():
			p.ok("the App is exempt from the ruleset %q", s.name)
		case s.can == "":
			p.noExact = append(p.noExact, fmt.Sprintf("the host does not say whether the App is exempt from the ruleset %q", s.name))
			p.exempt(s)
			p.unknown(fmt.Sprintf("the host does not say whether the App is exempt from the ruleset %q", s.name),
				"add the App to its bypass list with Exempt: "+s.link)
		default:
			p.noExact = append(p.noExact, fmt.Sprintf("the App is not exempt from the ruleset %q", s.name))
			p.exempt(s)
		}
	}
	for _, s := range p.sets {
		if !s.passable() && s.can != "" && slices.Contains(s.types, "update") {
			p.problem(fmt.Sprintf("the ruleset %q lets nobody update %s, and the App is not on its bypass list", s.name, p.work.Branch),
				"add the App to the bypass list with Exempt: "+s.link)
		}
	}
	return nil
}

// exempt notes that the App must become exempt from a ruleset.
func (p *preflight) exempt(s boundSet) {
	p.remedies = append(p.remedies, fmt.Sprintf("add the App with Exempt to the bypass list of the ruleset %q (%s)", s.name, s.link))
}

// protection looks at classic protection, if there is any.
func (p *preflight) protection(context.Context) error {
	c := p.rules.classic
	if c == nil {
		return nil
	}
	var why []string
	if c.restricted && !c.mayPush {
		why = append(why, fmt.Sprintf("the App is not among those who may push to %s", p.work.Branch))
		p.remedies = append(p.remedies, fmt.Sprintf("add the App to those who may push (%s)", p.branchSettings()))
	}
	if c.reviews && !c.mayBypass {
		why = append(why, fmt.Sprintf("the App is not among those who may go past pull requests on %s", p.work.Branch))
		p.remedies = append(p.remedies, fmt.Sprintf("allow the App to bypass required pull requests (%s)", p.branchSettings()))
	}
	if c.locked {
		why = append(why, fmt.Sprintf("the branch %s is locked", p.work.Branch))
	}
	if c.signed && !p.c.signs() {
		why = append(why, fmt.Sprintf("the branch %s takes signed commits only", p.work.Branch))
	}
	p.noExact = append(p.noExact, why...)
	switch {
	case c.locked:
		p.problem(fmt.Sprintf("the branch %s is locked: nothing can land on it", p.work.Branch), "unlock it: "+p.branchSettings())
	case len(why) == 0:
		p.ok("the protection of %s lets the App push what has passed", p.work.Branch)
	}
	return nil
}

func (p *preflight) branchSettings() string {
	return fmt.Sprintf("%s/%s/%s/settings/branches", p.c.webURL, p.repo.Owner, p.repo.Name)
}

// mode is the landing mode in force.
func (p *preflight) mode() queue.LandingMode {
	q := queue.Queue{Settings: queue.Settings{MergeMethod: p.work.Method, ChosenLandingMode: p.work.Chosen},
		Preflight: queue.Preflight{NoExact: strings.Join(p.noExact, "; ")}}
	return q.LandingMode()
}

// landing says how the queue lands, and why not otherwise.
func (p *preflight) landing(context.Context) error {
	why := strings.Join(p.noExact, "; ")
	follows := queue.Settings{MergeMethod: p.work.Method}.LandingMode()
	remedy := strings.Join(p.remedies, "; ")
	switch {
	case p.mode() == queue.LandExact && why == "":
		p.ok("the queue lands the tested commit itself")
	case p.mode() == queue.LandExact:
		if remedy != "" {
			remedy += "; or "
		}
		p.problem("the queue's landingMode is exact, and that is not possible: "+why, remedy+"set landingMode to host")
	case p.work.Chosen == "" && follows == queue.LandExact:
		p.note("the queue lands through the host's merge call, because it cannot push the tested commit itself: "+why, forExact(remedy))
	default:
		p.ok("the queue lands through the host's merge call")
	}
	return nil
}

func forExact(remedy string) string {
	if remedy == "" {
		return ""
	}
	return "if it should, " + remedy
}

// mergeMethod: the host must allow the method that it is asked for.
func (p *preflight) mergeMethod(ctx context.Context) error {
	method := methodNames[p.work.Method]
	for _, s := range p.rules.methods {
		if !slices.Contains(s, method) {
			p.problem(fmt.Sprintf("a rule of %s allows only these merge methods: %s; the queue's mergeMethod is %s", p.work.Branch, strings.Join(s, ", "), p.work.Method),
				"set mergeMethod to one of them, or change the rule")
			return nil
		}
	}
	if p.mode() != queue.LandHost {
		return nil
	}
	var repo github.Repository
	if _, err := p.k.call(ctx, http.MethodGet, at(p.repo), nil, &repo); err != nil {
		return explain(err, "read repository %s", p.repo)
	}
	allowed := map[queue.MergeMethod]*bool{queue.MergeCommit: repo.AllowMergeCommit, queue.Squash: repo.AllowSquashMerge, queue.Rebase: repo.AllowRebaseMerge}[p.work.Method]
	switch {
	case allowed == nil:
		p.unknown("the host does not say which merge methods the repository allows", "")
	case !*allowed:
		p.problem(fmt.Sprintf("the repository does not allow the merge method %s, and the queue lands with it through the host", method),
			"allow it in the repository's settings under Pull Requests, or set another mergeMethod")
	default:
		p.ok("the repository allows the merge method %s", method)
	}
	return nil
}

func (p *preflight) linearHistory(context.Context) error {
	if p.rules.linear && p.work.Method == queue.MergeCommit {
		p.problem(fmt.Sprintf("a rule of %s wants a linear history, and the queue's mergeMethod is merge_commit", p.work.Branch),
			"set mergeMethod to squash or rebase, or drop the rule")
	}
	return nil
}

// upToDate: each landing through the host makes the next pull request out of date.
func (p *preflight) upToDate(context.Context) error {
	strict := slices.ContainsFunc(p.sets, func(s boundSet) bool { return s.strict && !s.passable() })
	if c := p.rules.classic; c != nil && c.strict && !(c.restricted && c.mayPush) {
		strict = true
	}
	if strict && p.mode() == queue.LandHost {
		p.problem(fmt.Sprintf("a rule wants pull requests to be up to date with %s before they merge: when one lands through the host, the next is out of date and is refused", p.work.Branch),
			"make the App exempt, so that the queue can land the tested commit, or turn off \"Require branches to be up to date before merging\"")
	}
	return nil
}

// bindingChecks are the names of the required checks that the host asks of us, too.
func (p *preflight) bindingChecks() []string {
	var names []string
	add := func(list []string) {
		for _, n := range list {
			if n != gitprovider.OwnCheck(p.work.Branch) && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, s := range p.sets {
		if !s.passable() {
			add(s.checks)
		}
	}
	if c := p.rules.classic; c != nil {
		add(c.checks)
	}
	return names
}

// testBranches looks for rules that refuse test branches.
func (p *preflight) testBranches(ctx context.Context) error {
	r, err := p.c.rulesOf(ctx, p.k, p.repo, branchPrefix+"pr-0/preflight")
	if err != nil {
		return err
	}
	sets, err := p.bound(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range sets {
		refuses := slices.DeleteFunc(slices.Clone(s.types), func(kind string) bool {
			return kind == "non_fast_forward" || kind == "copilot_code_review"
		})
		if len(refuses) == 0 || s.exempt() || s.can == "always" {
			continue
		}
		p.problem(fmt.Sprintf("the ruleset %q covers test branches (%s**) too, with %s", s.name, branchPrefix, strings.Join(slices.Compact(slices.Sorted(slices.Values(refuses))), ", ")),
			fmt.Sprintf("exclude %s** in it, or make the App exempt: %s", branchPrefix, s.link))
	}
	if !p.found() && len(r.unseen) == 0 {
		p.ok("no rule stands in the way of test branches")
	}
	return nil
}
