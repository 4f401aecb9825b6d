package rest

import (
	"cmp"
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
	rules   flaky.Rules
	proofs  []flaky.Proof
	changes map[uuid.UUID][]flaky.Change
	runs    map[int64]flaky.Run
	kept    map[int64]*flaky.UploadDetails
	failed  map[uuid.UUID][]time.Time
	bundles map[uuid.UUID][32]byte // what was put, by the address
	public  string
}

func newTestMemory(now func() time.Time) *testMemory {
	return &testMemory{now: now, keys: map[[32]byte]int64{}, tests: map[uuid.UUID]*flaky.TestDetails{}, history: map[uuid.UUID]*flaky.History{},
		changes: map[uuid.UUID][]flaky.Change{}, runs: map[int64]flaky.Run{}, kept: map[int64]*flaky.UploadDetails{}, failed: map[uuid.UUID][]time.Time{}, bundles: map[uuid.UUID][32]byte{}}
}

func (m *testMemory) AddUpload(_ context.Context, u flaky.Upload, key [32]byte, _ []byte) (int64, bool, error) {
	if id, ok := m.keys[key]; ok {
		m.uploads++ // as on Postgres, a number is used up
		return id, false, nil
	}
	m.uploads++
	m.keys[key] = m.uploads
	u.ID = m.uploads
	m.kept[u.ID] = &flaky.UploadDetails{Upload: u}
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
			m.failed[s.ID] = append(m.failed[s.ID], u.Received)
			d.Week.Failures++
			d.Day.Failures++
			d.Failures = []flaky.Common{{Summary: s.Summary, Count: int64(d.Week.Failures), Last: u.Received}}
		}
	}
	m.runs[u.ID] = a.Run
	entered := flaky.Enter(a, m.history, nil, m.last)
	for _, e := range entered.Evidence {
		m.proofs = append(m.proofs, flaky.Proof{Evidence: e, Summary: m.tests[e.Test].Failures[0].Summary, FailedCommit: m.runs[e.FailedRun].Commit, PassedCommit: m.runs[e.PassedRun].Commit})
	}
	for _, id := range entered.Touched {
		m.judge(id, u.ID, now)
	}
	m.last = []flaky.Arrival{a}
	k := m.kept[u.ID]
	k.Entered, k.Kind, k.Complete, k.Tests, k.Failed, k.Skipped, k.Notes = now, flaky.Stable, read.Complete(), len(read.Tests), a.Run.Failed, read.Skipped(), read.Notes
	for _, s := range read.Tests {
		if s.Failed {
			f := flaky.UploadFailure{Test: s.Test, ID: s.ID, Summary: s.Summary, Passed: s.Passed}
			f.Excused, f.Code = m.rules.Decide(m.history[s.ID], m.tests[s.ID].Override, now).Excuses(m.history[s.ID], s.Fingerprint, now)
			k.Failures = append(k.Failures, f)
		}
	}
	return nil
}

func (m *testMemory) judge(id uuid.UUID, upload int64, now time.Time) {
	d, h := m.tests[id], m.history[id]
	if h != nil {
		before := d.Status
		j := h.Judge(now, d.Week)
		d.Status, d.StatusCode, d.StatusReason, d.Score = j.Status, j.Code, j.Reason(), j.Score
		if j.Changed {
			d.StatusAt = now
			m.changes[id] = append(m.changes[id], flaky.Change{At: now, What: "status", Before: string(before), After: string(j.Status), Code: string(j.Code), Reason: j.Reason(), Upload: upload, Score: j.Score})
		}
	}
	was := !d.QuarantinedAt.IsZero()
	q := m.rules.Decide(h, d.Override, now)
	if q.On != was {
		m.quarantine(d, q, now)
		m.changes[id] = append(m.changes[id], flaky.Change{At: now, What: "quarantine", Before: onOff[was], After: onOff[q.On], Code: string(q.Code), Reason: d.StatusReason, Upload: upload, Score: d.Score})
	}
}

var onOff = map[bool]string{true: "on", false: "off"}

func (m *testMemory) quarantine(d *flaky.TestDetails, q flaky.Quarantine, now time.Time) {
	switch {
	case !q.On:
		d.QuarantinedAt = time.Time{}
	case d.QuarantinedAt.IsZero():
		d.QuarantinedAt = now
	}
}

func (m *testMemory) SetAutomatic(_ context.Context, _ queue.RepoID, on bool, actor string, now time.Time) error {
	m.rules.Automatic = on
	for id := range m.tests {
		before := len(m.changes[id])
		m.judge(id, 0, now)
		for i := range m.changes[id][before:] {
			m.changes[id][before+i].Actor = actor
		}
	}
	return nil
}

func (m *testMemory) SetQuarantine(_ context.Context, _ queue.RepoID, id uuid.UUID, o flaky.Override, now time.Time) (flaky.Quarantine, error) {
	d := m.tests[id]
	if d == nil {
		return flaky.Quarantine{}, queue.ErrNotFound
	}
	was := !d.QuarantinedAt.IsZero()
	d.Override = o
	q := m.rules.Decide(m.history[id], o, now)
	m.quarantine(d, q, now)
	m.changes[id] = append(m.changes[id], flaky.Change{At: now, What: "quarantine", Before: onOff[was], After: onOff[q.On], Code: string(q.Code), Reason: o.Reason, Actor: o.Actor, Score: d.Score})
	return q, nil
}

func (m *testMemory) ListTests(_ context.Context, _ queue.RepoID, _ flaky.Filter, _ int) ([]flaky.TestCase, error) {
	var decided []flaky.TestCase
	for _, d := range m.tests {
		if d.Override.Setting != "" && d.Override.Setting != flaky.Auto {
			decided = append(decided, d.TestCase)
		}
	}
	slices.SortFunc(decided, func(a, b flaky.TestCase) int {
		return cmp.Or(b.StatusAt.Compare(a.StatusAt), int(b.Number-a.Number))
	})
	return decided, nil
}

func (m *testMemory) ImportOverrides(ctx context.Context, repo queue.RepoID, wanted []flaky.TestCase, now time.Time) (changed int, missing []int, err error) {
	for i, t := range wanted {
		d := m.tests[t.ID]
		for _, other := range m.tests {
			if d == nil && (other.Name == t.Name && other.File == t.File && other.Parent == t.Parent) {
				d = other
			}
		}
		if d == nil {
			missing = append(missing, i)
			continue
		}
		t.Override.Actor = d.Override.Actor
		if d.Override == t.Override {
			continue
		}
		t.Override.Actor = wanted[i].Override.Actor
		if _, err := m.SetQuarantine(ctx, repo, d.ID, t.Override, now); err != nil {
			return 0, nil, err
		}
		changed++
	}
	return changed, missing, nil
}

func (m *testMemory) TestHistory(_ context.Context, _ queue.RepoID, id uuid.UUID) ([]flaky.Proof, []flaky.Change, error) {
	if m.tests[id] == nil {
		return nil, nil, queue.ErrNotFound
	}
	var proofs []flaky.Proof
	for _, p := range slices.Backward(m.proofs) {
		if p.Test == id {
			proofs = append(proofs, p)
		}
	}
	changes := slices.Clone(m.changes[id])
	slices.Reverse(changes)
	return proofs, changes, nil
}

func (m *testMemory) TestUpload(_ context.Context, _ queue.RepoID, id int64) (flaky.UploadDetails, error) {
	if k := m.kept[id]; k != nil {
		return *k, nil
	}
	return flaky.UploadDetails{}, queue.ErrNotFound
}

func (m *testMemory) TestPage(_ context.Context, _ queue.RepoID, only flaky.Selection, offset, take int, _ time.Time) ([]flaky.TestCase, int, error) {
	var all []flaky.TestCase
	for _, d := range m.tests {
		failed := slices.ContainsFunc(m.failed[d.ID], func(at time.Time) bool { return !at.Before(only.FailedFrom) && at.Before(only.FailedTo) })
		shown := map[flaky.Show]bool{flaky.ShowQuarantined: !d.QuarantinedAt.IsZero(), flaky.ShowFlaky: d.Status == flaky.Flaky, flaky.ShowBroken: d.Status == flaky.Broken, flaky.ShowAll: failed}
		if shown[only.Show] {
			all = append(all, d.TestCase)
		}
	}
	slices.SortFunc(all, func(a, b flaky.TestCase) int {
		if only.Show == flaky.ShowQuarantined {
			return cmp.Or(b.QuarantinedAt.Compare(a.QuarantinedAt), int(b.Number-a.Number))
		}
		return cmp.Or(b.StatusAt.Compare(a.StatusAt), int(b.Number-a.Number))
	})
	return all[min(offset, len(all)):min(offset+take, len(all))], len(all), nil
}

func (m *testMemory) AddBundle(ctx context.Context, address uuid.UUID, u flaky.Upload, content [32]byte, body []byte) (int64, bool, error) {
	var key [32]byte
	copy(key[:], address[:])
	if known, ok := m.bundles[address]; ok {
		if known != content {
			return 0, false, queue.ErrExists
		}
		return m.keys[key], false, nil
	}
	m.bundles[address] = content
	return m.AddUpload(ctx, u, key, body)
}

func (m *testMemory) QuarantineOn(ctx context.Context, repo queue.RepoID) (bool, error) {
	all, err := m.AllQuarantined(ctx, repo, m.now())
	return m.rules.Automatic || len(all) > 0, err
}

func (m *testMemory) AllQuarantined(context.Context, queue.RepoID, time.Time) ([]string, error) {
	var ids []string
	for id, d := range m.tests {
		if !d.QuarantinedAt.IsZero() {
			ids = append(ids, id.String())
		}
	}
	return ids, nil
}

func (m *testMemory) Excused(_ context.Context, _ queue.RepoID, asked []flaky.AskedFailure, now time.Time) ([]bool, error) {
	excused := make([]bool, len(asked))
	for i, a := range asked {
		for _, id := range a.Tests {
			if d := m.tests[id]; d != nil && !d.QuarantinedAt.IsZero() {
				excused[i] = d.Override.Setting == flaky.Always || a.Text == "" || m.history[id].KnowsText(a.Text, nil, now)
			}
		}
	}
	return excused, nil
}

func (m *testMemory) PublicRepository(_ context.Context, public string) (queue.Repo, string, error) {
	if public == "" || public != m.public {
		return queue.Repo{}, "", queue.ErrNotFound
	}
	return queue.Repo{ID: 1, Host: testHost, Owner: "acme", Name: "app"}, "acme", nil
}

func (m *testMemory) SetPublicUploads(_ context.Context, _ queue.RepoID, on bool) (string, error) {
	switch {
	case !on:
		m.public = ""
	case m.public == "":
		m.public = "a1b2c3d4"
	}
	return m.public, nil
}

func (m *testMemory) LinkTicket(_ context.Context, _ queue.RepoID, id uuid.UUID, ticket, link string) error {
	if m.tests[id] == nil {
		return queue.ErrNotFound
	}
	m.tests[id].TicketID, m.tests[id].Ticket = ticket, link
	return nil
}

func (m *testMemory) ListUploads(_ context.Context, _ queue.RepoID, below int64, troubled bool, take int) ([]flaky.UploadDetails, error) {
	var all []flaky.UploadDetails
	for id := m.uploads; id > 0 && len(all) < take; id-- {
		d := m.kept[id]
		if d != nil && (below == 0 || id < below) && (!troubled || !d.Entered.IsZero() && (!d.Complete || len(d.Notes) > 0)) {
			shown := *d
			shown.Failures = nil
			all = append(all, shown)
		}
	}
	return all, nil
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
