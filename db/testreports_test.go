package db_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/db"
	"signalbox/flaky"
	testreport "signalbox/flaky/report"
	"signalbox/queue"
)

// report is a test report that a story uploads: at an hour after the epoch, on
// a commit of main unless it says otherwise.
type report struct {
	hour   int
	commit string
	sent   flaky.Sent
	names  string // tests: "a b- c~ d?": passed, failed, failed and then passed, skipped
	file   string // that all of them are in; "" = each in its own
}

func testID(name string) uuid.UUID {
	return flaky.Test{Org: "acme", Repo: "github.com/acme/app", Name: name}.ID()
}

// send uploads a report and enters it. It returns its number.
func (w *world) send(r report) int64 {
	w.t.Helper()
	at := epoch.Add(time.Duration(r.hour) * time.Hour)
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: at, Sent: r.sent}
	u.Commit, u.Trusted = r.commit, true
	if u.Branch == "" && u.Pull == 0 {
		u.Branch = "main"
	}
	key := sha256.Sum256([]byte(fmt.Sprint(r)))
	id, fresh, err := w.AddUpload(w.t.Context(), u, key, []byte(r.names))
	w.must(err)
	if !fresh {
		w.t.Fatalf("%+v was sent before", r)
	}
	waiting, body, err := w.WaitingUpload(w.t.Context(), id)
	w.must(err)
	if string(body) != r.names || waiting.Org != "acme" || waiting.Repo != "github.com/acme/app" || waiting.Commit != r.commit || !waiting.Received.Equal(at) {
		w.t.Fatalf("came back otherwise: %+v %q", waiting, body)
	}
	read := readOf(r.names)
	for i := range read.Tests {
		read.Tests[i].File = cmp.Or(r.file, read.Tests[i].File)
	}
	w.must(w.EnterUpload(w.t.Context(), waiting, read))
	return id
}

func readOf(names string) flaky.Read {
	var read flaky.Read
	for _, word := range strings.Fields(names) {
		name := strings.TrimRight(word, "-~?!")
		s := flaky.Seen{Test: flaky.Test{Org: "acme", Repo: "github.com/acme/app", Name: name, File: name + ".go"}, ID: testID(name)}
		s.Result = flaky.Result{Test: s.ID, Passed: true}
		switch word[len(name):] {
		case "-":
			s.Failed, s.Passed = true, false
		case "~":
			s.Failed = true
		case "!":
			s.Ambiguous = true
		case "?":
			s.Skipped = true
		}
		if s.Failed {
			s.Failure = flaky.Failure{Message: "no answer\x00 from " + name}
			s.Fingerprint, s.Summary = flaky.Describe(s.Failure)
		}
		read.Tests = append(read.Tests, s)
	}
	return read
}

func (w *world) automatic() {
	w.t.Helper()
	_, err := w.SQL().Exec(`INSERT INTO test_settings (repository_id, automatic) VALUES ($1, true)`, int64(w.repo.ID))
	w.must(err)
}

func (w *world) details(name string, hour int) flaky.TestDetails {
	w.t.Helper()
	d, err := w.TestDetails(w.t.Context(), w.repo.ID, testID(name), epoch.Add(time.Duration(hour)*time.Hour))
	w.must(err)
	return d
}

// A test fails on main between passes, again a day later, and when it is tried
// again: it becomes flaky, and then it is quarantined. Each step has its
// evidence.
func TestATestBecomesFlakyAndIsQuarantined(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	step := func(r report) flaky.TestDetails {
		t.Helper()
		clock = epoch.Add(time.Duration(r.hour) * time.Hour)
		w.send(r)
		return w.details("a", r.hour)
	}
	step(report{hour: 0, commit: "c0", names: "a b"})
	if d := step(report{hour: 1, commit: "c1", names: "a- b"}); d.Status != flaky.Healthy || d.Score != 0 || d.Week != (flaky.Tally{Runs: 2, Failures: 1}) {
		t.Errorf("after one failure: %+v", d)
	}
	if d := step(report{hour: 2, commit: "c1", sent: flaky.Sent{Facts: flaky.Facts{Attempt: 2}}, names: "a b"}); d.Score != 3 || !d.Suspected || d.Status != flaky.Healthy {
		t.Errorf("after the same commit passed: %+v", d)
	}
	step(report{hour: 25, commit: "c2", names: "a- b"})
	if d := step(report{hour: 26, commit: "c3", names: "a b"}); d.Status != flaky.Flaky || d.Score != 5 || d.StatusCode != flaky.EvidenceFound || !d.QuarantinedAt.IsZero() {
		t.Errorf("after another failure between passes: %+v", d)
	}
	d := step(report{hour: 50, commit: "c4", names: "a~ b"})
	if d.Status != flaky.Flaky || d.Score != 8 || !d.QuarantinedAt.Equal(clock) {
		t.Errorf("after it passed when it was tried again: %+v", d)
	}
	if len(d.Failures) != 1 || d.Failures[0].Count != 3 || d.Failures[0].Summary != "no answer from a" || d.Week.Failures != 3 || d.Day != (flaky.Tally{Runs: 1, Failures: 1}) {
		t.Errorf("what is shown: %+v", d)
	}
	tests, total, err := w.TestPage(t.Context(), w.repo.ID, flaky.Selection{Show: flaky.ShowQuarantined}, 0, 10, clock)
	if err != nil || total != 1 || len(tests) != 1 || tests[0].Name != "a" || tests[0].File != "a.go" {
		t.Errorf("quarantined: %d %+v %v", total, tests, err)
	}
	if got := w.column(`SELECT kind || ' ' || failed_upload || '/' || passed_upload FROM test_evidence ORDER BY at, kind`); got != "lone_failure 2/3, same_code 2/3, lone_failure 4/5, same_code 6/6" {
		t.Errorf("evidence: %s", got)
	}
	if got := w.column(`SELECT what || ' ' || before || '>' || after || ' ' || code || ' ' || upload_id FROM test_changes ORDER BY id`); got != "status HEALTHY>FLAKY EVIDENCE_FOUND 5, quarantine off>on AUTOMATIC 6" {
		t.Errorf("changes: %s", got)
	}
	if d := step(report{hour: 51, commit: "c5", names: "a- b"}); d.QuarantinedAt.IsZero() {
		t.Error("a further failure ends the quarantine")
	}
	if got := w.column(`SELECT code || ' ' || excused FROM test_failures ORDER BY at`); got != "NOT_FLAKY false, NOT_FLAKY false, KNOWN_FAILURE true, KNOWN_FAILURE true" {
		t.Errorf("failures: %s", got)
	}
}

// column is one column of a query, joined.
func (w *world) column(query string) string {
	w.t.Helper()
	rows, err := w.SQL().Query(query)
	w.must(err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		w.must(rows.Scan(&text))
		all = append(all, text)
	}
	w.must(rows.Err())
	return strings.Join(all, ", ")
}

// What is broken is not flaky, and a quarantine ends when a test breaks.
func TestABrokenTestIsNotQuarantined(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	for i, names := range []string{"a", "a~", "a", "a~", "a", "a~"} {
		clock = epoch.Add(time.Duration(13*i) * time.Hour)
		w.send(report{hour: 13 * i, commit: fmt.Sprint("c", i), names: names})
	}
	if d := w.details("a", 70); d.Status != flaky.Flaky || d.QuarantinedAt.IsZero() {
		t.Fatalf("before: %+v", d)
	}
	for i := range 3 {
		w.send(report{hour: 80 + i, commit: fmt.Sprint("d", i), names: "a-"})
	}
	if d := w.details("a", 84); d.Status != flaky.Broken || !d.QuarantinedAt.IsZero() || d.StatusCode != flaky.AlwaysFails {
		t.Errorf("broken: %+v", d)
	}
	w.send(report{hour: 85, commit: "e", names: "a"})
	if d := w.details("a", 86); d.Status != flaky.Flaky || d.QuarantinedAt.IsZero() {
		t.Errorf("repaired: %+v", d)
	}
}

// The queue's own commits are found by the queue's runs, whatever the upload
// calls its branch, and a failure there counts for every pull request under
// test. What a fork sends is a pull request.
func TestWhatAnUploadTested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := liveRun("run", 1, "tested", "tree")
	run.Chain = []queue.Step{{Entry: entry(1).ID, PR: 1, Head: "h1", Commit: "x", Tree: "y"}, {Entry: entry(2).ID, PR: 2, Head: "h2", Commit: "tested", Tree: "tree"}}
	run.Members = []queue.EntryID{entry(2).ID}
	run.State, run.EndedAt = queue.RunPassed, epoch
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{entry(1), entry(2)}, []queue.Run{run} })
	for _, c := range []struct {
		commit string
		facts  flaky.Facts
		want   string
	}{
		{"tested", flaky.Facts{Branch: "anything"}, "queue main [1,2] tree"},
		{"tested", flaky.Facts{Branch: "main", Fork: true}, "pull_request main null -"},
		{"other", flaky.Facts{Branch: "main"}, "stable main null -"},
		{"other", flaky.Facts{Branch: "signalbox/queue/main"}, "other signalbox/queue/main null -"},
		{"other", flaky.Facts{Branch: "main", Pull: 7}, "pull_request main [7] -"},
	} {
		id := w.send(report{commit: c.commit, sent: flaky.Sent{Facts: c.facts}, names: "a-"})
		if got := w.column(fmt.Sprintf(`SELECT (run->>'Kind') || ' ' || (run->>'Branch') || ' ' || coalesce(nullif(replace(run->>'PullRequests', ' ', ''), ''), 'null') || ' ' || coalesce(nullif(tree, ''), '-') FROM test_uploads WHERE id = %d`, id)); got != c.want {
			t.Errorf("%s %+v is %q, want %q", c.commit, c.facts, got, c.want)
		}
	}
	if d := w.details("a", 1); d.PullRequests != 2 {
		t.Errorf("failed on %d pull requests, want 2 and 7", d.PullRequests)
	}
}

// The same report again is the same upload, and entering it again does nothing.
func TestAnUploadCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: "c", Branch: "main"}}}
	id, fresh, err := w.AddUpload(t.Context(), u, [32]byte{1}, []byte("x"))
	w.must(err)
	again, freshAgain, err := w.AddUpload(t.Context(), u, [32]byte{1}, []byte("x"))
	if err != nil || !fresh || freshAgain || again != id {
		t.Errorf("%d %t, then %d %t %v", id, fresh, again, freshAgain, err)
	}
	if n := w.column(`SELECT count(*)::text FROM river_job WHERE kind = 'read_test_upload'`); n != "1" {
		t.Errorf("%s jobs", n)
	}
	u.ID = id
	for range 2 {
		w.must(w.EnterUpload(t.Context(), u, readOf("a b- c?")))
	}
	if d := w.details("b", 0); d.Week != (flaky.Tally{Runs: 1, Failures: 1}) {
		t.Errorf("entered twice: %+v", d.Week)
	}
	if d := w.details("c", 0); d.Week.Runs != 0 {
		t.Errorf("a skipped test ran: %+v", d.Week)
	}
	if got := w.column(`SELECT tests || ' ' || failed || ' ' || skipped || ' ' || complete FROM test_uploads`); got != "2 1 1 true" {
		t.Errorf("the upload: %s", got)
	}
	if _, _, err := w.WaitingUpload(t.Context(), id); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("an upload that was entered waits: %v", err)
	}
	u.Repository = 999
	if _, _, err := w.AddUpload(t.Context(), u, [32]byte{2}, []byte("x")); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of an unknown repository: %v", err)
	}
	if _, err := w.TestDetails(t.Context(), w.repo.ID+1, testID("a"), epoch); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a test of another repository: %v", err)
	}
}

// Names that change with every run are not taken for tests without end.
func TestNamesThatChangeEveryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := func(prefix string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s%d ", prefix, i)
		}
		return b.String()
	}
	w.send(report{hour: 0, commit: "a", names: many("first", 3000)})
	w.send(report{hour: 1, commit: "b", names: many("second", 3000)})
	if got := w.column(`SELECT count(*)::text FROM test_cases`); got != "4500" {
		t.Errorf("%s tests, want 3000 and half as many", got)
	}
	if got := w.column(`SELECT jsonb_array_length(notes) || ' ' || coalesce(notes->0->>'code', '') FROM test_uploads ORDER BY id`); got != "0 , 1 TOO_MANY_NEW_TESTS" {
		t.Errorf("notes: %s", got)
	}
}

// From the bytes of a report to what is known of its tests.
func TestAReportIsReadFromItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: "c", Branch: "main"}}}
	id, _, err := w.AddUpload(t.Context(), u, [32]byte{1}, []byte(`<testsuite name="s" tests="3">
		<testcase classname="c" name="nul&#0;" file="a.go"><failure message="x&#0;y"/></testcase><testcase name=""/></testsuite>`))
	w.must(err)
	gone := func(err error) bool { return errors.Is(err, queue.ErrNotFound) }
	for range 2 { // River may work a job twice
		w.must(testreport.Ingest(t.Context(), w.DB, id, gone))
	}
	w.must(testreport.Ingest(t.Context(), w.DB, 999, gone))
	if got := w.column(`SELECT name || ' ' || file || ' ' || parent FROM test_cases`); got != "nul\uFFFD a.go s" {
		t.Errorf("tests: %q", got)
	}
	if got := w.column(`SELECT n->>'code' FROM test_uploads, jsonb_array_elements(notes) n`); got != "NAMELESS_CASES, FEWER_CASES_THAN_ANNOUNCED, BAD_CHARACTERS" {
		t.Errorf("notes: %s", got)
	}
	if got := w.column(`SELECT complete || ' ' || tests || ' ' || (body IS NULL) FROM test_uploads`); got != "false 1 true" {
		t.Errorf("upload: %s", got)
	}
}

// A report is kept compressed where that makes it smaller, and comes back as it was
// sent.
func TestAWaitingReportComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Facts: flaky.Facts{Commit: "c"}}}
	large, noise := []byte(strings.Repeat("<testcase/>", 1000)), make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i, sent := range [][]byte{large, noise, []byte("x")} {
		id, _, err := w.AddUpload(t.Context(), u, [32]byte{byte(i)}, sent)
		w.must(err)
		_, body, err := w.WaitingUpload(t.Context(), id)
		w.must(err)
		if !bytes.Equal(body, sent) {
			t.Errorf("%d bytes come back as %d others", len(sent), len(body))
		}
	}
	if got := w.column(`SELECT zipped || ' ' || (length(body) < 200) FROM test_uploads ORDER BY id`); got != "true true, false false, false true" {
		t.Errorf("kept: %s", got)
	}
}

// With time tests recover, quarantines end, and what is old goes, by whole
// partitions.
func TestTimePassesOverTests(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	w.automatic()
	w.must(w.KeepTests(t.Context(), clock))
	for i := range 3 {
		clock = epoch.Add(time.Duration(13*i) * time.Hour)
		w.send(report{hour: 13 * i, commit: fmt.Sprint("c", i), names: "a~ b"})
	}
	_, err := w.SQL().Exec(`UPDATE test_cases SET setting = 'ALWAYS_QUARANTINE', owner = 'ann', reason = 'known', expires_at = $1, quarantined_at = $2 WHERE name = 'b'`, clock.Add(time.Hour), clock)
	w.must(err)
	if got := w.column(`SELECT tableoid::regclass::text FROM test_results ORDER BY 1`); got != "test_results_2026_11_27, test_results_2026_11_28, test_results_2026_11_28" {
		t.Errorf("results are in %s", got)
	}
	quarantined := func() string {
		return w.column(`SELECT name || ' ' || status FROM test_cases WHERE quarantined_at IS NOT NULL ORDER BY name`)
	}
	w.must(w.KeepTests(t.Context(), clock.Add(time.Minute)))
	if got := quarantined(); got != "a FLAKY, b HEALTHY" {
		t.Errorf("at first: %s", got)
	}
	w.must(w.KeepTests(t.Context(), clock.Add(2*time.Hour)))
	if got := quarantined(); got != "a FLAKY" {
		t.Errorf("after the end of b's: %s", got)
	}
	for i := range 60 {
		clock = clock.Add(2 * time.Hour)
		w.send(report{hour: int(clock.Sub(epoch).Hours()), commit: fmt.Sprint("d", i), names: "a b"})
	}
	if got := quarantined(); got != "" {
		t.Errorf("after 60 passes in five days: %s", got)
	}
	if got := w.column(`SELECT after || ' ' || code FROM test_changes ORDER BY id`); got != "FLAKY EVIDENCE_FOUND, on AUTOMATIC, off NOT_FLAKY, HEALTHY RECOVERED, off NOT_FLAKY" {
		t.Errorf("changes: %s", got)
	}
	w.must(w.KeepTests(t.Context(), clock.AddDate(0, 0, 60)))
	for _, table := range []string{"test_results", "test_failures", "test_uploads", "test_hours", "test_days", "test_fingerprints", "test_pulls"} {
		if n := w.column(`SELECT count(*)::text FROM ` + table); n != "0" {
			t.Errorf("%s rows are left in %s", n, table)
		}
	}
	if got := w.column(`SELECT count(*)::text FROM pg_inherits WHERE inhparent IN ('test_results'::regclass, 'test_failures'::regclass)`); got != "8" {
		t.Errorf("%s partitions, want three days and the default of each", got)
	}
}

// Tests belong to whom CODEOWNERS of the stable branch says: new ones at once,
// all of them when the file changes, and never by what a pull request says.
func TestTestsHaveOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(hour int, facts flaky.Facts, names, owners string) {
		t.Helper()
		u := flaky.Upload{Repository: int64(w.repo.ID), Repo: "github.com/acme/app", Received: epoch.Add(time.Duration(hour) * time.Hour), Sent: flaky.Sent{Trusted: true, Facts: facts}}
		id, _, err := w.AddUpload(t.Context(), u, [32]byte{byte(hour)}, []byte("x"))
		w.must(err)
		u.ID = id
		read := readOf(names)
		read.Owners = owners
		w.must(w.EnterUpload(t.Context(), u, read))
	}
	owned := func() string {
		return w.column(`SELECT name || ':' || array_to_string(codeowners, ',') FROM test_cases ORDER BY name`)
	}
	main := flaky.Facts{Commit: "c", Branch: "main"}
	send(0, main, "a b", "")
	send(1, flaky.Facts{Commit: "p", Pull: 7}, "a b", "* @eve")
	if got := owned(); got != "a:, b:" {
		t.Errorf("by a pull request: %s", got)
	}
	send(2, main, "a", "*.go @acme/all\nb.go @ben\nbad.go nobody\n")
	send(3, main, "c", "")
	if got := owned(); got != "a:@acme/all, b:@ben, c:@acme/all" {
		t.Errorf("by the stable branch: %s", got)
	}
	if got := w.column(`SELECT n->>'code' FROM test_uploads, jsonb_array_elements(notes) n`); got != "BAD_CODEOWNERS" {
		t.Errorf("notes: %s", got)
	}
	send(4, main, "a", "*.go @acme/new\n")
	if got := owned(); got != "a:@acme/new, b:@acme/new, c:@acme/new" {
		t.Errorf("after a change: %s", got)
	}
	ann := account.As(t.Context(), account.Author{Login: "ann", UserID: 3})
	for range 2 { // the second time changes nothing
		w.must(w.SetAutomatic(ann, w.repo.ID, true, "ann", epoch))
	}
	if got := w.column(`SELECT login || ' ' || deed || ' ' || subject || ' ' || changes FROM audit WHERE deed LIKE 'quar%'`); got != `ann quarantine_switched github.com/acme/app [{"to": "on", "from": "off", "name": "automatic"}]` {
		t.Errorf("the audit log says %s", got)
	}
	if err := w.SetAutomatic(ann, w.repo.ID+1, true, "ann", epoch); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of another repository: %v", err)
	}
	if got := w.column(`SELECT automatic || ' ' || codeowners FROM test_settings`); got != "true *.go @acme/new\n" {
		t.Errorf("settings: %q", got)
	}
}
