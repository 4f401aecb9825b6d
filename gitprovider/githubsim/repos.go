package githubsim

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// keys are the keys of a map.
func keys[K comparable, V any](m map[K]V) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (c *call) getRepo() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	o := c.s.fullRepoJSON(c.repo)
	if c.who.account != nil {
		rank := permissionRank[c.repo.permission(c.who.account)]
		if c.who.kind == asInstallation && granted(c.who.token.permissions, "contents:write") {
			rank = permissionRank["write"]
		}
		o["permissions"] = object{
			"admin": rank >= 5, "maintain": rank >= 4, "push": rank >= 3, "triage": rank >= 2, "pull": rank >= 1,
		}
	}
	return o, nil
}

func (c *call) updateRepo() (any, error) {
	var in struct {
		Name          *string `json:"name"`
		Private       *bool   `json:"private"`
		DefaultBranch *string `json:"default_branch"`
		AllowMerge    *bool   `json:"allow_merge_commit"`
		AllowSquash   *bool   `json:"allow_squash_merge"`
		AllowRebase   *bool   `json:"allow_rebase_merge"`
		DeleteOnMerge *bool   `json:"delete_branch_on_merge"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	unlock := c.repo.lockPushing()
	defer unlock()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	r, set := c.repo, c.repo.settings
	for at, v := range map[*bool]*bool{
		&set.allowMerge: in.AllowMerge, &set.allowSquash: in.AllowSquash, &set.allowRebase: in.AllowRebase,
		&set.deleteOnMerge: in.DeleteOnMerge,
	} {
		if v != nil {
			*at = *v
		}
	}
	if !set.allowMerge && !set.allowSquash && !set.allowRebase {
		return nil, invalidField("Repository", "merge_commit_allowed", "custom", "Sorry, you need to allow at least one merge strategy.")
	}
	if in.DefaultBranch != nil {
		if r.branch(*in.DefaultBranch) == "" {
			return nil, invalid("The branch %s was not found.", *in.DefaultBranch)
		}
		c.s.changeDefault(r, *in.DefaultBranch, c.who.account)
	}
	if in.Name != nil && *in.Name != r.name {
		if err := c.s.rename(r, *in.Name, c.who.account); err != nil {
			return nil, err
		}
	}
	if in.Private != nil {
		r.private = *in.Private
	}
	r.settings, r.updated, r.rendered = set, c.s.now(), nil
	return c.s.fullRepoJSON(r), nil
}

// rename gives a repository another name. What it was called before is found
// no more; its id stays. mu is held.
func (s *Server) rename(r *repo, name string, who *account) error {
	if !goodName(name) || s.repoNamed(r.owner.login+"/"+name) != nil {
		return invalidField("Repository", "name", "custom", "name already exists on this account")
	}
	from := r.name
	delete(s.repos, strings.ToLower(r.fullName()))
	r.name, r.rendered = name, nil
	s.repos[strings.ToLower(r.fullName())] = r
	s.emit("repository", "renamed", r, who, object{"changes": object{"repository": object{"name": object{"from": from}}}})
	return nil
}

func (c *call) getSelf() (any, error) {
	if c.who.kind != asUser {
		return nil, forbidden()
	}
	return c.s.publicUser(c.who.account), nil
}

func (c *call) getUser() (any, error) {
	c.s.mu.Lock()
	a := c.s.accounts[strings.ToLower(c.params["login"])]
	c.s.mu.Unlock()
	if a == nil {
		return nil, notFound()
	}
	return c.s.publicUser(a), nil
}

func (c *call) getUserByID() (any, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	a := c.s.accountsByID[id]
	c.s.mu.Unlock()
	if a == nil {
		return nil, notFound()
	}
	return c.s.publicUser(a), nil
}

// publicUser is an account as the users API shows it. Accounts never change.
func (s *Server) publicUser(a *account) object {
	o := s.userJSON(a).(object)
	for _, unknown := range []string{"company", "location", "email", "hireable", "bio", "twitter_username"} {
		o[unknown] = nil
	}
	o["name"], o["blog"] = a.login, ""
	o["public_repos"], o["public_gists"], o["followers"], o["following"] = 0, 0, 0, 0
	o["created_at"], o["updated_at"] = "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
	return o
}

func (c *call) getPermission() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	a := c.s.accounts[strings.ToLower(c.params["login"])]
	if a == nil {
		return nil, notFound()
	}
	role := c.repo.permission(a)
	if a == c.s.app.bot {
		role = "write"
	}
	// The permission field knows four levels only; role_name has the rest.
	level := map[string]string{"maintain": "write", "triage": "read"}[role]
	level = orElse(level, role)
	rank := permissionRank[role]
	user := c.s.userJSON(a).(object)
	user["permissions"] = object{
		"admin": rank >= 5, "maintain": rank >= 4, "push": rank >= 3, "triage": rank >= 2, "pull": rank >= 1,
	}
	user["role_name"] = role
	return object{"permission": level, "role_name": role, "user": user}, nil
}

// branchNamed finds a branch's tip, or is not found.
func (c *call) branchNamed() (string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	sha := c.repo.branch(c.params["branch"])
	if sha == "" {
		return "", &apiError{status: 404, message: "Branch not found"}
	}
	return sha, nil
}

func (c *call) getBranch() (any, error) {
	sha, err := c.branchNamed()
	if err != nil {
		return nil, err
	}
	k, err := c.repo.git.commit(sha)
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	name := c.params["branch"]
	o := c.branchJSON(name, sha)
	api := c.s.api("/repos/%s/branches/%s", c.repo.fullName(), name)
	o["commit"] = c.s.commitJSON(c.repo, k)
	o["_links"] = object{"self": api, "html": c.s.URL() + "/" + c.repo.fullName() + "/tree/" + name}
	return o, nil
}

// branchJSON is a branch as lists show it. mu is held.
func (c *call) branchJSON(name, sha string) object {
	api := c.s.api("/repos/%s", c.repo.fullName())
	p := c.repo.protect[name]
	required := object{"enforcement_level": "off", "contexts": []string{}, "checks": []any{}}
	if p != nil {
		required = object{"enforcement_level": "everyone", "contexts": p.contexts(), "checks": checksJSON(p)}
	}
	return object{
		"name": name, "commit": object{"sha": sha, "url": api + "/commits/" + sha},
		"protected":      p != nil || len(c.s.rulesOf(c.repo, name)) > 0,
		"protection":     object{"enabled": p != nil, "required_status_checks": required},
		"protection_url": api + "/branches/" + name + "/protection",
	}
}

func (c *call) listBranches() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var names []string
	for ref := range c.repo.refs {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return paged(c, names, func(name string) any { return c.branchJSON(name, c.repo.branch(name)) })
}
