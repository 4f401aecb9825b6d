package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/flaky"
	"signalbox/queue"
)

// What pages show of test reports.
const (
	uploadsShown = 50
	failedOfOne  = 100 // failures on one page of an upload
)

// uploadsView is the list of test reports that came.
type uploadsView struct {
	Repo, RepoURL string
	Lists         []listTab
	Rows          []uploadRow
	Older, First  string
	Troubled      bool
	Now           moment
}

func (uploadsView) template() string { return "uploads" }

// Heading is the page's title.
func (v uploadsView) Heading() string { return "Test reports · " + v.Repo }

// uploadRow is a report among others.
type uploadRow struct {
	ID                     int64
	URL                    string
	At                     moment
	On                     string // what was tested
	Job                    string // the check, or the job that has none
	State                  badge
	Tests, Failed, Skipped int
	Read                   bool
	Note                   string // the first thing that was wrong with it
	More                   int    // further ones
}

// uploadView is the page of one report.
type uploadView struct {
	uploadRow
	Repo, RepoURL, Uploads string
	Lead                   string
	Evidence               string // why it proves nothing about its tests; "" = it may
	Notes                  []noteRow
	Failures               []uploadFailure
	Count                  int
	Next, First            string
	Details                []detail
	Link                   string
	Now                    moment
}

func (uploadView) template() string { return "upload" }

// Heading is the page's title.
func (v uploadView) Heading() string { return fmt.Sprintf("Test report %d · %s", v.ID, v.Repo) }

// noteRow is one thing that was wrong with a report.
type noteRow struct {
	Look badge
	Text string
	Code string
}

// uploadFailure is a test that failed in a report.
type uploadFailure struct {
	Name, URL, Where string
	Summary          string
	Retried          bool
	Decision         string
	Excused          bool
}

// uploads lists the reports of a repository.
func (h *Handler) uploads(r *http.Request) (frame, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return frame{}, err
	}
	below, _ := strconv.ParseInt(r.URL.Query().Get("below"), 10, 64) // 0 = from the newest
	troubled := r.URL.Query().Get("show") == "troubled"
	list, err := h.store.ListUploads(r.Context(), repo.ID, below, troubled, uploadsShown+1)
	if err != nil {
		return frame{}, fmt.Errorf("list test reports: %w", err)
	}
	return frame{View: viewUploads(repo, list, below, troubled, h.clock()), Tabs: repoTabs(repo, uploadsURL(repo))}, nil
}

func viewUploads(repo queue.Repo, list []flaky.UploadDetails, below int64, troubled bool, now time.Time) uploadsView {
	page := uploadsURL(repo)
	v := uploadsView{Repo: repo.String(), RepoURL: RepoURL("", repo), Troubled: troubled, Now: at(now, now), Lists: []listTab{
		{Text: "all reports", URL: page, On: !troubled}, {Text: "with something wrong", URL: page + "?show=troubled", On: troubled},
	}}
	here := page + "?"
	if troubled {
		here = page + "?show=troubled&"
	}
	if below > 0 {
		v.First = here[:len(here)-1]
	}
	if len(list) > uploadsShown {
		list = list[:uploadsShown]
		v.Older = fmt.Sprintf("%sbelow=%d", here, list[uploadsShown-1].ID)
	}
	for i := range list {
		v.Rows = append(v.Rows, rowOfUpload(repo, &list[i], now))
	}
	return v
}

func rowOfUpload(repo queue.Repo, u *flaky.UploadDetails, now time.Time) uploadRow {
	row := uploadRow{
		ID: u.ID, URL: uploadURL(repo, u.ID), At: at(u.Received, now), Job: cmp.Or(u.Check, u.Job), Tests: u.Tests, Failed: u.Failed, Skipped: u.Skipped,
		Read: !u.Entered.IsZero(), State: badge{"complete", "good"},
	}
	var prs []int
	if u.Pull > 0 && u.Kind != flaky.Queue {
		prs = []int{u.Pull}
	}
	row.On = testedOn(u.Kind, u.Branch, prs)
	if u.Kind == flaky.Queue {
		row.On = "a commit of the queue"
	}
	switch {
	case !row.Read:
		row.State, row.On = badge{"waiting to be read", "busy"}, u.Branch
	case !u.Complete:
		row.State = badge{"incomplete", "bad"}
	case u.Infrastructure:
		row.State = badge{"not counted", "off"}
	}
	if len(u.Notes) > 0 {
		row.Note, row.More = u.Notes[0].Text, len(u.Notes)-1
	}
	return row
}

// upload shows one report: what was read, what was dropped, and what failed.
func (h *Handler) upload(r *http.Request) (frame, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return frame{}, err
	}
	gone := absent("There is no such test report in this repository. Reports are kept for 45 days.")
	id, err := strconv.ParseInt(httprouter.ParamsFromContext(r.Context()).ByName("upload"), 10, 64)
	if err != nil || id <= 0 {
		return frame{}, gone
	}
	u, err := h.store.TestUpload(r.Context(), repo.ID, id)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return frame{}, gone
	case err != nil:
		return frame{}, fmt.Errorf("read test report %d: %w", id, err)
	}
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from >= len(u.Failures) {
		from = 0
	}
	return frame{View: viewUpload(repo, &u, from, h.clock()), Tabs: repoTabs(repo, "")}, nil
}

func viewUpload(repo queue.Repo, u *flaky.UploadDetails, from int, now time.Time) uploadView {
	v := uploadView{
		uploadRow: rowOfUpload(repo, u, now), Repo: repo.String(), RepoURL: RepoURL("", repo), Uploads: uploadsURL(repo), Count: len(u.Failures),
		Evidence: noEvidence(u), Link: u.Link, Now: at(now, now),
	}
	failed := "none"
	if u.Failed > 0 {
		failed = strconv.Itoa(u.Failed)
	}
	v.Lead = fmt.Sprintf("%s ran, %s failed, %d did not run.", plural(u.Tests, "test"), failed, u.Skipped)
	if !v.Read {
		v.Lead = "It is kept, and read in a moment. Reload to see what came of it."
	}
	for _, n := range u.Notes {
		row := noteRow{badge{"note", "off"}, n.Text, n.Code}
		if n.Incomplete {
			row.Look = badge{"incomplete", "bad"}
		}
		v.Notes = append(v.Notes, row)
	}
	upTo := min(from+failedOfOne, len(u.Failures))
	for i := from; i < upTo; i++ {
		f := &u.Failures[i]
		v.Failures = append(v.Failures, uploadFailure{
			Name: f.Name, URL: TestURL("", repo, f.ID.String()), Where: where(&f.Test), Summary: cmp.Or(f.Summary, "no message"), Retried: f.Passed,
			Decision: decisionText(f.Code), Excused: f.Excused,
		})
	}
	if upTo < len(u.Failures) {
		v.Next = fmt.Sprintf("%s?from=%d", v.URL, upTo)
	}
	if from > 0 {
		v.First = v.URL
	}
	v.Details = []detail{
		{Label: "Commit", Code: commit(u.Commit, "")}, {Label: "Branch", Text: cmp.Or(u.Branch, "unknown")}, {Label: "Check", Text: cmp.Or(u.Check, "unknown")},
		{Label: "Job", Text: cmp.Or(u.Job, "unknown")}, {Label: "Attempt", Text: strconv.Itoa(max(u.Attempt, 1))}, {Label: "CI", Text: cmp.Or(u.CI, "unknown")},
		{Label: "Variant", Text: cmp.Or(u.Variant, "none")}, {Label: "Received", Time: at(u.Received, now)},
	}
	if u.ExitCode != nil {
		v.Details = append(v.Details, detail{Label: "The test command ended with", Text: strconv.Itoa(*u.ExitCode)})
	}
	return v
}

// noEvidence says why a report proves nothing about single tests.
func noEvidence(u *flaky.UploadDetails) string {
	run := flaky.Run{Tests: u.Tests, Failed: u.Failed}
	switch {
	case u.Entered.IsZero():
		return ""
	case u.Infrastructure:
		return "Whoever sent it said that the run failed for reasons outside the tests: it counts for nothing."
	case u.Fork:
		return "It comes from a fork: it is shown, and is no evidence about any test."
	case !u.Trusted:
		return "It came without a token: it is shown, and is no evidence about any test."
	case run.Mass():
		return "So many tests failed that something happened to the run: no single failure is evidence."
	}
	return ""
}
