package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
	"signalbox/queue"
)

// testMemory is a TestStore without a database. It enters runs of main as the
// real one does, by the rules of package flaky, and keeps what the API shows.
type testMemory struct {
	now     func() time.Time
	keys    map[[32]byte]int64
	tests   map[uuid.UUID]*flaky.TestDetails
	history map[uuid.UUID]*flaky.History
	last    []flaky.Arrival
	uploads int64
}

func newTestMemory(now func() time.Time) *testMemory {
	return &testMemory{now: now, keys: map[[32]byte]int64{}, tests: map[uuid.UUID]*flaky.TestDetails{}, history: map[uuid.UUID]*flaky.History{}}
}

func (m *testMemory) AddUpload(_ context.Context, _ flaky.Upload, key [32]byte, _ []byte) (int64, bool, error) {
	if id, ok := m.keys[key]; ok {
		return id, false, nil
	}
	m.uploads++
	m.keys[key] = m.uploads
	return m.uploads, true, nil
}

func (m *testMemory) EnterUpload(_ context.Context, u flaky.Upload, read flaky.Read) error {
	now := m.now().UTC().Truncate(time.Microsecond)
	ran := map[uuid.UUID]flaky.Seen{}
	a := flaky.Arrival{Run: flaky.Run{ID: u.ID, At: u.Received, Kind: flaky.Stable, Branch: u.Branch, Commit: u.Commit, Trusted: true, Tests: len(read.Tests)}}
	a.Passed = func(id uuid.UUID) bool { s, ok := ran[id]; return ok && !s.Failed }
	for _, s := range read.Tests {
		ran[s.ID] = s
		if m.tests[s.ID] == nil {
			m.tests[s.ID] = &flaky.TestDetails{TestCase: flaky.TestCase{Test: s.Test, Number: int64(len(m.tests) + 1), ID: s.ID, Status: flaky.Healthy, StatusAt: u.Received, StatusCode: flaky.NoEvidence}}
		}
		d := m.tests[s.ID]
		d.Week.Runs++
		d.Day.Runs++
		if s.Failed {
			a.Run.Failed++
			a.Failures = append(a.Failures, s.Result)
			d.Week.Failures++
			d.Day.Failures++
			d.Failures = []flaky.Common{{Summary: s.Summary, Count: int64(d.Week.Failures), Last: u.Received}}
		}
	}
	for _, id := range flaky.Enter(a, m.history, nil, m.last).Touched {
		d, h := m.tests[id], m.history[id]
		j := h.Judge(now, d.Week)
		if j.Changed {
			d.StatusAt = now
		}
		d.Status, d.StatusCode, d.StatusReason = j.Status, j.Code, j.Reason()
		if (flaky.Rules{Automatic: true}).Decide(h, flaky.Override{}, now).On && d.QuarantinedAt.IsZero() {
			d.QuarantinedAt = now
		}
	}
	m.last = []flaky.Arrival{a}
	return nil
}

func (m *testMemory) QuarantinedTests(_ context.Context, _ queue.RepoID, offset, take int) ([]flaky.TestCase, int, error) {
	var all []flaky.TestCase
	for _, d := range m.tests {
		if !d.QuarantinedAt.IsZero() {
			all = append(all, d.TestCase)
		}
	}
	slices.SortFunc(all, func(a, b flaky.TestCase) int {
		if c := b.QuarantinedAt.Compare(a.QuarantinedAt); c != 0 {
			return c
		}
		return int(b.Number - a.Number)
	})
	return all[min(offset, len(all)):min(offset+take, len(all))], len(all), nil
}

func (m *testMemory) TestDetails(_ context.Context, _ queue.RepoID, id uuid.UUID, _ time.Time) (flaky.TestDetails, error) {
	if d := m.tests[id]; d != nil {
		return *d, nil
	}
	return flaky.TestDetails{}, queue.ErrNotFound
}

// scriptTests is a TestStore with the way in for reports that were read.
type scriptTests interface {
	TestStore
	EnterUpload(ctx context.Context, u flaky.Upload, read flaky.Read) error
}

// runTests is a run of main now, of a commit of its own: "a" passed, "a~"
// failed and passed when it was tried again.
func (w *world) runTests(names []string) {
	w.t.Helper()
	repo, err := w.store.Repository(context.Background(), 1, testHost, "acme", "app")
	if err != nil {
		w.t.Fatal(err)
	}
	w.commits++
	u := flaky.Upload{Repository: int64(repo.ID), Org: "acme", Repo: repo.String(), Received: w.clock.now().UTC().Truncate(time.Microsecond),
		Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: fmt.Sprintf("%040d", w.commits), Branch: "main"}}}
	if u.ID, _, err = w.tests.AddUpload(context.Background(), u, [32]byte{byte(w.commits)}, []byte("report")); err != nil {
		w.t.Fatal(err)
	}
	var read flaky.Read
	for _, name := range names {
		name, failed := strings.CutSuffix(name, "~")
		if name == "" {
			continue
		}
		test := flaky.Test{Org: "acme", Repo: repo.String(), Name: name, File: name + "_test.go", Parent: "shop"}
		s := flaky.Seen{Test: test, ID: test.ID(), Result: flaky.Result{Test: test.ID(), Failed: failed, Passed: true}}
		if failed {
			s.Failure = flaky.Failure{Message: "no answer after 3s"}
			s.Fingerprint, s.Summary = flaky.Describe(s.Failure)
		}
		read.Tests = append(read.Tests, s)
	}
	if err := w.tests.EnterUpload(context.Background(), u, read); err != nil {
		w.t.Fatal(err)
	}
}
