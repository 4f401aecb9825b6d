package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/queue"
)

// badge is a word with a colour. The word alone says everything.
type badge struct {
	Text string
	Look string // good, bad, busy, wait or off: a class of the style sheet
}

var entryBadges = map[queue.EntryState]badge{
	queue.NotReady:       {"not ready", "wait"},
	queue.Pending:        {"pending", "wait"},
	queue.Testing:        {"testing", "busy"},
	queue.TestsPassed:    {"tests passed", "good"},
	queue.PendingFailure: {"failed, cause unclear", "bad"},
	queue.Merged:         {"merged", "good"},
	queue.Failed:         {"failed", "bad"},
	queue.Cancelled:      {"cancelled", "off"},
	queue.Never:          {"never submitted", "off"},
}

var queueBadges = map[queue.State]badge{
	queue.Running:        {"running", "good"},
	queue.Paused:         {"paused", "bad"},
	queue.Draining:       {"draining", "wait"},
	queue.SwitchingModes: {"switching modes", "wait"},
}

var runBadges = map[queue.RunState]badge{
	queue.Building:    {"building", "busy"},
	queue.RunTesting:  {"testing", "busy"},
	queue.RunPassed:   {"passed", "good"},
	queue.RunFailed:   {"failed", "bad"},
	queue.Interrupted: {"interrupted", "off"},
	queue.Stopped:     {"stopped", "off"},
}

var verdictBadges = map[queue.Verdict]badge{
	queue.VerdictWaiting:     {"waiting", "wait"},
	queue.VerdictPassed:      {"passed", "good"},
	queue.VerdictFailed:      {"failed", "bad"},
	queue.VerdictInterrupted: {"interrupted", "off"},
}

// look finds a value's badge; one that has none is shown as it is.
func look[K ~string](badges map[K]badge, value K) badge {
	if b, ok := badges[value]; ok {
		return b
	}
	return badge{strings.ReplaceAll(string(value), "_", " "), "off"}
}

var sources = map[queue.RequiredSource]string{
	queue.FromQueue:      "the queue's settings",
	queue.FromConfigFile: "the configuration file of the repository",
	queue.FromProtection: "branch protection and rulesets",
}

var methods = map[queue.MergeMethod]string{
	queue.MergeCommit: "merge commit", queue.Squash: "squash", queue.Rebase: "rebase",
}

// sentence makes a reason code readable: "PR_CLOSED" is "Pr closed".
func sentence(code queue.Reason) string {
	words := strings.ToLower(strings.ReplaceAll(string(code), "_", " "))
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// moment is a time as people read it, with the exact one beside it.
type moment struct {
	Text  string // "4 min ago"
	Exact string // for the hover text
	ISO   string // for machines; "" = there is no time
}

// at says when t is, seen from now. The zero time is no moment.
func at(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	text := "now"
	switch d := now.Sub(t); {
	case d >= time.Second:
		text = length(d) + " ago"
	case d <= -time.Second:
		text = "in " + length(-d)
	}
	return moment{Text: text, Exact: t.Format("2006-01-02 15:04:05 UTC"), ISO: t.Format(time.RFC3339)}
}

// guess says when something will probably be. One that is overdue is not said
// to have been.
func guess(t, now time.Time) moment {
	m := at(t, now)
	if !t.IsZero() && t.Before(now.Add(time.Second)) {
		m.Text = "soon"
	}
	return m
}

// length is a duration in the one unit that matters.
func length(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour && d%time.Hour < time.Minute:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

// code is a commit or a tree, short, with its page on the host if there is one.
type code struct {
	Short, Whole, URL string
}

// commit names a commit. The host's address of it is found from that of a pull
// request of the same repository, because we know no other one.
func commit(sha, prURL string) code {
	c := code{Whole: sha, Short: sha[:min(len(sha), 10)]}
	if i := strings.LastIndex(prURL, "/pull/"); i > 0 && sha != "" {
		c.URL = prURL[:i] + "/commit/" + sha
	}
	return c
}

// tree names a tree; hosts have no page of one.
func tree(sha string) code { return commit(sha, "") }

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
