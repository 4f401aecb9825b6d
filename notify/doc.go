// Package notify tells others what happens: programs by signed webhooks, people
// by messages in Slack.
//
// An organisation has subscribers. Each names the events that it wants, and the
// repositories if not all. Where something happens, the store writes, in the
// very transaction in which it happens, one delivery for each subscriber that
// wants it: so nothing is told that did not happen, nothing that happened is
// forgotten, and where nobody subscribes nothing is written. From then on the
// deliveries are ours:
//
//	decision, test report ──one transaction──► event_deliveries
//	                                                │ claim: one subscriber, a round of deliveries
//	                                                ▼
//	                                    attempt, in parallel, one of each subject
//	                                                │
//	                                                ▼
//	                                    record: delivered, or when to try again
//
// A round is held by one worker of one copy of the program for at most
// [lease]. It has at most one delivery of each subject (a pull request in its
// queue, a batch, a queue, a test), the oldest that waits; so the events of one
// subject arrive in their order, each after the one before it was taken or
// given up, while those of others overtake it. A worker that dies loses its hold
// when the lease ends, and what it may have sent is sent again: under the same
// id, by which a receiver knows it.
//
// # Failures
//
// An attempt succeeds with any status from 200 to 299. Everything else, a
// redirect too, is a failure, and the delivery is tried again after 5 seconds, 1
// minute, 5 minutes, 30 minutes, 2, 5, 8 and 8½ hours; then it is given up.
// Where the subscriber gives no answer at all, or says that it is broken or busy
// (5xx, 429), and so to a whole round, it is left alone for a while that grows to
// five minutes, or for as long as its Retry-After says, up to an hour; one
// delivery then finds out whether it is back. 410 switches a subscriber off at
// once, five days without a success do too; both are written into the audit log
// and shown.
//
// # Where we may reach
//
// Addresses are people's input. A connection is made to public addresses alone,
// judged when the name has been resolved, at the moment of dialling, so that no
// DNS answer leads inside; never through a proxy, and no redirect is followed.
// Plain http is for addresses that the operator has allowed by name: see
// Config.Allowed. Of an answer only a little is read.
package notify
