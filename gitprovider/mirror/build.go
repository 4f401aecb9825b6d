package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Made is what became of one run: its commits, which are in the mirror and
// not published yet, or the trouble that kept it from being made.
type Made struct {
	Run    queue.RunID
	Branch string
	Base   queue.Base   // Commit and Tree
	Chain  []queue.Step // every step built here with Commit and Tree; known ones as given

	// Trouble and what follows it are as in queue.RunNotBuilt; "" = made.
	Trouble queue.Trouble
	Entry   queue.EntryID
	With    queue.EntryID
	Message string
}

// Commit is the tip of a run that was made: what is tested.
func (r Made) Commit() string {
	if len(r.Chain) == 0 {
		return ""
	}
	return r.Chain[len(r.Chain)-1].Commit
}

// Make makes the commits of runs, in order, and publishes nothing. A run that
// cannot be made says why; runs that include one of its own entries are stale
// with it. An error means that nothing is known about any run.
func (m *Mirrors) Make(ctx context.Context, src Source, runs []queue.BuildRun) ([]Made, error) {
	var made []Made
	err := m.with(ctx, src, func(c *clone) error {
		made = nil
		b := &builder{clone: c, built: map[stepKey]tip{}, failed: map[queue.EntryID]bool{}}
		if err := b.bring(ctx, runs); err != nil {
			return err
		}
		for _, run := range runs {
			one, err := b.run(ctx, run)
			if err != nil {
				return fmt.Errorf("build run %s: %w", run.Run, err)
			}
			made = append(made, one)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("build test branches of %s: %w", src.Repo, err)
	}
	return made, nil
}

// builder makes the runs of one Make.
type builder struct {
	*clone
	heads fetched
	gone  []string // commits that the host does not have
	// built remembers steps: a run that begins with the chain of the one
	// before it costs only its own steps.
	built  map[stepKey]tip
	failed map[queue.EntryID]bool // own entries of runs that were not made
}

type stepKey struct {
	on     string
	method queue.MergeMethod
	entry  queue.EntryID
	head   string
	stamp  int64
}

// bring fetches, at once, all that the runs need.
func (b *builder) bring(ctx context.Context, runs []queue.BuildRun) error {
	var w wanted
	var known []string
	for _, run := range runs {
		w.branches = addNew(w.branches, run.Target)
		if run.Base.Commit != "" {
			known = addNew(known, run.Base.Commit)
		}
		for _, s := range run.Chain {
			if s.Commit != "" {
				known = addNew(known, s.Commit)
			} else {
				w.pulls = addNew(w.pulls, s.PR)
			}
		}
	}
	missing, err := b.missing(ctx, known)
	if err != nil {
		return err
	}
	w.commits = missing
	if b.heads, err = b.fetch(ctx, w); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if len(missing) > 0 {
		b.gone, err = b.missing(ctx, missing)
	}
	b.readAhead(ctx, b.toRead(runs))
	return err
}

// toRead are the commits that making the runs will look at: where they begin and
// the heads that are there.
func (b *builder) toRead(runs []queue.BuildRun) []string {
	var ids []string
	for _, run := range runs {
		if run.Base.Commit != "" && !slices.Contains(b.gone, run.Base.Commit) {
			ids = addNew(ids, run.Base.Commit)
		}
		for _, s := range run.Chain {
			if s.Commit == "" && b.heads.pulls[s.PR] == s.Head {
				ids = addNew(ids, s.Head)
			}
		}
	}
	return ids
}

func addNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// run makes one run.
func (b *builder) run(ctx context.Context, run queue.BuildRun) (Made, error) {
	made := Made{Run: run.Run, Branch: run.Branch, Chain: make([]queue.Step, len(run.Chain))}
	for i, s := range run.Chain {
		made.Chain[i] = s.Step
		if b.failed[s.Entry] {
			return b.not(made, run, queue.TroubleStale, s.Entry, fmt.Sprintf("it includes pull request %d, which could not be built", s.PR)), nil
		}
	}
	if run.Own < 1 || run.Own > len(run.Chain) || !validBranch(run.Branch) {
		return b.not(made, run, queue.TroubleDenied, "", fmt.Sprintf("run %s cannot be built: %d of %d steps are its own, its branch is %q", run.Run, run.Own, len(run.Chain), run.Branch)), nil
	}
	base, stale, err := b.base(ctx, run)
	if err != nil {
		return made, err
	}
	if stale != "" {
		return b.not(made, run, queue.TroubleStale, "", stale), nil
	}
	made.Base = queue.Base{Commit: base.commit, Tree: base.tree, Epoch: run.Base.Epoch, Seq: run.Base.Seq}

	at, from, err := b.begin(ctx, run, base)
	if err != nil {
		if gitprovider.KindOf(err) == gitprovider.Stale {
			return b.not(made, run, queue.TroubleStale, "", err.Error()), nil
		}
		return made, err
	}
	if from > 0 {
		made.Chain[from-1].Tree = at.tree
	}
	for i := from; i < len(run.Chain); i++ {
		s := run.Chain[i]
		if head := b.heads.pulls[s.PR]; s.Commit == "" && head != s.Head {
			return b.not(made, run, queue.TroubleStale, s.Entry, moved(s, head)), nil
		}
		next, err := b.oneStep(ctx, at, run.Method, s)
		var conflict *conflictError
		if errors.As(err, &conflict) {
			return b.blame(ctx, made, run, i, conflict)
		}
		if err != nil {
			return made, fmt.Errorf("pull request %d: %w", s.PR, err)
		}
		at = next
		made.Chain[i].Commit, made.Chain[i].Tree = at.commit, at.tree
	}
	return made, nil
}

func moved(s queue.StepSpec, head string) string {
	if head == "" {
		return fmt.Sprintf("the host does not have the head of pull request %d", s.PR)
	}
	return fmt.Sprintf("pull request %d is at %.10s and no longer at %.10s", s.PR, head, s.Head)
}

// not is a run that was not made; those that include its entries will not be either,
// unless it was a hedge.
func (b *builder) not(made Made, run queue.BuildRun, trouble queue.Trouble, entry queue.EntryID, message string) Made {
	if !run.Hedge {
		for _, s := range run.Chain[max(0, len(run.Chain)-max(run.Own, 0)):] {
			b.failed[s.Entry] = true
		}
	}
	made.Trouble, made.Entry, made.Message = trouble, entry, message
	return made
}

// base is the commit that a chain begins on: the one that is stated, wherever
// the target is by now (a bisection stays on an old one), else the target's head.
func (b *builder) base(ctx context.Context, run queue.BuildRun) (at tip, stale string, err error) {
	head := b.heads.branches[run.Target]
	if head == "" {
		return tip{}, "the branch " + run.Target + " does not exist", nil
	}
	if slices.Contains(b.gone, run.Base.Commit) {
		return tip{}, "the commit that the run begins on is gone from the host", nil
	}
	if run.Base.Commit != "" {
		head = run.Base.Commit
	}
	base, err := b.commit(ctx, head)
	return base.tip(), "", err
}

// contains reports whether a commit is another's ancestor, or the same.
func (c *clone) contains(ctx context.Context, commit, ancestor string) (bool, error) {
	_, err := c.git(ctx, job{args: []string{"merge-base", "--is-ancestor", "--end-of-options", ancestor, commit}})
	var run *runError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &run) && run.code == 1:
		return false, nil
	case errors.As(err, &run):
		return false, broken(err)
	default:
		return false, err
	}
}

// begin finds the last step whose commit is known and can be had. Should the
// host have lost it, the chain is built from further back: the same input
// makes the same commits.
func (b *builder) begin(ctx context.Context, run queue.BuildRun, base tip) (at tip, from int, err error) {
	for i := len(run.Chain) - 1; i >= 0; i-- {
		id := run.Chain[i].Commit
		if id == "" || slices.Contains(b.gone, id) {
			continue
		}
		commit, err := b.commit(ctx, id)
		return commit.tip(), i + 1, err
	}
	// The heads of steps that are built again were not fetched.
	var heads []string
	for _, s := range run.Chain {
		if s.Commit != "" {
			heads = addNew(heads, s.Head)
		}
	}
	return base, 0, b.need(ctx, heads...)
}

// oneStep makes a step, or remembers it from an earlier run.
func (b *builder) oneStep(ctx context.Context, on tip, method queue.MergeMethod, s queue.StepSpec) (tip, error) {
	key := stepKey{on.commit, method, s.Entry, s.Head, s.Stamp}
	if at, ok := b.built[key]; ok {
		return at, nil
	}
	at, err := b.step(ctx, on, method, s)
	if err == nil {
		b.built[key] = at
	}
	return at, err
}

// Chain builds steps on a commit of the host, with their heads fetched by id,
// and publishes nothing: to write tested changes again on a target that has
// other commits with the same trees, and to know which tree a merge by the
// host will have. Stale: a commit is gone. Conflict: a step does not merge;
// the steps before it are returned.
func (m *Mirrors) Chain(ctx context.Context, src Source, onto string, method queue.MergeMethod, steps []queue.StepSpec) ([]queue.Step, error) {
	var done []queue.Step
	err := m.with(ctx, src, func(c *clone) error {
		done = nil
		need := []string{onto}
		for _, s := range steps {
			need = addNew(need, s.Head)
		}
		if err := c.need(ctx, need...); err != nil {
			return err
		}
		c.readAhead(ctx, need)
		base, err := c.commit(ctx, onto)
		if err != nil {
			return err
		}
		at := base.tip()
		for _, s := range steps {
			at, err = c.step(ctx, at, method, s)
			var conflict *conflictError
			if errors.As(err, &conflict) {
				return &gitprovider.Error{Kind: gitprovider.Conflict, Message: fmt.Sprintf("pull request %d does not merge on %.10s: %s", s.PR, onto, conflict)}
			}
			if err != nil {
				return fmt.Errorf("pull request %d: %w", s.PR, err)
			}
			s.Commit, s.Tree = at.commit, at.tree
			done = append(done, s.Step)
		}
		return nil
	})
	if err != nil {
		return done, fmt.Errorf("build %d steps on %.10s: %w", len(steps), onto, err)
	}
	return done, nil
}
