package db

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// Rows are written many at once, as one JSON parameter that Postgres takes
// apart (json_populate_recordset), and read column by column. The types here
// do both.

// encode writes v as JSON that Postgres accepts: without NUL, which no text
// of Postgres can hold, and in valid UTF-8.
func encode(v any) (string, error) {
	text, err := json.Marshal(v) // replaces invalid UTF-8
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return string(withoutNUL(text)), nil
}

// withoutNUL removes the escape \u0000 from JSON text, and only that: in
// \\u0000 the backslash itself is escaped.
func withoutNUL(text []byte) []byte {
	nul := []byte(`\u0000`)
	if !bytes.Contains(text, nul) {
		return text
	}
	kept := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\' || i+1 == len(text):
			kept = append(kept, text[i])
		case bytes.HasPrefix(text[i:], nul):
			i += len(nul) - 1
		default:
			kept = append(kept, text[i], text[i+1])
			i++
		}
	}
	return kept
}

// clean makes a text acceptable to Postgres, for parameters that are texts: as
// encode does it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == 0 {
			return -1
		}
		return r // U+FFFD for each invalid byte
	}, s)
}

// stamp is a time; the zero time is NULL.
type stamp time.Time

// latest is the last moment that JSON, Go and Postgres all can write.
var latest = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func (s stamp) time() time.Time {
	t := time.Time(s)
	if t.IsZero() {
		return t
	}
	t = t.UTC().Truncate(time.Microsecond)
	if t.After(latest) {
		return latest
	}
	return t
}

// Value makes a stamp a parameter.
func (s stamp) Value() (driver.Value, error) {
	if t := s.time(); !t.IsZero() {
		return t, nil
	}
	return nil, nil
}

// Scan reads a timestamptz.
func (s *stamp) Scan(src any) error {
	switch t := src.(type) {
	case nil:
		*s = stamp{}
	case time.Time:
		*s = stamp(t.UTC())
	default:
		return fmt.Errorf("scan time: %T", src)
	}
	return nil
}

// MarshalJSON writes a stamp as a column of a row.
func (s stamp) MarshalJSON() ([]byte, error) {
	if t := s.time(); !t.IsZero() {
		return t.MarshalJSON()
	}
	return []byte("null"), nil
}

// document is a value kept as jsonb; nil pointers are NULL.
type document[T any] struct{ v T }

// Scan reads a jsonb.
func (d *document[T]) Scan(src any) error {
	var zero T
	d.v = zero
	switch text := src.(type) {
	case nil:
		return nil
	case []byte:
		return json.Unmarshal(text, &d.v)
	default:
		return fmt.Errorf("scan jsonb: %T", src)
	}
}

// MarshalJSON writes a document as a column of a row.
func (d document[T]) MarshalJSON() ([]byte, error) { return json.Marshal(d.v) }

// optional is a UUID that may be none: "" is NULL.
type optional string

// Scan reads a uuid.
func (o *optional) Scan(src any) error {
	switch text := src.(type) {
	case nil:
		*o = ""
	case []byte:
		*o = optional(text)
	default:
		return fmt.Errorf("scan uuid: %T", src)
	}
	return nil
}

// MarshalJSON writes an optional as a column of a row.
func (o optional) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(o))
}

// texts is a text[] or uuid[]; it is never NULL, and read back as nil when empty.
type texts []string

// Scan reads an array.
func (t *texts) Scan(src any) error {
	if err := (*pq.StringArray)(t).Scan(src); err != nil {
		return err
	}
	if len(*t) == 0 {
		*t = nil
	}
	return nil
}

// MarshalJSON writes an array as a column of a row.
func (t texts) MarshalJSON() ([]byte, error) {
	if len(t) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]string(t))
}

// numbers is a bigint[], like texts.
type numbers []int64

// Scan reads an array.
func (n *numbers) Scan(src any) error {
	if err := (*pq.Int64Array)(n).Scan(src); err != nil {
		return err
	}
	if len(*n) == 0 {
		*n = nil
	}
	return nil
}

// MarshalJSON writes an array as a column of a row.
func (n numbers) MarshalJSON() ([]byte, error) {
	if len(n) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]int64(n))
}

// texted and retyped turn slices of named strings into slices of strings and back.
func texted[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}

func retyped[T ~string](in []string) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}

// numbered and renumbered do so for numbers.
func numbered[T ~int64](in []T) []int64 {
	out := make([]int64, len(in))
	for i, v := range in {
		out[i] = int64(v)
	}
	return out
}

func renumbered[T ~int64](in []int64) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}

// unlessEmpty is nil for an empty list, as lists of rows are read back.
func unlessEmpty[T any](in []T) []T {
	if len(in) == 0 {
		return nil
	}
	return in
}

// isUUID reports whether Postgres takes the text as a uuid and gives the same
// text back.
func isUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// uuidsOf keeps the UUIDs of a list that comes from outside: anything else is
// the id of nothing, and would fail a whole statement.
func uuidsOf[T ~string](in []T) pq.StringArray {
	out := pq.StringArray{}
	for _, v := range in {
		if isUUID(string(v)) {
			out = append(out, string(v))
		}
	}
	return out
}
