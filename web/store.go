package web

import (
	"context"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// Store is what the pages need of storage. Nothing here takes a lock.
type Store interface {
	TestStore
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
	// WithoutQueue lists repositories that the App works on and that have no
	// queue, by host, owner and name, take at most: only those whose name has
	// the text in it, unless that is "".
	WithoutQueue(ctx context.Context, text string, take int) ([]queue.Repo, error)
	// RepositoryNamed finds a repository by its name, in any case. An old
	// name works until another repository takes it. ErrNotFound: there is none.
	RepositoryNamed(ctx context.Context, host, owner, name string) (queue.Repo, error)
	// Places say to whom repositories belong. One that is not there is left out.
	Places(ctx context.Context, repos []queue.RepoID) (map[queue.RepoID]account.Place, error)
	// CreateQueue makes a queue, in the name of account.AuthorOf(ctx).
	// ErrExists: the branch has one.
	CreateQueue(ctx context.Context, org int64, host, owner, name, branch string, settings queue.Settings, now time.Time) (queue.Queue, error)
	// Turns are the versions of all queues: one that has changed has another.
	Turns(ctx context.Context) (map[queue.ID]int64, error)
	// Wakeups yields news when some queue may have changed; several may
	// arrive as one. It is closed when ctx ends.
	Wakeups(ctx context.Context) (<-chan queue.News, error)
}

// TestStore is what the pages of tests need of storage.
type TestStore interface {
	// CountUnhealthyTests counts the flaky and broken tests of every
	// repository that has some.
	CountUnhealthyTests(ctx context.Context) (map[queue.RepoID]int, error)
	// CountTests counts the tests of a repository that somebody should know of.
	CountTests(ctx context.Context, repo queue.RepoID) (flaky.Counts, error)
	// ListTests lists tests of a repository, the one whose state changed last
	// first, take at most.
	ListTests(ctx context.Context, repo queue.RepoID, f flaky.Filter, take int) ([]flaky.TestCase, error)
	// TestDays are the days on which tests ran, by their numbers, in the order
	// of time.
	TestDays(ctx context.Context, repo queue.RepoID, numbers []int64, from, to time.Time) (map[int64][]flaky.DayTally, error)
	// TestDetails is a test, TestHistory the evidence about it and what changed,
	// the newest first; FailureKinds are the most frequent ways in which it
	// failed in 30 days and TestFailures its newest failures, take at most.
	// ErrNotFound: the repository has no such test.
	TestDetails(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time) (flaky.TestDetails, error)
	TestHistory(ctx context.Context, repo queue.RepoID, id uuid.UUID) ([]flaky.Proof, []flaky.Change, error)
	FailureKinds(ctx context.Context, repo queue.RepoID, id uuid.UUID, now time.Time, take int) ([]flaky.FailureKind, error)
	TestFailures(ctx context.Context, repo queue.RepoID, id uuid.UUID, take int) ([]flaky.Occurrence, error)
	// SetQuarantine stores a person's decision about a test, which its Check
	// has found to be complete. ErrNotFound: the repository has no such test.
	SetQuarantine(ctx context.Context, repo queue.RepoID, id uuid.UUID, o flaky.Override, now time.Time) (flaky.Quarantine, error)
	// SetAutomatic switches automatic quarantine of a repository on or off.
	SetAutomatic(ctx context.Context, repo queue.RepoID, on bool, actor string, now time.Time) error
	// ListUploads lists the uploads of a repository without their failures,
	// the newest first, take at most: those with a smaller number than below
	// unless that is 0, and with troubled only those that something was wrong
	// with.
	ListUploads(ctx context.Context, repo queue.RepoID, below int64, troubled bool, take int) ([]flaky.UploadDetails, error)
	// TestUpload is an upload of a repository with what came of it.
	// ErrNotFound: the repository has no such upload.
	TestUpload(ctx context.Context, repo queue.RepoID, id int64) (flaky.UploadDetails, error)
}

// Subscribers are those who are told what happens in an organisation.
// account.Invalid says what is wrong with a wish; queue.ErrNotFound, that the
// organisation has no such thing. Changes are made in the name of
// account.AuthorOf(ctx).
type Subscribers interface {
	// EventKinds are the events that there are, by topic.
	EventKinds() []account.EventKind
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
