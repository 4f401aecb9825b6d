package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Read reads commits by id, in that order. Stale: the host does not have one.
func (m *Mirrors) Read(ctx context.Context, src Source, ids ...string) ([]Commit, error) {
	var commits []Commit
	err := m.with(ctx, src, func(c *clone) error {
		commits = nil
		if err := c.need(ctx, ids...); err != nil {
			return err
		}
		for _, id := range ids {
			k, err := c.commit(ctx, id)
			if err != nil {
				return err
			}
			commits = append(commits, k)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read commits of %s: %w", src.Repo, err)
	}
	return commits, nil
}

// atHead has do read the history of a branch of the host from its head on; "" when
// the branch does not exist. Like what [Mirrors.with] is given, do may be called twice.
func (m *Mirrors) atHead(ctx context.Context, src Source, branch string, do func(c *clone, head string) error) error {
	err := m.with(ctx, src, func(c *clone) error {
		got, err := c.fetch(ctx, wanted{branches: []string{branch}})
		if err != nil {
			return err
		}
		return do(c, got.branches[branch])
	})
	if err != nil {
		return fmt.Errorf("read the history of %s of %s: %w", branch, src.Repo, err)
	}
	return nil
}

// Since lists the first-parent commits that a branch of the host gained since
// a commit, oldest first, at most limit. ok is false when the branch does not
// exist or that commit is not among the first parents of its last limit
// commits.
func (m *Mirrors) Since(ctx context.Context, src Source, branch, commit string, limit int) (gained []Commit, ok bool, err error) {
	err = m.atHead(ctx, src, branch, func(c *clone, head string) error {
		gained, ok = nil, false
		if head == "" {
			return nil
		}
		list, err := c.commits(ctx, "--first-parent", fmt.Sprintf("--max-count=%d", limit+1), "--end-of-options", head)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(k Commit) bool { return k.ID == commit })
		if at < 0 {
			return nil
		}
		gained, ok = list[:at], true
		slices.Reverse(gained)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return gained, ok, nil
}

// Differ lists paths that differ between two trees or commits, at most most,
// for people: quoted and cut.
func (m *Mirrors) Differ(ctx context.Context, src Source, a, b string, most int) (paths []string, err error) {
	if !validCommit(a) || !validCommit(b) {
		return nil, fmt.Errorf("compare %.80q with %.80q: not ids", a, b)
	}
	err = m.with(ctx, src, func(c *clone) error {
		out, err := c.local(ctx, job{args: []string{"diff-tree", "-r", "--name-only", "-z", "--no-renames", "--end-of-options", a, b}})
		if err != nil {
			return err
		}
		paths = nil
		for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
			if name != "" && len(paths) < most {
				paths = append(paths, fmt.Sprintf("%.200q", name))
			}
		}
		return nil
	})
	return paths, err
}

// File reads the first of the named files that a commit has as an ordinary
// file; name is "" if it has none of them. A file of more than most bytes is
// not returned, and tooLong says so. The commit must be in the mirror or on the host.
func (m *Mirrors) File(ctx context.Context, src Source, commit string, most int, names ...string) (name string, body []byte, tooLong bool, err error) {
	err = m.with(ctx, src, func(c *clone) error {
		name, body, tooLong = "", nil, false
		if err := c.need(ctx, commit); err != nil {
			return err
		}
		out, err := c.local(ctx, job{args: append([]string{"ls-tree", "-z", "--full-tree", "--end-of-options", commit}, names...)})
		if err != nil {
			return err
		}
		blobs := map[string]string{}
		for line := range strings.SplitSeq(string(out), "\x00") {
			meta, path, _ := strings.Cut(line, "\t")
			if f := strings.Fields(meta); len(f) == 3 && f[1] == "blob" && strings.HasPrefix(f[0], "100") {
				blobs[path] = f[2]
			}
		}
		at := slices.IndexFunc(names, func(n string) bool { return blobs[n] != "" })
		if at < 0 {
			return nil
		}
		name = names[at]
		body, err = c.local(ctx, job{args: []string{"cat-file", "blob", blobs[name]}, limit: most})
		if errors.Is(err, errTooLong) {
			tooLong, err = true, nil
		}
		return err
	})
	if err != nil {
		return "", nil, false, fmt.Errorf("read files of %.10s of %s: %w", commit, src.Repo, err)
	}
	return name, body, tooLong, nil
}

// Line lists the first parents of a branch of the host, oldest first, from a
// commit on, that one included. Without that commit, or when it is not among
// them, all are listed. ok is false when the branch does not exist.
func (m *Mirrors) Line(ctx context.Context, src Source, branch, from string) (line []Commit, ok bool, err error) {
	err = m.atHead(ctx, src, branch, func(c *clone, head string) (err error) {
		line, ok = nil, head != ""
		if !ok {
			return nil
		}
		line, err = c.pages(ctx, head, from)
		slices.Reverse(line)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return line, ok, nil
}

// pageOfLine is how many commits are read at once: git's answer is bounded.
const pageOfLine = 5000

// pages lists first parents, newest first, down to a commit.
func (c *clone) pages(ctx context.Context, head, from string) ([]Commit, error) {
	var line []Commit
	for {
		page, err := c.commits(ctx, "--first-parent", fmt.Sprintf("--max-count=%d", pageOfLine), "--end-of-options", head)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(page, func(k Commit) bool { return k.ID == from }); at >= 0 {
			return append(line, page[:at+1]...), nil
		}
		line = append(line, page...)
		if len(page) < pageOfLine || len(page[len(page)-1].Parents) == 0 {
			return line, nil
		}
		head = page[len(page)-1].Parents[0]
	}
}
