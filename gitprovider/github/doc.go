// Package github is the Git host GitHub: github.com, an Enterprise Server, or
// the simulated GitHub of the tests and the demo. Only the addresses differ.
//
// # Reads and writes
//
// [Client] implements gitprovider.Host with GitHub's REST API, with GraphQL where
// one call does what takes several by REST, and, for everything that makes or moves
// commits, with git in a local mirror (see package mirror). Every installation of the App has a token, a limiter and a
// cache of its own. Reads carry the ETag of the last answer, so that
// "unchanged" is free. Work that meets a limit waits, as long as its context
// allows; it is never dropped.
//
// # What a repetition finds
//
//	Build    the same branches (the commits are the same), the same draft
//	         pull requests (found by their branch)
//	Stop     what is gone is fine
//	Land     reads the pull requests and the target first, and reports what
//	         an earlier attempt landed: exact landings by their commits in the
//	         target's first-parent history, host landings by the merge commit
//	         that the host names for the pull request
//	Tell     the comment with the marker, edited once more, and the App's check
//	         run of that name on that commit, updated
//	Notice   the comment with the marker, left alone
//	React    the same reaction, which the host keeps once
//
// A call whose outcome is unknown (time-out, broken connection, 5xx) is never
// repeated blindly: Land reads back what became of it and decides then.
//
// # Rules
//
// The App may be exempt from the host's rules so that it can land exactly what
// was tested. An exemption skips rules silently, so Land checks the rules that
// it knows by itself: required checks on the tested commit and on the pull
// request's head, approvals, requested changes. Where Mergeability meets a rule
// that it cannot judge and the host says "blocked", the answer is not
// mergeable, and names the rule. It errs on that side: an administrator can
// force, nobody can take back what has landed.
//
// # Errors
//
// Kinds come from status codes and fields: 404 and 410 are gone, 401 and 403
// denied (with the permission that the host names), 409 stale, 422 denied
// where no method knows better, and everything else is transient.
package github
