package texts

import (
	"fmt"
	"slices"
	"strings"

	"signalbox/queue"
)

// Calls reports whether an ending is one that its author has to hear of in a
// comment of its own, for which the host sends a mail.
func Calls(e queue.Entry) bool { return !e.Active() && ended(e).calls }

// EndedMarker is how the comment on one ending is found again: there is never
// a second one. What the host merges late may have ended before.
func EndedMarker(e queue.Entry) string {
	late := ""
	if e.Reason == queue.LandedLate {
		late = ":late"
	}
	return fmt.Sprintf("<!-- signalbox:ended:%s:%d%s -->", e.ID, e.Submission, late)
}

// Notice is the one new comment on an ending that the author has to know.
func Notice(v View) string {
	var b lines

	t := ended(v.Entry)
	b.line("%s", EndedMarker(v.Entry))
	what := "left the merge queue of"
	if v.Entry.State == queue.Merged {
		what = "was merged into"
	}
	b.line("%sThis pull request %s %s because %s (%s).", callees(v.Entry), what, quoted(v.Queue.Branch), t.what, v.reason())
	failing := v.failing()
	if named := len(failing) > 0 && v.Entry.Reason == queue.RequiredStatusFailed; v.Entry.Message != "" && !named {
		b.line("")
		b.line("> %s", prose(v.Entry.Message))
	}
	if len(failing) > 0 {
		b.line("")
		b.line("Failed checks:")
		for _, r := range failing {
			b.line("- %s: %s", link(quoted(r.Name), outside(r.URL)), prose(r.Result))
			b.WriteString(failedTests(v, r.Name))
		}
	}
	b.line("")
	b.line("**What to do:** %s", nextStep(v))
	b.line("")
	b.line("%s", noticeFoot(v))
	return b.String()
}

// shownTests is how many tests of a check a comment lists.
const shownTests = 10

// failedTests lists the tests that failed under a check and what is known of
// each, as far as test results have come.
func failedTests(v View, check string) string {
	tests, more := v.Run.Tests(check)
	var b strings.Builder
	for _, t := range tests[:min(len(tests), shownTests)] {
		fmt.Fprintf(&b, "  - %s: %s\n", link(quoted(t.Name), v.Site.Test(v.Queue.Repo, t.ID)), known(t))
	}
	if more += int64(max(len(tests)-shownTests, 0)); more > 0 {
		fmt.Fprintf(&b, "  - and %d more\n", more)
	}
	if why := v.Run.Unexplained(check); why != "" {
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
func noticeFoot(v View) string {
	foot := "Commit " + short(v.Entry.BoundHead)
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
