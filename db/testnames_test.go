package db_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/flaky"
)

// A flaky test is renamed. Some days later, when it is certain that the old name
// does not run any more, its history goes on under the new one, the old id still
// leads to it, and what old pull requests say of it counts for it.
func TestARenamedTestKeepsItsHistory(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	ctx := t.Context()
	send := func(hour int, commit string, facts flaky.Facts, names string) {
		t.Helper()
		clock = epoch.Add(time.Duration(hour) * time.Hour)
		w.send(report{hour: hour, commit: commit, sent: flaky.Sent{Facts: facts}, file: "s.go", names: names})
	}
	for i := range 4 {
		send(13*i, fmt.Sprint("old", i), flaky.Facts{}, "shipsTheOrder~ cancels pays")
	}
	send(60, "new", flaky.Facts{}, "shipsTheOrders cancels pays")
	w.must(w.KeepTests(ctx, clock)) // the day is not over: nobody can know
	if got := w.column(`SELECT count(*)::text FROM test_aliases`); got != "0" {
		t.Fatalf("%s renames too early", got)
	}
	send(61, "pr", flaky.Facts{Pull: 7}, "shipsTheOrders- cancels pays")
	send(84, "new2", flaky.Facts{}, "shipsTheOrders cancels pays")
	clock = clock.Add(24 * time.Hour)
	w.must(w.KeepTests(ctx, clock))
	w.must(w.KeepTests(ctx, clock)) // once more
	d, err := w.TestDetails(ctx, w.repo.ID, testID("shipsTheOrder"), clock)
	if err != nil || d.Name != "shipsTheOrders" || d.ID != testID("shipsTheOrders") || d.Status != flaky.Flaky || d.QuarantinedAt.IsZero() || d.PullRequests != 1 {
		t.Errorf("by the old id: %+v %v", d, err)
	}
	if got := w.column(`SELECT name FROM test_cases ORDER BY name`); got != "cancels, pays, shipsTheOrders" {
		t.Errorf("tests: %s", got)
	}
	if got := w.column(`SELECT count(*)::text FROM test_failures WHERE case_id = (SELECT id FROM test_cases WHERE name = 'shipsTheOrders')`); got != "5" {
		t.Errorf("%s failures, want four of the old name and one of the new", got)
	}
	if got := w.column(`SELECT before || ' -> ' || after || ' ' || code FROM test_changes WHERE what = 'name'`); got != "s.go › shipsTheOrder -> s.go › shipsTheOrders RENAMED" {
		t.Errorf("noted: %s", got)
	}
	send(110, "pr-old", flaky.Facts{Pull: 8}, "shipsTheOrder- cancels pays")
	if d, err := w.TestDetails(ctx, w.repo.ID, testID("shipsTheOrders"), clock); err != nil || d.PullRequests != 2 {
		t.Errorf("after an old pull request: %+v %v", d, err)
	}
	if got := w.column(`SELECT count(*)::text FROM test_cases`); got != "3" {
		t.Errorf("%s tests", got)
	}
	send(111, "pr-old2", flaky.Facts{Pull: 8}, "shipsTheOrder cancels pays") // it failed there once
	// An old commit of main is run again: that proves nothing.
	send(111, "old3", flaky.Facts{Attempt: 2}, "shipsTheOrder cancels pays")
	if got := w.column(`SELECT name FROM test_cases ORDER BY name`); got != "cancels, pays, shipsTheOrders" {
		t.Errorf("after an old commit: %s", got)
	}
	// The rename is taken back: the history follows. A report that has both is of
	// two tests.
	send(112, "back", flaky.Facts{}, "shipsTheOrder shipsTheOrders cancels pays")
	if got := w.column(`SELECT name || ' ' || status FROM test_cases ORDER BY name`); got != "cancels HEALTHY, pays HEALTHY, shipsTheOrder FLAKY, shipsTheOrders HEALTHY" {
		t.Errorf("after it was taken back: %s", got)
	}
	if got := w.column(`SELECT count(*)::text FROM test_aliases`); got != "0" {
		t.Errorf("%s aliases are left", got)
	}
}

// Two programs enter reports. What one remembers of the names of tests is not
// believed after the other has renamed one, or taken that back.
func TestARenameElsewhereIsHeardOf(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	other := *w
	other.DB = dbtest.Open(t, w.dsn, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	send := func(w *world, hour int, names string) {
		t.Helper()
		clock = epoch.Add(time.Duration(hour) * time.Hour)
		w.send(report{hour: hour, commit: fmt.Sprint(hour), file: "s.go", names: names})
	}
	week := func(hour int, name string, want flaky.Tally) {
		t.Helper()
		if got := w.details(name, hour).Week; got != want {
			t.Errorf("%s at hour %d: %+v, want %+v", name, hour, got, want)
		}
	}
	send(w, 0, "shipsTheOrder~ pays")
	for _, hour := range []int{48, 72} {
		send(w, hour, "shipsTheOrders pays")
	}
	clock = epoch.Add(97 * time.Hour)
	w.must(other.KeepTests(t.Context(), clock))
	send(w, 98, "shipsTheOrders~ pays")
	week(98, "shipsTheOrders", flaky.Tally{Runs: 2, Failures: 2}) // of the old name, and now
	send(&other, 99, "shipsTheOrder shipsTheOrders pays")         // taken back
	send(w, 100, "shipsTheOrder~ shipsTheOrders~ pays")
	week(100, "shipsTheOrder", flaky.Tally{Runs: 4, Failures: 3})
	week(100, "shipsTheOrders", flaky.Tally{Runs: 2, Failures: 1})
}

// What still runs was not renamed, and of what is not certain nothing is made.
func TestWhatIsNoRename(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string][]string{
		"it still runs":      {"shipsTheOrder~ a", "shipsTheOrder shipsTheOrders a", "shipsTheOrder shipsTheOrders a"},
		"of another kind":    {"shipsTheOrder~ a", "refunds a", "refunds a"},
		"it came back":       {"shipsTheOrder~ a", "shipsTheOrders a", "shipsTheOrder shipsTheOrders a"},
		"it came and went":   {"shipsTheOrder~ a", "shipsTheOrders a", "a"},
		"two are as much it": {"shipsTheOrder~ a", "shipsTheOrders shipsTheOrderX a", "shipsTheOrders shipsTheOrderX a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := epoch
			w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
			for i, names := range runs {
				clock = epoch.Add(time.Duration(24*i) * time.Hour)
				w.send(report{hour: 24 * i, commit: fmt.Sprint(i), file: "s.go", names: names})
			}
			w.must(w.KeepTests(t.Context(), clock.Add(24*time.Hour)))
			if got := w.column(`SELECT count(*)::text FROM test_aliases`); got != "0" {
				t.Errorf("%s renames", got)
			}
		})
	}
}

// The chores are asked for once an hour of the clock, whoever asks, and done by
// one program at a time.
func TestChoresAreAskedForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, after := range []time.Duration{0, time.Minute, time.Hour} {
		w.must(w.KeepTestsSoon(t.Context(), epoch.Add(after)))
	}
	if got := w.column(`SELECT count(*)::text FROM river_job WHERE kind = 'keep_tests'`); got != "2" {
		t.Errorf("%s jobs, want one for each of two hours", got)
	}
	busy, err := w.SQL().Conn(t.Context())
	w.must(err)
	defer busy.Close()
	_, err = busy.ExecContext(t.Context(), `SELECT pg_advisory_lock(hashtextextended('chores of tests', 0))`)
	w.must(err)
	partitions := `SELECT count(*)::text FROM pg_inherits WHERE inhparent = 'test_results'::regclass`
	w.must(w.KeepTests(t.Context(), epoch))
	if got := w.column(partitions); got != "1" {
		t.Errorf("while another program keeps tests: %s partitions", got)
	}
	_, err = busy.ExecContext(t.Context(), `SELECT pg_advisory_unlock_all()`)
	w.must(err)
	w.must(w.KeepTests(t.Context(), epoch))
	if got := w.column(partitions); got != "4" {
		t.Errorf("afterwards: %s partitions, want three days and the default", got)
	}
}
