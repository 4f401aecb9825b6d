package queue

import (
	"cmp"
	"strings"
)

// Compare is the order of free pending entries; the whole order is this one
// function, and the store's ORDER BY repeats it.
//
//  1. urgent entries
//  2. entries that returned from a bisection, in their old order
//  3. the lower priority value
//  4. the earlier admission (for entries not admitted, submission)
//  5. the earlier submission
//  6. the id, so that no two entries are ever equal
func Compare(a, b *Entry) int {
	if c := first(a.Priority == Urgent, b.Priority == Urgent); c != 0 {
		return c
	}
	if c := returned(a, b); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
		return c
	}
	if c := a.AdmittedAt.Compare(b.AdmittedAt); c != 0 {
		return c
	}
	if c := a.SubmittedAt.Compare(b.SubmittedAt); c != 0 {
		return c
	}
	return strings.Compare(string(a.ID), string(b.ID))
}

// first orders what has a quality before what has not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func returned(a, b *Entry) int {
	if a.Returned == 0 || b.Returned == 0 {
		return first(a.Returned != 0, b.Returned != 0)
	}
	return cmp.Compare(a.Returned, b.Returned)
}
