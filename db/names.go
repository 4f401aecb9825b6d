package db

import "signalbox/queue"

// names are whom the facts of a window, or whoever reads it, are about.
type names struct {
	everybody bool
	prs       []int64
	entries   []queue.EntryID
	runs      []queue.RunID
	commits   []string
	branches  []string
	// people: somebody reads the window, and wants to know how long tests take.
	people bool
	// admits: the facts may make the queue admit, whatever its state is now.
	admits bool
	// mode is what the facts want the mode to be; "" when they say nothing.
	mode queue.Mode
}

// namesIn collects the names in facts.
func namesIn(facts []queue.Received) names {
	var n names
	for _, r := range facts {
		n.add(r.Fact)
	}
	return n
}

func (n *names) add(fact queue.Fact) {
	about := fact.Subject()
	n.everybody = n.everybody || about.Everybody
	if about.PR != 0 {
		n.prs = append(n.prs, about.PR)
	}
	if about.Commit != "" {
		n.commits = append(n.commits, about.Commit)
	}
	if about.Branch != "" {
		n.branches = append(n.branches, about.Branch)
	}
	switch f := fact.(type) {
	case queue.Submitted:
		n.prs = append(n.prs, f.PullRequest.Number)
		for _, pr := range f.Stack {
			n.prs = append(n.prs, pr.Number)
		}
		n.entries = append(n.entries, f.ID)
	case queue.CancelRequested:
		n.prs = append(n.prs, f.PR)
	case queue.RestartRequested:
		n.prs = append(n.prs, f.PR)
	case queue.ChangeRequested:
		n.admits = true
		if f.Change.Mode != nil {
			n.mode = *f.Change.Mode
		}
	case queue.RunBuilt:
		n.runs = append(n.runs, f.Run)
		n.addChain(f.Chain)
	case queue.RunNotBuilt:
		n.runs = append(n.runs, f.Run)
		n.entries = append(n.entries, f.Entry, f.With)
	case queue.LandingEnded:
		n.entries = append(n.entries, f.Entry)
		for _, step := range f.Landed {
			n.entries = append(n.entries, step.Entry)
		}
	}
}

func (n *names) addChain(chain []queue.Step) {
	for _, step := range chain {
		n.entries = append(n.entries, step.Entry)
	}
}
