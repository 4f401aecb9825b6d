package rest

import (
	"context"
	"fmt"
	"net/http"

	"signalbox/queue"
)

// headerForkRun is the run of CI of a pull request from a fork, which has no
// secret to call us with.
const headerForkRun = "X-Forked-Workflow-Run-Id"

// maxTargets is how many targets one pull request may impact, repetitions
// included; whoever has more means ALL.
const maxTargets = 1_000_000

// The words for everything. Actions send either.
const (
	allTargets = "ALL"
	impactsAll = "IMPACTS_ALL"
)

// upload is what the CI of a pull request says that it impacts.
type upload struct {
	pr         int64
	head       string // "": the head that it has now
	everything bool
	names      []string
}

// fields are those of setImpactedTargets beyond the queue's.
func (u *upload) fields() []field {
	return []field{
		required("pr", func(f *form, v value) {
			f.object(v, []field{required("number", pullRequestNumber(&u.pr)), optional("sha", commitID(&u.head))})
		}),
		required("impactedTargets", u.readTargets),
	}
}

// readTargets reads a list of names, or one of the words for everything. Their
// order and repetitions mean nothing. An empty name is no target: scripts send
// one where a list of lines is empty. ALL in a list is ALL, whatever else is in
// it: that is the side on which nothing lands untested.
func (u *upload) readTargets(f *form, v value) {
	switch v.raw[0] {
	case '"':
		if word := v.text(); word != allTargets && word != impactsAll {
			f.refuse(v, `must be an array of strings or "ALL"`)
			return
		}
		u.everything = true
	case '[':
		for i, item := range v.items() {
			switch {
			case i == maxTargets:
				f.refuse(v, fmt.Sprintf("must not have more than %d items; a pull request that impacts so much impacts ALL", maxTargets))
				return
			case item.raw[0] != '"':
				f.refuse(item, "must be a string, not "+item.kind())
				return
			}
			switch name := item.text(); name {
			case "":
			case allTargets, impactsAll:
				u.everything = true
			default:
				u.names = append(u.names, name)
			}
		}
	default:
		f.refuse(v, `must be an array of strings or "ALL", not `+v.kind())
	}
}

// commitID reads the id of a commit, in full.
func commitID(to *string) func(*form, value) {
	return func(f *form, v value) {
		given, ok := textIn(f, v, 64)
		if !ok {
			return
		}
		given = lower(given)
		for _, c := range []byte(given) {
			ok = ok && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
		}
		if !ok || len(given) != 40 && len(given) != 64 {
			f.refuse(v, "must be the whole id of a commit, 40 hexadecimal digits")
			return
		}
		*to = given
	}
}

// fromFork reports whether a request without a token says that it comes from
// a fork's CI. setImpactedTargets finds out whether that is so.
func fromFork(header http.Header) bool { return header.Get(headerForkRun) != "" }

func (a *API) setImpactedTargets(ctx context.Context, c *call) (any, error) {
	var u upload
	p, err := a.decodePlace(c, u.fields()...)
	if err != nil {
		return nil, err
	}
	find := a.targetsOf
	if c.anonymous() {
		find = a.targetsOfFork
	}
	q, head, err := find(ctx, c, p, u)
	if err != nil {
		return nil, err
	}
	if err := a.store.SetImpactedTargets(ctx, q.Repo.ID, u.pr, head, u.names, u.everything); err != nil {
		return nil, orNotFound(fmt.Errorf("store impacted targets: %w", err), p.notFound())
	}
	return struct{}{}, nil
}

// targetsOf finds the queue and the head commit that an upload is for.
func (a *API) targetsOf(ctx context.Context, c *call, p place, u upload) (queue.Queue, string, error) {
	if u.head != "" {
		q, err := a.find(ctx, c, p)
		return q, u.head, err
	}
	q, err := a.findConnected(ctx, c, p)
	if err != nil {
		return q, "", err
	}
	seen, err := a.git.PullRequest(ctx, q.Repo, u.pr)
	switch {
	case err != nil && a.isGone(err):
		return q, "", notFound(CodePullRequestNotFound, "There is no pull request #%d in %s.", u.pr, p.repo())
	case err != nil:
		return q, "", hostUnavailable(p.host, fmt.Errorf("read pull request #%d of %s: %w", u.pr, q.Repo, err))
	}
	return q, seen.Head, nil
}

// targetsOfFork does so for a caller who names a run of CI instead of a token:
// the host must say that this run is in progress for the present head of that
// pull request, which must come from a fork. Whatever is not so gets one and
// the same answer: a stranger learns nothing of what exists.
func (a *API) targetsOfFork(ctx context.Context, c *call, p place, u upload) (queue.Queue, string, error) {
	unconfirmed := &failure{status: http.StatusUnauthorized, code: CodeForkRunUnconfirmed,
		message: fmt.Sprintf("%s does not confirm that the run in the header x-forked-workflow-run-id is in progress in %s, for the head commit of pull request #%d, and that this comes from a fork.", p.host, p.repo(), u.pr)}
	run, ok := runID(c.header.Get(headerForkRun))
	if !ok {
		return queue.Queue{}, "", unconfirmed
	}
	org, err := a.store.OrganizationOf(ctx, p.host, p.owner, p.name)
	if err != nil {
		return queue.Queue{}, "", orNotFound(fmt.Errorf("find repository: %w", err), unconfirmed)
	}
	q, err := a.store.FindQueue(ctx, org, p.host, p.owner, p.name, p.branch)
	if err != nil {
		return q, "", orNotFound(fmt.Errorf("find queue: %w", err), unconfirmed)
	}
	head, live, err := a.git.ForkRun(ctx, q.Repo, run)
	if err == nil && (!live || u.head != "" && u.head != head) {
		return q, "", unconfirmed // without another call to the host
	}
	var seen queue.PullRequestSeen
	if err == nil {
		seen, err = a.git.PullRequest(ctx, q.Repo, u.pr)
	}
	switch {
	case err != nil && a.isGone(err):
		return q, "", unconfirmed
	case err != nil:
		return q, "", hostUnavailable(p.host, fmt.Errorf("confirm run %d of %s: %w", run, q.Repo, err))
	case !seen.Fork || seen.Head != head:
		return q, "", unconfirmed
	}
	return q, head, nil
}

// runID reads the id of a run: a positive number.
func runID(text string) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n > 0
}

// targetsOfRun is what a run's pull requests impact, those ahead included, and
// what those that it tests do. Both are nil when nobody uploaded anything for
// any of them.
func (a *API) targetsOfRun(ctx context.Context, q queue.Queue, run queue.Run) (all, tested *[]string, err error) {
	names, everything, known, err := a.store.ImpactedTargets(ctx, q.Repo.ID, run.Chain)
	if err != nil || !known {
		return nil, nil, err
	}
	all = shownTargets(names, everything)
	own := run.Chain[max(0, len(run.Chain)-len(run.Members)):]
	if len(own) == len(run.Chain) {
		return all, all, nil
	}
	names, everything, _, err = a.store.ImpactedTargets(ctx, q.Repo.ID, own)
	return all, shownTargets(names, everything), err
}

func shownTargets(names []string, everything bool) *[]string {
	if everything {
		names = []string{allTargets}
	}
	names = list(names)
	return &names
}
