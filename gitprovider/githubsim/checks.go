package githubsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// runInput is the body of the calls that create and update a check run.
type runInput struct {
	Name        *string         `json:"name"`
	HeadSHA     string          `json:"head_sha"`
	DetailsURL  *string         `json:"details_url"`
	ExternalID  *string         `json:"external_id"`
	Status      *string         `json:"status"`
	Conclusion  *string         `json:"conclusion"`
	StartedAt   *time.Time      `json:"started_at"`
	CompletedAt *time.Time      `json:"completed_at"`
	Output      *checkOutput    `json:"output"`
	Actions     json.RawMessage `json:"actions"`
}

var (
	runStatuses    = []string{"queued", "in_progress", "completed", "waiting", "requested", "pending"}
	runConclusions = append(slices.Clone(conclusionOrder), "")
)

// check refuses what GitHub refuses.
func (in runInput) check() error {
	switch {
	case in.Status != nil && !slices.Contains(runStatuses, *in.Status):
		return invalid("Invalid request.\n\nFor 'properties/status', %s is not a member of [queued, in_progress, completed].", *in.Status)
	case in.Conclusion != nil && !slices.Contains(runConclusions, *in.Conclusion):
		return invalid("Invalid request.\n\nFor 'properties/conclusion', %s is not a conclusion.", *in.Conclusion)
	case in.Status != nil && *in.Status == "completed" && orEmpty(in.Conclusion) == "":
		return invalid("Invalid request.\n\nA conclusion is required when status is completed.")
	case in.Output != nil && (orEmpty(in.Output.Title) == "" || in.Output.Summary == nil):
		return invalid("Invalid request.\n\n\"title\", \"summary\" weren't supplied.")
	case in.Output != nil && (len(orEmpty(in.Output.Summary)) > 65535 || len(orEmpty(in.Output.Text)) > 65535):
		return invalid("Only 65535 characters are allowed in the output")
	case in.Output != nil && len(in.Output.Annotations) > 50:
		return invalid("No more than 50 annotations are allowed at once")
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// apply writes the input into a run. now fills the times that are not given.
func (in runInput) apply(c *checkRun, now time.Time) {
	set := func(to *string, from *string) {
		if from != nil {
			*to = *from
		}
	}
	set(&c.name, in.Name)
	set(&c.detailsURL, in.DetailsURL)
	set(&c.externalID, in.ExternalID)
	set(&c.status, in.Status)
	if in.Status != nil && *in.Status != "completed" {
		c.conclusion, c.completed = "", time.Time{} // run again
	}
	if orEmpty(in.Conclusion) != "" {
		c.conclusion, c.status = *in.Conclusion, "completed"
	}
	if in.StartedAt != nil {
		c.started = *in.StartedAt
	} else if c.started.IsZero() {
		c.started = now // GitHub counts from the creation
	}
	if in.CompletedAt != nil {
		c.completed = *in.CompletedAt
	} else if c.completed.IsZero() && c.status == "completed" {
		c.completed = now
	}
	if in.Output != nil {
		c.output = *in.Output
	}
	if in.Actions != nil {
		c.actions = in.Actions
	}
}

// suiteFor finds or makes the suite of an App's runs on a commit. mu is held.
func (s *Server) suiteFor(r *repo, a *app, sha, branch string) *suite {
	for _, u := range r.suites[sha] {
		if u.app == a {
			return u
		}
	}
	u := &suite{id: s.newID(), repo: r, app: a, sha: sha, branch: branch, created: s.now(), updated: s.now()}
	r.suites[sha] = append(r.suites[sha], u)
	s.suites[u.id] = u
	return u
}

// addRun makes a check run and tells the App. mu is held.
func (s *Server) addRun(u *suite, sender *account, in runInput) *checkRun {
	c := &checkRun{id: s.newID(), suite: u, status: "queued"}
	in.apply(c, s.now())
	u.runs = append(u.runs, c)
	u.done = false
	s.runs[c.id] = c
	s.runChanged(c, sender, "created")
	return c
}

// changeRun updates a check run and tells the App when it completes. mu is held.
func (s *Server) changeRun(c *checkRun, sender *account, in runInput) {
	was := c.status
	in.apply(c, s.now())
	if c.status == "completed" && was != "completed" {
		s.runChanged(c, sender, "completed")
	} else if c.status != "completed" {
		c.suite.done = false
	}
}

// runChanged sends the events of a new or a completed check run, and that of
// its suite when it was the last. mu is held.
func (s *Server) runChanged(c *checkRun, sender *account, action string) {
	u := c.suite
	u.updated = s.now()
	run := s.runJSON(c)
	run["check_suite"] = s.suiteInRun(u)
	s.emit("check_run", action, u.repo, sender, object{"check_run": run})
	if action == "created" && c.status == "completed" {
		s.emit("check_run", "completed", u.repo, sender, object{"check_run": run})
	}
	if status, _ := u.state(); status == "completed" && !u.done {
		u.done = true
		head, _ := u.repo.git.cachedCommit(u.sha)
		s.emit("check_suite", "completed", u.repo, sender, object{"check_suite": s.suiteJSON(u, head)})
	}
}

// suiteInRun is a suite as the events of its runs show it.
func (s *Server) suiteInRun(u *suite) object {
	o := s.suiteJSON(u, nil)
	for _, name := range []string{"latest_check_runs_count", "check_runs_url", "rerequestable", "runs_rerequestable"} {
		delete(o, name)
	}
	return o
}

// branchOf is a branch whose tip a commit is, "" when there is none. mu is held.
func (r *repo) branchOf(sha string) string {
	best := ""
	for ref, at := range r.refs {
		if name, ok := cutHeads(ref); ok && at == sha && (best == "" || name < best) {
			best = name
		}
	}
	return best
}

func (c *call) createRun() (any, error) {
	var in runInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if c.who.kind != asInstallation {
		return nil, &apiError{status: 403, message: "You must authenticate via a GitHub App."}
	}
	switch {
	case orEmpty(in.Name) == "":
		return nil, invalid("Invalid request.\n\n\"name\" wasn't supplied.")
	case in.HeadSHA == "":
		return nil, invalid("Invalid request.\n\n\"head_sha\" wasn't supplied.")
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if _, err := c.repo.git.commit(in.HeadSHA); err != nil || !fullSHA.MatchString(in.HeadSHA) {
		return nil, invalid("No commit found for SHA: %s", in.HeadSHA)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u := c.s.suiteFor(c.repo, c.s.app, in.HeadSHA, c.repo.branchOf(in.HeadSHA))
	return reply{status: 201, body: c.s.runJSON(c.s.addRun(u, c.who.account, in))}, nil
}

// run finds the check run that the path names. mu is held.
func (c *call) run() (*checkRun, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	k := c.s.runs[id]
	if k == nil || k.suite.repo != c.repo {
		return nil, notFound()
	}
	return k, nil
}

func (c *call) getRun() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.run()
	if err != nil {
		return nil, err
	}
	return c.s.runJSON(k), nil
}

func (c *call) updateRun() (any, error) {
	var in runInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	k, err := c.run()
	if err != nil {
		return nil, err
	}
	if c.who.kind != asInstallation || k.suite.app != c.s.app {
		return nil, &apiError{status: 403, message: fmt.Sprintf(
			"Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", c.s.app.id)}
	}
	c.s.changeRun(k, c.who.account, in)
	return c.s.runJSON(k), nil
}

func (c *call) rerequestRun() (any, error) {
	c.s.mu.Lock()
	k, err := c.run()
	c.s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if k.suite.app == c.s.actions {
		err = c.s.ciAgain(k.suite, []string{k.name})
	}
	return reply{status: 201, body: object{}}, err
}

// filterRuns applies the query of the calls that list check runs. mu is held.
func (c *call) filterRuns(suites []*suite) []*checkRun {
	var out []*checkRun
	app, _ := strconv.ParseInt(c.query("app_id", "0"), 10, 64)
	name, state := c.query("check_name", ""), c.query("status", "")
	for _, u := range suites {
		runs := u.latest()
		if c.query("filter", "latest") == "all" {
			runs = u.runs
		}
		for _, k := range runs {
			if (app == 0 || app == u.app.id) && (name == "" || name == k.name) && (state == "" || state == k.status) {
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, func(a, b *checkRun) int { return int(b.id - a.id) })
	return out
}

func (c *call) runsPage(suites []*suite) (any, error) {
	all := c.filterRuns(suites)
	items, err := paged(c, all, func(k *checkRun) any { return c.s.runJSON(k) })
	return object{"total_count": len(all), "check_runs": items}, err
}

func (c *call) runsForRef() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.runsPage(c.repo.suites[k.SHA])
}

func (c *call) suitesForRef() (any, error) {
	k, err := c.commitNamed(c.params["ref"])
	if err != nil {
		return nil, err
	}
	app, _ := strconv.ParseInt(c.query("app_id", "0"), 10, 64)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*suite
	for _, u := range c.repo.suites[k.SHA] {
		if app == 0 || app == u.app.id {
			all = append(all, u)
		}
	}
	items, err := paged(c, all, func(u *suite) any { return c.fullSuite(u, k) })
	return object{"total_count": len(all), "check_suites": items}, err
}

// fullSuite is a suite as the checks API shows it. mu is held.
func (c *call) fullSuite(u *suite, head *commit) object {
	o := c.s.suiteJSON(u, head)
	o["repository"] = c.s.repoJSON(c.repo)
	return o
}

// suite finds the check suite that the path names. mu is held.
func (c *call) suite() (*suite, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	u := c.s.suites[id]
	if u == nil || u.repo != c.repo {
		return nil, notFound()
	}
	return u, nil
}

func (c *call) getSuite() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u, err := c.suite()
	if err != nil {
		return nil, err
	}
	head, _ := c.repo.git.cachedCommit(u.sha)
	return c.fullSuite(u, head), nil
}

func (c *call) runsForSuite() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u, err := c.suite()
	if err != nil {
		return nil, err
	}
	return c.runsPage([]*suite{u})
}
