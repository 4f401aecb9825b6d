package web

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Charts, their table and the CSV say the same, for whatever time is asked.

func TestTheCSVHasTheNumbersOfThePage(t *testing.T) {
	t.Parallel()
	answer := get(t, handler(t, newWorld()), "/q/github.com/acme/app/health.csv?branch=release%2F1.2&range=7d")
	want := `day,merged,failed,cancelled,restarts,runs,in_queue_p50_seconds,in_queue_p95_seconds,in_queue_p99_seconds,wait_p50_seconds,wait_p95_seconds,test_p50_seconds,test_p95_seconds
2026-02-23T00:00:00Z,0,0,0,0,0,,,,,,,
2026-02-24T00:00:00Z,0,0,0,0,0,,,,,,,
2026-02-25T00:00:00Z,0,0,0,0,0,,,,,,,
2026-02-26T00:00:00Z,0,0,0,0,0,,,,,,,
2026-02-27T00:00:00Z,0,0,0,0,0,,,,,,,
2026-02-28T00:00:00Z,5,0,0,0,6,3542,3542,3542,242,242,1211,1211
2026-03-01T00:00:00Z,10,1,2,3,14,903,903,903,,,,
`
	if diff := cmp.Diff(want, answer.Body.String()); diff != "" || answer.Header().Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("%v\n%s", answer.Header(), diff)
	}
}

func TestWhateverTimeIsAskedForIsOneThatThereIs(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "day 7", "&range=1d": "hour 24", "&range=1d&by=day": "day 2", "&range=7d&by=hour": "hour 168", "&range=30d": "day 30",
		"&range=90d&by=hour": "day 90", "&range=x&by=y": "day 7", "&range=" + strings.Repeat("9", 99): "day 7",
	} {
		answer := get(t, handler(t, newWorld()), "/q/github.com/acme/app/health.csv?branch=release%2F1.2"+query)
		unit, rest, _ := strings.Cut(answer.Body.String(), ",")
		if got := fmt.Sprint(unit, " ", strings.Count(rest, "\n")-1); got != want {
			t.Errorf("%q: %s bars, want %s", query, got, want)
		}
	}
	for _, query := range []string{"", "&from=x&until=y", "&from=1&until=0", "&from=-5&until=5", "&from=0&until=99999999999", "&from=0&until=9999999999999999999", "&from=1&until=1"} {
		if answer := get(t, handler(t, newWorld()), "/q/github.com/acme/app/endings?branch=release%2F1.2"+query); answer.Code != http.StatusNotFound {
			t.Errorf("endings %q: status %d", query, answer.Code)
		}
	}
	w := newWorld()
	w.counting = true
	if page := get(t, handler(t, w), everyPage["health"]).Body.String(); !strings.Contains(page, "still being counted") {
		t.Error("the page does not say that its numbers are not complete")
	}
}

// Nothing leaves its chart, a column is as high as what it stands for, and
// where there is no value there is no point.
func TestChartsShowWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	for _, most := range []float64{0, 1, 3, 7, 99, 12345, 3e6} {
		times := []string{"a", "b", "c"}
		values := []float64{0, most, most / 2}
		c := barChart("x", "X", times, []series{{"s", "good", values}, {"t", "bad", values}}, make([]string, 3), times)
		if c.Empty != (most == 0) {
			t.Errorf("%v: empty is %t", most, c.Empty)
		}
		top := float64(c.Bars[0].Height)
		height := func(i int) (sum float64) {
			for _, s := range c.Bars[i].Segments {
				if s.Y < chartTop-0.1 || s.Y+s.Height > chartHeight-chartBottom+0.1 || s.X < c.Bars[i].X || s.X+s.Width > c.Bars[i].X+c.Bars[i].Width {
					t.Errorf("%v: a segment leaves its column: %+v", most, s)
				}
				sum += s.Height
			}
			return sum
		}
		if most > 0 && (height(0) != 0 || math.Abs(height(1)-2*height(2)) > 0.5 || height(1) < top/2) {
			t.Errorf("%v: columns of %v, %v and %v", most, height(0), height(1), height(2))
		}
		if n := len(c.Ticks); n < 2 || n > 6 {
			t.Errorf("%v: %d numbers on the axis", most, n)
		}
		l := lineChart("x", "X", times, []series{{"s", "good", values}})
		if dots := len(l.Lines[0].Dots); most > 0 && dots != 2 || most == 0 && dots != 0 {
			t.Errorf("%v: %d points", most, dots)
		}
		if n := len(l.Ticks); n < 2 || n > 6 {
			t.Errorf("%v seconds: %d numbers on the axis", most, n)
		}
	}
	broken := lineChart("x", "X", []string{"a", "b", "c", "d"}, []series{{"s", "good", []float64{5, 0, 5, 5}}})
	if path := broken.Lines[0].Points; strings.Count(path, "M") != 2 || strings.Count(path, "L") != 1 {
		t.Errorf("a line over a gap: %s", path)
	}
}
