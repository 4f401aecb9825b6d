package db_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/flaky"
	testreport "signalbox/flaky/report"
	"signalbox/queue"
)

// loadedRuns is how much BenchmarkTestStorage loads before it measures.
var loadedRuns = flag.Int("runs", 1_000_000, "how many runs of tests BenchmarkTestStorage loads")

// What is loaded: repositories of so many tests each, whose uploads come evenly
// over 45 days, as long as failures are kept.
const (
	storedRepositories = 10
	storedTests        = 10_000
	storedDays         = 45
	storedFailing      = 0.001 // of the runs
	storedFlaky        = 50    // tests of each repository, quarantined
)

// storage is a database with many runs of tests in it, in the form in which the
// service keeps them: passes as counters and packed results, failures as rows,
// and of old days only what retention leaves. Rows are made by the program that
// packs them and copied in, because entering them one upload after the other would
// take an hour.
type storage struct {
	*world
	repos  []queue.RepoID
	first  []int64 // number of the first test of each repository
	random *rand.Rand
	now    time.Time
	upload int64
}

func newStorage(b testing.TB) *storage {
	s := &storage{random: rand.New(rand.NewPCG(7, 2026)), now: epoch}
	s.world = newWorld(b, func(c *db.Config) {
		c.Now = func() time.Time { return s.now }
		c.MaxIdle = 1 // one thing after the other, on one connection
	})
	for i := range storedRepositories {
		name := fmt.Sprintf("large%d", i)
		s.must(s.Connect(b.Context(), connection("acme", 5, repository("acme", name, int64(1000+i)))))
		repo, err := s.Repository(b.Context(), s.org.ID, host, "acme", name)
		s.must(err)
		s.repos = append(s.repos, repo.ID)
	}
	s.cases()
	for d := range storedDays + 1 {
		_, err := s.SQL().Exec(`SELECT test_day($1)`, epoch.AddDate(0, 0, -d).Format(time.DateOnly))
		s.must(err)
	}
	s.uploads(*loadedRuns / storedTests / storedRepositories)
	_, err := s.SQL().Exec(`ANALYZE`)
	s.must(err)
	return s
}

// storedTest is the identity of a test of a repository.
func storedTest(repo, n int) flaky.Test {
	return flaky.Test{Org: "acme", Repo: fmt.Sprintf("github.com/acme/large%d", repo), File: fmt.Sprintf("pkg%d/file%d_test.go", n/500, n/20), Classname: fmt.Sprintf("Class%d", n/20), Parent: "suite", Name: fmt.Sprintf("test_%d", n)}
}

// cases makes the tests. Some are flaky, with a history.
func (s *storage) cases() {
	for i, repo := range s.repos {
		var rows [][]any
		for n := range storedTests {
			t := storedTest(i, n)
			rows = append(rows, []any{int64(repo), t.ID().String(), t.Name, t.Parent, t.File, t.Classname, "", epoch.AddDate(0, 0, -storedDays), epoch, epoch})
		}
		s.copy("test_cases", []string{"repository_id", "test_id", "name", "parent", "file", "classname", "variant", "first_seen", "seen_on", "status_at"}, rows)
		var first int64
		s.must(s.SQL().QueryRow(`SELECT min(id) FROM test_cases WHERE repository_id = $1`, int64(repo)).Scan(&first))
		s.first = append(s.first, first)
		h := flaky.History{Flaky: true, Quarantined: true, Rate: 0.01, LastAt: epoch.AddDate(0, 0, -1)}
		h.Add(flaky.Evidence{Kind: flaky.SameCode, At: epoch.AddDate(0, 0, -1), Fingerprint: 1}, flaky.Evidence{Kind: flaky.SameCode, At: epoch.AddDate(0, 0, -3), Fingerprint: 1}, flaky.Evidence{Kind: flaky.SameCode, At: epoch.AddDate(0, 0, -5), Fingerprint: 1})
		text, err := json.Marshal(h)
		s.must(err)
		_, err = s.SQL().Exec(`UPDATE test_cases SET status = 'FLAKY', quarantined_at = $2, score = 9, watched = true, history = $3 WHERE repository_id = $1 AND (id - $4) % $5 = 0`,
			int64(repo), epoch, string(text), first, int64(storedTests/storedFlaky))
		s.must(err)
		_, err = s.SQL().Exec(`INSERT INTO test_settings (repository_id, automatic) VALUES ($1, true)`, int64(repo))
		s.must(err)
	}
}

// copy loads rows.
func (s *storage) copy(table string, columns []string, rows [][]any) {
	if len(rows) == 0 {
		return
	}
	tx, err := s.SQL().Begin()
	s.must(err)
	statement, err := tx.Prepare("COPY " + table + " (" + strings.Join(columns, ", ") + ") FROM STDIN")
	s.must(err)
	for _, row := range rows {
		_, err := statement.Exec(row...)
		s.must(err)
	}
	_, err = statement.Exec()
	s.must(err)
	s.must(statement.Close())
	s.must(tx.Commit())
}

// counts are the counters of the tests of a repository, by the start of their hour
// or day: all of them ran as often.
type counts map[time.Time]*counted

type counted struct {
	runs     int
	failures map[int64]int
}

func (c counts) add(at time.Time, failed map[int64]bool) {
	if c[at] == nil {
		c[at] = &counted{failures: map[int64]int{}}
	}
	c[at].runs++
	for n := range failed {
		c[at].failures[n]++
	}
}

// rows are the counters packed by chunk.
func (c counts) rows(repo queue.RepoID, first int64) [][]any {
	var rows [][]any
	for at, of := range c {
		chunks := map[int64]map[int64]flaky.Tally{}
		for n := first; n < first+storedTests; n++ {
			if chunks[n/db.ChunkSize] == nil {
				chunks[n/db.ChunkSize] = map[int64]flaky.Tally{}
			}
			chunks[n/db.ChunkSize][n%db.ChunkSize] = flaky.Tally{Runs: of.runs, Failures: of.failures[n]}
		}
		for chunk, of := range chunks {
			rows = append(rows, []any{int64(repo), chunk, at, db.PackTallies(of)})
		}
	}
	return rows
}

// uploads makes the uploads of each repository.
func (s *storage) uploads(each int) {
	body := string(bytes.Repeat([]byte("at some.place(File.java:42)\n"), 20))
	for i, repo := range s.repos {
		hours, days := counts{}, counts{}
		var uploads, results, failures, pulls [][]any
		kinds, hit := map[[3]any]int{}, map[[3]any]bool{}
		for n := range each {
			s.upload++
			at := epoch.Add(-time.Duration(each-n) * storedDays * 24 * time.Hour / time.Duration(each)).Truncate(time.Microsecond)
			day := at.Format(time.DateOnly)
			failed := map[int64]bool{}
			for range int(storedFailing * storedTests) {
				failed[s.first[i]+s.random.Int64N(storedTests)] = true
			}
			run, err := json.Marshal(flaky.Run{ID: s.upload, At: at, Check: "test", Kind: flaky.PullRequest, Commit: fmt.Sprintf("%040d", s.upload), Trusted: true, Tests: storedTests, Failed: len(failed)})
			s.must(err)
			uploads = append(uploads, []any{s.upload, int64(repo), binary.BigEndian.AppendUint64(nil, uint64(s.upload)), at, at, `{"check":"test"}`, string(run), fmt.Sprintf("%040d", s.upload), at, storedTests, len(failed), true})
			if at.After(epoch.AddDate(0, 0, -15)) {
				results = append(results, []any{day, s.upload, db.PackOutcomes(failed, s.first[i], s.first[i]+storedTests-1)})
			}
			if at.After(epoch.AddDate(0, 0, -3)) {
				hours.add(at.Truncate(time.Hour), failed)
			}
			days.add(at.Truncate(24*time.Hour), failed)
			for test := range failed {
				print := int64(1 + s.random.IntN(5))
				failures = append(failures, []any{day, test, s.upload, at, print, fmt.Sprint("no answer of kind ", print), "TimeoutError", "no answer after 3s", body, false, false, false, "NOT_FLAKY"})
				kinds[[3]any{test, day, print}]++
				hit[[3]any{test, day, n}] = at.After(epoch.AddDate(0, 0, -8))
			}
		}
		var prints [][]any
		for k, count := range kinds {
			prints = append(prints, []any{k[0], k[1], k[2], "no answer", count, epoch})
		}
		for k, recent := range hit {
			if recent {
				pulls = append(pulls, []any{k[0], k[1], k[2]})
			}
		}
		s.copy("test_uploads", []string{"id", "repository_id", "key", "received_at", "entered_at", "sent", "run", "commit", "at", "tests", "failed", "complete"}, uploads)
		s.copy("test_results", []string{"day", "upload_id", "packed"}, results)
		s.copy("test_failures", []string{"day", "case_id", "upload_id", "at", "fingerprint", "summary", "kind", "message", "body", "passed", "ambiguous", "excused", "code"}, failures)
		s.copy("test_fingerprints", []string{"case_id", "day", "fingerprint", "summary", "count", "last_at"}, prints)
		s.copy("test_pulls", []string{"case_id", "day", "pr"}, pulls)
		s.copy("test_hours", []string{"repository_id", "chunk", "at", "counts"}, hours.rows(repo, s.first[i]))
		s.copy("test_days", []string{"repository_id", "chunk", "at", "counts"}, days.rows(repo, s.first[i]))
	}
	_, err := s.SQL().Exec(`SELECT setval(pg_get_serial_sequence('test_uploads', 'id'), $1)`, max(s.upload, 1))
	s.must(err)
}

// times is how long something took, n times, shortest first.
func times(b *testing.B, n int, do func(i int) error) []time.Duration {
	b.Helper()
	var all []time.Duration
	for i := range n {
		began := time.Now()
		if err := do(i); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantiles(all []time.Duration) (p50, p99 float64) {
	return ms(all[len(all)/2]), ms(all[len(all)*99/100])
}

// BenchmarkTestStorage measures what is stored of tests after many runs: how large
// it is, what reading it takes, and what one more upload of 10,000 cases does.
// docs/benchmarks.md has results; make flaky-storage runs it.
func BenchmarkTestStorage(b *testing.B) {
	dbtest.Durable(b)
	began := time.Now()
	s := newStorage(b)
	b.Logf("%d runs of %d repositories, loaded in %.0f s", s.upload*storedTests, storedRepositories, time.Since(began).Seconds())
	ctx := context.WithoutCancel(b.Context())
	for b.Loop() {
	}
	s.sizes(b)
	any := func() (queue.RepoID, uuid.UUID) {
		i := s.random.IntN(len(s.repos))
		return s.repos[i], storedTest(i, s.random.IntN(storedTests)).ID()
	}
	for _, read := range []struct {
		name string
		do   func(int) error
	}{
		{"get-test-details", func(int) error {
			repo, id := any()
			_, err := s.TestDetails(ctx, repo, id, s.now)
			return err
		}},
		{"list-quarantined-tests, a page of 100", func(i int) error {
			_, n, err := s.TestPage(ctx, s.repos[i%len(s.repos)], flaky.Selection{Show: flaky.ShowQuarantined}, 0, 100, s.now)
			if err == nil && n != storedFlaky {
				err = fmt.Errorf("%d tests", n)
			}
			return err
		}},
		{"list-failing-tests of an hour", func(i int) error {
			_, _, err := s.TestPage(ctx, s.repos[i%len(s.repos)], flaky.Selection{Show: flaky.ShowAll, FailedFrom: s.now.Add(-time.Hour), FailedTo: s.now}, 0, 100, s.now)
			return err
		}},
		{"list-failing-tests of 7 days", func(i int) error {
			_, _, err := s.TestPage(ctx, s.repos[i%len(s.repos)], flaky.Selection{Show: flaky.ShowAll, FailedFrom: s.now.AddDate(0, 0, -7), FailedTo: s.now}, 0, 100, s.now)
			return err
		}},
		{"list-uploads, a page of 100", func(i int) error {
			_, err := s.ListUploads(ctx, s.repos[i%len(s.repos)], 0, false, 100)
			return err
		}},
		{"list-test-evidence", func(int) error {
			repo, id := any()
			_, _, err := s.TestHistory(ctx, repo, id)
			return err
		}},
		{"getQuarantineConfig, 100 failures", func(i int) error {
			asked := make([]flaky.AskedFailure, 100)
			for n := range asked {
				asked[n] = flaky.AskedFailure{Tests: []uuid.UUID{storedTest(i%len(s.repos), n*storedTests/100).ID()}, Text: "no answer after 9s"}
			}
			_, err := s.Excused(ctx, s.repos[i%len(s.repos)], asked, s.now)
			return err
		}},
	} {
		p50, p99 := quantiles(times(b, 300, read.do))
		b.Logf("%-40s p50 %7.2f ms  p99 %7.2f ms", read.name, p50, p99)
	}
	s.writes(b)
	p50, _ := quantiles(times(b, 1, func(int) error { return s.KeepTests(ctx, s.now) }))
	b.Logf("%-40s %.0f ms", "the chores of an hour", p50)
}

// sizes logs what is stored.
func (s *storage) sizes(b *testing.B) {
	var total int64
	for _, table := range []string{"test_cases", "test_uploads", "test_results", "test_failures", "test_hours", "test_days", "test_fingerprints", "test_pulls"} {
		var size int64
		s.must(s.SQL().QueryRow(`
			SELECT sum(pg_total_relation_size(c))::bigint FROM (SELECT $1::regclass AS c UNION ALL SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = $1::regclass) t`, table).Scan(&size))
		total += size
		b.Logf("%-40s %8.1f MB", table, float64(size)/1e6)
	}
	b.Logf("%-40s %8.1f MB, %.2f bytes a run", "all", float64(total)/1e6, float64(total)/float64(max(s.upload*storedTests, 1)))
}

// writes enters more uploads of 10,000 cases: from their bytes, as a job does it.
func (s *storage) writes(b *testing.B) {
	for _, failing := range []int{0, 10} {
		var all []time.Duration
		for i := range 20 {
			took := s.enter(b, s.newUpload(i%2, i, failing))
			if i >= 2 { // the first of a day notes for each test that it ran
				all = append(all, took)
			}
		}
		slices.Sort(all)
		p50, p99 := quantiles(all)
		b.Logf("%-40s p50 %7.0f ms  most %7.0f ms  %.0f cases/s", fmt.Sprintf("an upload of 10,000 cases, %d failed", failing), p50, p99, float64(storedTests)/p50*1000)
	}
	s.writesTogether(b)
}

// writesTogether has two repositories enter uploads at the same time, as two
// workers do on two processors.
func (s *storage) writesTogether(b *testing.B) {
	const repos, uploads = 2, 15
	var all [repos][]madeUpload
	for i := range uploads {
		for repo := range all {
			all[repo] = append(all[repo], s.newUpload(repo, i, 0))
		}
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, list := range all {
		wg.Go(func() {
			for _, u := range list {
				s.enter(b, u)
			}
		})
	}
	wg.Wait()
	b.Logf("%-40s %.0f cases/s", "uploads of two repositories at a time", float64(repos*uploads*storedTests)/time.Since(began).Seconds())
}

// madeUpload is an upload that is ready to be sent.
type madeUpload struct {
	upload flaky.Upload
	key    [32]byte
	xml    []byte
}

// newUpload makes the i-th upload of a repository, of all its tests, of which so
// many fail.
func (s *storage) newUpload(repo, i, failing int) madeUpload {
	s.now = s.now.Add(time.Minute)
	var xml bytes.Buffer
	xml.WriteString(`<testsuites><testsuite name="suite">`)
	for n := range storedTests {
		t := storedTest(repo, n)
		fmt.Fprintf(&xml, `<testcase classname="%s" name="%s" file="%s" time="0.01"`, t.Classname, t.Name, t.File)
		if (n+i)%1000 == 0 && failing > 0 {
			fmt.Fprintf(&xml, `><failure type="TimeoutError" message="no answer of %d"/></testcase>`, n)
		} else {
			xml.WriteString(`/>`)
		}
	}
	xml.WriteString(`</testsuite></testsuites>`)
	return madeUpload{
		upload: flaky.Upload{Repository: int64(s.repos[repo]), Received: s.now, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: fmt.Sprintf("%040x", s.random.Int64()), Branch: "main", Check: "test"}}},
		key:    [32]byte(slices.Concat(binary.BigEndian.AppendUint64(nil, s.random.Uint64()), make([]byte, 24))),
		xml:    xml.Bytes(),
	}
}

// enter keeps an upload and enters it, and returns how long that took.
func (s *storage) enter(b *testing.B, u madeUpload) time.Duration {
	gone := func(error) bool { return false }
	began := time.Now()
	id, _, err := s.AddUpload(b.Context(), u.upload, u.key, u.xml)
	if err == nil {
		err = testreport.Ingest(b.Context(), s.DB, id, gone)
	}
	if err != nil {
		b.Error(err)
	}
	return time.Since(began)
}
