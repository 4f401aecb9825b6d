package rest

import (
	"context"
	"fmt"
	"strconv"

	"signalbox/flaky"
)

// uploadDetails is an upload with what came of it.
type uploadDetails struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"` // WAITING or READ
	ReceivedAt moment          `json:"received_at"`
	Sha        string          `json:"sha"`
	Job        string          `json:"job"`
	Attempt    int             `json:"attempt"`
	Check      string          `json:"check"`
	Complete   bool            `json:"complete"`
	Tests      int             `json:"tests"`
	Failed     int             `json:"failed"`
	Skipped    int             `json:"skipped"`
	Notes      []flaky.Note    `json:"notes"`
	Failures   []uploadFailure `json:"failures"`
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
	p, repo, err := a.namedTests(ctx, c, required("upload_id", text(&given, maxPageToken)))
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
	}{encodeUpload(&d)}, nil
}

func encodeUpload(d *flaky.UploadDetails) uploadDetails {
	out := uploadDetails{
		ID: strconv.FormatInt(d.ID, 10), Status: "READ", ReceivedAt: moment(d.Received), Sha: d.Commit, Job: d.Job, Attempt: max(d.Attempt, 1), Check: d.Check,
		Complete: d.Complete, Tests: d.Tests, Failed: d.Failed, Skipped: d.Skipped, Notes: append([]flaky.Note{}, d.Notes...), Failures: []uploadFailure{},
	}
	if d.Entered.IsZero() {
		out.Status = "WAITING"
	}
	for _, f := range d.Failures {
		out.Failures = append(out.Failures, uploadFailure{f.ID.String(), f.Name, f.Parent, f.File, f.Classname, f.Variant, f.Summary, f.Passed, f.Excused, string(f.Code)})
	}
	return out
}
