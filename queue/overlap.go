package queue

// overlap reports whether the order of two groups matters. In single mode it
// always does. In parallel mode an entry without known targets counts as one
// that impacts everything.
func (d *decision) overlap(_, _ *Group) bool { return true }

// ahead are the groups of the line that come before g and that it must be
// tested on top of, in line order.
func (d *decision) ahead(g *Group) []*Group {
	var groups []*Group
	for _, other := range d.s.line() {
		if other.ID == g.ID {
			break
		}
		if d.overlap(other, g) {
			groups = append(groups, other)
		}
	}
	return groups
}

// behind are the groups of the line that must be tested on top of g, in line order.
func (d *decision) behind(g *Group) []*Group {
	var groups []*Group
	passed := false
	for _, other := range d.s.line() {
		if passed && d.overlap(g, other) {
			groups = append(groups, other)
		}
		passed = passed || other.ID == g.ID
	}
	return groups
}

// steps are the changes of groups in order, as a chain that is not built yet.
func (d *decision) steps(groups ...*Group) []Step {
	var steps []Step
	for _, g := range groups {
		for _, e := range d.s.members(g) {
			steps = append(steps, Step{Entry: e.ID, Submission: e.Submission, PR: e.Number, Head: e.BoundHead})
		}
	}
	return steps
}

// sameSteps reports whether two chains are the same changes in the same order.
func sameSteps(a, b []Step) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].same(b[i]) {
			return false
		}
	}
	return true
}
