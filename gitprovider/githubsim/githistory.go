package githubsim

import (
	"container/heap"
	"slices"
)

// generation is the length of the longest path from a commit to a root. A
// commit's ancestors all have smaller ones, which makes the walks below exact
// whatever the clocks said.
func (g *gitStore) generation(sha string) (int, error) {
	stack := []string{sha}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		if g.knownGeneration(at) > 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		c, err := g.commit(at)
		if err != nil {
			return 0, err
		}
		gen, waiting := 1, false
		for _, p := range c.Parents {
			if known := g.knownGeneration(p); known == 0 {
				stack, waiting = append(stack, p), true
			} else {
				gen = max(gen, known+1)
			}
		}
		if !waiting {
			g.mu.Lock()
			g.gens[at] = gen
			g.mu.Unlock()
		}
	}
	return g.knownGeneration(sha), nil
}

func (g *gitStore) knownGeneration(sha string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gens[sha]
}

// The sides from which a walk has reached a commit.
const (
	fromTip   = 1
	fromOther = 2
)

// walk visits commits reachable from tip or other, children before parents,
// with the sides they were reached from, until nothing reachable from tip
// alone is left or visit says stop.
func (g *gitStore) walk(tip, other string, visit func(c *commit, sides int) (stop bool)) error {
	w := &walkQueue{sides: map[string]int{}}
	push := func(sha string, sides int) error {
		if sha == "" {
			return nil
		}
		if _, seen := w.sides[sha]; !seen {
			gen, err := g.generation(sha)
			if err != nil {
				return err
			}
			heap.Push(w, walkItem{sha, gen})
		}
		w.sides[sha] |= sides
		return nil
	}
	if err := push(tip, fromTip); err != nil {
		return err
	}
	if err := push(other, fromOther); err != nil {
		return err
	}
	for w.Len() > 0 && w.anyAlone() {
		at := heap.Pop(w).(walkItem)
		c, err := g.commit(at.sha)
		if err != nil {
			return err
		}
		sides := w.sides[at.sha]
		if visit(c, sides) {
			return nil
		}
		for _, p := range c.Parents {
			if err := push(p, sides); err != nil {
				return err
			}
		}
	}
	return nil
}

// between lists the commits reachable from tip and not from other, children
// first. other may be "".
func (g *gitStore) between(other, tip string) ([]*commit, error) {
	var out []*commit
	err := g.walk(tip, other, func(c *commit, sides int) bool {
		if sides == fromTip {
			out = append(out, c)
		}
		return false
	})
	return out, err
}

// isAncestor reports whether old is reachable from tip (or is tip).
func (g *gitStore) isAncestor(old, tip string) (bool, error) {
	if old == tip {
		return true, nil
	}
	found := true
	err := g.walk(old, tip, func(c *commit, sides int) bool {
		if c.SHA == old {
			found = sides&fromOther != 0
			return true
		}
		return false
	})
	return found, err
}

// mergeBase finds a best common ancestor, "" when there is none.
func (g *gitStore) mergeBase(a, b string) (string, error) {
	base := ""
	both := func(c *commit, sides int) bool {
		if sides == fromTip|fromOther {
			base = c.SHA
			return true
		}
		return false
	}
	if err := g.walk(a, b, both); err != nil || base != "" {
		return base, err
	}
	// The walk ended because nothing is reachable from a alone: what is left
	// in it is reachable from b, and a's own part ended at the base.
	if ok, err := g.isAncestor(a, b); err != nil || ok {
		return a, err
	}
	own, err := g.between(b, a)
	if err != nil || len(own) == 0 {
		return "", err
	}
	best := 0
	for _, c := range own {
		for _, p := range c.Parents {
			if gen, err := g.generation(p); err != nil {
				return "", err
			} else if gen > best && !slices.ContainsFunc(own, func(o *commit) bool { return o.SHA == p }) {
				best, base = gen, p
			}
		}
	}
	return base, nil
}

// firstParents lists a branch from its tip down its first parents.
func (g *gitStore) firstParents(tip string, limit int) ([]*commit, error) {
	var out []*commit
	for tip != "" && len(out) < limit {
		c, err := g.commit(tip)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		tip = ""
		if len(c.Parents) > 0 {
			tip = c.Parents[0]
		}
	}
	return out, nil
}

type walkItem struct {
	sha string
	gen int
}

// walkQueue is a heap of commits, highest generation first.
type walkQueue struct {
	items []walkItem
	sides map[string]int
}

func (w *walkQueue) Len() int           { return len(w.items) }
func (w *walkQueue) Less(i, j int) bool { return w.items[i].gen > w.items[j].gen }
func (w *walkQueue) Swap(i, j int)      { w.items[i], w.items[j] = w.items[j], w.items[i] }
func (w *walkQueue) Push(x any)         { w.items = append(w.items, x.(walkItem)) }
func (w *walkQueue) Pop() any {
	last := w.items[len(w.items)-1]
	w.items = w.items[:len(w.items)-1]
	return last
}

// anyAlone reports whether a commit waits that was reached from the tip only.
func (w *walkQueue) anyAlone() bool {
	return slices.ContainsFunc(w.items, func(i walkItem) bool { return w.sides[i.sha] == fromTip })
}
