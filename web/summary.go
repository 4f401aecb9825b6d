package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// namedAtOnce is how many pull requests a sentence names.
const namedAtOnce = 4

// summaryOf says in a few sentences what a queue is doing: who lands next and
// what that waits for, who is behind, and who waits outside of the line.
func summaryOf(s *queue.Snapshot, pending, notReady int, now time.Time) string {
	var said []string
	next, behind := heads(s)
	switch {
	case len(next) == 0 && len(s.Parts) == 0 && pending+notReady == 0:
		return "Nobody is in the queue. A comment /merge on a pull request begins it."
	case len(next) == 0:
		said = append(said, "Nothing is being tested.")
	case len(next) == 1:
		first := s.Entries[next[0].Members[0]]
		said = append(said, fmt.Sprintf("%s next to land: %s", numbersOf(s, next), explain(s, first, now).WaitsFor))
	default:
		said = append(said, fmt.Sprintf("%s are next to land, whichever passes first.", numbersOf(s, next)))
	}
	if n := pulls(behind); n > 0 {
		said = append(said, fmt.Sprintf("%s behind %s being tested as if what is ahead had landed.", plural(n, "pull request"), isAre(n)))
	}
	if n := len(s.Queue.Bisections); n > 0 {
		said = append(said, "A batch failed, and who broke it is being found out beside the line.")
	}
	if pending > 0 {
		said = append(said, fmt.Sprintf("%s for a turn.", waiting(pending)))
	}
	if notReady > 0 {
		said = append(said, fmt.Sprintf("%d %s not ready.", notReady, isAre(notReady)))
	}
	return strings.Join(said, " ")
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

// numbersOf names the pull requests of groups, with the verb that follows where
// there is one group.
func numbersOf(s *queue.Snapshot, groups []*queue.Group) string {
	var names []string
	for _, g := range groups {
		for _, id := range g.Members {
			if e := s.Entries[id]; e != nil {
				names = append(names, fmt.Sprintf("#%d", e.Number))
			}
		}
	}
	all := len(names)
	if more := all - namedAtOnce; more > 1 {
		names = append(slices.Clip(names[:namedAtOnce]), fmt.Sprintf("%d more", more))
	}
	text := names[0]
	if n := len(names); n > 1 {
		text = strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	if len(groups) == 1 {
		return text + " " + isAre(all)
	}
	return text
}

func waiting(n int) string {
	if n == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
