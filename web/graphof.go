package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// pictureOf draws the line of a queue and its bisections. A queue with nothing
// in it has no picture.
func pictureOf(s *queue.Snapshot, now time.Time) *picture {
	g := graphing{s: s, now: now}
	var bands []band
	if len(s.Line) > 0 {
		bands = append(bands, g.mainLine())
	}
	bands = append(bands, g.bisections()...)
	if len(bands) == 0 {
		return nil
	}
	p := draw(bands)
	return &p
}

// graphing makes boxes of the groups of a snapshot.
type graphing struct {
	s   *queue.Snapshot
	now time.Time
}

func (g *graphing) mainLine() band {
	q := &g.s.Queue
	b := band{Label: q.Branch, Base: code{Short: short(q.Target.Commit), Whole: q.Target.Commit}}
	ahead := queue.Ahead(g.s)
	place := map[queue.GroupID]int{}
	for _, id := range g.s.Line {
		if g.s.Groups[id] == nil {
			continue
		}
		x := g.box(g.s.Groups[id])
		for _, a := range ahead[id] {
			x.Ahead = append(x.Ahead, place[a])
		}
		place[id] = len(b.Boxes)
		b.Boxes = append(b.Boxes, x)
	}
	return b
}

func (g *graphing) bisections() []band {
	var bands []band
	for i := range g.s.Queue.Bisections {
		search := &g.s.Queue.Bisections[i]
		b := band{
			Title: fmt.Sprintf("Looking for the culprit among %d pull requests", len(search.Members)),
			Label: "base", Base: code{Short: short(search.Base.Commit), Whole: search.Base.Commit},
		}
		place := map[queue.GroupID]int{}
		for _, id := range g.s.Parts {
			part := g.s.Groups[id]
			if part == nil || part.Part == nil || part.Part.Bisection != search.ID {
				continue
			}
			x := g.box(part)
			x.Ahead = g.partsAhead(part, place)
			place[id] = len(b.Boxes)
			b.Boxes = append(b.Boxes, x)
		}
		if len(b.Boxes) > 0 {
			bands = append(bands, b)
		}
	}
	return bands
}

// partsAhead are the places of the parts that a part's run includes.
func (g *graphing) partsAhead(part *queue.Group, place map[queue.GroupID]int) []int {
	r := g.s.Runs[part.Run]
	if r == nil {
		return nil
	}
	var ahead []int
	for _, step := range r.Ahead() {
		e := g.s.Entries[step.Entry]
		if e == nil {
			continue
		}
		if at, drawn := place[e.Group]; drawn && e.Group != part.ID && !slices.Contains(ahead, at) {
			ahead = append(ahead, at)
		}
	}
	return ahead
}

func (g *graphing) box(group *queue.Group) box {
	q := &g.s.Queue
	x := box{State: stateOfGroup(g.s, group)}
	var names []string
	var since time.Time
	for _, id := range group.Members {
		e := g.s.Entries[id]
		if e == nil {
			continue
		}
		if since.IsZero() {
			since = e.StateChangedAt
		}
		names = append(names, fmt.Sprintf("#%d %s", e.Number, e.Title))
		for _, m := range marks(e) {
			if !slices.Contains(x.Marks, m) {
				x.Marks = append(x.Marks, m)
			}
		}
		if len(x.Rows) == boxRows {
			x.More++
			continue
		}
		x.Rows = append(x.Rows, boxRow{Number: e.Number, Title: e.Title, URL: PRURL("", q.Repo, q.Branch, e.Number)})
	}
	x.Age = at(since, g.now)
	if len(x.Rows) > 0 {
		x.URL = x.Rows[0].URL
	}
	if r := g.s.Runs[group.Run]; r != nil {
		x.URL, x.Checks = RunURL("", q.Repo, q.Branch, r.ID), progressOf(r)
	}
	x.Says = says(x, names)
	return x
}

// says is a box as a sentence.
func says(x box, names []string) string {
	text := strings.Join(names, ", ") + ": " + x.State.Text
	if len(x.Marks) > 0 {
		text += ", " + strings.Join(x.Marks, ", ")
	}
	if x.Age.Text != "" {
		text += ", " + x.Age.Text
	}
	if x.Checks.Total > 0 {
		text += fmt.Sprintf(", %d of %d checks passed", x.Checks.Passed, x.Checks.Total)
		if x.Checks.Failed > 0 {
			text += fmt.Sprintf(", %d failed", x.Checks.Failed)
		}
	}
	return text
}

// stateOfGroup is what happens to a group at this moment, which is more than
// the state of its entries says.
func stateOfGroup(s *queue.Snapshot, g *queue.Group) badge {
	if landing := s.Queue.Landing; landing != nil && slices.Contains(landing.Groups, g.ID) {
		return badge{"landing", "good"}
	}
	var state queue.EntryState
	for _, id := range g.Members {
		if e := s.Entries[id]; e != nil {
			state = e.State
			break
		}
	}
	r := s.Runs[g.Run]
	switch {
	case r != nil && r.State == queue.Building:
		return badge{"building its branch", "busy"}
	case state == queue.Pending:
		return badge{"waits for a slot", "wait"}
	case state == "":
		return badge{"changing", "off"}
	default:
		return look(entryBadges, state)
	}
}

func short(sha string) string { return sha[:min(len(sha), 10)] }
