// Package sim is a world for package queue to live in, without network,
// database or clock: a Git host with trees and commits, people who open, push
// and comment, a CI that judges trees, and virtual time. The scripts of
// package queue's tests, its property tests and its simulations all run in it.
//
// A [World] does what the service does: it hands facts to queue.Reconcile,
// keeps what the plan says, performs the actions, and hands back what came of
// them. Facts and plans go through JSON and through copies on the way, so that
// nothing works here that could not work over a database.
//
// The CI rule. For each check name, a tree fails when any file under
// .ci-sim/<check>/ lists (one path a line) only paths that exist in the tree;
// an empty file always fails. So a change that fails alone, and two that break
// only together, are one file each.
//
// # How good is the queue?
//
// The second half of the package is a benchmark. [Generate] makes a [Workload] of
// a [Cell]: changes with times of arrival, lengths of tests, impacted targets,
// and the truth about what fails and what breaks together. [Play] lets a [Policy]
// work on it in virtual time, with so many workers of CI, and measures; what every
// policy must keep (only what passed lands, as it was tested, and once) is held on
// the way. [Engine] is package queue itself, driven as the service drives it:
// windows and facts in, plans out. [Others] are the policies of other queues,
// written from what is published. [Compare] plays all of them on the same
// workloads and divides by what an oracle would do ([Workload.Bounds]).
//
// A tree is a set of changes there, and CI is a function of it: a change fails by
// itself, with another one, or by a flake that is drawn for the tree and the attempt.
package sim
