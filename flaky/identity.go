package flaky

import (
	"crypto/sha1"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Test is what a report says of who a test is. Two reports speak of the same
// test if all of it is the same, its parameters too, which are part of the
// name. What is unknown is "".
type Test struct {
	Org  string // the organisation's slug
	Repo string // "host/owner/name"

	File      string
	Classname string
	Parent    string // name of the outermost suite
	Name      string
	// Variant tells apart runs of the same test in several settings, such as
	// operating systems.
	Variant string

	// Given is the id that the report itself has for the test. A version 5
	// UUID is believed, and an id that starts with "trunk:" is hashed in place
	// of the names; others are ignored.
	Given string
}

// caseKind ends the hashed names. It is part of every id that the analytics
// CLI has ever sent, so it stays.
const caseKind = "JUNIT_TESTCASE"

// ID is the test_case_id: the version 5 UUID, in the URL namespace, of the names
// joined by "#". The analytics CLI makes it the same way, so that ids made
// there and here are equal.
func (t Test) ID() uuid.UUID {
	if id, ok := t.given(); ok {
		return id
	}
	parts := []string{t.Org, t.Repo, t.File, t.Classname, t.Parent, t.Name, caseKind}
	if t.Variant == "" {
		return hashed(parts...)
	}
	base := hashed(append(parts, t.Variant)...)
	return hashed(base.String(), t.Variant)
}

// given is the id that the report brought, if it is of a kind that is believed.
func (t Test) given() (uuid.UUID, bool) {
	if strings.HasPrefix(t.Given, "trunk:") {
		parts := []string{t.Org, t.Repo, t.Given}
		if t.Variant != "" {
			parts = append(parts, t.Variant)
		}
		return hashed(parts...), true
	}
	id, err := uuid.Parse(t.Given)
	if err != nil || id.Version() != 5 {
		return uuid.UUID{}, false
	}
	if t.Variant != "" {
		return hashed(t.Given, t.Variant), true
	}
	return id, true
}

func hashed(parts ...string) uuid.UUID {
	// As uuid.NewSHA1 does it, without what that allocates: a report has
	// thousands of tests.
	text := append(make([]byte, 0, 512), uuid.NameSpaceURL[:]...)
	for i, p := range parts {
		if i > 0 {
			text = append(text, '#')
		}
		text = append(text, p...)
	}
	sum := sha1.Sum(text)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 5<<4 // version 5
	id[8] = id[8]&0x3f | 0x80 // of RFC 9562
	return id
}

// ShownLength is how many characters of a name are kept to be shown. The
// identity is made of the whole name, so two long names that begin alike are
// still two tests.
const ShownLength = 1000

// Shown cuts a name to [ShownLength] characters. The last one says that it was
// cut.
func Shown(name string) string {
	if len(name) <= ShownLength || utf8.RuneCountInString(name) <= ShownLength {
		return name
	}
	n := 0
	for i := range name {
		if n++; n == ShownLength {
			return name[:i] + "…"
		}
	}
	return name
}
