package rest

import (
	"strconv"
	"time"
)

// moment is a time as every response writes it: RFC 3339, UTC, milliseconds.
type moment time.Time

const momentLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the moment.
func (m moment) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, time.Time(m).UTC().Format(momentLayout)), nil
}

// momentOrNull is nil, which is written as null, for a time that is not known
// or that RFC 3339 has no year for.
func momentOrNull(t time.Time) *moment {
	if t.IsZero() || t.UTC().Year() > 9999 {
		return nil
	}
	m := moment(t)
	return &m
}

// list is xs, or an empty list where there is none: arrays are never null.
func list[T any](xs []T) []T {
	if xs == nil {
		return []T{}
	}
	return xs
}

// valueOrNull is nil, which is written as null, for the zero value.
func valueOrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
