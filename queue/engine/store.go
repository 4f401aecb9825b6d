package engine

import (
	"context"
	"time"

	"signalbox/queue"
)

// Store is what the engine needs of storage. Package db satisfies it on
// Postgres; any number of engines may share one store.
type Store interface {
	// UpdateDue picks one queue that is due (unread facts wait for it, or its
	// wake time has passed) and that nobody else is deciding on, locks its
	// row, reads its window and its unread facts, calls decide, and saves the
	// plan with its actions, all in one transaction. It returns id = 0
	// when no queue was due. decide may be called more than once and must be
	// pure; what it leaves in the snapshot is what its plan makes of the
	// queue. A queue whose facts arrive meanwhile is due again: the caller
	// finds it when it calls again, or, when again is false, wakes up for it.
	// Where other queues are due too, it wakes somebody for them before it
	// decides.
	UpdateDue(ctx context.Context, now time.Time, decide Decide) (id queue.ID, again bool, err error)
	// Route hands facts that name no queue to the queues they are about, see
	// queue.Subject, and turns commands into jobs. A report on a commit that
	// nobody knows yet is kept for the run that may soon have it.
	Route(ctx context.Context, now time.Time) error
	// NextWake is the earliest wake time of all queues; zero if none.
	NextWake(ctx context.Context) (time.Time, error)
	// Wakeups yields what happens, in this process or in another; several
	// news may arrive as one. The channel is closed when ctx ends.
	Wakeups(ctx context.Context) (<-chan queue.News, error)

	// Append adds facts about a repository; q = 0 lets Route find the
	// queues by the facts' subjects.
	Append(ctx context.Context, repo queue.RepoID, q queue.ID, facts ...queue.Fact) error
	// Repo is the repository with its present name and installation.
	Repo(ctx context.Context, id queue.RepoID) (queue.Repo, error)
	// ReadPRs is as much of a window, without a lock, as it takes to say how
	// some pull requests stand in a queue now: their entries and those of the
	// stacks that have them, what queue.Explain looks at for these, and the
	// runs that test them. Of one that has ended it is the newest run that
	// tested it: what people read about a failure names the checks that
	// failed. ErrNotFound: no such queue.
	ReadPRs(ctx context.Context, id queue.ID, prs ...int64) (*queue.Snapshot, error)
	// Version is that of a pull request's entry by now, 0 if it has none.
	Version(ctx context.Context, id queue.ID, pr int64) (int64, error)
	// QueueFor finds the queue of a branch. ErrNotFound: there is none.
	QueueFor(ctx context.Context, repo queue.RepoID, branch string) (queue.ID, error)
	// QueuesWith lists the queues where a pull request has an active entry.
	QueuesWith(ctx context.Context, repo queue.RepoID, pr int64) ([]queue.ID, error)
	// InTurn calls do while nobody else is in InTurn for the same pull
	// request, in this process or in another on this store, and returns what
	// do does. It waits for its turn as long as ctx lasts. A process that dies
	// gives its turns back; do's context ends when a turn is lost.
	InTurn(ctx context.Context, repo queue.RepoID, pr int64, do func(context.Context) error) error
	// Comment and SetComment remember the id of the sticky comment on a pull
	// request; 0 = not known.
	Comment(ctx context.Context, repo queue.RepoID, pr int64) (int64, error)
	SetComment(ctx context.Context, repo queue.RepoID, pr int64, comment int64) error
	// UnfinishedCheck and SetUnfinishedCheck remember the commit that carries
	// our unfinished status check of a pull request in a queue; "" = none.
	UnfinishedCheck(ctx context.Context, id queue.ID, pr int64) (commit string, err error)
	SetUnfinishedCheck(ctx context.Context, id queue.ID, pr int64, commit string) error
}

// Decide is one decision: facts are applied, then everything is judged.
type Decide = func(s *queue.Snapshot, facts []queue.Received, now time.Time) queue.Plan

// Postponer is a Store that can leave a queue alone for a while. The engine
// asks for it when a decision on that queue failed or panicked: without it,
// the queue that cannot be decided on would be found first again and again,
// and the others would wait behind it.
//
// For a failed decision to lose nothing, UpdateDue rolls back when decide
// panics and lets the panic pass.
type Postponer interface {
	// Postpone makes a queue not due before until, whatever waits for it.
	// NextWake counts it then. Its facts stay unread.
	Postpone(ctx context.Context, id queue.ID, until time.Time) error
}
