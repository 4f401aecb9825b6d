package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"signalbox/queue"
)

// memory is a Store in memory that keeps the promises of the real one: a
// decision sees a copy and is saved whole or not at all; facts that arrive
// meanwhile stay unread; a wake-up follows every append and every saved plan.
type memory struct {
	mu         sync.Mutex
	repos      map[queue.RepoID]queue.Repo
	queues     map[queue.ID]*held
	inbox      []queue.Fact // not routed yet
	jobs       []queue.Action
	ears       []chan queue.News
	comments   map[int64]int64
	unfinished map[int64]string        // checks, by pull request
	facts      int64                   // ids given to facts
	turns      map[int64]chan struct{} // by pull request; closed when given back

	deaf      bool             // wake-ups get lost
	listens   int              // calls of Wakeups
	timed     int              // calls of NextWake
	broken    map[string]error // by method: its calls fail
	decisions []queue.ID       // saved ones
}

type held struct {
	s      *queue.Snapshot
	unread []queue.Received
	wake   time.Time
	after  time.Time // put off until then
	busy   bool      // somebody decides on it: its row is locked
}

func newMemory(queues ...queue.Queue) *memory {
	m := &memory{
		repos: map[queue.RepoID]queue.Repo{}, queues: map[queue.ID]*held{},
		comments: map[int64]int64{}, unfinished: map[int64]string{}, turns: map[int64]chan struct{}{}, broken: map[string]error{},
	}
	for _, q := range queues {
		m.repos[q.Repo.ID] = q.Repo
		m.queues[q.ID] = &held{s: queue.NewSnapshot(q)}
	}
	return m
}

func (m *memory) fails(method string) error {
	return m.broken[method]
}

func (m *memory) breaks(method string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken[method] = err
}

func (m *memory) UpdateDue(ctx context.Context, now time.Time, decide Decide) (queue.ID, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails("UpdateDue"); err != nil {
		return 0, false, err
	}
	due := slices.DeleteFunc(slices.Sorted(maps.Keys(m.queues)), func(id queue.ID) bool {
		h := m.queues[id]
		wants := len(h.unread) > 0 || !h.wake.IsZero() && !h.wake.After(now)
		return h.busy || !wants || h.after.After(now)
	})
	if len(due) == 0 {
		return 0, false, nil
	}
	if len(due) > 1 {
		m.tell(queue.FactsWait) // not even one that is deaf to facts loses this
	}
	id := due[0]
	if err := m.update(ctx, m.queues[id], now, decide); err != nil {
		return id, false, err
	}
	m.decisions = append(m.decisions, id)
	return id, true, nil
}

// update decides without holding the mutex, as the real store holds only the
// queue's row.
func (m *memory) update(ctx context.Context, h *held, now time.Time, decide Decide) error {
	facts, s := slices.Clone(h.unread), copied(h.s)
	h.busy = true
	defer func() { h.busy = false }()
	p := func() queue.Plan {
		m.mu.Unlock()
		defer m.mu.Lock() // also when decide panics
		return decide(s, facts, now)
	}()
	if err := errors.Join(ctx.Err(), m.fails("save")); err != nil {
		return err
	}
	h.s.Queue, h.s.Line, h.s.Parts = p.Queue, p.Line, p.Parts
	for _, e := range p.Entries {
		h.s.Entries[e.ID] = &e
	}
	for _, g := range p.Groups {
		h.s.Groups[g.ID] = &g
	}
	for _, r := range p.Runs {
		h.s.Runs[r.ID] = &r
	}
	for _, id := range p.Gone {
		delete(h.s.Groups, id)
	}
	h.unread = h.unread[len(facts):]
	h.wake = p.Wake
	m.jobs = append(m.jobs, p.Actions...)
	m.notify(queue.QueueChanged)
	return nil
}

func (m *memory) Route(context.Context, time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails("Route"); err != nil {
		return err
	}
	for _, f := range m.inbox {
		if c, ok := f.(queue.CommandAsked); ok {
			for id := range m.repos {
				m.jobs = append(m.jobs, queue.AnswerCommand{Repo: id, Command: c})
			}
			continue
		}
		for _, h := range m.queues {
			m.give(h, f)
		}
	}
	m.inbox = nil
	return nil
}

func (m *memory) give(h *held, facts ...queue.Fact) {
	for _, f := range facts {
		m.facts++
		h.unread = append(h.unread, queue.Received{ID: m.facts, Fact: f})
	}
}

func (m *memory) NextWake(context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timed++
	var next time.Time
	for _, h := range m.queues {
		wake := h.wake
		if h.after.After(wake) && len(h.unread) > 0 {
			wake = h.after
		}
		if !wake.IsZero() && (next.IsZero() || wake.Before(next)) {
			next = wake
		}
	}
	return next, m.fails("NextWake")
}

func (m *memory) Wakeups(ctx context.Context) (<-chan queue.News, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listens++
	if err := m.fails("Wakeups"); err != nil {
		return nil, err
	}
	ear := make(chan queue.News, 1)
	m.ears = append(m.ears, ear)
	context.AfterFunc(ctx, m.hangUp)
	return ear, nil
}

// hangUp closes every channel that Wakeups gave out.
func (m *memory) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ear := range m.ears {
		close(ear)
	}
	m.ears = nil
}

func (m *memory) notify(what queue.News) {
	if !m.deaf {
		m.tell(what)
	}
}

func (m *memory) tell(what queue.News) {
	for _, ear := range m.ears {
		news := what
		select {
		case unheard := <-ear:
			news |= unheard
		default:
		}
		ear <- news
	}
}

func (m *memory) Append(ctx context.Context, _ queue.RepoID, q queue.ID, facts ...queue.Fact) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.fails("Append")); err != nil {
		return err
	}
	for _, f := range facts { // what cannot be stored must not pass a test
		body, err := queue.EncodeFact(f)
		if err != nil {
			return err
		}
		if _, err := queue.DecodeFact(f.Kind(), body); err != nil {
			return err
		}
	}
	what := queue.FactsWait
	if q == 0 {
		m.inbox = append(m.inbox, facts...)
		what = queue.FactsArrived
	} else if h := m.queues[q]; h != nil {
		m.give(h, facts...)
	}
	m.notify(what)
	return nil
}

func (m *memory) Repo(_ context.Context, id queue.RepoID) (queue.Repo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.repos[id]
	if !ok {
		return queue.Repo{}, queue.ErrNotFound
	}
	return r, m.fails("Repo")
}

func (m *memory) ReadPRs(_ context.Context, id queue.ID, _ ...int64) (*queue.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.queues[id]
	if !ok {
		return nil, queue.ErrNotFound
	}
	return copied(h.s), m.fails("ReadPRs")
}

func (m *memory) Version(_ context.Context, id queue.ID, pr int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.queues[id]
	if !ok || h.s.ByPR(pr) == nil {
		return 0, m.fails("Version")
	}
	return h.s.ByPR(pr).Version, m.fails("Version")
}

func (m *memory) QueueFor(_ context.Context, repo queue.RepoID, branch string) (queue.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, h := range m.queues {
		if h.s.Queue.Repo.ID == repo && h.s.Queue.Branch == branch {
			return id, nil
		}
	}
	return 0, queue.ErrNotFound
}

func (m *memory) QueuesWith(_ context.Context, repo queue.RepoID, pr int64) ([]queue.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []queue.ID
	for _, id := range slices.Sorted(maps.Keys(m.queues)) {
		s := m.queues[id].s
		if e := s.ByPR(pr); (e != nil && e.Active() || s.StackWith(pr) != nil) && s.Queue.Repo.ID == repo {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *memory) InTurn(ctx context.Context, _ queue.RepoID, pr int64, do func(context.Context) error) error {
	mine := make(chan struct{})
	for {
		m.mu.Lock()
		if err := m.fails("InTurn"); err != nil {
			m.mu.Unlock()
			return err
		}
		before, taken := m.turns[pr]
		if !taken {
			m.turns[pr] = mine
		}
		m.mu.Unlock()
		if !taken {
			break
		}
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.turns, pr)
		close(mine)
	}()
	return do(ctx)
}

func (m *memory) Comment(_ context.Context, _ queue.RepoID, pr int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.comments[pr], nil
}

func (m *memory) SetComment(_ context.Context, _ queue.RepoID, pr int64, comment int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.comments[pr] = comment
	return nil
}

func (m *memory) UnfinishedCheck(_ context.Context, _ queue.ID, pr int64) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unfinished[pr], m.fails("UnfinishedCheck")
}

func (m *memory) SetUnfinishedCheck(_ context.Context, _ queue.ID, pr int64, commit string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfinished[pr] = commit
	return m.fails("SetUnfinishedCheck")
}

// Postpone makes memory a Postponer. A test that wants a Store without it
// hides it, see plainStore.
func (m *memory) Postpone(_ context.Context, id queue.ID, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[id].after = until
	return m.fails("Postpone")
}

// plainStore is a Store that cannot put a queue off.
type plainStore struct{ Store }

// unread is how many facts wait for a queue.
func (m *memory) unread(id queue.ID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queues[id].unread)
}

// decided is how often a queue was decided on, saved decisions only.
func (m *memory) decided(id queue.ID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, d := range m.decisions {
		if d == id {
			n++
		}
	}
	return n
}

// takeJobs empties the list of jobs.
func (m *memory) takeJobs() []queue.Action {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs = nil
	return jobs
}

// change changes a queue's rows by hand.
func (m *memory) change(id queue.ID, f func(*queue.Snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.queues[id].s)
}

func copied(s *queue.Snapshot) *queue.Snapshot {
	c := *s
	c.Line, c.Parts = slices.Clone(s.Line), slices.Clone(s.Parts)
	c.Entries, c.Groups, c.Runs = map[queue.EntryID]*queue.Entry{}, map[queue.GroupID]*queue.Group{}, map[queue.RunID]*queue.Run{}
	for id, e := range s.Entries {
		e := *e
		c.Entries[id] = &e
	}
	for id, g := range s.Groups {
		g := *g
		g.Members = slices.Clone(g.Members)
		c.Groups[id] = &g
	}
	for id, r := range s.Runs {
		r := *r
		r.Chain, r.Checks = slices.Clone(r.Chain), maps.Clone(r.Checks)
		c.Runs[id] = &r
	}
	return &c
}

var errBroken = errors.New("the database is not there")
