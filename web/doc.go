// Package web shows the queues to people and lets them act: pages for each
// queue, for each pull request in it and for each of its test runs, so that
// every link that we post leads somewhere. Pages are rendered on the server,
// are of use without a script, and load nothing from elsewhere.
//
// A page is made in three steps that stay apart: a handler reads the store, a
// pure function turns what was read into the page's view (all decisions about
// words, links and the places of a picture are there), and a template lays the
// view out. What an entry waits for is said by queue.Explain alone, as in
// comments and in the API.
//
// An open page follows its queue: one loop hears from the storage that
// something has changed, reads the versions of all queues once, and tells each
// open page of a queue with a new version over a stream of server-sent events.
// The script of ours then asks for the page again and replaces what differs.
//
// # Who sees and does what
//
// People sign in with the Git host, which is asked what they may see, every
// few minutes, and what they may do, at each deed; what they may not see does
// not exist for them. The cookie of a session is random, kept hashed, and
// given to no script and no other site. A deed is the POST of a form with a
// token of the session, sent from one of our pages as the browser says. Where
// nobody signs in, pages can only be read, except by whoever sits at the
// machine.
//
// Everything that comes from a pull request is hostile: templates escape it,
// and the content security policy allows no script but the one file of ours.
package web
