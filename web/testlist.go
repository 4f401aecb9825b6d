package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// testsShown is how many tests a page of their list has, and sparkDays how many
// days its small pictures show.
const (
	testsShown = 50
	sparkDays  = 14
)

// testsView is the list of the tests of a repository.
type testsView struct {
	Repo, RepoURL string
	Lists         []listTab
	Show          flaky.Show
	Text, Owner   string // what is searched for
	Rows          []testRow
	More, First   string // addresses of the next page and of the first; "" = this is it
	Automatic     bool
	Last          moment // when the newest report came; none = never
	Uploads       string
	Meanings      []meaning
	Deeds         deeds
	Told          string
	Now           moment
}

func (testsView) template() string { return "tests" }

// Heading is the page's title.
func (v testsView) Heading() string { return "Flaky tests · " + v.Repo }

// listTab is one of the lists.
type listTab struct {
	Text, URL string
	Count     string
	On        bool
}

// testRow is a test among others.
type testRow struct {
	Name, URL, Where string
	Badges           []badge
	Owners           string
	Since            moment
	Spark            spark
	Failed           string // in the time of the picture
}

// spark is a picture of the days of a test.
type spark struct {
	Bars          []sparkBar
	BarWidth      int
	Says          string
	Width, Height int
}

// sparkBar is a day: a column for its runs, and in it a part for those that
// failed.
type sparkBar struct {
	X, Y, Height int
	Look         string
}

// The measures of a spark, in pixels.
const (
	sparkHeight = 20
	sparkStep   = 7
	sparkBarW   = 5
)

// lastDays are n days up to now in the order of time, those without runs too.
func lastDays(days []flaky.DayTally, n int, now time.Time) []flaky.DayTally {
	byDay := map[time.Time]flaky.Tally{}
	for _, d := range days {
		byDay[d.Day.UTC()] = d.Tally
	}
	today := now.UTC().Truncate(24 * time.Hour)
	last := make([]flaky.DayTally, n)
	for i := range last {
		day := today.AddDate(0, 0, i-n+1)
		last[i] = flaky.DayTally{Day: day, Tally: byDay[day]}
	}
	return last
}

// sparkOf draws the days up to now.
func sparkOf(days []flaky.DayTally, now time.Time) (s spark, sum flaky.Tally) {
	s = spark{BarWidth: sparkBarW, Width: sparkDays * sparkStep, Height: sparkHeight}
	bad := 0
	for i, t := range lastDays(days, sparkDays, now) {
		sum = sum.Plus(t.Tally)
		x := i * sparkStep
		if t.Runs == 0 {
			s.Bars = append(s.Bars, sparkBar{x, sparkHeight - 1, 1, "none"})
			continue
		}
		s.Bars = append(s.Bars, sparkBar{x, 0, sparkHeight, "ran"})
		if t.Failures > 0 {
			bad++
			h := max(4, int(t.Rate()*sparkHeight+0.5))
			s.Bars = append(s.Bars, sparkBar{x, sparkHeight - h, h, "bad"})
		}
	}
	s.Says = fmt.Sprintf("Failures of %d days: %s, on %d days", sparkDays, rate(sum), bad)
	return s, sum
}

// tests lists the tests of a repository.
func (h *Handler) tests(r *http.Request) (frame, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return frame{}, err
	}
	f := filterOf(r.URL.Query())
	counts, err := h.store.CountTests(r.Context(), repo.ID)
	if err != nil {
		return frame{}, fmt.Errorf("count tests: %w", err)
	}
	list, err := h.store.ListTests(r.Context(), repo.ID, f, testsShown+1)
	if err != nil {
		return frame{}, fmt.Errorf("list tests: %w", err)
	}
	var more bool
	if more = len(list) > testsShown; more {
		list = list[:testsShown]
	}
	numbers := make([]int64, len(list))
	for i := range list {
		numbers[i] = list[i].Number
	}
	now := h.clock()
	days, err := h.store.TestDays(r.Context(), repo.ID, numbers, now.AddDate(0, 0, -sparkDays), now)
	if err != nil {
		return frame{}, fmt.Errorf("read the days of tests: %w", err)
	}
	v := viewTests(repo, f, counts, list, more, days, now)
	v.Told = told(r)
	v.Deeds, err = h.deedsOn(r.Context(), repo)
	return frame{View: v, Tabs: repoTabs(repo, testsURL(repo))}, err
}

// filterOf reads which tests an address asks for; what it does not understand
// is what somebody should know of.
func filterOf(query url.Values) flaky.Filter {
	f := flaky.Filter{Show: flaky.ShowNotable, Text: strings.TrimSpace(query.Get("text")), Owner: strings.TrimSpace(query.Get("owner"))}
	for _, s := range flaky.Shows {
		if query.Get("show") == string(s) {
			f.Show = s
		}
	}
	if !storable(f.Text) {
		f.Text = ""
	}
	if !storable(f.Owner) {
		f.Owner = ""
	}
	at, number, _ := strings.Cut(query.Get("after"), "-")
	micro, err := strconv.ParseInt(at, 10, 64)
	n, errNumber := strconv.ParseInt(number, 10, 64)
	if err == nil && errNumber == nil && micro > 0 && micro < 1e17 {
		f.After = flaky.Mark{At: time.UnixMicro(micro), Number: n}
	}
	return f
}

// filterURL is the address of a list.
func filterURL(repo queue.Repo, f flaky.Filter) string {
	query := url.Values{}
	if f.Show != flaky.ShowNotable {
		query.Set("show", string(f.Show))
	}
	if f.Text != "" {
		query.Set("text", f.Text)
	}
	if f.Owner != "" {
		query.Set("owner", f.Owner)
	}
	if !f.After.At.IsZero() {
		query.Set("after", fmt.Sprintf("%d-%d", f.After.At.UnixMicro(), f.After.Number))
	}
	if len(query) == 0 {
		return testsURL(repo)
	}
	return testsURL(repo) + "?" + query.Encode()
}

func viewTests(repo queue.Repo, f flaky.Filter, c flaky.Counts, list []flaky.TestCase, more bool, days map[int64][]flaky.DayTally, now time.Time) testsView {
	v := testsView{
		Repo: repo.String(), RepoURL: RepoURL("", repo), Show: f.Show, Text: f.Text, Owner: f.Owner, Automatic: c.Automatic, Last: at(c.LastUpload, now),
		Uploads: uploadsURL(repo), Meanings: meanings, Now: at(now, now),
	}
	begin := f
	begin.After = flaky.Mark{}
	for _, s := range flaky.Shows {
		other := begin
		other.Show = s
		tab := listTab{Text: showNames[s], URL: filterURL(repo, other), On: s == f.Show}
		if n, known := c.Of(s); known {
			tab.Count = strconv.Itoa(n)
		}
		v.Lists = append(v.Lists, tab)
	}
	for i := range list {
		t := &list[i]
		row := testRow{Name: t.Name, URL: TestURL("", repo, t.ID.String()), Where: where(&t.Test), Badges: testBadges(t), Owners: strings.Join(t.Codeowners, " "), Since: at(t.StatusAt, now)}
		var sum flaky.Tally
		row.Spark, sum = sparkOf(days[t.Number], now)
		row.Failed = rate(sum)
		v.Rows = append(v.Rows, row)
	}
	if !f.After.At.IsZero() {
		v.First = filterURL(repo, begin)
	}
	if more {
		f.After = flaky.MarkOf(&list[len(list)-1])
		v.More = filterURL(repo, f)
	}
	return v
}

// switchQuarantine switches automatic quarantine of a repository.
func (h *Handler) switchQuarantine(r *http.Request) (string, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return "", err
	}
	page := testsURL(repo)
	on := r.PostForm.Get("automatic")
	if on != "on" && on != "off" {
		return "", refusal{http.StatusBadRequest, "Automatic quarantine can be on or off.", page}
	}
	if err := h.need(r.Context(), repo, account.AdminRight); err != nil {
		return "", returning(err, page)
	}
	if err := h.store.SetAutomatic(authored(r.Context()), repo.ID, on == "on", account.AuthorOf(authored(r.Context())).String(), h.clock()); err != nil {
		return "", fmt.Errorf("switch automatic quarantine: %w", err)
	}
	return page + "?done=switched", nil
}

var errNoTest = absent("There is no such test in this repository.")

// orNoTest is err, or that there is no such test.
func orNoTest(err error, doing string) error {
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return errNoTest
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
