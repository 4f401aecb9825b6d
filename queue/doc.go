// Package queue is what a merge queue is and what it does next. It is pure: no
// clock, no network, no storage, no randomness, no goroutine.
//
// # The idea
//
// Two pull requests can each pass their tests and break the build together. A
// merge queue tests each one as it will land, and lands exactly what passed.
// Testing one after the other would be slow, so each is tested on top of what
// is ahead of it, on the prediction that all of that will land:
//
//	main ── #1 ── #2 ── #3
//	         │     │     └── run 3 tests main+#1+#2+#3
//	         │     └──────── run 2 tests main+#1+#2
//	         └────────────── run 1 tests main+#1
//
// Say run 3 fails first. Nobody knows yet whose fault it is: #1 and #2 are in
// that tree too. #3 is held in pending_failure. Then run 1 passes: #1 lands, and
// main is now exactly what runs 2 and 3 were built on, so both are still
// current. Run 2 fails with nothing undecided ahead of it: #2 is to blame and
// leaves. Run 3 tested a tree with #2 in it, which is no longer what would land:
// it is stale, its failure proves nothing, and #3 is tested again on main.
//
// # Words
//
// A [Queue] is one target branch with its [Settings]. An [Entry] is one pull
// request's place in it, a group ([Group]) one or more entries tested together,
// the line the groups in order, a [Run] one test of one group on one predicted
// base, its chain ([Step]) what the test branch is made of. A group is ahead of
// another when it comes earlier in the line and the two overlap: in single mode
// always, in parallel mode when their impacted targets ([TargetSet]) share one. What is
// ahead of the one is ahead of the other, too, but not in adaptive queues. That overlap
// rule is all that a mode is.
//
// A stack is pull requests that are based on one another. It is one entry, that
// of its top, whose head contains all the others: see [Layer].
//
// # One decision
//
//	facts ──apply──► Snapshot ──stages──► Plan {changes, moves, actions, wake}
//
// [Reconcile] is the whole of it. A [Fact] is applied by recording what is
// known; it chooses nothing, and applied twice or late it changes nothing. Then
// the stages choose, in this order, starting over after each change, until none
// has anything left to do:
//
//	landed    what came of the landing in flight
//	leave     who is cancelled, closed, pushed to, drafted, merged by hand
//	stale     whose run no longer tests what would land
//	verdicts  which builds and checks have ended, and what a pass proves
//	probation who is tested out of everybody's base (adaptive queues)
//	holds     whose failure it is: one entry fails, several are bisected
//	admit     who is ready
//	urgent    who goes in front of what runs
//	starts    who gets a free slot
//	hedges    who is also tested without somebody (adaptive queues)
//	landing   who lands
//	mode      whether a mode switch is over
//
// Every choice is made from how things are, never from which message arrived:
// lost, doubled, late and reordered messages do no harm once somebody looks
// again. The plan is saved whole; then its actions are performed, and what came
// of them returns as facts. Deciding again with nothing new asks for nothing.
//
// # States of an entry
//
// The legal moves are one table, [Transitions]; this text, the diagram in the
// documents and the database are held to it by tests.
//
//	(new) → not_ready: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED
//	merged → not_ready: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED
//	failed → not_ready: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED
//	cancelled → not_ready: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED
//	not_ready → pending: NOW_READY
//	not_ready → cancelled: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED PR_CLOSED NOT_READY_TIMEOUT
//	    REPOSITORY_REMOVED STACK_MEMBER_CHANGED
//	not_ready → merged: MERGED_BY_HAND LANDED_LATE
//	pending → testing: TEST_RUN_STARTED
//	pending → merged: DIRECT_MERGE MERGED_BY_HAND LANDED_TREE_MISMATCH LANDED_LATE
//	pending → cancelled: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED PR_CLOSED PR_PUSHED_TO
//	    PR_BASE_BRANCH_CHANGED PR_CONVERTED_TO_DRAFT REPOSITORY_REMOVED STACK_MEMBER_CHANGED
//	pending → failed: MERGE_CONFLICT CONFIG_INVALID NO_REQUIRED_STATUSES START_RETRIES_EXHAUSTED
//	    TEST_BRANCH_REFUSED DRAFT_PRS_NOT_ALLOWED FAILED_BY_OPTIMIZATION LANDING_REFUSED
//	testing → pending: TESTS_RESTARTED_BY_USER TESTS_RESTARTED_BY_API SKIP_THE_LINE_INTERRUPTED
//	    MANUAL_PUSH_TO_TARGET_BRANCH PREREQUISITE_CANCELLED PREREQUISITE_FAILED
//	    PREREQUISITE_MERGED_BY_HAND GROUP_CHANGED BISECTION_REQUIRED BISECTION_PASSED
//	    CHECKS_INTERRUPTED
//	testing → tests_passed: TEST_RUN_PASSED SUCCESSOR_TEST_RUN_PASSED
//	testing → pending_failure: REQUIRED_STATUS_FAILED TEST_RUN_TIMEOUT CHECKS_NEVER_STARTED
//	testing → cancelled: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED PR_CLOSED PR_PUSHED_TO
//	    PR_BASE_BRANCH_CHANGED PR_CONVERTED_TO_DRAFT REPOSITORY_REMOVED STACK_MEMBER_CHANGED
//	testing → failed: FAILED_BY_OPTIMIZATION
//	testing → merged: MERGED_BY_HAND LANDED_LATE
//	pending_failure → pending: TESTS_RESTARTED_BY_USER TESTS_RESTARTED_BY_API SKIP_THE_LINE_INTERRUPTED
//	    MANUAL_PUSH_TO_TARGET_BRANCH PREREQUISITE_CANCELLED PREREQUISITE_FAILED
//	    PREREQUISITE_MERGED_BY_HAND GROUP_CHANGED BISECTION_REQUIRED BISECTION_PASSED
//	    CHECKS_INTERRUPTED
//	pending_failure → tests_passed: SUCCESSOR_TEST_RUN_PASSED
//	pending_failure → failed: REQUIRED_STATUS_FAILED TEST_RUN_TIMEOUT CHECKS_NEVER_STARTED FAILED_BY_OPTIMIZATION
//	pending_failure → cancelled: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED PR_CLOSED PR_PUSHED_TO
//	    PR_BASE_BRANCH_CHANGED PR_CONVERTED_TO_DRAFT REPOSITORY_REMOVED STACK_MEMBER_CHANGED
//	pending_failure → merged: MERGED_BY_HAND LANDED_LATE
//	tests_passed → merged: MERGED_BY_QUEUE MERGED_BY_HAND LANDED_TREE_MISMATCH LANDED_LATE
//	tests_passed → pending: LANDING_CONFLICT PROOF_LOST TESTS_RESTARTED_BY_USER TESTS_RESTARTED_BY_API
//	    SKIP_THE_LINE_INTERRUPTED MANUAL_PUSH_TO_TARGET_BRANCH PREREQUISITE_CANCELLED
//	    PREREQUISITE_FAILED PREREQUISITE_MERGED_BY_HAND GROUP_CHANGED BISECTION_REQUIRED
//	    BISECTION_PASSED CHECKS_INTERRUPTED
//	tests_passed → failed: LANDING_REFUSED
//	tests_passed → cancelled: USER_REQUESTED API_REQUESTED ADMIN_REQUESTED PR_CLOSED PR_PUSHED_TO
//	    PR_BASE_BRANCH_CHANGED PR_CONVERTED_TO_DRAFT REPOSITORY_REMOVED STACK_MEMBER_CHANGED
//	failed → merged: LANDED_LATE
//	cancelled → merged: LANDED_LATE
//
// # States of a queue
//
//	state            admits  starts tests                      lands
//	running          yes     yes                               yes
//	paused           no      no; live runs finish and count    no
//	draining         no      yes, for what was admitted        yes
//	switching_modes  no      only groups that exist            yes
//
// A mode switch ends when the line is empty. A paused queue that was switching
// goes on switching when it runs again.
//
// # Adaptive queues
//
// With [AdaptiveSpeculation] the line is the same, and who is ahead of whom is
// decided by what is expected. A group that will probably fail (chance.go: counted
// from how the newest submissions ended, [Snapshot.Recent]) is tested alone on what
// has landed and is ahead of nobody ([Probation]). When it passes and nobody that it
// overlaps came meanwhile, its run is what would land, else its entries go to the
// front of those that wait, and are tested once more. A group that has failed, probably by its own
// fault, stays where it is until what is ahead of it has landed, but is ahead of
// nobody. A group behind so many that they will probably not all land is on probation,
// too, whatever is expected of itself. Batches form only when there are more entries
// than slots. A search for a culprit makes one part more than searches have slots, up
// to eight, and so takes few rounds. A probation is given its slot in the order of all, so nobody starves; each costs one run more at
// most. Everything below holds in such a queue too.
//
// In lanes only those are ahead that a group overlaps itself. Taken transitively, many
// that wait grow together into one lane, in which each failure makes everybody start
// anew, so that still more wait. With #1 ahead of #2 and #2 of #3, and nothing that both
// #1 and #3 impact, run 3 tests main+#2+#3, and goes on when #1 fails. By the overlap
// rule that says what main+#1+#2+#3 does. Such a run is narrow ([Run.Narrow]): #2 was to
// pass with #1, not without. So if it fails, and #1 and #2 have landed, #3 is tested once
// more, alone on the target, before it is blamed; and it is no proof of what is ahead of it.
// So is every failure in such lanes where the settings forgive flakes, for those behind
// start without it and do not clear it.
//
// In such lanes slots that nobody wants hedge (hedge.go): a group is also tested without
// one that is ahead of it and may well fail ([Run.Hedge]), up to three times. When that one
// fails, the group takes over what it was tested as without it, and need not start anew. How
// likely one is to fail is known better with each run that fails or passes with it. A hedge
// is nobody's base and proves nothing until then, and ends when somebody wants its slot, or
// when nothing can come of it any more.
//
// # Quarantine
//
// CI says that a check failed; results of its tests ([TestResults]) say which of
// them did, and whether the flaky-test service excuses that. A required check that
// failed on a test commit counts as passed when complete results of its job
// explain the failure, everything that failed is excused, and that is so for every
// upload that names the check ([Run.Excuse]). Results may come before the check's
// report or after it; where jobs upload results ([Snapshot.TestChecks]), a failure
// that nothing yet refutes waits two minutes for them. An upload that names no
// check clears nothing. Results count for their own attempt: as many attempts must
// have uploaded as are known to have ended. Once a run has failed, results change
// nothing. Once it has passed, more results of the same attempts that block take
// the pass back (PROOF_LOST) until its landing has begun, and it is tested again.
//
// Several jobs may upload under one check's name. Nobody says how many there will
// be, so the check is cleared by those that are there when it has failed: such a
// check should be one that ends after them.
//
// # What is promised
//
// The last step of every landing was tested as that very tree with all required
// checks passed, or cleared by quarantine. A pull request lands at most once, at the head that was tested,
// and never after a cancellation recorded before its landing began. Every
// submission ends merged, failed or cancelled, with a reason. Overlapping
// entries land in line order. No run starts above the limits. Nobody is blamed
// on a base that fails without them. Paused means that no landing starts. n pull
// requests of which f fail cost at most (n + f(b-1))(1 + f) + f(2b-2) runs in
// batches of b, unless somebody interferes or CI changes its mind: n when all pass
// (in an adaptive queue a run more for each that was on probation).
// Package sim holds all of it after every decision of random histories.
//
// # Where to change what
//
// An order: [Compare]. A legal move: [Transitions], with the script in testdata
// that takes it. A reason: reason.go. What a word of CI means: verdict.go. When
// an entry may start: build.go. What goes together: form.go. How a culprit is
// found: bisect.go. Who is expected to fail: chance.go, and what follows:
// probation.go. What may land together: land.go. Words for people about
// where an entry stands: [Explain].
//
// # What was chosen where nothing was given
//
//   - The move to testing carries the reason TEST_RUN_STARTED.
//   - A report on a required check that never comes, while nothing else runs on
//     the commit, counts as never started after 30 minutes, also when other
//     checks did report.
//   - A landing whose outcome nobody knows is repeated, with pauses of up to
//     five minutes, for as long as the host does not answer: until then nothing
//     else can be decided. A repetition finds out first what happened before.
//     While the target does not exist that cannot be found out: it counts as no
//     answer, for half an hour. Then the branch is gone for good, the landing
//     ends, and who wants to leave can.
//   - A merge call of the host's that hung may be carried out when its landing has
//     been given up. Then it has landed (LANDED_LATE), also when its submission
//     had failed or been cancelled, and everything is tested again: see late.go.
//   - While somebody may have moved the target, nothing new begins until it has
//     been read.
//   - During a mode switch, asking for the old mode is refused like any other.
//   - A cancellation during a landing is refused as too late, but remembered: if
//     the landing does not happen, the entry leaves.
//   - A stack is the pull request that is asked for and all that it is based on,
//     down to the queue's branch. It is one entry and lands as one commit (with
//     rebase, as all its commits): so every mode, batches, bisections and both
//     ways of landing work with it as with any entry, and it fails as a whole.
//     A pull request beneath its top has no entry of its own meanwhile.
//   - An entry that came back from a bisection never waits for a batch to fill, but
//     in an adaptive queue, where many come back when slots are scarce.
package queue
