package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/flaky"
	"signalbox/queue"
)

// The pages of tests: who sees them, who decides, and that what they show is
// what is so.

const testsPage = "/q/github.com/acme/app/tests"

func TestPagesOfTestsAreForReaders(t *testing.T) {
	t.Parallel()
	w := town()
	stranger, reader := guarded(t, w), guarded(t, w)
	stranger.comeIn(eve, "/")
	reader.comeIn(rhea, "/")
	for _, page := range []string{"tests", "test_flaky", "test_decided", "uploads", "upload"} {
		if answer := reader.get(everyPage[page]); answer.Code != http.StatusOK {
			t.Errorf("%s: status %d for a reader", page, answer.Code)
		} else if body := answer.Body.String(); strings.Contains(body, `method="post" action="/q`) {
			t.Errorf("%s: a reader is offered deeds", page)
		}
		if answer := stranger.get(everyPage[page]); answer.Code != http.StatusNotFound {
			t.Errorf("%s: status %d for a stranger", page, answer.Code)
		}
	}
	if body := stranger.get("/").Body.String(); strings.Contains(body, "acme/bare") {
		t.Error("a stranger sees a repository without a queue")
	}
	// The tests of one repository are not found in another.
	for _, page := range []string{"tests/" + testNumber(1).String(), "uploads/13"} {
		if answer := reader.get("/q/github.com/acme/bare/" + page); answer.Code != http.StatusNotFound {
			t.Errorf("%s of another repository: status %d", page, answer.Code)
		}
	}
	for _, path := range []string{"tests/x", "tests/06CB6DB5-F807-5198-B072-AF67A0636F8A0", "tests/urn:uuid:06cb6db5-f807-5198-b072-000000000001", "uploads/x", "uploads/-1", "uploads/99999999999999999999"} {
		if answer := reader.get("/q/github.com/acme/app/" + path); answer.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, answer.Code)
		}
	}
}

func TestPeopleDecideAboutTests(t *testing.T) {
	t.Parallel()
	test := everyPage["test_flaky"]
	always := url.Values{"setting": {"ALWAYS_QUARANTINE"}, "owner": {" @ann "}, "reason": {"it waits for a port"}, "until": {"2026-03-11"}}
	without := func(name string) url.Values {
		form := url.Values{}
		for k, v := range always {
			form[k] = v
		}
		form.Del(name)
		return form
	}
	with := func(name, value string) url.Values {
		form := without(name)
		form.Set(name, value)
		return form
	}
	for _, tt := range []struct {
		name, who, path string
		form            url.Values
		status          int
		want            string // what was done
	}{
		{"a writer quarantines", will, test, always, 303, "ALWAYS_QUARANTINE @ann it waits for a port until 2026-03-12 by @will"},
		{"a writer lets it never be excused", will, test, with("setting", "NEVER_QUARANTINE"), 303, "NEVER_QUARANTINE  it waits for a port until 0001-01-01 by @will"},
		{"a writer takes it back", will, test, url.Values{"setting": {"AUTO_QUARANTINE"}}, 303, "AUTO_QUARANTINE   until 0001-01-01 by @will"},
		{"a reader may not", rhea, test, always, 403, ""},
		{"a stranger finds nothing", eve, test, always, 404, ""},
		{"without an owner", will, test, without("owner"), 400, "Who repairs it: say who will repair the test."},
		{"without a reason", will, test, without("reason"), 400, "Reason: say why its failures may be ignored."},
		{"without an end", will, test, without("until"), 400, "Until: say until when its failures may be ignored."},
		{"with an end that is no day", will, test, with("until", "soon"), 400, "Until: say until when"},
		{"with an end in the past", will, test, with("until", "2026-02-27"), 400, "Until: is in the past."},
		{"for too long", will, test, with("until", "2026-12-01"), 400, "Until: at most 180 days from now."},
		{"with a reason that is too long", will, test, with("reason", strings.Repeat("x", longestWhy+1)), 400, "The owner can have"},
		{"without a choice", will, test, without("setting"), 400, "Choose whether"},
		{"with a choice that is none", will, test, with("setting", "SOMETIMES"), 400, "Choose whether"},
		{"about a test that is not there", will, testsPage + "/" + testNumber(99).String(), always, 404, ""},
		{"an administrator switches", ada, testsPage, url.Values{"automatic": {"off"}}, 303, "@ada false"},
		{"a writer may not switch", will, testsPage, url.Values{"automatic": {"off"}}, 403, ""},
		{"a switch that is none", ada, testsPage, url.Values{"automatic": {"maybe"}}, 400, "can be on or off"},
		{"an administrator makes a queue", ada, "/q/github.com/acme/BARE/create", url.Values{"branch": {" main "}}, 303, "main of github.com/acme/bare in 1 by @ada, squash"},
		{"a writer may not make one", will, "/q/github.com/acme/bare/create", url.Values{"branch": {"main"}}, 403, ""},
		{"a stranger may not make one", eve, "/q/github.com/acme/bare/create", url.Values{"branch": {"main"}}, 404, ""},
		{"a queue that there is", ada, "/q/github.com/acme/bare/create", url.Values{"branch": {"taken"}}, 409, "There is a queue for that branch already."},
		{"a queue without a branch", ada, "/q/github.com/acme/bare/create", url.Values{"branch": {" "}}, 400, "Name the branch"},
		{"a branch with NUL", ada, "/q/github.com/acme/bare/create", url.Values{"branch": {"a\x00b"}}, 400, "Name the branch"},
	} {
		w := town()
		v := guarded(t, w)
		v.comeIn(tt.who, "/")
		form := url.Values{"csrf": {v.csrf("/")}}
		for k, values := range tt.form {
			form[k] = values
		}
		if answer := v.post(tt.path, nil); answer.Code == http.StatusSeeOther {
			t.Errorf("%s: without a token of the page", tt.name)
		}
		if answer := v.post(tt.path, form, "Sec-Fetch-Site", "cross-site"); answer.Code != http.StatusForbidden {
			t.Errorf("%s: from another site: status %d", tt.name, answer.Code)
		}
		answer := v.post(tt.path, form)
		var done []string
		for _, o := range w.tests.overrides {
			done = append(done, fmt.Sprintf("%s %s %s until %s by %s", o.Setting, o.Owner, o.Reason, o.Expires.Format(time.DateOnly), o.Actor))
		}
		got := strings.Join(append(append(done, w.tests.switched...), w.tests.created...), ", ")
		if answer.Code != http.StatusSeeOther {
			if got != "" {
				t.Errorf("%s: refused, and done: %s", tt.name, got)
			}
			got = readable(answer.Body.String())
		}
		if answer.Code != tt.status || !strings.Contains(got, tt.want) || answer.Code == 303 && got != tt.want {
			t.Errorf("%s: status %d, %q; want %d, %q", tt.name, answer.Code, got, tt.status, tt.want)
		}
		if to := answer.Header().Get("Location"); answer.Code == 303 && !strings.Contains(to, "done=") {
			t.Errorf("%s: led to %q", tt.name, to)
		}
	}
}

// Every page of a list leads to the next one, and keeps what was searched for.
func TestAListOfTestsIsWalked(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.tests.cases = nil
	const all = 2*testsShown + 7
	for n := range int64(all) {
		w.tests.cases = append(w.tests.cases, flaky.TestCase{Number: -n, ID: testNumber(n), StatusAt: noon.Add(-time.Duration(n) * time.Minute), Test: flaky.Test{Name: fmt.Sprintf("walks %d", n)}})
	}
	h := handler(t, w)
	name := regexp.MustCompile(`walks \d+`)
	seen := map[string]bool{}
	path, pages := testsPage+"?text=walks&show=all", 0
	for ; path != ""; pages++ {
		body := get(t, h, path).Body.String()
		for _, n := range name.FindAllString(body, -1) {
			if seen[n] {
				t.Errorf("%s is on two pages", n)
			}
			seen[n] = true
		}
		path = ""
		if m := regexp.MustCompile(`<a class="button" href="([^"]*)">More</a>`).FindStringSubmatch(body); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
			if !strings.Contains(path, "text=walks") || !strings.Contains(path, "show=all") {
				t.Errorf("led to %s", path)
			}
		}
	}
	if len(seen) != all || pages != 3 {
		t.Errorf("%d tests on %d pages", len(seen), pages)
	}
	for query, want := range map[string]flaky.Filter{
		"": {Show: flaky.ShowNotable}, "show=x&after=x": {Show: flaky.ShowNotable}, "after=5": {Show: flaky.ShowNotable}, "after=-5-1": {Show: flaky.ShowNotable},
		"after=99999999999999999999-1": {Show: flaky.ShowNotable}, "text=%00&owner=%ff": {Show: flaky.ShowNotable},
		"show=broken&text=+a+&owner=@b": {Show: flaky.ShowBroken, Text: "a", Owner: "@b"},
		"after=1772366400000000-7":      {Show: flaky.ShowNotable, After: flaky.Mark{At: noon, Number: 7}},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := filterOf(values); got.Show != want.Show || got.Text != want.Text || got.Owner != want.Owner || !got.After.At.Equal(want.After.At) || got.After.Number != want.After.Number {
			t.Errorf("%q asks for %+v, want %+v", query, got, want)
		}
	}
}

func TestAListOfReportsIsWalked(t *testing.T) {
	t.Parallel()
	repo := queue.Repo{Host: "github.com", Owner: "acme", Name: "app"}
	var list []flaky.UploadDetails
	for n := range int64(uploadsShown + 1) {
		list = append(list, flaky.UploadDetails{Upload: flaky.Upload{ID: 1000 - n}})
	}
	first := viewUploads(repo, list, 0, true, noon)
	if len(first.Rows) != uploadsShown || first.Older != "/q/github.com/acme/app/uploads?show=troubled&below=951" || first.First != "" {
		t.Errorf("%d rows, older at %q, first at %q", len(first.Rows), first.Older, first.First)
	}
	last := viewUploads(repo, list[uploadsShown:], 951, false, noon)
	if len(last.Rows) != 1 || last.Older != "" || last.First != "/q/github.com/acme/app/uploads" {
		t.Errorf("%d rows, older at %q, first at %q", len(last.Rows), last.Older, last.First)
	}
	u := flaky.UploadDetails{Upload: flaky.Upload{ID: 5}, Entered: noon, Failures: make([]flaky.UploadFailure, failedOfOne+1)}
	if v := viewUpload(repo, &u, 0, noon); len(v.Failures) != failedOfOne || v.Next != "/q/github.com/acme/app/uploads/5?from=100" || v.First != "" {
		t.Errorf("%d failures, then %q", len(v.Failures), v.Next)
	}
	if v := viewUpload(repo, &u, failedOfOne, noon); len(v.Failures) != 1 || v.Next != "" || v.First == "" {
		t.Errorf("%d failures, then %q", len(v.Failures), v.Next)
	}
}

// A report says for itself whether it can prove anything.
func TestWhatAReportProves(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*flaky.UploadDetails){
		"":                    func(u *flaky.UploadDetails) {},
		"from a fork":         func(u *flaky.UploadDetails) { u.Fork = true },
		"without a token":     func(u *flaky.UploadDetails) { u.Trusted = false },
		"outside the tests":   func(u *flaky.UploadDetails) { u.Infrastructure = true },
		"happened to the run": func(u *flaky.UploadDetails) { u.Failed = 16 },
		"counts for nothing":  func(u *flaky.UploadDetails) { u.Infrastructure, u.Fork = true, true },
	} {
		u := flaky.UploadDetails{Upload: flaky.Upload{Sent: flaky.Sent{Trusted: true}}, Entered: noon, Tests: 100, Failed: 15}
		change(&u)
		if got := noEvidence(&u); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// A small picture shows each day in its place, and a single failure is seen.
func TestTheSmallPictureOfATest(t *testing.T) {
	t.Parallel()
	today := noon.Truncate(24 * time.Hour)
	s, sum := sparkOf([]flaky.DayTally{
		{Day: today.AddDate(0, 0, -20), Tally: flaky.Tally{Runs: 9, Failures: 9}}, // too old
		{Day: today.AddDate(0, 0, -13), Tally: flaky.Tally{Runs: 4, Failures: 4}},
		{Day: today.AddDate(0, 0, -1), Tally: flaky.Tally{Runs: 5000, Failures: 1}},
		{Day: today, Tally: flaky.Tally{Runs: 3}},
	}, noon)
	if sum != (flaky.Tally{Runs: 5007, Failures: 5}) || s.Says != "Failures of 14 days: 5 of 5007, on 2 days" {
		t.Errorf("%+v: %s", sum, s.Says)
	}
	var bars []string
	for _, b := range s.Bars {
		if b.Look != "none" {
			bars = append(bars, fmt.Sprintf("%s %d %d", b.Look, b.X/sparkStep, b.Height))
		}
		if b.Y < 0 || b.Y+b.Height > s.Height || b.X+sparkBarW > s.Width {
			t.Errorf("outside: %+v", b)
		}
	}
	if got := strings.Join(bars, ", "); got != "ran 0 20, bad 0 20, ran 12 20, bad 12 4, ran 13 20" || len(s.Bars) != 16 {
		t.Errorf("bars: %s", got)
	}
}

// Each code that says why a failure counts or not has its words.
func TestEveryDecisionHasItsWords(t *testing.T) {
	t.Parallel()
	for _, code := range []flaky.QuarantineCode{flaky.SetAlways, flaky.SetNever, flaky.AutomaticOn, flaky.SuspendedBroken, flaky.RepositoryOff, flaky.NotEnough,
		flaky.NotFlaky, flaky.NewFailure, flaky.KnownFailure} {
		if decisions[code] == "" {
			t.Errorf("%s has none", code)
		}
	}
	for _, s := range flaky.Shows {
		if showNames[s] == "" {
			t.Errorf("the list %s has no name", s)
		}
	}
	if got := decisionText("A_NEW_CODE"); got != "a new code" {
		t.Errorf("an unknown code is %q", got)
	}
}
