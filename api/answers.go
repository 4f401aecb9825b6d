package api

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// Queue is one queue of a server, or the place where there may be one.
type Queue struct {
	*Client
	Host, Owner, Name string // of the repository
	Branch            string
}

// Repo is the repository as people write it, without the host.
func (q *Queue) Repo() string { return q.Owner + "/" + q.Name }

// repo is the repository as requests name it.
func (q *Queue) repo() map[string]string {
	return map[string]string{"host": q.Host, "owner": q.Owner, "name": q.Name}
}

// Call asks an endpoint about the queue. more is what the request has beside
// the queue's name.
func (q *Queue) Call(ctx context.Context, endpoint string, more map[string]any, answer any) error {
	body := map[string]any{"repo": q.repo(), "targetBranch": q.Branch}
	maps.Copy(body, more)
	return q.Post(ctx, endpoint, body, answer)
}

// About asks an endpoint about the tests of the queue's repository.
func (q *Queue) About(ctx context.Context, endpoint string, more map[string]any, answer any) error {
	body := map[string]any{"repo": q.repo(), "org_url_slug": strings.ToLower(q.Owner)}
	maps.Copy(body, more)
	return q.Post(ctx, endpoint, body, answer)
}

// Pull asks an endpoint about a pull request.
func (q *Queue) Pull(ctx context.Context, endpoint string, number int) (PullRequest, error) {
	var p PullRequest
	err := q.Call(ctx, endpoint, map[string]any{"pr": map[string]int{"number": number}}, &p)
	return p, err
}

// PullRequest is a pull request that was submitted to a queue.
type PullRequest struct {
	Number    int64     `json:"prNumber"`
	Title     string    `json:"prTitle"`
	Author    string    `json:"prAuthor"`
	Head      string    `json:"prSha"`
	Base      string    `json:"prBaseBranch"`
	State     string    `json:"state"`
	ChangedAt time.Time `json:"stateChangedAt"`
	Priority  string    `json:"priorityName"`
	NoBatch   bool      `json:"noBatch"`
	Readiness struct {
		Mergeability string `json:"gitHubMergeability"`
	} `json:"readiness"`
	Reason      Reason      `json:"reason"`
	WaitingFor  []Condition `json:"waitingFor"`
	Position    int64       `json:"position"` // from 1; 0 = none
	EstimatedAt *time.Time  `json:"estimatedMergeAt"`
}

// Final reports whether the pull request's submission has ended.
func (p PullRequest) Final() bool { return Final(p.State) }

// Final reports whether a state is one in which a submission has ended.
func Final(state string) bool {
	return state == "merged" || state == "failed" || state == "cancelled"
}

// Reason is why something is so: a code for programs, a sentence for people.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Condition is one thing that must hold before a pull request moves on.
type Condition struct {
	Condition string `json:"condition"`
	Met       bool   `json:"met"`
	Message   string `json:"message"`
}

// Explanation is why a pull request is where it is.
type Explanation struct {
	Number      int64       `json:"prNumber"`
	Title       string      `json:"prTitle"`
	State       string      `json:"state"`
	Reason      Reason      `json:"reason"`
	Conditions  []Condition `json:"conditions"`
	Position    int64       `json:"position"`   // from 1; 0 = none
	WaitsFor    string      `json:"waitsFor"`   // "" once it has ended
	WaitsUntil  *time.Time  `json:"waitsUntil"` // nil = when it happens
	TestRunID   string      `json:"testRunId"`
	TestedWith  []int64     `json:"testedWith"`
	EstimatedAt *time.Time  `json:"estimatedMergeAt"`
	Timeline    []Move      `json:"timeline"`
}

// Move is one move of a pull request.
type Move struct {
	Submission int64     `json:"submission"` // counts from 1
	From       string    `json:"from"`       // "" before the first submission
	To         string    `json:"to"`
	At         time.Time `json:"at"`
	Reason     Reason    `json:"reason"`
	Actor      string    `json:"actor"` // "" is Signalbox or a program
	TestRunID  string    `json:"testRunId"`
}

// Testing is a test run.
type Testing struct {
	RequiredStatuses []string `json:"requiredStatuses"`
	TestBranch       string   `json:"testBranch"`
	TestBranchSha    string   `json:"testBranchSha"` // "" until it is built
	CheckSuites      []struct {
		CheckRuns []struct {
			Name       string `json:"name"`
			URL        string `json:"url"`
			Status     string `json:"status"`
			Conclusion string `json:"conclusion"` // "" while there is none
		} `json:"checkRuns"`
	} `json:"checkSuites"`
	StatusChecks []struct {
		Context string `json:"context"`
		URL     string `json:"url"`
		State   string `json:"state"`
	} `json:"statusChecks"`
	Tested []struct {
		Number int64 `json:"prNumber"`
	} `json:"testedPullRequests"`
	Status string `json:"status"`
}

// Contents are a queue's settings and what is in it.
type Contents struct {
	State    string        `json:"state"`
	Mode     string        `json:"mode"`
	Enqueued []PullRequest `json:"enqueuedPullRequests"` // in queue order
	// Settings is every field of the answer but the list, by name.
	Settings map[string]json.RawMessage `json:"-"`
}

// UnmarshalJSON reads getQueue's answer, or updateQueue's, which has no list.
func (c *Contents) UnmarshalJSON(text []byte) error {
	type plain Contents
	if err := json.Unmarshal(text, (*plain)(c)); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &c.Settings); err != nil {
		return err
	}
	delete(c.Settings, "enqueuedPullRequests")
	return nil
}

// Status is what a token can see, at a glance.
type Status struct {
	Version      string        `json:"version"`
	Organization string        `json:"organization"`
	Queues       []QueueStatus `json:"queues"`
}

// QueueStatus is one queue of the token's organisation.
type QueueStatus struct {
	Repo struct {
		Host  string `json:"host"`
		Owner string `json:"owner"`
		Name  string `json:"name"`
	} `json:"repo"`
	Branch   string `json:"targetBranch"`
	State    string `json:"state"`
	Mode     string `json:"mode"`
	Enqueued int64  `json:"enqueued"` // without those that are not ready
	NotReady int64  `json:"notReady"`
	Testing  int64  `json:"testing"` // runs that hold a testing slot
}
