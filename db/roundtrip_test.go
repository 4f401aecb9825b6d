package db_test

// Every field that a decision can leave behind must be there for the next one.
// The values are made by reflection, so that a field which somebody adds to
// package queue and forgets here fails the test.

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/queue"
)

// filler makes values that are not zero, each different from the one before.
type filler struct{ n int64 }

// legal are values of the types that do not take just any.
var legal = map[reflect.Type]any{
	reflect.TypeFor[queue.State]():            queue.SwitchingModes,
	reflect.TypeFor[queue.Mode]():             queue.Parallel,
	reflect.TypeFor[queue.DirectMergeMode]():  queue.DirectMergeAlways,
	reflect.TypeFor[queue.OptimizationMode](): queue.BisectionSkipRedundantTests,
	reflect.TypeFor[queue.Speculation]():      queue.AdaptiveSpeculation,
	reflect.TypeFor[queue.Probation]():        queue.Suspect,
	reflect.TypeFor[queue.MergeMethod]():      queue.Rebase,
	reflect.TypeFor[queue.LandingMode]():      queue.LandExact,
	reflect.TypeFor[queue.EntryState]():       queue.PendingFailure,
	reflect.TypeFor[queue.Mergeability]():     queue.NotMergeable,
	reflect.TypeFor[queue.Via]():              queue.ViaAdmin,
	reflect.TypeFor[queue.RunState]():         queue.RunTesting,
	reflect.TypeFor[queue.RunKind]():          queue.BisectionRun,
	reflect.TypeFor[queue.RequiredSource]():   queue.FromProtection,
	reflect.TypeFor[queue.ReportKind]():       queue.CommitStatus,
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	if value, ok := legal[v.Type()]; ok {
		v.Set(reflect.ValueOf(value))
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(epoch.Add(time.Duration(f.n)*time.Hour + time.Duration(f.n)*time.Microsecond)))
		return
	case reflect.TypeFor[queue.EntryID]():
		v.Set(reflect.ValueOf(newID()))
		return
	case reflect.TypeFor[map[string]queue.Report]():
		var r queue.Report
		f.fill(reflect.ValueOf(&r).Elem())
		v.Set(reflect.ValueOf(map[string]queue.Report{r.Key(): r}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		panic("fill: " + v.Type().String())
	}
}

func filled[T any](n int64) T {
	var v T
	f := filler{n}
	f.fill(reflect.ValueOf(&v).Elem())
	return v
}

func TestEveryFieldSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := filled[queue.Queue](100)
	// What a queue is born with does not change.
	q.ID, q.Key, q.Repo, q.Branch, q.CreatedAt = w.queue.ID, w.queue.Key, w.queue.Repo, w.queue.Branch, w.queue.CreatedAt
	e := filled[queue.Entry](10)
	e.Number, e.Priority = queue.MaxNumber, 254
	e.ConflictsWith = e.ID
	merged := entry(8) // the zero values
	merged.State, merged.LandedCommit, merged.SubmittedBy = queue.Merged, "abc", queue.Actor{}
	r := filled[queue.Run](20)
	r.Members = []queue.EntryID{e.ID}
	bare := queue.Run{ID: "bare", Kind: queue.MainRun, State: queue.Building, MergeMethod: queue.Squash, LandingMode: queue.LandHost, AskedAt: epoch}
	g := filled[queue.Group](30)
	g.Members, g.Run = []queue.EntryID{e.ID}, r.ID
	plain := queue.Group{ID: 99, Members: []queue.EntryID{e.ID}, FormedAt: epoch}
	q.Landing.Land.Steps = nil
	for range 2 { // as new rows, then as rows that exist
		w.store(func(p *queue.Plan) {
			p.Queue, p.Line, p.Parts = q, []queue.GroupID{99}, []queue.GroupID{g.ID}
			p.Entries, p.Groups, p.Runs = []queue.Entry{e, merged}, []queue.Group{g, plain}, []queue.Run{r, bare}
		})
		s, err := w.Read(t.Context(), w.queue.ID, 8)
		w.must(err)
		want := queue.NewSnapshot(q)
		want.Line, want.Parts, want.Waiting = []queue.GroupID{99}, []queue.GroupID{g.ID}, true
		want.Entries = map[queue.EntryID]*queue.Entry{e.ID: &e, merged.ID: &merged}
		want.Groups = map[queue.GroupID]*queue.Group{g.ID: &g, 99: &plain}
		want.Runs = map[queue.RunID]*queue.Run{r.ID: &r, "bare": &bare}
		// Entry.Targets is found anew whenever an entry is read, Queue.Turn is the store's own.
		if diff := cmp.Diff(want, s, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(queue.Snapshot{}, "NextDue", "More"),
			cmpopts.IgnoreFields(queue.Entry{}, "Targets"), cmpopts.IgnoreFields(queue.Queue{}, "Turn")); diff != "" {
			t.Fatalf("read back (-saved +read):\n%s", diff)
		}
		// The second time, everything is something else.
		n := e.Version
		e2 := filled[queue.Entry](500)
		e2.ID, e2.Number, e2.Priority, e2.ConflictsWith, e2.Version = e.ID, e.Number, 255, merged.ID, n+1
		e = e2
		r2 := filled[queue.Run](600)
		r2.ID, r2.Members, r2.Checks = r.ID, r.Members, r.Checks
		for key, c := range r2.Checks {
			c.ID, c.Status, c.Result, c.Suite, c.URL = 1e6, "completed", "success", 7, "https://ci"
			r2.Checks[key] = c
		}
		r = r2
		g2 := filled[queue.Group](700)
		g2.ID, g2.Members, g2.Run = g.ID, g.Members, g.Run
		g = g2
		plain.Urgent = true
		q2 := filled[queue.Queue](800)
		q2.ID, q2.Key, q2.Repo, q2.Branch, q2.CreatedAt = q.ID, q.Key, q.Repo, q.Branch, q.CreatedAt
		q2.Landing = nil
		q = q2
	}
}

func TestMovesSurviveInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []queue.Move
	for i, tr := range queue.Transitions {
		m := filled[queue.Move](int64(i) * 100)
		m.PR, m.From, m.To, m.Reason = 7, tr.From, tr.To, tr.Reasons[0]
		if i == 0 {
			m.Actor, m.Run = queue.Actor{}, ""
		}
		want = append(want, m)
	}
	w.store(func(p *queue.Plan) { p.Moves = want[:5] })
	w.store(func(p *queue.Plan) { p.Moves = want[5:] })
	got, err := w.Timeline(t.Context(), w.queue.ID, 7)
	w.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-saved +read):\n%s", diff)
	}
	// Months are made, also for rows that came before theirs.
	for range 2 {
		w.must(w.Maintain(t.Context(), want[0].At))
	}
	again, err := w.Timeline(t.Context(), w.queue.ID, 7)
	w.must(err)
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("timeline after its month was made (-before +after):\n%s", diff)
	}
	var early, parts int
	w.must(w.SQL().QueryRow(`SELECT count(*) FROM timeline_default WHERE at < $1`, epoch.AddDate(0, 0, 3)).Scan(&early))
	w.must(w.SQL().QueryRow(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'timeline'::regclass`).Scan(&parts))
	if early != 0 || parts != 4 {
		t.Errorf("%d rows of this month are outside of it; %d partitions, want the default and three months", early, parts)
	}
}

// What a hostile pull request is made of can be kept, and comes back as text.
func TestTextThatPostgresCannotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	title := "a\x00b \xff \\u0000 \\\\u0000 \u2028 </script>"
	w.must(w.Append(t.Context(), w.repo.ID, w.queue.ID, queue.PullRequestSeen{PullRequest: queue.PullRequest{Number: 7, Title: title}}))
	const want = "ab \uFFFD \\u0000 \\\\u0000 \u2028 </script>"
	w.update(func(s *queue.Snapshot, facts []queue.Received) queue.Plan {
		if got := facts[0].Fact.(queue.PullRequestSeen).Title; got != want {
			t.Errorf("a fact's title reads %q, want %q", got, want)
		}
		p := unchanged(s)
		e := entry(7)
		e.Title, e.Labels = title, []string{title}
		p.Entries = []queue.Entry{e}
		p.Actions = []queue.Action{queue.StopRun{Branch: title}}
		return p
	})
	e, err := w.Entry(t.Context(), w.queue.ID, 7)
	w.must(err)
	if e.Title != want || e.Labels[0] != want {
		t.Errorf("an entry's title reads %q, its label %q, want %q", e.Title, e.Labels[0], want)
	}
	var branch string
	w.must(w.SQL().QueryRow(`SELECT args->>'branch' FROM river_job`).Scan(&branch))
	if branch != want {
		t.Errorf("a job's branch reads %q, want %q", branch, want)
	}
}

// A deadline in the year 10,197 is as good as none, and must not stop a queue.
func TestTimesBeyondWhatCanBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	far := epoch.AddDate(8171, 0, 0)
	w.store(func(p *queue.Plan) {
		p.Wake = far
		r := queue.Run{ID: "r", Kind: queue.MainRun, State: queue.Building, MergeMethod: queue.Squash, LandingMode: queue.LandHost, AskedAt: epoch, Deadline: far}
		p.Runs = []queue.Run{r}
	})
	wake, err := w.NextWake(t.Context())
	w.must(err)
	if wake.Year() != 9999 {
		t.Errorf("next wake is %s", wake)
	}
}
