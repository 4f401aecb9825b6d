package githubsim

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// lookup finds a file or folder in a tree; errMissing when it is not there.
func (g *gitStore) lookup(tree, path string) (treeEntry, error) {
	at := treeEntry{Mode: "40000", SHA: tree}
	path = strings.Trim(path, "/")
	if path == "" {
		return at, nil
	}
	for _, name := range strings.Split(path, "/") {
		if !at.isDir() {
			return treeEntry{}, errMissing
		}
		entries, err := g.tree(at.SHA)
		if err != nil {
			return treeEntry{}, err
		}
		found := false
		for _, e := range entries {
			if e.Name == name {
				at, found = e, true
				break
			}
		}
		if !found {
			return treeEntry{}, errMissing
		}
	}
	return at, nil
}

// checkPath refuses a path that git would not keep in a tree.
func checkPath(path string) error {
	for _, name := range strings.Split(path, "/") {
		if name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.ContainsRune(name, 0) {
			return fmt.Errorf("%q is not a path that git can keep", path)
		}
	}
	return nil
}

// edit returns the tree that results from writing and (with nil) removing
// files. tree "" is the empty tree.
func (g *gitStore) edit(tree string, files map[string]*string) (string, error) {
	for path := range files {
		if err := checkPath(path); err != nil {
			return "", err
		}
	}
	sha, empty, err := g.editDir(tree, files)
	if err == nil && empty {
		return g.writeTree(nil)
	}
	return sha, err
}

func (g *gitStore) editDir(tree string, files map[string]*string) (sha string, empty bool, err error) {
	byName := map[string]treeEntry{}
	if tree != "" {
		entries, err := g.tree(tree)
		if err != nil {
			return "", false, err
		}
		for _, e := range entries {
			byName[e.Name] = e
		}
	}
	below := map[string]map[string]*string{}
	for path, content := range files {
		name, rest, deeper := strings.Cut(path, "/")
		if deeper {
			if below[name] == nil {
				below[name] = map[string]*string{}
			}
			below[name][rest] = content
			continue
		}
		if content == nil {
			delete(byName, name)
			continue
		}
		blob, err := g.write("blob", []byte(*content))
		if err != nil {
			return "", false, err
		}
		mode := "100644"
		if old, ok := byName[name]; ok && !old.isDir() {
			mode = old.Mode
		}
		byName[name] = treeEntry{mode, name, blob}
	}
	for name, part := range below {
		sub := ""
		if old, ok := byName[name]; ok && old.isDir() {
			sub = old.SHA
		}
		child, gone, err := g.editDir(sub, part)
		if err != nil {
			return "", false, err
		}
		if gone {
			delete(byName, name)
		} else {
			byName[name] = treeEntry{"40000", name, child}
		}
	}
	if len(byName) == 0 {
		return "", true, nil
	}
	entries := make([]treeEntry, 0, len(byName))
	for _, e := range byName {
		entries = append(entries, e)
	}
	sha, err = g.writeTree(entries)
	return sha, false, err
}

// files calls f for every file under a folder of a tree, in order.
func (g *gitStore) files(tree, dir string, f func(path string, e treeEntry) error) error {
	at, err := g.lookup(tree, dir)
	if errors.Is(err, errMissing) || (err == nil && !at.isDir()) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := g.tree(at.SHA)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := strings.TrimPrefix(dir+"/"+e.Name, "/")
		if e.isDir() {
			err = g.files(tree, path, f)
		} else {
			err = f(path, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileChange is one file that differs between two trees.
type fileChange struct {
	Path, Status         string // added, removed, modified
	SHA                  string // of the blob after the change, or before it when removed
	Additions, Deletions int
}

// diff lists the files that differ, by path. Lines are counted only when
// asked for; renames are shown as a removal and an addition.
func (g *gitStore) diff(before, after string, lines bool) ([]fileChange, error) {
	var out []fileChange
	err := g.diffDir("", before, after, func(path string, a, b treeEntry) error {
		c := fileChange{Path: path, Status: "modified", SHA: b.SHA}
		switch {
		case a.SHA == "":
			c.Status = "added"
		case b.SHA == "":
			c.Status, c.SHA = "removed", a.SHA
		}
		if lines {
			var err error
			if c.Additions, c.Deletions, err = g.lineCounts(a, b); err != nil {
				return err
			}
		}
		out = append(out, c)
		return nil
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, err
}

func (g *gitStore) diffDir(prefix, before, after string, f func(path string, a, b treeEntry) error) error {
	if before == after {
		return nil
	}
	a, err := g.byName(before)
	if err != nil {
		return err
	}
	b, err := g.byName(after)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for n := range a {
		names[n] = true
	}
	for n := range b {
		names[n] = true
	}
	for name := range names {
		x, y := a[name], b[name]
		if x == y {
			continue
		}
		var dirs [2]string
		if x.isDir() {
			dirs[0], x = x.SHA, treeEntry{}
		}
		if y.isDir() {
			dirs[1], y = y.SHA, treeEntry{}
		}
		if x != y {
			if err := f(prefix+name, x, y); err != nil {
				return err
			}
		}
		if err := g.diffDir(prefix+name+"/", dirs[0], dirs[1], f); err != nil {
			return err
		}
	}
	return nil
}

func (g *gitStore) byName(tree string) (map[string]treeEntry, error) {
	out := map[string]treeEntry{}
	if tree == "" {
		return out, nil
	}
	entries, err := g.tree(tree)
	for _, e := range entries {
		out[e.Name] = e
	}
	return out, err
}

// lineCounts counts the lines that differ after the common start and end of
// two files are taken off: a little more than a real diff says when there are
// several changes in one file.
func (g *gitStore) lineCounts(a, b treeEntry) (added, deleted int, err error) {
	read := func(e treeEntry) ([][]byte, error) {
		if e.SHA == "" || e.Mode == "160000" {
			return nil, nil
		}
		data, err := g.blob(e.SHA)
		if len(data) == 0 {
			return nil, err
		}
		return bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")), err
	}
	x, err := read(a)
	if err != nil {
		return 0, 0, err
	}
	y, err := read(b)
	if err != nil {
		return 0, 0, err
	}
	for len(x) > 0 && len(y) > 0 && bytes.Equal(x[0], y[0]) {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && bytes.Equal(x[len(x)-1], y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return len(y), len(x), nil
}
