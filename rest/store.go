package rest

import (
	"context"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// Store is what the API needs of storage. Everything is scoped by the
// organisation of the caller's token: what belongs to another is
// queue.ErrNotFound, found out by the same query as what does not exist.
type Store interface {
	// Token finds a token by the hash of its secret and notes that it was
	// used (to the minute). ErrNotFound: unknown, expired or revoked; one that
	// was revoked elsewhere may be valid for another second.
	Token(ctx context.Context, hash [32]byte, now time.Time) (account.Token, error)
	// Repository finds a repository by name, in any case; an old name works
	// until another repository takes it. ErrNotFound: not one of org.
	Repository(ctx context.Context, org int64, host, owner, name string) (queue.Repo, error)
	// FindQueue finds a queue by repository and branch.
	FindQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error)
	// RecentQueue is FindQueue as it was within the last second, for a Wish.
	RecentQueue(ctx context.Context, org int64, host, owner, name, branch string) (queue.Queue, error)
	// CreateQueue makes a queue in state running; a repository that is not
	// connected yet is noted under org. ErrExists: there is one.
	// ErrNotFound: the repository is connected and belongs to another organisation.
	CreateQueue(ctx context.Context, org int64, host, owner, name, branch string, settings queue.Settings, now time.Time) (queue.Queue, error)
	// DeleteQueue removes a queue and its history. ErrNotFound: there is
	// none. ErrNotEmpty: entries are active, and nothing was changed.
	DeleteQueue(ctx context.Context, org int64, host, owner, name, branch string) error
	// Listed lists every active entry in queue order: the line, pending, not
	// ready. Only what a list shows is filled in: id, state and since when,
	// number, title, head, base, author's login, priority and noBatch. The
	// list is shared and not to be changed.
	Listed(ctx context.Context, q queue.Queue) ([]queue.Entry, error)
	// Entry finds the entry of a pull request, active or ended.
	Entry(ctx context.Context, q queue.ID, pr int64) (queue.Entry, error)
	// Read is a window with the entries named in it, for Explain.
	Read(ctx context.Context, q queue.ID, prs ...int64) (*queue.Snapshot, error)
	// Run finds a run of the queue, ended or not, and the entries of its chain.
	Run(ctx context.Context, q queue.ID, id queue.RunID) (queue.Run, []queue.Entry, error)
	// SetImpactedTargets stores what a pull request impacts at a head commit:
	// everything, or the targets named. Nobody need know the pull request yet.
	SetImpactedTargets(ctx context.Context, repo queue.RepoID, pr int64, head string, names []string, everything bool) error
	// ImpactedTargets is what the pull requests of a chain impact together,
	// at their heads in it, in order. known: something was uploaded for one
	// of them. everything: one of them impacts everything.
	ImpactedTargets(ctx context.Context, repo queue.RepoID, chain []queue.Step) (names []string, everything, known bool, err error)
	// OrganizationOf is the organisation of a repository that the App is
	// installed on, for the one call that needs no token. It and everything
	// that is found by its answer must not be shown to such a caller.
	OrganizationOf(ctx context.Context, host, owner, name string) (int64, error)
	// Wish appends a fact for a queue and waits until it was decided on.
	// The answer says what became of it; an error, that nobody knows. The
	// snapshot is what that decision left, complete like that of Read for the
	// pull request of the fact and not to be changed; nil when it is not known
	// here.
	Wish(ctx context.Context, repo queue.RepoID, q queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error)
	// Entries lists entries of a queue, ended ones too.
	Entries(ctx context.Context, q queue.ID, page queue.EntryPage) ([]queue.Entry, error)
	// Timeline lists the moves of a pull request, oldest first.
	Timeline(ctx context.Context, q queue.ID, pr int64) ([]queue.Move, error)
	// Whole is a queue at one moment with all its active entries.
	Whole(ctx context.Context, q queue.ID) (*queue.Snapshot, error)
	// Depths and Measures measure every queue of an organisation, Measures
	// with what happened in it, and in one repository alone unless repo is 0.
	Depths(ctx context.Context, org int64) ([]queue.Measures, error)
	Measures(ctx context.Context, org int64, repo queue.RepoID, now time.Time) ([]queue.Measures, error)
	// OwnSecret is a secret of this installation, made when first asked for.
	OwnSecret(ctx context.Context, name string) ([]byte, error)
	// Connect applies what the host said about an installation.
	Connect(ctx context.Context, c account.Connection) error
}

// Subscribers are those who are told what happens in an organisation.
// account.Invalid says what is wrong with a wish; queue.ErrNotFound, that the
// organisation has no such thing.
type Subscribers interface {
	// Create makes one; secret is what its deliveries are signed with, if they are.
	Create(ctx context.Context, org int64, want account.Subscriber, address string) (s account.Subscriber, secret string, err error)
	List(ctx context.Context, org int64) ([]account.Subscriber, error)
	Find(ctx context.Context, org int64, id string) (account.Subscriber, error)
	// Change does with one what change does, and gives it another address; nil =
	// it stays where it is.
	Change(ctx context.Context, org int64, id string, address *string, change func(*account.Subscriber)) (account.Subscriber, error)
	// Rotate makes a new secret; the old one counts for another day.
	Rotate(ctx context.Context, org int64, id string) (secret string, err error)
	Delete(ctx context.Context, org int64, id string) error
	// Test has something delivered to it.
	Test(ctx context.Context, org account.Organization, id string) (account.Delivery, error)
	// Deliveries lists the newest first, below a number unless that is 0.
	Deliveries(ctx context.Context, org int64, id string, below int64, take int) ([]account.Delivery, error)
	Redeliver(ctx context.Context, org int64, id string, delivery int64) (account.Delivery, error)
	// Sent is the body of a delivery.
	Sent(kind account.SubscriberKind, org account.Organization, d account.Delivery) ([]byte, error)
}

// Host is what the API asks of the Git host before it accepts a submission.
// Package gitprovider's Reader satisfies it.
type Host interface {
	// PullRequest reads a pull request.
	PullRequest(ctx context.Context, repo queue.Repo, number int64) (queue.PullRequestSeen, error)
	// Find looks up a repository that is not connected yet.
	Find(ctx context.Context, host, owner, name string) (queue.Repo, error)
	// ForkRun reads a run of CI of a repository: the head commit that it
	// tests, and whether it is, at this moment, in progress for a pull
	// request from a fork.
	ForkRun(ctx context.Context, repo queue.Repo, run int64) (head string, live bool, err error)
}
