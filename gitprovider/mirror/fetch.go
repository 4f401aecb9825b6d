package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"signalbox/gitprovider"
)

// wanted is what one fetch is to bring.
type wanted struct {
	branches []string
	pulls    []int64
	commits  []string // already known to be missing here
}

// fetched is what it brought: what the host does not have is missing in the
// maps, and commits that it does not have are not in the mirror afterwards.
type fetched struct {
	branches map[string]string
	pulls    map[int64]string
}

// fetch brings branches, heads of pull requests and commits in one go. What
// the host does not have makes git refuse the whole, so in that case the host
// is asked what there is and the rest is fetched.
func (c *clone) fetch(ctx context.Context, w wanted) (fetched, error) {
	for _, b := range w.branches {
		if !validBranch(b) {
			return fetched{}, &gitprovider.Error{Kind: gitprovider.Denied, Message: fmt.Sprintf("%q cannot be the name of a branch", b)}
		}
	}
	got, err := c.fetchAll(ctx, w)
	if err == nil || ctx.Err() != nil {
		return got, err
	}
	there, err := c.listRemote(ctx, w)
	if err != nil {
		return fetched{}, err
	}
	less := wanted{
		branches: slices.DeleteFunc(slices.Clone(w.branches), func(b string) bool { return !there["refs/heads/"+b] }),
		pulls:    slices.DeleteFunc(slices.Clone(w.pulls), func(n int64) bool { return !there[pullRef(n)] }),
	}
	if got, err = c.fetchAll(ctx, less); err != nil {
		if ctx.Err() != nil {
			return got, err
		}
		// The host answers, and has all of it: then the fault is here.
		return got, fmt.Errorf("%w: %w", errBroken, err)
	}
	// Commits by id may be refused. Each is fetched by itself and may stay away.
	for _, commit := range w.commits {
		if _, err := c.fetchAll(ctx, wanted{commits: []string{commit}}); err != nil && ctx.Err() != nil {
			return got, err
		}
	}
	return got, nil
}

// fetchAll runs one fetch. The target is kept under a reference of ours, so
// that the next fetch can say what is here; everything else is read from
// FETCH_HEAD and needs no reference.
func (c *clone) fetchAll(ctx context.Context, w wanted) (fetched, error) {
	got := fetched{branches: map[string]string{}, pulls: map[int64]string{}}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--force", "--end-of-options", "origin"}
	before := len(args)
	for _, b := range w.branches {
		args = append(args, "+refs/heads/"+b+":"+localRef(b))
	}
	for _, n := range w.pulls {
		args = append(args, pullRef(n))
	}
	args = append(args, w.commits...)
	if len(args) == before {
		return got, nil
	}
	if _, err := c.git(ctx, job{remote: true, args: args}); err != nil {
		return got, c.remoteError(err)
	}
	heads, err := os.ReadFile(filepath.Join(c.dir, "FETCH_HEAD"))
	if err != nil {
		return got, fmt.Errorf("%w: %w", errBroken, err)
	}
	for line := range strings.Lines(string(heads)) {
		commit, note, _ := strings.Cut(line, "\t")
		if found := pullNote.FindStringSubmatch(note); found != nil {
			n, _ := strconv.ParseInt(found[1], 10, 64)
			got.pulls[n] = commit
		}
	}
	for _, b := range w.branches {
		out, err := c.local(ctx, job{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", localRef(b)}})
		if err != nil {
			return got, err
		}
		got.branches[b] = strings.TrimSpace(string(out))
	}
	return got, nil
}

var pullNote = regexp.MustCompile(`'refs/pull/(\d+)/head' of `)

// listRemote asks the host which of the wanted references exist.
func (c *clone) listRemote(ctx context.Context, w wanted) (map[string]bool, error) {
	args := []string{"ls-remote", "--quiet", "--end-of-options", "origin"}
	for _, b := range w.branches {
		args = append(args, "refs/heads/"+escapeGlob(b))
	}
	for _, n := range w.pulls {
		args = append(args, pullRef(n))
	}
	if len(args) == 4 {
		args = append(args, "HEAD")
	}
	out, err := c.git(ctx, job{remote: true, outside: true, args: args})
	if err != nil {
		return nil, c.remoteError(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		_, ref, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		there[ref] = true
	}
	return there, nil
}

// escapeGlob is for a name in a place where git takes patterns. Valid branch
// names have none of the characters, so this is a second fence.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func pullRef(n int64) string { return fmt.Sprintf("refs/pull/%d/head", n) }

// localRef is where a branch of the host is kept: under a hash, so that "a"
// and "a/b", one after the other, do not get in each other's way.
func localRef(branch string) string {
	sum := sha256.Sum256([]byte(branch))
	return "refs/signalbox/" + hex.EncodeToString(sum[:12])
}

// missing returns the commits that are not in the mirror, without fetching
// them, as a partial clone would do at the first sight of an unknown id.
func (c *clone) missing(ctx context.Context, commits []string) ([]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	for _, id := range commits {
		if !validCommit(id) {
			return nil, fmt.Errorf("%.80q is not a commit id", id)
		}
	}
	out, err := c.git(ctx, job{
		args:  []string{"rev-list", "--missing=allow-any", "--no-walk=unsorted", "--ignore-missing", "--stdin"},
		stdin: strings.Join(commits, "\n") + "\n",
	})
	var run *runError
	if err != nil && !errors.As(err, &run) {
		return nil, err
	}
	have := strings.Fields(string(out))
	if err != nil && len(have) == 0 && len(commits) > 1 {
		// One bad apple (an id that is no commit) must not hide the others.
		var gone []string
		for _, id := range commits {
			one, err := c.missing(ctx, []string{id})
			if err != nil {
				return nil, err
			}
			gone = append(gone, one...)
		}
		return gone, nil
	}
	return slices.DeleteFunc(slices.Clone(commits), func(id string) bool { return slices.Contains(have, id) }), nil
}

// need brings commits by id. Stale: the host does not have one of them (any more).
func (c *clone) need(ctx context.Context, commits ...string) error {
	gone, err := c.missing(ctx, commits)
	if err != nil || len(gone) == 0 {
		return err
	}
	if _, err := c.fetch(ctx, wanted{commits: gone}); err != nil {
		return err
	}
	if gone, err = c.missing(ctx, gone); err != nil {
		return err
	}
	if len(gone) > 0 {
		return &gitprovider.Error{Kind: gitprovider.Stale, Message: "the host does not have commit " + gone[0]}
	}
	return nil
}

var hexID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// validCommit reports whether a text is a full commit id and nothing else.
func validCommit(id string) bool { return hexID.MatchString(id) }

// validBranch follows the rules of git check-ref-format for refs/heads/<name>,
// and refuses a few more names that git's own commands refuse for branches.
func validBranch(name string) bool {
	switch {
	case name == "", len(name) > 1024, name == "@", name == "HEAD", name[0] == '-', name[0] == '/',
		strings.HasSuffix(name, "/"), strings.HasSuffix(name, "."),
		strings.Contains(name, ".."), strings.Contains(name, "//"), strings.Contains(name, "@{"),
		strings.ContainsAny(name, " ~^:?*[\\\x7f"):
		return false
	}
	for _, r := range name {
		if r < 0x20 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
