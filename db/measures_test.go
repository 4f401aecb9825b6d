package db_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"

	"signalbox/db"
	"signalbox/queue"
)

// history gives a queue the timelines of that many pull requests, one a
// second, which all land within 15 minutes: five moves each.
func (w *world) history(q queue.Queue, pulls int, last time.Time) {
	w.t.Helper()
	_, err := w.SQL().Exec(`
		INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message,
			actor_login, actor_id, actor_bot, run_id)
		SELECT $1, gen_random_uuid(), pr, 1, m.from_state, m.to_state,
			$3::timestamptz - make_interval(secs => $2 - pr) - make_interval(secs => m.before), 'TEST', '', '', 0, false, ''
		FROM generate_series(1, $2::int) pr CROSS JOIN (VALUES
			('', 'not_ready', 900), ('not_ready', 'pending', 840), ('pending', 'testing', 600),
			('testing', 'tests_passed', 10), ('tests_passed', 'merged', 0)) m (from_state, to_state, before)
		ORDER BY 7`, int64(q.ID), pulls, last)
	w.must(err)
}

func (w *world) measures(now time.Time) []queue.Measures {
	w.t.Helper()
	all, err := w.Measures(w.t.Context(), w.org.ID, 0, now)
	w.must(err)
	return all
}

func TestTheLastHourIsFoundByIndexHoweverLongTheTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Maintain(t.Context(), epoch.AddDate(0, -1, 0))) // months of their own, beside the default
	w.history(w.queue, 40_000, epoch)
	w.history(w.newQueue("other"), 10_000, epoch)
	_, err := w.SQL().Exec(`ANALYZE`)
	w.must(err)
	ids := pq.Array([]int64{int64(w.queue.ID)})
	plan := w.plan(db.HappenedLately, ids, epoch.Add(-time.Hour), epoch)
	if !strings.Contains(plan, "queue_id_at_idx") || strings.Contains(plan, "Seq Scan on timeline_2026_11 ") {
		t.Errorf("the last hour is looked for so:\n%s", plan)
	}
	w.measures(epoch) // counts everything
	_, err = w.SQL().Exec(`ANALYZE`)
	w.must(err)
	plan = w.plan(db.HappenedSince, ids, 20000)
	if !strings.Contains(plan, "queue_id_id_idx") || strings.Contains(plan, "Seq Scan on timeline_2026_11 ") {
		t.Errorf("what is new is looked for so:\n%s", plan)
	}
}

// plan is how Postgres goes about a statement.
func (w *world) plan(statement string, args ...any) string {
	w.t.Helper()
	rows, err := w.SQL().Query(`EXPLAIN `+statement, args...)
	w.must(err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		w.must(rows.Scan(&line))
		fmt.Fprintln(&plan, line)
	}
	w.must(rows.Err())
	return plan.String()
}

func TestAnHourIsMeasuredAndCountersGoOnFromWhereTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.history(w.queue, 10, epoch)
	main := func(now time.Time) queue.Measures {
		all := w.measures(now)
		if len(all) != 2 || all[0].Kind != queue.MainRun || all[1].Kind != queue.BisectionRun {
			t.Fatalf("measures: %+v", all)
		}
		if diff := cmp.Diff(all[1].Ever, queue.Happened{}); diff != "" {
			t.Errorf("bisections that were none: %s", diff)
		}
		return all[0]
	}
	want := queue.Happened{
		Merged:  10,
		Wait:    queue.Durations{Count: 10, Seconds: 2400, Within: []int64{0, 10, 10, 10, 10, 10, 10, 10}},
		Test:    queue.Durations{Count: 10, Seconds: 5900, Within: []int64{0, 0, 10, 10, 10, 10, 10, 10}},
		InQueue: queue.Durations{Count: 10, Seconds: 9000, Within: []int64{0, 0, 0, 10, 10, 10, 10, 10}}, // 900 s is within 900 s
	}
	m := main(epoch)
	if diff := cmp.Diff(want, m.LastHour); diff != "" {
		t.Errorf("the last hour: %s", diff)
	}
	if diff := cmp.Diff(want, m.Ever); diff != "" {
		t.Errorf("ever: %s", diff)
	}
	// Half an hour on: reading again counts nothing twice, and dropping old
	// rows does not make a counter fall.
	if diff := cmp.Diff(want, main(epoch.Add(time.Minute)).Ever); diff != "" {
		t.Errorf("ever, read again: %s", diff)
	}
	_, err := w.SQL().Exec(`DELETE FROM timeline`)
	w.must(err)
	m = main(epoch)
	if diff := cmp.Diff(queue.Happened{}, m.LastHour); diff != "" {
		t.Errorf("the last hour without its rows: %s", diff)
	}
	if diff := cmp.Diff(want, m.Ever); diff != "" {
		t.Errorf("ever, after old rows were dropped: %s", diff)
	}
}

func TestManyReadersCountEachMoveOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := w.Measures(t.Context(), w.org.ID, 0, epoch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		w.history(w.queue, 3, epoch.Add(time.Duration(i)*time.Second))
	}
	wg.Wait()
	if got := w.measures(epoch)[0].Ever.Merged; got != 60 {
		t.Errorf("%d merged, want 60", got)
	}
}

func TestAnEndBeforeItsBeginningCountsAsNoTimeAtAll(t *testing.T) { // BC-85
	t.Parallel()
	w := newWorld(t)
	_, err := w.SQL().Exec(`
		INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message, actor_login, actor_id, actor_bot, run_id)
		SELECT $1, gen_random_uuid(), 1, 1, f, s, $2::timestamptz - make_interval(secs => before), 'TEST', '', '', 0, false, ''
		FROM (VALUES (1, '', 'not_ready', 10), (2, 'not_ready', 'pending', 20), (3, 'pending', 'testing', 500),
			(4, 'testing', 'pending_failure', 600), (5, 'pending_failure', 'failed', 700)) m (i, f, s, before) ORDER BY i`, int64(w.queue.ID), epoch)
	w.must(err)
	got := w.measures(epoch)[0].LastHour
	nothing := queue.Durations{Count: 1, Within: []int64{1, 1, 1, 1, 1, 1, 1, 1}}
	if diff := cmp.Diff(queue.Happened{Failed: 1, Wait: nothing, Test: nothing, InQueue: nothing}, got); diff != "" {
		t.Error(diff)
	}
}

func TestARunThatEndedBeforeItBeganMakesNoEstimate(t *testing.T) { // BC-85
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		r := liveRun("1", 1, "c", "b")
		r.State, r.EndedAt, r.StartedAt = queue.RunPassed, epoch.Add(-time.Hour), epoch
		p.Runs = append(p.Runs, r)
		e := entry(1)
		e.State = queue.Pending
		p.Entries = append(p.Entries, e)
	})
	s, err := w.Read(t.Context(), w.queue.ID, 1)
	w.must(err)
	if at := queue.Explain(s, s.ByPR(1), epoch).EstimatedMergeAt; s.TypicalTest != 0 || !at.IsZero() {
		t.Errorf("tests take %s, and it lands at %s", s.TypicalTest, at)
	}
}

func TestWhatIsInAQueueIsCountedByKindAndOnlyForItsOrganisation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		line, part, waits := entry(1), entry(2), entry(3)
		line.State, line.Group = queue.Testing, 1
		part.Group = 2
		waits.State, waits.AdmittedAt = queue.NotReady, time.Time{}
		ended := entry(4)
		ended.State = queue.Cancelled
		p.Entries = []queue.Entry{line, part, waits, ended}
		p.Groups = []queue.Group{{ID: 1, Members: []queue.EntryID{line.ID}, FormedAt: epoch}, {ID: 2, Members: []queue.EntryID{part.ID}, Part: &queue.Part{Bisection: 1}, FormedAt: epoch}}
		p.Line, p.Parts = []queue.GroupID{1}, []queue.GroupID{2}
		for i, kind := range []queue.RunKind{queue.MainRun, queue.BisectionRun} {
			p.Runs = append(p.Runs, queue.Run{
				ID: queue.RunID(fmt.Sprint("run", i)), Group: queue.GroupID(i + 1), Kind: kind, State: queue.Building,
				MergeMethod: queue.Squash, LandingMode: queue.LandHost, AskedAt: epoch,
			})
		}
	})
	type row struct{ Depth, NotReady, Testing int64 }
	var got []row
	for _, m := range w.measures(epoch) {
		got = append(got, row{m.Depth, m.NotReady, m.Testing})
	}
	if diff := cmp.Diff([]row{{1, 1, 1}, {1, 0, 1}}, got); diff != "" {
		t.Error(diff)
	}
	other, err := w.CreateOrganization(t.Context(), "globex")
	w.must(err)
	for name, ask := range map[string]func() ([]queue.Measures, error){
		"all":  func() ([]queue.Measures, error) { return w.Measures(t.Context(), other.ID, 0, epoch) },
		"one":  func() ([]queue.Measures, error) { return w.Measures(t.Context(), other.ID, w.repo.ID, epoch) },
		"now":  func() ([]queue.Measures, error) { return w.Depths(t.Context(), other.ID) },
		"none": func() ([]queue.Measures, error) { return w.Measures(t.Context(), w.org.ID, w.repo.ID+1, epoch) },
	} {
		if all, err := ask(); err != nil || len(all) != 0 {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

func TestASecretOfTheInstallationIsMadeOnceAndTheSameForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan string, 8)
	for range cap(got) {
		go func() {
			secret, err := w.OwnSecret(t.Context(), "test")
			if err != nil {
				t.Error(err)
			}
			got <- string(secret)
		}()
	}
	first := <-got
	if len(first) != 32 {
		t.Errorf("%d bytes", len(first))
	}
	for range cap(got) - 1 {
		if next := <-got; next != first {
			t.Error("two programs have different secrets")
		}
	}
	if other, err := w.OwnSecret(t.Context(), "other"); err != nil || string(other) == first {
		t.Errorf("another name has the same secret (%v)", err)
	}
}

func TestPagesOfEntriesGoByNumberWhateverMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		for pr := range int64(5) {
			e := entry(pr + 1)
			e.StateChangedAt = epoch.Add(time.Duration(pr) * time.Minute)
			if pr == 2 {
				e.State, e.LandedCommit = queue.Merged, "abc"
			}
			p.Entries = append(p.Entries, e)
		}
	})
	numbers := func(page queue.EntryPage) string {
		t.Helper()
		entries, err := w.Entries(t.Context(), w.queue.ID, page)
		w.must(err)
		var out []int64
		for _, e := range entries {
			out = append(out, e.Number)
		}
		text, _ := json.Marshal(out)
		return string(text)
	}
	for _, c := range []struct {
		page queue.EntryPage
		want string
	}{
		{queue.EntryPage{Take: 10}, "[5,4,3,2,1]"},
		{queue.EntryPage{Take: 2}, "[5,4]"},
		{queue.EntryPage{Take: 2, Below: 4}, "[3,2]"},
		{queue.EntryPage{Take: 9, State: queue.Merged}, "[3]"},
		{queue.EntryPage{Take: 9, Since: epoch.Add(time.Minute), Until: epoch.Add(3 * time.Minute)}, "[3,2]"},
		{queue.EntryPage{Take: 9, Below: 1}, "null"},
	} {
		if got := numbers(c.page); got != c.want {
			t.Errorf("%+v: %s, want %s", c.page, got, c.want)
		}
	}
	s, err := w.Whole(t.Context(), w.queue.ID)
	w.must(err)
	if len(s.Entries) != 4 {
		t.Errorf("%d active entries in the whole, want 4", len(s.Entries))
	}
}

func TestAListHasWhatAListShowsAndTheSameOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		for pr := range int64(4) {
			e := entry(pr + 1)
			e.Priority, e.PriorityGiven, e.NoBatch = 10*(9-pr), true, pr == 2
			e.Title, e.Author.Login, e.BoundHead = "Title", "ann", "bound"
			p.Entries = append(p.Entries, e)
		}
	})
	listed, err := w.Listed(t.Context(), w.queue)
	w.must(err)
	whole, err := w.Whole(t.Context(), w.queue.ID)
	w.must(err)
	var want []queue.Entry
	for _, e := range slices.SortedFunc(maps.Values(whole.Entries), queue.Compare) {
		want = append(want, queue.Entry{
			ID: e.ID, State: e.State, StateChangedAt: e.StateChangedAt, BoundHead: e.BoundHead,
			Priority: e.Priority, PriorityGiven: e.PriorityGiven, NoBatch: e.NoBatch,
			PullRequest: queue.PullRequest{Number: e.Number, Title: e.Title, Head: e.Head, Base: e.Base, Author: queue.Actor{Login: e.Author.Login}},
		})
	}
	if diff := cmp.Diff(want, listed); diff != "" || len(listed) != 4 {
		t.Error(diff)
	}
}

func TestHowManyAreAheadIsTheSameForOneAndForMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(func(p *queue.Plan) {
		for pr := range int64(30) {
			e := entry(pr + 1)
			e.Priority = []int64{queue.Urgent, 50, queue.Medium, queue.Lowest}[pr%4]
			e.Returned = []int64{0, 0, 7, 3, 0}[pr%5]
			e.AdmittedAt = epoch.Add(time.Duration(pr%3) * time.Second)
			p.Entries = append(p.Entries, e)
		}
	})
	numbers := make([]int64, 30)
	for i := range numbers {
		numbers[i] = int64(i + 1)
	}
	many, err := w.Read(t.Context(), w.queue.ID, numbers...)
	w.must(err)
	order, err := w.Listed(t.Context(), w.queue)
	w.must(err)
	for i, e := range order {
		one, err := w.Read(t.Context(), w.queue.ID, e.Number)
		w.must(err)
		if a, b := one.FreeAhead[e.ID], many.FreeAhead[e.ID]; a != int64(i) || b != int64(i) {
			t.Errorf("#%d: %d and %d are ahead, want %d", e.Number, a, b, i)
		}
	}
}

// A scrape of one organisation with a million moves behind it, 18,000 of them,
// of 3,600 pull requests, in the last hour.
func BenchmarkMeasuresOfAMillionMoves(b *testing.B) {
	w := newWorld(b)
	w.history(w.queue, 200_000, epoch)
	_, err := w.SQL().Exec(`ANALYZE`)
	w.must(err)
	for range 20 { // the first readers count what nobody has counted
		w.measures(epoch)
	}
	b.ResetTimer()
	for b.Loop() {
		w.measures(epoch)
	}
}
