// Package db keeps everything in Postgres. It is the only place with SQL: each
// statement stands at the method that uses it, with its columns named.
//
//	engine.Store, rest.Store, webhook.Store ──► db.DB ──► Postgres
//	                                              └─────► River's tables (jobs)
//
// # One decision, one transaction
//
// UpdateDue claims a queue that is due (SKIP LOCKED, so that any number of
// programs share the work; whoever waited longest first), locks its row, reads
// the window that queue.Snapshot describes and the queue's unread facts, calls
// the pure decision, and saves everything that it wants: rows, timeline,
// answers, and jobs in River's table, which is the outbox. A crash leaves all of
// it or nothing.
//
// The lock is FOR NO KEY UPDATE. Appending a fact refers to the queue's row (a
// foreign key), which that lock allows: facts never wait for a decision, nor
// a decision for them.
//
// # How a fact finds its queues
//
//	Receive ─────────────────► inbox and inbox_routes (queue, fact) ─UpdateDue─► folded
//	Append, commands ─► inbox ─Route─┘ └─► waits, when it is about a commit that nobody knows
//
// A route is an unread fact of one queue. It is deleted in the transaction that
// folds the fact, by its id, so a fact that arrives during a decision stays.
//
// A fact that waits is adopted when a run turns out to have its commit. Whoever
// writes "waits" commits, and then Route looks at runs; UpdateDue first
// writes the run, commits, and then looks at what waits. In whichever order
// the two happen, one of them sees the other's work.
//
// Deliveries of webhooks reach the inbox through a writer that stores whatever
// waits in one statement, which also hands their facts to their queues: see
// inbound. Where many come that change nothing, they gather: see gathering.
//
// A wish, whose sender waits for a decision, is handed to the next one of this
// program from memory: see Wish. What came of it is committed with the decision,
// which answers all whose wishes it had. Where another program has the queue in
// hand, wishes go into the inbox in the way of deliveries.
//
// Programs are woken after a commit, each by itself at once, the others and all
// who work jobs by notification: see announce.
//
// Postgres keeps the plans of a decision's statements, see claim: each of them
// has to be right with one plan, however much there is and whatever it is asked.
//
// What many callers ask at the same time is asked once: see together. What each
// submission asks and hardly ever changes, its token and where its queue is, is
// remembered for a second: see lately.
//
// # Impacted targets
//
// A set belongs to a pull request and one of its head commits, and never
// changes. Which set counts for an entry is not stored with the entry but found
// whenever the entry is read, because a set may come before the submission and
// before we hear of the push; only what a group was formed with is kept
// (queue.Entry.BoundTargets). Sets that were read stay in memory for a while.
//
// # Text and time
//
// NUL never reaches Postgres: encode and clean drop it, and every text goes
// through one of them. Times are kept to the microsecond, in UTC; the zero
// time is NULL. The clock is Config.Now, never Postgres's.
package db
