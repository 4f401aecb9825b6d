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
package sim
