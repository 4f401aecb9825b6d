package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox/queue"
)

// tip is where a chain stands: its newest commit.
type tip struct {
	commit, tree string
	when         int64
}

func (k Commit) tip() tip { return tip{k.ID, k.Tree, k.When} }

// conflictError says that two commits do not merge, and over which paths.
type conflictError struct {
	paths []string // bounded, safe to show
	more  int
	why   string // instead of paths
}

// Error names the conflict in words.
func (e *conflictError) Error() string {
	if e.why != "" {
		return e.why
	}
	text := "conflicts in " + strings.Join(e.paths, ", ")
	if e.more > 0 {
		text += fmt.Sprintf(" and %d more", e.more)
	}
	return text
}

// Bounds on what a chain may be made of. GitHub replays 100 commits at most.
const (
	maxReplayed = 1000
	maxPaths    = 10
)

// mergeMemory is the largest piece of memory that a merge may ask for. Merging
// a text of 60 MB that both sides changed line by line takes 2 GB without it.
const mergeMemory = "GIT_ALLOC_LIMIT=128m"

// merge merges two commits and returns the tree, without a commit. A run's own
// step and the same one ahead of the next run merge the same two.
func (c *clone) merge(ctx context.Context, ours, theirs string) (tree string, err error) {
	if tree, known := c.merged[[2]string{ours, theirs}]; known {
		return tree, nil
	}
	if tree, err = c.mergeAnew(ctx, ours, theirs); err == nil {
		c.merged[[2]string{ours, theirs}] = tree
	}
	return tree, err
}

func (c *clone) mergeAnew(ctx context.Context, ours, theirs string) (tree string, err error) {
	out, err := c.git(ctx, job{env: []string{mergeMemory}, args: []string{
		"merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "--end-of-options", ours, theirs}})
	var run *runError
	switch {
	case err == nil:
		tree = strings.TrimRight(string(out), "\x00\n")
		if !validCommit(tree) {
			return "", fmt.Errorf("merge: git answered %.80q: %w", tree, errBroken)
		}
		return tree, nil
	case errors.As(err, &run) && run.code == 1 && len(out) > 0:
		return "", newConflict(strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")[1:])
	case errors.As(err, &run) && run.crashed():
		// It would crash again, in a new mirror too. The change's fault.
		return "", &conflictError{why: "git cannot merge it: a file that both sides changed is too large, or folders are nested too deep"}
	case errors.As(err, &run):
		if base, bad := c.git(ctx, job{args: []string{"merge-base", "--end-of-options", ours, theirs}}); len(base) == 0 &&
			errors.As(bad, &run) && run.code == 1 && strings.TrimSpace(run.stderr) == "" {
			return "", &conflictError{why: "the pull request has no history in common with its base"}
		}
		return "", fmt.Errorf("merge: %w", broken(err))
	default:
		return "", err
	}
}

func newConflict(names []string) *conflictError {
	e := &conflictError{}
	seen := map[string]bool{}
	for _, name := range names {
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if len(e.paths) == maxPaths {
			e.more++
			continue
		}
		if runes := []rune(inert(name)); len(runes) > 200 {
			name = string(runes[:200]) + "…"
		}
		e.paths = append(e.paths, fmt.Sprintf("%q", name))
	}
	if len(e.paths) == 0 {
		e.why = "the changes conflict"
	}
	return e
}

// step puts one pull request on a tip and returns the new tip.
func (c *clone) step(ctx context.Context, on tip, method queue.MergeMethod, s queue.StepSpec) (tip, error) {
	head, err := c.commit(ctx, s.Head)
	if err != nil {
		return tip{}, err
	}
	on.when = max(on.when, s.Stamp)
	switch method {
	case queue.MergeCommit:
		return c.mergeStep(ctx, on, head, s)
	case queue.Squash:
		return c.squashStep(ctx, on, head, s)
	case queue.Rebase:
		return c.rebaseStep(ctx, on, head, s)
	default:
		return tip{}, fmt.Errorf("merge method %q is not known", method)
	}
}

func (c *clone) mergeStep(ctx context.Context, on tip, head Commit, s queue.StepSpec) (tip, error) {
	tree, err := c.merge(ctx, on.commit, head.ID)
	if err != nil {
		return tip{}, err
	}
	body, err := c.body(ctx, s)
	if err != nil {
		return tip{}, err
	}
	return c.put(ctx, draft{
		tree: tree, parents: []string{on.commit, head.ID},
		message: compose(Title(queue.MergeCommit, s), body, nil, func(string) bool { return false }), when: max(on.when, head.When),
	})
}

func (c *clone) squashStep(ctx context.Context, on tip, head Commit, s queue.StepSpec) (tip, error) {
	tree, err := c.merge(ctx, on.commit, head.ID)
	if err != nil {
		return tip{}, err
	}
	own, err := c.own(ctx, on.commit, head.ID)
	if err != nil {
		return tip{}, err
	}
	message, author, err := c.squashMessage(ctx, s, own)
	if err != nil {
		return tip{}, err
	}
	return c.put(ctx, draft{
		tree: tree, parents: []string{on.commit}, message: message, author: author, when: max(on.when, head.When),
	})
}

// rebaseStep replays the commits of a pull request. What is already there,
// so that nothing is left of it, is dropped. When the result is not that of a
// merge, it is a conflict, as it is for the host: a merge commit among those
// of the pull request may have settled what its other commits do not.
// https://github.com/orgs/community/discussions/22403
func (c *clone) rebaseStep(ctx context.Context, on tip, head Commit, s queue.StepSpec) (tip, error) {
	own, err := c.own(ctx, on.commit, head.ID)
	if err != nil {
		return tip{}, err
	}
	if len(own) > maxReplayed {
		return tip{}, &conflictError{why: fmt.Sprintf("the pull request has more than %d commits to rebase", maxReplayed)}
	}
	if len(own) > 0 {
		if _, err := c.git(ctx, job{args: []string{"merge-base", "--end-of-options", on.commit, head.ID}}); err != nil {
			return tip{}, &conflictError{why: "the pull request has no history in common with its base"}
		}
	}
	at := on
	for _, k := range own {
		tree, err := c.pick(ctx, at, k)
		if err != nil {
			return tip{}, err
		}
		if tree == at.tree {
			continue
		}
		if at, err = c.put(ctx, draft{
			tree: tree, parents: []string{at.commit}, message: k.Message,
			author: k.author, authorDate: k.authorDate, when: max(at.when, k.When),
		}); err != nil {
			return tip{}, err
		}
	}
	if len(own) != 1 || own[0].ID != head.ID { // else a replay is a merge
		whole, err := c.merge(ctx, on.commit, head.ID)
		if err != nil {
			return tip{}, err
		}
		if whole != at.tree {
			return tip{}, &conflictError{why: "its commits, replayed one by one, give another result than merging it; " +
				"rebase the branch by hand, so that it has no merge commits"}
		}
	}
	if at != on {
		return at, nil
	}
	return c.put(ctx, draft{tree: on.tree, parents: []string{on.commit}, message: Title(queue.Rebase, s) + "\n", when: max(on.when, head.When)})
}

// pick applies one commit's change to a tip and returns the tree. A commit
// without a parent is a change against the empty tree.
func (c *clone) pick(ctx context.Context, on tip, k Commit) (string, error) {
	if len(k.Parents) == 0 {
		return c.merge(ctx, on.commit, k.ID)
	}
	stand, err := c.write(ctx, draft{tree: on.tree, parents: k.Parents[:1], message: "stand-in\n"})
	if err != nil {
		return "", err
	}
	return c.merge(ctx, stand, k.ID)
}

// own lists the commits of a pull request that a base does not have, oldest
// first, merges left out; one more than maxReplayed at most.
func (c *clone) own(ctx context.Context, base, head string) ([]Commit, error) {
	commits, err := c.commits(ctx, "--no-merges", "--topo-order", "--reverse", fmt.Sprintf("--max-count=%d", maxReplayed+1), "--end-of-options", base+".."+head)
	if err != nil {
		return nil, fmt.Errorf("list the commits of a pull request: %w", err)
	}
	return commits, nil
}

// put writes a commit and returns it as the new tip.
func (c *clone) put(ctx context.Context, d draft) (tip, error) {
	d.kept = true
	id, err := c.write(ctx, d)
	return tip{id, d.tree, d.when}, err
}
