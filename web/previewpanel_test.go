package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

// Whoever may read the settings can ask what others would have done. The answer
// stands beside what happened, and what was asked stays in the form.
func TestWhatOtherSettingsWouldHaveDone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var asked []queue.Settings
	quiet := false
	h, err := New(Config{Store: w, Clock: func() time.Time { return noon }, Preview: func(_ context.Context, q queue.Queue, changed queue.Settings) (queue.Preview, error) {
		asked = append(asked, changed)
		if quiet {
			return queue.Preview{}, queue.ErrNoHistory
		}
		f := queue.Figures{Merged: 35, Failed: 5, P50: 61*time.Minute + 20*time.Second, Runs: 1.4567, CIMinutes: 20.04, MostWaiting: 12}
		p := queue.Preview{Replayed: 40, LeftOut: 2, Happened: f, AsIs: f, Changed: f}
		p.Changed.P50 = 17 * time.Minute
		return p, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	get := func(more string) (int, string) {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, settingsPage+more, nil))
		return answer.Code, answer.Body.String()
	}
	if code, page := get(""); code != 200 || !strings.Contains(page, "Replay the last week") || len(asked) > 0 {
		t.Errorf("before anybody asks: status %d, %d replays", code, len(asked))
	}
	code, page := get("&preview=yes&concurrency=4&batch=true&mode=parallel&batchingMinSize=8")
	for _, want := range []string{"40 pull requests of the last week (2 older ones are left out)", "<code>concurrency</code> 4 instead of 2", "1 h 1 min", "17 min", "1.46", "20.0",
		`id="preview-concurrency" name="concurrency" value="4"`, `id="preview-batch" name="batch" value="true" checked`} {
		if code != 200 || !strings.Contains(page, want) {
			t.Errorf("status %d, the page does not say %q", code, want)
		}
	}
	if s := asked[0]; s.Concurrency != 4 || !s.Batch || s.Mode != queue.Parallel || s.BatchingMinSize != 8 || s.TestingTimeoutMinutes != 300 {
		t.Errorf("asked with %+v", s)
	}
	if code, page := get("&preview=yes&concurrency=0"); code != http.StatusBadRequest || !strings.Contains(page, "whole number") || len(asked) > 1 {
		t.Errorf("a wrong number: status %d", code)
	}
	quiet = true
	if code, page := get("&preview=yes"); code != 200 || !strings.Contains(page, "Nothing landed or failed its tests") {
		t.Errorf("no history: status %d", code)
	}
	if len(w.wishes) > 0 {
		t.Errorf("asking changed something: %v", wishes(w))
	}
}
