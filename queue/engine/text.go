package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// Every text that people read on a pull request is made in text.go, check.go,
// reply.go and endings.go, by pure functions whose output is kept in testdata.

// Marker is in every comment of ours, so that what we wrote is recognised.
const Marker = "<!-- signalbox:"

// Checkbox is in the line of the sticky comment whose box submits.
const Checkbox = "<!-- signalbox:submit -->"

// stickyMarker is how the sticky comment is found again.
const stickyMarker = "<!-- signalbox:sticky -->"

// endedMarker is how the comment on one ending is found again: there is never
// a second one.
func endedMarker(e queue.Entry) string {
	return fmt.Sprintf("<!-- signalbox:ended:%s:%d -->", e.ID, e.Submission)
}

// stickyText is the comment that always tells how things are.
func stickyText(v view) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line(stickyMarker)
	line("**Signalbox: %s** · %s", headline(v.entry), link("queue of "+quoted(v.queue.Branch), v.links.Queue(v.queue.Repo, v.queue.Branch)))
	line("")
	line("%s", statusText(v))
	if v.queue.CommandsEnabled && offered(v.entry) {
		line("")
		line("- [ ] %s Queue this pull request again", Checkbox)
	}
	if v.queue.CommandsEnabled && v.entry.State != queue.Merged {
		line("")
		line("<details><summary>Commands</summary>")
		line("")
		line("%s", commandsText)
		line("")
		line("</details>")
	}
	return b.String()
}

// offered reports whether the box that queues a pull request again is shown:
// it left the queue, and was open when it did. The host's word that it is
// merged may come after ours, so ours decides.
func offered(e queue.Entry) bool {
	return e.State.Final() && e.State != queue.Merged && e.Open && !e.Merged && !e.Stacked()
}

// layerText is the sticky comment on a pull request that is in the stack of
// another: how that stands, and where to read more.
func layerText(v view, l queue.Layer) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	top := link(fmt.Sprintf("PR %d", v.entry.Number), v.page())
	line(stickyMarker)
	line("**Signalbox: in the stack of %s: %s** · %s", top, headline(v.entry), link("queue of "+quoted(v.queue.Branch), v.links.Queue(v.queue.Repo, v.queue.Branch)))
	line("")
	switch {
	case v.entry.Active():
		line("This pull request is queued as part of a stack, which is tested as a whole and lands as one. Commands here are about the whole stack.")
		line("")
		line("- Commit: %s", short(l.BoundHead))
	case v.entry.State == queue.Merged:
		line("The stack has landed on %s as %s, and this pull request with it.", quoted(v.queue.Branch), short(v.entry.LandedCommit))
	default:
		line("The stack left the queue because %s (`%s`), and this pull request with it.", ended(v.entry).what, v.entry.Reason)
	}
	return b.String()
}

// stackLine names what lands together with a pull request; "" = nothing.
func stackLine(v view) string {
	var names []string
	for _, l := range v.entry.Stack {
		if !l.Merged {
			names = append(names, fmt.Sprintf("PR %d at %s", l.Number, short(l.BoundHead)))
		}
	}
	return strings.Join(names, ", ")
}

// headline is an entry's state in a few words.
func headline(e queue.Entry) string {
	switch e.State {
	case queue.NotReady:
		return "waiting until it is ready"
	case queue.Pending:
		return "in line"
	case queue.Testing:
		return "testing"
	case queue.TestsPassed:
		return "tests passed, waiting to land"
	case queue.PendingFailure:
		return "tests failed, finding out why"
	case queue.Merged:
		return "merged"
	case queue.Failed:
		return "failed"
	case queue.Cancelled:
		return "cancelled"
	default:
		return "not queued"
	}
}

// statusText is how things are, without the frame of the sticky comment; the
// answer to "status" is this too.
func statusText(v view) string {
	if v.entry.Active() {
		return activeText(v)
	}
	return endedText(v)
}

// activeText tells what is happening to an entry and what it waits for.
func activeText(v view) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	switch {
	case v.entry.State == queue.NotReady:
		line("It gets in line as soon as all of this holds:")
		line("")
		for _, c := range v.x.Conditions {
			if !afterAdmission[c.Name] {
				line("- %s %s", mark(c.Met), prose(c.Message))
			}
		}
		line("")
		if !v.x.Until.IsZero() {
			line("It leaves the queue if that is not so by %s.", dayTime(v.x.Until))
			line("")
		}
	case v.x.WaitsFor != "":
		line("%s%s", prose(v.x.WaitsFor), until(v.x.Until))
		line("")
	}
	line("- Commit: %s", short(v.entry.BoundHead))
	if stack := stackLine(v); stack != "" {
		line("- Its stack, which lands with it: %s", stack)
	}
	if v.x.Position > 0 {
		line("- Place in line: %d (at %s)", v.x.Position, clockTime(v.now))
	}
	if run := v.runID(); run != "" {
		line("- Tested %s", testedIn(v, run))
	}
	if !v.x.EstimatedMergeAt.IsZero() {
		line("- Estimated to merge: %s", estimate(v.x.EstimatedMergeAt, v.now))
	}
	if v.entry.Priority != queue.Medium {
		line("- Priority: %s", queue.PriorityName(v.entry.Priority))
	}
	line("- %s", link("Details and history", v.page()))
	return strings.TrimRight(b.String(), "\n")
}

// afterAdmission are the conditions that matter only once an entry is in line.
var afterAdmission = map[string]bool{"tested": true, "first_in_line": true, "queue_lands": true}

// endedText tells how a submission ended and what to do now.
func endedText(v view) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	t := ended(v.entry)
	switch v.entry.State {
	case queue.Merged:
		line("Merged into %s because %s.", quoted(v.queue.Branch), t.what)
	default:
		line("It left the queue because %s (`%s`).", t.what, v.entry.Reason)
	}
	if v.entry.Message != "" && t.calls || v.entry.Reason == queue.CancelledByUser && v.entry.State == queue.Cancelled {
		line("")
		line("> %s", prose(v.entry.Message))
	}
	line("")
	if t.next != "" {
		line("**What to do:** %s", t.next)
		line("")
	}
	if v.entry.LandedCommit != "" {
		line("- Landed as %s", short(v.entry.LandedCommit))
	}
	line("- Commit: %s", short(v.entry.BoundHead))
	if run := v.runID(); run != "" {
		line("- Tested %s", testedIn(v, run))
	}
	line("- %s", link("Details and history", v.page()))
	return strings.TrimRight(b.String(), "\n")
}

// noticeText is the one new comment on an ending that the author has to know.
func noticeText(v view) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	t := ended(v.entry)
	line("%s", endedMarker(v.entry))
	what := "left the merge queue of"
	if v.entry.State == queue.Merged {
		what = "was merged into"
	}
	line("%sThis pull request %s %s because %s (`%s`).", callees(v.entry), what, quoted(v.queue.Branch), t.what, v.entry.Reason)
	failing := v.failing()
	if named := len(failing) > 0 && v.entry.Reason == queue.RequiredStatusFailed; v.entry.Message != "" && !named {
		line("")
		line("> %s", prose(v.entry.Message))
	}
	if len(failing) > 0 {
		line("")
		line("Failed checks:")
		for _, r := range failing {
			line("- %s: %s", link(quoted(r.Name), outside(r.URL)), prose(r.Result))
			b.WriteString(failedTests(v.run, r.Name))
		}
	}
	line("")
	line("**What to do:** %s", t.next)
	line("")
	line("%s", noticeFoot(v))
	return b.String()
}

// shownTests is how many tests of a check a comment lists.
const shownTests = 10

// failedTests lists the tests that failed under a check and what is known of
// each, as far as test results have come.
func failedTests(run *queue.Run, check string) string {
	tests, more := run.Tests(check)
	var b strings.Builder
	for _, t := range tests[:min(len(tests), shownTests)] {
		fmt.Fprintf(&b, "  - %s: %s\n", quoted(t.Name), known(t))
	}
	if more += int64(max(len(tests)-shownTests, 0)); more > 0 {
		fmt.Fprintf(&b, "  - and %d more\n", more)
	}
	if why := run.Unexplained(check); why != "" {
		fmt.Fprintf(&b, "  - %s\n", why)
	}
	return b.String()
}

// known says in words what is known of a test that failed.
func known(t queue.FailingTest) string {
	switch {
	case t.Excused():
		return "known flaky, and quarantined"
	case t.Quarantined:
		return "known flaky and quarantined, but it has never failed like this before"
	case t.Standing == queue.KnownFlaky:
		return "known flaky, not quarantined"
	case t.Standing == queue.FailingOnBase:
		return "also failing on the base"
	default:
		return "new"
	}
}

// noticeFoot says which commit it was, and where to read more.
func noticeFoot(v view) string {
	foot := "Commit " + short(v.entry.BoundHead)
	if run := v.runID(); run != "" {
		foot += ", tested " + testedIn(v, run)
	}
	return foot + ". " + link("Details and history", v.page()) + "."
}

// callees are the people a notice calls, each once: the authors, and who
// submitted it if that was somebody else.
func callees(e queue.Entry) string {
	var called []string
	call := func(a queue.Actor) {
		name := mention(a.Login, a.Bot)
		if name != "" && !slices.ContainsFunc(called, func(other string) bool { return strings.EqualFold(name, other) }) {
			called = append(called, name)
		}
	}
	call(e.Author)
	for _, l := range e.Stack {
		call(l.Author)
	}
	call(e.SubmittedBy)
	if len(called) == 0 {
		return ""
	}
	return strings.Join(called, " ") + " "
}

// testedIn says in which run an entry was tested, and together with whom: those
// ahead, and the others of its group. They are linked to our pages: a link to
// the host's would write a reference into each of them.
func testedIn(v view, id queue.RunID) string {
	in := "in " + link("this test run", v.links.Run(v.queue.Repo, v.queue.Branch, id))
	if v.run == nil {
		return in
	}
	const most = 20
	var names []string
	for _, step := range v.run.Chain {
		if step.Entry == v.entry.ID {
			continue
		}
		if len(names) == most {
			names = append(names, "others")
			break
		}
		names = append(names, link(fmt.Sprintf("PR %d", step.PR), v.links.PR(v.queue.Repo, v.queue.Branch, step.PR)))
	}
	if len(names) == 0 {
		return "on " + quoted(v.queue.Branch) + " alone, " + in
	}
	return "together with " + strings.Join(names, ", ") + ", " + in
}

func mark(met bool) string {
	if met {
		return "✓"
	}
	return "✗"
}

// until says when a wait ends by itself.
func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " That is waited for until " + dayTime(t) + "."
}

// estimate is a guess at a time; one that has passed is not shown as a time.
func estimate(t, now time.Time) string {
	if t.After(now) {
		return dayTime(t)
	}
	return "soon"
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04 UTC") }
func dayTime(t time.Time) string   { return t.UTC().Format("2 Jan 15:04 UTC") }
