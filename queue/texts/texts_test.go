package texts

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/gitprovider"
	"signalbox/queue"
)

var update = flag.Bool("update", false, "write the texts anew")

// golden compares a text with the file that keeps it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".md")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s reads differently (-want +got); if it reads better, go test -update:\n%s", path, diff)
	}
}

// The texts on a pull request, one file each in testdata: a change of a
// word shows there, and is to be judged as prose.

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// viewOf is pull request 7 in a state, with what the states have in common.
func viewOf(state queue.EntryState, why queue.Reason, message string) View {
	run := &queue.Run{
		ID: "8d2f5c1e", Members: []queue.EntryID{"e7"}, Chain: []queue.Step{{Entry: "e7", Submission: 2, PR: 7, Head: "1a2b3c4d5e"}}, Commit: "4f00ba9c11",
		Required: []queue.Required{{Name: "build"}, {Name: "test (linux)"}, {Name: "lint"}},
		Checks: map[string]queue.Report{
			"a": {Kind: queue.CheckRun, Name: "build", ID: 1, Status: "completed", Result: "success", URL: "https://ci.example.com/1"},
			"b": {Kind: queue.CheckRun, Name: "test (linux)", ID: 2, Status: "completed", Result: "failure", URL: "https://ci.example.com/2"},
			"c": {Kind: queue.CommitStatus, Name: "lint", ID: 3, Result: "error", URL: "javascript:alert(1)"},
		},
	}
	return View{
		Queue: mainQueue(), Run: run, Site: Site{Base: "https://signalbox.example.com"}, Now: noon,
		Entry: queue.Entry{
			ID: "e7", Submission: 2, State: state, Reason: why, Message: message, Priority: queue.Medium,
			PullRequest: queue.PullRequest{Number: 7, Title: "Add a door", Author: queue.Actor{Login: "wil", ID: 2}, Head: "1a2b3c4d5e", Base: "main", Open: true},
			BoundHead:   "1a2b3c4d5e", SubmittedBy: queue.Actor{Login: "wil", ID: 2}, StateChangedAt: noon,
		},
	}
}

// mainQueue is the queue of main, with what it has unless somebody sets it.
func mainQueue() queue.Queue {
	return queue.Queue{
		ID: 1, Branch: "main", State: queue.Running, Settings: queue.DefaultSettings(),
		Repo: queue.Repo{ID: 1, Host: "github.com", Owner: "acme", Name: "app", HostID: 11, Installation: 111},
	}
}

func with(v View, change func(*View)) View {
	change(&v)
	return v
}

// ahead has the run include two others before pull request 7.
func ahead(v *View) {
	v.Run.Chain = append([]queue.Step{{Entry: "e3", PR: 3}, {Entry: "e5", PR: 5}}, v.Run.Chain...)
}

// stack has pull request 7 stand on 5, which somebody else wrote.
func stack(v *View) { v.Entry.Stack = []queue.Layer{layer5} }

var layer5 = queue.Layer{
	PullRequest: queue.PullRequest{Number: 5, Author: queue.Actor{Login: "bob", ID: 8}, Open: true, Base: "main", HeadRef: "bob/first"}, BoundHead: "55aa55aa55",
}

var texts = []struct {
	name string
	text string
}{
	{"sticky-not-ready", Sticky(with(viewOf(queue.NotReady, queue.SubmittedByUser, ""), func(v *View) {
		v.Run = nil
		v.Explained.WaitsFor = "A review is missing."
		v.Explained.Until = noon.Add(48 * time.Hour)
		v.Explained.Conditions = []queue.Condition{
			{Name: "queue_admits", Met: true, Message: "The queue admits pull requests."},
			{Name: "mergeable", Met: false, Message: "An approving review by @acme/owners is missing."},
			{Name: "tested", Met: false, Message: "It has not been tested yet."},
		}
	}))},
	{"sticky-pending", Sticky(with(viewOf(queue.Pending, queue.NowReady, ""), func(v *View) {
		v.Run, v.Explained.Position, v.Entry.Priority = nil, 3, queue.High
		v.Explained.WaitsFor = "It waits for one of 2 testing slots."
		v.Explained.EstimatedMergeAt = noon.Add(40 * time.Minute)
	}))},
	{"sticky-testing", Sticky(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *View) {
		ahead(v)
		v.Explained.Position = 3
		v.Explained.WaitsFor = "Required checks still running or missing on 4f00ba9: test (linux) and lint."
		v.Explained.Until = noon.Add(5 * time.Hour)
	}))},
	{"sticky-testing-alone", Sticky(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *View) {
		v.Explained.Position, v.Explained.WaitsFor = 1, "Required checks still running or missing on 4f00ba9: lint."
		v.Explained.EstimatedMergeAt = noon.Add(-time.Hour) // an estimate that has passed
	}))},
	{"sticky-passed", Sticky(with(viewOf(queue.TestsPassed, queue.TestRunPassed, ""), func(v *View) {
		ahead(v)
		v.Explained.Position, v.Explained.WaitsFor = 3, "It passed and lands as soon as everything ahead of it has landed or left."
	}))},
	{"sticky-pending-failure", Sticky(with(viewOf(queue.PendingFailure, queue.RequiredStatusFailed, ""), func(v *View) {
		ahead(v)
		v.Explained.Position = 3
		v.Explained.WaitsFor = "Its tests failed. Whether that is its own fault is decided when everything ahead of it has landed or left."
	}))},
	{"sticky-merged", Sticky(with(viewOf(queue.Merged, queue.MergedByQueue, "Landed on main as 4f00ba9."), func(v *View) {
		v.Entry.LandedCommit, v.Entry.Merged, v.Entry.Open = "4f00ba9c11", true, false
	}))},
	{"sticky-failed", Sticky(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint."))},
	{"sticky-cancelled", Sticky(viewOf(queue.Cancelled, queue.CancelledByUser, "Cancelled by @ada."))},
	{"sticky-pushed-to", Sticky(with(viewOf(queue.Cancelled, queue.PRPushedTo, "A push changed the head from 1a2b3c4 to 9f8e7d6 after the pull request was queued."), func(v *View) { v.Entry.Head = "9f8e7d6c" }))},
	{"sticky-stack", Sticky(with(viewOf(queue.Testing, queue.TestRunStarted, ""), stack))},
	{"sticky-in-stack", Layer(with(viewOf(queue.Testing, queue.TestRunStarted, ""), stack), layer5)},
	{"sticky-in-stack-merged", Layer(with(viewOf(queue.Merged, queue.MergedByQueue, "Landed on main as 4f00ba9."), func(v *View) { stack(v); v.Entry.LandedCommit = "4f00ba9c11" }), layer5)},
	{"sticky-in-stack-failed", Layer(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: lint."), stack), layer5)},
	{"notice-stack", Notice(with(viewOf(queue.Cancelled, queue.StackMemberChanged, "#5, which is in its stack, was closed."), stack))},
	{"sticky-commands-off", Sticky(with(viewOf(queue.Failed, queue.MergeConflict, "README.md conflicts with main."), func(v *View) { v.Queue.CommandsEnabled = false }))},
	{"sticky-without-links", Sticky(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *View) { ahead(v); v.Site = Site{} }))},
	{"sticky-hostile", Sticky(with(viewOf(queue.Failed, queue.LandingRefused, hostile), func(v *View) {
		v.Queue.Branch = "a`b/@team"
		v.Entry.BoundHead = "`@me"
	}))},
	{"notice-hostile", Notice(with(viewOf(queue.Failed, queue.RequiredStatusFailed, hostile), func(v *View) {
		v.Entry.Author.Login = "evil @everybody"
		v.Entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
		v.Run.Checks["b"] = queue.Report{Kind: queue.CheckRun, Name: "test (linux)", ID: 2, Status: "completed", Result: "failure", URL: "https://ci.example.com/)<img src=x>[a](b) @x"}
	}))},
	{"notice-failed-tests", Notice(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint. test (linux): 4 tests failed that quarantine does not excuse: TestPay, TestSearch, TestIndex and TestCache."), failedInTests))},
	{"sticky-waits-for-results", Sticky(with(viewOf(queue.Testing, queue.TestRunStarted, ""), func(v *View) {
		v.Explained.WaitsFor = "test (linux) failed on 4f00ba9. It counts as passed if test results come and everything that failed is quarantined."
		v.Explained.Until = noon.Add(2 * time.Minute)
	}))},
	{"notice-bot-author", Notice(with(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: lint."), func(v *View) {
		v.Entry.Author = queue.Actor{Login: "dependabot[bot]", ID: 49, Bot: true}
		v.Entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
	}))},
	{"notice-somebody-else-submitted", Notice(with(viewOf(queue.Failed, queue.MergeConflict, "README.md conflicts with main."), func(v *View) {
		v.Entry.SubmittedBy = queue.Actor{Login: "ada", ID: 1}
	}))},
	{"status-queued", checkText(Status(with(viewOf(queue.Pending, queue.NowReady, ""), func(v *View) {
		v.Run, v.Explained.Position, v.Explained.WaitsFor = nil, 3, "It waits for one of 2 testing slots."
	})))},
	{"status-in-progress", checkText(Status(with(viewOf(queue.Testing, queue.TestRunStarted, ""), ahead)))},
	{"status-success", checkText(Status(viewOf(queue.Merged, queue.MergedByQueue, "")))},
	{"status-failure", checkText(Status(viewOf(queue.Failed, queue.RequiredStatusFailed, "Required checks failed: test (linux), lint.")))},
	{"status-cancelled", checkText(Status(viewOf(queue.Cancelled, queue.PRPushedTo, "A push changed the head.")))},
	{"status-overtaken", checkText(Overtaken(viewOf(queue.NotReady, queue.SubmittedByUser, ""), "0011223344"))},
	{"status-landing", checkText(Landing("main", "0011223344"))},
	{"landed", Landed("https://github.com/acme/app", "release/`x`", "4f00ba9c11")},
	{"draft-title", DraftTitle(draft) + "\n"},
	{"draft-body", DraftBody("https://github.com/acme/app", draft)},
	{"draft-body-enterprise", DraftBody("https://git.example.com/acme/app", draft)},
	{"labels", strings.Join(StateLabels(), "\n") + "\n"},
	{"replies", replies()},
}

// draft is a run of pull request 7, with 6 in its stack, behind 3.
var draft = queue.BuildRun{
	Run: "8d2f5c1e", Branch: "signalbox/pr-7/8d2f5c1e", Target: "main", Own: 1,
	Chain: []queue.StepSpec{{Step: queue.Step{PR: 3}}, {Step: queue.Step{PR: 7}, Stack: []queue.Under{{PR: 6}}}},
}

// replies are all answers to commands, one after the other.
func replies() string {
	urgent := queue.Command{Verb: queue.VerbMerge, PriorityGiven: true, Priority: queue.Urgent}
	pr := queue.PullRequest{Number: 7, Head: "1a2b3c4d5e"}
	five := queue.PullRequest{Number: 5, Head: "55aa55aa55"}
	six := queue.PullRequestSeen{PullRequest: queue.PullRequest{Number: 6}}
	var b strings.Builder
	for _, r := range []struct{ when, text string }{
		{"help", Reply("70:help:1", HelpReply(Site{Prefix: "/trunk"}))},
		{"a word that is no command", UsageReply(Site{}, queue.Command{Text: "/merge plaese @team", Problem: "The word plaese means nothing here."})},
		{"no write access", NotAllowedReply(queue.Command{Verb: queue.VerbMerge}, gitprovider.WritePermission)},
		{"urgent, and no administrator", NotAllowedReply(urgent, gitprovider.AdminPermission)},
		{"forced, and no administrator", NotAllowedReply(queue.Command{Verb: queue.VerbMerge, Force: true}, gitprovider.AdminPermission)},
		{"no read access", NotAllowedReply(queue.Command{Verb: queue.VerbHelp}, gitprovider.ReadPermission)},
		{"the host does not tell", NoRightsKnownReply("The App needs the permission metadata: read.")},
		{"no queue", NoQueueReply("wip/`@team`")},
		{"no queue beneath", NoQueueBeneathReply(5, "wip")},
		{"refused", RefusedReply(queue.Answer{Message: "#7 is queued already, in the stack of #9."})},
		{"two beneath", TwoBeneathReply(7, "topic", []queue.PullRequestSeen{{PullRequest: five}, six})},
		{"a circle", EndlessStackReply(20)},
		{"merged", MergedReply()},
		{"closed", ClosedReply()},
		{"queued", QueuedReply("main", queue.Submitted{PullRequest: pr})},
		{"a stack queued", QueuedReply("main", queue.Submitted{PullRequest: pr, Stack: []queue.PullRequest{five}})},
		{"cancelling", CancellingReply()},
		{"restarting", RestartingReply()},
		{"nothing to cancel", NothingToCancelReply()},
		{"nothing to restart", CannotRestartReply(nil)},
		{"too early to restart", CannotRestartReply(&queue.Entry{State: queue.Pending})},
		{"status", StatusReply(viewOf(queue.Testing, queue.TestRunStarted, ""))},
		{"status of nothing", NotSubmittedReply("main")},
	} {
		fmt.Fprintf(&b, "=== %s\n\n%s\n\n", r.when, strings.TrimSpace(r.text))
	}
	return b.String()
}

// failedInTests has results of the check "test (linux)", in two uploads.
func failedInTests(v *View) {
	test := func(name string, quarantined, newly bool, s queue.Standing) queue.FailingTest {
		return queue.FailingTest{ID: fmt.Sprintf("06cb6db5-f807-5198-b072-%012d", len(name)), Name: name, Quarantined: quarantined, NewFailure: newly, Standing: s}
	}
	v.Run.Results = []queue.TestResults{
		{Check: "test (linux)", Job: "a", Attempt: 1, Upload: 1, Complete: true, Failed: 3, Blocking: 2, Failing: []queue.FailingTest{
			test("TestPay", false, false, queue.NewlyFailing), test("TestSearch [`a` @wil #12]", false, false, queue.KnownFlaky), test("TestLogin", true, false, queue.KnownFlaky)}},
		{Check: "test (linux)", Job: "b", Attempt: 1, Upload: 2, Complete: true, Failed: 12, Blocking: 10, Failing: []queue.FailingTest{
			test("TestIndex", false, false, queue.FailingOnBase), test("TestCache", true, true, queue.KnownFlaky)}},
		{Check: "lint", Job: "d", Attempt: 1, Upload: 4, Failed: 1, Failing: []queue.FailingTest{test("TestLogin", true, false, queue.KnownFlaky)}},
		{Check: "other", Job: "c", Attempt: 1, Upload: 3, Complete: true, Failed: 1, Failing: []queue.FailingTest{test("TestOther", true, false, queue.KnownFlaky)}},
	}
}

const hostile = "- @team see #12 and acme/app#3, **bold** [x](javascript:alert(1)) <script>alert(1)</script> https://evil.example www.evil.example `code` \n# heading\r\n- [ ] <!-- signalbox:submit --> \u202ereversed\u0000 $x$ ![i](u) &lt; | a | b |"

func checkText(s gitprovider.Status) string {
	return fmt.Sprintf("commit: %s\nname: %s\nstatus: %s\nconclusion: %s\nurl: %s\ntitle: %s\n\n%s\n", s.Commit, s.Name, s.Status, s.Conclusion, s.URL, s.Title, s.Summary)
}

func TestTextsReadAsTheyShould(t *testing.T) {
	t.Parallel()
	for _, x := range texts {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			golden(t, x.name, x.text)
		})
	}
	for _, tr := range queue.Transitions {
		for _, why := range tr.Reasons {
			if v := viewOf(tr.To, why, "This is what happened, with #12 and @wil."); tr.To.Final() && ended(v.Entry).calls {
				t.Run(fmt.Sprintf("notice-%s-%s", tr.To, why), func(t *testing.T) {
					golden(t, fmt.Sprintf("notice-%s-%s", tr.To, strings.ToLower(strings.ReplaceAll(string(why), "_", "-"))), Notice(v))
				})
			}
		}
	}
}

// Our word that it landed may come before the host's that it is merged.
func TestNothingThatLandedIsOfferedAgain(t *testing.T) {
	t.Parallel()
	v := viewOf(queue.Merged, queue.MergedByQueue, "")
	if text := Sticky(v); strings.Contains(text, Checkbox) {
		t.Errorf("the box is shown though it landed:\n%s", text)
	}
}

// What is not in the table above nobody has read.
func TestEveryTextIsKept(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("texts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || strings.HasSuffix(file, "_test.go") || strings.HasSuffix(f.Name.Name, "Marker") {
				continue
			}
			if !slices.Contains([]string{"Look", "Calls", "StateLabel"}, f.Name.Name) && !bytes.Contains(tests, []byte(f.Name.Name+"(")) {
				t.Errorf("%s of %s is not among the texts that are kept", f.Name.Name, file)
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
	l := Site{Base: "https://signalbox.example.com/"}
	repo := queue.Repo{Host: "github.com", Owner: "acme", Name: "app"}
	for got, want := range map[string]string{
		l.Queue(repo, "release/1.0 &x"): "https://signalbox.example.com/q/github.com/acme/app?branch=release%2F1.0+%26x",
		l.PR(repo, "main", 7):           "https://signalbox.example.com/q/github.com/acme/app/pr/7?branch=main",
		l.Run(repo, "main", "r/1?"):     "https://signalbox.example.com/q/github.com/acme/app/run/r%2F1%3F?branch=main",
		(Site{}).Queue(repo, "main"):    "",
	} {
		if got != want {
			t.Errorf("link = %q, want %q", got, want)
		}
	}
}

func long(n int, s string) string { return strings.Repeat(s, n) }
