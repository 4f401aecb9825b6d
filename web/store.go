package web

import (
	"context"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// Store is what the pages need of storage. Nothing here takes a lock.
type Store interface {
	// Queues lists every queue, by host, owner, name and branch.
	Queues(ctx context.Context) ([]queue.Queue, error)
	// Counts counts the active entries of every queue by their state; what
	// is missing is zero.
	Counts(ctx context.Context) (map[queue.ID]map[queue.EntryState]int64, error)
	// QueueNamed finds a queue by its repository's name, in any case, and its
	// branch. An old name works until another repository takes it.
	// ErrNotFound: there is none.
	QueueNamed(ctx context.Context, host, owner, name, branch string) (queue.Queue, error)
	// Whole is a queue at one moment with all its active entries.
	Whole(ctx context.Context, q queue.ID) (*queue.Snapshot, error)
	// Read is a window with the entries named in it, for Explain.
	Read(ctx context.Context, q queue.ID, prs ...int64) (*queue.Snapshot, error)
	// Ended lists entries that are in a final state, the latest ending first,
	// limit at most.
	Ended(ctx context.Context, q queue.ID, limit int) ([]queue.Entry, error)
	// Entry finds the entry of a pull request, active or ended.
	// ErrNotFound: it was never submitted to this queue.
	Entry(ctx context.Context, q queue.ID, pr int64) (queue.Entry, error)
	// Timeline lists the moves of a pull request in a queue, oldest first,
	// over all its submissions.
	Timeline(ctx context.Context, q queue.ID, pr int64) ([]queue.Move, error)
	// Run finds a run of the queue, ended or not, and the entries of its
	// chain. ErrNotFound: there is none.
	Run(ctx context.Context, q queue.ID, id queue.RunID) (queue.Run, []queue.Entry, error)
	// RunsOf lists the newest runs that tested a pull request, newest first,
	// limit at most.
	RunsOf(ctx context.Context, q queue.ID, pr int64, limit int) ([]queue.Run, error)
	// Wish appends a fact for a queue and waits until it was decided on.
	// The answer says what became of it; an error, that nobody knows. The
	// snapshot is what that decision left, if it is known here.
	Wish(ctx context.Context, repo queue.RepoID, q queue.ID, fact queue.Fact) (queue.Answer, *queue.Snapshot, error)
	// NewSession keeps who signed in under the hash of the session's secret.
	NewSession(ctx context.Context, hash [32]byte, who queue.Actor, now, expires time.Time) error
	// Session is who signed in. ErrNotFound: unknown or expired.
	Session(ctx context.Context, hash [32]byte, now time.Time) (queue.Actor, error)
	// EndSession forgets a session. One that is not there is fine.
	EndSession(ctx context.Context, hash [32]byte) error
	// CountHours counts on what Tallies are made of; done says that nothing
	// is left, so that they are complete.
	CountHours(ctx context.Context) (done bool, err error)
	// Tallies are what has happened in a queue from one moment to another,
	// by the hour or the day, in the order of time.
	Tallies(ctx context.Context, q queue.ID, from, until time.Time, days bool) ([]queue.Tally, error)
	// EndedBetween lists the endings from one moment to another, the latest
	// first, take at most.
	EndedBetween(ctx context.Context, q queue.ID, from, until time.Time, take int) ([]queue.Ending, error)
	// Organization finds an organisation by its slug, with the repositories
	// that the App works on for it. ErrNotFound: there is none.
	Organization(ctx context.Context, slug string) (account.Organization, []queue.Repo, error)
	// OrganizationName is the slug of the organisation of a queue.
	OrganizationName(ctx context.Context, q queue.ID) (string, error)
	// ListTokens lists the API tokens of an organisation, oldest first.
	ListTokens(ctx context.Context, org int64) ([]account.Token, error)
	// CreateToken keeps a new token under the hash of its secret, and
	// RevokeToken makes one worthless, in the name of account.AuthorOf(ctx).
	// ErrNotFound: the organisation has no such token.
	CreateToken(ctx context.Context, org account.Organization, name string, scope account.Scope, hash [32]byte, expires time.Time) (account.Token, error)
	RevokeToken(ctx context.Context, org, id int64) error
	// Audit lists lines of an organisation's audit log, the newest first,
	// those with a smaller number than below unless that is 0; AuditOf those
	// about one queue.
	Audit(ctx context.Context, org int64, below int64, take int) ([]account.Audit, error)
	AuditOf(ctx context.Context, q queue.ID, below int64, take int) ([]account.Audit, error)
	// Turns are the versions of all queues: one that has changed has another.
	Turns(ctx context.Context) (map[queue.ID]int64, error)
	// Wakeups yields a value when some queue may have changed; several may
	// arrive as one. It is closed when ctx ends.
	Wakeups(ctx context.Context) (<-chan struct{}, error)
}
