// Package web shows the queues to people: one page for each queue, for each
// pull request in it and for each of its test runs, so that every link that we
// post leads somewhere. Pages are rendered on the server, need no script and
// load nothing from elsewhere.
//
// A page is made in three steps that stay apart: a handler reads the store, a
// pure function turns what was read into the page's view (all decisions about
// words and links are there), and a template lays the view out. What an entry
// waits for is said by queue.Explain alone, as in comments and in the API.
//
// Everything that comes from a pull request is hostile: templates escape it,
// and the content security policy allows no script at all.
package web
