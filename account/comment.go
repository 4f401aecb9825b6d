package account

import "time"

// Comment is a comment on a pull request, as the host lists it.
type Comment struct {
	ID, PR int64
	// Login, UserID and Bot say who wrote it; all zero for somebody who was
	// deleted. App is the number of the App that it was written through, 0 if none.
	Login            string
	UserID           int64
	Bot              bool
	App              int64
	Body             string
	Created, Updated time.Time
}
