// Package api is the /v1 API as its callers see it: a [Client] that asks until
// there is an answer, the answers that the command line reads, and errors that
// tell a refusal ([Error]) from silence ([Unreachable]).
//
// Package rest is the other side. The two share no code, as clients that others
// write share none with it: what only one of them changes is noticed.
package api
