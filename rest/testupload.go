package rest

import (
	"context"
	"fmt"
	"strconv"

	"signalbox/flaky"
	"signalbox/queue"
)

// uploadShown is what every answer says of an upload.
type uploadShown struct {
	ID         string       `json:"id"`
	Status     string       `json:"status"` // waiting or read
	ReceivedAt moment       `json:"received_at"`
	Kind       string       `json:"kind"` // what it tested; "" until it is read
	Sha        string       `json:"sha"`
	Branch     string       `json:"branch"`
	PR         *int         `json:"pr"` // null: none that the upload names
	Job        string       `json:"job"`
	Attempt    int          `json:"attempt"`
	Check      string       `json:"check"`
	Variant    string       `json:"variant"`
	HTMLURL    string       `json:"html_url"` // of the job, if its upload named it
	Complete   bool         `json:"complete"`
	Tests      int          `json:"tests"`
	Failed     int          `json:"failed"`
	Skipped    int          `json:"skipped"`
	Notes      []flaky.Note `json:"notes"`
}

// uploadDetails is an upload with the tests that failed in it.
type uploadDetails struct {
	uploadShown
	Failures []uploadFailure `json:"failures"`
}

type uploadFailure struct {
	TestCaseID  string `json:"test_case_id"`
	Name        string `json:"name"`
	Parent      string `json:"parent"`
	File        string `json:"file"`
	Classname   string `json:"classname"`
	Variant     string `json:"variant"`
	Summary     string `json:"summary"`
	Retried     bool   `json:"passed_on_retry"`
	Quarantined bool   `json:"quarantined"`
	ReasonCode  string `json:"reason_code"`
}

// getUpload says what came of an upload: whoever sent it asks until it was read.
func (a *API) getUpload(ctx context.Context, c *call) (any, error) {
	var given string
	p, repo, err := a.namedTests(ctx, c, required("upload_id", text(&given, maxWord)))
	if err != nil {
		return nil, err
	}
	missing := notFound(CodeUploadNotFound, "There is no upload %s in %s.", clip(given), p.repo())
	id, err := strconv.ParseInt(given, 10, 64)
	if err != nil || id < 1 {
		return nil, missing
	}
	d, err := a.tests.TestUpload(ctx, repo.ID, id)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("read upload: %w", err), missing)
	}
	return struct {
		Upload uploadDetails `json:"upload"`
	}{encodeUploadDetails(&d)}, nil
}

// listUploads lists uploads, the newest first: all, or those with which
// something was wrong. What comes in while somebody turns pages is not shown and
// moves nothing.
func (a *API) listUploads(ctx context.Context, c *call) (any, error) {
	var q listQuery
	var noted *bool
	if err := q.decode(c, optional("only_with_notes", boolean(&noted))); err != nil {
		return nil, err
	}
	repo, err := a.repository(ctx, c, &q.testPlace)
	if err != nil {
		return nil, err
	}
	list := uploadList{"list-uploads", c.org.ID, repo.ID, orZero(noted)}
	key, err := a.cursorKey(ctx)
	if err != nil {
		return nil, err
	}
	var below int64
	if q.token != "" {
		if below, err = readCursor(key, list, q.token, "page_query.page_token must be a token of an answer to the same request."); err != nil {
			return nil, err
		}
	}
	size := int(*q.size)
	uploads, err := a.tests.ListUploads(ctx, repo.ID, below, list.OnlyNoted, size+1) // one more shows whether there are more
	if err != nil {
		return nil, fmt.Errorf("list uploads: %w", err)
	}
	out := uploadsPage{Uploads: []uploadShown{}}
	for i := range uploads[:min(len(uploads), size)] {
		out.Uploads = append(out.Uploads, encodeUpload(&uploads[i]))
	}
	if len(uploads) > size {
		out.Page.NextPageToken, err = signCursor(key, list, uploads[size-1].ID)
	}
	return out, err
}

// uploadList is what makes a list of uploads this one and no other.
type uploadList struct {
	List      string
	Org       int64
	Repo      queue.RepoID
	OnlyNoted bool
}

type uploadsPage struct {
	Uploads []uploadShown `json:"uploads"`
	Page    struct {
		NextPageToken string `json:"next_page_token"` // "" on the last page
	} `json:"page"`
}

func encodeUploadDetails(d *flaky.UploadDetails) uploadDetails {
	out := uploadDetails{uploadShown: encodeUpload(d), Failures: []uploadFailure{}}
	for _, f := range d.Failures {
		out.Failures = append(out.Failures, uploadFailure{f.ID.String(), f.Name, f.Parent, f.File, f.Classname, f.Variant, f.Summary, f.Passed, f.Excused, string(f.Code)})
	}
	return out
}

func encodeUpload(d *flaky.UploadDetails) uploadShown {
	out := uploadShown{
		ID: strconv.FormatInt(d.ID, 10), Status: "read", ReceivedAt: moment(d.Received), Kind: string(d.Kind), Sha: d.Commit, Branch: d.Branch, PR: valueOrNull(d.Pull),
		Job: d.Job, Attempt: max(d.Attempt, 1), Check: d.Check, Variant: d.Variant, HTMLURL: d.Link,
		Complete: d.Complete, Tests: d.Tests, Failed: d.Failed, Skipped: d.Skipped, Notes: append([]flaky.Note{}, d.Notes...),
	}
	if d.Entered.IsZero() {
		out.Status = "waiting"
	}
	return out
}
