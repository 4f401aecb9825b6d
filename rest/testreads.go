package rest

import (
	"context"
	"fmt"
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
	// QuarantinedTests is a page of the quarantined tests of a repository,
	// those that were quarantined last first: take of them from the offset
	// on, and how many there are.
	QuarantinedTests(ctx context.Context, repo queue.RepoID, offset, take int) ([]flaky.TestCase, int, error)
	// TestDetails is a test of a repository with what happened to it of late.
	// ErrNotFound: the repository has no such test.
	TestDetails(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time) (flaky.TestDetails, error)
	// SetAutomatic switches automatic quarantine of a repository on or off.
	// What follows for its tests follows at once, and is the actor's doing.
	SetAutomatic(ctx context.Context, repo queue.RepoID, on bool, actor string, now time.Time) error
	// SetQuarantine stores a person's decision about a test, which its Check
	// has found to be complete, and returns what the test is then.
	// ErrNotFound: the repository has no such test.
	SetQuarantine(ctx context.Context, repo queue.RepoID, id uuid.UUID, o flaky.Override, now time.Time) (flaky.Quarantine, error)
	// TestHistory is the evidence about a test and all that changed, the
	// newest first. ErrNotFound: the repository has no such test.
	TestHistory(ctx context.Context, repo queue.RepoID, id uuid.UUID) ([]flaky.Proof, []flaky.Change, error)
	// TestUpload is an upload of a repository with what came of it.
	// ErrNotFound: the repository has no such upload.
	TestUpload(ctx context.Context, repo queue.RepoID, id int64) (flaky.UploadDetails, error)
}

// The longest slug and page token that are looked at.
const (
	maxSlug      = 255
	maxPageToken = 255
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
	if !strings.EqualFold(p.slug, c.org.Slug) {
		return queue.Repo{}, notFound(CodeOrganizationNotFound, "The organisation %s does not exist, or the token is not one of its own.", clip(p.slug))
	}
	repo, err := a.store.Repository(ctx, c.org.ID, p.host, p.owner, p.name)
	if err != nil {
		return repo, orNotFound(fmt.Errorf("find repository: %w", err),
			notFound(CodeRepositoryNotFound, "There is no repository %s in the organisation.", p.repo()))
	}
	return repo, nil
}

// quarantinedTest is a test in the list. No text of it is ever null.
type quarantinedTest struct {
	Name                string   `json:"name"`
	Parent              string   `json:"parent"`
	File                string   `json:"file"`
	Classname           string   `json:"classname"`
	Status              string   `json:"status"`
	Codeowners          []string `json:"codeowners"`
	QuarantinedAt       moment   `json:"quarantined_at"`
	QuarantineSetting   string   `json:"quarantine_setting"`
	StatusLastUpdatedAt moment   `json:"status_last_updated_at"`
	TestCaseID          string   `json:"test_case_id"`
	Variant             string   `json:"variant"`
}

// testPage says where a page is in its list. A token with nothing behind it is
// "".
type testPage struct {
	TotalRows     int    `json:"total_rows"`
	TotalPages    int    `json:"total_pages"`
	NextPageToken string `json:"next_page_token"`
	PrevPageToken string `json:"prev_page_token"`
	LastPageToken string `json:"last_page_token"`
	PageIndex     int    `json:"page_index"` // from 0
}

// testList is what makes a list of tests this one and no other.
type testList struct {
	List string
	Org  int64
	Repo queue.RepoID
	Size int64
}

// quarantinedPage is a page of the list.
type quarantinedPage struct {
	QuarantinedTests []quarantinedTest `json:"quarantined_tests"`
	Page             testPage          `json:"page"`
}

func (a *API) listQuarantinedTests(ctx context.Context, c *call) (any, error) {
	size, token := new(int64), ""
	*size = testPageSize
	_, repo, err := a.namedTests(ctx, c, optional("page_query", func(f *form, v value) {
		f.object(v, []field{optional("page_size", integerUpTo(&size, 1, testPageSize)), optional("page_token", anyText(&token))})
	}))
	if err != nil {
		return nil, err
	}
	list := testList{"list-quarantined-tests", c.org.ID, repo.ID, *size}
	key, err := a.cursorKey(ctx)
	if err != nil {
		return nil, err
	}
	offset, err := list.offset(key, token)
	if err != nil {
		return nil, err
	}
	tests, total, err := a.tests.QuarantinedTests(ctx, repo.ID, int(offset), int(*size))
	if err != nil {
		return nil, fmt.Errorf("list quarantined tests: %w", err)
	}
	out := quarantinedPage{QuarantinedTests: []quarantinedTest{}}
	for i := range tests {
		out.QuarantinedTests = append(out.QuarantinedTests, encodeQuarantined(&tests[i]))
	}
	out.Page, err = list.page(key, offset, int64(total))
	return out, err
}

// offset is where the page of a token begins; "" is the first.
func (l testList) offset(key []byte, token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	refused := invalidRequest("page_query.page_token must be a token of an answer to the same org_url_slug, repo and page_size.")
	if len(token) > maxPageToken {
		return 0, refused
	}
	offset, ok, err := readCursor(key, l, token)
	switch {
	case err != nil:
		return 0, err
	case !ok || offset < 0 || offset%l.Size != 0:
		return 0, refused
	}
	return offset, nil
}

// page says where the page that begins at an offset is in a list of so many.
func (l testList) page(key []byte, offset, total int64) (testPage, error) {
	pages := (total + l.Size - 1) / l.Size
	out := testPage{TotalRows: int(total), TotalPages: int(pages), PageIndex: int(offset / l.Size)}
	for _, t := range []struct {
		to *string
		at int64
		ok bool
	}{
		{&out.NextPageToken, offset + l.Size, offset+l.Size < total},
		{&out.PrevPageToken, min(offset-l.Size, max(pages-1, 0)*l.Size), offset > 0 && total > 0},
		{&out.LastPageToken, max(pages-1, 0) * l.Size, total > 0},
	} {
		if !t.ok {
			continue
		}
		var err error
		if *t.to, err = signCursor(key, l, t.at); err != nil {
			return out, err
		}
	}
	return out, nil
}

func encodeQuarantined(t *flaky.TestCase) quarantinedTest {
	setting := flaky.Auto
	if t.Override.Setting == flaky.Always {
		setting = flaky.Always
	}
	return quarantinedTest{
		Name: t.Name, Parent: t.Parent, File: t.File, Classname: t.Classname, Variant: t.Variant, Status: string(t.Status), Codeowners: list(t.Codeowners),
		QuarantinedAt: moment(t.QuarantinedAt), StatusLastUpdatedAt: moment(t.StatusAt), QuarantineSetting: string(setting), TestCaseID: t.ID.String(),
	}
}

// testDetails is a test with what happened to it of late.
type testDetails struct {
	ID         string `json:"id"`
	Repository linked `json:"repository"`
	HTMLURL    string `json:"html_url"`
	Name       string `json:"name"`
	Variant    string `json:"variant"`
	Parent     string `json:"parent"`
	Classname  string `json:"classname"`
	FilePath   string `json:"file_path"`
	Status     struct {
		Value      string `json:"value"`
		Reason     string `json:"reason"`
		ReasonCode string `json:"reason_code"`
		Timestamp  moment `json:"timestamp"`
	} `json:"status"`
	MostCommonFailures         []commonFailure `json:"most_common_failures"`
	FailureRateLast7d          float64         `json:"failure_rate_last_7d"`  // 0 to 1
	FailureRateLast24h         float64         `json:"failure_rate_last_24h"` // 0 to 1
	Codeowners                 []string        `json:"codeowners"`
	PullRequestsImpactedLast7d int             `json:"pull_requests_impacted_last_7d"`
	Quarantined                bool            `json:"quarantined"`
	Ticket                     *linked         `json:"ticket,omitempty"`
}

// linked is something that has a page.
type linked struct {
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
		given, ok := textIn(f, v, maxPageToken)
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

func (a *API) encodeDetails(d *flaky.TestDetails, repo queue.Repo) testDetails {
	out := testDetails{
		ID: d.ID.String(), Repository: linked{"https://" + repo.String()}, HTMLURL: a.baseURL + "/tests/" + d.ID.String(),
		Name: d.Name, Variant: d.Variant, Parent: d.Parent, Classname: d.Classname, FilePath: d.File, Codeowners: list(d.Codeowners),
		MostCommonFailures: []commonFailure{}, FailureRateLast7d: d.Week.Rate(), FailureRateLast24h: d.Day.Rate(),
		PullRequestsImpactedLast7d: d.PullRequests, Quarantined: !d.QuarantinedAt.IsZero(),
	}
	out.Status.Value, out.Status.Reason, out.Status.ReasonCode, out.Status.Timestamp = string(d.Status), d.StatusReason, string(d.StatusCode), moment(d.StatusAt)
	for _, f := range d.Failures {
		out.MostCommonFailures = append(out.MostCommonFailures, commonFailure{f.Summary, f.Count, moment(f.Last)})
	}
	if d.Ticket != "" {
		out.Ticket = &linked{d.Ticket}
	}
	return out
}
