package rest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
	"signalbox/queue"
)

// TestStore is what the API needs of what is known of tests.
type TestStore interface {
	// AddUpload keeps a report until it is read, and asks for its reading.
	// key is made of its content, its job and the attempt: the same again
	// changes nothing, and fresh is false.
	AddUpload(ctx context.Context, u flaky.Upload, key [32]byte, body []byte) (id int64, fresh bool, err error)
	// TestPage is a part of the tests of a repository that are selected: take
	// of them from the offset on, and how many there are. Those come first
	// whose state changed last; of quarantined tests, those that were
	// quarantined last.
	TestPage(ctx context.Context, repo queue.RepoID, s flaky.Selection, offset, take int, now time.Time) ([]flaky.TestCase, int, error)
	// LinkTicket notes where somebody keeps track of a test's repair: what
	// its tracker calls the ticket, and the address, which may be unknown
	// (""). ErrNotFound: the repository has no such test.
	LinkTicket(ctx context.Context, repo queue.RepoID, id uuid.UUID, ticket, link string) error
	// TestDetails is a test of a repository with what happened to it of late.
	// ErrNotFound: the repository has no such test.
	TestDetails(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time) (flaky.TestDetails, error)
	// AddBundle keeps the bundle that was put at an address, and asks for its
	// reading. The same again changes nothing, and fresh is false. ErrExists:
	// something else was put there. ErrNotFound: the repository is gone.
	AddBundle(ctx context.Context, address uuid.UUID, u flaky.Upload, content [32]byte, body []byte) (id int64, fresh bool, err error)
	// QuarantineOn reports whether failures of tests may be excused in a
	// repository.
	QuarantineOn(ctx context.Context, repo queue.RepoID) (bool, error)
	// AllQuarantined are the ids of all quarantined tests.
	AllQuarantined(ctx context.Context, repo queue.RepoID, now time.Time) ([]string, error)
	// Excused says of each failure whether it is excused.
	Excused(ctx context.Context, repo queue.RepoID, asked []flaky.AskedFailure, now time.Time) ([]bool, error)
	// PublicRepository is the repository that lets everybody upload under an
	// id, and its organisation's slug. ErrNotFound: none does.
	PublicRepository(ctx context.Context, public string) (repo queue.Repo, slug string, err error)
	// SetPublicUploads says whether everybody may upload test results of a
	// repository, and under which id, "" if they may not. It stays the same
	// until it is switched off.
	SetPublicUploads(ctx context.Context, repo queue.RepoID, on bool) (public string, err error)
	// SetAutomatic switches automatic quarantine of a repository on or off.
	// What follows for its tests follows at once, and is the actor's doing.
	SetAutomatic(ctx context.Context, repo queue.RepoID, on bool, actor string, now time.Time) error
	// SetQuarantine stores a person's decision about a test, which its Check
	// has found to be complete, and returns what the test is then.
	// ErrNotFound: the repository has no such test.
	SetQuarantine(ctx context.Context, repo queue.RepoID, id uuid.UUID, o flaky.Override, now time.Time) (flaky.Quarantine, error)
	// ListTests lists tests of a repository, the one whose state changed last
	// first, take at most.
	ListTests(ctx context.Context, repo queue.RepoID, f flaky.Filter, take int) ([]flaky.TestCase, error)
	// ImportOverrides stores what people decided about tests, each of which
	// its Check has found to be complete, all in one step. A test is found by
	// its id or else by its names. missing are the places in the list of
	// those that the repository does not have, and changed is how many
	// decisions are others than before.
	ImportOverrides(ctx context.Context, repo queue.RepoID, wanted []flaky.TestCase, now time.Time) (changed int, missing []int, err error)
	// TestHistory is the evidence about a test and all that changed, the
	// newest first. ErrNotFound: the repository has no such test.
	TestHistory(ctx context.Context, repo queue.RepoID, id uuid.UUID) ([]flaky.Proof, []flaky.Change, error)
	// TestUpload is an upload of a repository with what came of it.
	// ErrNotFound: the repository has no such upload.
	TestUpload(ctx context.Context, repo queue.RepoID, id int64) (flaky.UploadDetails, error)
	// ListUploads lists the uploads of a repository without their failures,
	// the newest first, take at most: those with a smaller number than below
	// unless that is 0, and only those that something was wrong with if
	// troubled is set.
	ListUploads(ctx context.Context, repo queue.RepoID, below int64, troubled bool, take int) ([]flaky.UploadDetails, error)
}

// The longest slug and the longest id or other word that are looked at, and the
// size of a page.
const (
	maxSlug      = 255
	maxWord      = 255
	testPageSize = 100 // the default, and the most
)

// testPlace is the repository of which the tests are meant.
type testPlace struct {
	place
	slug string
}

// fields are the two that every request about tests begins with.
func (p *testPlace) fields() []field {
	return []field{p.repoField(), required("org_url_slug", text(&p.slug, maxSlug))}
}

// namedTests reads a request about tests, and finds the repository that has them.
func (a *API) namedTests(ctx context.Context, c *call, more ...field) (p testPlace, repo queue.Repo, err error) {
	if err = decode(c.body, append(p.fields(), more...)...); err == nil {
		repo, err = a.repository(ctx, c, &p)
	}
	return p, repo, err
}

// repository finds the repository of a request about tests. The slug of another
// organisation is not found, as is whatever belongs to it.
func (a *API) repository(ctx context.Context, c *call, p *testPlace) (queue.Repo, error) {
	p.host = a.host(p.host)
	if c.anonymous() {
		return a.publicRepository(ctx, c, p)
	}
	if !strings.EqualFold(p.slug, c.org.Slug) {
		return queue.Repo{}, notFound(CodeOrganizationNotFound, "The organisation %s does not exist, or the token is not one of its own.", clip(p.slug))
	}
	return a.findRepository(ctx, c, p.place)
}

// testDetails is a test with what happened to it of late.
type testDetails struct {
	testShown
	MostCommonFailures []commonFailure `json:"most_common_failures"`
	FailureRateLast7d  float64         `json:"failure_rate_last_7d"`  // 0 to 1
	FailureRateLast24h float64         `json:"failure_rate_last_24h"` // 0 to 1
}

// testShown is what every answer says of a test. No text of it is ever null.
type testShown struct {
	ID         string `json:"id"`
	Repository linked `json:"repository"`
	HTMLURL    string `json:"html_url"`
	Name       string `json:"name"`
	Variant    string `json:"variant"`
	Parent     string `json:"parent"`
	Classname  string `json:"classname"`
	FilePath   string `json:"file_path"`
	Status     struct {
		Value      string `json:"value"` // healthy, flaky or broken
		Reason     string `json:"reason"`
		ReasonCode string `json:"reason_code"`
		Timestamp  moment `json:"timestamp"`
	} `json:"status"`
	Codeowners                 []string `json:"codeowners"`
	PullRequestsImpactedLast7d int      `json:"pull_requests_impacted_last_7d"`
	Quarantined                bool     `json:"quarantined"`
	Ticket                     *ticket  `json:"ticket,omitempty"`
}

// linked is something that has a page.
type linked struct {
	HTMLURL string `json:"html_url"`
}

// ticket is where somebody keeps track of a test's repair.
type ticket struct {
	ID      string `json:"id"`
	HTMLURL string `json:"html_url"`
}

type commonFailure struct {
	Summary         string `json:"summary"`
	OccurrenceCount int64  `json:"occurrence_count"`
	LastOccurrence  moment `json:"last_occurrence"`
}

func (a *API) getTestDetails(ctx context.Context, c *call) (any, error) {
	var id uuid.UUID
	p, repo, err := a.namedTests(ctx, c, required("test_id", testCaseID(&id)))
	if err != nil {
		return nil, err
	}
	d, err := a.tests.TestDetails(ctx, repo.ID, id, c.now)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("read test: %w", err), notFound(CodeTestNotFound, "There is no test %s in %s.", id, p.repo()))
	}
	return struct {
		Test testDetails `json:"test"`
	}{a.encodeDetails(&d, repo)}, nil
}

// testCaseID reads the id of a test: a UUID as it is usually written.
func testCaseID(to *uuid.UUID) func(*form, value) {
	return func(f *form, v value) {
		given, ok := textIn(f, v, maxWord)
		if !ok {
			return
		}
		id, err := uuid.Parse(given)
		if err != nil || len(given) != len(id.String()) {
			f.refuse(v, "must be a UUID")
			return
		}
		*to = id
	}
}

// testPage is the address of the page of a test.
func (a *API) testPage(repo queue.Repo, id uuid.UUID) string {
	return a.baseURL + "/q/" + url.PathEscape(repo.Host) + "/" + url.PathEscape(repo.Owner) + "/" + url.PathEscape(repo.Name) + "/tests/" + id.String()
}

func (a *API) encodeDetails(d *flaky.TestDetails, repo queue.Repo) testDetails {
	out := testDetails{testShown: a.encodeTest(&d.TestCase, repo), MostCommonFailures: []commonFailure{}, FailureRateLast7d: d.Week.Rate(), FailureRateLast24h: d.Day.Rate()}
	for _, f := range d.Failures {
		out.MostCommonFailures = append(out.MostCommonFailures, commonFailure{f.Summary, f.Count, moment(f.Last)})
	}
	return out
}

func (a *API) encodeTest(t *flaky.TestCase, repo queue.Repo) testShown {
	out := testShown{
		ID: t.ID.String(), Repository: linked{"https://" + repo.String()}, HTMLURL: a.testPage(repo, t.ID),
		Name: t.Name, Variant: t.Variant, Parent: t.Parent, Classname: t.Classname, FilePath: t.File, Codeowners: list(t.Codeowners),
		PullRequestsImpactedLast7d: t.PullRequests, Quarantined: !t.QuarantinedAt.IsZero(),
	}
	out.Status.Value, out.Status.Reason, out.Status.ReasonCode, out.Status.Timestamp = lower(string(t.Status)), t.StatusReason, string(t.StatusCode), moment(t.StatusAt)
	if t.TicketID != "" {
		out.Ticket = &ticket{t.TicketID, t.Ticket}
	}
	return out
}
