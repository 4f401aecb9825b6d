package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/queue"
)

// files is a tree: path to content.
type files map[string]string

// commit is one commit of the host.
type commit struct {
	id      string
	tree    files
	treeID  string
	parents []string
	pr      int64 // the pull request that it lands or tests; 0 = somebody's push
}

// pull is a pull request of the host.
type pull struct {
	queue.PullRequest
	from   string // the commit its branch began on
	landed string // the commit as which our App merged it
}

// host is a Git host with one repository.
type host struct {
	commits  map[string]*commit
	branches map[string]string
	pulls    map[int64]*pull
	deleted  string // the head of main while it is gone
	// blocked are pull requests that miss an approval.
	blocked map[int64]bool
	// refused are pull requests that the host will not land, with its words.
	refused map[int64]string
	// unnamed are those of them that the host refuses without naming them.
	unnamed map[int64]bool
	// hung are pull requests of which the next call to merge them hangs, and the one
	// after that is refused.
	hung map[int64]bool
	// reports are what CI has said about each commit, oldest first.
	reports map[string][]queue.Report
	// green are the heads of pull requests that CI has passed.
	green  map[string]bool
	checks int64 // reports made so far, for their ids
	// computing, when set, has the base of each pull request on which somebody
	// asked whether it can be merged: only a second question gets an answer.
	computing map[int64]string
}

func newHost(branch string) *host {
	h := &host{
		commits: map[string]*commit{}, branches: map[string]string{}, pulls: map[int64]*pull{},
		blocked: map[int64]bool{}, refused: map[int64]string{}, unnamed: map[int64]bool{}, hung: map[int64]bool{},
		reports: map[string][]queue.Report{}, green: map[string]bool{},
	}
	h.branches[branch] = h.commit(files{"README.md": "hello\n"}, 0)
	return h
}

// commit makes a commit. Its id depends on what is in it and on its parents,
// so that doing it again makes the same one.
func (h *host) commit(tree files, pr int64, parents ...string) string {
	return h.stamped(0, tree, pr, parents...)
}

// stamped makes a commit that differs from others of the same tree by a stamp,
// as a time would make it.
func (h *host) stamped(stamp int64, tree files, pr int64, parents ...string) string {
	c := &commit{tree: tree, treeID: "t" + digest(tree.text()), parents: parents, pr: pr}
	c.id = "c" + digest(c.treeID, strings.Join(parents, " "), fmt.Sprint(pr, stamp))
	h.commits[c.id] = c
	return c.id
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func (f files) text() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%q=%q\n", path, f[path])
	}
	return b.String()
}

// with is a tree after a change; a file named with a leading "-" is deleted.
func (f files) with(change files) files {
	next := maps.Clone(f)
	for path, content := range change {
		if name, deleted := strings.CutPrefix(path, "-"); deleted {
			delete(next, name)
		} else {
			next[path] = content
		}
	}
	return next
}

// merge puts what changed between base and head onto another tree, file by
// file. ok is false when both changed a file differently.
func merge(base, head, onto files) (merged files, ok bool) {
	merged = maps.Clone(onto)
	for _, path := range slices.Sorted(maps.Keys(union(base, head))) {
		was, wasThere := base[path]
		is, isThere := head[path]
		now, nowThere := onto[path]
		switch {
		case was == is && wasThere == isThere: // not changed by this side
		case now == is && nowThere == isThere: // changed alike
		case now != was || nowThere != wasThere:
			return nil, false
		case isThere:
			merged[path] = is
		default:
			delete(merged, path)
		}
	}
	return merged, true
}

func union(a, b files) files {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// land merges a pull request's head onto a commit.
func (h *host) land(number int64, head, onto string) (string, bool) {
	return h.landStamped(0, number, head, onto)
}

func (h *host) landStamped(stamp int64, number int64, head, onto string) (string, bool) {
	p := h.pulls[number]
	tree, ok := merge(h.commits[p.from].tree, h.commits[head].tree, h.commits[onto].tree)
	if !ok {
		return "", false
	}
	return h.stamped(stamp, tree, number, onto, head), true
}

// merged is the tree that merging a pull request's head onto a commit gives.
func (h *host) merged(number int64, head, onto string) string {
	tree, ok := merge(h.commits[h.pulls[number].from].tree, h.commits[head].tree, h.commits[onto].tree)
	if !ok {
		return ""
	}
	return "t" + digest(tree.text())
}

// contains reports whether a commit is another, or among its ancestors.
func (h *host) contains(commit, ancestor string) bool {
	seen := map[string]bool{}
	todo := []string{commit}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id == ancestor {
			return true
		}
		if c := h.commits[id]; c != nil && !seen[id] {
			seen[id] = true
			todo = append(todo, c.parents...)
		}
	}
	return false
}

// history lists the first-parent commits of a branch, oldest first.
func (h *host) history(branch string) []*commit { return h.ancestry(h.branches[branch]) }

// ancestry lists a commit and its first-parent ancestors, oldest first.
func (h *host) ancestry(id string) []*commit {
	var list []*commit
	for id != "" {
		c := h.commits[id]
		list = append(list, c)
		id = ""
		if len(c.parents) > 0 {
			id = c.parents[0]
		}
	}
	slices.Reverse(list)
	return list
}

// seen is the fact that a read of a pull request gives.
func (h *host) seen(number int64) queue.PullRequestSeen {
	return queue.PullRequestSeen{PullRequest: h.pulls[number].PullRequest, Read: true, Landed: h.pulls[number].landed}
}

func (h *host) mergeability(number int64) queue.MergeabilitySeen {
	p := h.pulls[number]
	m := queue.MergeabilitySeen{PR: number, Head: p.Head, Value: queue.Mergeable}
	if base := h.branches[p.Base]; h.computing != nil && h.computing[number] != base {
		h.computing[number] = base
		m.Value, m.Why = queue.MergeabilityInProgress, "The host is still computing whether it can be merged."
		return m
	}
	if h.blocked[number] {
		m.Value, m.Why = queue.NotMergeable, "A review is missing."
	}
	if p.Draft {
		m.Value, m.Why = queue.NotMergeable, "The pull request is a draft."
	}
	if base, ok := h.branches[p.Base]; ok && p.Open {
		if _, ok := h.land(number, p.Head, base); !ok {
			m.Value, m.Why = queue.NotMergeable, "It conflicts with "+p.Base+"."
		}
	}
	return m
}

// numbers are those of all pull requests, in order.
func (h *host) numbers() []int64 { return slices.Sorted(maps.Keys(h.pulls)) }

// beneath is the open pull request on whose branch another is based, nil if
// that is no branch of one.
func (h *host) beneath(number int64) *pull {
	for _, n := range h.numbers() {
		if p := h.pulls[n]; p.Open && n != number && p.HeadRef == h.pulls[number].Base {
			return p
		}
	}
	return nil
}

// touch gives a pull request a new time of change.
func (p *pull) touch(now time.Time) { p.UpdatedAt = now.Truncate(time.Second) }

// fails judges a tree by the CI rule.
func (f files) fails(check string) bool {
	dir := ".ci-sim/" + check + "/"
	for path, content := range f {
		if strings.HasPrefix(path, dir) && f.all(strings.Fields(content)) {
			return true
		}
	}
	return false
}

func (f files) all(paths []string) bool {
	for _, p := range paths {
		if _, ok := f[p]; !ok {
			return false
		}
	}
	return true
}
