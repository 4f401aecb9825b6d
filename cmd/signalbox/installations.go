package main

import (
	"slices"

	"signalbox/account"
)

// changes are what must be told to storage when the host lists what the App is
// installed on. before is what storage knew when the host began its answer:
// only what was known then and is not in the answer has been removed. What
// came in between is no business of this answer.
func changes(before, answer []account.Connection) []account.Connection {
	known := map[int64]account.Connection{}
	for _, c := range before {
		known[c.Installation.ID] = c
	}
	var out []account.Connection
	for _, c := range answer {
		was := known[c.Installation.ID]
		delete(known, c.Installation.ID)
		if c.Complete {
			c.Complete = false
			for _, r := range was.Added {
				if !slices.ContainsFunc(c.Added, func(now account.Repository) bool { return now.HostID == r.HostID }) {
					c.Removed = append(c.Removed, r)
				}
			}
		}
		out = append(out, c)
	}
	for _, c := range before {
		if _, gone := known[c.Installation.ID]; gone {
			out = append(out, account.Connection{Installation: c.Installation, Deleted: true})
		}
	}
	return out
}
