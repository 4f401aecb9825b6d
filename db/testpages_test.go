package db_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/db"
	"signalbox/flaky"
	"signalbox/queue"
)

// What the pages of tests read.

// sick makes a repository in which "flaky" is quarantined, "once" is suspected,
// "broken" is broken, and "well" and "percent%" are well.
func sick(t *testing.T) (w *world, clock *time.Time) {
	t.Helper()
	now := epoch
	w = newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return now } })
	w.automatic()
	for i, names := range []string{"flaky~ once broken well percent%", "flaky~ once~ broken well percent%", "flaky~ once broken- well percent%", "flaky once broken- well percent%", "flaky once broken- well percent%"} {
		now = epoch.Add(time.Duration(13*i) * time.Hour)
		w.send(report{hour: 13 * i, commit: fmt.Sprint("c", i), names: names})
	}
	return w, &now
}

func names(tests []flaky.TestCase) string {
	var all []string
	for i := range tests {
		all = append(all, tests[i].Name)
	}
	return strings.Join(all, " ")
}

func TestListsOfTests(t *testing.T) {
	t.Parallel()
	w, now := sick(t)
	_, err := w.SQL().Exec(`UPDATE test_cases SET codeowners = '{@acme/shop,@ann}' WHERE name IN ('flaky', 'well')`)
	w.must(err)
	_, err = w.SetQuarantine(t.Context(), w.repo.ID, testID("well"), flaky.Override{Setting: flaky.Never, Actor: "@ann"}, *now)
	w.must(err)
	for _, tt := range []struct {
		filter flaky.Filter
		want   string
	}{
		{flaky.Filter{Show: flaky.ShowNotable}, "broken flaky well once"},
		{flaky.Filter{Show: flaky.ShowFlaky}, "flaky"},
		{flaky.Filter{Show: flaky.ShowBroken}, "broken"},
		{flaky.Filter{Show: flaky.ShowSuspected}, "once"},
		{flaky.Filter{Show: flaky.ShowQuarantined}, "flaky"},
		{flaky.Filter{Show: flaky.ShowDecided}, "well"},
		{flaky.Filter{Show: flaky.ShowAll}, "broken flaky percent% well once"},
		{flaky.Filter{Show: flaky.ShowAll, Text: "%"}, "percent%"},
		{flaky.Filter{Show: flaky.ShowAll, Text: "LAKY.G"}, "flaky"},
		{flaky.Filter{Show: flaky.ShowAll, Text: "_"}, ""},
		{flaky.Filter{Show: flaky.ShowAll, Text: `\`}, ""},
		{flaky.Filter{Show: flaky.ShowAll, Text: "nul\x00"}, ""},
		{flaky.Filter{Show: flaky.ShowAll, Owner: "@ann"}, "flaky well"},
		{flaky.Filter{Show: flaky.ShowNotable, Owner: "@acme/shop", Text: "wel"}, "well"},
		{flaky.Filter{Show: flaky.ShowAll, Owner: "@ben"}, ""},
	} {
		tests, err := w.ListTests(t.Context(), w.repo.ID, tt.filter, 10)
		got := strings.Fields(names(tests))
		if err != nil || !sameNames(got, strings.Fields(tt.want)) {
			t.Errorf("%+v: %q, want %q (%v)", tt.filter, got, tt.want, err)
		}
	}
	if tests, err := w.ListTests(t.Context(), w.repo.ID, flaky.Filter{Show: flaky.ShowNotable}, 2); err != nil || names(tests) != "broken flaky" {
		t.Errorf("those that changed last are %q (%v)", names(tests), err)
	}
	c, err := w.CountTests(t.Context(), w.repo.ID)
	want := flaky.Counts{Notable: 4, Flaky: 1, Broken: 1, Suspected: 1, Quarantined: 1, Decided: 1, Automatic: true, LastUpload: *now}
	if c.LastUpload = c.LastUpload.UTC(); err != nil || c != want {
		t.Errorf("counted %+v, want %+v (%v)", c, want, err)
	}
	if empty, err := w.CountTests(t.Context(), w.repo.ID+1); err != nil || empty != (flaky.Counts{}) {
		t.Errorf("of another repository %+v (%v)", empty, err)
	}
	if unhealthy, err := w.CountUnhealthyTests(t.Context()); err != nil || len(unhealthy) != 1 || unhealthy[w.repo.ID] != 2 {
		t.Errorf("unhealthy: %v (%v)", unhealthy, err)
	}
	for show := range flaky.Shows {
		if tests, err := w.ListTests(t.Context(), w.repo.ID+1, flaky.Filter{Show: flaky.Shows[show]}, 10); err != nil || len(tests) != 0 {
			t.Errorf("%s of another repository: %s (%v)", flaky.Shows[show], names(tests), err)
		}
	}
}

// sameNames compares without order: tests that changed at one moment are in the
// order of their numbers, which says nothing.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Whoever reads a list page by page sees each test once, although tests change
// meanwhile.
func TestAListOfTestsIsReadPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(report{commit: "c", names: "a b c d e f g"}) // all changed at one moment
	var read []string
	f := flaky.Filter{Show: flaky.ShowAll}
	for page := 0; ; page++ {
		tests, err := w.ListTests(t.Context(), w.repo.ID, f, 2)
		w.must(err)
		if len(tests) == 0 {
			break
		}
		for i := range tests {
			read = append(read, tests[i].Name)
		}
		f.After = flaky.MarkOf(&tests[len(tests)-1])
		if page == 0 { // the last of the list changes, and so does one that was read
			_, err := w.SQL().Exec(`UPDATE test_cases SET status_at = $1 WHERE name IN ($2, $3)`, epoch.Add(time.Hour), "g", read[0])
			w.must(err)
		}
	}
	seen := map[string]int{}
	for _, n := range read {
		seen[n]++
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("%s was read %d times: %v", n, times, read)
		}
	}
	if len(seen) < 6 {
		t.Errorf("read %v", read)
	}
}

func TestHowATestFailed(t *testing.T) {
	t.Parallel()
	w, now := sick(t)
	run := liveRun("run", 1, "tested", "tree")
	run.Chain = []queue.Step{{Entry: entry(1).ID, PR: 1, Head: "h1", Commit: "x", Tree: "y"}, {Entry: entry(2).ID, PR: 2, Head: "h2", Commit: "tested", Tree: "tree"}}
	run.Members = []queue.EntryID{entry(2).ID}
	run.State, run.EndedAt = queue.RunPassed, epoch
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{entry(1), entry(2)}, []queue.Run{run} })
	*now = epoch.Add(60 * time.Hour)
	upload := w.send(report{hour: 60, commit: "tested", names: "flaky-", sent: flaky.Sent{Facts: flaky.Facts{Check: "unit", Link: "https://ci.example/1"}}})

	failures, err := w.TestFailures(t.Context(), w.repo.ID, testID("flaky"), 2)
	w.must(err)
	if len(failures) != 2 {
		t.Fatalf("%d failures", len(failures))
	}
	f := failures[0]
	if f.Upload != upload || !f.At.Equal(*now) || f.Summary != "no answer from flaky" || f.Message == "" || f.Passed || !f.Excused || f.Code != flaky.KnownFailure ||
		f.Kind != flaky.Queue || f.Branch != "main" || f.Commit != "tested" || fmt.Sprint(f.PullRequests) != "[1 2]" || f.Check != "unit" || f.Link != "https://ci.example/1" {
		t.Errorf("%+v", f)
	}
	if older := failures[1]; !older.Passed || older.Kind != flaky.Stable || older.Commit != "c2" {
		t.Errorf("before it: %+v", older)
	}
	kinds, err := w.FailureKinds(t.Context(), w.repo.ID, testID("flaky"), *now, 10)
	if err != nil || len(kinds) != 1 || kinds[0].Count != 4 || !kinds[0].Known || kinds[0].Fingerprint != f.Fingerprint || !kinds[0].Last.Equal(*now) {
		t.Errorf("kinds: %+v (%v)", kinds, err)
	}
	if kinds, err := w.FailureKinds(t.Context(), w.repo.ID, testID("broken"), *now, 10); err != nil || len(kinds) != 1 || kinds[0].Known {
		t.Errorf("of a broken test: %+v (%v)", kinds, err)
	}
	flakyOne := w.details("flaky", 60)
	days, err := w.TestDays(t.Context(), w.repo.ID, []int64{flakyOne.Number}, epoch.AddDate(0, 0, -7), *now)
	w.must(err)
	var said []string
	for _, d := range days[flakyOne.Number] {
		said = append(said, fmt.Sprintf("%s %d/%d", d.Day.UTC().Format("02"), d.Failures, d.Runs))
	}
	if got := strings.Join(said, ", "); len(days) != 1 || got != "27 1/1, 28 2/2, 29 0/1, 30 1/2" {
		t.Errorf("days: %s", got)
	}
	for name, read := range map[string]func() error{
		"failures": func() error { _, err := w.TestFailures(t.Context(), w.repo.ID+1, testID("flaky"), 1); return err },
		"kinds": func() error {
			_, err := w.FailureKinds(t.Context(), w.repo.ID+1, testID("flaky"), *now, 1)
			return err
		},
	} {
		if err := read(); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("%s of another repository: %v", name, err)
		}
	}
}

func TestListsOfUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send(report{hour: 0, commit: "a", names: "a b-"})
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: "c", Branch: "main", Check: "unit"}}}
	id, _, err := w.AddUpload(t.Context(), u, [32]byte{1}, []byte("x"))
	w.must(err)
	u.ID = id
	read := readOf("a")
	read.Notes = []flaky.Note{{Code: "NAMELESS_CASES", Count: 2, Text: "2 tests have no name and are left out."}}
	w.must(w.EnterUpload(t.Context(), u, read))
	waiting, _, err := w.AddUpload(t.Context(), u, [32]byte{2}, []byte("x"))
	w.must(err)
	list := func(below int64, troubled bool) string {
		t.Helper()
		uploads, err := w.ListUploads(t.Context(), w.repo.ID, below, troubled, 2)
		w.must(err)
		var said []string
		for _, u := range uploads {
			said = append(said, fmt.Sprintf("%d %s %d/%d %d %t", u.ID, u.Check, u.Failed, u.Tests, len(u.Notes), u.Entered.IsZero()))
		}
		return strings.Join(said, ", ")
	}
	if got, want := list(0, false), fmt.Sprintf("%d unit 0/0 0 true, %d unit 0/1 1 false", waiting, id); got != want {
		t.Errorf("the newest: %s, want %s", got, want)
	}
	if got, want := list(id, false), fmt.Sprintf("%d  1/2 0 false", first); got != want {
		t.Errorf("before them: %s, want %s", got, want)
	}
	if got, want := list(0, true), fmt.Sprintf("%d unit 0/1 1 false", id); got != want {
		t.Errorf("with something wrong: %s, want %s", got, want)
	}
	if uploads, err := w.ListUploads(t.Context(), w.repo.ID+1, 0, false, 2); err != nil || len(uploads) != 0 {
		t.Errorf("of another repository: %v (%v)", uploads, err)
	}
}

func TestRepositoriesWithoutAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.Connect(t.Context(), connection("acme", 5, repository("acme", "zoo", 80), repository("acme", "Lib", 81), repository("acme", "lib_old", 82))))
	list := func(text string, take int) string {
		t.Helper()
		repos, err := w.WithoutQueue(t.Context(), text, take)
		w.must(err)
		var all []string
		for _, r := range repos {
			if r.Installation != 5 {
				t.Errorf("%s is of installation %d", r, r.Installation)
			}
			all = append(all, r.Name)
		}
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		text, want string
		take       int
	}{{"", "Lib lib_old zoo", 9}, {"", "Lib lib_old", 2}, {"LIB", "Lib lib_old", 9}, {"lib_", "lib_old", 9}, {"e/z", "zoo", 9}, {"app", "", 9}} {
		if got := list(tt.text, tt.take); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
	w.must(w.Connect(t.Context(), account.Connection{Installation: account.Installation{ID: 5, Host: host, Account: "acme"}, Removed: []account.Repository{repository("acme", "zoo", 80)}}))
	if got := list("", 9); got != "Lib lib_old" {
		t.Errorf("after one was taken away: %s", got)
	}
	lib, err := w.RepositoryNamed(t.Context(), host, "ACME", "lib")
	if err != nil || lib.Name != "Lib" {
		t.Errorf("found %s (%v)", lib, err)
	}
	if _, err := w.RepositoryNamed(t.Context(), host, "acme", "none"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	places, err := w.Places(t.Context(), []queue.RepoID{lib.ID, w.repo.ID, 9999})
	if err != nil || len(places) != 2 || places[lib.ID] != (account.Place{Org: "acme", DefaultBranch: "main"}) {
		t.Errorf("they belong to %v (%v)", places, err)
	}
}
