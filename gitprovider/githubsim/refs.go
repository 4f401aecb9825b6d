package githubsim

import (
	"encoding/base64"
	"errors"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	fullSHA  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	shortSHA = regexp.MustCompile(`^[0-9a-f]{4,40}$`)
)

// commitNamed finds a commit by branch, tag, full ref or (short) SHA.
func (c *call) commitNamed(name string) (*commit, error) {
	return c.s.resolve(c.repo, name)
}

// mainBranch is the name of the default branch.
func (c *call) mainBranch() string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.repo.defaultBranch
}

// rendered calls f with mu held, for what is rendered from a noun.
func (c *call) rendered(f func() any) any {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return f()
}

func (s *Server) resolve(r *repo, name string) (*commit, error) {
	s.mu.Lock()
	sha := ""
	for _, ref := range []string{"refs/heads/" + name, "refs/tags/" + name, "refs/" + name, name} {
		sha = orElse(sha, r.refs[ref])
	}
	s.mu.Unlock()
	if sha == "" && shortSHA.MatchString(name) {
		sha = name
	}
	if sha != "" {
		k, err := r.git.commit(sha)
		if err == nil || !errors.Is(err, errMissing) {
			return k, err
		}
	}
	return nil, invalid("No commit found for SHA: %s", name)
}

// kindOf is the type of the object a ref points to.
func (r *repo) kindOf(sha string) string {
	_, kind, _, err := r.git.cat.object(sha)
	if err != nil {
		return "commit"
	}
	return kind
}

func (c *call) getRef() (any, error) {
	ref := "refs/" + c.params["ref"]
	c.s.mu.Lock()
	sha := c.repo.refs[ref]
	if sha == "" {
		sha = c.repo.pullRef(ref)
	}
	c.s.mu.Unlock()
	if sha == "" {
		return nil, notFound()
	}
	kind := c.repo.kindOf(sha)
	return c.rendered(func() any { return c.s.refJSON(c.repo, ref, sha, kind) }), nil
}

// pullRef is what refs/pull/N/head points to. mu is held.
func (r *repo) pullRef(ref string) string {
	for _, p := range r.pulls {
		if ref == "refs/pull/"+itoa(p.number)+"/head" {
			return p.headSHA
		}
	}
	return ""
}

func (c *call) matchingRefs() (any, error) {
	c.s.mu.Lock()
	found := map[string]string{}
	for ref, sha := range c.repo.refs {
		if strings.HasPrefix(ref, "refs/"+c.params["ref"]) {
			found[ref] = sha
		}
	}
	c.s.mu.Unlock()
	refs := slices.Sorted(keys(found))
	return paged(c, refs, func(ref string) any {
		kind := c.repo.kindOf(found[ref])
		return c.rendered(func() any { return c.s.refJSON(c.repo, ref, found[ref], kind) })
	})
}

// writableRef is a full ref name from the API, or an error for one that it
// does not let clients write.
func writableRef(ref string) (string, error) {
	if strings.Count(ref, "/") < 2 || !strings.HasPrefix(ref, "refs/") || checkRefName(ref) != nil {
		return "", invalid("Reference name is not valid: it must start with 'refs' and have at least two slashes.")
	}
	if strings.HasPrefix(ref, "refs/pull/") {
		return "", invalid("Reference namespace is read-only")
	}
	return ref, nil
}

// moveByAPI moves one ref for a caller of the REST API, under the rules of a push.
func (c *call) moveByAPI(change refChange) error {
	if branch, ok := strings.CutPrefix(change.ref, "refs/heads/"); ok {
		push := pushCommand{old: change.old, new: change.new, ref: change.ref}
		push.merges = c.repo.bringsMerges(push)
		c.s.mu.Lock()
		why, _ := c.s.pushViolations(c.who, c.repo, branch, push)
		c.s.mu.Unlock()
		if len(why) > 0 {
			return invalid("Repository rule violations found\n\n%s\n\n", strings.ReplaceAll(strings.Join(why, "\n\n"), classicMark, ""))
		}
	}
	err := c.s.moveRefs(c.r.Context(), c.repo, c.who.account, change)
	if errors.Is(err, errRefs) {
		return invalid("Reference update failed")
	}
	return err
}

func (c *call) createRef() (any, error) {
	var in struct{ Ref, SHA string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	ref, err := writableRef(in.Ref)
	if err != nil {
		return nil, err
	}
	if !fullSHA.MatchString(in.SHA) {
		return nil, invalid("The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
	}
	if _, err := c.repo.git.commit(in.SHA); err != nil {
		return nil, invalid("Object does not exist")
	}
	unlock := c.repo.lockPushing()
	defer unlock()
	if c.repo.refs[ref] != "" {
		return nil, invalid("Reference already exists")
	}
	if err := c.moveByAPI(refChange{ref, "", in.SHA}); err != nil {
		return nil, err
	}
	return reply{status: 201, body: c.rendered(func() any { return c.s.refJSON(c.repo, ref, in.SHA, "commit") })}, nil
}

func (c *call) updateRef() (any, error) {
	var in struct {
		SHA   string
		Force bool
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	ref, err := writableRef("refs/" + c.params["ref"])
	if err != nil {
		return nil, err
	}
	if _, err := c.repo.git.commit(in.SHA); err != nil || !fullSHA.MatchString(in.SHA) {
		return nil, invalid("Object does not exist")
	}
	unlock := c.repo.lockPushing()
	defer unlock()
	old := c.repo.refs[ref]
	if old == "" {
		return nil, invalid("Reference does not exist")
	}
	if !in.Force {
		ok, err := c.repo.git.isAncestor(old, in.SHA)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, invalid("Update is not a fast forward")
		}
	}
	if old != in.SHA {
		if err := c.moveByAPI(refChange{ref, old, in.SHA}); err != nil {
			return nil, err
		}
	}
	return c.rendered(func() any { return c.s.refJSON(c.repo, ref, in.SHA, "commit") }), nil
}

func (c *call) deleteRef() (any, error) {
	ref, err := writableRef("refs/" + c.params["ref"])
	if err != nil {
		return nil, err
	}
	unlock := c.repo.lockPushing()
	defer unlock()
	old := c.repo.refs[ref]
	switch {
	case old == "":
		return nil, invalid("Reference does not exist")
	case ref == "refs/heads/"+c.repo.defaultBranch:
		return nil, invalid("Cannot delete the default branch")
	}
	return reply{status: 204}, c.moveByAPI(refChange{ref, old, ""})
}

func (c *call) getCommit() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	if strings.Contains(c.r.Header.Get("Accept"), ".sha") {
		return reply{status: 200, body: []byte(k.SHA), kind: "application/vnd.github.sha; charset=utf-8"}, nil
	}
	before := ""
	if len(k.Parents) > 0 {
		parent, err := c.repo.git.commit(k.Parents[0])
		if err != nil {
			return nil, err
		}
		before = parent.Tree
	}
	files, err := c.repo.git.diff(before, k.Tree, true)
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	o := c.s.commitJSON(c.repo, k)
	list, added, deleted := []any{}, 0, 0
	for _, f := range files {
		list = append(list, c.fileJSON(k.SHA, f))
		added, deleted = added+f.Additions, deleted+f.Deletions
	}
	o["files"], o["stats"] = list, object{"additions": added, "deletions": deleted, "total": added + deleted}
	return o, nil
}

func (c *call) getGitCommit() (any, error) {
	k, err := c.repo.git.commit(c.params["sha"])
	if err != nil || !fullSHA.MatchString(c.params["sha"]) {
		return nil, notFound()
	}
	return c.rendered(func() any { return c.s.gitCommitJSON(c.repo, k) }), nil
}

func (c *call) getGitTree() (any, error) {
	k, err := c.commitNamed(c.params["sha"])
	sha := c.params["sha"]
	if err == nil {
		sha = k.Tree
	} else if !fullSHA.MatchString(sha) {
		return nil, notFound()
	}
	list := []any{}
	add := func(path string, e treeEntry) error {
		kind := map[bool]string{true: "tree", false: "blob"}[e.isDir()]
		list = append(list, object{
			"path": path, "mode": strings.Repeat("0", 6-len(e.Mode)) + e.Mode, "type": kind, "sha": e.SHA,
			"url": c.s.api("/repos/%s/git/%ss/%s", c.full, kind, e.SHA),
		})
		return nil
	}
	if c.query("recursive", "") != "" {
		err = c.repo.git.files(sha, "", add)
	} else {
		var entries []treeEntry
		entries, err = c.repo.git.tree(sha)
		for _, e := range entries {
			add(e.Name, e)
		}
	}
	if errors.Is(err, errMissing) {
		return nil, notFound()
	}
	return object{"sha": sha, "url": c.s.api("/repos/%s/git/trees/%s", c.full, sha), "tree": list, "truncated": false}, err
}

func (c *call) listCommits() (any, error) {
	k, err := c.commitNamed(c.query("sha", c.mainBranch()))
	if err != nil {
		return nil, notFound()
	}
	all, err := c.repo.git.between("", k.SHA)
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return paged(c, all, func(k *commit) any { return c.s.commitJSON(c.repo, k) })
}

func (c *call) compare() (any, error) {
	left, right, ok := strings.Cut(c.params["basehead"], "...")
	if !ok {
		return nil, notFound()
	}
	base, err := c.commitNamed(left)
	if err != nil {
		return nil, notFound()
	}
	head, err := c.commitNamed(right)
	if err != nil {
		return nil, notFound()
	}
	g := c.repo.git
	ahead, err := g.between(base.SHA, head.SHA)
	if err != nil {
		return nil, err
	}
	behind, err := g.between(head.SHA, base.SHA)
	if err != nil {
		return nil, err
	}
	forkPoint, err := g.mergeBase(base.SHA, head.SHA)
	if err != nil || forkPoint == "" {
		return nil, errors.Join(err, notFound())
	}
	merged, err := g.commit(forkPoint)
	if err != nil {
		return nil, err
	}
	files, err := g.diff(merged.Tree, head.Tree, true)
	if err != nil {
		return nil, err
	}
	slices.Reverse(ahead)
	state := "diverged"
	switch {
	case len(ahead) == 0 && len(behind) == 0:
		state = "identical"
	case len(behind) == 0:
		state = "ahead"
	case len(ahead) == 0:
		state = "behind"
	}
	fileList := []any{}
	for _, f := range files[:min(len(files), 300)] {
		fileList = append(fileList, c.fileJSON(head.SHA, f))
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	commits, err := paged(c, ahead, func(k *commit) any { return c.s.commitJSON(c.repo, k) })
	web := c.s.URL() + "/" + c.full + "/compare/" + c.params["basehead"]
	return object{
		"url": c.s.api("/repos/%s/compare/%s", c.full, c.params["basehead"]), "html_url": web, "permalink_url": web,
		"diff_url": web + ".diff", "patch_url": web + ".patch", "base_commit": c.s.commitJSON(c.repo, base),
		"merge_base_commit": c.s.commitJSON(c.repo, merged), "status": state, "ahead_by": len(ahead), "behind_by": len(behind),
		"total_commits": len(ahead), "commits": commits, "files": fileList,
	}, err
}

func (c *call) getContents() (any, error) {
	k, err := c.commitNamed(c.query("ref", c.mainBranch()))
	if err != nil {
		return nil, &apiError{status: 404, message: "No commit found for the ref " + c.query("ref", "")}
	}
	file := strings.Trim(c.params["path"], "/")
	e, err := c.repo.git.lookup(k.Tree, file)
	if errors.Is(err, errMissing) {
		return nil, notFound()
	}
	if err != nil {
		return nil, err
	}
	if e.isDir() {
		entries, err := c.repo.git.tree(e.SHA)
		list := []any{}
		for _, x := range entries {
			list = append(list, c.contentJSON(k.SHA, path.Join(file, x.Name), x))
		}
		return list, err
	}
	data, err := c.repo.git.blob(e.SHA)
	if err != nil {
		return nil, err
	}
	if strings.Contains(c.r.Header.Get("Accept"), ".raw") {
		return reply{status: 200, body: data, kind: "application/vnd.github.raw; charset=utf-8"}, nil
	}
	o := c.contentJSON(k.SHA, file, e)
	o["size"], o["encoding"], o["content"] = len(data), "base64", base64.StdEncoding.EncodeToString(data)
	return o, nil
}

func (c *call) contentJSON(ref, file string, e treeEntry) object {
	full := c.full
	kind := map[bool]string{true: "dir", false: "file"}[e.isDir()]
	escaped := (&url.URL{Path: file}).EscapedPath()
	api := c.s.api("/repos/%s/contents/%s?ref=%s", full, escaped, ref)
	web := c.s.URL() + "/" + full + "/blob/" + ref + "/" + escaped
	blob := c.s.api("/repos/%s/git/blobs/%s", full, e.SHA)
	return object{
		"type": kind, "name": path.Base(file), "path": file, "sha": e.SHA, "size": 0, "url": api, "html_url": web, "git_url": blob,
		"download_url": c.s.URL() + "/" + full + "/raw/" + ref + "/" + escaped,
		"_links":       object{"self": api, "git": blob, "html": web},
	}
}
