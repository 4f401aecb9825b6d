package queue

import (
	"slices"
	"time"
)

// The keys of the things a queue is made of.
type (
	// RepoID is our own number of a repository; it survives renames.
	RepoID int64
	// ID is our own number of a queue.
	ID int64
	// EntryID is a UUID: one for each pull request in each queue, for ever.
	EntryID string
	// GroupID counts the groups of one queue.
	GroupID int64
	// RunID is the test run id of the API and the last part of a test branch's name.
	RunID string
	// TargetsID numbers uploaded sets of impacted targets; a set never changes.
	TargetsID int64
)

// Repo names a repository on its host.
type Repo struct {
	ID           RepoID `json:"id"`
	Host         string `json:"host"` // "github.com"
	Owner        string `json:"owner"`
	Name         string `json:"name"`
	HostID       int64  `json:"hostId"`       // the host's number of it; 0 until the App is installed there
	Installation int64  `json:"installation"` // the App installation that serves it; 0 until installed
}

// String is host/owner/name, as messages name a repository.
func (r Repo) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// Mergeability is what the host, and our own reading of its rules, say about a
// pull request's head.
type Mergeability string

// The values, as the API shows them.
const (
	MergeabilityUnspecified Mergeability = "unspecified" // nobody has asked yet
	MergeabilityInProgress  Mergeability = "in_progress" // the host is still computing, or says something we do not know
	Mergeable               Mergeability = "mergeable"
	NotMergeable            Mergeability = "not_mergeable"
)

// PullRequest is what the host says about a pull request.
type PullRequest struct {
	Number  int64    `json:"number"`
	Title   string   `json:"title"`
	URL     string   `json:"url"`
	Author  Actor    `json:"author"`
	Head    string   `json:"head"`    // commit
	HeadRef string   `json:"headRef"` // branch name, for people only
	Fork    bool     `json:"fork,omitempty"`
	Base    string   `json:"base"` // branch
	Draft   bool     `json:"draft,omitempty"`
	Open    bool     `json:"open"`
	Merged  bool     `json:"merged,omitempty"`
	Labels  []string `json:"labels,omitempty"`
	// CommitTitle is the text of a "merge-commit-title:" line of the body.
	CommitTitle string `json:"commitTitle,omitempty"`
	// UpdatedAt is the host's own time of this state (whole seconds on
	// GitHub): an older one never replaces a newer one.
	UpdatedAt time.Time `json:"updatedAt"`
}

// same reports whether nothing of two states of a pull request differs.
func (p *PullRequest) same(o *PullRequest) bool {
	return p.Number == o.Number && p.Title == o.Title && p.URL == o.URL && p.Author == o.Author && p.Head == o.Head &&
		p.HeadRef == o.HeadRef && p.Fork == o.Fork && p.Base == o.Base && p.Draft == o.Draft && p.Open == o.Open &&
		p.Merged == o.Merged && slices.Equal(p.Labels, o.Labels) && p.CommitTitle == o.CommitTitle && p.UpdatedAt.Equal(o.UpdatedAt)
}
