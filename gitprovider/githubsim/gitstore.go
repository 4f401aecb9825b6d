package githubsim

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// gitStore is one bare repository on disk. Reads go through one long-lived
// `git cat-file`, ref changes through one long-lived `git update-ref`, new
// blobs, trees and commits are written as loose objects. Whether something
// merges is tried with `git merge-tree`; it is merged in a work tree. It is safe for concurrent use; who may move a ref and
// when is decided above it.
type gitStore struct {
	dir     string // the bare repository
	objects string // where new objects go: a fork's go to its parent, which it borrows from

	cat  *coprocess
	refw *coprocess
	work *workTree

	mu      sync.Mutex // guards the caches below, which hold immutable objects only
	commits map[string]*commit
	gens    map[string]int
	trees   map[string][]treeEntry
}

// commit is a parsed commit object.
type commit struct {
	SHA, Tree string
	Parents   []string
	Author    signature
	Committer signature
	Message   string
}

// signature says who and when.
type signature struct {
	Name, Email string
	When        time.Time
}

// treeEntry is one line of a tree object.
type treeEntry struct {
	Mode, Name, SHA string
}

func (e treeEntry) isDir() bool { return e.Mode == "40000" }

// bareConfig is appended to the configuration of every repository: what
// GitHub allows to clients, and no housekeeping behind our back.
const bareConfig = `
[uploadpack]
	allowAnySHA1InWant = true
	allowReachableSHA1InWant = true
	allowTipSHA1InWant = true
	allowFilter = true
[http]
	receivepack = true
[receive]
	autogc = false
	hideRefs = refs/pull
	denyDeleteCurrent = refuse
[gc]
	auto = 0
[maintenance]
	auto = false
[core]
	fsync = none
	looseCompression = 1
`

// createStore makes a new bare repository. With a parent it borrows the
// parent's objects, as forks do.
func createStore(ctx context.Context, dir, branch string, parent *gitStore) (*gitStore, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("create repository: %w", err)
	}
	if _, err := runGit(ctx, "", "init", "--quiet", "--bare", "--template=", "--initial-branch="+branch, dir); err != nil {
		return nil, fmt.Errorf("create repository: %w", err)
	}
	config, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("create repository: %w", err)
	}
	_, err = config.WriteString(bareConfig)
	if err := errors.Join(err, config.Close()); err != nil {
		return nil, fmt.Errorf("create repository: %w", err)
	}
	g := openStore(dir)
	if parent != nil {
		g.objects = parent.objects
		info := filepath.Join(dir, "objects", "info")
		if err := os.MkdirAll(info, 0o755); err != nil {
			return nil, fmt.Errorf("create fork: %w", err)
		}
		if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(parent.objects+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("create fork: %w", err)
		}
	}
	return g, nil
}

// openStore reads a bare repository that exists.
func openStore(dir string) *gitStore {
	g := &gitStore{
		dir:     dir,
		objects: filepath.Join(dir, "objects"),
		cat:     &coprocess{dir: dir, args: []string{"cat-file", "--batch"}},
		refw:    &coprocess{dir: dir, args: []string{"update-ref", "--stdin"}},
		commits: map[string]*commit{},
		gens:    map[string]int{},
		trees:   map[string][]treeEntry{},
	}
	g.work = &workTree{git: g}
	return g
}

// close ends the processes.
func (g *gitStore) close() {
	g.cat.close()
	g.refw.close()
}

// updateRefs moves refs, all or none.
func (g *gitStore) updateRefs(updates ...refUpdate) error { return g.refw.updateRefs(updates) }

// commit reads a commit by its full id.
func (g *gitStore) commit(sha string) (*commit, error) {
	g.mu.Lock()
	c := g.commits[sha]
	g.mu.Unlock()
	if c != nil {
		return c, nil
	}
	full, kind, data, err := g.cat.object(sha)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", sha, err)
	}
	if kind == "tag" {
		return g.commit(sha + "^{commit}")
	}
	if kind != "commit" {
		return nil, fmt.Errorf("commit %s: %w: it is a %s", sha, errMissing, kind)
	}
	c = parseCommit(full, data)
	g.mu.Lock()
	g.commits[full] = c
	g.mu.Unlock()
	return c, nil
}

// cachedCommit is a commit that was read before, without asking git.
func (g *gitStore) cachedCommit(sha string) (*commit, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.commits[sha]
	return c, ok
}

func parseCommit(sha string, data []byte) *commit {
	c := &commit{SHA: sha}
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	c.Message = string(message)
	for _, line := range strings.Split(string(head), "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parseSignature(value)
		case "committer":
			c.Committer = parseSignature(value)
		}
	}
	return c
}

var signaturePattern = regexp.MustCompile(`^(.*?) ?<([^>]*)> (-?\d+) ([+-]\d{4})$`)

func parseSignature(text string) signature {
	m := signaturePattern.FindStringSubmatch(text)
	if m == nil {
		return signature{Name: text}
	}
	seconds, _ := strconv.ParseInt(m[3], 10, 64)
	zone, _ := strconv.Atoi(m[4])
	offset := (zone/100*60 + zone%100) * 60
	return signature{Name: m[1], Email: m[2], When: time.Unix(seconds, 0).In(time.FixedZone("", offset))}
}

// tree reads a tree object, or the tree of a commit.
func (g *gitStore) tree(sha string) ([]treeEntry, error) {
	g.mu.Lock()
	entries, ok := g.trees[sha]
	g.mu.Unlock()
	if ok {
		return entries, nil
	}
	_, kind, data, err := g.cat.object(sha)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", sha, err)
	}
	if kind == "commit" {
		return g.tree(parseCommit(sha, data).Tree)
	}
	if kind != "tree" {
		return nil, fmt.Errorf("tree %s: %w: it is a %s", sha, errMissing, kind)
	}
	for len(data) > 0 {
		mode, rest, ok1 := bytes.Cut(data, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok1 || !ok2 || len(rest) < 20 {
			return nil, fmt.Errorf("tree %s: malformed", sha)
		}
		entries = append(entries, treeEntry{string(mode), string(name), hex.EncodeToString(rest[:20])})
		data = rest[20:]
	}
	g.mu.Lock()
	if len(g.trees) > 50_000 {
		clear(g.trees)
	}
	g.trees[sha] = entries
	g.mu.Unlock()
	return entries, nil
}

// blob reads a file's content.
func (g *gitStore) blob(sha string) ([]byte, error) {
	_, kind, data, err := g.cat.object(sha)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", sha, err)
	}
	if kind != "blob" {
		return nil, fmt.Errorf("blob %s: %w: it is a %s", sha, errMissing, kind)
	}
	return data, nil
}

// compressors are kept because each is a megabyte to make.
var compressors = sync.Pool{New: func() any {
	z, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed) // the level is a good one
	return z
}}

// write stores an object and returns its id.
func (g *gitStore) write(kind string, data []byte) (string, error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	sum := sha1.Sum(raw)
	sha := hex.EncodeToString(sum[:])
	dir := filepath.Join(g.objects, sha[:2])
	path := filepath.Join(dir, sha[2:])
	if _, err := os.Stat(path); err == nil {
		return sha, nil
	}
	var packed bytes.Buffer
	z := compressors.Get().(*zlib.Writer)
	z.Reset(&packed)
	z.Write(raw)
	z.Close()
	compressors.Put(z)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("write %s: %w", kind, err)
	}
	tmp, err := os.CreateTemp(dir, "tmp_obj_")
	if err != nil {
		return "", fmt.Errorf("write %s: %w", kind, err)
	}
	_, err = tmp.Write(packed.Bytes())
	err = errors.Join(err, tmp.Chmod(0o444), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return "", fmt.Errorf("write %s: %w", kind, err)
	}
	return sha, nil
}

// writeTree stores a tree with its entries in git's order.
func (g *gitStore) writeTree(entries []treeEntry) (string, error) {
	key := func(e treeEntry) string {
		if e.isDir() {
			return e.Name + "/"
		}
		return e.Name
	}
	sort.Slice(entries, func(i, j int) bool { return key(entries[i]) < key(entries[j]) })
	var data bytes.Buffer
	for _, e := range entries {
		raw, err := hex.DecodeString(e.SHA)
		if err != nil {
			return "", fmt.Errorf("write tree: %w", err)
		}
		fmt.Fprintf(&data, "%s %s\x00%s", e.Mode, e.Name, raw)
	}
	sha, err := g.write("tree", data.Bytes())
	if err == nil {
		g.remember(func() { g.trees[sha] = slices.Clone(entries) })
	}
	return sha, err
}

// remember fills the caches with what was just written, so that git need not
// be asked for it.
func (g *gitStore) remember(fill func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fill()
}

// writeCommit stores a commit; c.SHA is filled in.
func (g *gitStore) writeCommit(c *commit) error {
	var data bytes.Buffer
	fmt.Fprintf(&data, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&data, "parent %s\n", p)
	}
	fmt.Fprintf(&data, "author %s\ncommitter %s\n\n%s", c.Author, c.Committer, c.Message)
	sha, err := g.write("commit", data.Bytes())
	if err != nil {
		return err
	}
	c.SHA = sha
	known := *c
	g.remember(func() { g.commits[sha] = &known })
	return nil
}

// String is the form that a signature has in a commit object.
func (s signature) String() string {
	clean := strings.NewReplacer("\n", " ", "<", "", ">", "", "\x00", "")
	return fmt.Sprintf("%s <%s> %d %s", clean.Replace(s.Name), clean.Replace(s.Email), s.When.Unix(), s.When.Format("-0700"))
}

// mergeTree merges two commits as git would and returns the tree. Conflicts
// are told by the exit status, which is 1 for them and nothing else.
func (g *gitStore) mergeTree(ctx context.Context, ours, theirs string) (tree string, conflict bool, err error) {
	out, err := runGit(ctx, g.dir, "merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", true, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(out), false, nil
}
