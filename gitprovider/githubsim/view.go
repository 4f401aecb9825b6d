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
