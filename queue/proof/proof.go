// Package proof compares what is on a branch with what was tested. It believes
// neither the queue's state nor its rules: it takes the commits of the branch as
// git has them, the receipts that were written when steps landed, and the runs
// that these name, and says of each landing whether they agree.
//
// A landing is proven in one of four ways:
//
//	tested    its very tree passed, as the end of a run
//	together  its tree is a step inside a run that passed, and the rest of that
//	          run landed directly after it
//	lane      other lanes landed since its run began: its tree is that of the
//	          tested head merged on what was there, and nothing that landed in
//	          between impacts a target that it impacts
//	direct    no run was needed: its tree is that of its head, which had passed
//	          on the target that it contains, as the host said at the time
//
// What the host merged when its landing had been given up is proven only by the
// first way.
package proof

import (
	"fmt"
	"slices"

	"signalbox/queue"
)

// Commit is a commit of the branch.
type Commit struct {
	ID, Tree string
	Parents  []string
}

// History is everything that is compared.
type History struct {
	// Commits are the branch's first parents, oldest first, from the commit
	// that the first receipt stands on. What is older does not matter.
	Commits []Commit
	// Receipts are those of the queue, by Seq.
	Receipts []queue.Receipt
	// Runs are those that receipts name, as far as they are kept.
	Runs map[queue.RunID]queue.Run
	// Targets are the sets that steps of those runs name, as far as they are kept.
	Targets map[queue.TargetsID]queue.TargetSet
	// Merged is, for each receipt that needs it (see Needs), the tree that
	// merging its head on the commit before it gives, by its commit. "" = the
	// two do not merge, or one of them is gone.
	Merged map[string]string
}

// How says in which way a landing is proven.
type How string

// The ways; NotProven has a problem.
const (
	Tested    How = "tested"
	Together  How = "together"
	Lane      How = "lane"
	Direct    How = "direct"
	NotProven How = "not proven"
)

// Landing is what was found about one step that landed.
type Landing struct {
	PR      int64
	Commit  string
	Tree    string
	Run     queue.RunID // "" = none
	How     How
	Problem string // a broken promise, in words; "" = none
	Note    string // worth knowing, in words; "" = nothing
	// Told: the queue itself found the problem when it landed, and stopped.
	Told bool
}

// Report is what a comparison found.
type Report struct {
	Commits  int // of the branch, looked at
	Landings []Landing
	// Others are commits that this queue did not put on the branch.
	Others []string
}

// Problems counts the landings that break a promise.
func (r Report) Problems() int {
	n := 0
	for _, l := range r.Landings {
		if l.Problem != "" {
			n++
		}
	}
	return n
}

// Needs reports whether the merge of a receipt's head has to be made again to
// judge it.
func Needs(r queue.Receipt) bool { return !r.Late() && (r.Recomputed || r.Run == "") }

// Check compares.
func Check(h History) Report {
	c := &check{History: h, at: make(map[string]int, len(h.Commits)), ours: map[int]bool{}, heads: map[string]bool{}, last: -1}
	for i, k := range h.Commits {
		c.at[k.ID] = i
	}
	report := Report{Commits: max(len(h.Commits)-1, 0)}
	for i, r := range h.Receipts {
		l := Landing{PR: r.PR, Commit: r.Commit, Tree: r.Tree, Run: r.Run, How: NotProven, Told: r.Differs != ""}
		c.judge(i, &l)
		report.Landings = append(report.Landings, l)
	}
	for i, k := range h.Commits {
		if i > 0 && !c.ours[i] {
			report.Others = append(report.Others, k.ID)
		}
	}
	return report
}

type check struct {
	History
	at    map[string]int  // where commits are
	ours  map[int]bool    // commits that a receipt accounts for
	heads map[string]bool // what has landed, by pull request and head
	last  int             // where the receipt before is
}

// judge looks at the i-th receipt. The first thing that is wrong is its problem.
func (c *check) judge(i int, l *Landing) {
	r := c.Receipts[i]
	holds := []func(int, queue.Receipt, *Landing) string{c.once, c.there, c.asSaid, c.proven}
	if r.Late() {
		holds = []func(int, queue.Receipt, *Landing) string{c.once, c.late}
	}
	for _, hold := range holds {
		if l.Problem = hold(i, r, l); l.Problem != "" {
			l.How = NotProven
			return
		}
	}
}

// once: nothing lands twice.
func (c *check) once(_ int, r queue.Receipt, _ *Landing) string {
	key := fmt.Sprint(r.PR, " ", r.Head)
	if c.heads[key] {
		return "it landed before, at the same head"
	}
	c.heads[key] = true
	return ""
}

// late: the host did it when its landing had been given up. On what it found there
// nobody had tested it, unless that gives the very tree that a run passed with.
func (c *check) late(_ int, r queue.Receipt, l *Landing) string {
	at, ok := c.at[r.Commit]
	if !ok {
		return notThere
	}
	c.ours[at] = true
	l.Tree = c.Commits[at].Tree
	if run, ok := c.Runs[r.Run]; !ok || run.State != queue.RunPassed || run.Tree != l.Tree {
		return fmt.Sprintf("the host merged it on %.10s after its landing had been given up, and nobody tested that", c.below(r))
	}
	l.How, l.Note = Tested, fmt.Sprintf("the host merged it after its landing had been given up; run %s had tested this very tree", r.Run)
	return ""
}

const notThere = "its commit is not on the branch: somebody has rewritten the branch, or the landing never was"

// there: the commit is on the branch, after what landed before it.
func (c *check) there(_ int, r queue.Receipt, l *Landing) string {
	at, ok := c.at[r.Commit]
	if !ok {
		return notThere
	}
	if at <= c.last {
		return "it is on the branch before what landed before it"
	}
	c.last = at
	c.ours[at] = true
	on, known := c.at[r.On]
	if r.Method == queue.Rebase && known { // several commits each
		for k := on + 1; k < at; k++ {
			c.ours[k] = true
		}
	} else if below := c.below(r); below != r.On {
		l.Note = fmt.Sprintf("somebody moved the branch at the same moment: it stands on %.10s, not on %.10s", below, r.On)
	}
	return ""
}

// below is the commit that a landing stands on, if it is one commit; "" = none.
func (c *check) below(r queue.Receipt) string {
	if parents := c.Commits[c.at[r.Commit]].Parents; len(parents) > 0 {
		return parents[0]
	}
	return ""
}

// asSaid: the tree is the one that was found when it landed, and that was the
// expected one.
func (c *check) asSaid(_ int, r queue.Receipt, _ *Landing) string {
	if tree := c.Commits[c.at[r.Commit]].Tree; tree != r.Tree {
		return fmt.Sprintf("its tree is %.10s, and was %.10s when it landed", tree, r.Tree)
	}
	if r.Differs != "" {
		return "it landed as something else than what was tested, and the queue stopped: " + r.Differs
	}
	return ""
}

// proven: a run that passed had this very step.
func (c *check) proven(i int, r queue.Receipt, l *Landing) string {
	if r.Run == "" {
		l.How = Direct
		return c.merges(r)
	}
	run, ok := c.Runs[r.Run]
	if !ok {
		return fmt.Sprintf("run %s, which tested it, is not there", r.Run)
	}
	if run.State != queue.RunPassed {
		return fmt.Sprintf("run %s, which tested it, is %s", r.Run, run.State)
	}
	at := slices.IndexFunc(run.Chain, func(s queue.Step) bool {
		return s.Entry == r.Entry && s.Submission == r.Submission && s.Head == r.Head
	})
	switch {
	case at < 0:
		return fmt.Sprintf("run %s did not test it at this head", r.Run)
	case run.Chain[at].Tree != r.Tested:
		return fmt.Sprintf("run %s had tree %.10s after it, not %.10s", r.Run, run.Chain[at].Tree, r.Tested)
	case r.Recomputed:
		l.How = Lane
		if problem := c.merges(r); problem != "" {
			return problem
		}
		return c.apart(i, run, run.Chain[at])
	case r.Tree != r.Tested:
		return fmt.Sprintf("it landed with tree %.10s, and run %s tested %.10s", r.Tree, r.Run, r.Tested)
	case run.Tree == r.Tree:
		l.How = Tested
		return ""
	}
	l.How = Together
	if !c.followed(i) && l.Note == "" {
		l.Note = "the host stopped half way: what it was tested with did not land directly after it, so this tree by itself was not tested"
	}
	return ""
}

// followed reports whether the next step of the same landing stands on this one.
func (c *check) followed(i int) bool {
	r := c.Receipts[i]
	if i+1 == len(c.Receipts) {
		return false
	}
	next := c.Receipts[i+1]
	return next.Landing == r.Landing && next.On == r.Commit
}

// merges: the tree is that of the head merged on what the queue knew to be there. On
// the push of somebody else, at that very moment, nobody has tested it.
func (c *check) merges(r queue.Receipt) string {
	if below := c.below(r); r.Method != queue.Rebase && below != r.On && c.tree(below) != c.tree(r.On) {
		return fmt.Sprintf("it stands on %.10s, which somebody put there at the same moment, and was not tested on that", below)
	}
	if want := c.Merged[r.Commit]; want != r.Tree {
		if want == "" {
			return "its head cannot be merged again on what it landed on, to compare: the two do not merge, or one of them is gone from the host"
		}
		return fmt.Sprintf("its head merged on %.10s gives tree %.10s, and it landed with %.10s", r.On, want, r.Tree)
	}
	return ""
}

// tree is the tree of a commit of the branch; of any other it is its id.
func (c *check) tree(id string) string {
	if at, ok := c.at[id]; ok {
		return c.Commits[at].Tree
	}
	return id
}

// apart: whatever landed since the run began, and was not part of it, impacts
// other targets.
func (c *check) apart(i int, run queue.Run, own queue.Step) string {
	for k := range c.Receipts { // no copies: every lane looks at all that landed before it
		before := &c.Receipts[k]
		if !c.between(before, run.Base, i) || place(run.Chain, before) >= 0 {
			continue
		}
		its := c.Runs[before.Run].Chain
		at := place(its, before)
		if at < 0 {
			continue // it has a problem of its own, or landed without a run and so while nothing overlapped
		}
		if c.set(its[at]).Overlaps(c.set(own)) {
			return fmt.Sprintf("it was tested without #%d, which landed before it and impacts the same targets", before.PR)
		}
	}
	return ""
}

// between reports whether a step landed after a base and before the i-th receipt.
// Of what the host merged late only its place on the branch tells: it was heard of
// at any time after.
func (c *check) between(r *queue.Receipt, base queue.Base, i int) bool {
	if !r.Late() {
		return r.Seq > base.Seq && r.Seq < c.Receipts[i].Seq
	}
	at, there := c.at[r.Commit]
	return there && at < c.at[c.Receipts[i].Commit] && !c.includes(base, at, r.Seq)
}

// includes reports whether a base holds the commit at a place on the branch.
func (c *check) includes(base queue.Base, place int, seq int64) bool {
	if at, known := c.at[base.Commit]; known {
		return place <= at
	}
	return seq <= base.Seq
}

// place is where in a chain the step is that landed with a receipt; -1 = nowhere.
func place(chain []queue.Step, r *queue.Receipt) int {
	return slices.IndexFunc(chain, func(s queue.Step) bool { return s.Entry == r.Entry && s.Submission == r.Submission })
}

// set is what a step impacts. One that is no longer kept cannot be compared, and
// so overlaps nothing; a step that never had one overlaps everything.
func (c *check) set(s queue.Step) queue.TargetSet {
	if s.Targets == 0 {
		return queue.Everything
	}
	return c.Targets[s.Targets]
}
