package rest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox/queue"
)

// testingDetails is one run, live or ended.
type testingDetails struct {
	RequiredStatuses       []string     `json:"requiredStatuses"`
	RequiredStatusesSource string       `json:"requiredStatusesSource"`
	TestBranch             string       `json:"testBranch"`
	TestBranchSha          string       `json:"testBranchSha"` // "" until it is built
	CheckSuites            []checkSuite `json:"checkSuites"`
	StatusChecks           []statusRow  `json:"statusChecks"`
	TestedPullRequests     []testedPR   `json:"testedPullRequests"`
	DependentPRs           []int64      `json:"dependentPrs"`
	CreatedAt              moment       `json:"createdAt"`
	Status                 string       `json:"status"`
	// The targets are left out when none were uploaded.
	ImpactedTargets             *[]string `json:"impactedTargets,omitempty"`
	ImpactedTargetsForTestedPRs *[]string `json:"impactedTargetsForTestedPrs,omitempty"`
}

type checkSuite struct {
	CheckRuns []checkRow `json:"checkRuns"`
}

type checkRow struct {
	Name       string  `json:"name"`
	URL        string  `json:"url"`
	Status     string  `json:"status"`     // in upper case, as the host has it
	Conclusion *string `json:"conclusion"` // in upper case; null while there is none
}

type statusRow struct {
	Context string `json:"context"`
	URL     string `json:"url"`
	State   string `json:"state"` // in upper case, as the host has it
}

type testedPR struct {
	PRNumber int64  `json:"prNumber"`
	PRURL    string `json:"prUrl"`
	Title    string `json:"title"`
}

func (a *API) getMergeQueueTestingDetails(ctx context.Context, c *call) (any, error) {
	var id string
	p, q, err := a.named(ctx, c, required("testRunId", anyText(&id)))
	if err != nil {
		return nil, err
	}
	missing := notFound(CodeTestRunNotFound, "The merge queue for branch %q in %s has no test run %q.", p.branch, p.repo(), clip(id))
	if id == "" || len(id) > maxRunID { // no run is called that
		return nil, missing
	}
	run, entries, err := a.store.Run(ctx, q.ID, queue.RunID(id))
	if err != nil {
		return nil, orNotFound(fmt.Errorf("find run: %w", err), missing)
	}
	out := encodeRun(q, run, entries)
	out.ImpactedTargets, out.ImpactedTargetsForTestedPRs, err = a.targetsOfRun(ctx, q, run)
	if err != nil {
		return nil, fmt.Errorf("read the impacted targets of run %s: %w", run.ID, err)
	}
	return out, nil
}

func encodeRun(q queue.Queue, run queue.Run, entries []queue.Entry) testingDetails {
	out := testingDetails{
		TestBranch:         run.Branch,
		TestBranchSha:      run.Commit,
		TestedPullRequests: []testedPR{},
		DependentPRs:       []int64{},
		CreatedAt:          moment(run.AskedAt),
		Status:             runStatus(run.State),
	}
	out.RequiredStatuses, out.RequiredStatusesSource = requiredOf(q, run)
	out.CheckSuites, out.StatusChecks = encodeReports(run.Checks)
	own := max(0, len(run.Chain)-len(run.Members)) // where the group's own steps begin
	for i, step := range run.Chain {
		if i < own {
			out.DependentPRs = append(out.DependentPRs, step.PR)
		} else {
			out.TestedPullRequests = append(out.TestedPullRequests, encodeTested(q.Repo, step, entries))
		}
	}
	return out
}

func encodeTested(repo queue.Repo, step queue.Step, entries []queue.Entry) testedPR {
	out := testedPR{PRNumber: step.PR}
	if i := slices.IndexFunc(entries, func(e queue.Entry) bool { return e.ID == step.Entry }); i >= 0 {
		out.PRURL, out.Title = entries[i].URL, entries[i].Title
	}
	if out.PRURL == "" {
		out.PRURL = fmt.Sprintf("https://%s/pull/%d", repo, step.PR)
	}
	return out
}

// requiredOf lists what must pass, and where that was said. It is known when
// the run is built; until then it is the queue's own list if there is one,
// else the repository's, which nobody has asked yet.
func requiredOf(q queue.Queue, run queue.Run) (names []string, source string) {
	if run.RequiredSource == "" {
		if len(q.RequiredStatuses) > 0 {
			return q.RequiredStatuses, string(queue.FromQueue)
		}
		return []string{}, string(queue.FromProtection)
	}
	names = []string{}
	for _, r := range run.Required {
		if !slices.Contains(names, r.Name) { // one name may be required of several Apps
			names = append(names, r.Name)
		}
	}
	return names, string(run.RequiredSource)
}

func runStatus(s queue.RunState) string {
	switch s {
	case queue.RunPassed:
		return "succeeded"
	case queue.RunFailed, queue.Interrupted:
		return "failed"
	case queue.Stopped:
		return "cancelled"
	default: // building, testing
		return "in_progress"
	}
}

// encodeReports groups check runs by suite and lists statuses, all in an
// order that does not change from call to call.
func encodeReports(reports map[string]queue.Report) ([]checkSuite, []statusRow) {
	sorted := make([]queue.Report, 0, len(reports))
	for _, r := range reports {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b queue.Report) int {
		return cmp.Or(cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.Name, b.Name), cmp.Compare(a.AppID, b.AppID), cmp.Compare(a.ID, b.ID))
	})
	suites, rows := []checkSuite{}, []statusRow{}
	last := int64(-1)
	for _, r := range sorted {
		if r.Kind == queue.CommitStatus {
			rows = append(rows, statusRow{Context: r.Name, URL: r.URL, State: strings.ToUpper(r.Result)})
			continue
		}
		if len(suites) == 0 || r.Suite != last {
			suites = append(suites, checkSuite{})
			last = r.Suite
		}
		suite := &suites[len(suites)-1]
		suite.CheckRuns = append(suite.CheckRuns, checkRow{
			Name: r.Name, URL: r.URL, Status: strings.ToUpper(r.Status), Conclusion: valueOrNull(strings.ToUpper(r.Result)),
		})
	}
	return suites, rows
}
