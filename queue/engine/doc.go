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
package engine
