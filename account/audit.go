package account

import (
	"context"
	"time"
)

// Author is who changes something: a person of the host, a program with an API
// token, or, where all are empty, an operator at the command line.
type Author struct {
	Login  string // of a person, on the host
	UserID int64  // the host's number of that person
	Token  string // name of the API token
	// Administrator: somebody at the machine that the service runs on, in
	// the dashboard.
	Administrator bool
	// Service: this program itself, because of what it found.
	Service bool
}

// String is the author as people read it.
func (a Author) String() string {
	switch {
	case a.Login != "":
		return "@" + a.Login
	case a.Token != "":
		return "API token " + a.Token
	case a.Administrator:
		return "the administrator of this installation"
	case a.Service:
		return "Signalbox"
	default:
		return "the command line"
	}
}

type authorKey struct{}

// As says who is behind everything that is done with a context. The edges set
// it when they know who calls; the store writes it into the audit log.
func As(ctx context.Context, a Author) context.Context {
	return context.WithValue(ctx, authorKey{}, a)
}

// AuthorOf is who is behind what is done with a context.
func AuthorOf(ctx context.Context) Author {
	a, _ := ctx.Value(authorKey{}).(Author)
	return a
}

// Deed is what was done, in the audit log.
type Deed string

// The deeds.
const (
	QueueCreated Deed = "queue_created"
	QueueChanged Deed = "queue_changed"
	QueueDeleted Deed = "queue_deleted"
	TokenCreated Deed = "token_created"
	TokenRevoked Deed = "token_revoked"

	SubscriberCreated  Deed = "subscriber_created"
	SubscriberChanged  Deed = "subscriber_changed"
	SubscriberDeleted  Deed = "subscriber_deleted"
	SubscriberRotated  Deed = "subscriber_secret_rotated"
	SubscriberDisabled Deed = "subscriber_disabled" // by the service itself, after days of failure
	// QuarantineSwitched: automatic quarantine of a repository went on or off.
	QuarantineSwitched Deed = "quarantine_switched"
)

// Audit is one line of the audit log: who changed what of an organisation's
// set-up. It is written in the transaction of the change, and never altered.
type Audit struct {
	ID      int64
	At      time.Time
	By      Author
	Deed    Deed
	Subject string // a queue as host/owner/name:branch, a repository, or the name of a token
	Changes []Changed
}

// Changed is one thing that is different from before.
type Changed struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}
