package web

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
	"signalbox/queue/texts"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

func get(t testing.TB, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

var everyPage = map[string]string{
	"overview":         "/",
	"queue":            "/q/github.com/acme/app?branch=release/1.2",
	"queue_empty":      "/q/github.com/acme/app?branch=main",
	"repository":       "/q/github.com/acme/app",
	"pr_testing":       "/q/github.com/acme/app/pr/12?branch=release%2F1.2",
	"pr_not_ready":     "/q/github.com/acme/app/pr/15?branch=release%2F1.2",
	"pr_failed":        "/q/github.com/acme/app/pr/9?branch=release%2F1.2",
	"pr_merged":        "/q/github.com/acme/app/pr/8?branch=release%2F1.2",
	"run":              "/q/github.com/acme/app/run/run-two?branch=release%2F1.2",
	"health":           "/q/github.com/acme/app/health?branch=release%2F1.2",
	"health_hours":     "/q/github.com/acme/app/health?branch=release%2F1.2&range=1d",
	"endings":          "/q/github.com/acme/app/endings?branch=release%2F1.2&from=1772323200&until=1772409600",
	"no_such_time":     "/q/github.com/acme/app/endings?branch=release%2F1.2&from=5&until=4",
	"settings":         "/q/github.com/acme/app/settings?branch=release%2F1.2",
	"never_submitted":  "/q/github.com/acme/app/pr/99?branch=release%2F1.2",
	"no_such_page":     "/etc/passwd",
	"no_such_branch":   "/q/github.com/acme/app?branch=nope",
	"no_such_run":      "/q/github.com/acme/app/run/x?branch=main",
	"no_such_repo":     "/q/github.com/acme/none",
	"no_queue_in_repo": "/q/github.com/acme/bare",
	"tests":            "/q/github.com/acme/app/tests",
	"tests_searched":   "/q/github.com/acme/app/tests?show=all&text=greets",
	"tests_none":       "/q/github.com/acme/bare/tests",
	"test_flaky":       "/q/github.com/acme/app/tests/" + testNumber(1).String(),
	"test_decided":     "/q/github.com/acme/app/tests/" + testNumber(2).String(),
	"test_broken":      "/q/github.com/acme/app/tests/" + testNumber(3).String(),
	"no_such_test":     "/q/github.com/acme/app/tests/" + testNumber(9).String(),
	"uploads":          "/q/github.com/acme/app/uploads",
	"upload":           "/q/github.com/acme/app/uploads/13",
	"upload_waiting":   "/q/github.com/acme/app/uploads/14",
	"no_such_upload":   "/q/github.com/acme/app/uploads/99",
}

// What a reader of each page reads, without the markup, stands in testdata:
// review it as prose. "go test ./web -rewrite" writes it anew.
func TestPagesReadAsTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	h := handler(t, newWorld())
	for name, path := range everyPage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := get(t, h, path)
			got := fmt.Sprintf("%d\n%s", w.Code, readable(w.Body.String()))
			golden := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s reads differently (-want +got):\n%s", path, diff)
			}
		})
	}
}

var (
	blocks = regexp.MustCompile(`</?(h1|h2|h3|p|li|tr|div|dt|dd|section|header|ol|ul|text|summary|form|fieldset|legend|option)\b[^>]*>`)
	spoken = regexp.MustCompile(`<title>[^<]*</title>`) // of a shape in a picture
	cells  = regexp.MustCompile(`</t[dh]>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`[ \t]+`)
	lines  = regexp.MustCompile(` ?\n[ \n]*`)
)

func readable(page string) string {
	_, page, _ = strings.Cut(page, "<body")
	_, page, _ = strings.Cut(page, ">")
	page = spoken.ReplaceAllString(page, "")
	page = strings.ReplaceAll(page, "\n", " ")
	page = cells.ReplaceAllString(blocks.ReplaceAllString(page, "\n"), " | ")
	page = html.UnescapeString(tags.ReplaceAllString(page, " "))
	return strings.TrimSpace(lines.ReplaceAllString(spaces.ReplaceAllString(page, " "), "\n")) + "\n"
}

// ourScript is the one script of a page.
var ourScript = regexp.MustCompile(`<script src="/assets/[0-9a-f]{12}\.js" defer></script>`)

func TestNothingThatAPullRequestSaysBecomesMarkup(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.queues[2].StateWhy, w.s.Queue.StateWhy = hostile, hostile
	w.s.Queue.Branch = hostile
	for i := range w.entries {
		w.entries[i].URL, w.entries[i].HeadRef, w.entries[i].SubmittedBy.Login = "javascript:alert(1)", hostile, hostile
	}
	w.ended[0].Message, w.ended[0].URL = hostile, "data:text/html,<script>alert(1)</script>"
	for _, e := range w.s.Entries {
		e.URL, e.MergeabilityWhy, e.Mergeability, e.Author.Login = "javascript:alert(1)", hostile, queue.NotMergeable, hostile
	}
	for _, r := range w.s.Runs {
		r.Branch, r.Message = hostile, hostile
		for key, report := range r.Checks {
			report.Name, report.URL, report.Result = hostile, "javascript:alert(1)", hostile
			r.Checks[key] = report
		}
		r.Required[0].Name = hostile
	}
	h := handler(t, w)
	for name, path := range everyPage {
		body := ourScript.ReplaceAllString(get(t, h, path).Body.String(), "")
		for _, bad := range []string{"<script", "<img src=x", `href="javascript:`, `href="data:`, "style="} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
	}
	if body := get(t, h, everyPage["queue"]).Body.String(); !strings.Contains(body, "&lt;script&gt;") {
		t.Error("the hostile title is not shown at all")
	}
}

func TestPagesLoadNothingFromElsewhereAndRunOneScriptOfOurs(t *testing.T) {
	t.Parallel()
	h := handler(t, newWorld())
	loads := regexp.MustCompile(`(?:src|<link[^>]*href)="([^"]*)"`)
	for name, path := range everyPage {
		w := get(t, h, path)
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: content security policy %q", name, csp)
		}
		if n := strings.Count(w.Body.String(), "<script"); w.Code != http.StatusFound && n != 1 {
			t.Errorf("%s has %d scripts", name, n)
		}
		found := loads.FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != http.StatusFound && len(found) == 0 {
			t.Errorf("%s has no style", name)
		}
		for _, m := range found {
			if a := get(t, h, m[1]); !strings.HasPrefix(m[1], "/assets/") || a.Code != http.StatusOK {
				t.Errorf("%s loads %s: status %d", name, m[1], a.Code)
			}
		}
	}
}

func TestEveryLinkThatWePostLeadsToItsPage(t *testing.T) {
	t.Parallel()
	const base = "https://signalbox.example.com/"
	w := newWorld()
	q := w.s.Queue
	posted := texts.Site{Base: base}
	for _, tt := range []struct{ page, ours, posted string }{
		{"queue", QueueURL(base, q.Repo, q.Branch), posted.Queue(q.Repo, q.Branch)},
		{"pull request", PRURL(base, q.Repo, q.Branch, 12), posted.PR(q.Repo, q.Branch, 12)},
		{"run", RunURL(base, q.Repo, q.Branch, "run-two"), posted.Run(q.Repo, q.Branch, "run-two")},
		{"test", TestURL(base, q.Repo, testNumber(1).String()), posted.Test(q.Repo, testNumber(1).String())},
	} {
		if tt.ours != tt.posted {
			t.Errorf("%s: the page is at %s, comments link to %s", tt.page, tt.ours, tt.posted)
		}
		if got := get(t, handler(t, w), tt.posted); got.Code != http.StatusOK {
			t.Errorf("%s: status %d for %s", tt.page, got.Code, tt.posted)
		}
	}
}

func TestARepositoryWithOneQueueLeadsToIt(t *testing.T) {
	t.Parallel()
	w := get(t, handler(t, newWorld()), "/q/github.com/Acme/LIB")
	if w.Code != http.StatusFound || w.Header().Get("Location") != "/q/github.com/acme/lib?branch=main" {
		t.Errorf("status %d, location %q", w.Code, w.Header().Get("Location"))
	}
}

func TestWhatCannotBeShownSaysSo(t *testing.T) {
	t.Parallel()
	broken := newWorld()
	broken.broken = errors.New("dial tcp 10.0.0.7: password of signalbox is wrong")
	tests := []struct {
		name, method, path string
		store              Store
		status             int
	}{
		{"a pull request that is no number", "GET", "/q/github.com/acme/app/pr/x?branch=main", newWorld(), 404},
		{"a negative pull request", "GET", "/q/github.com/acme/app/pr/-1?branch=main", newWorld(), 404},
		{"a number that is too large", "GET", "/q/github.com/acme/app/pr/99999999999999999999?branch=main", newWorld(), 404},
		{"NUL in a branch", "GET", "/q/github.com/acme/app?branch=a%00b", newWorld(), 404},
		{"a branch that is not text", "GET", "/q/github.com/acme/app?branch=%ff", newWorld(), 404},
		{"an empty branch", "GET", "/q/github.com/acme/app?branch=", newWorld(), 404},
		{"a path that looks like another host", "GET", "//evil.example/", newWorld(), 404},
		{"an unknown asset", "GET", "/assets/../web.go", newWorld(), 404},
		{"POST", "POST", "/", newWorld(), 405},
		{"a store that is down", "GET", "/", broken, 503},
		{"a store that is down, for a queue", "GET", everyPage["queue"], broken, 503},
		{"a store that is down, for a pull request", "GET", everyPage["pr_testing"], broken, 503},
		{"a store that is down, for a run", "GET", everyPage["run"], broken, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			handler(t, tt.store).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), "<h1>") {
				t.Errorf("status %d, want %d and a page: %s", w.Code, tt.status, w.Body)
			}
			if strings.Contains(w.Body.String(), "password") {
				t.Error("the reader sees the operator's detail")
			}
		})
	}
}

// Whoever waits sees with whom they will be tested, and a long list is cut
// where that is still seen.
func TestPendingSaysWhoWillBeTestedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.s.Queue.Batch, w.s.Queue.BatchingMinSize = true, 3
	for n := range int64(5) { // behind #14, which is older
		e := w.add(20+n, "Wait", queue.Pending, queue.NowReady, 2-int(n)/3)
		e.NoBatch = n == 4
		e.AdmittedAt = e.AdmittedAt.Add(time.Duration(n) * time.Second)
	}
	var got []string
	for _, r := range viewQueue(w.s, nil, false, noon).Pending.Rows {
		text := fmt.Sprintf("%d: %d of %d", r.PR.Number, r.Batch, r.Size)
		if r.Opens {
			text += " first"
		}
		got = append(got, text)
	}
	if want := "14: 1 of 3 first, 20: 1 of 3, 21: 1 of 3, 22: 2 of 2 first, 23: 2 of 2, 24: 3 of 1 first"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	for n := range int64(listedAtOnce) {
		w.add(100+n, "Wait", queue.Pending, queue.NowReady, 1)
	}
	if v := viewQueue(w.s, nil, false, noon); len(v.Pending.Rows) != listedAtOnce || v.Pending.Count != listedAtOnce+6 || v.Pending.All == "" {
		t.Errorf("%d of %d are listed, and all at %q", len(v.Pending.Rows), v.Pending.Count, v.Pending.All)
	}
	if v := viewQueue(w.s, nil, true, noon); len(v.Pending.Rows) != listedAtOnce+6 || v.Pending.All != "" {
		t.Errorf("of all, %d are listed", len(v.Pending.Rows))
	}
}

// A stack says of how many it is, and what is in it.
func TestAStackSaysWhatIsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.s.ByPR(12).Stack = []queue.Layer{
		{PullRequest: queue.PullRequest{Number: 70, Title: hostile, URL: "https://github.com/acme/app/pull/70"}},
		{PullRequest: queue.PullRequest{Number: 71, Title: "The upper floor", URL: "javascript:alert(1)"}},
	}
	h := handler(t, w)
	page := get(t, h, everyPage["pr_testing"]).Body.String()
	for _, want := range []string{"stack of 3", `href="https://github.com/acme/app/pull/70"`, "The upper floor", "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, `"javascript:`) {
		t.Error("a layer's address is a script")
	}
	if answer := get(t, h, "/q/github.com/acme/app/pr/70?branch=release%2F1.2"); answer.Header().Get("Location") != everyPage["pr_testing"] {
		t.Errorf("#70 is in the stack of #12, and its page is at %q", answer.Header().Get("Location"))
	}
	if page := get(t, h, everyPage["queue"]).Body.String(); !strings.Contains(page, "stack of 3") {
		t.Error("the queue's page does not say that it is a stack")
	}
}

func TestTimesAreSaidInTheUnitThatMatters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ago  time.Duration
		want string
	}{
		{0, "now"}, {400 * time.Millisecond, "now"}, {5 * time.Second, "5 s ago"}, {-90 * time.Second, "in 1 min"},
		{59 * time.Minute, "59 min ago"}, {3*time.Hour + 5*time.Minute, "3 h 5 min ago"}, {-72 * time.Hour, "in 3 days"},
	} {
		if got := at(noon.Add(-tt.ago), noon).Text; got != tt.want {
			t.Errorf("%s ago: %q, want %q", tt.ago, got, tt.want)
		}
	}
	if got := guess(noon.Add(-time.Hour), noon).Text + ", " + guess(noon.Add(90*time.Second), noon).Text; got != "soon, in 1 min" {
		t.Errorf("guesses are %s", got)
	}
	if got := at(time.Time{}, noon); got != (moment{}) {
		t.Errorf("no time is %+v", got)
	}
}

func TestEveryStateHasItsWord(t *testing.T) {
	t.Parallel()
	for _, s := range queue.EntryStates {
		if _, ok := entryBadges[s]; !ok {
			t.Errorf("entry state %s has none", s)
		}
	}
	for _, s := range queue.States {
		if _, ok := queueBadges[s]; !ok {
			t.Errorf("queue state %s has none", s)
		}
	}
	if got := look(queueBadges, "a_new_state"); got != (badge{"a new state", "off"}) {
		t.Errorf("a state that nobody knows is %+v", got)
	}
}

// A queue of five hundred: its page, and the page with all of them.
func BenchmarkQueueOfFiveHundred(b *testing.B) {
	w := newWorld()
	for i := range 500 {
		w.add(int64(1000+i), "A title of usual length, more or less", queue.Pending, queue.NowReady, 5)
	}
	h := handler(b, w)
	for name, path := range map[string]string{"first hundred": everyPage["queue"], "all": everyPage["queue"] + "&all=1"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				get(b, h, path)
			}
		})
	}
}
