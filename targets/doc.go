// Package targets finds out which targets a change impacts. In a queue in
// parallel mode pull requests wait for each other only where they share one.
//
// What a target is, is up to the repository: a folder, a set of globs
// ([Rules]), a Go package ([GoPackages]), or whatever a build tool calls so
// ([Read]). The result is a [Set]: names, each with the file that is why.
//
// Wherever something is unclear (a file that no rule knows, a change of the
// rules themselves, more targets than may be uploaded) the answer is that
// everything is impacted. That costs waiting; the opposite would let two changes
// land that were never tested together.
//
// The package reads what it is given and touches nothing else; the command line
// runs git and the build tools.
package targets
