package rest

import (
	"context"
	"fmt"
	"net/http"

	"signalbox/account"
	"signalbox/queue"
)

// submitted is a pull request in a queue, or one that was.
type submitted struct {
	enqueued
	ForceEnqueued               bool        `json:"forceEnqueued"`
	IsCurrentlySubmittedToQueue bool        `json:"isCurrentlySubmittedToQueue"`
	Readiness                   readiness   `json:"readiness"`
	VerifiedByTestRun           *string     `json:"verifiedByTestRun"`
	Reason                      reason      `json:"reason"`
	WaitingFor                  []condition `json:"waitingFor"`
	Position                    *int64      `json:"position"`
	EstimatedMergeAt            *moment     `json:"estimatedMergeAt"`
	// Stack are the pull requests beneath it that land with it, the lowest
	// first. Beyond what clients of other queues know.
	Stack []layer `json:"stack"`
}

// layer is a pull request beneath another in a stack.
type layer struct {
	PRNumber     int64  `json:"prNumber"`
	PRTitle      string `json:"prTitle"`
	PRSha        string `json:"prSha"`
	PRBaseBranch string `json:"prBaseBranch"`
	PRAuthor     string `json:"prAuthor"`
	Merged       bool   `json:"merged"`
}

// readiness is what stands between a pull request and the line.
type readiness struct {
	RequiresImpactedTargets bool   `json:"requiresImpactedTargets"`
	DoesBaseBranchMatch     bool   `json:"doesBaseBranchMatch"`
	HasImpactedTargets      bool   `json:"hasImpactedTargets"`
	GitHubMergeability      string `json:"gitHubMergeability"`
}

// reason is why the pull request is in its state.
type reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// condition is one thing that must hold before the pull request moves on.
type condition struct {
	Condition string `json:"condition"`
	Met       bool   `json:"met"`
	Message   string `json:"message"`
}

// encodeSubmitted shows an entry of a window.
func encodeSubmitted(s *queue.Snapshot, e *queue.Entry, st standing) submitted {
	return submitted{
		enqueued:                    encodeEnqueued(e),
		ForceEnqueued:               e.Forced,
		IsCurrentlySubmittedToQueue: e.Active(),
		Readiness:                   encodeReadiness(&s.Queue, e),
		VerifiedByTestRun:           valueOrNull(string(e.VerifiedBy)),
		Reason:                      reason{string(e.Reason), e.Message},
		WaitingFor:                  list(st.waitingFor),
		Position:                    st.position,
		EstimatedMergeAt:            st.estimate,
		Stack:                       encodeStack(e),
	}
}

func encodeStack(e *queue.Entry) []layer {
	out := make([]layer, len(e.Stack))
	for i, l := range e.Stack {
		out[i] = layer{l.Number, l.Title, l.BoundHead, l.Base, l.Author.Login, l.Merged}
	}
	return out
}

func encodeReadiness(q *queue.Queue, e *queue.Entry) readiness {
	out := readiness{
		RequiresImpactedTargets: q.ReportedMode() == queue.Parallel && !e.Stacked(),
		DoesBaseBranchMatch:     e.Base == q.Branch || e.Stacked() && e.Onto() == q.Branch,
		HasImpactedTargets:      e.Targets != 0,
		GitHubMergeability:      string(e.Mergeability),
	}
	if e.Mergeability == "" {
		out.GitHubMergeability = string(queue.MergeabilityUnspecified)
	}
	return out
}

// decodePullRequest reads a request that names a queue and a pull request.
func (a *API) decodePullRequest(c *call, more ...field) (p place, pr int64, err error) {
	p, err = a.decodePlace(c, append([]field{pullRequest(&pr)}, more...)...)
	return p, pr, err
}

func (a *API) submitPullRequest(ctx context.Context, c *call) (any, error) {
	var wanted *int64
	var noBatch *bool
	p, pr, err := a.decodePullRequest(c,
		optional("priority", priority(&wanted)),
		optional("noBatch", boolean(&noBatch)))
	if err != nil {
		return nil, err
	}
	q, err := a.findConnected(ctx, c, p)
	if err != nil {
		return nil, err
	}
	seen, err := a.read(ctx, p, q, pr)
	if err != nil {
		return nil, err
	}
	fact := queue.Submitted{
		PullRequest: seen.PullRequest,
		ID:          queue.EntryID(a.newID()),
		Via:         queue.ViaAPI,
		Priority:    queue.Medium,
		NoBatch:     noBatch != nil && *noBatch,
		At:          a.moment(c),
	}
	if wanted != nil {
		fact.Priority, fact.PriorityGiven = *wanted, true
	}
	return a.wishFor(ctx, c, p, q, pr, fact, http.StatusConflict)
}

func (a *API) cancelPullRequest(ctx context.Context, c *call) (any, error) {
	p, pr, err := a.decodePullRequest(c)
	if err != nil {
		return nil, err
	}
	q, err := a.findToWish(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return a.wishFor(ctx, c, p, q, pr, queue.CancelRequested{PR: pr, Via: queue.ViaAPI, At: a.moment(c)}, http.StatusConflict)
}

func (a *API) restartTestsOnPullRequest(ctx context.Context, c *call) (any, error) {
	p, pr, err := a.decodePullRequest(c)
	if err != nil {
		return nil, err
	}
	q, err := a.findToWish(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return a.wishFor(ctx, c, p, q, pr, queue.RestartRequested{PR: pr, Via: queue.ViaAPI, At: a.moment(c)}, http.StatusNotFound)
}

func (a *API) getSubmittedPullRequest(ctx context.Context, c *call) (any, error) {
	p, pr, err := a.decodePullRequest(c)
	if err != nil {
		return nil, err
	}
	q, err := a.find(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return a.submitted(ctx, c, p, q, pr)
}

// wishFor has a wish about a pull request decided and answers with what the
// pull request is then.
func (a *API) wishFor(ctx context.Context, c *call, p place, q queue.Queue, pr int64, fact queue.Fact, final int) (any, error) {
	s, err := a.wish(ctx, p, q, fact, final)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return a.submitted(ctx, c, p, q, pr)
	}
	e, err := p.entry(s, pr)
	if err != nil {
		return nil, err
	}
	return encodeSubmitted(s, e, explain(s, e, c.now)), nil
}

// submitted is the answer that shows a pull request of a queue.
func (a *API) submitted(ctx context.Context, c *call, p place, q queue.Queue, pr int64) (any, error) {
	s, e, err := a.entry(ctx, p, q, pr)
	if err != nil {
		return nil, err
	}
	return encodeSubmitted(s, e, explain(s, e, c.now)), nil
}

// entry is a pull request of a queue, and the window that it is seen in.
func (a *API) entry(ctx context.Context, p place, q queue.Queue, pr int64) (*queue.Snapshot, *queue.Entry, error) {
	s, err := a.store.Read(ctx, q.ID, pr)
	if err != nil {
		return nil, nil, orNotFound(fmt.Errorf("read entry: %w", err), p.notFound())
	}
	e, err := p.entry(s, pr)
	return s, e, err
}

// entry finds a pull request in a window on the queue of a place.
func (p place) entry(s *queue.Snapshot, pr int64) (*queue.Entry, error) {
	if e := s.ByPR(pr); e != nil {
		return e, nil
	}
	return nil, notFound(queue.RefusedNotSubmitted,
		"Pull request #%d was never submitted to the merge queue for branch %q in %s.", pr, p.branch, p.repo())
}

// read asks the host for a pull request that is to be queued.
func (a *API) read(ctx context.Context, p place, q queue.Queue, pr int64) (queue.PullRequestSeen, error) {
	seen, err := a.git.PullRequest(ctx, q.Repo, pr)
	switch {
	case err != nil && a.isGone(err):
		return seen, notFound(CodePullRequestNotFound, "There is no pull request #%d in %s.", pr, p.repo())
	case err != nil:
		return seen, hostUnavailable(p.host, fmt.Errorf("read pull request #%d of %s: %w", pr, q.Repo, err))
	case seen.Merged:
		return seen, &failure{status: http.StatusConflict, code: queue.RefusedMerged,
			message: fmt.Sprintf("Pull request #%d is already merged.", pr)}
	case !seen.Open:
		return seen, &failure{status: http.StatusConflict, code: queue.RefusedClosed,
			message: fmt.Sprintf("Pull request #%d is closed. Reopen it to submit it.", pr)}
	}
	return seen, nil
}

// findConnected is the queue of a place that the host lets us work on. A
// queue may be made before the App is installed on its repository, and the
// webhook that tells of the installation may be lost or still on its way:
// then the host is asked, and connects the repository when the installation
// is on the account of the caller's own organisation.
func (a *API) findConnected(ctx context.Context, c *call, p place) (queue.Queue, error) {
	q, err := a.findToWish(ctx, c, p)
	if err != nil || q.Repo.Installation != 0 {
		return q, err
	}
	missing := notFound(CodeNotConnected,
		"The App is not installed on %s for your organisation. Install it there, then submit again.", p.repo())
	found, err := a.git.Find(ctx, p.host, q.Repo.Owner, q.Repo.Name)
	switch {
	case err != nil && a.isGone(err):
		return q, missing
	case err != nil:
		return q, hostUnavailable(p.host, fmt.Errorf("find repository %s: %w", q.Repo, err))
	case found.Installation == 0 || found.HostID == 0:
		return q, missing
	case account.Slug(found.Owner) != c.org.Slug: // installed by somebody else
		return q, missing
	}
	err = a.store.Connect(ctx, account.Connection{
		Installation: account.Installation{ID: found.Installation, Host: p.host, Account: found.Owner},
		Added:        []account.Repository{{HostID: found.HostID, Host: p.host, Owner: found.Owner, Name: found.Name}},
	})
	if err != nil {
		return q, fmt.Errorf("connect %s: %w", q.Repo, err)
	}
	return a.find(ctx, c, p)
}
