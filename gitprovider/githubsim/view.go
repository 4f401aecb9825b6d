package githubsim

import (
	"fmt"
	"slices"
	"strings"
)

// What a person sees who looks around, for tests.

// Commented is one comment on a pull request.
type Commented struct {
	ID        int64
	Author    string
	Body      string
	Reactions []string // "content by login", in the order they were given
}

// Comments lists the comments on a pull request, oldest first.
func (s *Server) Comments(repo string, number int) ([]Commented, error) {
	p, err := s.findPull(repo, number)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Commented
	for _, c := range p.comments {
		seen := Commented{ID: c.id, Author: c.author.login, Body: c.body}
		for _, r := range c.reactions {
			seen.Reactions = append(seen.Reactions, r.content+" by "+r.user.login)
		}
		all = append(all, seen)
	}
	return all, nil
}

// Branches lists a repository's branches with their commits, as "name sha".
func (s *Server) Branches(repo string) ([]string, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for ref, sha := range r.refs {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			all = append(all, name+" "+sha)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Pulled is one pull request.
type Pulled struct {
	Number        int
	Title, Author string
	Head, Base    string // branches
	HeadSHA       string
	Draft, Open   bool
	Merged        bool
	Labels        []string
}

// Pulls lists a repository's pull requests by number.
func (s *Server) Pulls(repo string) ([]Pulled, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Pulled
	for _, p := range r.pulls {
		seen := Pulled{p.number, p.title, p.author.login, p.headRef, p.baseRef, p.headSHA, p.draft, p.open, !p.merged.IsZero(), nil}
		for _, l := range p.labels {
			seen.Labels = append(seen.Labels, l.name)
		}
		all = append(all, seen)
	}
	slices.SortFunc(all, func(a, b Pulled) int { return a.Number - b.Number })
	return all, nil
}

// CheckRuns lists the check runs of an App ("" for every App) on a commit,
// newest of each name, as "name: conclusion or status".
func (s *Server) CheckRuns(repo, sha, app string) ([]string, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, u := range r.suites[sha] {
		if app != "" && u.app.slug != app {
			continue
		}
		for _, c := range u.latest() {
			all = append(all, fmt.Sprintf("%s: %s", c.name, orElse(c.conclusion, c.status)))
		}
	}
	slices.Sort(all)
	return all, nil
}

// Passed are the trees of all commits on which every one of the checks has
// succeeded, whoever asked for them.
func (s *Server) Passed(repo string, checks ...string) (trees map[string]bool, err error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	var commits []string
	s.mu.Lock()
	for sha, suites := range r.suites {
		succeeded := map[string]bool{}
		for _, u := range suites {
			for _, c := range u.runs {
				succeeded[c.name] = succeeded[c.name] || c.conclusion == "success"
			}
		}
		if !slices.ContainsFunc(checks, func(name string) bool { return !succeeded[name] }) {
			commits = append(commits, sha)
		}
	}
	s.mu.Unlock()
	trees = map[string]bool{}
	for _, sha := range commits {
		c, err := r.git.commit(sha)
		if err != nil {
			return nil, fmt.Errorf("read a commit that was tested: %w", err)
		}
		trees[c.Tree] = true
	}
	return trees, nil
}

// Files lists the paths of all files of a tree.
func (s *Server) Files(repo, tree string) ([]string, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	var paths []string
	err = r.git.files(tree, "", func(path string, _ treeEntry) error { paths = append(paths, path); return nil })
	return paths, err
}
