package githubsim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// workTree is where a repository's pull requests are merged: with files and
// an index, by the commands that a person would type. The program under test
// merges without either, so that a comparison of the two means something.
type workTree struct {
	git *gitStore

	mu    sync.Mutex // held for one merge
	made  bool
	dirty bool // a merge ended in a conflict
}

// noAttributes has git look at no file's attributes: the host merges no file
// by another driver, and changes no line ending, because a tree asks for it.
const noAttributes = "* !merge !text !eol !filter !ident !working-tree-encoding !conflict-marker-size !diff\n"

// at makes the work tree what a commit says. w.mu is held.
func (w *workTree) at(ctx context.Context, commit string) error {
	if !w.made {
		if err := os.MkdirAll(filepath.Join(w.git.dir, "info"), 0o755); err != nil {
			return fmt.Errorf("make work tree: %w", err)
		}
		if err := os.WriteFile(filepath.Join(w.git.dir, "info", "attributes"), []byte(noAttributes), 0o644); err != nil {
			return fmt.Errorf("make work tree: %w", err)
		}
		if _, err := runGit(ctx, w.git.dir, "worktree", "add", "--quiet", "--force", "--force", "--detach", "--no-checkout", w.dir(), commit); err != nil {
			return fmt.Errorf("make work tree: %w", err)
		}
		w.made = true
	}
	if w.dirty {
		if _, err := runGit(ctx, w.dir(), "clean", "-ffdxq"); err != nil {
			return err
		}
		w.dirty = false
	}
	// Not "reset": the commit of the last merge must not stay behind.
	_, err := runGit(ctx, w.dir(), "checkout", "--quiet", "--force", "--detach", commit)
	return err
}

func (w *workTree) dir() string { return strings.TrimSuffix(w.git.dir, ".git") + ".work" }

// try runs a git command that exits with 1 where there is a conflict.
func (w *workTree) try(ctx context.Context, args ...string) (conflict bool, err error) {
	args = append([]string{"-c", "user.name=GitHub", "-c", "user.email=noreply@github.com", "-c", "merge.conflictStyle=merge"}, args...)
	_, err = runGit(ctx, w.dir(), args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || strings.Contains(err.Error(), "refusing to merge unrelated histories")) {
		w.dirty = true
		return true, nil
	}
	return false, err
}

// tree is what the index holds.
func (w *workTree) tree(ctx context.Context) (string, error) {
	out, err := runGit(ctx, w.dir(), "write-tree")
	return strings.TrimSpace(out), err
}

// merge merges head into base and returns the tree.
func (w *workTree) merge(ctx context.Context, base, head string) (tree string, conflict bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.at(ctx, base); err != nil {
		return "", false, err
	}
	if conflict, err := w.try(ctx, "merge", "--quiet", "--no-commit", "--no-ff", "--no-verify", "--", head); err != nil || conflict {
		return "", conflict, err
	}
	tree, err = w.tree(ctx)
	return tree, false, err
}

// pick applies commits one after the other, beginning at base, and returns
// the tree after each.
func (w *workTree) pick(ctx context.Context, base string, commits []string) (trees []string, conflict bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.at(ctx, base); err != nil {
		return nil, false, err
	}
	for _, c := range commits {
		if conflict, err := w.try(ctx, "cherry-pick", "--no-commit", "--allow-empty", "--keep-redundant-commits", c); err != nil || conflict {
			return nil, conflict, err
		}
		tree, err := w.tree(ctx)
		if err != nil {
			return nil, false, err
		}
		trees = append(trees, tree)
	}
	return trees, false, nil
}
