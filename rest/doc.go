// Package rest is the /v1 API: JSON over HTTP for programs that submit pull
// requests, watch them and configure queues.
//
// Every handler is four lines of thought: decode, validate, call, encode. What
// all of them share stands in front of them, in this order, so that a request
// with several faults always gets the same answer:
//
//	path 404 · method 405 · token 401 · rate 429 · scope 403 ·
//	content type 415 · size 413 · JSON 400 · fields 400 · existence 404
//
// # What a request may look like
//
// The body is one JSON object in UTF-8. Names are matched exactly. Unknown
// fields are ignored, because clients send extra ones, but they must be JSON
// all the same. A field that we know and that stands there twice is refused:
// two readers of such a body would not agree on what it asks for. Null in an
// optional field counts as absent. NUL characters, surrogates without a
// partner and bytes that are not UTF-8 are refused wherever they stand.
// Nesting deeper than [maxDepth] is refused.
//
// An integer is judged by its value, as JSON Schema does: 1.0, 1e0 and 10e-1
// are all the integer 1, because JSON has one kind of number and programs
// whose numbers are floats write whole ones in any of these ways. -0 is 0. A
// value with a fraction (1.5) is refused, and so is one out of range, however
// it is written; nothing is ever rounded through a float.
//
// # What belongs to somebody else
//
// Everything is looked up within the organisation of the token. What another
// organisation owns is not found by the same query that does not find what
// does not exist, so that there is no way to tell one from the other.
package rest
