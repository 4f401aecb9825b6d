package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"signalbox/api"
)

// sight is a pull request at one moment.
type sight struct {
	api.Explanation
	run *api.Testing // that tests it; nil if none does
}

// sightOf asks for a pull request, and for the run that tests it.
func sightOf(ctx context.Context, q *api.Queue, number int) (sight, error) {
	var s sight
	if err := q.Call(ctx, "explainPullRequest", map[string]any{"pr": map[string]int{"number": number}}, &s.Explanation); err != nil {
		return s, err
	}
	if s.TestRunID == "" || api.Final(s.State) {
		return s, nil
	}
	var run api.Testing
	err := q.Call(ctx, "getMergeQueueTestingDetails", map[string]any{"testRunId": s.TestRunID}, &run)
	var refused *api.Error
	switch {
	case err == nil:
		s.run = &run
	case !errors.As(err, &refused) || refused.Status != http.StatusNotFound: // forgotten between the two questions
		return s, err
	}
	return s, nil
}

// standings says what each state means, after the number of a pull request.
var standings = map[string]string{
	"not_ready":       "is not ready yet",
	"pending":         "waits in line",
	"testing":         "is being tested",
	"tests_passed":    "has passed",
	"pending_failure": "has failed, and whose fault that is has to be found out",
	"merged":          "is merged",
	"failed":          "failed",
	"cancelled":       "was taken out of the queue",
}

// standing is the state in words; one that is not known is named.
func standing(state string) string {
	if words := standings[state]; words != "" {
		return words
	}
	return "is " + state
}

// summary says in two lines where a pull request stands.
func summary(q *api.Queue, p api.PullRequest) string {
	text := fmt.Sprintf("#%d %s%s (queue for %s of %s).\n", p.Number, standing(p.State), placed(p.Position), q.Branch, q.Repo())
	for _, c := range p.WaitingFor {
		if !c.Met && !p.Final() {
			return text + "  " + printable(c.Message) + "\n"
		}
	}
	if p.Final() {
		text += "  " + printable(p.Reason.Message) + "\n"
	}
	return text
}

func placed(position int64) string {
	if position == 0 {
		return ""
	}
	return fmt.Sprintf(", number %d in the queue", position)
}

// line is where the pull request stands, for a log.
func (s sight) line() string {
	text := fmt.Sprintf("#%d %s%s.", s.Number, standing(s.State), placed(s.Position))
	if why := s.why(); why != "" {
		text += " " + why
	}
	return text
}

// why is what it waits for, or how it ended.
func (s sight) why() string {
	if s.WaitsFor != "" {
		return printable(s.WaitsFor)
	}
	return printable(s.Reason.Message)
}

// block is the same for a terminal, in a few lines that are drawn again.
func (s sight) block(now time.Time) []string {
	lines := []string{fmt.Sprintf("#%d %s", s.Number, printable(s.Title))}
	state := standing(s.State) + placed(s.Position)
	if s.EstimatedAt != nil {
		state += ", merges " + about(*s.EstimatedAt, now)
	}
	lines = append(lines, "  "+strings.ToUpper(state[:1])+state[1:]+".")
	if why := s.why(); why != "" {
		lines = append(lines, "  "+why)
	}
	if with := s.with(); with != "" {
		lines = append(lines, "  Tested "+with+".")
	}
	if checks := s.checks(); checks != "" {
		lines = append(lines, "  Checks: "+checks)
	}
	return lines
}

// with is what it is tested with.
func (s sight) with() string {
	if len(s.TestedWith) == 0 {
		return ""
	}
	return "on top of " + pullList(s.TestedWith)
}

func pullList(numbers []int64) string {
	var text []string
	for i, n := range numbers {
		if i == 10 {
			text = append(text, fmt.Sprintf("%d more", len(numbers)-i))
			break
		}
		text = append(text, fmt.Sprintf("#%d", n))
	}
	return strings.Join(text, ", ")
}

// shownChecks bounds how many checks of a run are named.
const shownChecks = 20

// checks are the checks of its run and how each is, required ones first.
func (s sight) checks() string {
	if s.run == nil {
		return ""
	}
	how := map[string]string{}
	for _, name := range s.run.RequiredStatuses {
		how[name] = "missing"
	}
	for _, suite := range s.run.CheckSuites {
		for _, c := range suite.CheckRuns {
			how[c.Name] = strings.ToLower(c.Conclusion)
			if c.Conclusion == "" {
				how[c.Name] = strings.ToLower(c.Status)
			}
		}
	}
	for _, c := range s.run.StatusChecks {
		how[c.Context] = strings.ToLower(c.State)
	}
	var names []string
	for name := range how {
		if !slices.Contains(s.run.RequiredStatuses, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text []string
	for i, name := range slices.Concat(s.run.RequiredStatuses, names) {
		if i == shownChecks {
			text = append(text, fmt.Sprintf("%d more", len(how)-i))
			break
		}
		text = append(text, printable(name)+" "+strings.ReplaceAll(printable(how[name]), "_", " "))
	}
	return strings.Join(text, ", ")
}

// text is everything about it, for people; with all also what is well and how it
// came about.
func (s sight) text(q *api.Queue, now time.Time, all bool) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "#%d %s\n", s.Number, printable(s.Title))
	row("Queue", "%s of %s", q.Branch, q.Repo())
	since := ""
	if n := len(s.Timeline); n > 0 {
		since = ", since " + clockTime(s.Timeline[n-1].At, now)
	}
	row("State", "%s%s%s", s.State, placed(s.Position), since)
	if why := s.why(); why != "" {
		row(map[bool]string{true: "Why", false: "Waits"}[api.Final(s.State)], "%s", why)
	}
	if s.WaitsUntil != nil {
		row("Until", "%s at the latest", clockTime(*s.WaitsUntil, now))
	}
	if with := s.with(); with != "" {
		row("Tested", "%s", with)
	}
	if s.run != nil {
		row("Run", "%s on %s", s.TestRunID, s.run.TestBranch)
	}
	if checks := s.checks(); checks != "" {
		row("Checks", "%s", checks)
	}
	if s.EstimatedAt != nil {
		row("Merges", "%s, if nothing fails", about(*s.EstimatedAt, now))
	}
	if all {
		s.story(&b, now)
	}
	return b.String()
}

// story is every condition, and every move.
func (s sight) story(b *strings.Builder, now time.Time) {
	if len(s.Conditions) > 0 {
		b.WriteString("\nIt lands when all of this is so:\n")
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(b, "  %-4s%s\n", map[bool]string{true: "yes", false: "no"}[c.Met], printable(c.Message))
	}
	if len(s.Timeline) > 0 {
		b.WriteString("\nWhat happened:\n")
	}
	for _, m := range s.Timeline {
		actor := ""
		if m.Actor != "" {
			actor = " by " + printable(m.Actor)
		}
		fmt.Fprintf(b, "  %-17s %-16s%s%s: %s\n", clockTime(m.At, now), m.To, m.Reason.Code, actor, printable(m.Reason.Message))
	}
}

// clockTime is a moment as people around now say it: with the day if it is not
// today, in now's zone.
func clockTime(at, now time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04:05")
	}
	return at.Format("2006-01-02 15:04")
}

// about is a moment that is guessed.
func about(at, now time.Time) string {
	left := at.Sub(now)
	if left < time.Minute {
		return "any moment now"
	}
	return fmt.Sprintf("at about %s (in %s)", at.In(now.Location()).Format("15:04"), span(left))
}

// span is a duration, roughly.
func span(d time.Duration) string {
	switch d = d.Round(time.Minute); {
	case d < 2*time.Hour:
		return counted(int(d.Minutes()), "minute")
	case d < 48*time.Hour:
		return counted(int(d.Hours()), "hour")
	default:
		return counted(int(d.Hours()/24), "day")
	}
}
