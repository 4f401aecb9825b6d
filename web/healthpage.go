package web

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"signalbox/queue"
)

// healthView is the page that tells how a queue has been doing.
type healthView struct {
	trail
	Ranges, Steps []option
	Tiles         []tile
	Charts        []chart
	Rows          []healthRow
	By            string // "hour" or "day"
	CSV           string
	Counting      bool // the past is still being counted
	Now           moment
}

func (healthView) template() string { return "health" }

// Heading is the page's title.
func (v healthView) Heading() string { return "Health of " + v.Branch + " · " + v.Repo }

// option is one of several views of a page.
type option struct {
	Text, URL string
	On        bool
}

// tile is one number for the whole time.
type tile struct{ Label, Value, Note string }

// healthRow is an hour or a day.
type healthRow struct {
	Time, URL                 string
	Merged, Failed, Cancelled int64
	Restarts, Runs            int64
	InQueue, Wait, Test       quantiles
}

// quantiles are how long things took, in words.
type quantiles struct{ P50, P95, P99 string }

// span is what a health page is about: whole hours or days, in UTC.
type span struct {
	Range       string
	Days        bool
	From, Until time.Time
}

// ranges are the lengths of time that can be chosen, in days.
var ranges = []struct {
	name, text string
	days       int
	hours      bool // it can be shown by the hour
}{{"1d", "24 hours", 1, true}, {"7d", "7 days", 7, true}, {"30d", "30 days", 30, false}, {"90d", "90 days", 90, false}}

// spanOf reads which time an address asks for; what it does not understand is
// a week by the day.
func spanOf(r *http.Request, now time.Time) span {
	s, chosen := span{Range: "7d", Days: true}, ranges[1]
	for _, known := range ranges {
		if known.name == r.URL.Query().Get("range") {
			chosen = known
		}
	}
	s.Range = chosen.name
	by := r.URL.Query().Get("by")
	s.Days = !chosen.hours || by == "day" || by != "hour" && chosen.days > 1
	now = now.UTC()
	if s.Days {
		today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
		s.Until = today.AddDate(0, 0, 1)
		s.From = s.Until.AddDate(0, 0, -max(chosen.days, 2)) // one bar is no chart
	} else {
		s.Until = now.Truncate(time.Hour).Add(time.Hour)
		s.From = s.Until.AddDate(0, 0, -chosen.days)
	}
	return s
}

// unit is the length of a bar, by the name that addresses have.
func (s span) unit() string {
	if s.Days {
		return "day"
	}
	return "hour"
}

// next is when the bar that begins at t ends.
func (s span) next(t time.Time) time.Time {
	if s.Days {
		return t.AddDate(0, 0, 1)
	}
	return t.Add(time.Hour)
}

func (s span) label(t time.Time) string {
	switch {
	case s.Days:
		return t.Format("2 Jan")
	case s.Until.Sub(s.From) > 25*time.Hour:
		return t.Format("2 Jan 15:04")
	default:
		return t.Format("15:04")
	}
}

// counted is what happened in one bar, or in all of them.
type counted struct {
	merged, failed, cancelled, restarts, runs int64
	inQueue, wait, test                       queue.Spread
}

func newCounted() *counted {
	return &counted{inQueue: queue.Spread{}, wait: queue.Spread{}, test: queue.Spread{}}
}

func (c *counted) add(t queue.Tally) {
	switch t.What {
	case queue.HasMerged:
		c.merged += t.N
		c.inQueue[t.Bucket] += t.N
	case queue.HasFailed:
		c.failed += t.N
	case queue.HasCancelled:
		c.cancelled += t.N
	case queue.HasRestarted:
		c.restarts += t.N
	case queue.HasWaited:
		c.wait[t.Bucket] += t.N
	case queue.HasTested:
		c.test[t.Bucket] += t.N
	case queue.HasRun:
		c.runs += t.N
	}
}

// arranged puts tallies into their bars.
func arranged(tallies []queue.Tally, s span) (times []time.Time, bars []*counted, all *counted) {
	place := map[time.Time]int{}
	for t := s.From; t.Before(s.Until); t = s.next(t) {
		place[t] = len(bars)
		times, bars = append(times, t), append(bars, newCounted())
	}
	all = newCounted()
	for _, t := range tallies {
		if i, ok := place[t.At.UTC()]; ok {
			bars[i].add(t)
			all.add(t)
		}
	}
	return times, bars, all
}

func viewHealth(q *queue.Queue, tallies []queue.Tally, s span, done bool, now time.Time) healthView {
	v := healthView{
		trail: trailOf(q), By: s.unit(), Counting: !done, Now: at(now, now),
		CSV: pageURL("", q.Repo, "/health.csv", q.Branch) + "&range=" + s.Range + "&by=" + s.unit(),
	}
	page := pageURL("", q.Repo, "/health", q.Branch)
	for _, r := range ranges {
		v.Ranges = append(v.Ranges, option{r.text, page + "&range=" + r.name, r.name == s.Range})
		if r.name == s.Range && r.hours {
			v.Steps = []option{{"by the hour", page + "&range=" + r.name + "&by=hour", !s.Days}, {"by the day", page + "&range=" + r.name + "&by=day", s.Days}}
		}
	}
	times, bars, all := arranged(tallies, s)
	v.Tiles = tilesOf(all)
	v.Charts = chartsOf(q, s, times, bars)
	for i, b := range bars {
		v.Rows = append(v.Rows, healthRow{
			Time: rowTime(times[i], s), URL: endingsURL(q, times[i], s.next(times[i])), Merged: b.merged, Failed: b.failed, Cancelled: b.cancelled,
			Restarts: b.restarts, Runs: b.runs, InQueue: quantilesOf(b.inQueue), Wait: quantilesOf(b.wait), Test: quantilesOf(b.test),
		})
	}
	return v
}

func rowTime(t time.Time, s span) string {
	if s.Days {
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02 15:04")
}

// endingsURL is the page of those who ended in a bar.
func endingsURL(q *queue.Queue, from, until time.Time) string {
	return pageURL("", q.Repo, "/endings", q.Branch) + "&from=" + strconv.FormatInt(from.Unix(), 10) + "&until=" + strconv.FormatInt(until.Unix(), 10)
}

func quantilesOf(s queue.Spread) quantiles {
	if s.Count() == 0 {
		return quantiles{}
	}
	return quantiles{length(s.Quantile(0.5)), length(s.Quantile(0.95)), length(s.Quantile(0.99))}
}

// tilesOf are the numbers of the whole time.
func tilesOf(c *counted) []tile {
	share := func(part, whole int64) string {
		if whole == 0 {
			return "–"
		}
		return strconv.FormatFloat(float64(part)*100/float64(whole), 'f', 1, 64) + " %"
	}
	took := func(label string, s queue.Spread, note string) tile {
		q := quantilesOf(s)
		if q.P50 == "" {
			return tile{label, "–", note}
		}
		return tile{label, q.P50, "p95 " + q.P95 + ", p99 " + q.P99}
	}
	perMerge := "–"
	if c.merged > 0 {
		perMerge = strconv.FormatFloat(float64(c.runs)/float64(c.merged), 'f', 2, 64)
	}
	return []tile{
		{"Merged", strconv.FormatInt(c.merged, 10), ""},
		{"Failed", strconv.FormatInt(c.failed, 10), share(c.failed, c.merged+c.failed) + " of those that were merged or failed"},
		{"Cancelled", strconv.FormatInt(c.cancelled, 10), ""},
		{"Sent back to be tested again", strconv.FormatInt(c.restarts, 10), ""},
		took("Time in the queue (p50)", c.inQueue, "of those that merged"),
		took("Wait for a test (p50)", c.wait, ""),
		took("Test (p50)", c.test, ""),
		{"CI runs for each merge", perMerge, strconv.FormatInt(c.runs, 10) + " runs"},
	}
}

func chartsOf(q *queue.Queue, s span, times []time.Time, bars []*counted) []chart {
	n := len(bars)
	number := func(read func(*counted) int64) []float64 {
		values := make([]float64, n)
		for i, b := range bars {
			values[i] = float64(read(b))
		}
		return values
	}
	quantile := func(share float64, read func(*counted) queue.Spread) []float64 {
		values := make([]float64, n)
		for i, b := range bars {
			values[i] = read(b).Quantile(share).Seconds()
		}
		return values
	}
	labels, urls, says, runs := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, t := range times {
		labels[i], urls[i] = s.label(t), endingsURL(q, t, s.next(t))
		says[i] = fmt.Sprintf("%s: %d merged, %d failed, %d cancelled", rowTime(t, s), bars[i].merged, bars[i].failed, bars[i].cancelled)
		runs[i] = fmt.Sprintf("%s: %d test runs, %d sent back", rowTime(t, s), bars[i].runs, bars[i].restarts)
	}
	inQueue, wait, test := func(c *counted) queue.Spread { return c.inQueue }, func(c *counted) queue.Spread { return c.wait }, func(c *counted) queue.Spread { return c.test }
	return []chart{
		barChart("endings", "Endings", labels, []series{
			{"merged", "good", number(func(c *counted) int64 { return c.merged })},
			{"failed", "bad", number(func(c *counted) int64 { return c.failed })},
			{"cancelled", "off", number(func(c *counted) int64 { return c.cancelled })},
		}, urls, says),
		lineChart("inqueue", "Time in the queue, of those that merged", labels, []series{
			{"p50", "busy", quantile(0.5, inQueue)}, {"p95", "wait", quantile(0.95, inQueue)}, {"p99", "bad", quantile(0.99, inQueue)},
		}),
		lineChart("waittest", "Wait and test, p50 and p95", labels, []series{
			{"wait, p50", "busy", quantile(0.5, wait)}, {"wait, p95", "busy far", quantile(0.95, wait)},
			{"test, p50", "good", quantile(0.5, test)}, {"test, p95", "good far", quantile(0.95, test)},
		}),
		barChart("runs", "Test runs", labels, []series{
			{"asked for", "busy", number(func(c *counted) int64 { return c.runs })},
		}, make([]string, n), runs),
	}
}

func (h *Handler) health(r *http.Request) (frame, error) {
	q, s, tallies, done, err := h.tallies(r)
	if err != nil {
		return frame{}, err
	}
	return frame{View: viewHealth(&q, tallies, s, done, h.clock()), Tabs: queueTabs(&q, pageURL("", q.Repo, "/health", q.Branch))}, nil
}

// tallies reads what a health page, or its CSV, is made of.
func (h *Handler) tallies(r *http.Request) (q queue.Queue, s span, tallies []queue.Tally, done bool, err error) {
	if q, err = h.named(r); err != nil {
		return
	}
	if done, err = h.store.CountHours(r.Context()); err != nil {
		return q, s, nil, false, fmt.Errorf("count what has happened: %w", err)
	}
	s = spanOf(r, h.clock())
	if tallies, err = h.store.Tallies(r.Context(), q.ID, s.From, s.Until, s.Days); err != nil {
		err = fmt.Errorf("read what has happened: %w", err)
	}
	return q, s, tallies, done, err
}

// healthCSV is the table of the health page for programs. Durations are
// seconds; none is an empty field.
func (h *Handler) healthCSV(w http.ResponseWriter, r *http.Request) {
	_, s, tallies, _, err := h.tallies(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	var body bytes.Buffer
	out := csv.NewWriter(&body)
	_ = out.Write([]string{
		s.unit(), "merged", "failed", "cancelled", "restarts", "runs", "in_queue_p50_seconds", "in_queue_p95_seconds", "in_queue_p99_seconds",
		"wait_p50_seconds", "wait_p95_seconds", "test_p50_seconds", "test_p95_seconds",
	})
	times, bars, _ := arranged(tallies, s)
	for i, b := range bars {
		row := []string{times[i].Format(time.RFC3339)}
		for _, n := range []int64{b.merged, b.failed, b.cancelled, b.restarts, b.runs} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		for _, c := range []struct {
			of    queue.Spread
			share float64
		}{{b.inQueue, 0.5}, {b.inQueue, 0.95}, {b.inQueue, 0.99}, {b.wait, 0.5}, {b.wait, 0.95}, {b.test, 0.5}, {b.test, 0.95}} {
			text := ""
			if d := c.of.Quantile(c.share); d > 0 {
				text = strconv.FormatFloat(d.Seconds(), 'f', 0, 64)
			}
			row = append(row, text)
		}
		_ = out.Write(row) // to memory
	}
	out.Flush()
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="signalbox-health.csv"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w)
}

// endingsView is the page of those who ended in some time.
type endingsView struct {
	trail
	Health      string
	From, Until string
	Rows        []endingRow
	More        bool // there are more than are shown
}

// endingRow is one who ended.
type endingRow struct {
	PR      prLink
	State   badge
	At      moment
	Lasted  string
	Message string
	Run     string
}

func (endingsView) template() string { return "endings" }

// Heading is the page's title.
func (v endingsView) Heading() string { return "Endings in " + v.Branch + " · " + v.Repo }

// endingsListed is how many endings their page lists.
const endingsListed = 500

// longestSpan bounds what is looked for at once.
const longestSpan = 100 * 24 * time.Hour

func (h *Handler) endings(r *http.Request) (frame, error) {
	q, err := h.named(r)
	if err != nil {
		return frame{}, err
	}
	from, err1 := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	until, err2 := strconv.ParseInt(r.URL.Query().Get("until"), 10, 64)
	begin, end := time.Unix(from, 0).UTC(), time.Unix(until, 0).UTC()
	if err1 != nil || err2 != nil || from < 0 || until > 1e11 || !begin.Before(end) || end.Sub(begin) > longestSpan {
		return frame{}, absent("There is no such time.")
	}
	endings, err := h.store.EndedBetween(r.Context(), q.ID, begin, end, endingsListed+1)
	if err != nil {
		return frame{}, fmt.Errorf("list endings: %w", err)
	}
	return frame{View: viewEndings(&q, endings, begin, end, h.clock()), Tabs: queueTabs(&q, "")}, nil
}

func viewEndings(q *queue.Queue, endings []queue.Ending, from, until, now time.Time) endingsView {
	const layout = "2006-01-02 15:04"
	v := endingsView{
		trail: trailOf(q), Health: pageURL("", q.Repo, "/health", q.Branch),
		From: from.Format(layout), Until: until.Format(layout + " UTC"), More: len(endings) > endingsListed,
	}
	for _, e := range endings[:min(len(endings), endingsListed)] {
		row := endingRow{
			PR: prLink{Number: e.PR, Title: e.Title, Page: PRURL("", q.Repo, q.Branch, e.PR)}, State: look(entryBadges, e.To),
			At: at(e.At, now), Message: e.Message,
		}
		if row.Message == "" {
			row.Message = sentence(e.Reason)
		}
		if e.Lasted > 0 {
			row.Lasted = length(e.Lasted)
		}
		if e.Run != "" {
			row.Run = RunURL("", q.Repo, q.Branch, e.Run)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
