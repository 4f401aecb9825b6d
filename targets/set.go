package targets

import (
	"fmt"
	"maps"
	"slices"
)

// The most targets, and bytes of their names as JSON, that one upload may have.
const (
	MaxTargets = 1_000_000
	MaxBytes   = 18 << 20
)

// Set are impacted targets. The zero Set is empty. It takes bounded memory: what
// would be more than may be uploaded is everything.
type Set struct {
	everything string // why all are impacted; "" = not all are
	why        map[string]Cause
	bytes      int
}

// Cause is why a target is impacted.
type Cause struct {
	File string // the first that changed; "" = a tool said so
	More int    // how many more did
}

// Add has a target be impacted by a file, "" if a tool says so. ALL and
// IMPACTS_ALL are everything.
func (s *Set) Add(target, file string) {
	if s.everything != "" {
		return
	}
	if target == "ALL" || target == "IMPACTS_ALL" {
		s.Everything(reason(file, "the list says so"))
		return
	}
	cause, known := s.why[target]
	switch {
	case known:
		cause.More++
	case len(s.why) == MaxTargets || s.bytes+len(target)+8 > MaxBytes:
		s.Everything(fmt.Sprintf("there are more than %d targets, or their names are longer than %d MiB", MaxTargets, MaxBytes>>20))
		return
	default:
		if s.why == nil {
			s.why = map[string]Cause{}
		}
		s.bytes += quoted(target) + 1
		cause.File = file
	}
	s.why[target] = cause
}

// quoted bounds how long a text is as a string of JSON.
func quoted(text string) int {
	n := 2
	for _, b := range []byte(text) {
		switch {
		case b < ' ' || b == '<' || b == '>' || b == '&':
			n += 6
		case b == '"' || b == '\\' || b >= 0x80: // U+2028 is three bytes and becomes six
			n += 2
		default:
			n++
		}
	}
	return n
}

func reason(file, otherwise string) string {
	if file == "" {
		return otherwise
	}
	return file + " changed"
}

// Everything has all targets be impacted, and says why. The first reason counts.
func (s *Set) Everything(why string) {
	if s.everything == "" {
		s.everything, s.why = why, nil
	}
}

// All reports whether everything is impacted, and why.
func (s *Set) All() (why string, all bool) { return s.everything, s.everything != "" }

// Names are the impacted targets in order; none if everything is.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.why)) }

// Why is why a target is impacted.
func (s *Set) Why(target string) Cause { return s.why[target] }

// Len is how many targets are impacted, 0 if everything is.
func (s *Set) Len() int { return len(s.why) }
