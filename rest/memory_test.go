package rest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// memory is a Store without a database: the queues are whole snapshots, and
// the real engine core decides on them. It lets scripts look at the API alone.
type memory struct {
	mu     sync.Mutex
	tokens map[[32]byte]account.Token
	repos  []*memoryRepo
	queues []*memoryQueue
	now    func() time.Time

	facts   int64
	targets []memoryTargets
	decide  func(*queue.Snapshot, []queue.Received, time.Time) queue.Plan
}

type memoryRepo struct {
	queue.Repo
	org int64
}

type memoryQueue struct {
	*queue.Snapshot
	org   int64
	moves []queue.Move
}

func (m *memory) Token(_ context.Context, hash [32]byte, _ time.Time) (account.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tokens[hash]; ok {
		return t, nil
	}
	return account.Token{}, queue.ErrNotFound
}

func (m *memory) Repository(_ context.Context, org int64, host, owner, name string) (queue.Repo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.repo(host, owner, name); r != nil && r.org == org {
		return r.Repo, nil
	}
	return queue.Repo{}, queue.ErrNotFound
}

func (m *memory) repo(host, owner, name string) *memoryRepo {
	for _, r := range m.repos {
		if strings.EqualFold(r.Host, host) && strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}

func (m *memory) FindQueue(_ context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.find(org, host, owner, name, branch); q != nil {
		return q.Queue, nil
	}
	return queue.Queue{}, queue.ErrNotFound
}

func (m *memory) RecentQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error) {
	return m.FindQueue(ctx, org, host, owner, name, branch)
}

func (m *memory) find(org int64, host, owner, name, branch string) *memoryQueue {
	r := m.repo(host, owner, name)
	for _, q := range m.queues {
		if r != nil && q.org == org && q.Queue.Repo.ID == r.ID && q.Queue.Branch == branch {
			q.Queue.Repo = r.Repo
			return q
		}
	}
	return nil
}

func (m *memory) CreateQueue(_ context.Context, org int64, host, owner, name, branch string, settings queue.Settings, now time.Time) (queue.Queue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.repo(host, owner, name)
	switch {
	case r == nil:
		r = &memoryRepo{queue.Repo{ID: queue.RepoID(len(m.repos) + 1), Host: host, Owner: owner, Name: name}, org}
		m.repos = append(m.repos, r)
	case r.org != org:
		return queue.Queue{}, queue.ErrNotFound
	case m.find(org, host, owner, name, branch) != nil:
		return queue.Queue{}, queue.ErrExists
	}
	id := queue.ID(len(m.queues) + 1)
	q := queue.Queue{
		ID: id, Key: fmt.Sprintf("00000000-0000-4000-8000-%012d", id), Repo: r.Repo,
		Branch: branch, State: queue.Running, Settings: settings, CreatedAt: now,
		Preflight: queue.Preflight{Due: now},
	}
	m.queues = append(m.queues, &memoryQueue{Snapshot: queue.NewSnapshot(q), org: org})
	m.decide(m.queues[len(m.queues)-1].Snapshot, nil, m.now())
	return q, nil
}

func (m *memory) DeleteQueue(_ context.Context, org int64, host, owner, name, branch string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.find(org, host, owner, name, branch)
	if q == nil {
		return queue.ErrNotFound
	}
	if len(q.active()) > 0 {
		return queue.ErrNotEmpty
	}
	m.queues = slices.DeleteFunc(m.queues, func(o *memoryQueue) bool { return o == q })
	return nil
}

// active lists the active entries: the line, pending, not ready.
func (q *memoryQueue) active() []queue.Entry {
	var out []queue.Entry
	for _, g := range q.Line {
		for _, id := range q.Groups[g].Members {
			out = append(out, *q.Entries[id])
		}
	}
	var rest []*queue.Entry
	for _, e := range q.Entries {
		if e.Active() && e.Group == 0 {
			rest = append(rest, e)
		}
	}
	slices.SortFunc(rest, func(a, b *queue.Entry) int {
		if a.State != b.State {
			return strings.Compare(string(b.State), string(a.State)) // pending, not_ready
		}
		return queue.Compare(a, b)
	})
	for _, e := range rest {
		out = append(out, *e)
	}
	return out
}

func (m *memory) byID(id queue.ID) *memoryQueue {
	for _, q := range m.queues {
		if q.Queue.ID == id {
			return q
		}
	}
	return nil
}

func (m *memory) Listed(_ context.Context, listed queue.Queue) ([]queue.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(listed.ID)
	if q == nil {
		return nil, queue.ErrNotFound
	}
	return q.active(), nil
}

func (m *memory) Entry(_ context.Context, id queue.ID, pr int64) (queue.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.byID(id); q != nil {
		if e := q.ByPR(pr); e != nil {
			return *e, nil
		}
	}
	return queue.Entry{}, queue.ErrNotFound
}

func (m *memory) Read(_ context.Context, id queue.ID, _ ...int64) (*queue.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(id)
	if q == nil {
		return nil, queue.ErrNotFound
	}
	m.look(q)
	return q.Snapshot, nil
}

func (m *memory) Run(_ context.Context, id queue.ID, run queue.RunID) (queue.Run, []queue.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(id)
	if q == nil || q.Runs[run] == nil {
		return queue.Run{}, nil, queue.ErrNotFound
	}
	r := *q.Runs[run]
	var entries []queue.Entry
	for _, step := range r.Chain {
		entries = append(entries, *q.Entries[step.Entry])
	}
	return r, entries, nil
}

// memoryTargets is one uploaded set; its number is its place in the list.
type memoryTargets struct {
	repo       queue.RepoID
	pr         int64
	head       string
	names      []string
	everything bool
}

func (m *memory) SetImpactedTargets(_ context.Context, repo queue.RepoID, pr int64, head string, names []string, everything bool) error {
	m.mu.Lock()
	m.targets = append(m.targets, memoryTargets{repo, pr, head, names, everything})
	m.mu.Unlock()
	for _, q := range m.queues {
		if q.Queue.Repo.ID == repo {
			if _, err := m.learn(q.Queue.ID, queue.TargetsUploaded{PR: pr, Head: head}); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest is the newest set of a head commit, nil if it has none.
func (m *memory) newest(repo queue.RepoID, pr int64, head string) (queue.TargetsID, *memoryTargets) {
	for i, set := range slices.Backward(m.targets) {
		if set.repo == repo && set.pr == pr && set.head == head {
			return queue.TargetsID(i + 1), &set
		}
	}
	return 0, nil
}

// look gives a queue's entries the targets that are known.
func (m *memory) look(q *memoryQueue) {
	for _, e := range q.Snapshot.Entries {
		e.Targets, _ = m.newest(q.Queue.Repo.ID, e.Number, e.Head)
	}
	for i, set := range m.targets {
		q.Targets[queue.TargetsID(i+1)] = queue.TargetSet{All: set.everything, Hashes: queue.NewTargetSet(set.names).Hashes}
	}
}

func (m *memory) ImpactedTargets(_ context.Context, repo queue.RepoID, chain []queue.Step) (names []string, everything, known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, step := range chain {
		if _, set := m.newest(repo, step.PR, step.Head); set != nil {
			known, everything = true, everything || set.everything
			names = append(names, set.names...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), everything, known, nil
}

func (m *memory) OrganizationOf(_ context.Context, host, owner, name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.repo(host, owner, name); r != nil && r.Installation != 0 {
		return r.org, nil
	}
	return 0, queue.ErrNotFound
}

func (m *memory) Entries(_ context.Context, id queue.ID, page queue.EntryPage) ([]queue.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []queue.Entry
	if q := m.byID(id); q != nil {
		for _, e := range q.Snapshot.Entries {
			at := e.StateChangedAt
			if (page.State == "" || e.State == page.State) && (page.Below == 0 || e.Number < page.Below) &&
				!at.Before(page.Since) && (page.Until.IsZero() || at.Before(page.Until)) {
				out = append(out, *e)
			}
		}
	}
	slices.SortFunc(out, func(a, b queue.Entry) int { return int(b.Number - a.Number) })
	return out[:min(len(out), page.Take)], nil
}

func (m *memory) Timeline(_ context.Context, id queue.ID, pr int64) ([]queue.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []queue.Move
	if q := m.byID(id); q != nil {
		for _, move := range q.moves {
			if move.PR == pr {
				out = append(out, move)
			}
		}
	}
	return out, nil
}

func (m *memory) Whole(ctx context.Context, id queue.ID) (*queue.Snapshot, error) {
	return m.Read(ctx, id)
}

func (m *memory) OwnSecret(context.Context, string) ([]byte, error) { return make([]byte, 32), nil }

func (m *memory) Depths(ctx context.Context, org int64) ([]queue.Measures, error) {
	return m.Measures(ctx, org, 0, time.Time{})
}

// Measures measures the plain way: it walks over everything that happened.
func (m *memory) Measures(_ context.Context, org int64, repo queue.RepoID, now time.Time) ([]queue.Measures, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []queue.Measures
	for _, q := range m.queues {
		if q.org != org || repo != 0 && q.Queue.Repo.ID != repo {
			continue
		}
		for _, kind := range []queue.RunKind{queue.MainRun, queue.BisectionRun} {
			out = append(out, q.measure(kind, now))
		}
	}
	slices.SortStableFunc(out, func(a, b queue.Measures) int {
		return strings.Compare(a.Queue.Repo.Name+" "+a.Queue.Branch, b.Queue.Repo.Name+" "+b.Queue.Branch)
	})
	return out, nil
}

func (q *memoryQueue) measure(kind queue.RunKind, now time.Time) queue.Measures {
	m := queue.Measures{Queue: q.Queue, Kind: kind}
	for _, e := range q.active() {
		part := slices.Contains(q.Parts, e.Group) && e.Group != 0
		switch {
		case part != (kind == queue.BisectionRun):
		case e.State == queue.NotReady:
			m.NotReady++
		default:
			m.Depth++
		}
	}
	for _, r := range q.Runs {
		if r.Kind == kind && r.State.Live() {
			m.Testing++
		}
	}
	for i, move := range q.moves {
		of := queue.MainRun
		if r := q.Runs[move.Run]; r != nil {
			of = r.Kind
		}
		if of != kind {
			continue
		}
		h := q.happened(i)
		m.Ever.Add(h)
		if move.At.After(now.Add(-time.Hour)) {
			m.LastHour.Add(h)
		}
	}
	return m
}

// happened is what one move counts for.
func (q *memoryQueue) happened(i int) (h queue.Happened) {
	move := q.moves[i]
	var began, submitted time.Time
	for _, earlier := range q.moves[:i] {
		if earlier.PR == move.PR {
			began = earlier.At
			if earlier.Submission == move.Submission && submitted.IsZero() {
				submitted = earlier.At
			}
		}
	}
	took := func(since time.Time) queue.Durations {
		d := queue.Durations{Count: 1, Seconds: max(0, move.At.Sub(since).Seconds())}
		for _, bound := range queue.DurationBounds() {
			n := int64(0)
			if d.Seconds <= bound {
				n = 1
			}
			d.Within = append(d.Within, n)
		}
		return d
	}
	if move.To.Final() {
		h.InQueue = took(submitted)
	}
	switch move.To {
	case queue.Merged:
		h.Merged++
	case queue.Failed:
		h.Failed++
	case queue.Cancelled:
		h.Cancelled++
	case queue.Pending:
		if move.From != queue.NotReady {
			h.Restarts++
		}
	case queue.Testing:
		h.Wait = took(began)
	}
	if move.From == queue.Testing && (move.To == queue.TestsPassed || move.To == queue.PendingFailure || move.To == queue.Failed) {
		h.Test = took(began)
	}
	return h
}

func (m *memory) Wish(ctx context.Context, _ queue.RepoID, id queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error) {
	answer, err := m.learn(id, fact)
	if err != nil {
		return answer, nil, err
	}
	s, err := m.Read(ctx, id)
	return answer, s, err
}

// Append hands a queue a fact that nobody waits for.
func (m *memory) Append(_ context.Context, _ queue.RepoID, id queue.ID, facts ...queue.Fact) error {
	for _, fact := range facts {
		if _, err := m.learn(id, fact); err != nil {
			return err
		}
	}
	return nil
}

// learn has a queue decide on one fact at once.
func (m *memory) learn(id queue.ID, fact queue.Fact) (queue.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.byID(id)
	if q == nil {
		return queue.Answer{}, queue.ErrNotFound
	}
	m.facts++
	m.look(q)
	plan := m.decide(q.Snapshot, []queue.Received{{ID: m.facts, Fact: fact}}, m.now())
	q.moves = append(q.moves, plan.Moves...)
	return plan.Answers[m.facts], nil
}

func (m *memory) Connect(_ context.Context, c account.Connection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, added := range c.Added {
		r := m.repo(added.Host, added.Owner, added.Name)
		if r == nil {
			return errors.New("memory: connect what nobody made a queue for")
		}
		r.HostID, r.Installation = added.HostID, c.Installation.ID
	}
	return nil
}

// fakeHost is the Git host of a script.
type fakeHost struct {
	mu        sync.Mutex
	pulls     map[int64]queue.PullRequest
	mergeable map[int64]queue.Mergeability
	installed map[string]string // owner/name → owner whose installation it is
	runs      map[int64]fakeRun
	down      bool
}

// fakeRun is a run of CI of acme/app.
type fakeRun struct {
	head string
	live bool // in progress, for a pull request from a fork
}

func (h *fakeHost) ForkRun(_ context.Context, repo queue.Repo, run int64) (head string, live bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return "", false, errors.New("dial tcp 10.1.2.3:443: connection refused")
	}
	r, ok := h.runs[run]
	if !ok || repo.Name != "app" {
		return "", false, fmt.Errorf("run: %w", errGone)
	}
	return r.head, r.live, nil
}

var errGone = errors.New("gone")

func (h *fakeHost) PullRequest(_ context.Context, _ queue.Repo, number int64) (queue.PullRequestSeen, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return queue.PullRequestSeen{}, errors.New("dial tcp 10.1.2.3:443: connection refused")
	}
	pr, ok := h.pulls[number]
	if !ok {
		return queue.PullRequestSeen{}, fmt.Errorf("pull request: %w", errGone)
	}
	return queue.PullRequestSeen{PullRequest: pr, Read: true}, nil
}

func (h *fakeHost) Find(_ context.Context, host, owner, name string) (queue.Repo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return queue.Repo{}, errors.New("dial tcp 10.1.2.3:443: connection refused")
	}
	account, ok := h.installed[owner+"/"+name]
	if !ok {
		return queue.Repo{}, fmt.Errorf("repository: %w", errGone)
	}
	return queue.Repo{Host: host, Owner: account, Name: name, HostID: int64(crc32.ChecksumIEEE([]byte(name))), Installation: 7}, nil
}
