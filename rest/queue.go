package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"signalbox/queue"
)

// queueSettings is a queue as createQueue and updateQueue answer it.
type queueSettings struct {
	State                       string   `json:"state"`
	Branch                      string   `json:"branch"`
	Concurrency                 int64    `json:"concurrency"`
	BisectionConcurrency        int64    `json:"bisectionConcurrency"`
	TestingTimeoutMinutes       int64    `json:"testingTimeoutMinutes"`
	PendingFailureDepth         int64    `json:"pendingFailureDepth"`
	CanOptimisticallyMerge      bool     `json:"canOptimisticallyMerge"`
	Batch                       bool     `json:"batch"`
	BatchingMaxWaitTimeMinutes  int64    `json:"batchingMaxWaitTimeMinutes"`
	BatchingMinSize             int64    `json:"batchingMinSize"`
	Mode                        string   `json:"mode"`
	CommentsEnabled             bool     `json:"commentsEnabled"`
	CommandsEnabled             bool     `json:"commandsEnabled"`
	CreatePRsForTestingBranches bool     `json:"createPrsForTestingBranches"`
	StatusCheckEnabled          bool     `json:"statusCheckEnabled"`
	RequiredStatuses            []string `json:"requiredStatuses"`
	DirectMergeMode             string   `json:"directMergeMode"`
	OptimizationMode            string   `json:"optimizationMode"`
	MergeMethod                 string   `json:"mergeMethod"`
	LandingMode                 string   `json:"landingMode"`
	NotReadyTimeoutHours        int64    `json:"notReadyTimeoutHours"`
	LabelCommandsEnabled        bool     `json:"labelCommandsEnabled"`
	EnqueueingLabel             string   `json:"enqueueingLabel"`
	StateLabelsEnabled          bool     `json:"stateLabelsEnabled"`
	ExtensionEnabled            bool     `json:"extensionEnabled"`
	Speculation                 string   `json:"speculation"`
}

// queueContents is a queue as getQueue answers it. Between the settings and the
// list stand three fields that nobody can set here, with what is so: clients
// that hold the answer against a schema require them.
type queueContents struct {
	queueSettings
	// AllowedBotSubmitters are the bots whose commands this service obeys.
	AllowedBotSubmitters []string `json:"allowedBotSubmitters"`
	// BatchingRules would be exceptions from the batching settings. There are none.
	BatchingRules []string `json:"batchingRules"`
	// TestBranchConstructionMode is how test branches come about: see
	// builtWhole.
	TestBranchConstructionMode string `json:"testBranchConstructionMode"`

	EnqueuedPullRequests []enqueued `json:"enqueuedPullRequests"`
}

// builtWhole says that a test branch is built elsewhere and pushed once, under
// its own name, when it is complete.
const builtWhole = "push_complete_branch"

// enqueued is a pull request in a queue's list.
type enqueued struct {
	ID                      string `json:"id"`
	State                   string `json:"state"`
	StateChangedAt          moment `json:"stateChangedAt"`
	PRNumber                int64  `json:"prNumber"`
	PRTitle                 string `json:"prTitle"`
	PRSha                   string `json:"prSha"`
	PRBaseBranch            string `json:"prBaseBranch"`
	PRAuthor                string `json:"prAuthor"`
	PriorityValue           int64  `json:"priorityValue"`
	PriorityName            string `json:"priorityName"`
	UsedDefaultPriorityName string `json:"usedDefaultPriorityName"`
	SkipTheLine             bool   `json:"skipTheLine"`
	NoBatch                 bool   `json:"noBatch"`
}

func encodeQueue(q queue.Queue) queueSettings {
	return queueSettings{
		State:                       string(q.State),
		Branch:                      q.Branch,
		Concurrency:                 q.Concurrency,
		BisectionConcurrency:        q.BisectionConcurrency,
		TestingTimeoutMinutes:       q.TestingTimeoutMinutes,
		PendingFailureDepth:         q.PendingFailureDepth,
		CanOptimisticallyMerge:      q.CanOptimisticallyMerge,
		Batch:                       q.Batch,
		BatchingMaxWaitTimeMinutes:  q.BatchingMaxWaitTimeMinutes,
		BatchingMinSize:             q.BatchingMinSize,
		Mode:                        string(q.ReportedMode()),
		CommentsEnabled:             q.CommentsEnabled,
		CommandsEnabled:             q.CommandsEnabled,
		CreatePRsForTestingBranches: q.CreatePRsForTestingBranches,
		StatusCheckEnabled:          q.StatusCheckEnabled,
		RequiredStatuses:            list(q.RequiredStatuses),
		DirectMergeMode:             string(q.DirectMergeMode),
		OptimizationMode:            string(q.OptimizationMode),
		MergeMethod:                 string(q.MergeMethod),
		LandingMode:                 string(q.LandingMode()),
		NotReadyTimeoutHours:        q.NotReadyTimeoutHours,
		LabelCommandsEnabled:        q.LabelCommandsEnabled,
		EnqueueingLabel:             q.EnqueueingLabel,
		StateLabelsEnabled:          q.StateLabelsEnabled,
		ExtensionEnabled:            q.ExtensionEnabled,
		Speculation:                 string(q.Speculation),
	}
}

func encodeEnqueued(e *queue.Entry) enqueued {
	out := enqueued{
		ID:             string(e.ID),
		State:          string(e.State),
		StateChangedAt: moment(e.StateChangedAt),
		PRNumber:       e.Number,
		PRTitle:        e.Title,
		PRSha:          headOf(e),
		PRBaseBranch:   e.Base,
		PRAuthor:       e.Author.Login,
		PriorityValue:  e.Priority,
		PriorityName:   queue.PriorityName(e.Priority),
		SkipTheLine:    e.Priority == queue.Urgent,
		NoBatch:        e.NoBatch,
	}
	if !e.PriorityGiven {
		out.UsedDefaultPriorityName = queue.PriorityName(queue.Medium)
	}
	return out
}

// headOf is the commit that a submission is about: the one it is bound to,
// not what was pushed after it had left.
func headOf(e *queue.Entry) string {
	if e.BoundHead != "" {
		return e.BoundHead
	}
	return e.Head
}

// decodePlace reads a request that names a queue, and what more it has.
func (a *API) decodePlace(c *call, more ...field) (p place, err error) {
	err = decode(c.body, append(p.fields(), more...)...)
	p.host = a.host(p.host)
	return p, err
}

// named reads a request that names a queue, and finds that.
func (a *API) named(ctx context.Context, c *call, more ...field) (p place, q queue.Queue, err error) {
	if p, err = a.decodePlace(c, more...); err == nil {
		q, err = a.find(ctx, c, p)
	}
	return p, q, err
}

// findRepository is the repository of a place, within the caller's organisation.
func (a *API) findRepository(ctx context.Context, c *call, p place) (queue.Repo, error) {
	repo, err := a.store.Repository(ctx, c.org.ID, p.host, p.owner, p.name)
	if err != nil {
		return repo, orNotFound(fmt.Errorf("find repository: %w", err),
			notFound(CodeRepositoryNotFound, "There is no repository %s in the organisation.", p.repo()))
	}
	return repo, nil
}

// find is the queue of a place, within the caller's organisation.
func (a *API) find(ctx context.Context, c *call, p place) (queue.Queue, error) {
	return p.found(a.store.FindQueue(ctx, c.org.ID, p.host, p.owner, p.name, p.branch))
}

// findToWish is the queue of a place as it was within the last second: whether a
// wish about it is granted is decided on the queue as it is.
func (a *API) findToWish(ctx context.Context, c *call, p place) (queue.Queue, error) {
	return p.found(a.store.RecentQueue(ctx, c.org.ID, p.host, p.owner, p.name, p.branch))
}

// found is the answer of storage about the queue of a place.
func (p place) found(q queue.Queue, err error) (queue.Queue, error) {
	if err != nil {
		return queue.Queue{}, orNotFound(fmt.Errorf("find queue: %w", err), p.notFound())
	}
	return q, nil
}

func (a *API) createQueue(ctx context.Context, c *call) (any, error) {
	s, err := decodeSettings(c)
	if err != nil {
		return nil, err
	}
	s.host = a.host(s.host)
	if err := a.creatable(s.place); err != nil {
		return nil, err
	}
	q, err := a.store.CreateQueue(ctx, c.org.ID, s.host, s.owner, s.name, s.branch, queue.NewSettings(s.change), c.now)
	switch {
	case errors.Is(err, queue.ErrExists):
		return nil, &failure{status: http.StatusConflict, code: CodeQueueExists,
			message: fmt.Sprintf("A merge queue already exists for branch %q in this repository", s.branch)}
	case err != nil:
		return nil, orNotFound(fmt.Errorf("create queue: %w", err),
			notFound(CodeRepositoryNotFound, "There is no repository %s in your organisation.", s.repo()))
	}
	if state := s.change.State; state != nil && *state != q.State {
		// A new queue runs. It is empty, so that another state a moment
		// later is the same as from the start.
		return a.change(ctx, c, s.place, q, queue.Change{State: state})
	}
	return encodeQueue(q), nil
}

func (a *API) updateQueue(ctx context.Context, c *call) (any, error) {
	s, err := decodeSettings(c)
	if err != nil {
		return nil, err
	}
	s.host = a.host(s.host)
	q, err := a.find(ctx, c, s.place)
	if err != nil {
		return nil, err
	}
	if s.change == (queue.Change{}) { // nothing was named
		return encodeQueue(q), nil
	}
	return a.change(ctx, c, s.place, q, s.change)
}

// change has a queue changed and answers with what it is then.
func (a *API) change(ctx context.Context, c *call, p place, q queue.Queue, change queue.Change) (any, error) {
	q, err := a.decided(ctx, c, p, q, queue.ChangeRequested{Change: change, Via: queue.ViaAPI, Token: c.token.Name, At: a.moment(c)})
	if err != nil {
		return nil, err
	}
	return encodeQueue(q), nil
}

// decided has a wish about a queue itself decided, and is the queue after that.
func (a *API) decided(ctx context.Context, c *call, p place, q queue.Queue, fact queue.Fact) (queue.Queue, error) {
	s, err := a.wish(ctx, p, q, fact, http.StatusConflict)
	switch {
	case err != nil:
		return queue.Queue{}, err
	case s != nil:
		return s.Queue, nil
	default:
		return a.find(ctx, c, p)
	}
}

func (a *API) deleteQueue(ctx context.Context, c *call) (any, error) {
	p, err := a.decodePlace(c)
	if err != nil {
		return nil, err
	}
	err = a.store.DeleteQueue(ctx, c.org.ID, p.host, p.owner, p.name, p.branch)
	switch {
	case errors.Is(err, queue.ErrNotEmpty):
		return nil, &failure{status: http.StatusBadRequest, code: CodeQueueNotEmpty,
			message: fmt.Sprintf("The merge queue for branch %q in %s still has pull requests that have not ended. Cancel them or let them finish.", p.branch, p.repo())}
	case err != nil && !errors.Is(err, queue.ErrNotFound):
		return nil, fmt.Errorf("delete queue: %w", err)
	}
	return struct{}{}, nil // also when there was none: what was asked for is so
}

func (a *API) getQueue(ctx context.Context, c *call) (any, error) {
	p, q, err := a.named(ctx, c)
	if err != nil {
		return nil, err
	}
	entries, err := a.store.Listed(ctx, q)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("list entries: %w", err), p.notFound())
	}
	out := queueContents{
		queueSettings: encodeQueue(q), AllowedBotSubmitters: a.bots, BatchingRules: []string{}, TestBranchConstructionMode: builtWhole,
		EnqueuedPullRequests: make([]enqueued, len(entries)),
	}
	for i := range entries {
		out.EnqueuedPullRequests[i] = encodeEnqueued(&entries[i])
	}
	return out, nil
}

// wish has a queue decide on a fact. final is the status when the pull
// request has left the queue. The snapshot is what the decision left, nil when
// it has to be read.
func (a *API) wish(ctx context.Context, p place, q queue.Queue, fact queue.Fact, final int) (*queue.Snapshot, error) {
	answer, s, err := a.store.Wish(ctx, q.Repo.ID, q.ID, fact)
	switch {
	case errors.Is(err, queue.ErrNotFound): // deleted meanwhile
		return nil, p.notFound()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, undecided(err)
	case err != nil:
		return nil, fmt.Errorf("wish %s: %w", fact.Kind(), err)
	case answer.Refused != "":
		return nil, refused(answer, final)
	}
	return s, nil
}
