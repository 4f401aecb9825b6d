package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// namedAtOnce is how many names a sentence has.
const namedAtOnce = 4

// summaryOf says in a few sentences what a queue is doing: who lands next and
// what that waits for, who is behind, and who waits outside of the line.
func summaryOf(s *queue.Snapshot, pending, notReady int, now time.Time) string {
	next, behind := heads(s)
	if len(next) == 0 && len(s.Parts) == 0 && pending+notReady == 0 {
		return "Nobody is in the queue. A comment /merge on a pull request begins it."
	}
	said := []string{nextToLand(s, next, now)}
	var others []string
	if n := pulls(behind); n > 0 {
		others = append(others, fmt.Sprintf("%d more %s tested behind %s", n, isAre(n), map[bool]string{true: "it", false: "them"}[pulls(next) == 1]))
	}
	if pending > 0 {
		others = append(others, waiting(pending)+" for a turn")
	}
	if notReady > 0 {
		others = append(others, fmt.Sprintf("%d %s not ready", notReady, isAre(notReady)))
	}
	if len(others) > 0 {
		said = append(said, strings.Join(others, ", ")+".")
	}
	if len(s.Queue.Bisections) > 0 {
		said = append(said, "A batch failed, and who broke it is being found out.")
	}
	return strings.Join(said, " ")
}

// nextToLand says who lands next, and what that waits for.
func nextToLand(s *queue.Snapshot, next []*queue.Group, now time.Time) string {
	switch len(next) {
	case 0:
		return "Nothing is being tested in the line."
	case 1:
		names, one := numbersOf(s, next)
		if checks := missing(s.Runs[next[0].Run]); len(checks) > 0 {
			for i, name := range checks {
				checks[i] = "“" + name + "”"
			}
			return fmt.Sprintf("%s %s next, as soon as %s %s passed.", names, verb(one, "lands", "land"), allOf(checks), verb(len(checks) == 1, "has", "have"))
		}
		return fmt.Sprintf("Next to land: %s. %s", names, explain(s, s.Entries[next[0].Members[0]], now).WaitsFor)
	default:
		names, _ := numbersOf(s, next)
		return names + " land next, whichever passes first."
	}
}

// missing are the required checks that a run under test still waits for; none
// if one of them has failed, as there is more to say then.
func missing(r *queue.Run) []string {
	if r == nil || r.State != queue.RunTesting {
		return nil
	}
	var names []string
	for _, want := range r.Required {
		report, found := r.Report(want)
		switch {
		case !found || report.Outcome() == queue.VerdictWaiting:
			names = append(names, want.Name)
		case report.Outcome() != queue.VerdictPassed:
			return nil
		}
	}
	return names
}

// heads are the groups of the line with nothing ahead of them, and the others.
func heads(s *queue.Snapshot) (next, behind []*queue.Group) {
	ahead := queue.Ahead(s)
	for _, id := range s.Line {
		g := s.Groups[id]
		if g == nil || len(g.Members) == 0 || s.Entries[g.Members[0]] == nil {
			continue
		}
		if len(ahead[id]) == 0 {
			next = append(next, g)
		} else {
			behind = append(behind, g)
		}
	}
	return next, behind
}

func pulls(groups []*queue.Group) int {
	n := 0
	for _, g := range groups {
		n += len(g.Members)
	}
	return n
}

// numbersOf names the pull requests of groups; one says that there is only one.
func numbersOf(s *queue.Snapshot, groups []*queue.Group) (names string, one bool) {
	var all []string
	for _, g := range groups {
		for _, id := range g.Members {
			if e := s.Entries[id]; e != nil {
				all = append(all, fmt.Sprintf("#%d", e.Number))
			}
		}
	}
	return allOf(all), len(all) == 1
}

// allOf lists names, and only counts what would be too many.
func allOf(names []string) string {
	if more := len(names) - namedAtOnce; more > 1 {
		names = append(slices.Clip(names[:namedAtOnce]), fmt.Sprintf("%d more", more))
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

func verb(one bool, singular, plural string) string {
	if one {
		return singular
	}
	return plural
}

func waiting(n int) string { return fmt.Sprintf("%d %s", n, verb(n == 1, "waits", "wait")) }

func isAre(n int) string { return verb(n == 1, "is", "are") }
