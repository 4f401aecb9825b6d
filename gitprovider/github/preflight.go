package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// preflight is one look at a queue's set-up. Each check adds findings under
// its own name and leaves what it read for those after it.
type preflight struct {
	c    *Client
	k    *conn
	repo queue.Repo
	work queue.RunPreflight
	out  []queue.Finding
	name string // of the check at work

	installed installedJSON
	commit    string // head of the target; "" if there is none
	rules     rules
	sets      []boundSet // the rulesets on the target, with how they bind us
	noExact   []string   // why the tested commit cannot be pushed
	remedies  []string   // what would make that possible
}

// preflightChecks are the checks, in the order in which they are shown.
var preflightChecks = []struct {
	name string
	run  func(*preflight, context.Context) error
}{
	{"installation", (*preflight).installation},
	{"permissions", (*preflight).permissions},
	{"events", (*preflight).events},
	{"webhooks", (*preflight).webhooks},
	{"branch", (*preflight).branch},
	{"clone", (*preflight).clone},
	{"required_statuses", (*preflight).requiredStatuses},
	{"silent_checks", (*preflight).silentChecks},
	{"bypass", (*preflight).bypass},
	{"protection", (*preflight).protection},
	{"landing", (*preflight).landing},
	{"merge_method", (*preflight).mergeMethod},
	{"linear_history", (*preflight).linearHistory},
	{"up_to_date", (*preflight).upToDate},
	{"checks_on_head", (*preflight).checksOnHead},
	{"merge_queue", (*preflight).mergeQueue},
	{"test_branches", (*preflight).testBranches},
	{"drafts", (*preflight).drafts},
	{"own_check", (*preflight).ownCheck},
}

// errEnough ends a preflight after whose finding the others mean nothing, and a
// list of which enough was read.
var errEnough = errors.New("enough")

// Preflight looks at a queue's set-up, see gitprovider.Reader. What may not be
// read is a finding of its check; only a host that does not answer is an error.
func (c *Client) Preflight(ctx context.Context, repo queue.Repo, work queue.RunPreflight) (queue.PreflightSeen, error) {
	p := &preflight{c: c, repo: repo, work: work}
	for _, check := range preflightChecks {
		p.name = check.name
		err := check.run(p, ctx)
		if errors.Is(err, errEnough) {
			break
		}
		switch kind := gitprovider.KindOf(err); {
		case err == nil:
		case kind == gitprovider.Denied || kind == gitprovider.Gone:
			var known *gitprovider.Error
			errors.As(err, &known)
			p.unknown(known.Message, "")
		default:
			return queue.PreflightSeen{}, fmt.Errorf("look at the set-up of %s of %s: %s: %w", work.Branch, repo, check.name, err)
		}
	}
	return queue.PreflightSeen{Findings: p.out, NoExact: asSentence(strings.Join(p.noExact, "; ")), At: c.cfg.Now().UTC()}, nil
}

func (p *preflight) add(level queue.Level, message, action string) {
	action = asSentence(action)
	if words := strings.Fields(action); len(words) > 0 && strings.Contains(words[len(words)-1], "://") {
		action = strings.TrimSuffix(action, ".") // it would become part of the address
	}
	p.out = append(p.out, queue.Finding{Check: p.name, Level: level, Message: asSentence(message), Action: action})
}

func (p *preflight) ok(format string, args ...any) {
	p.add(queue.LevelOK, fmt.Sprintf(format, args...), "")
}

func (p *preflight) note(message, action string)    { p.add(queue.LevelNote, message, action) }
func (p *preflight) problem(message, action string) { p.add(queue.LevelProblem, message, action) }
func (p *preflight) unknown(message, action string) { p.add(queue.LevelUnknown, message, action) }

// found reports whether this check has found something.
func (p *preflight) found() bool {
	return slices.ContainsFunc(p.out, func(f queue.Finding) bool { return f.Check == p.name })
}

// branch reads the head of the target.
func (p *preflight) branch(ctx context.Context) error {
	commit, _, err := p.c.target(ctx, p.k, p.repo, p.work.Branch)
	if gitprovider.KindOf(err) == gitprovider.Gone {
		p.problem(fmt.Sprintf("there is no branch %s in %s", p.work.Branch, p.repo), "create it, or delete this queue")
		return nil
	}
	if err != nil {
		return err
	}
	p.commit = commit
	p.ok("the branch %s is there", p.work.Branch)
	return nil
}

// clone reads a file of the target through the mirror, which makes it if need be.
func (p *preflight) clone(ctx context.Context) error {
	if p.commit == "" {
		return nil
	}
	src, err := p.c.source(ctx, p.k, p.repo)
	if err == nil {
		err = p.c.withSource(ctx, p.k, src.Repo, func(src mirror.Source) error {
			_, _, _, err := p.c.mirrors.File(ctx, src, p.commit, maxConfig, configFiles...)
			return err
		})
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		var remote *mirror.RemoteError
		if errors.As(err, &remote) {
			err = remote // without what was being done, which says nothing here
		}
		p.problem(fmt.Sprintf("git cannot fetch %s: %s", p.repo, oneLine(err.Error(), 500)),
			fmt.Sprintf("check that this machine reaches %s with git, through the proxy if there is one, and that its disk is not full", p.c.webURL))
		return nil
	}
	p.ok("git can fetch the repository")
	return nil
}

// requiredStatuses resolves what a run on the target would have to pass.
func (p *preflight) requiredStatuses(ctx context.Context) error {
	var err error
	if p.rules, err = p.c.rulesOf(ctx, p.k, p.repo, p.work.Branch); err != nil {
		return err
	}
	if p.commit == "" {
		return nil
	}
	src, err := p.c.source(ctx, p.k, p.repo)
	if err != nil {
		return err
	}
	list, from, err := p.c.required(ctx, p.k, src, p.work.RequiredStatuses, p.work.Branch, p.commit, func() (rules, error) { return p.rules, nil })
	var config *configError
	switch {
	case errors.As(err, &config):
		p.problem(config.message, fmt.Sprintf("correct the file on %s: until then no pull request can be tested", p.work.Branch))
	case err != nil && ctx.Err() == nil:
		p.unknown("the configuration file on the branch could not be read", "")
	case err != nil:
		return err
	case len(list) == 0:
		p.problem("no status is required, so that nothing could be proved and no pull request can be tested",
			"name some in the queue's requiredStatuses, in .signalbox.yaml (merge: required_statuses: [..]), or in a ruleset of "+p.work.Branch)
	default:
		var names []string
		for _, q := range list {
			names = append(names, q.Name)
		}
		p.ok("required are %s, by %s", quoted(names), map[queue.RequiredSource]string{
			queue.FromQueue: "the queue's settings", queue.FromConfigFile: "the configuration file", queue.FromProtection: "the rules of the branch",
		}[from])
	}
	return nil
}

// silentChecks tells what the queue's own runs have shown.
func (p *preflight) silentChecks(context.Context) error {
	if len(p.work.Silent) == 0 {
		return nil
	}
	action := "have its workflow run on push to signalbox/**"
	if p.work.DraftPRs {
		action += ", or on pull_request"
	}
	p.problem(fmt.Sprintf("nobody reported %s on the newest test branch that waited for it", quoted(p.work.Silent)), action)
	return nil
}

// mergeQueue finds the host's own queue on the branch.
func (p *preflight) mergeQueue(context.Context) error {
	for _, s := range p.sets {
		if slices.Contains(s.types, "merge_queue") {
			p.problem(fmt.Sprintf("the host's own merge queue is on for %s, by the ruleset %q: two queues cannot land on one branch", p.work.Branch, s.name),
				fmt.Sprintf("remove the merge queue from the ruleset: %s", s.link))
		}
	}
	return nil
}

// drafts tells whether the host refused a draft pull request.
func (p *preflight) drafts(context.Context) error {
	switch {
	case !p.work.DraftPRs:
	case p.work.NoDrafts:
		p.problem("the host opens no draft pull requests in this repository, and the queue opens one for each test branch",
			"set createPrsForTestingBranches to false, and have CI run on push to signalbox/**")
	}
	return nil
}

// ownCheck says that a required check of our own is no trouble.
func (p *preflight) ownCheck(context.Context) error {
	if p.rules.requiresUs(p.work.Branch) {
		p.note(fmt.Sprintf("a rule requires the App's own check, %q: it is never waited for, and it is set to success when a pull request lands", gitprovider.OwnCheck(p.work.Branch)), "")
	}
	return nil
}

// checksOnHead: where the host merges and its rules bind the App, a required
// check must be green on the pull request itself, so it must run there.
func (p *preflight) checksOnHead(ctx context.Context) error {
	need := p.bindingChecks()
	if p.mode() != queue.LandHost || len(need) == 0 {
		return nil
	}
	heads, err := p.newestHeads(ctx)
	if err != nil {
		return err
	}
	if len(heads) == 0 {
		p.unknown(fmt.Sprintf("the host merges only when %s is green on the pull request itself, and there is no open pull request that shows whether it runs there", quoted(need)), "look again when there is one")
		return nil
	}
	for _, head := range heads {
		reports, err := p.c.checks(ctx, p.k, p.repo, head)
		if err != nil {
			return err
		}
		need = slices.DeleteFunc(need, func(name string) bool {
			return slices.ContainsFunc(reports, func(r queue.Report) bool { return r.Name == name })
		})
	}
	if len(need) == 0 {
		p.ok("the checks that the host wants run on pull requests, too")
		return nil
	}
	p.problem(fmt.Sprintf("the host merges only when %s is green on the pull request itself, and it did not run on the newest pull requests (%d)", quoted(need), len(heads)),
		"have its workflow run on pull_request, too, or make the App exempt from the rule")
	return nil
}

// newestHeads are the heads of the pull requests that changed last, without our drafts.
func (p *preflight) newestHeads(ctx context.Context) ([]string, error) {
	var page []*github.PullRequest
	path := at(p.repo, "pulls") + "?state=open&sort=updated&direction=desc&per_page=20&base=" + url.QueryEscape(p.work.Branch)
	if _, err := p.k.call(ctx, http.MethodGet, path, nil, &page); err != nil {
		return nil, explain(err, "list pull requests of %s", p.repo)
	}
	var heads []string
	for _, pr := range page {
		if head := pr.GetHead().GetSHA(); validCommit(head) && !strings.HasPrefix(pr.GetHead().GetRef(), branchPrefix) && len(heads) < 5 {
			heads = append(heads, head)
		}
	}
	return heads, nil
}

// quoted lists names as people read them, not too many.
func quoted(names []string) string {
	const most = 10
	var out []string
	for i, n := range names {
		if i == most {
			out = append(out, fmt.Sprintf("%d more", len(names)-most))
			break
		}
		out = append(out, fmt.Sprintf("%q", oneLine(n, 100)))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
