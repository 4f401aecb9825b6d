// Package mirror keeps one local bare clone of each repository and makes,
// with the git program, the commits that a merge queue tests and lands.
//
// # What it makes
//
// A chain begins on a commit of the target branch and has one step for each
// pull request. What a step is depends on the merge method:
//
//	merge_commit  one commit with two parents: the chain so far, the PR's head
//	squash        one commit on the chain so far with everything the PR changes
//	rebase        the PR's own commits, merges left out, replayed one by one
//
// Merges are made by "git merge-tree --write-tree" and commits by "git
// commit-tree", so there is no work tree, no hook and no filter that a pull
// request could reach. git 2.39 has no "merge-tree --merge-base"; replaying a
// commit C with parent P on T is therefore a merge of C with a synthetic
// commit that has T's tree and the parent P, so that their merge base is P.
//
// A pull request that changes nothing still makes a commit: a merge commit,
// or an empty one for squash, and for rebase when nothing is left to replay.
// Every step has a commit of its own; nothing is silently left out. Commits
// that become empty while they are replayed are dropped, as GitHub does.
//
// # The same input makes the same commits
//
// Nothing that goes into a commit comes from the clock or from this machine:
// the committer is fixed, and the committer date is the newest of those of the
// parents and of the pull request's head. Whoever builds the same chain again,
// here or in another copy of the program, gets the same commit ids, so a
// repetition after an unknown outcome finds its branches in place. A body that
// is taken from the description (see [Source]) is the exception: an edit in
// between makes other commits with the same trees.
//
// With a signing key every commit that may land is signed, by git and
// ssh-keygen. Only keys that sign alike each time are taken.
//
// # What goes over the network
//
// Heads of pull requests are fetched as refs/pull/N/head, the target as a
// branch, other commits by id. One push publishes many branches. The token
// reaches git through its environment only. Clones are partial
// (--filter=blob:none) where the server can do that: contents are fetched
// when a merge needs to look into them. A failure to fetch is never taken for
// a conflict.
//
// The mirror is a cache. It is rebuilt when it is lost or broken, or grows
// above its cap, and everything in it can be fetched again. Work on one
// repository happens one at a time, held by a lock in the process and a file
// lock between processes.
//
// The first copy of a repository, all commits and trees of its default branch,
// can take longer than any attempt may. It runs in the background, outlives
// the attempts that wait for it, and is told to them as a [CloningError]. It is
// kept between attempts, not between runs of the program: git cannot go on
// with half a fetch.
//
// # What git is kept from
//
// Everything that people write, and every file, is data. Git sees nothing of
// the server's environment but how to find programs, proxies and certificates;
// no configuration but ours; no hook, filter, driver, replacement object or
// credential helper; no protocol but http and https; no redirect. Each run has
// a process group, a time, an amount of output and, for a merge, an amount of
// memory, and what outlives its time ends with it. Names and ids are checked
// before they reach a command line, and stand behind --end-of-options there.
package mirror
