package githubsim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// CI is how a repository's simulated CI behaves.
type CI struct {
	// MinSeconds and MaxSeconds are how long a check takes; equal for a fixed
	// time. Max is Min when it is less.
	MinSeconds float64 `json:"minSeconds"`
	MaxSeconds float64 `json:"maxSeconds"`
	// FlakeRate is the share of checks that fail although their tree passes.
	// It is decided anew each time a tree is tested.
	FlakeRate float64 `json:"flakeRate"`
	// Seed decides durations and flakes; Config.Seed when zero.
	Seed int64 `json:"seed"`
	// PullRequests has the heads of pull requests tested too.
	PullRequests bool `json:"pullRequests"`
	// Branches are the branches whose pushes are tested, as workflow files
	// write them; signalbox/** when empty.
	Branches []string `json:"branches"`
}

func (c CI) check() error {
	switch {
	case c.MinSeconds < 0 || c.MaxSeconds < 0 || c.MinSeconds > 86400 || c.MaxSeconds > 86400:
		return fmt.Errorf("ci seconds must be between 0 and 86400")
	case c.FlakeRate < 0 || c.FlakeRate > 1:
		return fmt.Errorf("ci.flakeRate must be between 0 and 1")
	}
	return nil
}

// ciState is what the CI of a repository knows. Server.mu guards it.
type ciState struct {
	CI
	checks   []string
	tested   map[string]bool // commits that had their run
	attempts map[string]int  // how often each tree was tested
	holds    int             // how many hold it
	held     []func()        // completes what would be complete; mu is held
}

// HoldCI keeps the checks of a repository ("owner/name") from completing until
// release is called, once; those whose time was over complete then. What happens
// before they pass or fail can so be played at any speed.
func (s *Server) HoldCI(repo string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repoNamed(repo)
	if r == nil {
		return nil, fmt.Errorf("no repository %s", repo)
	}
	r.ci.holds++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.ci.holds--; r.ci.holds > 0 {
			return
		}
		held := r.ci.held
		r.ci.held = nil
		for _, complete := range held {
			complete()
		}
	}), nil
}

// ciFolder is where the trees say what fails.
const ciFolder = ".ci-sim"

// rule decides one check of one tree. It fails when a file under
// .ci-sim/<check>/ lists only paths that exist in the tree; why names it.
func (g *gitStore) rule(check, tree string) (pass bool, why string, err error) {
	pass = true
	err = g.files(tree, ciFolder+"/"+check, func(path string, e treeEntry) error {
		if !pass {
			return nil
		}
		data, err := g.blob(e.SHA)
		if err != nil {
			return err
		}
		var listed []string
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			if _, err := g.lookup(tree, line); err != nil {
				if errors.Is(err, errMissing) {
					return nil // one path is not there: this file breaks nothing
				}
				return err
			}
			listed = append(listed, line)
		}
		pass = false
		why = path + " always fails"
		if len(listed) > 0 {
			why = path + " fails with " + strings.Join(listed, ", ")
		}
		return nil
	})
	return pass, why, err
}

// TreePasses applies the rule of the simulated CI to a tree or commit of a
// bare repository on disk: the check fails when a file under .ci-sim/<check>/
// lists only paths that exist in the tree. Flakes are not part of it.
func TreePasses(_ context.Context, repoDir, check, treeOrCommit string) (bool, error) {
	g := openStore(repoDir)
	defer g.close()
	return g.passes(check, treeOrCommit)
}

func (g *gitStore) passes(check, treeOrCommit string) (bool, error) {
	tree := treeOrCommit
	if c, err := g.commit(treeOrCommit); err == nil {
		tree = c.Tree
	}
	if _, err := g.tree(tree); err != nil {
		return false, fmt.Errorf("apply CI rule: %w", err)
	}
	pass, _, err := g.rule(check, tree)
	if err != nil {
		return false, fmt.Errorf("apply CI rule: %w", err)
	}
	return pass, nil
}

// CIRule applies the rule of the simulated CI to a tree or commit of a
// repository ("owner/name"); see TreePasses.
func (s *Server) CIRule(_ context.Context, repo, check, treeOrCommit string) (bool, error) {
	s.mu.Lock()
	r := s.repoNamed(repo)
	s.mu.Unlock()
	if r == nil {
		return false, fmt.Errorf("no repository %s", repo)
	}
	return r.git.passes(check, treeOrCommit)
}

// ciForPush starts CI for a push to one of its branches, and gives our App
// the empty suite that GitHub gives to every App that may write checks.
func (s *Server) ciForPush(r *repo, who *account, m moved) error {
	if m.branch == "" || m.new == "" {
		return nil
	}
	s.mu.Lock()
	if s.installationOf(r.owner) != nil && s.app.permissions["checks"] == "write" {
		u := s.suiteFor(r, s.app, m.new, m.branch)
		u.before = m.old
		s.emit("check_suite", "requested", r, who, object{"check_suite": s.suiteJSON(u, m.tip)})
	}
	patterns := r.ci.Branches
	s.mu.Unlock()
	if !slices.ContainsFunc(patterns, func(p string) bool { return matchBranch(p, m.branch) }) {
		return nil
	}
	return s.ciOnce(r, m.branch, m.new)
}

// ciForPull starts CI for the head of a pull request, where that is wanted.
func (s *Server) ciForPull(r *repo, branch, sha string) error {
	s.mu.Lock()
	wanted := r.ci.PullRequests
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	return s.ciOnce(r, branch, sha)
}

// ciOnce tests a commit unless it was tested before.
func (s *Server) ciOnce(r *repo, branch, sha string) error {
	s.mu.Lock()
	if r.ci.tested[sha] || len(r.ci.checks) == 0 {
		s.mu.Unlock()
		return nil
	}
	r.ci.tested[sha] = true
	u := s.suiteFor(r, s.actions, sha, branch)
	checks := slices.Clone(r.ci.checks)
	s.mu.Unlock()
	return s.ciAgain(u, checks)
}

// ciAgain starts a new run of each of the checks on a suite's commit.
func (s *Server) ciAgain(u *suite, checks []string) error {
	c, err := u.repo.git.commit(u.sha)
	if err != nil {
		return fmt.Errorf("start CI: %w", err)
	}
	outcomes := map[string]checkOutcome{}
	for _, check := range checks {
		pass, why, err := u.repo.git.rule(check, c.Tree)
		if err != nil {
			return fmt.Errorf("start CI: %w", err)
		}
		outcomes[check] = checkOutcome{pass: pass, why: why}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.repo.ci.attempts[c.Tree]++
	attempt := u.repo.ci.attempts[c.Tree]
	for _, check := range checks {
		run := s.addRun(u, s.actions.bot, runInput{Name: &check})
		s.schedule(run, u.repo.ci.decide(s.cfg.Seed, check, c.Tree, attempt, outcomes[check]))
	}
	return nil
}

// checkOutcome is how one run of one check will go.
type checkOutcome struct {
	pass bool
	why  string
	took time.Duration
}

// decide adds chance to what the rule says: the same seed, tree and attempt
// always give the same.
func (c *ciState) decide(seed int64, check, tree string, attempt int, o checkOutcome) checkOutcome {
	chance := func(what string) float64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s %s %s %d", orElse(c.Seed, seed), what, check, tree, attempt)
		x := h.Sum64()
		x ^= x >> 33 // the low bits of FNV decide alone otherwise
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
		return float64(x>>11) / float64(1<<53)
	}
	seconds := c.MinSeconds + chance("duration")*math.Max(0, c.MaxSeconds-c.MinSeconds)
	o.took = time.Duration(seconds * float64(time.Second))
	if o.pass && chance("flake") < c.FlakeRate {
		o.pass, o.why = false, fmt.Sprintf("flaky: attempt %d of this tree failed by chance", attempt)
	}
	return o
}

// schedule has a run start and complete by and by. A tenth of its time it
// waits in line.
func (s *Server) schedule(run *checkRun, o checkOutcome) {
	ci, text := &run.suite.repo.ci, func(v string) *string { return &v }
	complete := func() { // mu is held
		if run.status == "completed" {
			return
		}
		in := runInput{Status: text("completed"), Conclusion: text("success"), Output: &checkOutput{Title: text("Passed"), Summary: text("")}}
		if !o.pass {
			in.Conclusion = text("failure")
			in.Output = &checkOutput{Title: text("Failed"), Summary: text(o.why)}
		}
		s.changeRun(run, s.actions.bot, in)
	}
	s.work.after(o.took/10, func(context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if run.status == "queued" {
			s.changeRun(run, s.actions.bot, runInput{Status: text("in_progress")})
		}
		s.work.after(o.took-o.took/10, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if ci.holds > 0 {
				ci.held = append(ci.held, complete)
				return
			}
			complete()
		})
	})
}
