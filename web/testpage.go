package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/julienschmidt/httprouter"

	"signalbox/flaky"
	"signalbox/queue"
)

// What the page of a test shows.
const (
	testDays    = 30
	kindsShown  = 10
	failedShown = 50
	bodyAtMost  = 4000 // characters of a failure's text
)

// testView is the page of one test.
type testView struct {
	Repo, RepoURL, Tests string
	Name, Where          string
	URL                  string
	Badges               []badge
	Why                  string // of the state, a sentence
	Since                moment
	Quarantine           string          // whether its failures block, a sentence
	QuarantineLook       string          // a class of the style sheet
	Decided              *flaky.Override // what a person decided that excuses it; nil = nobody did
	Score                scoreBar
	Tiles                []tile
	Chart                *chart
	Days                 []dayRow
	Kinds                []kindRow
	Failures             []failureRow
	Evidence             []proofRow
	Changes              []changeRow
	Details              []detail
	Ticket, TicketURL    string // of its repair
	Meanings             []meaning
	Form                 quarantineForm
	Deeds                deeds
	Told                 string
	Now                  moment
}

func (testView) template() string { return "test" }

// Heading is the page's title.
func (v testView) Heading() string { return v.Name + " · " + v.Repo }

// scoreBar is the score among the scores at which something is said or done.
type scoreBar struct {
	Score, Says string
	Width       int // of the whole bar, in pixels
	Full        int // of its filled part
	Look        string
	Marks       []scoreMark
}

type scoreMark struct {
	X    int
	Text string
}

// dayRow is a day in the table beside the chart.
type dayRow struct{ Day, Runs, Failed string }

// kindRow is one way in which the test fails.
type kindRow struct {
	Summary string
	Count   int64
	Last    moment
	Known   badge
	Example string // of the newest such failure that is still there
}

// failureRow is one failure.
type failureRow struct {
	At       moment
	On       string // what was tested
	OnURL    string
	Summary  string
	Retried  bool // it passed when it was tried again
	Decision string
	Excused  bool
	Upload   string
	Number   int64
	Commit   code
	Job      string
}

// proofRow is a piece of evidence.
type proofRow struct {
	Text, Summary          string
	Weight                 string
	At                     moment
	PR                     int
	Failed, Passed         string // addresses of the uploads
	FailedJob, PassedJob   string // of the jobs
	FailedCommit, PassedAt string // short commits
}

// changeRow is a change of a state or of quarantine.
type changeRow struct {
	At                 moment
	Text               string
	Look               string
	Reason, Why, Actor string
	Upload             string
}

// testOf reads which test a request names.
func testOf(r *http.Request) (uuid.UUID, error) {
	text := httprouter.ParamsFromContext(r.Context()).ByName("test")
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return id, errNoTest
	}
	return id, nil
}

// knownTest is all that is known of a test.
type knownTest struct {
	flaky.TestDetails
	counts   flaky.Counts
	days     []flaky.DayTally
	kinds    []flaky.FailureKind
	failures []flaky.Occurrence
	proofs   []flaky.Proof
	changes  []flaky.Change
}

// test shows one test.
func (h *Handler) test(r *http.Request) (frame, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return frame{}, err
	}
	id, err := testOf(r)
	if err != nil {
		return frame{}, err
	}
	now := h.clock()
	known, err := h.known(r.Context(), repo, id, now)
	if err != nil {
		return frame{}, orNoTest(err, "read test "+id.String())
	}
	v := viewTest(repo, known, now)
	v.Told = told(r)
	v.Deeds, err = h.deedsOn(r.Context(), repo)
	return frame{View: v, Tabs: repoTabs(repo, "")}, err
}

func (h *Handler) known(ctx context.Context, repo queue.Repo, id uuid.UUID, now time.Time) (k *knownTest, err error) {
	k = &knownTest{}
	if k.TestDetails, err = h.store.TestDetails(ctx, repo.ID, id, now); err != nil {
		return k, err
	}
	if k.counts, err = h.store.CountTests(ctx, repo.ID); err != nil {
		return k, err
	}
	days, err := h.store.TestDays(ctx, repo.ID, []int64{k.Number}, now.AddDate(0, 0, -testDays), now)
	if err != nil {
		return k, err
	}
	k.days = days[k.Number]
	if k.kinds, err = h.store.FailureKinds(ctx, repo.ID, id, now, kindsShown); err != nil {
		return k, err
	}
	if k.failures, err = h.store.TestFailures(ctx, repo.ID, id, failedShown); err != nil {
		return k, err
	}
	k.proofs, k.changes, err = h.store.TestHistory(ctx, repo.ID, id)
	return k, err
}

func viewTest(repo queue.Repo, k *knownTest, now time.Time) testView {
	v := testView{
		Repo: repo.String(), RepoURL: RepoURL("", repo), Tests: testsURL(repo), URL: TestURL("", repo, k.ID.String()), Name: k.Name, Where: where(&k.Test),
		Badges: testBadges(&k.TestCase), Why: k.StatusReason, Since: at(k.StatusAt, now), QuarantineLook: quarantineLook(k, now),
		Score: scoreOf(k.Score), Ticket: cmp.Or(k.TicketID, k.Ticket), TicketURL: k.Ticket, Meanings: meanings, Now: at(now, now),
	}
	if v.Why == "" {
		v.Why = "Nothing shows that it fails at random."
	}
	v.Quarantine = quarantineText(k, now)
	if k.Override.At(now) == flaky.Always {
		v.Decided = &k.Override
	}
	v.Tiles = []tile{
		{Label: "Failed in 7 days", Value: percent(k.Week), Note: rate(k.Week) + runsWord(k.Week)},
		{Label: "Failed in 24 hours", Value: percent(k.Day), Note: rate(k.Day) + runsWord(k.Day)},
		{Label: "Pull requests hit in 7 days", Value: strconv.Itoa(k.PullRequests)},
	}
	v.Chart, v.Days = chartOfTest(k.days, now)
	v.Kinds = kindRows(k, now)
	for i := range k.failures {
		v.Failures = append(v.Failures, failureOf(repo, &k.failures[i], now))
	}
	for i := range k.proofs {
		v.Evidence = append(v.Evidence, proofOf(repo, &k.proofs[i], now))
	}
	for i := range k.changes {
		v.Changes = append(v.Changes, changeOf(repo, &k.changes[i], now))
	}
	v.Details = []detail{
		{Label: "Owners", Text: cmp.Or(strings.Join(k.Codeowners, " "), "CODEOWNERS names nobody")},
		{Label: "File", Text: cmp.Or(k.File, "unknown")}, {Label: "Class", Text: cmp.Or(k.Classname, "none")},
		{Label: "Suite", Text: cmp.Or(k.Parent, "none")}, {Label: "Variant", Text: cmp.Or(k.Variant, "none")},
		{Label: "Id", Text: k.ID.String()},
	}
	v.Form = formOf(k.Override, now)
	return v
}

func runsWord(t flaky.Tally) string {
	switch t.Runs {
	case 0:
		return ""
	case 1:
		return " run"
	}
	return " runs"
}

// scoreOf draws a score.
func scoreOf(score float64) scoreBar {
	const width, top = 320, 10
	place := func(s float64) int { return int(min(s, top) / top * width) }
	b := scoreBar{Score: strconv.FormatFloat(score, 'f', 1, 64), Width: width, Full: place(score), Look: "off"}
	switch {
	case score >= flaky.FlakyScore:
		b.Look = "bad"
	case score >= flaky.SuspectedScore:
		b.Look = "wait"
	}
	for _, m := range []struct {
		at   float64
		text string
	}{{flaky.SuspectedScore, "suspected"}, {flaky.FlakyScore, "flaky"}, {flaky.QuarantineScore, "quarantine"}} {
		b.Marks = append(b.Marks, scoreMark{place(m.at), m.text})
	}
	b.Says = fmt.Sprintf("Score %s. Suspected from %d, flaky from %d, quarantined automatically from %v.", b.Score, flaky.SuspectedScore, flaky.FlakyScore, flaky.QuarantineScore)
	return b
}

// chartOfTest draws how often a test failed, by the day; nil if it did not.
func chartOfTest(days []flaky.DayTally, now time.Time) (*chart, []dayRow) {
	var times, says []string
	var rows []dayRow
	failed := series{Name: "runs that failed", Look: "bad"}
	any := false
	for _, t := range lastDays(days, testDays, now) {
		name := t.Day.Format("2 Jan")
		times, says = append(times, name), append(says, fmt.Sprintf("%s: %s failed", name, rate(t.Tally)))
		failed.Values = append(failed.Values, float64(t.Failures))
		any = any || t.Failures > 0
		if t.Runs > 0 {
			rows = append(rows, dayRow{name, strconv.Itoa(t.Runs), strconv.Itoa(t.Failures)})
		}
	}
	if !any {
		return nil, rows
	}
	c := barChart("failures-chart", fmt.Sprintf("Failures of %d days", testDays), times, []series{failed}, make([]string, testDays), says)
	return &c, rows
}

func kindRows(k *knownTest, now time.Time) []kindRow {
	var rows []kindRow
	for _, kind := range k.kinds {
		row := kindRow{Summary: cmp.Or(kind.Summary, "no message"), Count: kind.Count, Last: at(kind.Last, now), Known: badge{"new", "bad"}}
		if kind.Known {
			row.Known = badge{"known", "off"}
		}
		for i := range k.failures {
			if f := &k.failures[i]; f.Fingerprint == kind.Fingerprint {
				row.Example = exampleOf(f)
				break
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// exampleOf is what a failure said.
func exampleOf(f *flaky.Occurrence) string {
	text := strings.TrimSpace(f.Message)
	if body := strings.TrimSpace(f.Text); body != "" && !strings.Contains(text, body) {
		text = strings.TrimSpace(text + "\n\n" + body)
	}
	if f.Type != "" && !strings.Contains(text, f.Type) {
		text = f.Type + ": " + text
	}
	if runes := []rune(text); len(runes) > bodyAtMost {
		return string(runes[:bodyAtMost]) + "…"
	}
	return text
}

func failureOf(repo queue.Repo, f *flaky.Occurrence, now time.Time) failureRow {
	row := failureRow{
		At: at(f.At, now), On: testedOn(f.Kind, f.Branch, f.PullRequests), Summary: cmp.Or(f.Summary, "no message"), Retried: f.Passed, Decision: decisionText(f.Code),
		Excused: f.Excused, Upload: uploadURL(repo, f.Upload), Number: f.Upload, Commit: commit(f.Commit, ""), Job: f.Link,
	}
	if f.Ambiguous {
		row.Decision = "several tests of the report have this name"
	}
	if f.Kind == flaky.Queue && len(f.PullRequests) > 0 {
		row.OnURL = PRURL("", repo, f.Branch, int64(f.PullRequests[len(f.PullRequests)-1]))
	}
	return row
}

func proofOf(repo queue.Repo, p *flaky.Proof, now time.Time) proofRow {
	row := proofRow{
		Text: evidenceNames[p.Kind], Weight: strconv.FormatFloat(p.Weight(), 'f', -1, 64), At: at(p.At, now), PR: p.PullRequest, Summary: p.Summary,
		FailedJob: p.FailedLink, PassedJob: p.PassedLink, FailedCommit: commit(p.FailedCommit, "").Short, PassedAt: commit(p.PassedCommit, "").Short,
	}
	if p.FailedRun != 0 {
		row.Failed = uploadURL(repo, p.FailedRun)
	}
	if p.FailedRun == p.PassedRun { // one run did both
		row.Text = "It failed, and passed when it was tried again"
	} else if p.PassedRun != 0 {
		row.Passed = uploadURL(repo, p.PassedRun)
	}
	return row
}

func changeOf(repo queue.Repo, c *flaky.Change, now time.Time) changeRow {
	row := changeRow{At: at(c.At, now), Reason: c.Reason, Actor: cmp.Or(c.Actor, "Signalbox"), Look: "off"}
	switch c.What {
	case "status":
		b := look(statusBadges, flaky.Status(c.After))
		row.Text, row.Look = b.Text, b.Look
	default:
		row.Text, row.Why = map[string]string{"on": "quarantined", "off": "not quarantined"}[c.After], changedBecause[flaky.QuarantineCode(c.Code)]
		if c.After == "on" {
			row.Look = quarantinedBadge.Look
		}
	}
	if c.Upload != 0 {
		row.Upload = uploadURL(repo, c.Upload)
	}
	return row
}
