// Package report reads what test runners write: JUnit XML in every dialect,
// go test -json, CTRF, Bazel's build event protocol, and the bundles of the
// analytics CLI. Whatever comes is read as far as it makes sense; what did not
// is noted, so that people can be told and a report that is not whole never
// makes anything green.
//
// A scanner streams: it hands each [Case] to a function and keeps nothing, so
// that its memory does not depend on the size of the report. A [Collector] puts
// the cases of one upload together: attempts of one test become one result.
//
// Everything read here comes from outside. Nothing in it is expanded, fetched,
// executed or used as a path; sizes, depths and counts are bounded.
package report
