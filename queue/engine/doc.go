// Package engine runs queues: it reads a queue's window and its unread facts,
// lets package queue decide, has the plan saved, and performs the actions that
// came of it. It owns the goroutines that do so.
//
//	facts ─► Store.UpdateDue( Apply, Decide ) ─► state, timeline, jobs
//	                                               │ after the commit
//	facts ◄── workers ◄── River ◄──────────────────┘
//
// Nothing here chooses: choices are package queue's. Nothing here knows which
// message woke it: a wake-up only says that some queue may be due.
//
// # Deciding
//
// [Engine.Run] decides on queues until none is due and sleeps until something
// rings: the store (facts were appended, a plan was saved), the clock (a
// queue's wake time came) or the slow poll, in case a ring was lost. Where more
// than one queue is due the store rings for the next sleeper, so that a busy one
// has all of them at work and an idle one none.
//
// What can go wrong:
//
//   - The process dies in a decision: the transaction is rolled back, and the
//     facts are still unread.
//   - A decision panics, or cannot be saved: the same, and the queue is put off
//     with growing back-off, so that the others do not wait behind it.
//   - The store is not there: everybody waits, with growing back-off, and goes on.
//   - The process dies between a decision and its actions: River holds the
//     actions, saved with the decision.
//
// # Performing
//
// [Engine.AddWorkers] has a worker for each kind of action. A worker asks the
// host, and appends what came of it as facts. What may work later is tried
// again as often and as long as the table in limits.go says; what is refused
// for good, and the last failure, becomes a fact too, because the decision
// waits for one. Every action may be performed twice, see package gitprovider.
//
// # Telling people
//
// What people see on a pull request is written from how things are, never from
// what has just happened: one sticky comment, edited in place; a status check
// on the commit that is queued; and one new comment for each ending that the
// author has to hear of. What they read is made by package texts. Who writes on a
// pull request has a turn on it, one in all copies of the program.
//
// A command is obeyed when its author has the right at that moment: write
// access, or admin for --force and urgent priority; help is for everybody who
// can read. It gets a reaction; a reply comes only with a refusal, a question,
// or where nothing else would name the commit that was queued.
package engine
