package texts

import (
	"fmt"
	"strings"
	"time"

	"signalbox/queue"
)

// Checkbox is in the line of the sticky comment whose box submits.
const Checkbox = "<!-- signalbox:submit -->"

// StickyMarker is how the sticky comment is found again.
const StickyMarker = "<!-- signalbox:sticky -->"

// Sticky is the comment that always tells how things are.
func Sticky(v View) string {
	var b lines

	b.line(StickyMarker)
	b.line("**Signalbox: %s** · %s", headline(v.Entry), v.queuePage())
	b.line("")
	b.line("%s", statusText(v))
	if v.Queue.CommandsEnabled && offered(v.Entry) {
		b.line("")
		b.line("- [ ] %s Queue this pull request again", Checkbox)
	}
	if v.Queue.CommandsEnabled && v.Entry.State != queue.Merged {
		b.line("")
		b.line("<details><summary>Commands</summary>")
		b.line("")
		b.line("%s", v.Site.commands())
		b.line("")
		b.line("</details>")
	}
	return b.String()
}

// offered reports whether the box that queues a pull request again is shown:
// it left the queue, and was open when it did. The host's word that it is
// merged may come after ours, so ours decides.
func offered(e queue.Entry) bool {
	return e.State.Final() && e.State != queue.Merged && e.Open && !e.Merged && !e.Stacked()
}

// Layer is the sticky comment on a pull request that is in the stack of
// another: how that stands, and where to read more.
func Layer(v View, l queue.Layer) string {
	var b lines

	top := link(fmt.Sprintf("PR %d", v.Entry.Number), v.page())
	b.line(StickyMarker)
	b.line("**Signalbox: in the stack of %s: %s** · %s", top, headline(v.Entry), v.queuePage())
	b.line("")
	switch {
	case v.Entry.Active():
		b.line("This pull request is queued as part of a stack, which is tested as a whole and lands as one. Commands here are about the whole stack.")
		b.line("")
		b.line("- Commit: %s", short(l.BoundHead))
	case v.Entry.State == queue.Merged:
		b.line("The stack has landed on %s as %s, and this pull request with it.", quoted(v.Queue.Branch), short(v.Entry.LandedCommit))
	default:
		b.line("The stack left the queue because %s (%s), and this pull request with it.", ended(v.Entry).what, v.reason())
	}
	return b.String()
}

// stackLine names what lands together with a pull request; "" = nothing.
func stackLine(v View) string {
	var names []string
	for _, l := range v.Entry.Stack {
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
func statusText(v View) string {
	if v.Entry.Active() {
		return activeText(v)
	}
	return endedText(v)
}

// activeText tells what is happening to an entry and what it waits for.
func activeText(v View) string {
	var b lines

	switch {
	case v.Entry.State == queue.NotReady:
		b.line("It gets in line as soon as all of this holds:")
		b.line("")
		for _, c := range v.Explained.Conditions {
			if !afterAdmission[c.Name] {
				b.line("- %s %s", mark(c.Met), prose(c.Message))
			}
		}
		b.line("")
		if !v.Explained.Until.IsZero() {
			b.line("It leaves the queue if that is not so by %s.", dayTime(v.Explained.Until))
			b.line("")
		}
	case v.Explained.WaitsFor != "":
		b.line("%s%s", prose(v.Explained.WaitsFor), until(v.Explained.Until))
		b.line("")
	}
	b.line("- Commit: %s", short(v.Entry.BoundHead))
	if stack := stackLine(v); stack != "" {
		b.line("- Its stack, which lands with it: %s", stack)
	}
	if v.Explained.Position > 0 {
		b.line("- Place in line: %d (at %s)", v.Explained.Position, clockTime(v.Now))
	}
	if run := v.runID(); run != "" {
		b.line("- Tested %s", testedIn(v, run))
	}
	if !v.Explained.EstimatedMergeAt.IsZero() {
		b.line("- Estimated to merge: %s", estimate(v.Explained.EstimatedMergeAt, v.Now))
	}
	if v.Entry.Priority != queue.Medium {
		b.line("- Priority: %s", queue.PriorityName(v.Entry.Priority))
	}
	b.line("- %s", link("Details and history", v.page()))
	return strings.TrimRight(b.String(), "\n")
}

// afterAdmission are the conditions that matter only once an entry is in line.
var afterAdmission = map[string]bool{"tested": true, "first_in_line": true, "queue_lands": true}

// endedText tells how a submission ended and what to do now.
func endedText(v View) string {
	var b lines

	t := ended(v.Entry)
	switch v.Entry.State {
	case queue.Merged:
		b.line("Merged into %s because %s.", quoted(v.Queue.Branch), t.what)
	default:
		b.line("It left the queue because %s (%s).", t.what, v.reason())
	}
	if v.Entry.Message != "" && t.calls || v.Entry.Reason == queue.CancelledByUser && v.Entry.State == queue.Cancelled {
		b.line("")
		b.line("> %s", prose(v.Entry.Message))
	}
	b.line("")
	if next := nextStep(v); next != "" {
		b.line("**What to do:** %s", next)
		b.line("")
	}
	if v.Entry.LandedCommit != "" {
		b.line("- Landed as %s", short(v.Entry.LandedCommit))
	}
	b.line("- Commit: %s", short(v.Entry.BoundHead))
	if run := v.runID(); run != "" {
		b.line("- Tested %s", testedIn(v, run))
	}
	b.line("- %s", link("Details and history", v.page()))
	return strings.TrimRight(b.String(), "\n")
}

// testedIn says in which run an entry was tested, and together with whom: those
// ahead, and the others of its group. They are linked to our pages: a link to
// the host's would write a reference into each of them.
func testedIn(v View, id queue.RunID) string {
	in := "in " + link("this test run", v.Site.Run(v.Queue.Repo, v.Queue.Branch, id))
	if v.Run == nil {
		return in
	}
	const most = 20
	var names []string
	for _, step := range v.Run.Chain {
		if step.Entry == v.Entry.ID {
			continue
		}
		if len(names) == most {
			names = append(names, "others")
			break
		}
		names = append(names, link(fmt.Sprintf("PR %d", step.PR), v.Site.PR(v.Queue.Repo, v.Queue.Branch, step.PR)))
	}
	if len(names) == 0 {
		return "on " + quoted(v.Queue.Branch) + " alone, " + in
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
