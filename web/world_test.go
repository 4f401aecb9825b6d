package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// The pages are tested on one queue at one moment: #11 has passed and lands
// next, #12 and #13 are tested on top of it, #14 waits for a slot, #15 is not
// ready, #9 failed and #8 was merged.

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const hostile = `"><script>alert(1)</script>{{.}}<img src=x onerror=alert(1)>`

// world is a Store of fixed values, but for turn; broken makes every read fail.
type world struct {
	queues  []queue.Queue
	s       *queue.Snapshot
	entries []queue.Entry // active, in queue order
	ended   []queue.Entry
	moves   []queue.Move
	broken  error
	turn    atomic.Int64 // of the first queue
	wake    chan queue.News
	tests   tests
	bare    queue.Repo // one without a queue

	mu       sync.Mutex // guards what follows
	wishes   []queue.Fact
	answer   queue.Answer
	sessions map[[32]byte]session
	people   map[int64]account.Right
	secret   map[queue.RepoID]bool // repositories that nobody may see
	hostAway error
	counting bool         // the past is being counted
	repos    []queue.Repo // of the organisation
	tokens   []account.Token
	hash     [32]byte       // of the newest token
	author   account.Author // of the last change of a token
	audits   []account.Audit
	told     *toldWorld
}

func sha(c string) string { return strings.Repeat(c, 40) }

func newWorld() *world {
	q := queue.Queue{
		ID: 1, Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app"}, Branch: "release/1.2",
		State: queue.Running, Settings: queue.DefaultSettings(), Target: queue.Target{Commit: sha("0a")[:40], Tree: sha("b")},
	}
	q.Concurrency, q.Turn = 2, 4
	other := q
	other.ID, other.Branch, other.State, other.StateWhy = 2, "main", queue.Paused, "The landed tree of #3 differs from what was tested."
	alone := q
	alone.ID, alone.Repo.ID, alone.Repo.Name, alone.Branch = 3, 2, "lib", "main"

	w := &world{queues: []queue.Queue{alone, other, q}, s: queue.NewSnapshot(q), wake: make(chan queue.News, 1), told: newTold(),
		sessions: map[[32]byte]session{}, people: map[int64]account.Right{}, tests: newTests(), bare: bare}
	w.turn.Store(4)
	first := w.add(11, "Add the signal", queue.TestsPassed, queue.TestRunPassed, 40)
	second := w.add(12, hostile, queue.Testing, queue.TestRunStarted, 12)
	third := w.add(13, "Paint the lever", queue.Testing, queue.TestRunStarted, 12)
	w.s.Queue.Preflight = queue.Preflight{At: noon.Add(-2 * time.Hour), Findings: []queue.Finding{
		{Check: "branch", Level: queue.LevelOK, Message: "The branch is there."},
		{Check: "merge_method", Level: queue.LevelProblem, Message: "The repository does not allow squash. " + hostile, Action: "Allow it."},
		{Check: "landing", Level: queue.LevelNote, Message: "The queue lands through the host."},
	}}
	w.add(14, "Move the points", queue.Pending, queue.NowReady, 3)
	draft := w.add(15, "Half a bridge", queue.NotReady, queue.SubmittedByUser, 90)
	draft.Draft, draft.Mergeability = true, queue.MergeabilityInProgress
	third.Priority = queue.High

	one := w.run("run-one", nil, first)
	one.State, one.EndedAt = queue.RunPassed, noon.Add(-2*time.Minute)
	w.report(one, "unit", "completed", "success")
	w.report(one, "lint", "completed", "success")
	two := w.run("run-two", []*queue.Entry{first}, second, third)
	w.report(two, "unit", "completed", "success")
	w.report(two, "docs", "in_progress", "")
	two.Results = []queue.TestResults{{Commit: two.Commit, Check: "lint", Upload: 13, Failed: 23, Blocking: 2, Failing: []queue.FailingTest{
		{ID: testNumber(1).String(), Name: hostile, Quarantined: true, NewFailure: true, Standing: queue.KnownFlaky}, {ID: testNumber(3).String(), Name: "finds the cart", Standing: queue.FailingOnBase},
		{ID: testNumber(2).String(), Name: "pays twice", Quarantined: true, Standing: queue.KnownFlaky}, {Name: "nobody knows it"},
	}}}
	first.VerifiedBy = one.ID
	w.group(1, one, first)
	w.group(2, two, second, third)

	failed := w.add(9, "Break it", queue.Failed, queue.RequiredStatusFailed, 200)
	failed.Message = "The required check unit failed."
	merged := w.add(8, "Fix it", queue.Merged, queue.MergedByQueue, 300)
	merged.LandedCommit = sha("c")
	w.moves = []queue.Move{
		{Entry: second.ID, PR: 12, Submission: 1, To: queue.NotReady, At: noon.Add(-3 * time.Hour), Reason: queue.SubmittedByUser, Actor: queue.Actor{Login: "ada", ID: 1}},
		{Entry: second.ID, PR: 12, Submission: 1, From: queue.NotReady, To: queue.Cancelled, At: noon.Add(-2 * time.Hour), Reason: queue.PRClosed, Message: "The pull request was closed."},
		{Entry: second.ID, PR: 12, Submission: 2, From: queue.Cancelled, To: queue.NotReady, At: noon.Add(-30 * time.Minute), Reason: queue.SubmittedByUser, Actor: queue.Actor{Login: "bob", ID: 2}},
		{Entry: second.ID, PR: 12, Submission: 2, From: queue.Pending, To: queue.Testing, At: noon.Add(-12 * time.Minute), Reason: queue.TestRunStarted, Message: "Testing has started with " + hostile, Run: "run-two"},
	}
	w.tokens = []account.Token{
		{ID: 1, Name: "ci", Scope: account.Submit, CreatedAt: noon.Add(-time.Hour), LastUsed: noon.Add(-time.Minute)},
		{ID: 2, Name: "old", Scope: account.Admin, CreatedAt: noon.Add(-time.Hour), RevokedAt: noon.Add(-time.Minute)},
		{ID: 3, Name: "older", Scope: account.Read, CreatedAt: noon.Add(-time.Hour), ExpiresAt: noon},
	}
	w.audits = []account.Audit{
		{ID: 9, At: noon.Add(-time.Hour), By: account.Author{Login: "ada", UserID: 3}, Deed: account.QueueChanged, Subject: "github.com/acme/app:release/1.2",
			Changes: []account.Changed{{Name: "concurrency", From: "1", To: "2"}}},
		{ID: 8, At: noon.Add(-2 * time.Hour), By: account.Author{Token: "terraform"}, Deed: account.QueueCreated, Subject: "github.com/acme/app:release/1.2"},
	}
	for _, n := range []int64{11, 12, 13, 14, 15} {
		w.entries = append(w.entries, *w.s.ByPR(n))
	}
	for _, n := range []int64{9, 8} {
		w.ended = append(w.ended, *w.s.ByPR(n))
		delete(w.s.Entries, w.s.ByPR(n).ID)
	}
	return w
}

// add makes an entry that changed into its state so many minutes ago.
func (w *world) add(number int64, title string, state queue.EntryState, why queue.Reason, minutes int) *queue.Entry {
	t := noon.Add(-time.Duration(minutes) * time.Minute)
	e := &queue.Entry{
		ID: queue.EntryID(fmt.Sprintf("entry-%d", number)), Submission: 1, State: state, Reason: why,
		PullRequest: queue.PullRequest{
			Number: number, Title: title, URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number),
			Author: queue.Actor{Login: "ada", ID: 1}, Head: sha("a"), HeadRef: "feature", Base: "release/1.2", Open: true,
		},
		BoundHead: sha("a"), Mergeability: queue.Mergeable, SubmittedBy: queue.Actor{Login: "ada", ID: 1},
		Priority: queue.Medium, SubmittedAt: t, StateChangedAt: t,
	}
	if state != queue.NotReady {
		e.AdmittedAt = t
	}
	w.s.Entries[e.ID] = e
	return e
}

func (w *world) run(id queue.RunID, ahead []*queue.Entry, own ...*queue.Entry) *queue.Run {
	r := &queue.Run{
		ID: id, Kind: queue.MainRun, State: queue.RunTesting, Branch: "signalbox/pr-1/" + string(id), Commit: sha("d"), Tree: sha("e"),
		Base: queue.Base{Commit: sha("f")}, MergeMethod: queue.MergeCommit, Checks: map[string]queue.Report{},
		Required: []queue.Required{{Name: "unit"}, {Name: "lint"}}, RequiredSource: queue.FromProtection,
		AskedAt: noon.Add(-13 * time.Minute), StartedAt: noon.Add(-12 * time.Minute), Deadline: noon.Add(4 * time.Hour),
	}
	for _, e := range slices.Concat(ahead, own) {
		r.Chain = append(r.Chain, queue.Step{Entry: e.ID, Submission: 1, PR: e.Number, Head: e.BoundHead, Commit: sha("1"), Tree: sha("2")})
	}
	for _, e := range own {
		r.Members = append(r.Members, e.ID)
	}
	w.s.Runs[id] = r
	return r
}

func (w *world) report(r *queue.Run, name, status, result string) {
	report := queue.Report{Kind: queue.CheckRun, Name: name, AppID: 7, ID: int64(len(r.Checks) + 1), Status: status, Result: result,
		URL: "https://ci.example/" + name, At: noon.Add(-5 * time.Minute)}
	r.Checks[report.Key()] = report
}

func (w *world) group(id queue.GroupID, r *queue.Run, members ...*queue.Entry) {
	g := &queue.Group{ID: id, Run: r.ID}
	for _, e := range members {
		e.Group = id
		g.Members = append(g.Members, e.ID)
	}
	r.Group = id
	w.s.Groups[id], w.s.Line = g, append(w.s.Line, id)
}

func (w *world) Queues(context.Context) ([]queue.Queue, error) { return w.queues, w.broken }

func (w *world) Counts(context.Context) (map[queue.ID]map[queue.EntryState]int64, error) {
	return map[queue.ID]map[queue.EntryState]int64{1: {queue.NotReady: 1, queue.Pending: 1, queue.Testing: 2, queue.TestsPassed: 1}}, w.broken
}

func (w *world) QueueNamed(_ context.Context, host, owner, name, branch string) (queue.Queue, error) {
	for _, q := range w.queues {
		if q.Repo.Host == host && strings.EqualFold(q.Repo.Owner, owner) && strings.EqualFold(q.Repo.Name, name) && q.Branch == branch {
			return q, w.broken
		}
	}
	return queue.Queue{}, queue.ErrNotFound
}

func (w *world) Read(_ context.Context, id queue.ID, _ ...int64) (*queue.Snapshot, error) {
	if id == w.s.Queue.ID {
		s := *w.s // the reader's own
		return &s, w.broken
	}
	for _, q := range w.queues {
		if q.ID == id {
			return queue.NewSnapshot(q), w.broken
		}
	}
	return nil, queue.ErrNotFound
}

func (w *world) Whole(ctx context.Context, id queue.ID) (*queue.Snapshot, error) {
	return w.Read(ctx, id)
}

func (w *world) Turns(context.Context) (map[queue.ID]int64, error) {
	return map[queue.ID]int64{1: w.turn.Load(), 2: 5, 3: 6}, w.broken
}

func (w *world) Wakeups(ctx context.Context) (<-chan queue.News, error) { return w.wake, w.broken }

func (w *world) Ended(_ context.Context, id queue.ID, limit int) ([]queue.Entry, error) {
	if id != w.s.Queue.ID {
		return nil, w.broken
	}
	return w.ended[:min(limit, len(w.ended))], w.broken
}

func (w *world) Entry(_ context.Context, id queue.ID, pr int64) (queue.Entry, error) {
	for _, e := range slices.Concat(w.entries, w.ended) {
		if id == w.s.Queue.ID && e.Number == pr {
			return e, w.broken
		}
	}
	return queue.Entry{}, queue.ErrNotFound
}

func (w *world) Timeline(_ context.Context, _ queue.ID, pr int64) ([]queue.Move, error) {
	var moves []queue.Move
	for _, m := range w.moves {
		if m.PR == pr {
			moves = append(moves, m)
		}
	}
	return moves, w.broken
}

func (w *world) Run(_ context.Context, _ queue.ID, id queue.RunID) (queue.Run, []queue.Entry, error) {
	r := w.s.Runs[id]
	if r == nil {
		return queue.Run{}, nil, queue.ErrNotFound
	}
	return *r, w.entries, w.broken
}

func (w *world) RunsOf(_ context.Context, _ queue.ID, pr int64, limit int) ([]queue.Run, error) {
	var runs []queue.Run
	for _, r := range w.s.Runs {
		if slices.ContainsFunc(r.Own(), func(s queue.Step) bool { return s.PR == pr }) {
			runs = append(runs, *r)
		}
	}
	return runs[:min(len(runs), limit)], w.broken
}

func (w *world) Wish(_ context.Context, _ queue.RepoID, _ queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wishes = append(w.wishes, fact)
	return w.answer, nil, w.broken
}

func (w *world) NewSession(_ context.Context, hash [32]byte, who queue.Actor, _, expires time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[hash] = session{who, expires}
	return w.broken
}

func (w *world) Session(_ context.Context, hash [32]byte, now time.Time) (queue.Actor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sessions[hash]
	if !ok || !now.Before(s.expires) {
		return queue.Actor{}, queue.ErrNotFound
	}
	return s.who, w.broken
}

func (w *world) EndSession(_ context.Context, hash [32]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, hash)
	return w.broken
}

func (w *world) CountHours(context.Context) (bool, error) { return !w.counting, w.broken }

// Tallies are the same for every time: this morning ten merged after 15 minutes
// and one failed, yesterday five merged after an hour.
func (w *world) Tallies(_ context.Context, _ queue.ID, from, until time.Time, days bool) ([]queue.Tally, error) {
	today, yesterday := noon.Add(-3*time.Hour), noon.AddDate(0, 0, -1)
	if days {
		today, yesterday = today.Truncate(24*time.Hour), yesterday.Truncate(24*time.Hour)
	}
	var tallies []queue.Tally
	for _, t := range []queue.Tally{
		{At: yesterday, What: queue.HasMerged, Bucket: queue.BucketOf(3600), N: 5}, {At: yesterday, What: queue.HasRun, Bucket: queue.NoDuration, N: 6},
		{At: yesterday, What: queue.HasWaited, Bucket: queue.BucketOf(240), N: 5}, {At: yesterday, What: queue.HasTested, Bucket: queue.BucketOf(1200), N: 5},
		{At: today, What: queue.HasMerged, Bucket: queue.BucketOf(900), N: 10}, {At: today, What: queue.HasFailed, Bucket: queue.BucketOf(30), N: 1},
		{At: today, What: queue.HasRestarted, Bucket: queue.NoDuration, N: 3}, {At: today, What: queue.HasRun, Bucket: queue.NoDuration, N: 14},
		{At: today, What: queue.HasCancelled, Bucket: queue.BucketOf(30), N: 2},
	} {
		if !t.At.Before(from) && t.At.Before(until) {
			tallies = append(tallies, t)
		}
	}
	return tallies, w.broken
}

func (w *world) EndedBetween(_ context.Context, _ queue.ID, from, until time.Time, take int) ([]queue.Ending, error) {
	var endings []queue.Ending
	for i := range w.ended {
		e := &w.ended[i]
		if !e.StateChangedAt.Before(from) && e.StateChangedAt.Before(until) {
			endings = append(endings, queue.Ending{Title: e.Title, Lasted: 20 * time.Minute, Move: queue.Move{
				PR: e.Number, To: e.State, At: e.StateChangedAt, Reason: e.Reason, Message: e.Message, Run: "run-one",
			}})
		}
	}
	return endings[:min(take, len(endings))], w.broken
}

func (w *world) Organization(_ context.Context, slug string) (account.Organization, []queue.Repo, error) {
	if slug != "acme" {
		return account.Organization{}, nil, queue.ErrNotFound
	}
	return account.Organization{ID: 1, Slug: slug}, w.repos, w.broken
}

func (w *world) OrganizationName(context.Context, queue.ID) (string, error) { return "acme", w.broken }

func (w *world) ListTokens(context.Context, int64) ([]account.Token, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tokens), w.broken
}

func (w *world) CreateToken(ctx context.Context, org account.Organization, name string, scope account.Scope, hash [32]byte, expires time.Time) (account.Token, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := account.Token{ID: int64(len(w.tokens) + 1), Org: org, Name: name, Scope: scope, CreatedAt: noon, ExpiresAt: expires}
	w.tokens, w.hash, w.author = append(w.tokens, t), hash, account.AuthorOf(ctx)
	return t, w.broken
}

func (w *world) RevokeToken(ctx context.Context, _, id int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.tokens {
		if w.tokens[i].ID == id {
			w.tokens[i].RevokedAt, w.author = noon, account.AuthorOf(ctx)
			return w.broken
		}
	}
	return queue.ErrNotFound
}

func (w *world) Audit(_ context.Context, _ int64, below int64, take int) ([]account.Audit, error) {
	var lines []account.Audit
	for _, l := range w.audits {
		if below == 0 || l.ID < below {
			lines = append(lines, l)
		}
	}
	return lines[:min(take, len(lines))], w.broken
}

func (w *world) AuditOf(ctx context.Context, _ queue.ID, below int64, take int) ([]account.Audit, error) {
	return w.Audit(ctx, 0, below, take)
}

// Right is the host's word on people.
func (w *world) Right(_ context.Context, repo queue.Repo, who queue.Actor) (account.Right, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secret[repo.ID] {
		return account.NoRight, w.hostAway
	}
	return w.people[who.ID], w.hostAway
}

// PullRequest is what the host says of a pull request: it has those below 1000.
func (w *world) PullRequest(_ context.Context, _ queue.Repo, number int64) (queue.PullRequestSeen, bool, error) {
	if number >= 1000 {
		return queue.PullRequestSeen{}, true, w.hostAway
	}
	return queue.PullRequestSeen{PullRequest: queue.PullRequest{Number: number, Open: true, Head: sha("a")}}, false, w.hostAway
}

// session is somebody who signed in.
type session struct {
	who     queue.Actor
	expires time.Time
}

func handler(t testing.TB, s Store) *Handler {
	t.Helper()
	h, err := New(Config{Store: s, Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wishes are what was wished, in a few words.
func wishes(w *world) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var said []string
	for _, fact := range w.wishes {
		text := fact.Kind()
		switch f := fact.(type) {
		case queue.Submitted:
			text += fmt.Sprint(" ", f.PullRequest.Number, " by ", f.By, " ", f.Via, " ", f.Priority, " ", f.PriorityGiven, " ", f.NoBatch, " ", f.Force)
		case queue.CancelRequested:
			text += fmt.Sprint(" ", f.PR, " by ", f.By, " ", f.Via)
		case queue.RestartRequested:
			text += fmt.Sprint(" ", f.PR, " by ", f.By, " ", f.Via)
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}
