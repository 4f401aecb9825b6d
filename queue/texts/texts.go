// Package texts has every text that people read on a pull request: comments,
// replies, status checks, labels, and what the pull requests of test branches
// say. Whoever writes there asks here what to write, so that the tone is one
// and is judged in one place.
//
// It is a package and not one file because one would be too long to read:
//
//	sticky.go   the comment that always tells how things are
//	notice.go   the one new comment on an ending
//	endings.go  why a submission ended, and what to do now
//	reply.go    answers to commands
//	check.go    the status check
//	landing.go  what is written while something lands, and on test branches
//	labels.go   the labels of states
//	inert.go    how words of others are shown
//
// Everything here is pure: what a text tells is in its arguments, most often a
// [View]. What comes out is kept in testdata, one file each, and is to be
// judged as prose when it changes.
package texts

import (
	"fmt"
	"strings"
)

// Marker is in every comment of ours, so that what we wrote is recognised.
const Marker = "<!-- signalbox:"

// lines is a text that is written line by line.
type lines struct{ strings.Builder }

func (b *lines) line(format string, args ...any) {
	fmt.Fprintf(b, format, args...) // as it is, or go vet would not look at the formats
	b.WriteByte('\n')
}
