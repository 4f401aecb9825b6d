package rest

import (
	"context"
	"fmt"
	"time"

	"signalbox/flaky"
	"signalbox/queue"
)

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
	Only flaky.Selection
}

// quarantinedPage is a page of the list.
type quarantinedPage struct {
	QuarantinedTests []quarantinedTest `json:"quarantined_tests"`
	Page             testPage          `json:"page"`
}

// listQuery is a request for a page of a list of tests.
type listQuery struct {
	testPlace
	size  *int64
	token string
}

// decode reads the request, and what else it may have.
func (q *listQuery) decode(c *call, more ...field) error {
	q.size = new(int64)
	*q.size = testPageSize
	page := optional("page_query", func(f *form, v value) {
		f.object(v, []field{optional("page_size", integerUpTo(&q.size, 1, testPageSize)), optional("page_token", anyText(&q.token))})
	})
	return decode(c.body, append(append(q.fields(), page), more...)...)
}

func (a *API) listQuarantinedTests(ctx context.Context, c *call) (any, error) {
	var q listQuery
	if err := q.decode(c); err != nil {
		return nil, err
	}
	out := quarantinedPage{QuarantinedTests: []quarantinedTest{}}
	var err error
	out.Page, err = a.listTests(ctx, c, &q, "list-quarantined-tests", flaky.Selection{Show: flaky.ShowQuarantined},
		func(t *flaky.TestCase, _ queue.Repo) {
			out.QuarantinedTests = append(out.QuarantinedTests, encodeQuarantined(t))
		})
	return out, err
}

// testsPage is a page of another list of tests.
type testsPage struct {
	Tests []testShown `json:"tests"`
	Page  testPage    `json:"page"`
}

func (a *API) listUnhealthyTests(ctx context.Context, c *call) (any, error) {
	var q listQuery
	var show *flaky.Show
	if err := q.decode(c, required("status", oneOf(&show, flaky.ShowFlaky, flaky.ShowBroken))); err != nil {
		return nil, err
	}
	return a.shownTests(ctx, c, &q, "list-unhealthy-tests", flaky.Selection{Show: *show})
}

// longestRange is the longest time of which failing tests are listed.
const longestRange = 7 * 24 * time.Hour

// listFailingTests lists tests that failed in a time, each once.
func (a *API) listFailingTests(ctx context.Context, c *call) (any, error) {
	var q listQuery
	var from, to *time.Time
	if err := q.decode(c, required("start_time", instant(&from)), required("end_time", instant(&to))); err != nil {
		return nil, err
	}
	switch took := to.Sub(*from); {
	case took <= 0:
		return nil, invalidRequest("end_time must be after start_time.")
	case took > longestRange:
		return nil, invalidRequest("end_time must be within 7 days of start_time.")
	}
	return a.shownTests(ctx, c, &q, "list-failing-tests", flaky.Selection{Show: flaky.ShowAll, FailedFrom: *from, FailedTo: *to})
}

// shownTests answers with a page of tests.
func (a *API) shownTests(ctx context.Context, c *call, q *listQuery, name string, only flaky.Selection) (any, error) {
	out := testsPage{Tests: []testShown{}}
	var err error
	out.Page, err = a.listTests(ctx, c, q, name, only,
		func(t *flaky.TestCase, repo queue.Repo) { out.Tests = append(out.Tests, a.encodeTest(t, repo)) })
	return out, err
}

// listTests shows each test of the page that is asked for, and says where the
// page is.
func (a *API) listTests(ctx context.Context, c *call, q *listQuery, name string, only flaky.Selection, show func(*flaky.TestCase, queue.Repo)) (testPage, error) {
	repo, err := a.repository(ctx, c, &q.testPlace)
	if err != nil {
		return testPage{}, err
	}
	list := testList{name, c.org.ID, repo.ID, *q.size, only}
	key, err := a.cursorKey(ctx)
	if err != nil {
		return testPage{}, err
	}
	offset, err := list.offset(key, q.token)
	if err != nil {
		return testPage{}, err
	}
	tests, total, err := a.tests.TestPage(ctx, repo.ID, only, int(offset), int(*q.size), c.now)
	if err != nil {
		return testPage{}, fmt.Errorf("list tests: %w", err)
	}
	for i := range tests {
		show(&tests[i], repo)
	}
	return list.page(key, offset, int64(total))
}

// offset is where the page of a token begins; "" is the first.
func (l testList) offset(key []byte, token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	const refusal = "page_query.page_token must be a token of an answer to the same request with the same page_size."
	offset, err := readCursor(key, l, token, refusal)
	if err == nil && (offset < 0 || offset%l.Size != 0) {
		err = invalidRequest(refusal)
	}
	return offset, err
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
