package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// The tests of the repository: one is flaky and quarantined, one was
// quarantined by a person, one is broken, one is suspected, and one is well. All
// that a report says is hostile.

// tests are what the world knows of tests.
type tests struct {
	cases     []flaky.TestCase
	uploads   []flaky.UploadDetails
	automatic bool
	overrides []flaky.Override // that were set
	switched  []string         // who switched automatic quarantine, and how
	created   []string         // queues that were made
}

func testNumber(n int64) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("06cb6db5-f807-5198-b072-%012d", n))
}

func newTests() tests {
	who := func(name string) flaky.Test {
		return flaky.Test{Name: name, File: "shop/cart_test.go", Parent: "shop", Classname: "Cart", Variant: "linux"}
	}
	evil := flaky.Test{Name: hostile, File: hostile, Parent: hostile, Classname: hostile, Variant: hostile}
	ago := func(d int) time.Time { return noon.AddDate(0, 0, -d) }
	five := 5
	return tests{automatic: true, cases: []flaky.TestCase{
		{Test: evil, Number: 1, ID: testNumber(1), Codeowners: []string{"@acme/shop", hostile}, Status: flaky.Flaky, StatusAt: ago(2), StatusCode: flaky.EvidenceFound,
			StatusReason: "It failed without being broken: its score is 8.0 from 3 half days of the last 14 days, and 5 makes a test flaky.", Score: 8, QuarantinedAt: ago(1), Ticket: "javascript:alert(1)"},
		{Test: who("pays twice"), Number: 2, ID: testNumber(2), Status: flaky.Healthy, StatusAt: ago(3), QuarantinedAt: ago(3),
			Override: flaky.Override{Setting: flaky.Always, Owner: "@ann " + hostile, Reason: hostile, Expires: noon.AddDate(0, 0, 9), Actor: "@ann"}},
		{Test: who("finds the cart"), Number: 3, ID: testNumber(3), Codeowners: []string{"@ann"}, Status: flaky.Broken, StatusAt: ago(4), StatusCode: flaky.AlwaysFails, StatusReason: "The last 3 runs all failed."},
		{Test: who("adds up"), Number: 4, ID: testNumber(4), Status: flaky.Healthy, StatusAt: ago(5), Suspected: true, Score: 3},
		{Test: who("greets"), Number: 5, ID: testNumber(5), Status: flaky.Healthy, StatusAt: ago(6)},
	}, uploads: []flaky.UploadDetails{
		{Upload: flaky.Upload{ID: 14, Received: noon.Add(-time.Second)}},
		{Upload: flaky.Upload{ID: 13, Received: noon.Add(-time.Hour), Sent: flaky.Sent{Trusted: true, ExitCode: &five, Variant: hostile, Facts: flaky.Facts{
			Branch: hostile, Commit: sha("c"), Check: hostile, Job: hostile, CI: hostile, Link: "javascript:alert(1)", Attempt: 2}}},
			Entered: noon, Kind: flaky.Queue, Tests: 120, Failed: 2, Skipped: 3,
			Notes: []flaky.Note{{Code: "TRUNCATED", Count: 1, Text: "The report is cut off. " + hostile, Incomplete: true}, {Code: "NAMELESS_CASES", Count: 2, Text: "2 tests have no name and are left out."}},
			Failures: []flaky.UploadFailure{
				{Test: evil, ID: testNumber(1), Summary: hostile, Code: flaky.NewFailure},
				{Test: who("adds up"), ID: testNumber(4), Passed: true, Code: flaky.NotFlaky},
			}},
		{Upload: flaky.Upload{ID: 12, Received: ago(1), Sent: flaky.Sent{Facts: flaky.Facts{Fork: true, Pull: 7}}}, Entered: noon, Kind: flaky.PullRequest, Complete: true, Tests: 9},
	}}
}

func (w *world) CountUnhealthyTests(context.Context) (map[queue.RepoID]int, error) {
	return map[queue.RepoID]int{1: 2}, w.broken
}

func (w *world) CountTests(_ context.Context, repo queue.RepoID) (flaky.Counts, error) {
	if repo != 1 {
		return flaky.Counts{}, w.broken
	}
	return flaky.Counts{Notable: 4, Flaky: 1, Broken: 1, Suspected: 1, Quarantined: 2, Decided: 1, Automatic: w.tests.automatic, LastUpload: noon.Add(-time.Minute)}, w.broken
}

func (w *world) ListTests(_ context.Context, repo queue.RepoID, f flaky.Filter, take int) ([]flaky.TestCase, error) {
	var list []flaky.TestCase
	for _, t := range w.tests.cases {
		switch {
		case repo != 1, f.Show == flaky.ShowFlaky && t.Status != flaky.Flaky, f.Show != flaky.ShowAll && t.Number >= 5,
			!strings.Contains(t.Name, f.Text), f.Owner != "" && !strings.Contains(strings.Join(t.Codeowners, " "), f.Owner),
			!f.After.At.IsZero() && !t.StatusAt.Before(f.After.At):
		default:
			list = append(list, t)
		}
	}
	return list[:min(take, len(list))], w.broken
}

// TestDays are two weeks of which one day had failures.
func (w *world) TestDays(_ context.Context, _ queue.RepoID, numbers []int64, _, _ time.Time) (map[int64][]flaky.DayTally, error) {
	days := map[int64][]flaky.DayTally{}
	for _, n := range numbers {
		for d := 13; d >= 0; d-- {
			t := flaky.Tally{Runs: 10}
			if d == 3 && n <= 4 {
				t.Failures = 2
			}
			days[n] = append(days[n], flaky.DayTally{Day: noon.Truncate(24*time.Hour).AddDate(0, 0, -d), Tally: t})
		}
	}
	return days, w.broken
}

func (w *world) find(repo queue.RepoID, id uuid.UUID) (flaky.TestCase, error) {
	for _, t := range w.tests.cases {
		if repo == 1 && t.ID == id {
			return t, w.broken
		}
	}
	return flaky.TestCase{}, queue.ErrNotFound
}

func (w *world) TestDetails(_ context.Context, repo queue.RepoID, id uuid.UUID, _ time.Time) (flaky.TestDetails, error) {
	t, err := w.find(repo, id)
	t.PullRequests = 2
	return flaky.TestDetails{TestCase: t, Week: flaky.Tally{Runs: 400, Failures: 2}}, err
}

func (w *world) TestHistory(_ context.Context, repo queue.RepoID, id uuid.UUID) ([]flaky.Proof, []flaky.Change, error) {
	t, err := w.find(repo, id)
	if t.Number != 1 {
		return nil, nil, err
	}
	return []flaky.Proof{
			{Evidence: flaky.Evidence{Kind: flaky.SameCode, At: noon.AddDate(0, 0, -1), FailedRun: 9, PassedRun: 9}, Summary: hostile, FailedCommit: hostile, FailedLink: "javascript:alert(1)"},
			{Evidence: flaky.Evidence{Kind: flaky.DistinctPullRequest, At: noon.AddDate(0, 0, -2), FailedRun: 7, PullRequest: 12}},
			{Evidence: flaky.Evidence{Kind: flaky.LoneFailure, At: noon.AddDate(0, 0, -3), FailedRun: 5, PassedRun: 6}, FailedCommit: sha("a"), PassedCommit: sha("b"), PassedLink: "https://ci.example/6"},
		}, []flaky.Change{
			{At: noon.AddDate(0, 0, -1), What: "quarantine", Before: "off", After: "on", Code: "AUTOMATIC", Reason: "Enough. " + hostile, Actor: hostile, Upload: 9, Score: 8},
			{At: noon.AddDate(0, 0, -2), What: "status", Before: "HEALTHY", After: "FLAKY", Code: "EVIDENCE_FOUND", Reason: "It failed without being broken.", Upload: 7, Score: 5},
		}, err
}

func (w *world) FailureKinds(_ context.Context, repo queue.RepoID, id uuid.UUID, _ time.Time, _ int) ([]flaky.FailureKind, error) {
	t, err := w.find(repo, id)
	if t.Number != 1 {
		return nil, err
	}
	return []flaky.FailureKind{
		{Fingerprint: 1, Common: flaky.Common{Summary: hostile, Count: 7, Last: noon.Add(-time.Hour)}, Known: true},
		{Fingerprint: 2, Common: flaky.Common{Count: 1, Last: noon.Add(-24 * time.Hour)}},
	}, err
}

func (w *world) TestFailures(_ context.Context, repo queue.RepoID, id uuid.UUID, _ int) ([]flaky.Occurrence, error) {
	t, err := w.find(repo, id)
	if t.Number != 1 {
		return nil, err
	}
	return []flaky.Occurrence{
		{Failure: flaky.Failure{Type: "Timeout", Message: hostile, Text: "at line 12\n" + hostile}, Summary: hostile, Fingerprint: 1, Upload: 13, At: noon.Add(-time.Hour), Excused: true,
			Code: flaky.KnownFailure, Kind: flaky.Queue, Branch: "release/1.2", Commit: sha("c"), PullRequests: []int{11, 12}, Check: "unit", Link: "javascript:alert(1)"},
		{Summary: "", Fingerprint: 2, Upload: 12, At: noon.Add(-24 * time.Hour), Passed: true, Ambiguous: true, Kind: flaky.PullRequest, PullRequests: []int{7}},
		{Summary: "gone", Upload: 3, At: noon.AddDate(0, 0, -40), Code: "A_NEW_CODE"},
	}, err
}

func (w *world) SetQuarantine(_ context.Context, repo queue.RepoID, id uuid.UUID, o flaky.Override, _ time.Time) (flaky.Quarantine, error) {
	if _, err := w.find(repo, id); err != nil {
		return flaky.Quarantine{}, err
	}
	w.tests.overrides = append(w.tests.overrides, o)
	return flaky.Quarantine{}, w.broken
}

// changed reports whether somebody has decided anything.
func (t *tests) changed() bool { return len(t.overrides)+len(t.switched)+len(t.created) > 0 }

func (w *world) SetAutomatic(_ context.Context, _ queue.RepoID, on bool, actor string, _ time.Time) error {
	w.tests.switched = append(w.tests.switched, fmt.Sprint(actor, " ", on))
	return w.broken
}

func (w *world) ListUploads(_ context.Context, repo queue.RepoID, below int64, troubled bool, take int) ([]flaky.UploadDetails, error) {
	var list []flaky.UploadDetails
	for _, u := range w.tests.uploads {
		if repo == 1 && (below == 0 || u.ID < below) && (!troubled || len(u.Notes) > 0) {
			list = append(list, u)
		}
	}
	return list[:min(take, len(list))], w.broken
}

func (w *world) TestUpload(_ context.Context, repo queue.RepoID, id int64) (flaky.UploadDetails, error) {
	for _, u := range w.tests.uploads {
		if repo == 1 && u.ID == id {
			return u, w.broken
		}
	}
	return flaky.UploadDetails{}, queue.ErrNotFound
}

// bare is the repository without a queue.
var bare = queue.Repo{ID: 4, Host: "github.com", Owner: "acme", Name: "bare"}

func (w *world) WithoutQueue(_ context.Context, text string, take int) ([]queue.Repo, error) {
	repos := []queue.Repo{w.bare}
	if !strings.Contains(w.bare.Name, text) {
		repos = nil
	}
	return repos[:min(take, len(repos))], w.broken
}

func (w *world) RepositoryNamed(_ context.Context, host, owner, name string) (queue.Repo, error) {
	all := []queue.Repo{w.bare}
	for _, q := range w.queues {
		all = append(all, q.Repo)
	}
	for _, r := range all {
		if r.Host == host && strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) {
			return r, w.broken
		}
	}
	return queue.Repo{}, queue.ErrNotFound
}

func (w *world) Places(_ context.Context, repos []queue.RepoID) (map[queue.RepoID]account.Place, error) {
	places := map[queue.RepoID]account.Place{}
	for _, r := range repos {
		places[r] = account.Place{Org: "acme", DefaultBranch: "trunk"}
	}
	return places, w.broken
}

func (w *world) CreateQueue(ctx context.Context, org int64, host, owner, name, branch string, s queue.Settings, _ time.Time) (queue.Queue, error) {
	if branch == "taken" {
		return queue.Queue{}, queue.ErrExists
	}
	w.tests.created = append(w.tests.created, fmt.Sprintf("%s of %s/%s/%s in %d by %s, %s", branch, host, owner, name, org, account.AuthorOf(ctx), s.MergeMethod))
	return queue.Queue{Repo: w.bare, Branch: branch}, w.broken
}
