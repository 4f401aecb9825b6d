package engine

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/queue"
)

// The texts on a pull request, one file each in testdata/texts: a change of a
// word shows there, and is to be judged as prose.

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// viewOf is pull request 7 in a state, with what the states have in common.
func viewOf(state queue.EntryState, why queue.Reason, message string) view {
	run := &queue.Run{
		ID: "8d2f5c1e", Members: []queue.EntryID{"e7"}, Chain: []queue.Step{{Entry: "e7", Submission: 2, PR: 7, Head: "1a2b3c4d5e"}}, Commit: "4f00ba9c11",
		Required: []queue.Required{{Name: "build"}, {Name: "test (linux)"}, {Name: "lint"}},
		Checks: map[string]queue.Report{
			"a": {Kind: queue.CheckRun, Name: "build", ID: 1, Status: "completed", Result: "success", URL: "https://ci.example.com/1"},
			"b": {Kind: queue.CheckRun, Name: "test (linux)", ID: 2, Status: "completed", Result: "failure", URL: "https://ci.example.com/2"},
			"c": {Kind: queue.CommitStatus, Name: "lint", ID: 3, Result: "error", URL: "javascript:alert(1)"},
		},
	}
	return view{
		queue: testQueue(1, "main"), run: run, links: Links{Base: "https://signalbox.example.com"}, now: noon,
		entry: queue.Entry{
			ID: "e7", Submission: 2, State: state, Reason: why, Message: message, Priority: queue.Medium,
			PullRequest: queue.PullRequest{Number: 7, Title: "Add a door", Author: queue.Actor{Login: "wil", ID: 2}, Head: "1a2b3c4d5e", Base: "main", Open: true},
			BoundHead:   "1a2b3c4d5e", SubmittedBy: queue.Actor{Login: "wil", ID: 2}, StateChangedAt: noon,
		},
	}
}

func with(v view, change func(*view)) view {
	change(&v)
	return v
}

// ahead has the run include two others before pull request 7.
func ahead(v *view) {
	v.run.Chain = append([]queue.Step{{Entry: "e3", PR: 3}, {Entry: "e5", PR: 5}}, v.run.Chain...)
}

// stack has pull request 7 stand on 5, which somebody else wrote.
func stack(v *view) { v.entry.Stack = []queue.Layer{layer5} }

var layer5 = queue.Layer{
	PullRequest: queue.PullRequest{Number: 5, Author: queue.Actor{Login: "bob", ID: 8}, Open: true, Base: "main", HeadRef: "bob/first"}, BoundHead: "55aa55aa55",
}

var texts = []struct {
	name string
	text string
}{
	{"sticky-not-ready", stickyText(with(viewOf(queue.NotReady, queue.SubmittedByUser, ""), func(v *view) {
		v.run = nil
		v.x.WaitsFor = "A review is missing."
		v.x.Until = noon.Add(48 * time.Hour)
		v.x.Conditions = []queue.Condition{
			{Name: "queue_admits", Met: true, Message: "The queue admits pull requests."},
			{Name: "mergeable", Met: false, Message: "An approving review by @acme/owners is missing."},
			{Name: "tested", Met: false, Message: "It has not been tested yet."},
		}
	}))},
	{"sticky-pending", stickyText(with(viewOf(queue.Pending, queue.NowReady, ""), func(v *view) {
		v.run, v.x.Position, v.entry.Priority = nil, 3, queue.High
		v.x.WaitsFor = "It waits for one of 2 testing slots."
		v.x.EstimatedMergeAt = noon.Add(40 * time.Minute)
	}))},
	{"sticky-testing", stickyText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *view) {
		ahead(v)
		v.x.Position = 3
		v.x.WaitsFor = "Required checks still running or missing on 4f00ba9: test (linux) and lint."
		v.x.Until = noon.Add(5 * time.Hour)
	}))},
	{"sticky-testing-alone", stickyText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *view) {
		v.x.Position, v.x.WaitsFor = 1, "Required checks still running or missing on 4f00ba9: lint."
		v.x.EstimatedMergeAt = noon.Add(-time.Hour) // an estimate that has passed
	}))},
	{"sticky-passed", stickyText(with(viewOf(queue.TestsPassed, queue.TestRunPassed, ""), func(v *view) {
		ahead(v)
		v.x.Position, v.x.WaitsFor = 3, "It passed and lands as soon as everything ahead of it has landed or left."
	}))},
	{"sticky-pending-failure", stickyText(with(viewOf(queue.PendingFailure, queue.RequiredStatusFailed, ""), func(v *view) {
		ahead(v)
		v.x.Position = 3
		v.x.WaitsFor = "Its tests failed. Whether that is its own fault is decided when everything ahead of it has landed or left."
	}))},
	{"sticky-merged", stickyText(with(viewOf(queue.Merged, queue.MergedByQueue, "Landed on main as 4f00ba9."), func(v *view) {
		v.entry.LandedCommit, v.entry.Merged, v.entry.Open = "4f00ba9c11", true, false
	}))},
	{"sticky-failed", stickyText(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint."))},
	{"sticky-cancelled", stickyText(viewOf(queue.Cancelled, queue.CancelledByUser, "Cancelled by @ada."))},
	{"sticky-pushed-to", stickyText(with(viewOf(queue.Cancelled, queue.PRPushedTo, "A push changed the head from 1a2b3c4 to 9f8e7d6 after the pull request was queued."), func(v *view) { v.entry.Head = "9f8e7d6c" }))},
	{"sticky-stack", stickyText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), stack))},
	{"sticky-in-stack", layerText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), stack), layer5)},
	{"sticky-in-stack-merged", layerText(with(viewOf(queue.Merged, queue.MergedByQueue, "Landed on main as 4f00ba9."), func(v *view) { stack(v); v.entry.LandedCommit = "4f00ba9c11" }), layer5)},
	{"sticky-in-stack-failed", layerText(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: lint."), stack), layer5)},
	{"notice-stack", noticeText(with(viewOf(queue.Cancelled, queue.StackMemberChanged, "#5, which is in its stack, was closed."), stack))},
	{"sticky-commands-off", stickyText(with(viewOf(queue.Failed, queue.MergeConflict, "README.md conflicts with main."), func(v *view) { v.queue.CommandsEnabled = false }))},
	{"sticky-without-links", stickyText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *view) { ahead(v); v.links = Links{} }))},
	{"sticky-hostile", stickyText(with(viewOf(queue.Failed, queue.LandingRefused, hostile), func(v *view) {
		v.queue.Branch = "a`b/@team"
		v.entry.BoundHead = "`@me"
	}))},
	{"notice-hostile", noticeText(with(viewOf(queue.Failed, queue.RequiredStatusFailed, hostile), func(v *view) {
		v.entry.Author.Login = "evil @everybody"
		v.entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
		v.run.Checks["b"] = queue.Report{Kind: queue.CheckRun, Name: "test (linux)", ID: 2, Status: "completed", Result: "failure", URL: "https://ci.example.com/)<img src=x>[a](b) @x"}
	}))},
	{"notice-failed-tests", noticeText(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint. test (linux): 4 tests failed that quarantine does not excuse: TestPay, TestSearch, TestIndex and TestCache."), failedInTests))},
	{"sticky-waits-for-results", stickyText(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *view) {
		v.x.WaitsFor = "test (linux) failed on 4f00ba9. It counts as passed if test results come and everything that failed is quarantined."
		v.x.Until = noon.Add(2 * time.Minute)
	}))},
	{"notice-bot-author", noticeText(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: lint."), func(v *view) {
		v.entry.Author = queue.Actor{Login: "dependabot[bot]", ID: 49, Bot: true}
		v.entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
	}))},
	{"notice-somebody-else-submitted", noticeText(with(viewOf(queue.Failed, queue.MergeConflict, "README.md conflicts with main."), func(v *view) {
		v.entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
	}))},
	{"status-queued", statusLine(with(viewOf(queue.Pending, queue.NowReady, ""), func(v *view) { v.run, v.x.Position, v.x.WaitsFor = nil, 3, "It waits for one of 2 testing slots." }))},
	{"status-in-progress", statusLine(with(viewOf(queue.Testing, queue.TestRunStarted, ""), ahead))},
	{"status-success", statusLine(viewOf(queue.Merged, queue.MergedByQueue, ""))},
	{"status-failure", statusLine(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint."))},
	{"status-cancelled", statusLine(viewOf(queue.Cancelled, queue.PRPushedTo, "A push changed the head."))},
	{"status-overtaken", fmt.Sprintf("%+v\n", overtakenStatus(viewOf(queue.NotReady, queue.SubmittedByUser, ""), "0011223344"))},
}

// failedInTests has results of the check "test (linux)", in two uploads.
func failedInTests(v *view) {
	test := func(name string, quarantined, newly bool, s queue.Standing) queue.FailingTest {
		return queue.FailingTest{Name: name, Quarantined: quarantined, NewFailure: newly, Standing: s}
	}
	v.run.Results = []queue.TestResults{
		{Check: "test (linux)", Job: "a", Attempt: 1, Upload: 1, Complete: true, Failed: 3, Blocking: 2, Failing: []queue.FailingTest{
			test("TestPay", false, false, queue.NewlyFailing), test("TestSearch [`a` @wil #12]", false, false, queue.KnownFlaky), test("TestLogin", true, false, queue.KnownFlaky)}},
		{Check: "test (linux)", Job: "b", Attempt: 1, Upload: 2, Complete: true, Failed: 12, Blocking: 10, Failing: []queue.FailingTest{
			test("TestIndex", false, false, queue.FailingOnBase), test("TestCache", true, true, queue.KnownFlaky)}},
		{Check: "lint", Job: "d", Attempt: 1, Upload: 4, Failed: 1, Failing: []queue.FailingTest{test("TestLogin", true, false, queue.KnownFlaky)}},
		{Check: "other", Job: "c", Attempt: 1, Upload: 3, Complete: true, Failed: 1, Failing: []queue.FailingTest{test("TestOther", true, false, queue.KnownFlaky)}},
	}
}

const hostile = "- @team see #12 and acme/app#3, **bold** [x](javascript:alert(1)) <script>alert(1)</script> https://evil.example www.evil.example `code` \n# heading\r\n- [ ] <!-- signalbox:submit --> \u202ereversed\u0000 $x$ ![i](u) &lt; | a | b |"

func statusLine(v view) string {
	s := statusOf(v)
	return fmt.Sprintf("commit: %s\nname: %s\nstatus: %s\nconclusion: %s\nurl: %s\ntitle: %s\n\n%s\n", s.Commit, s.Name, s.Status, s.Conclusion, s.URL, s.Title, s.Summary)
}

func TestTextsReadAsTheyShould(t *testing.T) {
	t.Parallel()
	for _, x := range texts {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			golden(t, "texts/"+x.name+".md", x.text)
		})
	}
	for _, tr := range queue.Transitions {
		for _, why := range tr.Reasons {
			if v := viewOf(tr.To, why, "This is what happened, with #12 and @wil."); tr.To.Final() && ended(v.entry).calls {
				t.Run(fmt.Sprintf("notice-%s-%s", tr.To, why), func(t *testing.T) {
					golden(t, fmt.Sprintf("texts/notice-%s-%s.md", tr.To, strings.ToLower(strings.ReplaceAll(string(why), "_", "-"))), noticeText(v))
				})
			}
		}
	}
}

func TestEveryEndingHasAText(t *testing.T) {
	t.Parallel()
	for _, tr := range queue.Transitions {
		if !tr.To.Final() {
			continue
		}
		for _, why := range tr.Reasons {
			text, ok := endings[tr.To][why]
			if !ok {
				t.Errorf("the ending %s with %s has no text", tr.To, why)
			}
			if text.calls && text.next == "" {
				t.Errorf("the ending %s with %s calls the author and does not say what to do", tr.To, why)
			}
			if tr.To == queue.Failed && !text.calls {
				t.Errorf("the ending %s with %s leaves the author uncalled", tr.To, why)
			}
		}
	}
}

// What others write can hold anything. In our comments none of it may call
// people, refer to pull requests, or become markup.
func FuzzTextsOfOthersAreInert(f *testing.F) {
	f.Add(hostile)
	f.Add("``` @a ``")
	f.Add("`")
	f.Add("1. one\n2. two")
	f.Add("\\@a \\\\#1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range prose(text) {
			if r == '\n' || r == '\r' || r == 0 {
				t.Fatalf("prose(%q) has a line break", text)
			}
		}
		if bad := loud.FindString(prose(text)); bad != "" {
			t.Errorf("prose(%q) has %q in it", text, bad)
		}
		q := quoted(text)
		if q == "(empty)" {
			return
		}
		fence := q[:len(q)-len(strings.TrimLeft(q, "`"))]
		inside := strings.TrimSuffix(strings.TrimPrefix(q, fence), fence)
		for _, run := range backticks.FindAllString(inside, -1) {
			if run == fence {
				t.Errorf("quoted(%q) = %q ends too early", text, q)
			}
		}
		if strings.ContainsAny(q, "\n\r\x00") {
			t.Errorf("quoted(%q) has a line break", text)
		}
	})
}

var (
	// loud is what GitHub or Markdown would act upon.
	loud      = regexp.MustCompile("@[A-Za-z0-9]|#[0-9]|(^|[^\\\\])(\\\\\\\\)*[`*_<>|\\[\\]]|https?://|www\\.[a-z]")
	backticks = regexp.MustCompile("`+")
)

func TestOnlyWebAddressesBecomeLinks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://ci.example.com/run/1?a=b#c":    "https://ci.example.com/run/1?a=b#c",
		"http://ci.example.com/(1)":             "http://ci.example.com/%281%29",
		"javascript:alert(1)":                   "",
		"data:text/html,x":                      "",
		"//ci.example.com/":                     "",
		"https://user:secret@ci.example.com/":   "",
		"https://ci.example.com/a b":            "https://ci.example.com/a%20b",
		"https://ci.example.com/<img>":          "https://ci.example.com/%3Cimg%3E",
		"https:///nowhere":                      "",
		"":                                      "",
		"https://x.example/" + long(3000, "a"):  "",
		"https://ci.example.com/\n[x](y)":       "",
		"https://ci.example.com/grüße":          "https://ci.example.com/gr%C3%BC%C3%9Fe",
		"https://ci.example.com/a](javascript:": "https://ci.example.com/a%5D%28javascript:",
	} {
		if got := outside(address); got != want {
			t.Errorf("outside(%q) = %q, want %q", address, got, want)
		}
	}
}

func TestOnlyLoginsAreMentioned(t *testing.T) {
	t.Parallel()
	for login, want := range map[string]string{"wil": "@wil", "Ada-L": "@Ada-L", "emu_corp": "@emu_corp", "": "", "a b": "", "acme/team": "", "x[bot]": "", long(40, "a"): ""} {
		if got := mention(login, false); got != want {
			t.Errorf("mention(%q) = %q, want %q", login, got, want)
		}
	}
	if got := mention("wil", true); got != "" {
		t.Errorf("a bot is mentioned as %q, want not at all", got)
	}
}

func TestLongTextsOfOthersAreCut(t *testing.T) {
	t.Parallel()
	if got := len([]rune(quoted(long(5000, "é")))); got != mostQuoted+3 { // the fence and the ellipsis
		t.Errorf("a long name is shown in %d characters, want %d", got, mostQuoted+3)
	}
	if got := len([]rune(prose(long(5000, "é")))); got != mostProse+1 {
		t.Errorf("a long sentence is shown in %d characters, want %d", got, mostProse+1)
	}
}

func TestLinksKeepBranchesInTheQuery(t *testing.T) {
	t.Parallel()
	l := Links{Base: "https://signalbox.example.com/"}
	repo := queue.Repo{Host: "github.com", Owner: "acme", Name: "app"}
	for got, want := range map[string]string{
		l.Queue(repo, "release/1.0 &x"): "https://signalbox.example.com/q/github.com/acme/app?branch=release%2F1.0+%26x",
		l.PR(repo, "main", 7):           "https://signalbox.example.com/q/github.com/acme/app/pr/7?branch=main",
		l.Run(repo, "main", "r/1?"):     "https://signalbox.example.com/q/github.com/acme/app/run/r%2F1%3F?branch=main",
		(Links{}).Queue(repo, "main"):   "",
	} {
		if got != want {
			t.Errorf("link = %q, want %q", got, want)
		}
	}
}

func long(n int, s string) string { return strings.Repeat(s, n) }
