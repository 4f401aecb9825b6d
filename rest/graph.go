package rest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"signalbox/queue"
)

// queueGraph is a queue at one moment, as things and what connects them.
type queueGraph struct {
	State        string       `json:"state"`
	Mode         string       `json:"mode"`
	TargetCommit *string      `json:"targetCommit"` // null until it was read
	Groups       []graphGroup `json:"groups"`       // the line, then bisections
	Entries      []graphEntry `json:"entries"`      // in queue order
	Runs         []graphRun   `json:"runs"`
	Edges        []graphEdge  `json:"edges"`
}

// graphGroup is pull requests that are tested together.
type graphGroup struct {
	ID        string  `json:"id"`
	QueueType string  `json:"queueType"`
	Position  int     `json:"position"` // among the groups of its type, from 1
	PRNumbers []int64 `json:"prNumbers"`
	TestRunID *string `json:"testRunId"`
	FormedAt  moment  `json:"formedAt"`
}

// graphEntry is a pull request in the queue.
type graphEntry struct {
	enqueued
	GroupID *string `json:"groupId"`
}

// graphRun is a test run that somebody waits for, or that proves a group.
type graphRun struct {
	ID            string  `json:"id"`
	QueueType     string  `json:"queueType"`
	Status        string  `json:"status"`
	TestBranch    string  `json:"testBranch"`
	TestBranchSha string  `json:"testBranchSha"` // "" until it is built
	CreatedAt     moment  `json:"createdAt"`
	StartedAt     *moment `json:"startedAt"`
	Deadline      *moment `json:"deadline"`
}

// graphEdge connects two of them. The kinds:
//
//	contains       group → entry
//	tests          run → group
//	includes       run → entry that it includes without testing it
//	behind         group → group that must land or leave first
//	conflicts_with entry → entry that it does not merge with
type graphEdge struct {
	Kind string `json:"kind"`
	From string `json:"from"`
	To   string `json:"to"`
}

func (a *API) getQueueGraph(ctx context.Context, c *call) (any, error) {
	p, q, err := a.named(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := a.store.Whole(ctx, q.ID)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("read the whole queue: %w", err), p.notFound())
	}
	return encodeGraph(s), nil
}

// graphing is a graph being drawn.
type graphing struct {
	s   *queue.Snapshot
	out queueGraph
}

func encodeGraph(s *queue.Snapshot) queueGraph {
	g := graphing{s: s, out: queueGraph{
		State: string(s.Queue.State), Mode: string(s.Queue.ReportedMode()), TargetCommit: valueOrNull(s.Queue.Target.Commit),
		Groups: []graphGroup{}, Entries: []graphEntry{}, Runs: []graphRun{}, Edges: []graphEdge{},
	}}
	for i, id := range s.Line {
		g.group(s.Groups[id], queue.MainRun, i)
	}
	for i, id := range s.Parts {
		g.group(s.Groups[id], queue.BisectionRun, i)
	}
	for _, e := range inOrder(s) {
		g.entry(e)
	}
	return g.out
}

func (g *graphing) edge(kind, from, to string) {
	g.out.Edges = append(g.out.Edges, graphEdge{kind, from, to})
}

// groupID is how a group is called in the graph; null for none.
func groupID(id queue.GroupID) *string {
	if id == 0 {
		return nil
	}
	name := "group-" + strconv.FormatInt(int64(id), 10)
	return &name
}

func (g *graphing) group(group *queue.Group, kind queue.RunKind, place int) {
	id := *groupID(group.ID)
	out := graphGroup{ID: id, QueueType: string(kind), Position: place + 1, PRNumbers: []int64{}, FormedAt: moment(group.FormedAt)}
	for _, member := range group.Members {
		out.PRNumbers = append(out.PRNumbers, g.s.Entries[member].Number)
		g.edge("contains", id, string(member))
	}
	run := g.s.Runs[group.Run]
	if run != nil {
		out.TestRunID = valueOrNull(string(run.ID))
		g.run(run, id)
	}
	for _, ahead := range g.ahead(group, run, kind, place) {
		g.edge("behind", id, *groupID(ahead))
	}
	g.out.Groups = append(g.out.Groups, out)
}

// ahead are the groups that a group stands behind: those whose changes its run
// includes. What was not built yet stands behind its neighbour in a queue that
// is one line; in one of lanes nobody knows before it is built.
func (g *graphing) ahead(group *queue.Group, run *queue.Run, kind queue.RunKind, place int) []queue.GroupID {
	if run == nil {
		if kind == queue.MainRun && place > 0 && g.s.Queue.ReportedMode() == queue.Single {
			return []queue.GroupID{g.s.Line[place-1]}
		}
		return nil
	}
	var ahead []queue.GroupID
	for _, step := range run.Ahead() {
		e := g.s.Entries[step.Entry]
		if e != nil && e.Active() && e.Group != 0 && e.Group != group.ID && g.s.Groups[e.Group] != nil && !slices.Contains(ahead, e.Group) {
			ahead = append(ahead, e.Group)
		}
	}
	return ahead
}

func (g *graphing) run(r *queue.Run, group string) {
	g.out.Runs = append(g.out.Runs, graphRun{
		ID: string(r.ID), QueueType: string(r.Kind), Status: runStatus(r.State), TestBranch: r.Branch, TestBranchSha: r.Commit,
		CreatedAt: moment(r.AskedAt), StartedAt: momentOrNull(r.StartedAt), Deadline: momentOrNull(r.Deadline),
	})
	g.edge("tests", string(r.ID), group)
	for _, step := range r.Ahead() {
		if e := g.s.Entries[step.Entry]; e != nil && e.Active() {
			g.edge("includes", string(r.ID), string(e.ID))
		}
	}
}

func (g *graphing) entry(e *queue.Entry) {
	g.out.Entries = append(g.out.Entries, graphEntry{encodeEnqueued(e), groupID(e.Group)})
	if other := g.s.Entries[e.ConflictsWith]; other != nil && other.Active() {
		g.edge("conflicts_with", string(e.ID), string(other.ID))
	}
}

// inOrder are the active entries in queue order: the line, bisections, free
// ones, then those that are not ready.
func inOrder(s *queue.Snapshot) []*queue.Entry {
	var out []*queue.Entry
	for _, id := range slices.Concat(s.Line, s.Parts) {
		for _, member := range s.Groups[id].Members {
			out = append(out, s.Entries[member])
		}
	}
	var free, notReady []*queue.Entry
	for e := range maps.Values(s.Entries) {
		switch {
		case !e.Active() || e.Group != 0:
		case e.State == queue.NotReady:
			notReady = append(notReady, e)
		default:
			free = append(free, e)
		}
	}
	slices.SortFunc(free, queue.Compare)
	slices.SortFunc(notReady, queue.Compare)
	return slices.Concat(out, free, notReady)
}
