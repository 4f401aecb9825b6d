package account

import (
	"encoding/json"
	"time"
)

// SubscriberKind is how a subscriber is spoken to.
type SubscriberKind string

// The kinds.
const (
	WebhookSubscriber SubscriberKind = "webhook" // signed JSON, by the rules of Standard Webhooks
	SlackSubscriber   SubscriberKind = "slack"   // messages for people, to an incoming webhook of Slack
)

// SubscriberKinds lists the kinds.
var SubscriberKinds = []SubscriberKind{WebhookSubscriber, SlackSubscriber}

// Subscriber is an address that is told what happens in an organisation. Where
// it is, and the secrets that prove to it who speaks, are kept apart: see
// Endpoint.
type Subscriber struct {
	Number int64  // the service's own
	ID     string // a UUID
	Kind   SubscriberKind
	Name   string // what people call it
	// Address is where it is, as it may be shown to people: without what only
	// the address's owner should know.
	Address string
	// Events are names of events, "queue.*" for all of a family, or "*" for all.
	Events []string
	// Repositories are those whose events it wants; none = of every repository.
	Repositories []Watched
	Enabled      bool
	// Why is the sentence that says why it was switched off by the service; ""
	// where a person did it, or nobody.
	Why       string
	CreatedAt time.Time
	Health    Health
}

// Health is how the deliveries to a subscriber go.
type Health struct {
	Failures     int       // rounds in a row in which it did not answer as it should
	FailingSince time.Time // zero while the last attempt was well
	QuietUntil   time.Time // it is left alone until then
	DeliveredAt  time.Time // the last time something arrived
}

// Watched is a repository whose events a subscriber wants.
type Watched struct {
	ID                int64
	Host, Owner, Name string
}

// Endpoint is what only the program itself may know of a subscriber. It is
// stored encrypted.
type Endpoint struct {
	URL string `json:"url"`
	// Secrets sign what is sent, the newest first; none for Slack, whose
	// address is the secret.
	Secrets []SigningSecret `json:"secrets,omitempty"`
}

// SigningSecret is a secret that deliveries are signed with.
type SigningSecret struct {
	Text  string    `json:"text"`           // whsec_…
	Until time.Time `json:"until,omitzero"` // zero = for ever
}

// EventKind describes one kind of event, for people.
type EventKind struct {
	Type  string
	Topic string // heading that it stands under
	About string // a sentence
}

// DeliveryState is what became of telling one subscriber one event.
type DeliveryState string

// The states.
const (
	Waiting   DeliveryState = "waiting" // to be sent, for the first time or again
	Delivered DeliveryState = "delivered"
	GivenUp   DeliveryState = "given_up" // it was tried for a day
)

// Delivery is one event on its way to one subscriber.
type Delivery struct {
	ID     int64  // grows in the order in which things happened
	Event  string // a UUID, the same for every subscriber and every attempt
	Type   string
	At     time.Time       // when it happened
	Body   json.RawMessage // what happened: a queue.Event or a flaky.Event
	Again  bool            // a person asked for it once more
	State  DeliveryState
	NextAt time.Time // of the next attempt, while it waits
	Tries  []Try
}

// Try is one attempt at a delivery.
type Try struct {
	At           time.Time `json:"at"`
	Status       int       `json:"status"` // 0 = there was no answer
	Milliseconds int64     `json:"milliseconds"`
	Error        string    `json:"error,omitempty"`  // what was wrong, in a sentence
	Answer       string    `json:"answer,omitempty"` // the beginning of what it said
}

// Sending is a round of deliveries to one subscriber that one worker holds: at
// most one of each subject, the oldest.
type Sending struct {
	Subscriber Subscriber
	Org        Organization
	Sealed     []byte // its Endpoint
	Deliveries []Delivery
}

// Tried is what became of one delivery of a round.
type Tried struct {
	Delivery int64
	Try      Try
	State    DeliveryState
	NextAt   time.Time // while it waits
}

// Invalid is an error about what a person asked for: the text says what is
// wrong with it, as a sentence.
type Invalid string

func (i Invalid) Error() string { return string(i) }
