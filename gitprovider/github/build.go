package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
	"signalbox/queue/texts"
)

// branchPrefix is what the names of test branches begin with. Nothing else is
// ever overwritten or deleted.
const branchPrefix = "signalbox/"

// Build makes test branches, see gitprovider.Builder. The commits are made
// first, then each run's required statuses are found, and what is left is
// published with one push; draft pull requests come last.
func (c *Client) Build(ctx context.Context, repo queue.Repo, work queue.BuildRuns) ([]queue.Fact, error) {
	k, err := c.conn(repo)
	if err != nil {
		return nil, err
	}
	ctx = first(ctx)
	b := &building{c: c, k: k, repo: repo, work: work, hostRules: map[string]func() (rules, error){}}
	for _, run := range work.Runs {
		if !strings.HasPrefix(run.Branch, branchPrefix) || run.Branch == run.Target {
			return nil, denied("%.200q cannot be a test branch; its name must begin with %s", run.Branch, branchPrefix)
		}
	}
	err = c.withSource(ctx, k, repo, func(src mirror.Source) (err error) {
		b.src = src
		b.made, err = c.mirrors.Make(ctx, src, work.Runs)
		return err
	})
	var cloning *mirror.CloningError
	if errors.As(err, &cloning) {
		return b.waiting(cloning), nil
	}
	if err != nil {
		return nil, err
	}
	for i := range b.made {
		if err := b.resolve(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := b.publish(ctx); err != nil {
		return nil, err
	}
	return b.facts(ctx), nil
}

// building is one Build.
type building struct {
	c    *Client
	k    *conn
	repo queue.Repo
	src  mirror.Source
	work queue.BuildRuns

	made      []mirror.Made // as work.Runs
	required  [][]queue.Required
	source    []queue.RequiredSource
	published map[string]bool                  // by branch
	hostRules map[string]func() (rules, error) // by target, read once
}

// waiting tells that no run was built because the first copy of the repository
// is still on its way. That takes longer than an attempt may, so people get to
// know it now, and the runs are asked for again later.
func (b *building) waiting(cloning *mirror.CloningError) []queue.Fact {
	var facts []queue.Fact
	for _, run := range b.work.Runs {
		facts = append(facts, queue.RunNotBuilt{Run: run.Run, Trouble: queue.TroubleTransient, Message: asSentence(cloning.Error()), At: b.c.cfg.Now().UTC()})
	}
	return facts
}

// resolve finds the required statuses of a run that was made.
func (b *building) resolve(ctx context.Context, i int) error {
	b.required = append(b.required, nil)
	b.source = append(b.source, "")
	if b.made[i].Trouble != "" {
		return nil
	}
	target := b.work.Runs[i].Target
	if b.hostRules[target] == nil {
		b.hostRules[target] = sync.OnceValues(func() (rules, error) { return b.c.rulesLately(ctx, b.k, b.repo, target) })
	}
	list, source, err := b.c.required(ctx, b.k, b.src, b.work.RequiredStatuses, target, b.made[i].Commit(), b.hostRules[target])
	var config *configError
	switch {
	case errors.As(err, &config):
		b.not(i, queue.TroubleConfig, config.message)
	case err != nil:
		return fmt.Errorf("find the required statuses of run %s: %w", b.made[i].Run, err)
	case len(list) == 0:
		b.not(i, queue.TroubleNoRequired, "no status is required, so nothing could be proved: name some in the queue's requiredStatuses, "+
			"in .signalbox.yaml (merge: required_statuses: [..]), or in a ruleset or the protection of "+target)
	}
	b.required[i], b.source[i] = list, source
	return nil
}

// not marks a run as not built, and the runs of this build that include it as stale.
func (b *building) not(i int, trouble queue.Trouble, message string) {
	b.made[i].Trouble, b.made[i].Message = trouble, message
	run := b.work.Runs[i]
	if trouble == queue.TroubleConfig && run.Own == 1 {
		b.made[i].Entry = run.Chain[len(run.Chain)-1].Entry
	}
	own := map[queue.EntryID]bool{}
	for _, s := range run.Chain[len(run.Chain)-run.Own:] {
		own[s.Entry] = true
	}
	for j := i + 1; j < len(b.made); j++ {
		for _, s := range b.work.Runs[j].Chain {
			if own[s.Entry] && b.made[j].Trouble == "" {
				b.made[j].Trouble = queue.TroubleStale
				b.made[j].Message = fmt.Sprintf("it includes pull request %d, which could not be tested", s.PR)
			}
		}
	}
}

// publish pushes the branches of all runs without trouble.
func (b *building) publish(ctx context.Context) error {
	var branches []mirror.Branch
	for _, m := range b.made {
		if m.Trouble == "" {
			branches = append(branches, mirror.Branch{Name: m.Branch, Commit: m.Commit()})
		}
	}
	var refused map[string]string
	err := b.c.withSource(ctx, b.k, b.repo, func(src mirror.Source) (err error) {
		refused, err = b.c.mirrors.Publish(ctx, src, branches)
		return err
	})
	if err != nil {
		return err
	}
	b.published = map[string]bool{}
	for _, branch := range branches {
		_, no := refused[branch.Name]
		b.published[branch.Name] = !no
	}
	for i, m := range b.made {
		if text, ok := refused[m.Branch]; ok && m.Trouble == "" {
			b.not(i, queue.TroubleDenied, withRemedy("the host refuses the test branch "+m.Branch+": "+text, branchRemedy(text)))
		}
	}
	return nil
}

// facts opens the draft pull requests and tells how each run went.
func (b *building) facts(ctx context.Context) []queue.Fact {
	drafts := make([]int64, len(b.made))
	for i := range b.made {
		if b.made[i].Trouble != "" || !b.work.DraftPRs {
			continue
		}
		number, err := b.draft(ctx, i)
		drafts[i] = number
		switch {
		case err == nil:
		case errors.Is(err, errNoDrafts):
			b.not(i, queue.TroubleDraft, err.Error()+"; turn off createPrsForTestingBranches on this queue, or allow drafts")
		case gitprovider.KindOf(err) == gitprovider.Denied:
			b.not(i, queue.TroubleDenied, err.Error())
		default:
			b.not(i, queue.TroubleTransient, err.Error())
		}
	}
	var facts []queue.Fact
	now := b.c.cfg.Now().UTC()
	for i, m := range b.made {
		if m.Trouble == "" {
			facts = append(facts, queue.RunBuilt{Run: m.Run, Base: m.Base, Chain: m.Chain,
				Required: b.required[i], RequiredSource: b.source[i], DraftPR: drafts[i], At: now})
			continue
		}
		b.unpublish(ctx, m)
		facts = append(facts, queue.RunNotBuilt{Run: m.Run, Trouble: m.Trouble, Entry: m.Entry, With: m.With, Message: asSentence(m.Message), At: now})
	}
	return facts
}

// unpublish takes a branch back whose run is in trouble after all.
func (b *building) unpublish(ctx context.Context, m mirror.Made) {
	if !b.published[m.Branch] {
		return
	}
	if err := b.c.deleteBranch(ctx, b.k, b.repo, m.Branch); err != nil {
		b.c.log.Warn("delete the branch of a run that was not built", "branch", m.Branch, "error", err)
	}
}

// errNoDrafts: the host opens no draft pull requests here.
var errNoDrafts = errors.New("the host allows no draft pull requests")

// draft opens the draft pull request of a run, or finds the one that an
// earlier attempt opened.
func (b *building) draft(ctx context.Context, i int) (int64, error) {
	run := b.work.Runs[i]
	var out github.PullRequest
	_, err := b.k.call(ctx, http.MethodPost, at(b.repo, "pulls"), map[string]any{
		"title": texts.DraftTitle(run), "head": run.Branch, "base": run.Target, "body": texts.DraftBody(b.c.webOfRepo(b.repo), run), "draft": true,
	}, &out)
	if err == nil && out.GetNumber() > 0 && !out.GetDraft() {
		err = fmt.Errorf("the host opened pull request %d, and not as a draft", out.GetNumber())
		b.c.closePull(ctx, b.k, b.repo, int64(out.GetNumber()))
		return 0, fmt.Errorf("%w: %w", errNoDrafts, err)
	}
	if err == nil && out.GetNumber() > 0 {
		return int64(out.GetNumber()), nil
	}
	if err != nil && statusOf(err) != http.StatusUnprocessableEntity {
		return 0, explain(err, "open the draft pull request of run %s", run.Run)
	}
	// 422 stands for "there is one" and for "no drafts here": look.
	number, there, findErr := b.c.openPullFrom(ctx, b.k, b.repo, run.Branch)
	switch {
	case findErr != nil:
		return 0, findErr
	case there:
		return number, nil
	case err == nil:
		return 0, fmt.Errorf("open the draft pull request of run %s: the host's answer does not describe it", run.Run)
	default:
		return 0, fmt.Errorf("%w (%s)", errNoDrafts, hostWords(err))
	}
}

func (c *Client) openPullFrom(ctx context.Context, k *conn, repo queue.Repo, branch string) (number int64, there bool, err error) {
	query := "?state=open&head=" + url.QueryEscape(repo.Owner+":"+branch)
	err = pages(ctx, k, at(repo, "pulls")+query, func(page []*github.PullRequest) error {
		for _, pr := range page {
			if pr.GetHead().GetRef() == branch && pr.GetNumber() > 0 {
				number, there = int64(pr.GetNumber()), true
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, explain(err, "look for the pull request of branch %s", branch)
	}
	return number, there, nil
}
