package queue

import "errors"

// Errors that a store answers with and that its users tell apart.
var (
	// ErrNotFound: there is no such thing, or it belongs to somebody else;
	// the two are never told apart.
	ErrNotFound = errors.New("not found")
	// ErrExists: a queue for that branch exists already.
	ErrExists = errors.New("exists already")
	// ErrNotEmpty: the queue has entries that have not ended.
	ErrNotEmpty = errors.New("not empty")
	// ErrUnavailable: the storage cannot be reached now; nothing is known to
	// have changed, and the same may work in a while.
	ErrUnavailable = errors.New("storage is unavailable")
	// ErrNoHistory: nothing has ended in the time that is asked about.
	ErrNoHistory = errors.New("nothing landed or failed in that time, so there is nothing to replay")
)
